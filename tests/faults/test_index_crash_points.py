"""A crash at every storage operation on an index table, one by one: the old version or the new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from support.index_tables import SCHEMA, V2, RawIndex, adds, legacy, paths, split
from support.tables import DAY
from tidegate.errors import NotATableError, TidegateError
from tidegate.index.log import IndexLog
from tidegate.log.verify import verify
from tidegate.storage import StoreDied

When = Literal["before", "after"]
State = tuple[int, Any, list[str], list[str]] | None


@dataclass(frozen=True)
class Scenario:
    """A table to start from, and one thing that is done to it."""

    act: Callable[[IndexLog], Any]
    start: Callable[[], RawIndex]
    options: dict[str, Any] = field(default_factory=dict)


def filled(files: int = 4, **options: Any) -> Callable[[], RawIndex]:
    def make() -> RawIndex:
        table = RawIndex()
        log = table.log(checkpoint__enabled=False, **options)
        log.create(SCHEMA, ["day"])
        for n in range(files):
            table.split_file(f"{n}.split")
            log.append(adds(split(f"{n}.split", {"day": str(n % 2)}, docMappingJson='[{"name":"id"}]')))
        return table

    return make


def aged() -> RawIndex:
    table = filled(4)()
    log = table.log(checkpoint__enabled=False)
    log.checkpoint()
    table.split_file("merged.split")
    log.replace(["0.split", "2.split"], adds(split("merged.split", {"day": "0"})))
    log.checkpoint()
    table.split_file("orphan.split")
    table.clock.tick(40 * DAY)
    return table


def new(*names: str, **more: Any) -> Any:
    return adds(*(split(n, {"day": "1"}, **more) for n in names))


PARTS = {"checkpoint__multiPart__enabled": True, "checkpoint__actionsPerPart": 2}
SCENARIOS = {
    "creating": Scenario(lambda log: log.create(SCHEMA, ["day"]), RawIndex),
    "appending": Scenario(lambda log: log.append(new("n.split", **V2)), filled()),
    "overwriting": Scenario(lambda log: log.overwrite(new("n.split")), filled()),
    "merging": Scenario(lambda log: log.replace(["0.split", "2.split"], new("m.split")), filled()),
    "dropping partitions": Scenario(lambda log: log.drop_partitions("day = '1'"), filled()),
    "skipping": Scenario(lambda log: log.skip(["0.split", "1.split"], "bad"), filled()),
    "upgrading": Scenario(lambda log: log.upgrade_protocol(3, 3), filled()),
    "the first write of a legacy table": Scenario(lambda log: log.append(adds("n.split")), legacy),
    "an append that stores schemas once": Scenario(
        lambda log: log.append(new("n.split", docMappingJson="[]")),
        filled(),
        {"schemaDeduplication__enabled": True},
    ),
    "an append that checkpoints": Scenario(
        lambda log: log.append(new("n.split")), filled(), {"checkpoint__interval": 1}
    ),
    "an append that checkpoints compressed": Scenario(
        lambda log: log.append(new("n.split")),
        filled(),
        {"checkpoint__interval": 1, "transaction__compression__enabled": True},
    ),
    "a checkpoint": Scenario(lambda log: log.checkpoint(), filled()),
    "a checkpoint in parts": Scenario(lambda log: log.checkpoint(), filled(), PARTS),
    "an append that checkpoints in parts": Scenario(
        lambda log: log.append(new("n.split")), filled(), {"checkpoint__interval": 1, **PARTS}
    ),
    "truncating": Scenario(lambda log: log.truncate_history(), filled()),
    "purging": Scenario(lambda log: log.purge(), aged),
}


def state_of(table: RawIndex) -> State:
    """What a reader sees; None where there is no table."""
    try:
        found = table.log().snapshot()
    except NotATableError:
        return None
    files = sorted(found.files().column("path").to_pylist())
    return found.version, found.protocol, files, sorted(found.skips)


def check_every_point(scenario: Scenario, when: When) -> None:
    table = scenario.start()
    done = table.survivor()
    scenario.act(done.log(**scenario.options))
    # An act may be two commits, of which the first raises the protocol.
    allowed = [state_of(table), state_of(done)]
    if allowed[0] is not None and allowed[1] is not None:
        for version in range(allowed[0][0] + 1, allowed[1][0]):
            middle = done.log().snapshot(version=version)
            allowed.append((version, middle.protocol, paths(middle), sorted(middle.skips)))
    crashes = 0
    for number in range(1, 200):
        dying = table.survivor()
        dying.store.die_at(number, when=when)
        now = table.clock.now
        try:
            scenario.act(dying.log(**scenario.options))
        except StoreDied:
            pass
        else:
            break
        finally:
            table.clock.now = now
        crashes += 1
        left = dying.survivor()
        found = state_of(left)
        assert found in allowed, f"operation {number}: {found}"
        carry_on(left)
    else:
        pytest.fail("it never came to its end")
    assert crashes >= 2


def carry_on(table: RawIndex) -> None:
    """The next process proves the log, writes, checkpoints and reads."""
    if state_of(table) is None:
        table.log().create(SCHEMA, ["day"])
    assert verify(table.table_log(), data=False).errors == ()
    before = table.log().snapshot()
    values = {"day": "1"} if before.partition_columns else {}
    assert (
        table.log(checkpoint__enabled=False).append(adds(split("after", values))).version
        == before.version + 1
    )
    table.log().checkpoint()
    assert paths(table.log().snapshot()) == sorted([*paths(before), "after"])
    assert verify(table.table_log(), data=False).errors == ()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_at_any_operation_leaves_the_old_or_the_new_version(name: str, when: When) -> None:
    check_every_point(SCENARIOS[name], when)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_purge_or_a_crash_never_takes_a_split_that_a_version_needs(name: str) -> None:
    table = SCENARIOS[name].start()
    there = {i.name for i in table.store.handle().list_from("", recursive=True)}
    for number in range(1, 200):
        dying = table.survivor()
        dying.store.die_at(number)
        now = table.clock.now
        try:
            SCENARIOS[name].act(dying.log(**SCENARIOS[name].options))
        except StoreDied:
            pass
        else:
            break
        finally:
            table.clock.now = now
        left = dying.survivor()
        names = {i.name for i in left.store.handle().list_from("", recursive=True)}
        listing = left.table_log().listing()
        for version in sorted({*listing.commits, *(c.version for c in listing.checkpoints)}):
            try:
                live = paths(left.log().snapshot(version=version))
            except TidegateError:
                continue
            assert {p for p in live if p in there} <= names


@pytest.mark.parametrize("number", range(1, 10))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failure_that_is_no_crash_leaves_the_old_or_the_new_version_too(number: int, when: When) -> None:
    scenario = SCENARIOS["an append that checkpoints"]
    table = scenario.start()
    before = state_of(table)
    done = table.survivor()
    scenario.act(done.log(**scenario.options))
    table.store.fail_at(number, when=when)
    try:
        scenario.act(table.log(**scenario.options))
    except TidegateError:
        assert state_of(table.survivor()) in (before, state_of(done))
    else:
        assert state_of(table.survivor()) == state_of(done)


def test_an_answer_that_was_lost_is_recognised_by_the_bytes() -> None:
    """The put arrives, its answer does not: the commit is there once, and counts as done."""
    table = filled(1)()
    log = table.log(checkpoint__enabled=False)
    log.snapshot()
    table.store.journal.clear()
    log.append(new("probe.split"))
    put = [o.op for o in table.store.journal].index("put_if_absent") + 1
    table.store.fail_at(put, when="after")
    assert log.append(new("mine.split")).version == table.version
    assert paths(table.log().snapshot()).count("mine.split") == 1


def test_a_reader_never_sees_anything_half_done() -> None:
    scenario = SCENARIOS["an append that checkpoints in parts"]
    table = scenario.start()
    done = table.survivor()
    scenario.act(done.log(**scenario.options))
    probe = RawIndex(table.store.handle(), table.clock)
    seen: list[State] = []
    table.store.hook = lambda op, name: seen.append(state_of(probe))
    scenario.act(table.log(**scenario.options))
    versions = [s[0] for s in seen if s is not None]
    assert versions == sorted(versions)
    assert {len(s[2]) for s in seen if s is not None} <= {4, 5}
