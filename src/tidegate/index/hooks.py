"""What happens after a commit to an index table: a checkpoint, when enough commits have come together.

A hook that fails is logged and nothing more: the commit stands. Nothing is cleaned up here; that is for
``purge`` and ``truncate_history``.
"""

from __future__ import annotations

from tidegate.index.log_settings import LogSettings
from tidegate.index.transaction import IndexTransaction
from tidegate.log.checkpoint.write import Written, write_checkpoint
from tidegate.log.snapshot import Snapshot
from tidegate.protocol import indextables
from tidegate.transaction.hooks import AfterCommit, Hook
from tidegate.transaction.pending import Operation


def after_commit(settings: LogSettings) -> tuple[Hook, ...]:
    """The hooks that a table with these settings has."""
    if not settings.checkpoint_enabled:
        return ()

    def checkpoint_hook(done: AfterCommit) -> None:
        snapshot = done.snapshot
        last = max(snapshot.segment.base_version, 0)
        if snapshot.version - last >= settings.checkpoint_interval:
            write(snapshot, settings)

    return (checkpoint_hook,)


def write(snapshot: Snapshot, settings: LogSettings) -> tuple[Snapshot, Written]:
    """Checkpoint ``snapshot``, or the version after it where parts ask for a higher protocol first."""
    snapshot.log.registry.check_write(snapshot.protocol, table=snapshot.url, version=snapshot.version)
    snapshot = _with_parts(snapshot, settings)
    per_part = 0 if settings.multipart is False else settings.actions_per_part
    return snapshot, write_checkpoint(snapshot, per_part=per_part)


def _with_parts(snapshot: Snapshot, settings: LogSettings) -> Snapshot:
    """A table whose protocol allows parts, where they are asked for and there is enough to put into them."""
    if not settings.multipart or indextables.has_feature(snapshot.protocol, indextables.MULTIPART):
        return snapshot
    if not settings.rules.auto_upgrade or snapshot.num_files < settings.actions_per_part:
        return snapshot
    txn = IndexTransaction(snapshot.log, snapshot, rules=settings.rules)
    needed = indextables.requiring(indextables.MULTIPART)
    txn.update_protocol(indextables.raised(snapshot.protocol, needed))
    return txn.commit((), Operation("UPGRADE PROTOCOL")).snapshot
