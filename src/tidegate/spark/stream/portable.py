"""The streaming source on public API alone: a Python data source that gives files, and tasks that read them.

For Spark Connect, which has no JVM to hang a source into. The data source passes on one row for each file
between two offsets, with what is constant in that file; ``mapInArrow`` on top of it reads the files, so
that no row of data goes through the source itself. It runs in Python on the server: Tidegate must be
installed there. Limits need the ``latestOffset(start, limit)`` of Spark 4.2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from tidegate.files import partitions
from tidegate.log.actions import Add
from tidegate.log.columns import from_batch
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.schema.types import LONG, STRING, TIMESTAMP
from tidegate.schema.types import StructField as Field
from tidegate.schema.types import StructType as StoredType
from tidegate.spark import failures
from tidegate.spark.scan import vectors
from tidegate.spark.scan.change_files import CHANGE, TIME, VERSION, ChangeFiles
from tidegate.spark.scan.change_files import FILES as CHANGED_FILES
from tidegate.spark.scan.native import HIDDEN
from tidegate.spark.scan.portable import task_names, task_plan, zoned
from tidegate.spark.scan.projection import Layout, spark_type
from tidegate.spark.scan.readers import Reading, reading
from tidegate.spark.stream.carried import carrying
from tidegate.spark.stream.offsets import BEFORE, NO_LIMITS, StreamOffset
from tidegate.spark.stream.tail import Slice, StreamOptions, Tail

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
    _Base: Any = SupportsTriggerAvailableNow
except ImportError:
    HAS_LIMITS = False
    _Base = object

_OF_CHANGES = (Field(VERSION, LONG), Field(TIME, TIMESTAMP), Field(CHANGE, STRING))
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

NAME = "tidegate_files"
_PATH, _VALUES, _HIDDEN = "path", "values", "hidden"
_ROW = f"{_PATH} string, {_VALUES} array<string>, {_HIDDEN} binary"
_ARROW = pa.schema([(_PATH, pa.string()), (_VALUES, pa.list_(pa.string())), (_HIDDEN, pa.binary())])
# One task for so many bytes, and a few at least where there are files for them.
_TASK_BYTES = 64 << 20
_FEW = 8


class FilesSource(DataSource):
    """The files of a table as a stream, with what is constant in each of them."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return _ROW

    @carrying
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        given = self.options
        log = TableLog.at(given["path"])
        options = msgspec.json.decode(given["stream"], type=StreamOptions)
        return FilesReader(Tail(log, load(log, int(given["version"])), options))


class _Files(InputPartition):
    def __init__(self, rows: list[tuple[str, list[str | None], bytes | None]]) -> None:
        super().__init__(0)
        self.rows = rows


# PySpark below 4.2 has no such base, so its type is known only at run time.
class FilesReader(DataSourceStreamReader, _Base):  # type: ignore[misc]
    """Offsets and files, from the log."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get this object too, and need nothing but what a partition brings."""
        return {}

    def _offset(self, said: dict[str, Any]) -> StreamOffset | None:
        """An offset; None for the beginning of the initial snapshot, which a later start finds moved."""
        found = self._tail.offset(json.dumps(said))
        assert found is not None
        return None if found.initial and found.index == BEFORE else found

    @carrying
    def initialOffset(self) -> dict[str, Any]:
        return _said(self._tail.beginning())

    @carrying
    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        if start is None:
            # Before Spark 4.2 nobody says where the batch starts: it takes all there is.
            return _said(StreamOffset(self._tail.shape.metadata.id, load(self._tail.log).version + 1))
        limits = NO_LIMITS if isinstance(limit, ReadAllAvailable) else self._tail.options.limits
        return _said(self._tail.latest(self._offset(start), limits))

    def getDefaultReadLimit(self) -> Any:
        return ReadMaxFiles(self._tail.options.limits.files or 1)

    def prepareForTriggerAvailableNow(self) -> None:
        self._tail.available_now()

    @carrying
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        to = self._tail.offset(json.dumps(end))
        assert to is not None
        found = self._tail.between(self._offset(start), to)
        if self._tail.options.changes:
            files = _changed(self._tail, found)
        else:
            files = pa.concat_tables([found.initial, found.added])
        return _tasks(self._tail.shape, files, self._tail.options.changes) if files.num_rows else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Files)
        columns = zip(*partition.rows, strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, f.type) for values, f in zip(columns, _ARROW, strict=True)], schema=_ARROW
        )

    def commit(self, end: dict[str, Any]) -> None:
        to = self._tail.offset(json.dumps(end))
        assert to is not None
        self._tail.forget(to)


def _said(offset: StreamOffset) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(offset.to_json())
    return found


def _changed(tail: Tail, between: Slice) -> pa.Table:
    """The files that hold the changes between two offsets."""
    found = ChangeFiles(tail.log, tail.shape)
    if between.initial_version is not None:
        at = between.initial_version
        began = tail.shape if at == tail.shape.version else load(tail.log, at)
        found.begin_with(began.version, began.timestamp_ms, between.initial)
    if between.first <= between.last:
        found.read(between.first, between.last)
    return pa.Table.from_pylist([*found.cdc, *found.inferred], CHANGED_FILES)


