"""VACUUMs that are under way, as RESTORE sees them. No Spark."""

from __future__ import annotations

import pytest

from support.lifetimes import HOUR, Lifetime
from tidegate.commands.restore import restore
from tidegate.errors import ConcurrentWriteException
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Transaction

WEEK = 168
# What a VACUUM says of itself: S and its retention in hours when it starts, E when it ends.
Said = list[tuple[str, int]]


def _table(said: Said) -> Lifetime:
    """A table whose file was removed an hour before the first of some VACUUMs, of half an hour each."""
    table = Lifetime()
    table.add()
    table.remove(0)
    table.wait(1)
    for what, hours in said:
        parameters = {"specifiedRetentionMillis": hours * HOUR} if what == "S" else {"status": "COMPLETED"}
        operation = Operation("VACUUM START" if what == "S" else "VACUUM END", parameters)
        table.raw.clock.tick(HOUR // 2)
        Transaction.begin(table.log, hooks=()).commit([], operation)
    return table


@pytest.mark.parametrize(
    "said",
    [
        [("S", 0)],
        [("S", 0), ("S", WEEK)],
        [("S", WEEK), ("S", 0)],
        [("S", WEEK), ("S", 0), ("S", WEEK)],
        [("S", 0), ("S", WEEK), ("S", WEEK), ("E", 0)],
        # Whose end it is, is not known: the one that deletes the young files may go on.
        [("S", WEEK), ("S", 0), ("E", 0)],
        # An end of one that began before all that is looked at.
        [("E", 0), ("S", 0), ("S", WEEK), ("E", 0)],
    ],
)
def test_a_file_does_not_come_back_while_any_of_several_vacuums_may_delete_it(said: Said) -> None:
    with pytest.raises(ConcurrentWriteException, match="VACUUM has started"):
        restore(_table(said).log, version=1)


def test_the_vacuum_that_deletes_the_youngest_files_is_named() -> None:
    with pytest.raises(ConcurrentWriteException, match=r"version 4\)"):
        restore(_table([("S", WEEK), ("S", 0), ("S", WEEK)]).log, version=1)


@pytest.mark.parametrize(
    "said",
    [
        [("S", WEEK)],
        [("S", WEEK), ("S", WEEK)],
        [("S", 0), ("E", 0)],
        [("S", 0), ("E", 0), ("S", WEEK)],
        [("S", 0), ("S", 0), ("E", 0), ("E", 0), ("S", WEEK)],
        [("E", 0)],
    ],
)
def test_a_file_comes_back_where_no_vacuum_under_way_deletes_it(said: Said) -> None:
    table = _table(said)
    restored = restore(table.log, version=1, ignore_missing=True)
    assert restored is not None
    assert restored["num_restored_files"] == 1


def test_a_day_after_its_start_a_vacuum_counts_as_ended_also_among_others() -> None:
    table = _table([("S", 0), ("S", WEEK)])
    table.wait(24)
    assert restore(table.log, version=1, ignore_missing=True) is not None
