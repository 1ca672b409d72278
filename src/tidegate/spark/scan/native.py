"""The native scan: Spark's own parquet reader over exactly the files that the log and filters leave.

Spark asks our file index for files while it plans, with the filters it has pushed down; partition
pruning and data skipping happen there, on Arrow columns, and the answer goes back in bulk.
Partition values and deletion vectors travel as constants of their files.
"""

from __future__ import annotations

import json
import logging
import struct
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import PredicateError, TidegateError
from tidegate.files import partitions
from tidegate.files import predicate as predicates
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.files.paths import decode_path, refuse_outside, resolve_path
from tidegate.files.predicate import Predicate
from tidegate.files.skipping import keep_mask
from tidegate.log.actions import Add
from tidegate.log.columns import from_batch
from tidegate.log.snapshot import Snapshot
from tidegate.schema.types import StructField, StructType
from tidegate.spark import failures, jvm
from tidegate.spark.hadoop import hadoop_root, settings
from tidegate.spark.scan import metrics, portable, vectors
from tidegate.spark.scan.origins import Origin, Scan, scanned
from tidegate.spark.scan.projection import Layout, file_metadata, spark_type
from tidegate.spark.scan.widening import by_stored_type, narrow_decimals
from tidegate.spark.session import pinned
from tidegate.spark.skipping import narrowing
from tidegate.spark.stream import static

_log = logging.getLogger(__name__)
FILE_COLUMNS = ["path", "partitionValues", "size", "modificationTime", "stats", "deletionVector"]

# What a scan asks of the session that runs it, rather than of the one it was planned in, unless told here.
_OPTIONS = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}

# A file list may bring bitmaps of rows to leave out of its own: the packed form, null for none.
HIDDEN = "hiddenRows"


