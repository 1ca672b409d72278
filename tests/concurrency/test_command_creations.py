"""Tables that two make at one place at once: one of them makes it, the other is told, nothing is mixed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from support import log_commands, log_dml
from support.log_commands import now
from support.tables import Clock
from tidegate.commands.clone import clone
from tidegate.commands.convert import convert_folder
from tidegate.errors import (
    ConcurrentWriteException,
    MaintenanceRefusedError,
    ProtocolChangedException,
    TableExistsError,
)
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.storage.memory import MemoryStore

SOURCE = TableLog(log_commands.make({}), clock=now)
TOLD = (ConcurrentWriteException, MaintenanceRefusedError, ProtocolChangedException, TableExistsError)


def _convert(log: TableLog) -> bool:
    return convert_folder(log) > 0


def _clone(log: TableLog) -> bool:
    return clone(SOURCE, log, replace=True) is not None


def _folder() -> MemoryStore:
    """Parquet files that are no table yet."""
    made = log_commands.make({})
    made.delete([f.name for f in made.list_from("_delta_log")])
    made.delete(["an-orphan.parquet"])
    return made


def _attempt(work: Callable[[TableLog], bool], log: TableLog) -> bool:
    try:
        return work(log)
    except TOLD:
        return False


@pytest.mark.parametrize(("one", "other"), list(product([_convert, _clone], repeat=2)))
def test_of_two_that_make_a_table_at_one_place_one_does(
    one: Callable[[TableLog], bool], other: Callable[[TableLog], bool]
) -> None:
    points = 0
    came = True
    while came:
        store = _folder()
        made: list[bool] = []
        seen: list[str] = []

        def hook(
            op: str,
            name: str,
            number: int = points + 1,
            store: MemoryStore = store,
            made: list[bool] = made,
            seen: list[str] = seen,
        ) -> None:
            seen.append(name)
            if len(seen) == number:
                made.append(_attempt(other, TableLog(store.handle(), clock=now)))

        made.append(_attempt(one, TableLog(store.handle(hook=hook), clock=now)))
        came = len(seen) > points
        points += 1
        assert made.count(True) == 1, f"the other one before operation {points}"
        snapshot = load(TableLog(store, clock=now))
        assert snapshot.version == 0
        assert len({e["operation"] for e in snapshot.history()}) == 1
    assert points > 5


def test_a_clone_onto_an_empty_table_loses_to_whoever_fills_it() -> None:
    clock = Clock(now())
    store = MemoryStore(clock=clock)
    log_dml.create(TableLog(store, clock=clock))

    def fill(op: str, name: str) -> None:
        if op == "put_if_absent" and name.endswith("1.json"):
            log_dml.run(TableLog(store.handle(), clock=clock), log_dml.append([1, 2]))

    with pytest.raises(ConcurrentWriteException):
        clone(SOURCE, TableLog(store.handle(hook=fill), clock=clock), replace=True)
    snapshot = load(TableLog(store, clock=clock))
    assert (snapshot.version, snapshot.num_files) == (1, 1)
