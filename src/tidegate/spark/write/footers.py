"""Statistics of written files, from their parquet footers, as Delta's JSON.

Exact in footers: integers, decimals, dates, timestamps in microseconds, leaves of structs. Floats
that saw a NaN have no usable bounds; strings that are too long have no statistics at all; null
counts of arrays and maps count leaves, not rows. What is not known for certain is left out, and
``numRecords`` is always there. Specification: "Per-file Statistics".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow.parquet as pq

from tidegate.files.stats import has_bounds, truncate_max, truncate_min
from tidegate.files.stats_text import PREFIX_LENGTH
from tidegate.schema.types import ArrayType, DataType, MapType, StructType
from tidegate.storage.store import Store

_THREADS = 8
Leaves = Sequence[tuple[tuple[str, ...], DataType]]


def indexed_leaves(physical: StructType, count: int) -> Leaves:
    """The first ``count`` leaves of the data columns, all of them when negative; arrays count as one."""
    leaves = [(tuple(p), f.type) for p, f in physical.leaves()]
    return leaves if count < 0 else leaves[:count]


def leaves_of(physical: StructType, wanted: Iterable[tuple[str, ...]]) -> Leaves:
    """The leaves of the data columns that are wanted, with their types."""
    kinds = {tuple(p): f.type for p, f in physical.leaves()}
    return [(path, kinds[path]) for path in wanted if path in kinds]


def of_files(
    store: Store, names: Iterable[str], leaves: Leaves, *, tight: bool, length: int = PREFIX_LENGTH
) -> list[str]:
    """The statistics of each file as JSON text, footers read in parallel."""

    def one(name: str) -> str:
        return of_footer(pq.read_metadata(store.open_input(name)), leaves, tight=tight, length=length)

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(one, names))


def of_footer(metadata: pq.FileMetaData, leaves: Leaves, *, tight: bool, length: int = PREFIX_LENGTH) -> str:
    """The statistics of one file."""
    paths = [metadata.schema.column(i).path for i in range(len(metadata.schema))]
    columns = {path: i for i, path in enumerate(paths)}
    # A dot in a name may make two columns look alike; what cannot be told apart is left out.
    doubtful = {path for path, times in Counter(paths).items() if times > 1}
    stats: dict[str, Any] = {"numRecords": metadata.num_rows}
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path, kind in leaves:
        index = columns.get(".".join(path))
        if isinstance(kind, ArrayType | MapType) or ".".join(path) in doubtful:
            continue
        if index is None:
            if not any(c.startswith(".".join(path) + ".") for c in columns):
                _put(nulls, path, metadata.num_rows)
            continue
        found = _column(metadata, index)
        if found is None:
            continue
        minimum, maximum, null_count = found
        if null_count is not None:
            _put(nulls, path, null_count)
        if has_bounds(kind):
            smallest, largest = _lowest(minimum, length), _highest(maximum, length)
            if smallest is not None:
                _put(low, path, smallest)
            if largest is not None:
                _put(high, path, largest)
    stats["minValues"], stats["maxValues"], stats["nullCount"] = low, high, nulls
    if tight:
        stats["tightBounds"] = True
    return msgspec.json.encode(stats).decode()


def _column(metadata: pq.FileMetaData, index: int) -> tuple[Any, Any, int | None] | None:
    """Minimum, maximum and null count of a leaf over all row groups; None where one does not say."""
    minimum = maximum = None
    nulls: int | None = 0
    bounded = True
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(index)
        found = column.statistics
        if found is None:
            return None
        nulls = None if nulls is None or not found.has_null_count else nulls + found.null_count
        if not found.has_min_max:
            # A row group of nothing but nulls has no bounds and takes none away.
            if not found.has_null_count or found.null_count < column.num_values:
                bounded = False
            continue
        try:
            low, high = found.min, found.max
        except (ValueError, OverflowError):
            # Years that Python does not have, or bytes that are no text.
            bounded = False
            continue
        minimum = low if minimum is None else min(minimum, low)
        maximum = high if maximum is None else max(maximum, high)
        if isinstance(low, float) and (math.isnan(low) or math.isnan(high)):
            bounded = False
    return (minimum, maximum, nulls) if bounded else (None, None, nulls)


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        target = target.setdefault(name, {})
    target[path[-1]] = value


def _lowest(value: Any, length: int) -> Any:
    return truncate_min(value, length) if isinstance(value, str) else _value(value)


def _highest(value: Any, length: int) -> Any:
    return truncate_max(value, length) if isinstance(value, str) else _value(value)


def _value(value: Any) -> Any:
    """A bound as JSON has it; timestamps at millisecond precision, rounded down."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="milliseconds")
        return value.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return msgspec.Raw(format(value, "f").encode())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None