@dataclass
class ScanMetrics:
    """What planning a scan came to: for each time Spark asked, files considered and files kept."""

    table: str
    version: int
    plans: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class FilePlanner:
    """Answers Spark's question which files to read, for one snapshot or for a given list of files."""

    spark: SparkSession
    snapshot: Snapshot
    layout: Layout
    files: pa.Table | None = None
    # Whether a batch of a stream, planned later, sees the table's latest version instead.
    follow: bool = False
    metrics: ScanMetrics = field(init=False)
    has_vectors: bool = field(init=False)

    def __post_init__(self) -> None:
        self._made_in = static.running_batch(self.spark) if self.follow else None
        self.metrics = ScanMetrics(self.snapshot.url, self.snapshot.version)
        self.has_vectors = any(
            found.null_count < len(found)
            for name in ("deletionVector", HIDDEN)
            for found in ([self.candidates().column(name)] if name in self.candidates().column_names else [])
        )

    def candidates(self) -> pa.Table:
        """The files before any filter."""
        return self.files if self.files is not None else self.snapshot.files(columns=FILE_COLUMNS)

    def constants(self) -> list[dict[str, Any]]:
        """The columns that are constant within a file, as fields of Spark's JSON."""
        out: list[Any] = [f.json_value() for f in self.layout.partitions.fields]
        if self.has_vectors:
            out.append({"name": vectors.COLUMN, "type": "binary", "nullable": True, "metadata": {}})
        return out

    @property
    def physical(self) -> StructType:
        """The schema that Spark's filters speak of."""
        return StructType((*self.layout.data.fields, *self.layout.partitions.fields))

    def __call__(self, texts: Sequence[str]) -> Any:
        """Plan for the filters in ``texts``, with timestamps in UTC; the index on the other side reads it."""
        try:
            return self._in_batch()._plan([str(t) for t in texts])
        except TidegateError as e:
            raise failures.through_spark(e) from e

    def _in_batch(self) -> FilePlanner:
        """This planner, or one over the version that the running batch of a stream sees."""
        batch = static.running_batch(self.spark) if self.follow and self.files is None else None
        if batch is None or batch == self._made_in:
            return self
        snapshot = static.latest_for(batch, self.snapshot)
        if snapshot.version == self.snapshot.version:
            return self
        out = replace(self, snapshot=snapshot, follow=False)
        if out.has_vectors and not self.has_vectors:
            raise static.changed(snapshot, "it has deletion vectors now, which the plan did not reckon with")
        out.metrics, out.has_vectors = self.metrics, self.has_vectors
        return out

    def _plan(self, texts: Sequence[str]) -> Any:
        start = time.perf_counter()
        files = self.candidates()
        kept = self._prune(files, texts)
        refuse_outside(kept.column("path"))
        answer = self._answer(kept)
        self.metrics.plans.append(
            {
                "considered": files.num_rows,
                "read": kept.num_rows,
                "filters": list(texts),
                "seconds": time.perf_counter() - start,
            }
        )
        _log.debug("%s: %d of %d files for %s", self.snapshot, kept.num_rows, files.num_rows, list(texts))
        return answer

    def _prune(self, files: pa.Table, texts: Sequence[str]) -> pa.Table:
        names = self.layout.partitions.names
        schema = self.layout.with_type_changes(self.physical)
        for text in texts:
            predicate = self._parse(text)
            if predicate is not None:
                predicate = narrowing(self.spark, predicate, names)
                told = self.snapshot.derived
                files = files.filter(keep_mask(files, predicate, schema, names, "none", told))
        return files

    def _parse(self, text: str) -> Predicate | None:
        """A pushed filter as a predicate; None for one that says nothing we understand."""
        try:
            return predicates.parse(text).resolve(self.physical)
        except PredicateError:
            return None

    def _answer(self, files: pa.Table) -> Any:
        directory, rows = self._directories(files)
        root = hadoop_root(self.snapshot.url)
        out = [struct.pack(">ii", files.num_rows, 1 if rows is None else rows.num_rows)]
        paths, sizes = files.column("path"), files.column("size")
        times = files.column("modificationTime")
        for path, size, modified, at in zip(
            paths.to_pylist(), sizes.to_pylist(), times.to_pylist(), directory.to_pylist(), strict=True
        ):
            name = _absolute(root, path).encode()
            out.append(struct.pack(">iqqi", at, size, modified or 0, len(name)))
            out.append(name)
        java_rows = None if rows is None else self._rows(rows)
        return jvm.java_array(self.spark, "java.lang.Object", [bytearray(b"".join(out)), java_rows])

    def _directories(self, files: pa.Table) -> tuple[pa.Array, pa.Table | None]:
        """Which constants each file has: an index per file, and the table of distinct constants."""
        fields = self.layout.partitions.fields
        if not fields and not self.has_vectors:
            return pa.array([0] * files.num_rows, pa.int32()), None
        values = _combined(files.column("partitionValues"))
        has_vector = _combined(files.column("deletionVector")).is_valid()
        if HIDDEN in files.column_names:
            has_vector = pc.or_(has_vector, _combined(files.column(HIDDEN)).is_valid())
        raw = [partitions.raw(values, f.name) for f in fields]
        # A file with a vector has constants of its own.
        own = pc.if_else(has_vector, pa.array(range(files.num_rows), pa.int64()), -1)
        # Values by their numbers: any text may stand in one.
        numbers = [own, *(pc.fill_null(column.dictionary_encode().indices, -1) for column in raw)]
        key = pc.binary_join_element_wise(*(n.cast(pa.string()) for n in numbers), ",")
        codes = key.dictionary_encode()
        first = pc.index_in(codes.dictionary, key)
        columns = [column.take(first) for column in raw]
        if self.has_vectors:
            bitmaps = self._bitmaps(files, has_vector)
            columns.append(pa.array([bitmaps.get(i) for i in first.to_pylist()], pa.binary()))
        names = [f"c{i}" for i in range(len(columns))]
        return codes.indices, pa.Table.from_arrays(columns, names)

    def packed_vectors(self, files: pa.Table) -> pa.Array:
        """The bitmap of deleted rows of each file, null where it has none."""
        hidden = pc.is_valid(files.column("deletionVector"))
        if HIDDEN in files.column_names:
            hidden = pc.or_(hidden, pc.is_valid(files.column(HIDDEN)))
        found = self._bitmaps(files, _combined(hidden))
        return pa.array([found.get(i) for i in range(files.num_rows)], pa.binary())

    def _bitmaps(self, files: pa.Table, has_vector: pa.Array) -> dict[int, bytes]:
        where = pc.indices_nonzero(has_vector).to_pylist()
        if not where:
            return {}
        given = files.column(HIDDEN).to_pylist() if HIDDEN in files.column_names else None
        out = {at: given[at] for at in where if given[at] is not None} if given is not None else {}
        found: dict[int, DeletionVector] = {}
        rest = [at for at in where if at not in out]
        needed = files.take(pa.array(rest, pa.int64())).append_column(
            "dataChange", pa.array([False] * len(rest), pa.bool_())
        )
        for at, add in zip(rest, from_batch(needed, Add), strict=True):
            assert add.deletion_vector is not None
            found[at] = add.deletion_vector
        return {**out, **vectors.read_all(self.spark, self.snapshot.log, found)}

    def _rows(self, table: pa.Table) -> Any:
        """Constants as Spark's internal rows; Spark itself reads the texts of partition values."""
        frame = pinned(self.spark).createDataFrame(table)
        casts = [
            F.when(F.col(f"c{i}") != "", F.col(f"c{i}")).cast(spark_type(f.type))
            for i, f in enumerate(self.layout.partitions.fields)
        ]
        rest = [F.col(c) for c in frame.columns[len(casts) :]]
        frame = frame.select(*casts, *rest)
        return frame._jdf.queryExecution().executedPlan().executeCollect()


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _absolute(root: str, path: str) -> str:
    decoded = decode_path(path)
    return hadoop_root(decoded) if resolve_path(path).absolute else f"{root}/{decoded}"


