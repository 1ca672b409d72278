"""A crash at every storage operation of commit, checkpoint and cleanup, one by one.

Whatever a process was doing when it died, and whether its last operation still took effect or not: the
table opens at the version before or at the one after, with exactly that version's files, proves clean, and
the next process carries on.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import pytest

from support.tables import (
    DAY,
    LOG,
    RawTable,
    State,
    Wire,
    add,
    domain,
    metadata,
    remove,
    seen,
    stats,
    txn,
    vector,
)
from tidegate.errors import NotATableError
from tidegate.log.checkpoint import write as writing
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.retention import clean_up
from tidegate.log.verify import verify
from tidegate.storage import StoreDied
from tidegate.transaction.transaction import Transaction

When = Literal["before", "after"]
KEEP = {
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
VECTORS = {"delta.enableDeletionVectors": "true"}
ROW_IDS = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}


@dataclass(frozen=True)
class Scenario:
    """A table to start from, and one thing that is done to it."""

    act: Callable[[RawTable], object]
    configuration: dict[str, str] = field(default_factory=dict)
    commits: tuple[tuple[Wire, ...], ...] = ()
    prepare: Callable[[RawTable], object] = lambda table: None
    days: bool = False

    def table(self) -> RawTable:
        table = RawTable()
        if self.commits or self.configuration:
            table.transact(metadata(configuration=self.configuration))
        for actions in self.commits:
            if self.days:
                table.clock.tick(DAY)
            table.transact(*actions)
        self.prepare(table)
        return table


def commit(*actions: Wire) -> Callable[[RawTable], object]:
    return lambda table: table.transact(*actions)


def commit_next_day(*actions: Wire) -> Callable[[RawTable], object]:
    def act(table: RawTable) -> object:
        table.clock.tick(DAY)
        return table.transact(*actions)

    return act


def file(name: str, rows: int = 10) -> Wire:
    return add(name, 100, stats=stats(rows))


def many(count: int) -> tuple[tuple[Wire, ...], ...]:
    return tuple((file(f"f{n}"), *([remove(f"f{n - 2}")] if n >= 2 else ())) for n in range(count))


def checkpoint(policy: str) -> Callable[[RawTable], object]:
    return lambda table: write_checkpoint(table.load(), policy=policy)


def v2_in_parquet(table: RawTable) -> None:
    snapshot = table.load()
    written = writing._write_v2(snapshot, "parquet")
    writing.publish_hint(snapshot, written.hint)


V2 = {"delta.checkpointPolicy": "v2"}

SCENARIOS = {
    "the first commit": Scenario(commit(metadata(), file("a"))),
    "an append": Scenario(commit(file("new")), commits=many(3)),
    "an append after a checkpoint": Scenario(
        commit(file("new")), commits=many(3), prepare=checkpoint("classic")
    ),
    "a delete": Scenario(commit(remove("f2")), commits=many(3)),
    "a new deletion vector": Scenario(
        commit(remove("f2"), add("f2", 100, dv=vector(), stats=stats())), VECTORS, many(3)
    ),
    "metadata, a transaction and a domain": Scenario(
        commit(metadata(configuration={"delta.feature.domainMetadata": "supported"}), txn("app", 1)),
        {},
        many(2),
    ),
    "row ids and in-commit timestamps": Scenario(commit(file("new")), ROW_IDS, many(3)),
    "a commit that checkpoints": Scenario(
        commit(file("new")), {"delta.checkpointInterval": "4"}, commits=many(3)
    ),
    "a commit that checkpoints in V2": Scenario(
        commit(file("new")), {"delta.checkpointInterval": "4", **V2}, commits=many(3)
    ),
    "a commit that compacts": Scenario(
        commit(file("new")), {"tidegate.logCompactionInterval": "4"}, commits=many(2)
    ),
    "a commit that checkpoints and cleans up": Scenario(
        commit_next_day(file("new")), {"delta.checkpointInterval": "3", **KEEP}, commits=many(8), days=True
    ),
    "a commit that checkpoints in V2 and cleans up": Scenario(
        commit_next_day(file("new")),
        {"delta.checkpointInterval": "3", **KEEP, **V2},
        commits=many(8),
        days=True,
    ),
    "a classic checkpoint": Scenario(checkpoint("classic"), commits=many(4)),
    "a V2 checkpoint": Scenario(checkpoint("v2"), V2, commits=many(4)),
    "a V2 checkpoint in parquet": Scenario(v2_in_parquet, V2, commits=many(4)),
    "a checkpoint over a checkpoint": Scenario(
        checkpoint("classic"), commits=many(4), prepare=checkpoint("classic")
    ),
    "a cleanup": Scenario(
        lambda table: clean_up(table.load()),
        {"delta.checkpointInterval": "2", "delta.enableExpiredLogCleanup": "false", **KEEP},
        commits=many(7),
        days=True,
    ),
    "a cleanup of V2 checkpoints": Scenario(
        lambda table: clean_up(table.load()),
        {"delta.checkpointInterval": "2", "delta.enableExpiredLogCleanup": "false", **KEEP, **V2},
        commits=many(7),
        days=True,
    ),
}
DEEPER = {
    "a long log that checkpoints and cleans up": Scenario(
        commit(file("new"), txn("app", 3)),
        {
            "delta.checkpointInterval": "5",
            "tidegate.logCompactionInterval": "3",
            **KEEP,
            **VECTORS,
            **ROW_IDS,
        },
        commits=many(24),
        days=True,
    ),
    "a long log in V2 that checkpoints and cleans up": Scenario(
        commit(file("new"), domain("user", "{}")),
        {
            "delta.checkpointInterval": "5",
            "delta.feature.domainMetadata": "supported",
            **KEEP,
            **V2,
            **ROW_IDS,
        },
        commits=many(24),
        days=True,
    ),
    "a wide commit": Scenario(
        commit(*(file(f"n{n}") for n in range(200))), {"delta.checkpointInterval": "3"}, many(2)
    ),
}


def state_of(table: RawTable) -> State | None:
    """What a reader sees, tombstones aside; None where there is no table."""
    try:
        return seen(table.load(), tombstones=False)
    except NotATableError:
        return None


def states(scenario: Scenario) -> tuple[RawTable, State | None, State | None, int]:
    """The table, what readers see before and after, and how many operations lie between."""
    table = scenario.table()
    before = state_of(table)
    done = table.survivor()
    scenario.act(done)
    operations = len(done.memory.journal)
    return table, before, state_of(done), operations


def crash(scenario: Scenario, table: RawTable, number: int, when: When) -> RawTable | None:
    """The table as a process leaves it that dies at operation ``number``; None if it lives."""
    dying = table.survivor()
    now = table.clock.now
    dying.memory.die_at(number, when=when)
    try:
        with pytest.MonkeyPatch.context() as patch:
            # The same ids every time, so that two crashes that leave the same bytes can be told.
            ids = itertools.count(1)
            patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(ids), version=4))
            scenario.act(dying)
    except StoreDied:
        return dying.survivor()
    finally:
        table.clock.now = now
    return None


def content(table: RawTable) -> dict[str, bytes]:
    return {n: table.bytes(n) for n in table.names()}


def prove(table: RawTable) -> None:
    report = verify(table.log, data=False)
    assert report.errors == (), report.errors


def carry_on(table: RawTable) -> None:
    """The next process: a commit, a checkpoint, a cleanup; nothing is in its way."""
    now = table.clock.now
    try:
        version = table.load().version
        committed = Transaction.begin(table.log, sleep=lambda _: None).commit([*_struct(file("after"))])
        assert committed.version == version + 1
        assert "after" in committed.snapshot.files().column("path").to_pylist()
        write_checkpoint(table.load())
        clean_up(table.load())
        assert "after" in table.load().files().column("path").to_pylist()
        prove(table)
    finally:
        table.clock.now = now


def _struct(*actions: Wire) -> list[object]:
    from support.tables import structs

    return structs(*actions)


def check_every_point(scenario: Scenario, when: When) -> None:
    table, before, after, operations = states(scenario)
    crashes = old = 0
    last: dict[str, bytes] | None = None
    for number in range(1, operations + 20):
        survivor = crash(scenario, table, number, when)
        if survivor is None:
            break
        crashes += 1
        found = state_of(survivor)
        assert found in (before, after), f"operation {number}: neither the old nor the new version"
        old += found == before
        if found is not None and content(survivor) != last:
            last = content(survivor)
            prove(survivor)
            carry_on(survivor)
    else:
        pytest.fail("it never came to its end")
    assert crashes >= 3
    assert old >= 1


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_scenario_does_what_it_is_called(name: str) -> None:
    table = SCENARIOS[name].table().survivor()
    SCENARIOS[name].act(table)
    done = [(o.op, o.name.removeprefix(f"{LOG}/")) for o in table.memory.journal]
    wrote = [n for op, n in done if op.startswith("put")]
    assert ("checkpoint" in name and "after a" not in name and "cleanup" not in name) == any(
        ".checkpoint." in n for n in wrote
    )
    assert ("V2" in name and "cleanup" not in name) == any(n.startswith("_sidecars/") for n in wrote)
    assert ("compacts" in name) == any("compacted" in n for n in wrote)
    assert ("clean" in name) == (len([op for op, _ in done if op == "delete"]) >= 5)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_at_any_operation_leaves_the_old_or_the_new_version(name: str, when: When) -> None:
    check_every_point(SCENARIOS[name], when)


@pytest.mark.deep
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", DEEPER)
def test_a_crash_at_any_operation_of_a_long_log_leaves_the_old_or_the_new_version(
    name: str, when: When
) -> None:
    check_every_point(DEEPER[name], when)


@pytest.mark.deep
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_second_crash_while_carrying_on_is_no_worse(name: str) -> None:
    """A process dies, and the one that follows it dies too, at every pair of operations that change bytes."""
    scenario = SCENARIOS[name]
    table, before, after, operations = states(scenario)
    for number in range(1, operations + 1):
        survivor = crash(scenario, table, number, "after")
        if survivor is None or state_of(survivor) is None:
            continue
        middle = state_of(survivor)
        for second in range(1, 60):
            dying = survivor.survivor()
            dying.memory.die_at(second, mutating=True, when="after")
            now = dying.clock.now
            try:
                Transaction.begin(dying.log).commit(_struct(file("second")))  # type: ignore[arg-type]
            except StoreDied:
                found = state_of(dying.survivor())
                assert found is not None
                assert found == middle or "second" in found.paths
                prove(dying.survivor())
            else:
                break
            finally:
                dying.clock.now = now
    assert before is not None or after is not None


@pytest.mark.parametrize("number", range(1, 12))
def test_a_failure_that_is_no_crash_leaves_the_old_or_the_new_version_too(number: int) -> None:
    """The store answers with an error once: the commit succeeds or raises a typed error, and means it."""
    from tidegate.errors import TidegateError

    for when in ("before", "after"):
        scenario = SCENARIOS["a commit that checkpoints"]
        table, before, after, _ = states(scenario)
        table.memory.fail_at(number, when=when)  # type: ignore[arg-type]
        try:
            scenario.act(table)
        except TidegateError:
            assert state_of(table.survivor()) in (before, after)
        else:
            assert state_of(table.survivor()) == after
        prove(table.survivor())


def test_a_reader_never_sees_a_name_that_is_half_written() -> None:
    """At every operation of a commit that checkpoints and cleans up, another reader looks."""
    scenario = SCENARIOS["a commit that checkpoints in V2 and cleans up"]
    table, before, after, _ = states(scenario)
    probe = RawTable(table.memory.handle(), table.clock)
    looks: list[State | None] = []
    table.memory.hook = lambda op, name: looks.append(state_of(probe))
    scenario.act(table)
    assert set(map(id, looks))
    assert all(found in (before, after) for found in looks)
    assert looks[0] == before
    assert looks[-1] == after
    assert not [n for n in table.names() if "tmp" in n]
    assert all(i.name.startswith(LOG) for i in table.store.list_from("", recursive=True))
