"""A table's rows with the places they come from: what every command that changes rows begins with.

``positioned`` is the scan of a snapshot with each row's file and its index in that file, and on tables
with row tracking its id and the version that wrote it. File and numbers are constants of a file, beside
its partition values, so nothing is joined and filters prune files as in any scan. A place is also one
number, ``PLACE``: the file's number above the row's index; joins on it have a single long key.
Specification: "Row Tracking", "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import properties
from tidegate.errors import PredicateError
from tidegate.files import partitions
from tidegate.files import predicate as predicates
from tidegate.files.predicate import Predicate, conjunction
from tidegate.log.columns import STRING_MAP
from tidegate.log.snapshot import Snapshot
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode, physical_to_logical
from tidegate.schema.types import INTEGER, LONG, STRING, StructField, StructType
from tidegate.spark.scan.native import FilePlanner, layout_of, live_rows
from tidegate.spark.scan.native import row_index as row_index_in_file
from tidegate.spark.scan.projection import Layout
from tidegate.spark.scan.widening import by_stored_type, narrow_decimals
from tidegate.spark.write.layout import ROW_COMMIT_VERSION, ROW_ID

FILE, ROW = "__tidegate_file", "__tidegate_row"
NUMBER, PLACE = "__tidegate_file_number", "__tidegate_place"
_BASE, _SINCE = "__tidegate_base_row_id", "__tidegate_default_row_version"

# A place has 40 bits for the row and the rest for the file's number.
ROW_BITS = 40
_ROW_MASK = (1 << ROW_BITS) - 1
# Beyond this many rows that may match, positions come to the driver as bitmaps made by Spark.
_COLLECTED = 20_000_000
# Spark's own bitmaps: this many bits in each.
_BITMAP_BITS = 32_768
FILE_COLUMNS = [
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "stats",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
]


@dataclass(frozen=True)
class Positioned:
    """A positioned scan, and what its planning came to."""

    frame: DataFrame
    snapshot: Snapshot
    planners: tuple[FilePlanner, ...] = ()

    def pushed(self) -> Predicate:
        """What Spark asked of the files when it last planned, in the table's own names; true if nothing."""
        if not self.planners or not self.planners[0].metrics.plans:
            return predicates.Constant(True)
        planner = self.planners[0]
        texts = planner.metrics.plans[-1].get("filters", ())
        found = (_logical(text, planner.physical, self.snapshot.metadata) for text in texts)
        return conjunction([p for p in found if p is not None])


def tracks(metadata: Metadata) -> bool:
    """Whether rows of the table keep their ids when they move."""
    return metadata.property(properties.ENABLE_ROW_TRACKING) and _materialized(metadata) is not None


def _materialized(metadata: Metadata) -> tuple[str, str] | None:
    names = (
        metadata.property(properties.ROW_ID_COLUMN_NAME),
        metadata.property(properties.ROW_COMMIT_VERSION_COLUMN_NAME),
    )
    return (names[0], names[1]) if names[0] and names[1] else None


def positioned(spark: SparkSession, snapshot: Snapshot, files: pa.Table | None = None) -> DataFrame:
    """The snapshot's rows (or those of some of its files) with ``FILE``, ``ROW`` and row tracking."""
    found = places(spark, snapshot, files)
    return found.frame.drop(NUMBER, PLACE)


def places(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table | None = None,
    numbers: Sequence[int] | None = None,
) -> Positioned:
    """``positioned`` with ``NUMBER`` and ``PLACE``; files are numbered in their order, or as told."""
    listed = files.select(FILE_COLUMNS) if files is not None else snapshot.files(columns=FILE_COLUMNS)
    counted = list(range(listed.num_rows)) if numbers is None else list(numbers)
    layout = layout_of(spark, snapshot)
    given = _with_constants(listed, layout, counted)
    if narrow_decimals(layout):
        ways = by_stored_type(snapshot, layout, given) or [(layout, given)]
    else:
        ways = [(layout, given)]
    planners = tuple(FilePlanner(spark, snapshot, _extended(way), some) for way, some in ways)
    frames = [placed_rows(p, way) for p, (way, _) in zip(planners, ways, strict=True)]
    return Positioned(reduce(DataFrame.unionAll, frames), snapshot, planners)


def placed_rows(planner: FilePlanner, way: Layout) -> DataFrame:
    """The rows of a plan in the table's columns, with their places beside them."""
    rows = live_rows(planner)
    return rows.select(*way.columns(), *_extras(way.metadata, row_index_in_file(planner, rows)))


def place(number: Column, row: Column) -> Column:
    """The number of a place."""
    return F.call_function("shiftleft", number.cast("long"), F.lit(ROW_BITS)).bitwiseOR(row)


def file_number(at: Column) -> Column:
    """The file of a place."""
    return F.call_function("shiftright", at, F.lit(ROW_BITS)).cast("int")


def row_index(at: Column) -> Column:
    """The row of a place."""
    return at.bitwiseAND(F.lit(_ROW_MASK))


# ---------------------------------------------------------------------------- constants of files