def relation(planner: FilePlanner) -> DataFrame:
    """The files of a snapshot as a DataFrame of physical columns, partition columns and the bitmap."""
    spark = planner.spark
    layout = planner.layout
    session = pinned(spark, settings(planner.snapshot.log.store))
    gateway = jvm.gateway_of(spark)
    sql = gateway.org.apache.spark.sql
    partition_type = jvm.java_type(spark, json.dumps({"type": "struct", "fields": planner.constants()}))
    data_type = jvm.java_type(spark, layout.data.to_json())
    snapshot = planner.snapshot
    # What explain() shows as the location of the scan; it cuts long ones off, so the version comes first.
    place = snapshot.url if snapshot.url.startswith("/") else "/" + snapshot.url.replace("://", "/")
    label = f"delta-v{snapshot.version}:{place}"
    # A table that was made anew at the same place is another one, whatever its version.
    identity = f"{label}#{snapshot.metadata.id if planner.files is None else id(planner)}"
    metrics.remember(identity, snapshot.url, snapshot.version, planner.candidates().num_rows)
    size = snapshot.size_in_bytes if planner.files is None else pc.sum(planner.files["size"]).as_py() or 0
    origin = Origin(snapshot.url, snapshot.version, planner.follow, planner.files is None)
    index = jvm.table_file_index(spark).create(
        identity, label, origin.text, size, partition_type, jvm.JavaAnswer(planner)
    )
    found = sql.execution.datasources.HadoopFsRelation(
        index,
        partition_type,
        data_type,
        gateway.scala.Option.empty(),
        sql.execution.datasources.parquet.ParquetFileFormat(),
        gateway.org.apache.spark.api.python.PythonUtils.toScalaMap(_OPTIONS),
        session._jsparkSession,
    )
    return DataFrame(spark._jsparkSession.baseRelationToDataFrame(found), spark)


def scan(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table | None = None,
    columns: Collection[str] | None = None,
    *,
    follow: bool = False,
) -> DataFrame:
    """A snapshot (or some of its files) as a DataFrame of the table's columns, or of those named.

    With ``follow`` a stream that the DataFrame is part of sees the latest version with each batch.
    """
    layout = layout_of(spark, snapshot)
    if narrow_decimals(layout):
        listed = files if files is not None else snapshot.files(columns=FILE_COLUMNS)
        ways = by_stored_type(snapshot, layout, listed) or [(layout, listed)]
        frame = reduce(
            DataFrame.unionAll, [_scan(spark, snapshot, way, some, columns, follow) for way, some in ways]
        )
    else:
        frame = _scan(spark, snapshot, layout, files, columns, follow)
    if jvm.is_connect(spark):
        kept = (f.name for f in _kept(snapshot, columns))
        return scanned(frame, Scan(snapshot.url, tuple(kept)))
    return frame


def _kept(snapshot: Snapshot, columns: Collection[str] | None) -> list[StructField]:
    """The columns of a snapshot, all or those named."""
    if columns is None:
        return list(snapshot.schema.fields)
    wanted = {c.lower() for c in columns}
    return [f for f in snapshot.schema.fields if f.name.lower() in wanted]


def _scan(
    spark: SparkSession,
    snapshot: Snapshot,
    layout: Layout,
    files: pa.Table | None,
    columns: Collection[str] | None,
    follow: bool = False,
) -> DataFrame:
    if columns is None:
        return live_rows(FilePlanner(spark, snapshot, layout, files, follow)).select(*layout.columns())
    kept = _kept(snapshot, columns)
    stored = {layout.physical(f) for f in kept}
    less = replace(layout, data=StructType(tuple(f for f in layout.data.fields if f.name in stored)))
    named = zip(snapshot.schema.fields, layout.columns(), strict=True)
    planner = FilePlanner(spark, snapshot, less, files, follow)
    return live_rows(planner).select(*(c for f, c in named if f in kept))


def layout_of(spark: SparkSession, snapshot: Snapshot) -> Layout:
    """How a snapshot is read in a session; a user's schema for files says nothing of nulls to Spark."""
    return Layout.of(snapshot.metadata, loose=portable.serves(spark, snapshot.url))


def live_rows(planner: FilePlanner) -> DataFrame:
    """The relation without the rows that deletion vectors hide; the portable one where it must be."""
    if portable.serves(planner.spark, planner.snapshot.url):
        return portable.live_rows(planner)
    failures.watch(hadoop_root(planner.snapshot.url), planner.snapshot.url)
    frame = relation(planner)
    if planner.has_vectors:
        frame = frame.where(vectors.is_live(F.col(vectors.COLUMN), row_index(planner, frame)))
    return frame


def row_index(planner: FilePlanner, frame: DataFrame) -> Column:
    """The place of each row of ``live_rows`` in its file, whatever the table's own columns are called."""
    if portable.serves(planner.spark, planner.snapshot.url):
        return portable.row_index()
    return file_metadata(frame, planner.physical).getField("row_index")
