"""One task of the portable delayed commit: Arrow batches in, parquet files at their final place, one row out
per file.

Everything here travels to executors by value and needs PySpark and pyarrow alone. Rows come sorted by
their partition, so one file is open at a time. A task that fails deletes what it wrote; rows of its files
reach the driver only if it succeeds, and until the commit nobody sees them.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext

from tidegate.files import days
from tidegate.files.days import date_text
from tidegate.spark.carried import carried
from tidegate.spark.write import bounds
from tidegate.spark.write.bounds import Column, Statistics
from tidegate.spark.write.layout import directory_for, file_name

_ROW_GROUP_BYTES = 64 << 20


@dataclass(frozen=True)
class Plan:
    """What a task must know. ``data`` and ``changes`` are the schemas of the two kinds of files.

    A batch has the columns of ``data``, then the partition columns, then the kind of change if any.
    ``result`` is the schema of the rows that go back, one per file.
    """

    place: Any
    data: pa.Schema
    changes: pa.Schema | None
    partitions: tuple[str, ...]
    columns: tuple[Column, ...]
    result: pa.Schema
    compression: str
    extension: str
    max_records: int
    prefix_length: int
    string_length: int


# ---------------------------------------------------------------------------- partition values


def texts(values: pa.Array) -> list[str | None]:
    """Partition values as the log spells them; an empty string is null."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        local = pc.cast(pc.cast(values, pa.timestamp("us")), pa.int64()).to_pylist()
        return [None if v is None else _instant(v) if kind.tz is not None else _local(v) for v in local]
    if pa.types.is_date(kind):
        return [None if v is None else date_text(v) for v in values.cast(pa.int32()).to_pylist()]
    if pa.types.is_decimal(kind):
        return _strings(values)
    return [_text(v) for v in values.to_pylist()]


def _parts(micros: int) -> tuple[str, str, int]:
    """The date, the time of day in seconds and what is left of it."""
    days, micros = divmod(micros, 86_400_000_000)
    seconds, micros = divmod(micros, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    return date_text(days), f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}", micros


def _instant(micros: int) -> str:
    date, time_of_day, rest = _parts(micros)
    return f"{date}T{time_of_day}.{rest:06}Z"


def _local(micros: int) -> str:
    date, time_of_day, rest = _parts(micros)
    return f"{date} {time_of_day}.{rest:06}" if rest else f"{date} {time_of_day}"


def _strings(values: pa.Array) -> list[str | None]:
    return list(pc.cast(values, pa.string()).to_pylist())


def _text(value: Any) -> str | None:
    if value is None or value in ("", b""):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return ("-Infinity" if value < 0 else "Infinity") if math.isinf(value) else repr(value)
    return str(value)


def _runs(columns: Sequence[pa.Array], rows: int) -> list[int]:
    """Where rows with other keys begin, the end included; equal neighbours stay together."""
    new = pa.repeat(pa.scalar(False), rows - 1)
    for column in columns:
        codes = pc.fill_null(column.dictionary_encode().indices, -1)
        new = pc.or_(new, pc.not_equal(codes.slice(1), codes.slice(0, rows - 1)))
    return [0, *(i + 1 for i in pc.indices_nonzero(new).to_pylist()), rows]


# ---------------------------------------------------------------------------- files


