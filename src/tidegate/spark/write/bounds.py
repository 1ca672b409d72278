"""Bounds and null counts of columns, taken from Arrow tables as they go by.

NaN is above everything to Spark, and JSON has no word for it: a column that saw one has no maximum. What is
here travels to executors by value and needs pyarrow alone. Specification: "Per-file Statistics".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Longer beginnings of strings say nothing more: bounds are cut far before.
_STRING_CUT = 8


@dataclass(frozen=True)
class Column:
    """One indexed leaf: its path in the file, whether it has bounds, and how they travel."""

    path: tuple[str, ...]
    wire: pa.DataType | None


class Statistics:
    """Minimum, maximum and null count of each indexed leaf, taken while the rows go by."""

    def __init__(self, columns: Sequence[Column], string_length: int) -> None:
        self._columns = columns
        self._cut = string_length * _STRING_CUT + 64
        self._nulls = [0] * len(columns)
        self._low: list[Any] = [None] * len(columns)
        self._high: list[Any] = [None] * len(columns)
        self._unbounded = [False] * len(columns)
        self._no_maximum = [False] * len(columns)

    def add(self, table: pa.Table) -> None:
        names = set(table.column_names)
        for i, column in enumerate(self._columns):
            if column.path[0] not in names:
                self._nulls[i] += table.num_rows
                continue
            values = table.column(column.path[0])
            for part in column.path[1:]:
                found = values.type.get_field_index(part)
                if found < 0:
                    values = None
                    break
                values = pc.struct_field(values, found)
            if values is None:
                self._nulls[i] += table.num_rows
                continue
            self._nulls[i] += values.null_count
            if column.wire is not None and values.null_count < len(values) and not self._unbounded[i]:
                self._bound(i, values, column.wire)

    def _bound(self, i: int, values: pa.ChunkedArray, wire: pa.DataType) -> None:
        if pa.types.is_floating(values.type):
            # NaN is above everything to Spark, and JSON has no word for it: such files have no maximum.
            not_numbers = pc.is_nan(values)
            if pc.any(not_numbers).as_py():
                self._no_maximum[i] = True
                values = values.filter(pc.invert(not_numbers))
                if len(values) == values.null_count:
                    return
        elif pa.types.is_temporal(values.type):
            values = values.cast(wire)
        try:
            found = pc.min_max(values).as_py()
        except UnicodeDecodeError:
            self._unbounded[i] = True
            return
        low, high = found["min"], found["max"]
        self._low[i] = low if self._low[i] is None else min(self._low[i], low)
        self._high[i] = high if self._high[i] is None else max(self._high[i], high)

    def bounds(self) -> tuple[list[Any], list[Any], list[int]]:
        low, high = [], []
        for i in range(len(self._columns)):
            hidden = self._unbounded[i]
            low.append(None if hidden else self._shown(self._low[i]))
            high.append(None if hidden or self._no_maximum[i] else self._shown(self._high[i]))
        return low, high, self._nulls

    def _shown(self, value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value[: self._cut] if isinstance(value, str) else value
