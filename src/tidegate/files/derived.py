"""What a generated partition column tells of the column it is generated from.

A file whose ``day`` is 2020-01-01, generated as ``CAST(ts AS DATE)``, holds no other ``ts`` than those of
that day. So a partition value gives bounds of its base column, before any statistics are read and where
there are none. Days, months and hours are those of the writer's zone, which nobody knows: bounds of
instants reach as far as zones do. What is not plainly one of the forms, types and values here gives no
bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.files import comparisons as cmp
from tidegate.files import partitions
from tidegate.files.answers import Bounds
from tidegate.files.bounds import FileColumns
from tidegate.files.comparisons import Leaf
from tidegate.files.predicate_sql import timestamp_literal
from tidegate.schema.columns import generated_columns
from tidegate.schema.mapping import Mode, logical_to_physical
from tidegate.schema.paths import Path, split_path
from tidegate.schema.types import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType, StructType

# A stretch of time as a clock on the wall shows it, its end excluded.
Stretch = tuple[datetime, datetime]

# No zone is farther from UTC than this, to either side.
_FARTHEST_ZONE = timedelta(hours=18)
# The text of an instant may be written in one zone and read in another.
_BETWEEN_ZONES = timedelta(days=2)
# A date that a zone has left out is the next one there.
_LEFT_OUT = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
# Sorts above every string that goes on from there.
_HIGHEST = b"\xff"
# Stands in a text for bytes that are no UTF-8, which may sort anywhere.
_NO_TEXT = "\ufffd"
# Before that year some formatters reckon by the old calendar.
_SAME_CALENDAR = 1583


# ---------------------------------------------------------------------------- forms


@dataclass(frozen=True, slots=True)
class Form:
    """How a generated column is made of its base: a kind, the unit of time or the length it keeps."""

    base: Path
    kind: str
    unit: str = ""
    length: int = 0


_TIMES = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})
_BASES: dict[str, frozenset[DataType]] = {
    "clock": _TIMES,
    "hour": frozenset({TIMESTAMP, TIMESTAMP_NTZ}),
    "start": _TIMES,
    "text": _TIMES,
    "instant": frozenset({DATE, TIMESTAMP}),
    "prefix": frozenset({STRING}),
    "same": frozenset({*_TIMES, STRING}),
}
_PART = r"(?:`(?:[^`]|``)+`|[A-Za-z_]\w*)"
_COLUMN = re.compile(rf"{_PART}(?:\s*\.\s*{_PART})*")
_AS_DATE = re.compile(r"(?:CAST\s*\(\s*(.+?)\s+AS\s+DATE\s*\)|(?:TO_)?DATE\s*\((.+)\))", re.I | re.S)
_AS_TIMESTAMP = re.compile(r"CAST\s*\(\s*(.+?)\s+AS\s+TIMESTAMP\s*\)", re.I | re.S)
_CLOCK = re.compile(r"(YEAR|MONTH|DAY|DAYOFMONTH|HOUR)\s*\((.+)\)", re.I | re.S)
_TEXT = re.compile(r"DATE_FORMAT\s*\((.+),\s*'([^']*)'\s*\)", re.I | re.S)
_TRUNC = re.compile(r"TRUNC\s*\((.+),\s*'(\w+)'\s*\)", re.I | re.S)
_DATE_TRUNC = re.compile(r"DATE_TRUNC\s*\(\s*'(\w+)'\s*,(.+)\)", re.I | re.S)
_SUBSTRING = re.compile(r"SUBSTR(?:ING)?\s*\((.+),\s*([01])\s*,\s*([1-9]\d{0,8})\s*\)", re.I | re.S)
_FORMATS = {"yyyy": "year", "yyyy-MM": "month", "yyyy-MM-dd": "day", "yyyy-MM-dd-HH": "hour"}
_CLOCKS = {"YEAR": "year", "MONTH": "month", "DAY": "day", "DAYOFMONTH": "day", "HOUR": "hour"}
_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    "QUARTER": "quarter",
    **dict.fromkeys(("MONTH", "MM", "MON"), "month"),
    "WEEK": "week",
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_LONGEST = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=31),
    "quarter": timedelta(days=92),
    "year": timedelta(days=366),
}
# What is shorter than an hour lies within one.
_SHORT = {
    **dict.fromkeys(("DAY", "DD"), "day"),
    **dict.fromkeys(("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"), "hour"),
}


def form_of(expression: str) -> Form | None:
    """The form of a generation expression; None for one that tells nothing here."""
    text = expression.strip()
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    if (found := _AS_DATE.fullmatch(text)) is not None:
        return _made(found[1] or found[2], "start", "day")
    if (found := _CLOCK.fullmatch(text)) is not None:
        unit = _CLOCKS[found[1].upper()]
        inner = found[2] if unit == "hour" else _within(_AS_DATE, found[2])
        return _made(inner, "hour" if unit == "hour" else "clock", unit)
    if (found := _TEXT.fullmatch(text)) is not None:
        return _made(_within(_AS_TIMESTAMP, found[1]), "text", _FORMATS.get(found[2]))
    if (found := _TRUNC.fullmatch(text)) is not None:
        return _made(_within(_AS_DATE, found[1]), "start", _UNITS.get(found[2].upper()))
    if (found := _DATE_TRUNC.fullmatch(text)) is not None:
        return _made(_within(_AS_TIMESTAMP, found[2]), "instant", {**_UNITS, **_SHORT}.get(found[1].upper()))
    if (found := _SUBSTRING.fullmatch(text)) is not None:
        return _made(found[1], "prefix", "", int(found[3]))
    return _made(text, "same", "")


def _within(cast: re.Pattern[str], text: str) -> str:
    found = cast.fullmatch(text.strip())
    return text if found is None else next(g for g in found.groups() if g)


def _made(base: str, kind: str, unit: str | None, length: int = 0) -> Form | None:
    name = base.strip()
    if unit is None or _COLUMN.fullmatch(name) is None:
        return None
    return Form(split_path(name), kind, unit, length)


# ---------------------------------------------------------------------------- values


@dataclass(frozen=True, slots=True)
class Range:
    """Between which ends the values of a file lie, None where unknown, and whether null is among them."""

    low: object = None
    high: object = None
    may_be_null: bool = True
    may_have_value: bool = True


_ANYTHING = Range()


@dataclass(frozen=True, slots=True)
class Derivation:
    """The partition columns that are generated from one column, by their physical names."""

    base: Path
    type: DataType
    sources: tuple[tuple[str, Form], ...]

    def range(self, values: Sequence[str | None]) -> Range:
        """What the base column can hold where the partition columns have these values."""
        forms = [form for _, form in self.sources]
        if self.type == STRING:
            if any(_NO_TEXT in value for value in values if value is not None):
                return _ANYTHING
            ends = [_text_ends(form, value) for form, value in zip(forms, values, strict=True)]
            null = all(value is None for value in values)
            return Range(max(e[0] for e in ends), min(e[1] for e in ends), may_be_null=null)
        known = [value for value in values if value is not None]
        if not known:
            return Range(may_have_value=False)
        if len(known) < len(values):
            return _ANYTHING
        try:
            spans = [self._span(s, slack) for s, slack in _stretches(forms, known)]
        except (ValueError, OverflowError):
            # A value that is none of its kind, or an end beyond all dates.
            return _ANYTHING
        if not spans:
            return Range(may_be_null=False)
        return Range(max(s[0] for s in spans), min(s[1] for s in spans), may_be_null=False)

    def _span(self, stretch: Stretch, slack: timedelta) -> tuple[date | int, date | int]:
        """A stretch on the clock in the base column's own domain, both ends included."""
        start, end = stretch[0] - slack, stretch[1] + slack - _MICROSECOND
        if self.type == DATE:
            return start.date(), end.date()
        if self.type == TIMESTAMP:
            start, end = start - _FARTHEST_ZONE, end + _FARTHEST_ZONE
        return (start - _EPOCH) // _MICROSECOND, (end - _EPOCH) // _MICROSECOND

    def bounds(self, maps: pa.MapArray, leaf: Leaf) -> Bounds:
        """The bounds of the base column in each file; each distinct value is looked at once."""
        columns = [partitions.raw(maps, name) for name, _ in self.sources]
        codes = pa.repeat(pa.scalar(0, pa.int64()), len(maps))
        for column in columns:
            encoded = column.dictionary_encode()
            count = len(encoded.dictionary)
            codes = pc.add(pc.multiply(codes, count + 1), pc.fill_null(encoded.indices.cast("int64"), count))
        distinct = codes.dictionary_encode()
        first = pc.index_in(distinct.dictionary, codes)
        rows = zip(*(column.take(first).to_pylist() for column in columns), strict=True)
        ranges = [self.range(row) for row in rows]
        domain = cmp.domain_type(leaf)

        def spread(values: Iterable[object], type: pa.DataType) -> pa.Array:
            return pa.array(list(values), type).take(distinct.indices)

        return Bounds(
            low=spread((r.low for r in ranges), domain),
            high=spread((r.high for r in ranges), domain),
            may_be_null=spread((r.may_be_null for r in ranges), pa.bool_()),
            may_have_value=spread((r.may_have_value for r in ranges), pa.bool_()),
        )


