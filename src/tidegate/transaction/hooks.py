"""What happens after a commit: checksum, compaction, checkpoint, cleanup, manifests.

The commit stands before the first hook runs, so a hook that fails is logged and nothing more; the
next commit, checkpoint or cleanup makes up for it. A hook is a callable, registered, not imported:
what stands above this layer adds its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tidegate import properties
from tidegate.errors import FileMissingError, StorageError
from tidegate.log import checksum as checksums
from tidegate.log import names
from tidegate.log.checkpoint.write import write_checkpoint, write_checksum
from tidegate.log.checksum import Checksum
from tidegate.log.compaction import write_compaction
from tidegate.log.retention import clean_up
from tidegate.log.settings import Settings
from tidegate.log.snapshot import Snapshot
from tidegate.transaction.manifests import write_manifests
from tidegate.transaction.prepared import Prepared

_log = logging.getLogger(__name__)

# Not one of Delta's properties: how many commits a log compaction of this table stands for.
COMPACTION_INTERVAL = "tidegate.logCompactionInterval"


@dataclass(frozen=True)
class AfterCommit:
    """The commit that just became visible, and the snapshot that it made."""

    snapshot: Snapshot
    prepared: Prepared
    checksum: Checksum | None
    settings: Settings


Hook = Callable[[AfterCommit], None]


def checksum_hook(done: AfterCommit) -> None:
    """Write ``N.crc`` where it follows from the one before; else the next checkpoint will."""
    if done.checksum is not None and done.settings.checksum_files:
        write_checksum(done.snapshot, done.checksum)


def checkpoint_hook(done: AfterCommit) -> None:
    """Checkpoint every ``delta.checkpointInterval`` commits, and clean up behind it."""
    snapshot = done.snapshot
    interval = properties.get(snapshot.metadata.configuration, properties.CHECKPOINT_INTERVAL)
    if snapshot.version == 0 or snapshot.version % interval:
        return
    written = write_checkpoint(snapshot)
    if done.checksum is None and done.settings.checksum_files:
        write_checksum(snapshot, written.checksum)
    if properties.get(snapshot.metadata.configuration, properties.ENABLE_EXPIRED_LOG_CLEANUP):
        clean_up(snapshot)


def compaction_hook(done: AfterCommit) -> None:
    """Compact the last commits into one file, where the table asks for it."""
    snapshot = done.snapshot
    text = snapshot.metadata.configuration.get(COMPACTION_INTERVAL, "0")
    interval = int(text) if text.isdecimal() else 0
    if interval < 2 or (snapshot.version + 1) % interval:
        return
    start = snapshot.version - interval + 1
    commits = [f for f in snapshot.segment.commits if f.name.version >= start]
    if len(commits) < interval:
        return
    actions = [snapshot.actions(f) for f in reversed(commits)]
    write_compaction(snapshot.log, start, snapshot.version, actions)


def manifest_hook(done: AfterCommit) -> None:
    """Keep the manifests of a table that has some up to date."""
    snapshot = done.snapshot
    if properties.get(snapshot.metadata.configuration, properties.SYMLINK_MANIFEST):
        write_manifests(snapshot)


HOOKS: tuple[Hook, ...] = (checksum_hook, compaction_hook, checkpoint_hook, manifest_hook)


def run(hooks: tuple[Hook, ...], done: AfterCommit) -> None:
    """Run every hook; what fails is logged with its cause and does not touch the commit."""
    for hook in hooks:
        name = getattr(hook, "__name__", hook)
        try:
            hook(done)
            _log.debug("%s: %s ran after version %d", done.snapshot.url, name, done.snapshot.version)
        except Exception:
            _log.warning(
                "%s: %s failed after version %d; the commit stands",
                done.snapshot.url,
                name,
                done.snapshot.version,
                exc_info=True,
            )


def known_checksum(snapshot: Snapshot) -> Checksum | None:
    """The checksum of a version, read afresh if it was not there when the snapshot was made.

    None where it cannot be had: a commit can do without.
    """
    try:
        if snapshot.checksum is not None:
            return snapshot.checksum
        return checksums.decode(snapshot.log.store.get(snapshot.log.path(names.checksum(snapshot.version))))
    except FileMissingError:
        return None
    except StorageError:
        _log.info(
            "%s: the checksum of version %d cannot be read", snapshot.url, snapshot.version, exc_info=True
        )
        return None
