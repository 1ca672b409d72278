"""Barriers: an empty commit and its checkpoint, so that nobody after it has to replay what lies before.

A barrier counts only when its checkpoint has been read back: it is there whole and says the protocol and
the metadata of its version. Where that does not succeed in three attempts, the drop ends before it has
changed the protocol.
"""

from __future__ import annotations

import logging

from tidegate import properties
from tidegate.commands.drop_feature.removal import Work
from tidegate.errors import BarrierCheckpointError, CheckpointCorruptError, TidegateError
from tidegate.log.checkpoint.write import write_checkpoint, write_checksum
from tidegate.log.retention import clean_up
from tidegate.log.snapshot import Snapshot
from tidegate.transaction.hooks import checksum_hook
from tidegate.transaction.transaction import Transaction

_log = logging.getLogger(__name__)
ATTEMPTS = 3


def barrier(work: Work) -> Snapshot:
    """Make one barrier; the version it made."""
    # The checkpoint is made here and looked at: that the hook may have made one too is no proof.
    transaction = Transaction(work.log, work.latest(), hooks=(checksum_hook,))
    snapshot = work.committed(transaction.commit(operation="Empty Commit"))
    checkpoint(snapshot)
    return snapshot


def checkpoint(snapshot: Snapshot) -> None:
    """Write a checkpoint of a version and read it back."""
    failure: TidegateError | None = None
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _written(snapshot)
            return
        except TidegateError as e:
            failure = e
            _log.warning("%s: checkpoint of %d, attempt %d: %s", snapshot.url, snapshot.version, attempt, e)
    raise BarrierCheckpointError(
        f"The checkpoint of version {snapshot.version} could not be written in {ATTEMPTS} attempts, and "
        "without it the feature cannot be dropped safely.",
        table=snapshot.url,
        version=snapshot.version,
        hint="See why, then drop the feature again; nothing has to be undone.",
    ) from failure


def _written(snapshot: Snapshot) -> None:
    had = snapshot.checksum
    written = write_checkpoint(snapshot)
    log = snapshot.log
    for part in written.checkpoint.files:
        found = log.store.head(part.info.name)
        if found.size != part.info.size:
            raise CheckpointCorruptError(
                f"The checkpoint has {found.size} bytes, {part.info.size} were written.", file=part.name.text
            )
    small = log.reader(written.checkpoint).small
    if (small.protocol, small.metadata) != (snapshot.protocol, snapshot.metadata):
        raise CheckpointCorruptError(
            "The checkpoint does not say the protocol and the metadata of its version.",
            file=written.checkpoint.files[0].name.text,
        )
    if had is None and log.settings().checksum_files:
        write_checksum(snapshot, written.checksum)


def clean_after(snapshot: Snapshot) -> None:
    """The cleanup that follows every checkpoint, where the table wants it; no drop fails by it."""
    if not snapshot.metadata.property(properties.ENABLE_EXPIRED_LOG_CLEANUP):
        return
    try:
        clean_up(snapshot)
    except TidegateError:
        _log.warning("%s: the cleanup after the drop failed", snapshot.url, exc_info=True)