def _text_ends(form: Form, value: str | None) -> tuple[bytes, bytes]:
    """The least and the greatest string that begins so. The log keeps an empty string as null."""
    text = value or ""
    start = text.encode()
    whole = form.kind == "same" or len(text) < form.length
    return start, start if whole else start + _HIGHEST


def _stretches(forms: Sequence[Form], values: Sequence[str]) -> list[tuple[Stretch, timedelta]]:
    """What each value says, and how much it may be off; numbers of a clock say it together."""
    out: list[tuple[Stretch, timedelta]] = []
    clock: dict[str, int] = {}
    for form, value in zip(forms, values, strict=True):
        if form.kind in ("clock", "hour"):
            clock[form.unit] = int(value)
        elif form.kind == "text":
            out.append((_read_text(form.unit, value), _LEFT_OUT))
        elif form.kind == "start" or (form.kind == "same" and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value)):
            out.append((_from(_midnight(value), form.unit or "day"), timedelta(0)))
        else:
            start = _instant(value)
            out.append(((start, start + _LONGEST[form.unit or "hour"]), _BETWEEN_ZONES))
    found = _clock_stretch(clock)
    return out if found is None else [*out, (found, timedelta(0))]


def _clock_stretch(clock: dict[str, int]) -> Stretch | None:
    """Year, year and month, and so on; a month without its year says nothing that ends could say."""
    if "year" not in clock:
        return None
    start, finest = datetime(clock["year"], 1, 1), "year"
    if "month" in clock:
        start, finest = start.replace(month=clock["month"]), "month"
        if "day" in clock:
            start, finest = start.replace(day=clock["day"]), "day"
            if "hour" in clock:
                start, finest = start.replace(hour=clock["hour"]), "hour"
    return _from(start, finest)


