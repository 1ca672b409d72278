"""Splits on their way into a commit: adds in any form as columns, and the removes of splits that are live.

Who removes a split must name one that is live in the version it planned with; one that is not is a
conflict, named before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ConcurrentDeleteDeleteException
from tidegate.index.snapshot import IndexSnapshot
from tidegate.log.checkpoint.read import conform
from tidegate.log.columns import to_batch
from tidegate.log.index_actions import INDEX_ADD_SCHEMA, INDEX_REMOVE_SCHEMA, IndexAdd

Adds: TypeAlias = pa.Table | pa.RecordBatch | Sequence[IndexAdd]
# What a remove is made of.
REMOVED = ("path", "partitionValues", "size")


def add_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Adds from loose mappings of wire names; for a few of them."""
    return as_table([msgspec.convert(dict(row), IndexAdd) for row in rows])


def as_table(adds: Adds) -> pa.Table:
    """Adds as a table with every column; what is missing is null."""
    if isinstance(adds, pa.Table | pa.RecordBatch):
        pieces = adds.to_batches() if isinstance(adds, pa.Table) else [adds]
        return pa.Table.from_batches([conform(b, INDEX_ADD_SCHEMA) for b in pieces], INDEX_ADD_SCHEMA)
    batches = [to_batch(adds, INDEX_ADD_SCHEMA)] if adds else []
    return pa.Table.from_batches(batches, INDEX_ADD_SCHEMA)


def rearranged(adds: Adds) -> pa.Table:
    """Adds that hold rows which the table had already: no data change."""
    table = as_table(adds)
    at = table.schema.get_field_index("dataChange")
    return table.set_column(at, table.schema.field(at), pa.repeat(pa.scalar(False), table.num_rows))


def removes_of(files: pa.Table, now: int, *, data_change: bool) -> pa.Table:
    """The removes of live splits, with all that is known of them."""
    rows = files.num_rows
    columns = {
        "path": files.column("path"),
        "deletionTimestamp": pa.repeat(pa.scalar(now, pa.int64()), rows),
        "dataChange": pa.repeat(pa.scalar(data_change), rows),
        "extendedFileMetadata": pa.repeat(pa.scalar(True), rows),
        "partitionValues": files.column("partitionValues"),
        "size": files.column("size"),
        "tags": pa.nulls(rows, INDEX_REMOVE_SCHEMA.field("tags").type),
    }
    return pa.table(columns, schema=INDEX_REMOVE_SCHEMA)


def live(snapshot: IndexSnapshot, files: pa.Table | Iterable[str], *, strict: bool = True) -> pa.Table:
    """The live splits among ``files`` (rows or paths); ``strict``, one that is not live is a conflict."""
    if isinstance(files, pa.Table):
        wanted = files.column("path").combine_chunks()
    else:
        wanted = pa.array(list(files), pa.string())
    every = snapshot.base.files(columns=list(REMOVED))
    missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=every.column("path"))))
    if strict and len(missing):
        raise ConcurrentDeleteDeleteException(
            f"The split {missing[0].as_py()} is not live at version {snapshot.version}, so it cannot be "
            "replaced or removed.",
            table=snapshot.url,
            version=snapshot.version,
            hint="Another writer has removed it; plan again on the table as it is now.",
        )
    return every.filter(pc.is_in(every.column("path"), value_set=wanted))
