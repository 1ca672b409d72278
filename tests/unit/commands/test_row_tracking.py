"""Row tracking that is switched on for a table with rows, while others do the same. No Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support import log_dml
from support.log_commands import now
from support.tables import Clock
from tidegate.commands import alter
from tidegate.commands.alter import set_properties
from tidegate.commands.removes import with_data_change
from tidegate.errors import DeltaConcurrentModificationException
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.storage.memory import MemoryStore
from tidegate.transaction.transaction import Transaction

ENABLED = {"delta.enableRowTracking": "true"}
Ids = dict[str, tuple[int | None, int]]


def table() -> TableLog:
    clock = Clock(now())
    log = TableLog(MemoryStore(clock=clock), clock=clock)
    log_dml.create(log)
    for rows in ([1, 2, 3], [4, 5, 6]):
        log_dml.run(log, log_dml.append(rows))
    return log


def ids(log: TableLog) -> Ids:
    files = load(log).files(columns=["path", "baseRowId", "defaultRowCommitVersion"]).to_pylist()
    return {f["path"]: (f["baseRowId"], f["defaultRowCommitVersion"]) for f in files}


def at_turn(monkeypatch: pytest.MonkeyPatch, number: int, work: Callable[[], object]) -> None:
    """Do ``work`` right after the next command has begun its transaction of this number."""
    begin, begun = alter.begin, [0]

    def beginning(log: TableLog) -> tuple[Transaction, Snapshot]:
        found = begin(log)
        begun[0] += 1
        if begun[0] == number:
            work()
        return found

    monkeypatch.setattr(alter, "begin", beginning)


@pytest.mark.parametrize("turn", [1, 2, 3, 4])
def test_of_two_who_number_the_rows_at_once_the_first_one_decides(
    monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    log = table()
    first: Ids = {}

    def other() -> None:
        set_properties(log, ENABLED)
        first.update(ids(log))

    at_turn(monkeypatch, turn, other)
    try:
        set_properties(log, ENABLED)
    except DeltaConcurrentModificationException:
        # Both brought the feature, or both set the property.
        assert turn in (2, 4)
    assert ids(log) == first
    assert sorted(base for base, _ in first.values() if base is not None) == [0, 3]
    assert load(log).metadata.configuration["delta.enableRowTracking"] == "true"
    log_dml.run(log, log_dml.append([7]))
    assert sorted(base for base, _ in ids(log).values() if base is not None) == [0, 3, 6]
    assert verify(log).findings == ()


def test_files_that_the_other_one_has_not_seen_are_numbered_after_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other one numbers part of them only, as one that works in batches does."""
    log = table()
    given: Ids = {}

    def part() -> None:
        transaction = Transaction.begin(log)
        some = load(log).files().slice(0, 1)
        transaction.read_files(some)
        transaction.commit(adds=with_data_change(some, False), operation="ROW TRACKING BACKFILL")
        given.update({p: i for p, i in ids(log).items() if i[0] is not None})

    at_turn(monkeypatch, 3, part)
    set_properties(log, ENABLED)
    assert len(given) == 1
    assert given.items() <= ids(log).items()
    assert None not in {base for base, _ in ids(log).values()}
    assert verify(log).findings == ()