def _shaped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array in the type of its column; what may not be null has a value below what is null too.

    Spark gives a null variant two parts that are null, and files have parts that never are.
    """
    if _demands(kind):
        array = _filled(pa.concat_arrays([array]), kind)
    return array if array.type == kind else array.cast(kind)


def _demands(kind: pa.DataType) -> bool:
    """Whether a part of a struct somewhere in a type may not be null."""
    if pa.types.is_struct(kind):
        return any(not f.nullable or _demands(f.type) for f in kind)
    if pa.types.is_map(kind):
        return _demands(kind.item_type)
    return pa.types.is_list(kind) and _demands(kind.value_type)


def _filled(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """``array``, which is no slice of another, with values for the parts that may not be null."""
    if pa.types.is_struct(kind):
        parts = [_filled(array.field(i), f.type) for i, f in enumerate(kind)]
        parts = [p if f.nullable else _without_nulls(p, array) for p, f in zip(parts, kind, strict=True)]
        fields = [f.with_type(p.type) for p, f in zip(parts, kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    if not _demands(kind):
        return array
    if pa.types.is_map(kind):
        items = _filled(array.items, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, mask=array.is_null())
    values = _filled(array.values, kind.value_type)
    return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null())


def _without_nulls(part: pa.Array, parent: pa.Array) -> pa.Array:
    """A part of a struct with something in the rows where the struct itself is null."""
    if not part.null_count or not pa.types.is_binary(part.type):
        return part
    return pc.if_else(parent.is_null(), pc.fill_null(part, b""), part)


def _without_floats(schema: pa.Schema) -> list[str] | bool:
    """The columns of a file that are no floats, true for all of them.

    Spark takes a NaN for the greatest number and 0.0 for equal to -0.0, and still leaves row groups out by
    bounds that do not count NaN and by dictionaries that hold one zero. What it cannot see it reads.
    """
    sample = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sample)
    found = pq.ParquetFile(pa.BufferReader(sample.getvalue())).schema
    leaves = [found.column(i) for i in range(len(found))]
    floats = {leaf.path for leaf in leaves if leaf.physical_type in ("FLOAT", "DOUBLE")}
    return [leaf.path for leaf in leaves if leaf.path not in floats] if floats else True


class _File:
    """One open file."""

    def __init__(self, plan: Plan, key: tuple[Any, ...], split: int, told: list[str] | bool) -> None:
        self.is_change, self.values = bool(key[0]), list(key[1:])
        pairs = list(zip(plan.partitions, self.values, strict=True))
        name = file_name(split, plan.extension, is_cdc=self.is_change, separator="." if pairs else "-")
        directory = directory_for(pairs, is_cdc=self.is_change, prefix_length=plan.prefix_length)
        self.path = f"{directory}/{name}" if directory else name
        self.rows = 0
        self.statistics = Statistics(() if self.is_change else plan.columns, plan.string_length)
        self._plan = plan
        self._schema = plan.changes if self.is_change else plan.data
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._sink = plan.place.open_output(self.path)
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=plan.compression,
            store_schema=False,
            store_decimal_as_integer=True,
            write_page_index=False,
            write_statistics=told,
            use_dictionary=told,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._held.append(batch)
        self._held_bytes += batch.get_total_buffer_size() if self._held_bytes == 0 else batch.nbytes
        if self._held_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        self.statistics.add(table)
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._held, self._held_bytes = [], 0

    def close(self) -> dict[str, Any]:
        """Finish the file; what the driver is told of it."""
        self._flush()
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        low, high, nulls = self.statistics.bounds()
        row: dict[str, Any] = {
            "path": self.path,
            "is_change": self.is_change,
            "values": self.values,
            "size": size,
            "modified": time.time_ns() // 1_000_000,
            "rows": self.rows,
        }
        columns = [] if self.is_change else list(self._plan.columns)
        for i, _ in enumerate(columns):
            row[f"n{i}"], row[f"l{i}"], row[f"h{i}"] = nulls[i], low[i], high[i]
        return row

    def discard(self) -> None:
        """Never finish this file: an upload that is not closed leaves nothing behind."""
        if hasattr(self._sink, "abandon"):
            self._sink.abandon()


class _Task:
    """The files of one task."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        context = TaskContext.get()
        self._split = context.partitionId() if context is not None else 0
        self._told = {
            c: _without_floats(s) for c, s in ((False, plan.data), (True, plan.changes)) if s is not None
        }
        self._opened: list[str] = []
        self._current: tuple[tuple[Any, ...], _File] | None = None
        self.rows: list[dict[str, Any]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        plan = self._plan
        width, parts = len(plan.data), len(plan.partitions)
        keys = [_comparable(batch.column(width + i)) for i in range(parts)]
        kinds = batch.column(width + parts) if plan.changes is not None else None
        flags = [] if kinds is None else [kinds.is_valid()]
        ends = _runs([*flags, *keys], batch.num_rows)
        firsts = pa.array(ends[:-1], pa.int64())
        spelled = [texts(k.take(firsts)) for k in keys]
        changed = flags[0].take(firsts).to_pylist() if flags else [False] * len(firsts)
        data = [batch.column(i) for i in range(width)]
        for i, start in enumerate(ends[:-1]):
            key = (changed[i], *(s[i] for s in spelled))
            columns = [c.slice(start, ends[i + 1] - start) for c in data]
            if changed[i]:
                assert plan.changes is not None
                assert kinds is not None
                # Change files have the table's columns and the kind of change, no row ids.
                columns = [*columns[: len(plan.changes) - 1], kinds.slice(start, ends[i + 1] - start)]
            self._write(key, columns, ends[i + 1] - start)

    def _write(self, key: tuple[Any, ...], columns: list[pa.Array], rows: int) -> None:
        schema = self._plan.changes if key[0] else self._plan.data
        assert schema is not None
        shaped = [_shaped(c, f.type) for c, f in zip(columns, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(shaped, schema=schema) if len(schema) else None
        done = 0
        while done < rows:
            file = self._file(key)
            room = self._plan.max_records - file.rows if self._plan.max_records > 0 else rows
            take = min(room, rows - done)
            assert batch is not None
            file.write(batch.slice(done, take))
            done += take
            if self._plan.max_records > 0 and file.rows >= self._plan.max_records:
                self._close()

    def _file(self, key: tuple[Any, ...]) -> _File:
        if self._current is not None and self._current[0] == key:
            return self._current[1]
        self._close()
        file = _File(self._plan, key, self._split, self._told[bool(key[0])])
        self._opened.append(file.path)
        self._current = (key, file)
        return file

    def _close(self) -> None:
        if self._current is not None:
            self.rows.append(self._current[1].close())
            self._current = None

    def finish(self) -> list[dict[str, Any]]:
        self._close()
        return self.rows

    def abort(self) -> None:
        """Delete what this attempt wrote; another attempt has names of its own."""
        if self._current is not None:
            self._current[1].discard()
        for path in self._opened:
            try:
                self._plan.place.delete(path)
            except Exception:
                # An orphan is VACUUM's business; the failure is what counts.
                continue


def _comparable(values: pa.Array) -> pa.Array:
    """Keys with one form for each value: to Spark, the two zeros are one."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def writing(plan: Plan, names: list[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow``; ``names`` are those of the columns that come, in their order."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _Task(plan)
        try:
            for batch in batches:
                if batch.num_rows:
                    task.add(pa.RecordBatch.from_arrays(batch.columns, names=names))
            rows = task.finish()
        except BaseException:
            task.abort()
            raise
        # Outside of the attempt: a reader who stops here must not take the files back.
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=plan.result)

    return run


# Executors need not have this package: these modules travel with the task.
carried(sys.modules[__name__], bounds, days)