def _read_text(unit: str, value: str) -> Stretch:
    digits = {"year": 1, "month": 2, "day": 3, "hour": 4}[unit]
    if re.fullmatch(r"\d{4}" + r"-\d{2}" * (digits - 1), value) is None or int(value[:4]) < _SAME_CALENDAR:
        raise ValueError(value)
    numbers = [int(part) for part in value.split("-")]
    year, month, day, hour = [*numbers, *(1, 1, 1, 0)[len(numbers) :]]
    return _from(datetime(year, month, day, hour), unit)


def _midnight(value: str) -> datetime:
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) is None:
        raise ValueError(value)
    return datetime.fromisoformat(value)


def _instant(value: str) -> datetime:
    found = timestamp_literal(value, "timestamp")
    if found is None or not isinstance(found.value, int):
        raise ValueError(value)
    return _EPOCH + timedelta(microseconds=found.value)


def _from(start: datetime, unit: str) -> Stretch:
    """One unit of time, from its start."""
    months = _MONTHS.get(unit)
    if months is None:
        return start, start + _LONGEST[unit]
    years, month = divmod(start.month - 1 + months, 12)
    return start, start.replace(year=start.year + years, month=month + 1)


# ---------------------------------------------------------------------------- tables


@lru_cache(maxsize=64)
def derivations(schema: StructType, partition_columns: tuple[str, ...], mode: Mode) -> tuple[Derivation, ...]:
    """What the generated partition columns of a table tell of other columns."""
    partitioned = frozenset(c.casefold() for c in partition_columns)
    found: dict[Path, tuple[DataType, list[tuple[str, Form]]]] = {}
    for column in generated_columns(schema):
        form = form_of(column.expression)
        if form is None or column.name.casefold() not in partitioned:
            continue
        leaf = cmp.leaf_of(form.base, schema, partitioned, mode)
        name = logical_to_physical(schema, (column.name,), mode)
        if leaf is None or leaf.is_partition or leaf.type not in _BASES[form.kind] or name is None:
            continue
        found.setdefault(leaf.path, (leaf.type, []))[1].append((name[0], form))
    return tuple(Derivation(path, type, tuple(sources)) for path, (type, sources) in found.items())


class DerivedColumns(FileColumns):
    """The columns of a batch of files as far as partition values tell of them."""

    def __init__(self, batch: pa.RecordBatch, derived: Iterable[Derivation]) -> None:
        super().__init__(batch)
        self._derived = {d.base: d for d in derived}

    def _read_bounds(self, leaf: Leaf) -> Bounds:
        found = self._derived.get(leaf.path)
        if found is None or "partitionValues" not in self._batch.schema.names:
            return Bounds(low=None, high=None)
        return found.bounds(self._batch.column("partitionValues"), leaf)