def _with_constants(files: pa.Table, layout: Layout, numbers: Sequence[int]) -> pa.Table:
    """The files with what is constant in each among its partition values."""
    n = files.num_rows
    values = files.column("partitionValues").combine_chunks()
    values = values if isinstance(values, pa.Array) else pa.array([], STRING_MAP)
    columns = {f.name: partitions.raw(values, f.name) for f in layout.partitions.fields}
    columns[FILE] = _flat(files, "path", n)
    columns[NUMBER] = pa.array(numbers, pa.int64()).cast(pa.string())
    columns[_BASE] = _flat(files, "baseRowId", n).cast(pa.string())
    columns[_SINCE] = _flat(files, "defaultRowCommitVersion", n).cast(pa.string())
    at = files.schema.get_field_index("partitionValues")
    return files.set_column(at, pa.field("partitionValues", STRING_MAP), _as_map(columns, n))


def _flat(files: pa.Table, name: str, n: int) -> pa.Array:
    if name not in files.column_names or n == 0:
        return pa.nulls(n, pa.string())
    return files.column(name).combine_chunks()


def _as_map(columns: Mapping[str, pa.Array], n: int) -> pa.Array:
    """Columns of strings as one map per row."""
    k = len(columns)
    if n == 0:
        return pa.array([], STRING_MAP)
    flat = pa.concat_arrays([c.cast(pa.string()) for c in columns.values()])
    order = np.arange(k * n).reshape(k, n).T.reshape(-1)
    keys = pa.array(list(columns), pa.string()).take(pa.array(np.tile(np.arange(k), n)))
    offsets = pa.array(np.arange(0, k * n + 1, k), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, flat.take(pa.array(order)))


def _extended(layout: Layout) -> Layout:
    constants = (
        StructField(FILE, STRING),
        StructField(NUMBER, INTEGER),
        StructField(_BASE, LONG),
        StructField(_SINCE, LONG),
    )
    data = layout.data
    names = _materialized(layout.metadata)
    if tracks(layout.metadata) and names is not None:
        data = StructType((*data.fields, *(StructField(name, LONG) for name in names)))
    return replace(layout, data=data, partitions=StructType((*layout.partitions.fields, *constants)))


def _extras(metadata: Metadata, row: Column) -> list[Column]:
    out = [
        F.col(FILE).alias(FILE),
        row.alias(ROW),
        F.col(NUMBER).alias(NUMBER),
        place(F.col(NUMBER), row).alias(PLACE),
    ]
    names = _materialized(metadata)
    if tracks(metadata) and names is not None:
        out.append(F.coalesce(_quoted(names[0]), F.col(_BASE) + row).alias(ROW_ID))
        out.append(F.coalesce(_quoted(names[1]), F.col(_SINCE)).alias(ROW_COMMIT_VERSION))
    return out


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _logical(text: str, physical: StructType, metadata: Metadata) -> Predicate | None:
    """A pushed filter in the table's names; None for one that says nothing of its columns."""
    mode = mapping_mode(metadata)

    def rename(node: Predicate) -> Predicate:
        column = getattr(node, "column", None)
        if not isinstance(column, predicates.Column):
            if node.columns:
                raise PredicateError(str(node))
            return node
        path = physical_to_logical(metadata.schema, column.path, mode)
        if path is None:
            raise PredicateError(str(node))
        # Every node with a column is a dataclass; their common base is none, so mypy cannot know.
        return replace(node, column=predicates.Column(path))  # type: ignore[type-var]

    try:
        return predicates.parse(text).resolve(physical).rewrite(rename).resolve(metadata.schema)
    except PredicateError:
        return None


# ---------------------------------------------------------------------------- places at the driver


def rows_by_file(frame: DataFrame, at_most: int | None) -> dict[int, BitMap64]:
    """The rows that the column ``PLACE`` of ``frame`` names, as one bitmap for each file number.

    ``at_most`` is an upper bound of the number of rows, None where there is none. Few come as they
    are; many are made into bitmaps where they lie, at four kilobytes for each 32,768 rows of a file.
    """
    if at_most is not None and at_most <= _COLLECTED:
        return _from_places(frame.select(PLACE).toArrow())
    place_ = F.col(PLACE)
    row = row_index(place_) + 1
    bitmaps = (
        frame.groupBy(
            file_number(place_).alias("file"), F.call_function("bitmap_bucket_number", row).alias("bucket")
        )
        .agg(
            F.call_function("bitmap_construct_agg", F.call_function("bitmap_bit_position", row)).alias("bits")
        )
        .toArrow()
    )
    out: dict[int, BitMap64] = {}
    for batch in bitmaps.to_batches():
        for file, bucket, bits in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            flags = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
            found = np.flatnonzero(flags).astype(np.uint64) + np.uint64((bucket - 1) * _BITMAP_BITS)
            out.setdefault(file, BitMap64()).update(BitMap64(found))
    return out


def _from_places(table: pa.Table) -> dict[int, BitMap64]:
    found = np.unique(pc.cast(table.column(0), pa.int64()).to_numpy())
    if not len(found):
        return {}
    files = found >> ROW_BITS
    starts = np.flatnonzero(files[1:] != files[:-1]) + 1
    pieces = np.split(found & _ROW_MASK, starts)
    numbers = files[np.concatenate([[0], starts])]
    return {int(n): BitMap64(piece.astype(np.uint64)) for n, piece in zip(numbers, pieces, strict=True)}
