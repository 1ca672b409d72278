"""What generated partition columns tell of their base: never one file too few, whatever zone wrote it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.files.derived import Derivation, Range, derivations, form_of
from tidegate.files.predicate import Column, Compare, In, IsNull, Literal, Not, Predicate, StartsWith
from tidegate.files.skipping import keep_mask, needed_columns
from tidegate.schema.columns import GENERATION_EXPRESSION
from tidegate.schema.types import (
    DATE,
    INTEGER,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    StructField,
    StructType,
)

EPOCH = datetime(1970, 1, 1)
MAP = pa.map_(pa.string(), pa.string())
# A value of the base as its writer's clock shows it -> the partition value's text.
Made = Callable[[Any], str]


def _truncated(moment: datetime, unit: str) -> datetime:
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        "YEAR": day.replace(month=1, day=1),
        "QUARTER": day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
        "MONTH": day.replace(day=1),
        "WEEK": day - timedelta(days=day.weekday()),
        "DAY": day,
        "HOUR": moment.replace(minute=0, second=0, microsecond=0),
        "MINUTE": moment.replace(second=0, microsecond=0),
    }[unit]


def _day(moment: datetime) -> str:
    return moment.date().isoformat()


TIMES: dict[str, list[tuple[str, DataType, Made]]] = {
    "day": [("CAST(b AS DATE)", DATE, _day)],
    "day by another word": [("to_date( `b` )", DATE, _day)],
    "year": [("YEAR(b)", INTEGER, lambda m: str(m.year))],
    "year and month": [
        ("year(b)", INTEGER, lambda m: str(m.year)),
        ("month(CAST(b AS DATE))", INTEGER, lambda m: str(m.month)),
    ],
    "year, month and day": [
        ("year(b)", INTEGER, lambda m: str(m.year)),
        ("MONTH(b)", INTEGER, lambda m: str(m.month)),
        ("DAYOFMONTH(b)", INTEGER, lambda m: str(m.day)),
    ],
    "a month alone": [("MONTH(b)", INTEGER, lambda m: str(m.month))],
    "format month": [("DATE_FORMAT(b, 'yyyy-MM')", STRING, lambda m: _day(m)[:7])],
    "trunc month": [("trunc(b, 'MM')", DATE, lambda m: _day(_truncated(m, "MONTH")))],
    "trunc week": [("TRUNC(CAST(b AS DATE), 'week')", DATE, lambda m: _day(_truncated(m, "WEEK")))],
    "trunc quarter": [("TRUNC(b, 'QUARTER')", DATE, lambda m: _day(_truncated(m, "QUARTER")))],
    "trunc year": [("TRUNC(b, 'yyyy')", DATE, lambda m: _day(_truncated(m, "YEAR")))],
}
HOURS: dict[str, list[tuple[str, DataType, Made]]] = {
    "all of a clock": [*TIMES["year, month and day"], ("HOUR(b)", INTEGER, lambda m: str(m.hour))],
    "format hour": [
        ("DATE_FORMAT(b, 'yyyy-MM-dd-HH')", STRING, lambda m: f"{_day(m)}-{m.hour:02}"),
        ("CAST(b AS DATE)", DATE, _day),
    ],
}
MOMENTS = st.datetimes(datetime(1600, 1, 1), datetime(9998, 1, 1)) | st.datetimes(
    datetime(2019, 12, 30), datetime(2020, 3, 2)
)
ZONES = st.integers(-18 * 60, 18 * 60).map(lambda m: timedelta(minutes=m))


def _schema(base: DataType, made: list[tuple[str, DataType, Made]]) -> StructType:
    fields = [
        StructField(f"p{i}", kind, True, {GENERATION_EXPRESSION: text})
        for i, (text, kind, _) in enumerate(made)
    ]
    return StructType((StructField("b", base, True, {}), *fields))


def _kept(schema: StructType, files: list[list[str | None]], predicate: Predicate) -> list[bool]:
    names = tuple(f.name for f in schema.fields[1:])
    maps = pa.array([list(zip(names, values, strict=True)) for values in files], MAP)
    table = pa.table({"partitionValues": maps, "stats": pa.nulls(len(files), pa.string())})
    told = derivations(schema, names, "none")
    return keep_mask(table, predicate, schema, names, "none", told).to_pylist()


def _literal(value: datetime) -> Literal:
    return Literal((value - EPOCH) // timedelta(microseconds=1), "timestamp")


def _in_domain(base: DataType, value: datetime) -> date | int:
    return value.date() if base == DATE else (value - EPOCH) // timedelta(microseconds=1)


def _told(base: DataType, made: list[tuple[str, DataType, Made]]) -> Derivation:
    schema = _schema(base, made)
    (found,) = derivations(schema, tuple(f.name for f in schema.fields[1:]), "none")
    return found


def _encloses(found: Range, value: Any) -> bool:
    low: Any = found.low
    high: Any = found.high
    return found.may_have_value and (low is None or low <= value) and (high is None or value <= high)


@pytest.mark.parametrize("base", [DATE, TIMESTAMP, TIMESTAMP_NTZ], ids=str)
@given(MOMENTS, ZONES)
# The first and the last moment of a day, as far from UTC as zones are.
@example(datetime(2020, 1, 1, 6), timedelta(hours=18))
@example(datetime(2020, 1, 2, 17, 59, 59, 999999), timedelta(hours=-18))
def test_every_time_lies_where_its_partition_says(base: DataType, value: datetime, zone: timedelta) -> None:
    forms = TIMES if base == DATE else {**TIMES, **HOURS}
    shown = value + zone if base == TIMESTAMP else value
    for name, made in forms.items():
        found = _told(base, made).range([fn(shown) for _, _, fn in made])
        assert _encloses(found, _in_domain(base, value)), (name, found)


@given(MOMENTS, ZONES)
def test_every_instant_lies_where_its_truncation_says(value: datetime, zone: timedelta) -> None:
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE"):
        told = _told(TIMESTAMP, [(f"DATE_TRUNC('{unit}', b)", TIMESTAMP, str)])
        local = _truncated(value + zone, unit)
        # Writers spell it in UTC, or in their own zone without a word on that.
        for text in ((local - zone).isoformat() + "Z", local.isoformat(" ")):
            assert _encloses(told.range([text]), _in_domain(TIMESTAMP, value)), (unit, text)


@given(st.none() | st.text(max_size=6), st.integers(1, 4))
def test_every_string_lies_where_its_beginning_says(value: str | None, length: int) -> None:
    made: list[tuple[str, DataType, Made]] = [
        (f"SUBSTRING(b, {length % 2}, {length})", STRING, str),
        ("b", STRING, str),
    ]
    for keeping, text in ((made[:1], (value or "")[:length]), (made[1:], value or "")):
        # The log keeps an empty string as null.
        found = _told(STRING, keeping).range([text or None])
        assert found.may_be_null if value is None else _encloses(found, value.encode())


@pytest.mark.parametrize("name", [n for n in {**TIMES, **HOURS} if n != "a month alone"])
def test_files_far_away_are_left_out_without_statistics(name: str) -> None:
    made = {**TIMES, **HOURS}[name]
    schema = _schema(TIMESTAMP, made)
    files = [[fn(datetime(2000 + 9 * i, 5, 17, 12)) for _, _, fn in made] for i in range(3)]
    files.append([None] * len(made))
    asked = _literal(datetime(2009, 5, 17, 12))
    assert _kept(schema, files, Compare(Column(("b",)), "=", asked)) == [False, True, False, False]
    assert _kept(schema, files, Compare(Column(("b",)), ">", asked)) == [False, True, True, False]
    assert _kept(schema, files, IsNull(Column(("b",)))) == [False, False, False, True]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("CAST(s.`t u` AS DATE)", (("s", "t u"), "start", "day")),
        ("Hour(b)", (("b",), "hour", "hour")),
        ("( (trunc(b, 'year')) )", (("b",), "start", "year")),
        ("(year(a)) + (year(b))", None),
        ("b", (("b",), "same", "")),
        ("date_format(cast(b AS timestamp), 'yyyy-MM')", (("b",), "text", "month")),
        ("CAST(b + 1 AS DATE)", None),
        ("CAST(CAST(b AS STRING) AS DATE)", None),
        ("to_date(b, 'yyyy')", None),
        ("year(b) + 1", None),
        ("year(a) + year(b)", None),
        ("date_format(b, 'MM-yyyy')", None),
        ("trunc(b, 'nonsense')", None),
        ("substring(b, 2, 3)", None),
        ("substring(b, -1, 3)", None),
        ("5", None),
        ("'b'", None),
    ],
)
def test_only_plain_forms_tell_anything(text: str, form: tuple[Any, ...] | None) -> None:
    found = form_of(text)
    assert (found and (found.base, found.kind, found.unit)) == form


def test_prefixes_leave_files_out() -> None:
    schema, column = _schema(STRING, [("substr(b, 1, 2)", STRING, str)]), Column(("b",))
    files: list[list[str | None]] = [["ab"], ["b"], ["bc"], [None]]
    assert _kept(schema, files, StartsWith(column, "bcd")) == [False, False, True, False]
    assert _kept(schema, files, In(column, (Literal("abx", "string"), Literal("b", "string")))) == [
        True,
        True,
        False,
        False,
    ]
    assert _kept(schema, files, Not(Compare(column, "=", Literal("b", "string")))) == [
        True,
        False,
        True,
        True,
    ]
    assert _kept(schema, files, IsNull(column)) == [False, False, False, True]
    # Bytes that are no UTF-8, such as 0x80, are written so, and sort elsewhere.
    assert _kept(schema, [["\ufffd"]], Compare(column, "<", Literal("\u00e9", "string"))) == [True]


@pytest.mark.parametrize(
    "value", ["nonsense", "2020-13-01", "+10000-01-01", "-0044-03-15", "9999-12-31", "0001-01-01"]
)
def test_a_value_that_says_nothing_sure_keeps_its_file(value: str) -> None:
    schema = _schema(TIMESTAMP, TIMES["day"])
    asked = _literal(datetime(2009, 5, 17, 12))
    assert _kept(schema, [[value]], Compare(Column(("b",)), "=", asked)) == [True]


def test_what_is_no_base_tells_nothing() -> None:
    dated = _schema(STRING, TIMES["day"])
    plain = StructType((StructField("b", DATE, True, {}), StructField("p0", DATE, True, {})))
    unpartitioned = _schema(TIMESTAMP, TIMES["day"])
    assert derivations(dated, ("p0",), "none") == ()
    assert derivations(plain, ("p0",), "none") == ()
    assert derivations(unpartitioned, (), "none") == ()
    assert derivations(unpartitioned, ("p0", "b"), "none") == ()
    told = derivations(unpartitioned, ("p0",), "none")
    predicate = Compare(Column(("b",)), "<", Literal(date(2020, 1, 1), "date"))
    assert needed_columns(predicate, unpartitioned, ("p0",), "none", told) == {"partitionValues", "stats"}
