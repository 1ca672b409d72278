"""Dropping a feature, on either of two ways.

The fast way: clean the newest version, put three barriers before the drop and one on it, and protect what
lies below. Older clients then read what they can and are refused the rest, and nobody waits. The way of
truncation: clean, wait until the history that shows the feature has expired, truncate it, look that none
is left, drop. Features that leave nothing readers must know are simply dropped on both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidegate import properties
from tidegate.commands.drop_feature import protected
from tidegate.commands.drop_feature.barrier import barrier, checkpoint, clean_after
from tidegate.commands.drop_feature.check import check
from tidegate.commands.drop_feature.history import history_contains
from tidegate.commands.drop_feature.removal import Removal, Rewriter, Work
from tidegate.commands.drop_feature.removals import REMOVALS, removal_of
from tidegate.errors import (
    DropConflictError,
    HistoricalVersionsError,
    NotATableError,
    TidegateError,
    WaitForRetentionError,
)
from tidegate.log.retention import clean_up
from tidegate.log.snapshot import Snapshot, unguarded
from tidegate.log.table_log import TableLog
from tidegate.log.verify.report import Progress
from tidegate.protocol.feature import Feature
from tidegate.protocol.protocol import CHECKPOINT_PROTECTION
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed

_log = logging.getLogger(__name__)
BARRIERS = 3


def drop_feature(
    log: TableLog,
    name: str,
    *,
    truncate_history: bool | None = None,
    fast: bool = True,
    rewriter: Rewriter | None = None,
    progress: Progress | None = None,
    removals: Mapping[str, Removal] = REMOVALS,
) -> Committed:
    """Take a feature out of a table. Without ``rewriter`` a table whose files must change is refused.

    Not ``fast``, what the history shows must have expired by the table's own retention of its log.
    """
    truncate = bool(truncate_history)
    row = check(unguarded(log), name, truncate=truncate)
    work = Work(log, row.name, rewriter, truncate=truncate)
    if progress is not None:
        work.progress = progress
    log.registry.check_write(work.latest().protocol, table=log.url, version=work.latest().version)
    removal = removal_of(row.name, removals)
    if row.name == CHECKPOINT_PROTECTION:
        protected.end(work)
        return _commit(work, row, removal, protect=False)
    if truncate or (not fast and row.history_protection):
        return _by_truncation(work, row, removal)
    return _fast(work, row, removal)


def _fast(work: Work, row: Feature, removal: Removal) -> Committed:
    removal.prepare(work)
    if not row.history_protection:
        return _commit(work, row, removal, protect=False)
    for number in range(BARRIERS):
        work.progress("writing barrier checkpoints", number, BARRIERS + 1)
        barrier(work)
    done = _commit(work, row, removal, protect=True)
    work.progress("writing barrier checkpoints", BARRIERS, BARRIERS + 1)
    try:
        # Who checks every protocol on the way starts here; who does not has the three before.
        checkpoint(done.snapshot)
    except TidegateError:
        _log.warning("%s: version %d has no checkpoint", work.log.url, done.version, exc_info=True)
    clean_after(done.snapshot)
    return done


def _by_truncation(work: Work, row: Feature, removal: Removal) -> Committed:
    changed = removal.prepare(work)
    work.progress("writing a checkpoint", 0, 1)
    snapshot = barrier(work)
    if changed:
        raise WaitForRetentionError(
            f"{row.name} was in use until now, and the history still shows it. {_waits(snapshot)}",
            table=work.log.url,
            version=snapshot.version,
            hint=_later(work),
        )
    _check_clean(row, removal, snapshot)
    clean_up(snapshot, before=protected.truncation_cutoff(snapshot) if work.truncate else None)
    shown = history_contains(snapshot, row.name)
    if shown is not None:
        raise HistoricalVersionsError(
            f"The history still shows {row.name}: {shown}. {_waits(snapshot)}",
            table=work.log.url,
            version=snapshot.version,
            hint=_later(work),
        )
    return _commit(work, row, removal, protect=False)


def _later(work: Work) -> str:
    if work.truncate:
        return "Drop it again then; or without truncating, which needs no waiting."
    return "Drop it again then; or let the session drop it fast (tableFeatures.fastDropFeature.enabled)."


def _waits(snapshot: Snapshot) -> str:
    configuration = snapshot.metadata.configuration
    log = properties.get(configuration, properties.LOG_RETENTION)
    truncation = properties.get(configuration, properties.DROP_FEATURE_RETENTION)
    return (
        f"It can be truncated after {protected.duration(truncation)} "
        f"({properties.DROP_FEATURE_RETENTION.key}), and expires by itself after {protected.duration(log)} "
        f"({properties.LOG_RETENTION.key})."
    )


def _check_clean(row: Feature, removal: Removal, snapshot: Snapshot) -> None:
    remains = removal.remains(snapshot)
    if remains is not None:
        raise DropConflictError(
            f"{row.name} is in use again: {remains}. Somebody has changed the table meanwhile.",
            table=snapshot.url,
            version=snapshot.version,
            hint="Drop it again when nobody uses it any more.",
        )


def _commit(work: Work, row: Feature, removal: Removal, *, protect: bool) -> Committed:
    """The one commit that takes the feature away."""
    transaction = work.begin()
    snapshot = transaction.snapshot
    if snapshot is None:
        raise NotATableError("There is no table here.", table=work.log.url)
    _check_clean(row, removal, snapshot)
    registry = work.log.registry
    protocol = snapshot.protocol.without_feature(row.name, registry.rules)
    if protect:
        protocol = protocol.with_feature(registry[CHECKPOINT_PROTECTION], registry.rules)
    transaction.update_protocol(protocol, dropped=row.name, protect=protect)
    before = snapshot.metadata.configuration
    after = {k: v for k, v in before.items() if k not in removal.properties}
    if protect:
        after[properties.REQUIRE_CHECKPOINT_PROTECTION_BEFORE.key] = str(snapshot.version + 1)
    if after != before:
        transaction.update_metadata(snapshot.metadata.with_configuration(after))
    parameters = {"featureName": row.name, "truncateHistory": work.truncate}
    done = transaction.commit(removal.actions(snapshot), Operation("DROP FEATURE", parameters))
    work.committed(done)
    return done
