"""Delta types in Arrow, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import SchemaInvalidError
from tidegate.schema.arrow import from_arrow_schema, from_arrow_type, to_arrow_schema, to_arrow_type
from tidegate.schema.types import (
    CALENDAR_INTERVAL,
    INTEGER,
    LONG,
    PRIMITIVES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    parse_type,
)

# Void has no column that may not be null in Arrow; it has its own test.
ROUND = [t for t in PRIMITIVES.values() if t not in (CALENDAR_INTERVAL, VOID)]
atoms = st.sampled_from(sorted(ROUND, key=str))
decimals = st.integers(1, 38).flatmap(lambda p: st.builds(DecimalType, st.just(p), st.integers(0, p)))


def struct(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    one = st.tuples(inner, st.booleans())
    return st.lists(one, min_size=1, max_size=3).map(
        lambda them: StructType(tuple(StructField(f"c{i}", t, n) for i, (t, n) in enumerate(them)))
    )


types = st.recursive(
    atoms | decimals,
    lambda inner: (
        st.builds(ArrayType, inner, st.booleans())
        | st.builds(MapType, inner, inner, st.booleans())
        | struct(inner)
    ),
    max_leaves=6,
)


@given(struct(types))
def test_round_trip(schema: StructType) -> None:
    assert from_arrow_schema(to_arrow_schema(schema)) == schema


@pytest.mark.parametrize(
    ("delta", "arrow"),
    [
        (TIMESTAMP, pa.timestamp("us", "UTC")),
        (TIMESTAMP_NTZ, pa.timestamp("us")),
        (VOID, pa.null()),
        (VARIANT, pa.struct([("metadata", pa.binary()), ("value", pa.binary())])),
        (DecimalType(12, 3), pa.decimal128(12, 3)),
        (parse_type("string collate UNICODE"), pa.string()),
        (parse_type("varchar(3)"), pa.string()),
        (parse_type("time(6)"), pa.time64("us")),
        (parse_type("geometry(4326)"), pa.binary()),
    ],
)
def test_to_arrow(delta: DataType, arrow: pa.DataType) -> None:
    assert to_arrow_type(delta) == arrow


def test_nullability_is_kept_inside() -> None:
    arrow = to_arrow_type(MapType(STRING, ArrayType(LONG, False), False))
    assert not arrow.item_field.nullable
    assert not arrow.item_type.value_field.nullable


def test_columns_of_nulls_may_be_null_whatever_the_schema_says() -> None:
    schema = StructType((StructField("v", VOID, False), StructField("l", ArrayType(VOID, False))))
    arrow = to_arrow_schema(schema)
    assert arrow.field("v").nullable
    assert arrow.field("l").type.value_field.nullable
    assert from_arrow_schema(arrow).names == ("v", "l")
    with pytest.raises(SchemaInvalidError, match="keys of the type void"):
        to_arrow_type(MapType(VOID, LONG))


def test_field_ids_go_the_way_of_parquet() -> None:
    inner = StructType((StructField("x", INTEGER, True, {"delta.columnMapping.id": 7}),))
    schema = StructType((StructField("s", inner, True, {"delta.columnMapping.id": 3}),))
    arrow = to_arrow_schema(schema, field_ids=True)
    assert arrow.field("s").metadata == {b"PARQUET:field_id": b"3"}
    assert arrow.field("s").type.field("x").metadata == {b"PARQUET:field_id": b"7"}
    assert to_arrow_schema(schema).field("s").metadata is None


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.large_string(), STRING),
        (pa.dictionary(pa.int32(), pa.string()), STRING),
        (pa.timestamp("ms", "Europe/Zurich"), TIMESTAMP),
        (pa.timestamp("s"), TIMESTAMP_NTZ),
        (pa.large_list(pa.int64()), ArrayType(LONG)),
    ],
)
def test_arrow_types_that_fit(arrow: pa.DataType, delta: DataType) -> None:
    assert from_arrow_type(arrow) == delta


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.timestamp("ns"), pa.float16(), pa.duration("s")], ids=str)
def test_arrow_types_that_would_lose_are_refused_with_the_column(arrow: pa.DataType) -> None:
    with pytest.raises(SchemaInvalidError, match=r"column a\.element has the Arrow type"):
        from_arrow_schema(pa.schema([("a", pa.list_(arrow))]))


def test_types_without_an_arrow_form_say_so() -> None:
    with pytest.raises(SchemaInvalidError, match="interval day to second has no Arrow form"):
        to_arrow_type(parse_type("interval day to second"))
