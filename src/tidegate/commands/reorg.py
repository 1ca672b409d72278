"""REORG: rewrite files for what they still hold, not for their size. PURGE takes away what was deleted.

Files with a deletion vector are rewritten without the rows it hides, files from before a column was
dropped without its values; every other file stays, and nothing changes for readers. The caller of
``rewrite`` may pick files for other reasons.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tidegate import properties
from tidegate.commands.footers import files_where
from tidegate.commands.optimize import Optimized, rewrite
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.arrow import to_arrow_type
from tidegate.schema.mapping import mapping_mode, to_physical
from tidegate.transaction.pending import Operation


def purge(spark: SparkSession, log: TableLog, *, where: str | None = None) -> Optimized:
    """REORG TABLE ... APPLY (PURGE)."""
    parameters = {"predicate": [] if where is None else [where], "applyPurge": True}
    return rewrite(spark, log, with_deleted_data, Operation("REORG", parameters), where=where)


def with_deleted_data(snapshot: Snapshot, files: pa.Table) -> pa.Table:
    """The files that still hold rows or columns that the table has no more."""
    hidden = pc.is_valid(files.column("deletionVector"))
    others = files.filter(pc.invert(hidden))
    return pa.concat_tables([files.filter(hidden), with_dropped_columns(snapshot, others)])


def with_dropped_columns(snapshot: Snapshot, files: pa.Table) -> pa.Table:
    """The files that hold a column or field from before it was dropped.

    Columns are dropped under column mapping alone, which never gives an id twice: as long as there are
    as many columns as ids, none was, and no footer is read.
    """
    metadata = snapshot.metadata
    mode = mapping_mode(metadata)
    fields = sum(1 for _ in metadata.schema.walk())
    if mode == "none" or metadata.property(properties.COLUMN_MAPPING_MAX_ID) <= fields:
        return files.slice(0, 0)
    known = {f.name: to_arrow_type(f.type) for f in to_physical(metadata.schema, mode).fields}
    own = _own_columns(metadata)
    expected = pa.struct([*known.items(), *((name, pa.int64()) for name in own)])
    return files_where(snapshot.log, files, lambda stored: _holds_more(pa.struct(list(stored)), expected))


def _own_columns(metadata: Metadata) -> list[str]:
    """The columns that files carry beside the table's: ids and versions of rows."""
    keys = (properties.ROW_ID_COLUMN_NAME, properties.ROW_COMMIT_VERSION_COLUMN_NAME)
    return [name for key in keys if (name := metadata.property(key))]


def _holds_more(stored: pa.DataType, expected: pa.DataType) -> bool:
    """Whether a stored type has fields, at any depth, that are not expected."""
    if pa.types.is_struct(stored) and pa.types.is_struct(expected):
        known = {f.name: f.type for f in expected}
        return any(f.name not in known or _holds_more(f.type, known[f.name]) for f in stored)
    if pa.types.is_list(stored) and pa.types.is_list(expected):
        return _holds_more(stored.value_type, expected.value_type)
    if pa.types.is_map(stored) and pa.types.is_map(expected):
        return _holds_more(stored.key_type, expected.key_type) or _holds_more(
            stored.item_type, expected.item_type
        )
    return False