def _tasks(shape: Snapshot, files: pa.Table, changes: bool) -> list[InputPartition]:
    """The files, spread over tasks by their sizes."""
    rows = _constants(shape, files, changes)
    sizes = files.column("size").to_pylist()
    count = min(len(rows), max(_FEW, sum(sizes) // _TASK_BYTES))
    bins: list[list[Any]] = [[] for _ in range(count)]
    loads = [0] * count
    for size, row in sorted(zip(sizes, rows, strict=True), key=lambda pair: -pair[0]):
        at = loads.index(min(loads))
        bins[at].append(row)
        loads[at] += size
    return [_Files(b) for b in bins if b]


def _constant_fields(layout: Layout, changes: bool) -> tuple[Field, ...]:
    """What is constant in a file: partition values, and in a stream of changes what changed, and when."""
    return (*layout.partitions.fields, *(_OF_CHANGES if changes else ()))


def _constants(
    shape: Snapshot, files: pa.Table, changes: bool
) -> list[tuple[str, list[str | None], bytes | None]]:
    values = files.column("partitionValues").combine_chunks()
    texts = []
    for f in _constant_fields(Layout.of(shape.metadata), changes):
        raw = partitions.raw(values, f.name)
        texts.append((zoned(raw) if f.type == TIMESTAMP else raw).to_pylist())
    described = files.append_column("dataChange", pa.array([True] * files.num_rows, pa.bool_()))
    deleted = {
        i: add.deletion_vector
        for i, add in enumerate(from_batch(described, Add))
        if add.deletion_vector is not None
    }
    hidden = vectors.read_all(None, shape.log, deleted) if deleted else {}
    if HIDDEN in files.column_names:
        given = enumerate(files.column(HIDDEN).to_pylist())
        hidden = {**hidden, **{i: bitmap for i, bitmap in given if bitmap is not None}}
    names = task_names(shape.url, files)
    return [(name, [t[i] for t in texts], hidden.get(i)) for i, name in enumerate(names)]


# ---------------------------------------------------------------------------- on top of the files


def stream(spark: SparkSession, shape: Snapshot, options: StreamOptions) -> DataFrame:
    """A streaming DataFrame of the table's columns."""
    layout = Layout.of(shape.metadata)
    kinds = _constant_fields(layout, options.changes)
    plan, schema = file_plan(shape, layout, options.changes)
    names = [f"__tidegate_value_{i}" for i in range(len(kinds))]
    out = StructType(
        [
            *schema.fields,
            *(StructField(n, StringType()) for n in names),
            StructField(vectors.COLUMN, BinaryType()),
        ]
    )
    spark.dataSource.register(FilesSource)
    source = spark.readStream.format(NAME).option("path", shape.url).option("version", shape.version)
    files = source.option("stream", msgspec.json.encode(options).decode()).load()
    failures.watch(f"file:{shape.url}" if shape.url.startswith("/") else shape.url, shape.url)
    frame = files.mapInArrow(reading_files(plan, [*names, vectors.COLUMN]), out)
    frame = frame.where(vectors.is_live(F.col(vectors.COLUMN), F.col(plan.row)))
    typed = [F.col(n).cast(spark_type(f.type)).alias(f.name) for n, f in zip(names, kinds, strict=True)]
    data = [F.col("`" + f.name.replace("`", "``") + "`") for f in layout.data.fields]
    if not options.changes:
        return frame.select(*data, *typed).select(*layout.columns())
    *typed, inferred = typed
    kind = F.coalesce(F.col(CHANGE), inferred).alias(CHANGE)
    return frame.select(*data, *typed, kind).select(*layout.columns(), CHANGE, VERSION, TIME)


def file_plan(shape: Snapshot, layout: Layout, changes: bool) -> tuple[Reading, StructType]:
    """What tasks read from files; a change file says of each row what changed, others lack that column."""
    said = (Field(CHANGE, STRING),) if changes else ()
    return task_plan(shape, replace(layout, data=StoredType((*layout.data.fields, *said))))


def reading_files(plan: Reading, constants: list[str]) -> Task:
    """Tasks that read the files named in their rows, and repeat what is constant in each."""
    run = reading(plan)
    kinds = [*([pa.string()] * (len(constants) - 1)), pa.binary()]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                one = pa.RecordBatch.from_pydict(
                    {"key": pa.array([0], pa.int32()), "path": pa.array([row[_PATH]], pa.string())}
                )
                values = [*(row[_VALUES] or []), row[_HIDDEN]]
                for found in run(iter([one])):
                    more = [
                        pa.repeat(pa.scalar(v, k), found.num_rows) for v, k in zip(values, kinds, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(
                        [*found.columns, *more], names=[*found.schema.names, *constants]
                    )

    return read
