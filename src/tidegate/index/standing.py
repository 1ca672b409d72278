"""Whether a commit that was just put stands in the log, or in a gap that truncation has left.

Truncation may take any version but the latest, at any time. A writer that is held up between looking and
putting can find the name of such a version free: the put succeeds, and nobody would ever read it. So every
put is looked at once more. Commits go in ascending order, so if the version before ours is still there as
we read it, ours was never taken, and the put is what it seems: one storage call. If it is not, a
checkpoint of our version or a later one tells whether it knows what we did; and where that cannot be told,
the commit does not count as made.
"""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ConcurrentWriteException, FileMissingError, StorageError
from tidegate.log import names
from tidegate.log.segment import LogFile
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.protocol.indextables import raised
from tidegate.transaction.prepared import Prepared

_log = logging.getLogger(__name__)


def check(log: TableLog, prepared: Prepared, before: LogFile | None) -> None:
    """Raise, and take the commit back, if it was put into a gap. ``before`` is the version it follows."""
    try:
        if _stands(log, prepared, before):
            return
    except StorageError as e:
        e.hint = (
            f"Version {prepared.version} is written; whether truncation has passed over it is not known. "
            "Look whether the table holds your change before you run the operation again."
        )
        raise e.at(table=log.url, version=prepared.version) from None
    try:
        # Nothing that can be opened needs it: a later checkpoint stands for all of the log.
        log.store.delete([log.commit_path(prepared.version)])
    except StorageError as e:
        _log.warning("%s: version %d is left in a gap: %s", log.url, prepared.version, e)
    raise ConcurrentWriteException(
        f"The history was truncated while version {prepared.version} was being committed, and the table does "
        "not hold the change.",
        table=log.url,
        version=prepared.version,
        hint="Look at the table as it is now, and run the operation again.",
    )


def _stands(log: TableLog, prepared: Prepared, before: LogFile | None) -> bool:
    if before is not None and _unchanged(log, before):
        return True
    later = [c for c in log.listing(prepared.version).checkpoints if c.version >= prepared.version]
    # Truncation leaves the checkpoint that it made: without one there was none.
    return not later or _known_to(log, later[0].version, prepared)


def commit_of(log: TableLog, version: int) -> LogFile | None:
    """The commit file of a version, as it is now."""
    name = names.parse(names.commit(version))
    assert name is not None
    try:
        return LogFile(name, log.store.head(log.commit_path(version)))
    except FileMissingError:
        return None


def _unchanged(log: TableLog, before: LogFile) -> bool:
    try:
        now = log.store.head(before.info.name)
    except FileMissingError:
        return False
    return (now.size, now.modified) == (before.info.size, before.info.modified)


def _known_to(log: TableLog, version: int, prepared: Prepared) -> bool:
    """Whether the table at ``version`` has what the commit was to bring.

    Added splits have names that nobody repeats, so one of them proves it. A commit that adds none is made
    if all that it says is so.
    """
    found, changes = load(log, version), prepared.changes
    live = found.files(columns=["path"]).column("path").combine_chunks()
    added = [b.column("path") for b in changes.adds if b.num_rows]
    if added:
        return _any(added, live)
    removed = [b.column("path") for b in changes.removes if b.num_rows]
    return (
        not (removed and _any(removed, live))
        and changes.metadata in (None, found.metadata)
        and (changes.protocol is None or raised(found.protocol, changes.protocol) == found.protocol)
        and all(found.skips.get(s.path) == s for s in changes.skips)
    )


def _any(paths: list[pa.Array], live: pa.Array) -> bool:
    return bool(pc.any(pc.is_in(pa.chunked_array(paths), value_set=live)).as_py())
