"""Aggregates over matching rows: exact, without a limit on groups, one pass over the columns they need.

Each split gives a partial result, which Arrow computes; the partial results are merged once more. Whole
numbers are summed as decimals, so that no sum overflows on the way; what does not fit into 64 bits in the
end is an error and never a wrong number. Averages of any number are doubles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import QueryError
from tidegate.index.query import Node
from tidegate.index.work import Opened, Scope, Target
from tidegate.schema.arrow import to_arrow_type

_METRIC = re.compile(r"\s*(count|sum|avg|min|max)\s*(?:\(\s*(.*?)\s*\))?\s*", re.IGNORECASE)
_WIDE = pa.decimal128(38, 0)
# Milliseconds, seconds and so on, in microseconds.
_UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class Metric:
    """One result column: a function over a column, or over rows."""

    name: str
    function: str
    column: str | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """A key that is computed: values in steps of ``step``, from ``origin`` on."""

    column: str
    step: float | int
    origin: float | int = 0


def metrics_of(given: Sequence[str] | Mapping[str, str] | None) -> tuple[Metric, ...]:
    """Metrics as people write them: ``["count", "avg(latency)"]``, or by name ``{"n": "count"}``."""
    if given is None:
        given = ["count"]
    pairs = given.items() if isinstance(given, Mapping) else [(m, m) for m in given]
    out = []
    for name, text in pairs:
        found = _METRIC.fullmatch(text)
        if found is None or (found[1].lower() != "count" and not found[2]):
            raise QueryError(
                f"{text!r} is no metric.", hint="Metrics are count, count(c), sum(c), avg(c), min(c), max(c)."
            )
        column = None if found[2] in (None, "", "*") else found[2].strip("`")
        out.append(Metric(name, found[1].lower(), column))
    return tuple(out)


def time_step(text: str) -> int:
    """``15m``, ``1d`` and the like in microseconds."""
    found = re.fullmatch(r"\s*(\d+)\s*(us|ms|s|m|h|d|w)\s*", text)
    if found is None or int(found[1]) == 0:
        raise QueryError(
            f"{text!r} is no length of time.", hint="Write it like 500ms, 30s, 15m, 6h, 1d or 1w."
        )
    return int(found[1]) * _UNITS[found[2]]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Groups and partial metrics of one split."""

    scope: Scope
    node: Node
    keys: tuple[str, ...]
    metrics: tuple[Metric, ...]
    bucket: Bucket | None = None

    def __post_init__(self) -> None:
        schema = self.scope.columns
        mapping = self.scope.names.mapping
        for name in self._needed():
            found = schema.field(name)
            if found is None:
                raise QueryError(
                    f"The table has no column {name}.", hint=f"Its columns are {', '.join(schema.names)}."
                )
            held = mapping.find(name)
            if held is not None and not held.stored and self.scope.source is None:
                raise QueryError(f"The column {name} is not stored (indexing.indexonlyfields).")
        for metric in self.metrics:
            kind = None if metric.column is None else self._kind(metric.column)
            if metric.function in ("sum", "avg") and not _is_number(kind):
                raise QueryError(f"{metric.column} is no number, so it has no {metric.function}.")

    def _needed(self) -> list[str]:
        named = [*self.keys, *(m.column for m in self.metrics if m.column is not None)]
        if self.bucket is not None:
            named.append(self.bucket.column)
        return list(dict.fromkeys(named))

    def _kind(self, column: str) -> pa.DataType:
        found = self.scope.columns.field(column)
        assert found is not None
        return to_arrow_type(found.type)

    # ------------------------------------------------------------------ partial results

    @property
    def key_fields(self) -> list[pa.Field]:
        fields = []
        if self.bucket is not None:
            fields.append(pa.field(BUCKET, _bucket_type(self._kind(self.bucket.column))))
        return fields + [pa.field(k, self._kind(k)) for k in self.keys]

    @property
    def _partials(self) -> list[tuple[str, str, str | None]]:
        """Name, function and column of what each split computes."""
        out: list[tuple[str, str, str | None]] = []
        for i, m in enumerate(self.metrics):
            if m.function == "avg":
                out += [(f"{i}_sum", "sum", m.column), (f"{i}_count", "count", m.column)]
            else:
                out.append((f"{i}_{m.function}", m.function, m.column))
        return out

    @property
    def schema(self) -> pa.Schema:
        fields = list(self.key_fields)
        for name, function, column in self._partials:
            kind = pa.int64() if function == "count" or column is None else self._kind(column)
            fields.append(pa.field(name, _sum_type(kind) if function == "sum" else kind))
        return pa.schema(fields)

    def __call__(self, target: Target) -> pa.Table:
        opened = Opened(self.scope, target)
        needed = self._needed()
        rows = opened.rows(self.node, None)
        table = opened.fetch(rows, needed) if needed else None
        if self.bucket is not None:
            assert table is not None
            column = table.column(self.bucket.column)
            table = table.append_column(BUCKET, _buckets(column, self.bucket))
        columns = {} if table is None else {n: table.column(n) for n in table.column_names}
        prepared: dict[str, Any] = {f.name: columns[f.name] for f in self.key_fields}
        for name, function, column_name in self._partials:
            if column_name is None:
                prepared[name] = pa.repeat(pa.scalar(1, pa.int64()), len(rows))
            else:
                values = columns[column_name]
                prepared[name] = values.cast(_sum_type(values.type)) if function == "sum" else values
        return self._grouped(pa.table(prepared), merging=False).cast(self.schema)

    def _grouped(self, table: pa.Table, *, merging: bool) -> pa.Table:
        keys = [f.name for f in self.key_fields]
        calls = []
        for name, function, column in self._partials:
            if function == "count":
                calls.append((name, "sum" if merging or column is None else "count"))
            else:
                calls.append((name, function))
        grouped = table.group_by(keys, use_threads=False).aggregate(calls)
        names = [f"{n}_{f}" for n, f in calls]
        found = {k: grouped.column(k) for k in keys}
        for (name, function), given in zip(calls, names, strict=True):
            column = grouped.column(given)
            if function == "sum" and name.endswith("count"):
                column = pc.fill_null(column, 0)
            found[name] = column
        return pa.table(found)

    # ------------------------------------------------------------------ the whole

    @property
    def result_schema(self) -> pa.Schema:
        fields = list(self.key_fields)
        for m in self.metrics:
            if m.function == "count":
                kind = pa.int64()
            elif m.function == "avg":
                kind = pa.float64()
            else:
                assert m.column is not None
                kind = self._kind(m.column)
                kind = _result_sum(kind) if m.function == "sum" else kind
            fields.append(pa.field(m.name, kind))
        return pa.schema(fields)

    def merged(self, partials: Sequence[pa.Table]) -> pa.Table:
        """The result from the partial ones, ordered by its keys."""
        whole = pa.concat_tables([self.schema.empty_table(), *partials])
        table = self._grouped(whole, merging=True)
        arrays = [table.column(f.name) for f in self.key_fields]
        for i, m in enumerate(self.metrics):
            if m.function == "avg":
                total = table.column(f"{i}_sum").cast(pa.float64())
                count = table.column(f"{i}_count")
                none = pa.scalar(None, pa.float64())
                arrays.append(
                    pc.divide(total, pc.if_else(pc.equal(count, 0), none, count.cast(pa.float64())))
                )
            else:
                arrays.append(table.column(f"{i}_{m.function}"))
        out = []
        for array, field in zip(arrays, self.result_schema, strict=True):
            try:
                out.append(array.cast(field.type))
            except pa.ArrowInvalid as e:
                raise QueryError(f"The sum {field.name} does not fit into {field.type}: {e}") from e
        result = pa.Table.from_arrays(out, schema=self.result_schema)
        keys = [(f.name, "ascending") for f in self.key_fields if _sorts(f.type)]
        return result.sort_by(keys) if keys else result


