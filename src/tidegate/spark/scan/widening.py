"""Type changes that Spark's parquet reader cannot follow by itself: an integer that became a decimal.

Spark widens within a file where the target has room for every value of the file's own type. A byte
or short that became a small decimal lies in the file as a 32-bit integer, for which such a decimal is
too narrow. Files that still have the integer are told by their footers and scanned with their own
type, and the projection casts. Only tables that record such a change ever look at a footer.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.files.locating import locate
from tidegate.log.snapshot import Snapshot
from tidegate.schema.types import INTEGER, LONG, DataType, DecimalType, StructField, StructType
from tidegate.schema.widening import recorded_changes
from tidegate.spark.scan.projection import Layout

_THREADS = 8
# Digits before the point that a 32-bit and a 64-bit integer need.
_ROOM_INT, _ROOM_LONG = 10, 20


def narrow_decimals(layout: Layout) -> list[str]:
    """Top-level columns (physical names) that were an integer and became a decimal too small for Spark."""
    found = []
    columns = {f.name for f in layout.data.fields}
    for path, change in recorded_changes(layout.metadata.schema):
        after = change.after
        if len(path) > 1 or not isinstance(after, DecimalType) or isinstance(change.before, DecimalType):
            continue
        room = _ROOM_LONG if change.before == LONG else _ROOM_INT
        logical = layout.metadata.schema.field(path[0])
        if logical is not None and after.precision - after.scale < room:
            name = layout.physical(logical)
            if name in columns and name not in found:
                found.append(name)
    return found


def by_stored_type(snapshot: Snapshot, layout: Layout, files: pa.Table) -> list[tuple[Layout, pa.Table]]:
    """The files grouped by the types they store, each group with the layout that reads it."""
    odd = narrow_decimals(layout)
    if not odd:
        return [(layout, files)]

    def stored(path: str) -> tuple[DataType | None, ...]:
        store, name = locate(snapshot.log.store, path)
        schema = pq.read_metadata(store.open_input(name)).schema
        return tuple(_integer(schema, name) for name in odd)

    with ThreadPoolExecutor(_THREADS) as pool:
        signatures = list(pool.map(stored, files.column("path").to_pylist()))
    out = []
    for signature in dict.fromkeys(signatures):
        mask = pa.array([s == signature for s in signatures], pa.bool_())
        types = {name: kind for name, kind in zip(odd, signature, strict=True) if kind is not None}
        data = StructType(
            tuple(
                StructField(f.name, types.get(f.name, f.type), f.nullable, f.metadata)
                for f in layout.data.fields
            )
        )
        out.append((replace(layout, data=data), files.filter(mask)))
    return out


def _integer(schema: pq.ParquetSchema, name: str) -> DataType | None:
    """The integer type that a file stores a column in; None if it is a decimal there, or not there."""
    for i in range(len(schema)):
        column = schema.column(i)
        if column.path == name:
            if column.logical_type.type == "DECIMAL":
                return None
            return {"INT32": INTEGER, "INT64": LONG}.get(column.physical_type)
    return None
