"""Drops of a feature in several steps, and what others do between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support import log_commands
from support.interleaving import Chosen, Operation, at_any, at_commit
from support.log_commands import now
from support.log_dml import rewriter
from support.outcomes import problems
from tidegate.commands.alter import cluster_by, set_properties, unset_properties
from tidegate.commands.drop_feature import drop_feature
from tidegate.commands.restore import restore
from tidegate.errors import (
    DeltaConcurrentModificationException,
    DropConflictError,
    FeatureNotPresentError,
    ProtocolChangedException,
)
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.storage.memory import MemoryStore


def _drop(log: TableLog, feature: str) -> None:
    drop_feature(log, feature, rewriter=rewriter)


def _dropped(
    store: MemoryStore,
    feature: str,
    other: Callable[[TableLog], object],
    number: int,
    chosen: Chosen = at_commit,
) -> bool:
    """Drop a feature, with ``other`` before its chosen operation ``number``; whether it came to that one."""
    seen: list[Operation] = []

    def hook(op: str, name: str) -> None:
        operation = Operation(op, name)
        if chosen(operation):
            seen.append(operation)
            if len(seen) == number:
                other(TableLog(store.handle(), clock=now))

    try:
        _drop(TableLog(store.handle(hook=hook), clock=now), feature)
    finally:
        assert problems(TableLog(store, clock=now)) == []
    return len(seen) >= number


def test_of_two_that_drop_one_feature_one_is_told_that_it_is_gone() -> None:
    told: list[str] = []

    def drop(log: TableLog) -> None:
        try:
            _drop(log, "deletionVectors")
        except FeatureNotPresentError:
            told.append("the other")

    for number in range(1, 100, 8):
        store = log_commands.make(log_commands.FLAVOURS["vectors"])
        before = len(told)
        try:
            _dropped(store, "deletionVectors", drop, number, at_any)
        except FeatureNotPresentError:
            told.append("the one")
        except DeltaConcurrentModificationException:
            told.append("conflict")
        assert len(told) == before + 1, f"both have dropped it, the other before operation {number}"
        history = load(TableLog(store)).history()
        assert [entry["operation"] for entry in history].count("DROP FEATURE") == 1
    assert {"the one", "conflict"} <= set(told)


def test_a_feature_that_another_one_has_come_to_require_stays() -> None:
    store = log_commands.make({"delta.feature.domainMetadata": "supported"})
    domain = TableLog(store, clock=now)
    with pytest.raises(ProtocolChangedException, match="CLUSTER BY"):
        _dropped(store, "domainMetadata", lambda log: cluster_by(log, ["id"]), 1)
    features = load(domain).protocol.features(domain.registry.rules)
    assert {"clustering", "domainMetadata"} <= features


def test_a_feature_that_is_enabled_again_between_two_steps_stays() -> None:
    store = log_commands.make(log_commands.FLAVOURS["vectors"])
    again = {"delta.enableDeletionVectors": "true"}
    with pytest.raises(DropConflictError, match="deletionVectors"):
        _dropped(store, "deletionVectors", lambda log: set_properties(log, again), 3)
    assert load(TableLog(store)).protocol.supports("deletionVectors")


def _resume(log: TableLog) -> None:
    unset_properties(log, ["delta.rowTrackingSuspended"], if_exists=True)


@pytest.mark.parametrize(
    "resume",
    [lambda log: restore(log, version=4), _resume],
    ids=["by a restore", "by the property that suspends them"],
)
def test_row_ids_that_are_given_out_again_while_they_are_taken_away_end_the_drop(
    resume: Callable[[TableLog], object],
) -> None:
    """Each commit that took ids away would give new ones out, and the next one take them away, for ever."""
    store = log_commands.make(log_commands.FLAVOURS["everything"])
    begun = load(TableLog(store)).version
    seen: list[int] = []

    def beginning(operation: Operation) -> bool:
        """The first operation of each step after the table was told that ids are suspended."""
        version = load(TableLog(store.handle())).version
        assert version < begun + 12, "commits without end"
        is_next = version == begun + 1 and version not in seen
        seen.append(version)
        return is_next

    with pytest.raises(DropConflictError, match="rowTracking"):
        _dropped(store, "rowTracking", resume, 1, beginning)
    assert load(TableLog(store)).protocol.supports("rowTracking")


@pytest.mark.parametrize("number", [2, 5, 8, 10])
def test_a_drop_changes_nothing_more_where_another_one_was_first(number: int) -> None:
    store = log_commands.make(log_commands.FLAVOURS["everything"])
    with pytest.raises(FeatureNotPresentError, match="rowTracking"):
        _dropped(store, "rowTracking", lambda log: _drop(log, "rowTracking"), number, at_any)
    newest = load(TableLog(store))
    assert newest.history(limit=1)[0]["operation"] == "DROP FEATURE"
    assert not [key for key in newest.metadata.configuration if "rowTracking" in key]
