"""Statistics of a split while it is built: rows, null counts and bounds, for skipping by the log.

The same rules as for Delta's files: the first 32 columns, long strings cut (a maximum upward), bounds of
times in milliseconds rounded so that they still hold. Words and JSON have null counts alone.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import OptionError
from tidegate.files.stats_text import truncate_max, truncate_min
from tidegate.index.fields import DocMapping, Field
from tidegate.index.settings import Settings

INDEXED = 32
# How many of the first columns have statistics (below zero: all of them), or which.
Columns = int | tuple[str, ...]
_BOUNDED = frozenset({"string", "integer", "float", "ip"})


def chosen(settings: Settings, mapping: DocMapping) -> Columns:
    """The columns that the options of a write ask statistics for; a list wins over a number."""
    names = settings.names("dataSkippingStatsColumns")
    if names:
        found = [mapping.find(name) for name in names]
        missing = [name for name, field in zip(names, found, strict=True) if field is None]
        if missing:
            raise OptionError(f"dataSkippingStatsColumns names {', '.join(missing)}, which no split holds.")
        return tuple(f.column for f in found if f is not None)
    text = (settings.get("dataSkippingNumIndexedCols") or str(INDEXED)).strip()
    if not text.removeprefix("-").isdecimal():
        raise OptionError(f"dataSkippingNumIndexedCols is {text!r}; it is a whole number, -1 for all.")
    return int(text)


class Collector:
    """Sees every batch once."""

    def __init__(self, mapping: DocMapping, columns: Columns = INDEXED) -> None:
        fields = list(mapping.fields)
        if isinstance(columns, tuple):
            self._fields: list[Field] = [f for f in fields if f.column in columns]
        else:
            self._fields = fields if columns < 0 else fields[:columns]
        self.rows = 0
        self._nulls = {f.column: 0 for f in self._fields}
        self._low: dict[str, Any] = {}
        self._high: dict[str, Any] = {}
        self._unbounded: set[str] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        for field in self._fields:
            column = batch.column(field.column)
            self._nulls[field.column] += column.null_count
            if field.kind in _BOUNDED and not pa.types.is_binary(column.type):
                self._bounds(field.column, column)

    def _bounds(self, name: str, column: pa.Array) -> None:
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            self._unbounded.add(name)
            return
        try:
            found = pc.min_max(column).as_py()
        except (OverflowError, ValueError):
            # A date that Python's calendar does not have.
            self._unbounded.add(name)
            return
        low, high = found["min"], found["max"]
        if low is None:
            return
        self._low[name] = low if name not in self._low else min(self._low[name], low)
        self._high[name] = high if name not in self._high else max(self._high[name], high)

    def to_json(self) -> str:
        """The text of ``add.stats``."""
        low = {n: _lowest(v) for n, v in self._low.items() if n not in self._unbounded}
        high = {n: _highest(v) for n, v in self._high.items() if n not in self._unbounded}
        body = {
            "numRecords": self.rows,
            "minValues": {n: v for n, v in low.items() if v is not None},
            "maxValues": {n: v for n, v in high.items() if v is not None},
            "nullCount": self._nulls,
        }
        return _ENCODER.encode(body).decode()


_ENCODER = msgspec.json.Encoder(decimal_format="number")


def _lowest(value: Any) -> Any:
    return truncate_min(value) if isinstance(value, str) else _plain(value)


def _highest(value: Any) -> Any:
    if isinstance(value, str):
        return truncate_max(value)
    if isinstance(value, datetime) and value.microsecond % 1000:
        value += timedelta(milliseconds=1)
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        zone = "Z" if value.tzinfo else ""
        local = value.astimezone(timezone.utc) if value.tzinfo else value
        return local.replace(tzinfo=None).isoformat("T", "milliseconds") + zone
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, float | int | Decimal):
        return value
    return None


def merged(texts: list[str | None]) -> str | None:
    """The statistics of rows put together; a bound that one side does not know is known no more."""
    if any(t is None for t in texts) or not texts:
        return None
    parts: list[dict[str, Any]] = [_DECODER.decode(t) for t in texts if t is not None]
    out: dict[str, Any] = {"numRecords": sum(p.get("numRecords", 0) for p in parts)}
    for key, pick in (("minValues", min), ("maxValues", max)):
        out[key] = _combined(parts, key, pick)
    names = set.intersection(*(set(p.get("nullCount", {})) for p in parts))
    out["nullCount"] = {n: sum(p["nullCount"][n] for p in parts) for n in sorted(names)}
    return _ENCODER.encode(out).decode()


_DECODER = msgspec.json.Decoder(float_hook=Decimal)


def _combined(parts: list[dict[str, Any]], key: str, pick: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in sorted({n for p in parts for n in p.get(key, {})}):
        values = []
        for p in parts:
            value = p.get(key, {}).get(name)
            if value is not None:
                values.append(value)
            elif p.get("nullCount", {}).get(name) != p.get("numRecords"):
                break
        else:
            if values and len({type(v) is str for v in values}) == 1:
                out[name] = pick(values)
    return out
