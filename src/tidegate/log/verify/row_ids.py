"""Row ids: where the table promises them every file has its own, and none is above the mark.

Specification: "Row Tracking".
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.files import row_ids
from tidegate.files.stats import num_records
from tidegate.log.snapshot import Snapshot
from tidegate.log.verify.report import Findings


def check_row_ids(snapshot: Snapshot, found: Findings) -> None:
    """Check the ids of the live files of a table whose rows are tracked."""
    if snapshot.log.dialect.name != "delta" or not snapshot.metadata.property(properties.ENABLE_ROW_TRACKING):
        return
    files = snapshot.files(columns=["path", "baseRowId", "stats"]).combine_chunks()
    for path in files.filter(files.column("baseRowId").is_null()).column("path").to_pylist():
        message = "The table has row tracking enabled, and the file has no row ids."
        found.error("ROW_IDS_MISSING", message, snapshot.version, path)
    _check_given(files.filter(files.column("baseRowId").is_valid()).sort_by("baseRowId"), snapshot, found)


def _check_given(files: pa.Table, snapshot: Snapshot, found: Findings) -> None:
    """The ids of files in their order: none twice, none above the highest that was given out."""
    if not files.num_rows:
        return
    first = files.column("baseRowId").combine_chunks()
    ends = pc.add(first, pc.fill_null(num_records(files.column("stats")), 0))
    taken = pc.less(first.slice(1), ends.slice(0, len(ends) - 1))
    for path in files.slice(1).filter(taken).column("path").to_pylist():
        message = "Row ids of the file are those of another file too."
        found.error("ROW_IDS_TWICE", message, snapshot.version, path)
    domain = snapshot.domains.get(row_ids.DOMAIN)
    mark = row_ids.NO_MARK if domain is None else row_ids.decode_mark(domain.configuration)
    last = pc.max(ends).as_py() - 1
    if last > mark:
        message = f"Row ids up to {last} are given out, and the highest on record is {mark}."
        found.error("ROW_ID_MARK", message, snapshot.version)
