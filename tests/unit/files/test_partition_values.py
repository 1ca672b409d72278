"""Partition values: typed columns from the strings of the log, and the strings writers put there."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import LogError
from tidegate.files import partitions
from tidegate.schema import types as t

MAP = pa.map_(pa.string(), pa.string())


def maps(*values: str | None, name: str = "p") -> pa.MapArray:
    return pa.array([[(name, v)] for v in values], MAP)


def typed(type: str, *values: str | None) -> list[Any]:
    return partitions.typed(maps(*values), "p", t.parse_type(type)).to_pylist()


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "byte": st.integers(-128, 127),
    "double": st.floats(),
    "float": st.floats(width=32),
    "boolean": st.booleans(),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(timezone.utc)),
    "timestamp_ntz": st.datetimes(),
    "decimal(12,3)": st.decimals(-999_999_999, 999_999_999, places=3),
    "decimal(38,18)": st.decimals(Decimal("-9e19"), Decimal("9e19"), places=18),
    "binary": st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(str.encode),
}


@pytest.mark.parametrize("type", VALUES)
@given(st.data())
def test_what_is_written_is_read_back(type: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[type], max_size=6))
    kind = t.parse_type(type)
    column = maps(*(partitions.serialize(v, kind) for v in values))
    found = partitions.typed(column, "p", kind)
    assert found.type == partitions.arrow_type(kind)
    for value, back in zip(values, found.to_pylist(), strict=True):
        if isinstance(value, float) and math.isnan(value):
            assert math.isnan(back)
        else:
            assert back == value


@pytest.mark.parametrize("type", [*VALUES, "decimal(5,0)"])
def test_an_empty_string_is_null_in_every_type(type: str) -> None:
    assert typed(type, "", None) == [None, None]


def test_both_forms_of_timestamps_are_read() -> None:
    expected = datetime(2020, 1, 1, 8, 9, 10, 1000, tzinfo=timezone.utc)
    texts = (
        "2020-01-01 08:09:10.001",
        "2020-01-01T08:09:10.001000Z",
        "2020-01-01T00:09:10.001-08:00",
        "2020-01-01 08:09:10.001000",
    )
    assert typed("timestamp", *texts) == [expected] * 4
    assert typed("timestamp_ntz", texts[0]) == [expected.replace(tzinfo=None)]


def test_a_date_that_became_a_timestamp_is_midnight() -> None:
    assert typed("timestamp_ntz", "2024-06-19") == [datetime(2024, 6, 19)]


def test_spellings_that_spark_reads_are_read() -> None:
    assert typed("date", "2024-1-5", "2024-01-06") == [date(2024, 1, 5), date(2024, 1, 6)]
    assert typed("integer", "+7", " 8 ", "9") == [7, 8, 9]
    assert typed("timestamp_ntz", "2024-1-5 10:00:00") == [datetime(2024, 1, 5, 10)]
    assert typed("boolean", "true", "FALSE") == [True, False]
    assert typed("double", "Infinity", "-Infinity", "1.0E10") == [math.inf, -math.inf, 1e10]


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("long", "x"),
        ("byte", "300"),
        ("date", "2024-13-01"),
        ("timestamp", "yesterday"),
        ("decimal(5,2)", "1.555"),
        ("boolean", "maybe"),
    ],
)
def test_a_value_that_does_not_parse_is_named(type: str, text: str) -> None:
    with pytest.raises(LogError, match=rf"'{text}' of column p is no .*1 of 3 files"):
        typed(type, None, text, None)
    decoded = partitions.parse(pa.array([None, text, ""]).fill_null(""), t.parse_type(type))
    assert decoded.unknown is not None
    assert decoded.unknown[1].as_py() is True


def test_one_bad_value_leaves_the_others_known() -> None:
    decoded = partitions.parse(pa.array(["1", "x", None, "3"]), t.LONG)
    assert decoded.values.to_pylist() == [1, None, None, 3]
    assert decoded.unknown is not None
    assert decoded.unknown.to_pylist() == [False, True, False, False]


KEYS = ("a", "b", "c")


@given(
    st.lists(
        st.dictionaries(st.sampled_from(KEYS), st.none() | st.text("xy", max_size=2)) | st.none(), max_size=8
    ),
    st.integers(0, 3),
)
def test_maps_of_any_shape_give_the_value_under_the_key(rows: list[Any], skipped: int) -> None:
    column = pa.array([None if r is None else list(r.items()) for r in rows], MAP).slice(skipped)
    for key in KEYS:
        expected = [None if r is None else (r.get(key) or None) for r in rows[skipped:]]
        assert partitions.raw(column, key).to_pylist() == expected


@given(
    st.lists(st.tuples(*[st.none() | st.text("xy", max_size=2)] * 3), max_size=8),
    st.integers(0, 3),
)
def test_maps_with_the_same_keys_give_the_value_under_the_key(rows: list[Any], skipped: int) -> None:
    column = pa.array([list(zip(KEYS, r, strict=True)) for r in rows], MAP).slice(skipped)
    for at, key in enumerate(KEYS):
        assert partitions.raw(column, key).to_pylist() == [r[at] or None for r in rows[skipped:]]


def test_values_are_written_as_the_protocol_says() -> None:
    moment = datetime(1970, 1, 1, 0, 0, 0, 123456, tzinfo=timezone.utc)
    assert partitions.serialize(moment, t.TIMESTAMP) == "1970-01-01T00:00:00.123456Z"
    assert partitions.serialize(moment.replace(tzinfo=None), t.TIMESTAMP_NTZ) == "1970-01-01 00:00:00.123456"
    assert partitions.serialize(True, t.BOOLEAN) == "true"
    assert partitions.serialize(Decimal("1.5"), t.DecimalType(5, 2)) == "1.50"
    assert partitions.serialize(date(7, 1, 2), t.DATE) == "0007-01-02"
    assert partitions.serialize("", t.STRING) is None
    assert partitions.serialize(b"\x01\x02", t.BINARY) == "\x01\x02"


def test_bytes_that_are_no_text_cannot_be_a_partition_value() -> None:
    with pytest.raises(LogError, match="not UTF-8"):
        partitions.serialize(b"\xff", t.BINARY)


def test_a_type_that_cannot_be_read_is_unknown() -> None:
    decoded = partitions.parse(pa.array(["x"]), t.VARIANT)
    assert decoded.unknown is not None
    assert decoded.unknown.to_pylist() == [True]
