"""Drops that lose a race to each kind of winner, at each of their commits: rebased, or ended by name.

Whatever comes of it, the rows are those of the model, the log proves clean, whoever lacks the feature reads
the right rows or is refused, and the drop succeeds when it is run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.row_tables import USES, OldClient, Refused, RowTable, enable, using
from support.tables import LOG
from tidegate.errors import (
    DeltaConcurrentModificationException,
    DropConflictError,
    FeatureNotPresentError,
    TidegateError,
)
from tidegate.log.actions import DomainMetadata
from tidegate.log.verify import verify
from tidegate.protocol.delta import DELTA

READERS = frozenset(r.name for r in DELTA if r.reader_writer)
REVALIDATION = "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"
# Nothing in a table shows that it uses this one.
UNSEEN = "vacuumProtocolCheck"


def use_again(table: RowTable, feature: str) -> None:
    if feature == "domainMetadata":
        transaction = table._begin()
        domain = DomainMetadata(domain="user.two", configuration="{}")
        table._note(transaction.commit([domain]), table.now())
    else:
        enable(table, feature)


WINNERS: dict[str, Callable[[RowTable, str], object]] = {
    "appends": lambda t, f: t.append([90]),
    "deletes": lambda t, f: t.delete([11]),
    "uses it again": use_again,
    "sets a property": lambda t, f: t.set(owner="somebody"),
    "adds a feature": lambda t, f: t.set(delta__feature__allowColumnDefaults="supported"),
    "drops it": lambda t, f: t.drop(f),
}


def race(feature: str, winner: str, behind: int) -> tuple[RowTable, TidegateError | None]:
    """A drop of whose commits ``winner`` takes the version of the ``behind``-th last; what became of it."""
    lone = using(feature)
    start = lone.load().version
    at = lone.drop(feature).version - behind
    table = using(feature)
    assert table.load().version == start < at
    done: list[bool] = []

    def hook(op: str, name: str) -> None:
        if op == "put_if_absent" and name == f"{LOG}/{at:020d}.json" and not done:
            done.append(True)
            WINNERS[winner](table, feature)

    racer = RowTable(table.clock, table.store.handle(hook=hook), table.expected)
    problem = None
    try:
        racer.drop(feature)
    except TidegateError as e:
        problem = e
    assert done, "the winner had its turn"
    return table, problem


def sound(table: RowTable, feature: str) -> None:
    assert verify(table.log).errors == ()
    blind = OldClient(table.store, READERS - {feature})
    for version, values in table.expected.items():
        assert table.rows(version) == values, version
        try:
            assert blind.rows(version) == values, version
        except Refused:
            assert version <= table.load().version
    assert table.rows() == table.now()


def finished(table: RowTable, feature: str, winner: str) -> None:
    """Run it again until it is done; what a user owns is taken away by the user."""
    if feature == "checkConstraints" and winner == "uses it again":
        transaction = table._begin()
        kept = {k: v for k, v in transaction.metadata.configuration.items() if "constraints" not in k}
        transaction.update_metadata(transaction.metadata.with_configuration(kept))
        table._note(transaction.commit(operation="DROP CONSTRAINT"), table.now())
    if table.load().protocol.supports(feature):
        table.drop(feature)
    assert not table.load().protocol.supports(feature)
    sound(table, feature)
    if DELTA[feature].history_protection:
        assert OldClient(table.store, READERS - {feature}).rows(table.load().version) == table.now()


def check(feature: str, winner: str, behind: int) -> TidegateError | None:
    table, problem = race(feature, winner, behind)
    sound(table, feature)
    if problem is None:
        assert not table.load().protocol.supports(feature)
    else:
        known = (DeltaConcurrentModificationException, DropConflictError, FeatureNotPresentError)
        assert isinstance(problem, known), problem
        assert problem.errorClass.startswith("DELTA_")
        assert table.load().protocol.supports(feature) == (winner != "drops it")
    if winner == "appends":
        assert 90 in table.now()
    finished(table, feature, winner)
    return problem


def pairs(*, deep: bool = False) -> list[Any]:
    """Each feature with each winner; those that differ from others in little are for deep runs."""
    found = []
    for feature in sorted(USES):
        for winner in WINNERS:
            if (feature, winner) == (UNSEEN, "uses it again"):
                continue
            few = winner in ("appends", "uses it again") or feature in ("deletionVectors", "rowTracking")
            marks = () if few or deep else (pytest.mark.deep,)
            found.append(pytest.param(feature, winner, marks=marks))
    return found


@pytest.mark.parametrize(("feature", "winner"), pairs())
def test_the_last_commit_of_a_drop_is_rebased_or_ends_by_name(feature: str, winner: str) -> None:
    problem = check(feature, winner, 0)
    if winner in ("appends", "deletes"):
        assert problem is None, "what does not matter is stepped over"
    elif winner == "uses it again":
        assert problem is not None
        assert problem.errorClass == REVALIDATION
    elif winner in ("adds a feature", "drops it"):
        assert problem is not None
        assert problem.errorClass == "DELTA_PROTOCOL_CHANGED"
    elif problem is not None:
        # The property that enables this one goes with the drop itself: the winner's metadata still has it.
        own = feature == "materializePartitionColumns"
        assert problem.errorClass == (REVALIDATION if own else "DELTA_METADATA_CHANGED")


@pytest.mark.deep
@pytest.mark.parametrize("behind", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("feature", "winner"), pairs(deep=True))
def test_every_other_commit_of_it_does_too(feature: str, winner: str, behind: int) -> None:
    lone = using(feature)
    before = lone.load().version
    if lone.drop(feature).version - behind <= before:
        pytest.skip("the drop has not so many commits")
    check(feature, winner, behind)
