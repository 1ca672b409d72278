"""Taking row tracking out of a table: no more ids, and those that files have are taken from their entries.

First the table is told that tracking is suspended, so that nobody gives out ids from then on. Then the
entries are renewed without them, many files a commit. The drop itself removes the properties and the
highest id that was given out. Specification: "Row Tracking".
"""

from __future__ import annotations

import pyarrow as pa

from tidegate import properties
from tidegate.commands.drop_feature.removal import Estimate, Removal, Work
from tidegate.commands.removes import with_data_change
from tidegate.files import row_ids
from tidegate.log.actions import Action, DomainMetadata
from tidegate.log.snapshot import Snapshot
from tidegate.log.traces import ROW_PROPERTIES
from tidegate.transaction.pending import Operation

FEATURE = "rowTracking"
BATCH = 100_000
_IDS = ("baseRowId", "defaultRowCommitVersion")
_SUSPEND = {
    properties.ENABLE_ROW_TRACKING.key: "false",
    properties.ROW_TRACKING_SUSPENDED.key: "true",
}


def _with_ids(snapshot: Snapshot) -> pa.Table:
    few = snapshot.files(columns=["path", "size", *_IDS])
    if all(few.column(name).null_count == few.num_rows for name in _IDS):
        return few.slice(0, 0)
    files = snapshot.files()
    return files.filter(pa.compute.or_(*(files.column(name).is_valid() for name in _IDS)))


def _is_suspended(snapshot: Snapshot) -> bool:
    return snapshot.metadata.property(properties.ROW_TRACKING_SUSPENDED)


def in_use(snapshot: Snapshot) -> str | None:
    if snapshot.metadata.property(properties.ENABLE_ROW_TRACKING):
        return f"{properties.ENABLE_ROW_TRACKING.key} is true"
    count = _with_ids(snapshot).num_rows
    return f"{count} files have row ids" if count else None


def prepare(work: Work) -> bool:
    snapshot = work.latest()
    if in_use(snapshot) is None and _is_suspended(snapshot):
        return False
    # Also a table that never gave out an id would do so from its next commit on.
    changed = work.set_properties(given=_SUSPEND)
    while _forget_some(work):
        changed = True
    return changed


def _forget_some(work: Work) -> bool:
    """Renew the entries of some files without their ids; False when none is left to do so."""
    transaction = work.begin()
    assert transaction.snapshot is not None
    if not _is_suspended(transaction.snapshot):
        # Somebody wants ids again. Renewed entries would get new ones, and this would never end: the drop
        # finds them in use and says so.
        return False
    files = _with_ids(transaction.snapshot)
    if files.num_rows == 0:
        return False
    work.progress("taking row ids away", 0, files.num_rows)
    some = files.slice(0, BATCH)
    transaction.read_files(some)
    adds = with_data_change(some, False)
    for name in _IDS:
        at = adds.schema.get_field_index(name)
        adds = adds.set_column(at, adds.schema.field(at), pa.nulls(adds.num_rows, pa.int64()))
    done = transaction.commit(operation=Operation("ROW TRACKING UNBACKFILL", {"batchId": "0"}), adds=adds)
    work.committed(done)
    return True


def _mark(snapshot: Snapshot) -> list[Action]:
    """The end of the domain that holds the highest row id."""
    found = snapshot.domains.get(row_ids.DOMAIN)
    if found is None:
        return []
    return [DomainMetadata(domain=row_ids.DOMAIN, configuration=found.configuration, removed=True)]


def estimate(snapshot: Snapshot) -> Estimate:
    count = _with_ids(snapshot).num_rows
    if count == 0 and in_use(snapshot) is None and _is_suspended(snapshot):
        return Estimate()
    steps = ["suspend row tracking"]
    if count:
        steps.append(f"take the row ids from the entries of {count} files")
    return Estimate(commits=1 + -(-count // BATCH), steps=tuple(steps))


REMOVAL = Removal(FEATURE, prepare, estimate, in_use, ROW_PROPERTIES, _mark)
