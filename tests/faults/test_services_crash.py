"""A table service that dies at any storage operation leaves a sound table, and succeeds when run again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.lifetimes import Lifetime
from tidegate.commands.alter import set_properties
from tidegate.commands.clone import clone
from tidegate.commands.restore import restore
from tidegate.commands.vacuum import vacuum
from tidegate.errors import TidegateError
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.storage.memory import MemoryStore, StoreDied

Service = Callable[[TableLog], object]

SERVICES: dict[str, Service] = {
    "vacuum": vacuum,
    "vacuum lite": lambda log: vacuum(log, mode="lite"),
    "restore": lambda log: restore(log, version=3),
    "set properties": lambda log: set_properties(log, {"mine": "1"}),
    "track rows": lambda log: set_properties(log, {"delta.enableRowTracking": "true"}),
}


def _beside(log: TableLog) -> TableLog:
    assert isinstance(log.store, MemoryStore)
    return TableLog(log.store.handle("_clone", url="memory:///_clone"), clock=log.clock)


def _made() -> Lifetime:
    table = Lifetime()
    for _ in range(3):
        table.add(vector=True)
    table.update(0)
    table.remove(1)
    table.orphan()
    table.wait(200)
    table.add()
    return table


def _needed(table: Lifetime) -> set[str]:
    return table.needed(table.now - 168 * 3_600_000)


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_death_at_any_write_leaves_a_sound_table(name: str, when: str) -> None:
    for n in range(1, 30):
        table = _made()
        store = table.raw.memory
        store.die_at(n, mutating=True, when=when)  # type: ignore[arg-type]
        try:
            SERVICES[name](table.log)
        except (StoreDied, TidegateError):
            pass
        else:
            assert n > 1
            return
        left = store.survivor()
        log = TableLog(left, clock=table.log.clock)
        snapshot = load(log)
        assert snapshot.version >= len(table.versions) - 1
        names = {f.name for f in left.list_from("", recursive=True)}
        if name != "restore":
            assert _needed(table) <= names
        if name == "restore" and snapshot.history(1)[0]["operation"] == "RESTORE":
            continue
        SERVICES[name](log)
        load(log).files()
    raise AssertionError("the service has more steps than were tried")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_clone_is_there_or_it_is_not(when: str) -> None:
    for n in range(1, 10):
        table = _made()
        target = _beside(table.log)
        assert isinstance(target.store, MemoryStore)
        target.store.die_at(n, mutating=True, when=when)  # type: ignore[arg-type]
        try:
            clone(table.log, target)
        except (StoreDied, TidegateError):
            again = _beside(table.log)
            if not _exists(again):
                clone(table.log, again)
            assert load(again).num_files == load(table.log).num_files
        else:
            assert n > 1
            return
    raise AssertionError("the clone has more steps than were tried")


def _exists(log: TableLog) -> bool:
    try:
        load(log)
    except TidegateError:
        return False
    return True
