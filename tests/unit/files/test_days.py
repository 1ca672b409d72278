"""Dates of any year as days and back."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.files.days import date_text, split_date
from tidegate.files.partitions import parse
from tidegate.files.stats_text import encode
from tidegate.schema.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, DataType

EPOCH = date(1970, 1, 1)
DAYS = st.integers(-(10**8), 10**8)


@given(st.dates())
def test_dates_that_python_has_are_spelled_as_python_does(day: date) -> None:
    days = (day - EPOCH).days
    assert date_text(days) == day.isoformat()
    assert split_date(f"{day.isoformat()} rest") == (days, " rest")


@given(DAYS)
def test_every_day_comes_back(days: int) -> None:
    assert split_date(date_text(days)) == (days, "")


@given(DAYS)
def test_days_follow_each_other(days: int) -> None:
    one, two = (date_text(d).rsplit("-", 2) for d in (days, days + 1))
    assert int(two[2]) == int(one[2]) + 1 or two[2] == "01"


@pytest.mark.parametrize("text", ["2023-02-29", "2023-13-01", "2023-00-10", "+10000-04-31", "x", "", "1-1-1"])
def test_what_is_no_date_is_none(text: str) -> None:
    assert split_date(text) is None


@given(DAYS)
def test_a_partition_of_any_date_is_read(days: int) -> None:
    found = parse(pa.array([date_text(days)]), DATE)
    assert found.unknown is None
    assert found.values.cast(pa.int32()).to_pylist() == [days]


@pytest.mark.parametrize(
    ("text", "kind", "days", "micros"),
    [
        ("+10000-01-01T00:00:00.000000Z", TIMESTAMP, 2_932_897, 0),
        ("10000-01-01 00:00:00.5", TIMESTAMP, 2_932_897, 500_000),
        ("-0001-12-31 12:00:00", TIMESTAMP_NTZ, -719_529, 43_200_000_000),
        ("+10000-01-01T01:00:00+01:00", TIMESTAMP, 2_932_897, 0),
    ],
)
def test_a_partition_of_any_time_is_read(text: str, kind: DataType, days: int, micros: int) -> None:
    found = parse(pa.array([text]), kind)
    assert found.values.cast(pa.int64()).to_pylist() == [days * 86_400_000_000 + micros]


@pytest.mark.parametrize("text", ["+300000-01-01T00:00:00Z", "+10000-01-01T25:00:00Z", "+10000-01-01T"])
def test_a_time_that_there_is_not_is_unknown(text: str) -> None:
    assert parse(pa.array([text]), TIMESTAMP).unknown is not None


def test_bounds_of_years_that_cannot_be_spelled_are_not_said() -> None:
    columns = {
        "d": pa.array([106_751_991, 0], pa.int32()).cast(pa.date32()),
        "t": pa.array([-(2**63), 0], pa.int64()).cast(pa.timestamp("us", "UTC")),
    }
    stats = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    assert encode(stats).to_pylist() == ["{}", '{"d":"1970-01-01","t":"1970-01-01T00:00:00.000Z"}']
