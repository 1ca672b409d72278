"""Drops that die: after each single change of the store a table that is right for everybody, and a way on.

Only operations that write or delete matter: what dies while it reads leaves what was there. So every state of
the store that a dying drop can leave is seen by dying before each change, the last one included.
"""

from __future__ import annotations

import pytest

from support.row_tables import USES, OldClient, Refused, RowTable, using
from support.tables import DAY, LOG
from tidegate.errors import (
    HistoricalVersionsError,
    ProtectionWaitError,
    VersionNotFoundError,
    WaitForRetentionError,
)
from tidegate.log import protection
from tidegate.log.names import Kind, parse
from tidegate.log.snapshot import load
from tidegate.log.verify import verify
from tidegate.protocol.delta import DELTA
from tidegate.storage import StoreDied

READERS = frozenset(r.name for r in DELTA if r.reader_writer)
PROTECTED = sorted(n for n in USES if DELTA[n].history_protection)
KEEP = {"delta__checkpointInterval": "100"}


def drop(table: RowTable, feature: str, *, truncate: bool) -> None:
    """All that a user does to drop it: for a truncation again a day later, where it says so."""
    for _ in range(2 if truncate else 0):
        try:
            table.drop(feature, True)
            return
        except (WaitForRetentionError, HistoricalVersionsError, ProtectionWaitError):
            table.clock.tick(DAY + 300_000)
    table.drop(feature, truncate or None)


def sound(table: RowTable, feature: str) -> None:
    """Every version that is left has its rows; who lacks the feature reads them or is refused."""
    for version in range(max(table.expected) + 1, table.load().version + 1):
        table.expected[version] = table.now()
    # A hint that is behind what it hints at is what a death leaves, and no harm.
    assert [f for f in verify(table.log).findings if f.code != "LAST_CHECKPOINT"] == []
    blind = OldClient(table.store, READERS - {feature})
    for version, values in table.expected.items():
        try:
            assert table.rows(version) == values, version
        except VersionNotFoundError:
            continue
        try:
            assert blind.rows(version) == values, version
        except Refused:
            continue
    assert table.rows() == table.now()


def protected_stay(before: set[str], table: RowTable) -> None:
    """(a) and (d): while a commit below the boundary is left, so is each checkpoint that was there."""
    found = load(table.log)
    boundary = protection.boundary(found)
    left = [parse(n.removeprefix(f"{LOG}/")) for n in table.names() if n.startswith(LOG)]
    commits = {n.version for n in left if n is not None and n.kind is Kind.COMMIT}
    assert commits == set(range(min(commits), found.version + 1))
    if min(commits) < boundary:
        gone = before - set(table.names())
        assert not [n for n in gone if ".checkpoint." in n and int(n.split("/")[-1][:20]) < boundary]


def deaths(base: RowTable, feature: str, *, truncate: bool, step: int) -> int:
    """Die before every ``step``-th change of the store, look, and go on from there."""
    start, before = base.clock.now, set(base.names())
    for number in range(1, 500):
        table = base.survivor()
        table.clock.now = start
        table.store.die_at(number * step, mutating=True)
        try:
            drop(table, feature, truncate=truncate)
        except StoreDied:
            again = table.survivor()
            sound(again, feature)
            protected_stay(before, again)
            if again.load().protocol.supports(feature):
                drop(again, feature, truncate=truncate)
            assert not again.load().protocol.supports(feature)
            sound(again, feature)
        else:
            return number - 1
    pytest.fail("the drop never came to its end")


@pytest.mark.parametrize("feature", sorted(USES))
def test_a_drop_that_dies_anywhere_leaves_a_table_for_everybody_and_can_be_repeated(
    feature: str, deep: bool
) -> None:
    protected = feature in PROTECTED
    seen = deaths(using(feature, **KEEP), feature, truncate=False, step=1 if deep else 11 if protected else 2)
    assert seen >= ((14 if protected else 2) if deep else 1)


@pytest.mark.parametrize("feature", PROTECTED)
def test_a_truncation_that_dies_anywhere_does_too(feature: str, deep: bool) -> None:
    seen = deaths(using(feature, **KEEP), feature, truncate=True, step=1 if deep else 5)
    assert seen >= (5 if deep else 1)


def test_the_end_of_protection_that_dies_anywhere_leaves_all_of_it_or_nothing(deep: bool) -> None:
    """The versions below the boundary go in one cleanup: commits first, their checkpoints last."""
    table = using("deletionVectors", **KEEP)
    table.drop("deletionVectors")
    table.append([50])
    seen = deaths(table, "checkpointProtection", truncate=True, step=1 if deep else 5)
    assert seen >= (25 if deep else 5)
