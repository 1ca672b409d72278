"""What a written parquet file holds: by its footer where that is exact, by reading a column where it is not.

Exact in footers: integers, decimals, dates, timestamps in microseconds, floats without NaN, strings that
are not too long, leaves of structs. Not there: bounds of floats that saw a NaN (Spark's writer leaves the
bounds out, others leave the NaN out), everything about very long strings, null counts of arrays and maps
that have nulls or empty ones (footers count their leaves). Those columns, and no others, are read from the
file. Everything here travels to executors by value and needs pyarrow alone.
Specification: "Per-file Statistics".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.spark.write.bounds import Column, Statistics

Path = tuple[str, ...]
_PER_MICROSECOND = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


class _Leaf(NamedTuple):
    """Where a column of the table lies in the file: its parquet columns, and its type."""

    first: int
    width: int
    type: pa.DataType


class Footer(NamedTuple):
    """What a footer says: a row as tasks send it, and the columns (by number) that are to be read.

    ``bytes`` is how much of the file reading them takes.
    """

    row: dict[str, Any]
    missing: list[int]
    bytes: int


# ---------------------------------------------------------------------------- footers


def of_footer(metadata: pq.FileMetaData, columns: Sequence[Column], *, any_case: bool = False) -> Footer:
    """Row count, null counts and bounds as far as the footer knows them for certain.

    With ``any_case`` a file that others wrote may spell a column in another case: then it is found as Spark's
    reader finds it, and nothing is said of a column that several could be.
    """
    leaves = _leaves(metadata)
    row: dict[str, Any] = {"rows": metadata.num_rows}
    missing, size = [], 0
    strays = any_case and any(c.path not in leaves for c in columns)
    spellings = _spellings(leaves) if strays else {}
    for i, column in enumerate(columns):
        leaf = leaves.get(column.path)
        if leaf is None and strays:
            found = _spelled(spellings, column.path)
            if len(found) > 1:
                continue
            leaf = leaves[found[0]] if found else None
        if leaf is None:
            row[f"n{i}"] = metadata.num_rows
            continue
        low, high, nulls, known = _column(metadata, leaf, column)
        row[f"n{i}"], row[f"l{i}"], row[f"h{i}"] = nulls, low, high
        if not known:
            missing.append(i)
            size += sum(
                metadata.row_group(g).column(_smallest(metadata, leaf)).total_compressed_size
                for g in range(metadata.num_row_groups)
            )
    return Footer(row, missing, size)


def _leaves(metadata: pq.FileMetaData) -> dict[Path, _Leaf]:
    """Every field of the file that is no part of an array or a map, by its path.

    Parquet's columns are the leaves of the schema in order, so they are counted, not looked up: a dot in a
    name would make two of them look alike.
    """
    out: dict[Path, _Leaf] = {}
    at = 0

    def visit(path: Path, kind: pa.DataType) -> None:
        nonlocal at
        first = at
        if pa.types.is_struct(kind):
            for field in kind:
                visit((*path, field.name), field.type)
        else:
            at += _width(kind)
        out[path] = _Leaf(first, at - first, kind)

    for field in metadata.schema.to_arrow_schema():
        visit((field.name,), field.type)
    return out


def _spellings(paths: Iterable[Path]) -> dict[Path, list[Path]]:
    """The fields of a file by their paths in small letters."""
    out: dict[Path, list[Path]] = {}
    for path in paths:
        out.setdefault(tuple(part.lower() for part in path), []).append(path)
    return out


def _spelled(spellings: dict[Path, list[Path]], path: Path) -> list[Path]:
    """The fields that differ from ``path`` by case alone; if a struct above is there twice, those structs."""
    lower = tuple(part.lower() for part in path)
    found: list[Path] = []
    for depth in range(1, len(lower) + 1):
        found = spellings.get(lower[:depth], [])
        if len(found) != 1:
            break
    return found


def _width(kind: pa.DataType) -> int:
    """How many parquet columns a type takes."""
    if isinstance(kind, pa.BaseExtensionType):
        return _width(kind.storage_type)
    if pa.types.is_map(kind):
        return _width(kind.key_type) + _width(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _width(kind.value_type)
    if pa.types.is_struct(kind):
        return sum(_width(f.type) for f in kind)
    return 1


def _column(metadata: pq.FileMetaData, leaf: _Leaf, column: Column) -> tuple[Any, Any, int | None, bool]:
    """Lowest, highest and null count over all row groups, and whether that is all there is to know."""
    if leaf.width != 1 or _is_repeated(leaf.type):
        counts = [_nulls(metadata, i) for i in range(leaf.first, leaf.first + leaf.width)]
        least = min((c for c in counts if c is not None), default=None)
        # A null array is a null in each of its leaves, but so is an empty one. A null struct (a variant has
        # no other kind of leaf) is one in each of its leaves, and nothing else is one in all of them.
        exact = least == 0 or (least is not None and not _is_repeated(leaf.type))
        return None, None, least if exact else None, exact
    nulls = _nulls(metadata, leaf.first)
    if column.wire is None:
        return None, None, nulls, nulls is not None
    low: Any = None
    high: Any = None
    known = nulls is not None and (not pa.types.is_floating(leaf.type) or _tells_nan(metadata))
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(leaf.first)
        found = chunk.statistics
        if found is None or (not found.has_min_max and _has_values(chunk)):
            known = False
            continue
        if not found.has_min_max:
            continue
        try:
            least, most = _bounds(found, leaf.type)
        except (ValueError, OverflowError):
            # Bytes that are no text.
            known = False
            continue
        low = least if low is None else min(low, least)
        high = most if high is None else max(high, most)
        if isinstance(least, float) and (math.isnan(least) or math.isnan(most)):
            known = False
    return (_finite(low), _finite(high), nulls, True) if known else (None, None, nulls, False)


def _tells_nan(metadata: pq.FileMetaData) -> bool:
    """Whether bounds of floats mean that there is no NaN."""
    return str(metadata.created_by or "").startswith("parquet-mr")


def _is_repeated(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind))


def _nulls(metadata: pq.FileMetaData, index: int) -> int | None:
    total = 0
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group).column(index).statistics
        if found is None or not found.has_null_count:
            return None
        total += found.null_count
    return total


def _has_values(chunk: Any) -> bool:
    """Whether a row group holds a value: one of nothing but nulls has no bounds and takes none away."""
    found = chunk.statistics
    return not found.has_null_count or found.null_count < chunk.num_values


def _bounds(found: Any, kind: pa.DataType) -> tuple[Any, Any]:
    """Bounds as they travel: times as numbers, which also holds for years that Python does not have."""
    if pa.types.is_timestamp(kind):
        times, part = _PER_MICROSECOND[kind.unit]
        return found.min_raw * times // part, found.max_raw * times // part
    if pa.types.is_date(kind):
        return found.min_raw, found.max_raw
    return found.min, found.max


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---------------------------------------------------------------------------- columns


def measure(source: Any, columns: Sequence[Column], string_length: int) -> dict[str, Any]:
    """The statistics of one open file as a row: its footer, and the columns that the footer lacks."""
    file = pq.ParquetFile(source)
    return completed(file, of_footer(file.metadata, columns), columns, string_length)


def completed(
    file: pq.ParquetFile, footer: Footer, columns: Sequence[Column], string_length: int
) -> dict[str, Any]:
    """A footer's row with what it lacks, read row group by row group."""
    row = dict(footer.row)
    if footer.missing:
        leaves = _leaves(file.metadata)
        names = [
            file.metadata.schema.column(_smallest(file.metadata, leaves[columns[i].path])).path
            for i in footer.missing
        ]
        seen = Statistics([columns[i] for i in footer.missing], string_length)
        for group in range(file.metadata.num_row_groups):
            seen.add(file.read_row_group(group, columns=names, use_threads=False))
        for i, low, high, nulls in zip(footer.missing, *seen.bounds(), strict=True):
            row[f"n{i}"], row[f"l{i}"], row[f"h{i}"] = nulls, low, high
    return row


def _smallest(metadata: pq.FileMetaData, leaf: _Leaf) -> int:
    """The parquet column that tells most cheaply which rows of a field are null."""
    if leaf.width == 1:
        return leaf.first
    group = metadata.row_group(0) if metadata.num_row_groups else None
    return min(
        range(leaf.first, leaf.first + leaf.width),
        key=lambda i: group.column(i).total_compressed_size if group is not None else 0,
    )


def measuring(
    place: Any, columns: Sequence[Column], string_length: int
) -> Callable[[Iterable[str]], Iterable[dict[str, Any]]]:
    """``measure`` for the files of a task, by their names below ``place``."""

    def run(names: Iterable[str]) -> Iterable[dict[str, Any]]:
        for name in names:
            yield {"path": name, **measure(place.open_input(name), columns, string_length)}

    return run
