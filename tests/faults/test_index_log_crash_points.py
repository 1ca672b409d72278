"""A client of an index table that dies at any storage operation: nothing is half done, and again it works.

Every operation of the log, before and after each of its calls that change something; with large budgets
before each call that reads, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from support.index_tables import SCHEMA, RawIndex, adds, legacy, paths, split
from support.tables import DAY
from tidegate.errors import TidegateError, VersionNotFoundError
from tidegate.index.log import IndexLog
from tidegate.log.verify import verify
from tidegate.storage.memory import StoreDied

Act = Callable[[IndexLog], Any]
PARTS = {"checkpoint__multiPart__enabled": True, "checkpoint__actionsPerPart": 2}


def made() -> RawIndex:
    """Old versions, a checkpoint among them, splits that only they need, an orphan, and a recent commit."""
    table = RawIndex()
    log = table.log(checkpoint__enabled=False)
    log.create(SCHEMA, ["day"])
    for n in range(4):
        table.split_file(f"{n}.split")
        log.append(adds(split(f"{n}.split", {"day": str(n % 2)}, docMappingJson="[]")))
    log.remove(["0.split"])
    log.checkpoint()
    table.split_file("orphan.split")
    table.clock.tick(40 * DAY)
    table.split_file("new.split")
    log.append(adds(split("new.split", {"day": "1"})))
    return table


def new(path: str) -> Any:
    return adds(split(path, {"day": "0"}))


OPERATIONS: dict[str, tuple[Act, dict[str, Any]]] = {
    "append": (lambda log: log.append(new("more.split")), {}),
    "append with a checkpoint": (lambda log: log.append(new("more.split")), {"checkpoint__interval": 1}),
    "append with a checkpoint in parts": (
        lambda log: log.append(new("more.split")),
        {"checkpoint__interval": 1, **PARTS},
    ),
    "overwrite": (lambda log: log.overwrite(new("all.split")), {}),
    "merge": (lambda log: log.replace(["1.split", "3.split"], new("13.split")), {}),
    "drop partitions": (lambda log: log.drop_partitions("day = '1'"), {}),
    "skip": (lambda log: log.skip("2.split", "bad"), {}),
    "metadata": (lambda log: log.update_metadata(lambda m: m.with_configuration({"k": "v"})), {}),
    "upgrade": (lambda log: log.upgrade_protocol(3, 3), {}),
    "checkpoint": (lambda log: log.checkpoint(), {}),
    "checkpoint in parts": (lambda log: log.checkpoint(), PARTS),
    "truncate": (lambda log: log.truncate_history(), {}),
    "purge": (lambda log: log.purge(), {}),
}
# These may be done a second time where it was not known that they were done.
_AGAIN = ("drop partitions", "metadata", "upgrade", "checkpoint", "truncate", "purge")


def state(table: RawIndex) -> tuple[Any, ...]:
    found = table.log().snapshot()
    skipped = {p: s.skip_count for p, s in found.skips.items()}
    return paths(found), found.protocol, dict(found.configuration), skipped


def readable(table: RawIndex) -> dict[int, list[str]]:
    """The splits of every version that can be opened."""
    out = {}
    for version in range(table.version + 1):
        try:
            out[version] = paths(table.log().snapshot(version=version))
        except VersionNotFoundError:
            continue
    return out


def assert_whole(table: RawIndex, before: dict[int, list[str]], name: str) -> None:
    assert [f for f in verify(table.table_log(), data=False).findings if f.severity == "error"] == []
    stored = {i.name for i in table.store.handle().list_from("", recursive=True)}
    for version, live in readable(table).items():
        assert live == before.get(version, live), f"version {version} has changed"
        mine = [p for p in live if p in ("0.split", "1.split", "2.split", "3.split", "new.split")]
        assert set(mine) <= stored, f"version {version} names splits that are gone"
    if name not in ("truncate", "purge"):
        assert set(before) <= set(readable(table)), "a version that could be read is gone"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_death_at_any_call_leaves_the_table_as_it_was_or_as_it_shall_be(
    name: str, when: Any, deep: bool
) -> None:
    act, options = OPERATIONS[name]
    first = made()
    before, versions = state(first), readable(first)
    act(first.log(**options))
    after = state(first)
    assert_whole(first, versions, name)
    for n in range(1, 200):
        table = made()
        # Who dies before a change has made all changes before it: deaths at reads add nothing but time.
        table.store.die_at(n, mutating=not deep or when == "after", when=when)
        try:
            act(table.log(**options))
        except (StoreDied, TidegateError):
            pass
        else:
            if not table.store.dead:
                break
        left = table.survivor()
        found = state(left)
        # Who raises the protocol for a checkpoint in parts does that first, and by itself.
        assert found in (before, after) or (found[0], found[2:]) in (
            (s[0], s[2:]) for s in (before, after) if "parts" in name
        )
        assert_whole(left, versions, name)
        if found[0] == before[0] or name.startswith(_AGAIN):
            if name != "skip" or not found[3]:
                act(left.log(**options))
            again = state(left)
            assert (again[0], again[2:]) == (after[0], after[2:])
            assert_whole(left, versions, name)
    else:
        raise AssertionError("there are more calls than were tried")
    assert n > 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_first_write_of_a_legacy_table_says_its_protocol_with_its_splits_or_not_at_all(when: Any) -> None:
    for n in range(1, 60):
        table = legacy()
        table.store.die_at(n, when=when)
        with contextlib.suppress(StoreDied, TidegateError):
            table.log().append(adds("b.split"))
        found = table.survivor().log().snapshot()
        assert found.is_legacy == ("b.split" not in paths(found))
        if not table.store.dead:
            return
    raise AssertionError("there are more calls than were tried")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_repair_is_there_or_it_is_not(when: Any) -> None:
    source = made()
    for n in range(1, 60):
        target = RawIndex()
        target.store.die_at(n, when=when)
        try:
            source.log().repair(target.log())
        except (StoreDied, TidegateError):
            left = target.survivor()
            if not left.log().exists():
                source.log().repair(left.log())
            assert paths(left.log().snapshot()) == paths(source.log().snapshot())
        else:
            return
    raise AssertionError("there are more calls than were tried")
