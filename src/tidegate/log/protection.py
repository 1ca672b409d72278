"""Checkpoint protection: what a cleanup may take from the versions before the boundary.

Dropping a feature in one step leaves versions behind that older clients must not replay; checkpoints
hide them. Below ``delta.requireCheckpointProtectionBeforeVersion`` therefore: (a) checkpoints stay until
everything there goes at once; (b) new ones are made only by who supports that version's protocol; (c) a
part of the range goes only if the protocol of each of its versions is known and supported; (d) commits
go before the checkpoints. (b) is asked where checkpoints are written, the rest here and in ``retention``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate import properties
from tidegate.errors import FileMissingError, StorageError, TidegateError
from tidegate.log import checksum as checksums
from tidegate.log.segment import Listing
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.protocol.protocol import CHECKPOINT_PROTECTION, Protocol


def boundary(snapshot: Snapshot) -> int:
    """Versions below this one are protected; 0 where none is."""
    if not snapshot.protocol.supports(CHECKPOINT_PROTECTION):
        return 0
    return properties.get(snapshot.metadata.configuration, properties.REQUIRE_CHECKPOINT_PROTECTION_BEFORE)


def protocols(log: TableLog, listing: Listing, first: int, last: int) -> list[tuple[int, Protocol | None]]:
    """The protocol of each version from ``first`` to ``last``, None where nobody can tell.

    From the version's checksum, else by replay: its own protocol action, its checkpoint, the version before
    it, or the one after it, where that one's commit has left the protocol alone.
    """
    found = dict(_lasting(log, listing, first, last))
    carried = _by_checkpoint(log, listing, first - 1)
    for version in range(first, last + 1):
        if found[version] is None and _by_commit(log, listing, version)[0]:
            found[version] = carried
        carried = found[version]
    return sorted(found.items())


def _lasting(log: TableLog, listing: Listing, first: int, last: int) -> Iterator[tuple[int, Protocol | None]]:
    """The same, newest version first, without asking the version before each.

    While commits go, oldest first, the one before is gone when a version's own turn comes: what is found
    here is known to the end.
    """
    after: Protocol | None = None
    for version in range(last, first - 1, -1):
        found = _by_checksum(log, listing, version)
        if found is None:
            found = _by_commit(log, listing, version)[1] or _by_checkpoint(log, listing, version)
        if found is None and after is not None and _by_commit(log, listing, version + 1) == (True, None):
            found = after
        after = found
        yield version, found


def _by_checksum(log: TableLog, listing: Listing, version: int) -> Protocol | None:
    file = listing.checksums.get(version)
    if file is None:
        return None
    try:
        found = checksums.decode(log.store.get(file.info.name))
    except FileMissingError:
        return None
    return None if found is None else found.protocol


def _by_commit(log: TableLog, listing: Listing, version: int) -> tuple[bool, Protocol | None]:
    """Whether the commit can be read, and the protocol that it sets."""
    file = listing.commits.get(version)
    if file is None:
        return False, None
    try:
        return True, log.dialect.decode(log.store.get(file.info.name), file.name.text).protocol
    except FileMissingError:
        return False, None
    except StorageError:
        raise
    except TidegateError:
        return False, None


def _by_checkpoint(log: TableLog, listing: Listing, version: int) -> Protocol | None:
    for checkpoint in listing.checkpoints:
        if checkpoint.version != version:
            continue
        try:
            return log.reader(checkpoint).small.protocol
        except FileMissingError:
            continue
        except StorageError:
            raise
        except TidegateError:
            continue
    return None


def forbids_part(snapshot: Snapshot, listing: Listing, start: int) -> str | None:
    """Why the versions below ``start``, a part of the protected range, may not go; None if they may."""
    log = snapshot.log
    first = min((v for v in listing.commits if v < start), default=start)
    # A cleanup that dies must be finished by the next one, which knows only what the first has left.
    for version, protocol in _lasting(log, listing, first, start):
        if protocol is None:
            return f"the protocol of version {version} is not known, or would not be after a crash"
        check = log.registry.check_write if version == start else log.registry.check_read
        try:
            check(protocol, table=log.url, version=version)
        except TidegateError as e:
            return f"the protocol of version {version} is not supported here: {e.message}"
    return None