def _is_number(kind: pa.DataType | None) -> bool:
    return kind is not None and (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _sorts(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind)


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(kind):
        return _WIDE
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return pa.float64()


def _result_sum(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(kind):
        return pa.int64()
    return _sum_type(kind)


def _bucket_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.timestamp("us", getattr(kind, "tz", None))
    return pa.int64() if pa.types.is_integer(kind) else pa.float64()


def _buckets(column: pa.ChunkedArray, bucket: Bucket) -> pa.ChunkedArray:
    """The start of the step in which each value lies."""
    kind = column.type
    target = _bucket_type(kind)
    if pa.types.is_timestamp(target):
        values = column.cast(target).cast(pa.int64())
        return _floored(values, int(bucket.step), int(bucket.origin)).cast(target)
    if pa.types.is_integer(target):
        return _floored(column.cast(pa.int64()), int(bucket.step), int(bucket.origin))
    values = column.cast(pa.float64())
    steps = pc.floor(pc.divide(pc.subtract(values, float(bucket.origin)), float(bucket.step)))
    return pc.add(pc.multiply(steps, float(bucket.step)), float(bucket.origin))


def _floored(values: Any, step: int, origin: int) -> Any:
    moved = pc.subtract_checked(values, origin)
    quotient = pc.divide(moved, step)
    # Division of whole numbers cuts towards zero.
    below = pc.less(moved, pc.multiply(quotient, step))
    quotient = pc.subtract(quotient, below.cast(pa.int64()))
    return pc.add(pc.multiply(quotient, step), origin)
