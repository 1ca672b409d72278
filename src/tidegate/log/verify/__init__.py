"""``verify``: the proof of a log, from its first file to its last.

Contiguous commits, each of them legal; checkpoints, checksums and log compactions equal to the replay
of the commits; every live data file and deletion vector there, with the size on record; row ids, where the
table promises them, in every file and none of them twice. Damage never
stops it: it becomes a finding that names the version and the file. What is raised is only what makes
the question pointless: no table, no such version, a table this client may not read, a store that fails.
"""

from __future__ import annotations

from tidegate.errors import (
    CatalogManagedError,
    FileMissingError,
    NotATableError,
    ProtocolVersionException,
    StorageError,
    TidegateError,
    UnsupportedReaderFeatureError,
    UnsupportedReaderVersionError,
)
from tidegate.log import segment as segments
from tidegate.log.segment import Listing
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.log.verify import commits
from tidegate.log.verify.barriers import check_protection
from tidegate.log.verify.checkpoints import check_hint, check_parts
from tidegate.log.verify.data import check_data
from tidegate.log.verify.report import Checked, Finding, Findings, Progress, Report
from tidegate.log.verify.row_ids import check_row_ids
from tidegate.log.verify.state import State
from tidegate.log.verify.walk import UNREADABLE, Walk

__all__ = ["Checked", "Finding", "Progress", "Report", "verify"]

_MAY_NOT_READ = (
    CatalogManagedError,
    ProtocolVersionException,
    UnsupportedReaderFeatureError,
    UnsupportedReaderVersionError,
)


def verify(
    log: TableLog,
    *,
    version: int | None = None,
    deep: bool = False,
    data: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Prove the log up to ``version`` (the latest when None), and the files that are live there.

    ``deep`` also opens every data file and decodes every deletion vector. Without ``data`` only the
    log is looked at.
    """
    listing = commits.listed(log)
    target = _target(log, listing, version)
    found, checked = Findings(log.log_dir), Checked()
    commits.check_contiguous(listing, log.store, log.log_dir, target, found)
    check_parts(listing, target, found)
    walk = Walk(log, listing, target, found, checked)
    walk.run(progress)
    _check_may_read(log, walk.state, target)
    if walk.state is not None and walk.state.version == target:
        check_protection(log, listing, walk.state, walk.barriers, found, checked)
    check_hint(log, listing, walk.checkpoints.sizes, found)
    snapshot = _snapshot(log, version, target, found)
    if snapshot is not None:
        try:
            check_row_ids(snapshot, found)
            if data:
                check_data(snapshot, found, checked, deep=deep, progress=progress)
        except (FileMissingError, *UNREADABLE) as e:
            found.error("UNREADABLE", f"The live files cannot be listed: {e}", target)
        except StorageError:
            raise
        except TidegateError as e:
            found.raised(e, target)
    return Report(log.url, target, found.done(), checked)


def _target(log: TableLog, listing: Listing, version: int | None) -> int:
    if listing.empty:
        raise NotATableError(
            "There is no table here: the log directory is missing or holds no commit.",
            table=log.url,
            hint=f"Check the path; a table has a directory {log.log_dir} with JSON commits in it.",
        )
    last = segments.latest(listing)
    if last < 0:
        last = max(listing.incomplete)  # only parts of a checkpoint are left
    if version is None:
        return last
    first = segments.earliest(listing)
    if version > last or (first is not None and version < first):
        raise segments.out_of_range(listing, log.url, version)
    return version


def _check_may_read(log: TableLog, state: State | None, target: int) -> None:
    """Refuse a table whose protocol, as replay finds it, keeps this client out."""
    protocol = state.small.protocol if state is not None and state.version == target else None
    if protocol is None:
        return
    try:
        log.registry.check_read(protocol, table=log.url, version=target)
    except _MAY_NOT_READ:
        raise
    except TidegateError:
        return  # not legal at all: that is a finding, and it has been made


def _snapshot(log: TableLog, version: int | None, target: int, found: Findings) -> Snapshot | None:
    """The version as a reader sees it; what keeps a reader out is a finding."""
    try:
        return load(log, None if version is None else target)
    except StorageError:
        raise
    except TidegateError as e:
        if not found.knows(e):
            found.raised(e, target)
    except UNREADABLE as e:
        found.error("UNREADABLE", f"The table cannot be opened: {e}", target)
    return None
