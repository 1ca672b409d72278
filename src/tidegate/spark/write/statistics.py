"""Statistics of written files: which leaves a table indexes, and what is known of files as ``add.stats``.

Tasks send bounds as plain columns (timestamps as microseconds, dates as days), and so do files that
are measured after they were written; here they get their types back, long strings are cut as Delta cuts
them, and all files are spelled out at once. Specification: "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate import properties
from tidegate.files import stats
from tidegate.files.stats_text import PREFIX_LENGTH
from tidegate.log.checkpoint.layout import parsed_type
from tidegate.metadata import Metadata
from tidegate.schema.arrow import to_arrow_type
from tidegate.schema.paths import Path
from tidegate.schema.types import StructType
from tidegate.spark.write import footers
from tidegate.spark.write.bounds import Column

Leaves = Sequence[tuple[Path, "pa.DataType | None"]]


def string_length(metadata: Metadata) -> int:
    """How many characters of a string its bounds keep."""
    found = properties.get(metadata.configuration, properties.DATA_SKIPPING_STRING_PREFIX_LENGTH)
    return PREFIX_LENGTH if found is None else found


def first_leaves(data: StructType, count: int) -> Leaves:
    """The first ``count`` leaves of data columns, all of them when negative."""
    leaves = list(data.leaves())
    kept = leaves if count < 0 else leaves[:count]
    return [(tuple(p), to_arrow_type(f.type) if stats.has_bounds(f.type) else None) for p, f in kept]


def indexed_leaves(metadata: Metadata) -> Leaves:
    """The leaves (physical paths) that the table's properties want indexed; None for one without bounds."""
    whole = parsed_type(metadata)
    if whole.get_field_index(stats.NULLS) < 0:
        return []
    at = whole.get_field_index(stats.MIN)
    bounded = dict(_leaves(whole.field(at).type)) if at >= 0 else {}
    return [(path, bounded.get(path)) for path, _ in _leaves(whole.field(stats.NULLS).type)]


def _leaves(kind: pa.StructType, above: Path = ()) -> Iterator[tuple[Path, pa.DataType]]:
    for field in kind:
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, (*above, field.name))
        else:
            yield (*above, field.name), field.type


def columns_for_tasks(metadata: Metadata) -> tuple[Column, ...]:
    """The leaves as tasks want to know them."""
    return _columns(indexed_leaves(metadata))


def _columns(leaves: Leaves) -> tuple[Column, ...]:
    return tuple(Column(path, None if t is None else _wire(t)) for path, t in leaves)


def _wire(kind: pa.DataType) -> pa.DataType:
    """How a bound travels: what depends on a session's zone goes as a number."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date(kind) else kind


def wire_fields(columns: tuple[Column, ...]) -> list[pa.Field]:
    """The fields that a task's answer has for statistics: null count, lowest, highest, by number."""
    out = []
    for i, column in enumerate(columns):
        out.append(pa.field(f"n{i}", pa.int64()))
        if column.wire is not None:
            out += [pa.field(f"l{i}", column.wire), pa.field(f"h{i}", column.wire)]
    return out


def of_footers(metadatas: Sequence[pq.FileMetaData], leaves: Leaves, *, tight: bool) -> list[str]:
    """The statistics of files that others wrote as JSON, by what their footers alone say."""
    columns = _columns(leaves)
    rows = [footers.of_footer(m, columns, any_case=True).row for m in metadatas]
    found: list[str] = spelled(as_table(rows, columns), leaves, PREFIX_LENGTH, tight=tight).to_pylist()
    return found


def as_table(rows: list[dict[str, Any]], columns: tuple[Column, ...]) -> pa.Table:
    fields = [pa.field("rows", pa.int64()), *wire_fields(columns)]
    arrays = [_array([row.get(f.name) for row in rows], f.type) for f in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values of a kind; null (not known) where the table's type has no room for what a file says."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if _strange(v, kind) else v for v in values], kind)


def _strange(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.scalar(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return True
    return False


# ---------------------------------------------------------------------------- JSON


def texts(commits: pa.Table, metadata: Metadata, *, tight: bool) -> pa.Array:
    """The statistics of each file as JSON."""
    return spelled(commits, indexed_leaves(metadata), string_length(metadata), tight=tight)


def spelled(commits: pa.Table, leaves: Leaves, length: int, *, tight: bool) -> pa.Array:
    """Rows of files as JSON, with the bounds of ``leaves``."""
    bounds: dict[str, dict[Path, pa.Array]] = {stats.MIN: {}, stats.MAX: {}, stats.NULLS: {}}
    for i, (path, kind) in enumerate(leaves):
        bounds[stats.NULLS][path] = _column(commits, f"n{i}")
        if kind is not None:
            low, high = (_column(commits, f"{which}{i}") for which in "lh")
            if pa.types.is_string(kind):
                low, high = _cut(low, stats.truncate_min, length), _cut(high, stats.truncate_max, length)
            bounds[stats.MIN][path], bounds[stats.MAX][path] = low.cast(kind), high.cast(kind)
    rows = commits.num_rows
    arrays = [_column(commits, "rows"), *(_nested(b, rows) for b in bounds.values())]
    names = [stats.RECORDS, stats.MIN, stats.MAX, stats.NULLS]
    if tight:
        arrays.append(pa.repeat(pa.scalar(True), rows))
        names.append(stats.TIGHT)
    return stats.encode(pa.StructArray.from_arrays(arrays, names))


def _column(commits: pa.Table, name: str) -> pa.Array:
    found = commits.column(name)
    return found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)


def _cut(values: pa.Array, cut: object, length: int) -> pa.Array:
    assert callable(cut)
    if pc.max(pc.utf8_length(values)).as_py() is None or pc.max(pc.utf8_length(values)).as_py() * 2 <= length:
        return values
    return pa.array([None if v is None else cut(v, length) for v in values.to_pylist()], pa.string())


def _nested(leaves: dict[Path, pa.Array], rows: int) -> pa.StructArray:
    """Leaves by path as one struct of structs."""
    groups: dict[str, dict[Path, pa.Array]] = {}
    for path, values in leaves.items():
        groups.setdefault(path[0], {})[path[1:]] = values
    names, arrays = [], []
    for name, inner in groups.items():
        names.append(name)
        arrays.append(inner[()] if () in inner else _nested(inner, rows))
    if not arrays:
        return pa.array([{}] * rows, pa.struct([]))
    return pa.StructArray.from_arrays(arrays, names)
