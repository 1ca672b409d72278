"""Statistics: JSON texts and structs to typed columns and back, and how long strings are cut."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.files import stats
from tidegate.schema import types as t

INNER = t.StructType((t.StructField("v", t.LONG), t.StructField("tags", t.ArrayType(t.STRING))))
SCHEMA = t.StructType(
    (
        t.StructField("id", t.LONG),
        t.StructField("small", t.BYTE),
        t.StructField("x", t.DOUBLE),
        t.StructField("f", t.FLOAT),
        t.StructField("price", t.DecimalType(10, 2)),
        t.StructField("big", t.DecimalType(38, 18)),
        t.StructField("name", t.STRING),
        t.StructField("day", t.DATE),
        t.StructField("at", t.TIMESTAMP),
        t.StructField("local", t.TIMESTAMP_NTZ),
        t.StructField("flag", t.BOOLEAN),
        t.StructField("s", INNER),
        t.StructField("p", t.STRING),
    )
)  # fmt: skip
TYPE = stats.stats_type(SCHEMA, ["p"])
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
UTC = timezone.utc


def one(text: str | None) -> Any:
    return stats.decode(pa.array([text], pa.string()), TYPE).to_pylist()[0]


def low(column: str, json_value: str) -> Any:
    return one(f'{{"minValues":{{"{column}":{json_value}}}}}')["minValues"][column]


# ---------------------------------------------------------------------------- shape


def test_the_struct_is_laid_out_as_spark_does() -> None:
    assert [f.name for f in TYPE] == ["numRecords", "minValues", "maxValues", "nullCount", "tightBounds"]
    bounds = TYPE.field("minValues").type
    assert "flag" not in [f.name for f in bounds]
    assert bounds.field("price").type == pa.decimal128(10, 2)
    assert bounds.field("s").type == pa.struct([("v", pa.int64())])
    nulls = TYPE.field("nullCount").type
    assert nulls.field("flag").type == pa.int64()
    assert nulls.field("s").type == pa.struct([("v", pa.int64()), ("tags", pa.int64())])
    assert "p" not in [f.name for f in nulls]


def test_only_the_first_leaves_are_indexed() -> None:
    few = stats.stats_type(SCHEMA, ["id"], num_indexed=2)
    assert [f.name for f in few.field("nullCount").type] == ["small", "x"]
    assert len(stats.stats_type(SCHEMA, num_indexed=-1).field("nullCount").type) == len(SCHEMA)


def test_named_columns_are_indexed_with_all_below_them() -> None:
    named = stats.stats_type(SCHEMA, stats_columns=[["s"], ["day"]], tight_bounds=False)
    assert [f.name for f in named.field("nullCount").type] == ["day", "s"]
    assert "tightBounds" not in [f.name for f in named]


def test_a_table_without_indexed_columns_has_the_number_of_rows() -> None:
    assert [f.name for f in stats.stats_type(SCHEMA, num_indexed=0)] == ["numRecords", "tightBounds"]


# ---------------------------------------------------------------------------- decoding


def test_every_type_is_decoded() -> None:
    text = """{"numRecords":5,"minValues":{"id":-9223372036854775808,"small":-1,"x":0.1,"f":3.4,"price":1.5,
      "big":12345678901234567890.123456789012345678,"name":"\\u0041\\"","day":"0100-01-01",
      "at":"2020-02-01T08:09:10.001-08:00","local":"2020-02-01T08:09:10.001","s":{"v":7}},
      "nullCount":{"id":0,"s":{"v":1,"tags":2}},"tightBounds":false,"unknown":[1,{"id":2}]}"""
    # Once through Arrow's reader, and once leaf by leaf because of the line breaks in it.
    for form in (" ".join(text.split()), text.replace('"f":3.4', '"f":3.4,"x":0.1')):
        found = one(form)
        assert found["numRecords"] == 5
        assert found["tightBounds"] is False
        assert found["maxValues"] is None
        assert found["nullCount"]["s"] == {"v": 1, "tags": 2}
        least = found["minValues"]
        assert least["id"] == -(2**63)
        assert least["f"] == pa.scalar(3.4, pa.float32()).as_py()
        assert least["price"] == Decimal("1.50")
        assert least["big"] == Decimal("12345678901234567890.123456789012345678")
        assert least["name"] == 'A"'
        assert least["day"] == date(100, 1, 1)
        assert least["at"] == datetime(2020, 2, 1, 16, 9, 10, 1000, tzinfo=UTC)
        assert least["local"] == datetime(2020, 2, 1, 8, 9, 10, 1000)
        assert least["s"] == {"v": 7}


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("id", "9007199254740993", 2**53 + 1),
        ("id", "9223372036854775808", None),
        ("id", "5.0", 5),
        ("id", "5.5", None),
        ("id", '"5"', None),
        ("id", "true", None),
        ("id", "null", None),
        ("small", "300", None),
        ("x", '"Infinity"', math.inf),
        ("x", '"-Infinity"', -math.inf),
        ("x", "1e400", None),
        ("x", "7", 7.0),
        ("price", "-3.1661E-8", None),
        ("price", "1.500", Decimal("1.50")),
        ("price", "123456789.5", None),
        ("price", '"2.5"', Decimal("2.50")),
        ("big", "-3.1661E-8", Decimal("-3.1661E-8")),
        ("name", "5", None),
        ("name", '"\\ud83d\\ude00"', "😀"),
        ("day", '"2024-02-30"', None),
        ("day", "5", None),
        ("at", '"2024-01-01 00:00:00"', None),
        ("at", '"2024-01-01T00:00:00.000Z"', datetime(2024, 1, 1, tzinfo=UTC)),
        ("local", '"2024-01-01T00:00:00Z"', None),
        ("local", '"2024-09-09"', datetime(2024, 9, 9)),
        ("at", '"+12345-01-01T00:00:00Z"', None),
    ],
)
def test_a_value_is_exact_or_unknown(column: str, text: str, value: Any) -> None:
    assert low(column, text) == value


def test_nan_is_decoded() -> None:
    assert math.isnan(low("x", '"NaN"'))


GOOD = '{"numRecords":1,"minValues":{"id":1}}'
BAD = [
    "",
    " ",
    "null",
    "garbage",
    "[]",
    "7",
    "{",
    '{"numRecords":1',
    '{"numRecords":1}}',
    "{}{}",
    '{"numRecords":1}{"numRecords":2}',
    '{},"r":{}',
    '{}}\n{"r":{}',
    '{"numRecords":1,"minValues":{"name":"open',
    '{"minValues":{"name":"\\ud83d"}}',
    '{"minValues":{"name":"open}',
    '{"numRecords":{}',
    '{"id":1}}',
    '{"numRecords":7,}',
    '{"a":[{}',
    '{"id":1}]}',
    ' {"numRecords":"x"} ',
    '{\n"numRecords":null\n}',
    '{"minValues":' * 2000,
]


@pytest.mark.parametrize("bad", BAD)
def test_a_malformed_text_is_unknown_and_shifts_nothing(bad: str) -> None:
    found = stats.decode(pa.array([GOOD, bad, GOOD, None, GOOD]), TYPE).to_pylist()
    assert [row and row["numRecords"] for row in found] == [1, found[1] and None, 1, None, 1]
    assert all(found[i]["minValues"]["id"] == 1 for i in (0, 2, 4))


@given(st.lists(st.sampled_from([None, GOOD, *BAD]), max_size=30), st.integers(0, 5), st.booleans())
def test_texts_of_any_quality_give_a_row_each(texts: list[str | None], cut: int, chunked: bool) -> None:
    array = pa.array(texts, pa.string()).slice(cut)
    source = pa.chunked_array([array.slice(0, 3), array.slice(3)]) if chunked else array
    found = stats.decode(source, TYPE).to_pylist()
    for text, row in zip(texts[cut:], found, strict=True):
        known = row is not None and row["numRecords"] is not None
        assert known == (text == GOOD)


def to_millis(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(-(2**63), 2**63 - 1),
        "small": st.integers(-128, 127),
        "x": st.floats(allow_nan=False),
        "f": st.floats(allow_nan=False, width=32),
        "price": st.decimals(-99999999, 99999999, places=2),
        "big": st.decimals(Decimal("-1e19"), Decimal("1e19"), places=18),
        "name": TEXT,
        "day": st.dates(),
        "at": st.datetimes(timezones=st.just(UTC)).map(to_millis),
        "local": st.datetimes().map(to_millis),
        "s": st.fixed_dictionaries({"v": st.integers(-(2**63), 2**63 - 1) | st.none()}),
    },
)  # fmt: skip
ROWS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "numRecords": st.integers(0, 2**62),
        "minValues": VALUES,
        "maxValues": VALUES,
        "nullCount": st.fixed_dictionaries({}, optional={"id": st.integers(0, 9), "flag": st.integers(0, 9)}),
        "tightBounds": st.booleans(),
    },
)


@given(st.lists(ROWS, max_size=6))
@example([{"minValues": {"name": '"\\\x00\u2028\x7f'}}])
def test_statistics_come_back_from_their_text(rows: list[Any]) -> None:
    array = pa.array(rows, TYPE)
    texts = stats.encode(array)
    for text, row in zip(texts.to_pylist(), rows, strict=True):
        assert (text is None) == (row is None)
        if text is not None:
            assert isinstance(json.loads(text), dict)
    assert stats.decode(texts, TYPE).equals(array)
    assert stats.parse_for_checkpoint(texts, TYPE).equals(array)


def test_texts_are_written_as_delta_writes_them() -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    row = {
        "numRecords": 2,
        "minValues": {"x": math.nan, "f": -math.inf, "price": Decimal("-5.60"), "at": moment, "s": {"v": 1}},
        "maxValues": {"local": moment.replace(tzinfo=None), "day": date(7, 1, 1), "s": None},
        "nullCount": {"id": 0},
        "tightBounds": True,
    }
    (text,) = stats.encode(pa.array([row], TYPE)).to_pylist()
    assert text == (
        '{"numRecords":2,"minValues":{"x":"NaN","f":"-Infinity","price":-5.60,"at":"1969-12-31T23:59:59.999Z",'
        '"s":{"v":1}},"maxValues":{"day":"0007-01-01","local":"1969-12-31T23:59:59.999"},'
        '"nullCount":{"id":0},"tightBounds":true}'
    )


# ---------------------------------------------------------------------------- stats_parsed


def test_the_struct_of_another_writer_takes_our_shape() -> None:
    bounds = [
        ("at", pa.timestamp("us")),
        ("day", pa.date32()),
        ("local", pa.date32()),
        ("x", pa.float32()),
        ("name", pa.large_string()),
        ("big", pa.int64()),
        ("s", pa.int64()),
    ]
    ends = [("id", pa.int32()), ("price", pa.decimal128(5, 1)), ("extra", pa.int8())]
    theirs = pa.struct(
        [("numRecords", pa.int32()), ("maxValues", pa.struct(ends)), ("minValues", pa.struct(bounds))]
    )
    moment = datetime(2024, 1, 1)
    day = moment.date()
    row = {
        "numRecords": 3,
        "maxValues": {"id": 4, "price": Decimal("1.5")},
        "minValues": {"at": moment, "day": day, "local": day, "x": 0.5, "name": "n", "big": 7, "s": 1},
    }
    found = stats.conform(pa.array([row, None], theirs), TYPE)
    assert found.type == TYPE
    first, second = found.to_pylist()
    assert second is None
    assert first["numRecords"] == 3
    assert first["maxValues"]["id"] == 4
    assert first["maxValues"]["price"] == Decimal("1.50")
    assert first["nullCount"] is None
    low = first["minValues"]
    assert low["at"] == moment.replace(tzinfo=UTC)
    assert low["local"] == moment
    assert (low["x"], low["name"], low["big"], low["s"]) == (0.5, "n", 7, None)


@pytest.mark.parametrize(
    ("column", "theirs"),
    [
        ("at", pa.array([0], pa.timestamp("ns"))),
        ("id", pa.array([1.0])),
        ("id", pa.array(["1"])),
        ("small", pa.array([300])),
        ("f", pa.array([0.1])),
        ("x", pa.array([2**60])),
        ("price", pa.array([Decimal("1.555")])),
        ("day", pa.array(["2024-01-01"])),
        ("name", pa.array([b"x"])),
    ],
)
def test_a_column_that_could_be_read_wrongly_is_unknown(column: str, theirs: pa.Array) -> None:
    inner = pa.StructArray.from_arrays([theirs], [column])
    found = stats.conform(pa.StructArray.from_arrays([inner], ["minValues"]), TYPE)
    assert found.to_pylist()[0]["minValues"][column] is None


# ---------------------------------------------------------------------------- cutting strings

LONG_TEXT = st.text(st.sampled_from("ab\x7f\x7e é\ufffd\uffff😀\U0010ffff"), max_size=90)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(LONG_TEXT, st.integers(1, 40))
def test_a_cut_minimum_is_a_short_prefix(value: str, length: int) -> None:
    cut = stats.truncate_min(value, length)
    assert value.startswith(cut)
    assert units(cut) <= length + 1
    assert cut == value or units(cut) >= length


@given(LONG_TEXT, st.integers(1, 40), LONG_TEXT)
def test_a_cut_maximum_is_above_whatever_shares_the_prefix(value: str, length: int, other: str) -> None:
    cut = stats.truncate_max(value, length)
    if units(value) <= length:
        assert cut == value
    elif cut is None:
        assert value.count("\U0010ffff") > length // 2 - 1
    else:
        assert cut.encode() >= value.encode()
        assert units(cut) <= 2 * length + 3
        prefix = value[: len(cut) - 1] + value[len(cut) - 1 : len(cut)]
        assert cut.encode() > (prefix + other).encode() or cut == value


@pytest.mark.parametrize(
    ("value", "cut"),
    [
        ("a" * 32, "a" * 32),
        ("a" * 33, "a" * 32 + "\x7f"),
        ("a" * 32 + "\x7f", "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "é", "a" * 32 + "\U0010ffff"),
        ("a" * 31 + "😀", "a" * 31 + "😀"),
        ("a" * 31 + "😀b", "a" * 31 + "😀\x7f"),
        ("a" * 32 + "\U0010ffff" + "b", "a" * 32 + "\U0010ffff\x7f"),
        ("a" * 32 + "\U0010ffff" * 20, None),
        ("\U0010ffff" * 17, "\U0010ffff" * 17),
    ],
)
def test_a_maximum_is_cut_as_delta_cuts_it(value: str, cut: str | None) -> None:
    assert stats.truncate_max(value) == cut
