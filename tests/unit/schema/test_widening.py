"""Type widening: what may become what, and what is recorded of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import SchemaInvalidError, UnsupportedTypeChangeError
from tidegate.schema.types import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from tidegate.schema.widening import (
    TYPE_CHANGES,
    TypeChange,
    can_widen,
    check_type_changes,
    is_supported_change,
    recorded_changes,
    type_changes,
    widened,
    with_type_change,
)

ATOMS = [BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING]
decimals = st.integers(1, 38).flatmap(lambda p: st.builds(DecimalType, st.just(p), st.integers(0, p)))
types = st.sampled_from(ATOMS) | decimals

SUPPORTED = {
    (BYTE, SHORT),
    (BYTE, INTEGER),
    (BYTE, LONG),
    (SHORT, INTEGER),
    (SHORT, LONG),
    (INTEGER, LONG),
    (FLOAT, DOUBLE),
    (BYTE, DOUBLE),
    (SHORT, DOUBLE),
    (INTEGER, DOUBLE),
    (DATE, TIMESTAMP_NTZ),
}


def test_changes_among_plain_types() -> None:
    assert {(a, b) for a in ATOMS for b in ATOMS if is_supported_change(a, b)} == SUPPORTED


@pytest.mark.parametrize(
    ("before", "after", "reads", "writes"),
    [
        (DecimalType(10, 2), DecimalType(12, 2), True, True),
        (DecimalType(10, 2), DecimalType(12, 4), True, True),
        (DecimalType(10, 2), DecimalType(12, 5), False, False),
        (DecimalType(10, 2), DecimalType(10, 2), False, True),
        (DecimalType(10, 2), DecimalType(11, 1), False, False),
        (INTEGER, DecimalType(10, 0), True, True),
        (INTEGER, DecimalType(11, 1), True, True),
        (INTEGER, DecimalType(9, 0), False, False),
        (INTEGER, DecimalType(10, 1), False, False),
        (LONG, DecimalType(20, 0), True, True),
        (LONG, DecimalType(19, 0), False, False),
        # Tables of the preview have these; no table gets them now.
        (BYTE, DecimalType(4, 1), True, False),
        (SHORT, DecimalType(5, 0), True, False),
        (BYTE, DecimalType(2, 0), False, False),
        (VOID, STRING, False, True),
        (LONG, INTEGER, False, False),
        (DATE, TIMESTAMP, False, False),
    ],
)
def test_changes(before: DataType, after: DataType, reads: bool, writes: bool) -> None:
    assert is_supported_change(before, after) == reads
    assert can_widen(before, after) == writes


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        (INTEGER, LONG, True),
        (FLOAT, DOUBLE, True),
        (INTEGER, DOUBLE, False),
        (DATE, TIMESTAMP_NTZ, False),
        (INTEGER, DecimalType(10, 0), False),
        (DecimalType(5, 2), DecimalType(8, 2), True),
        (DecimalType(5, 2), DecimalType(8, 3), False),
    ],
)
def test_iceberg_forbids_some(before: DataType, after: DataType, allowed: bool) -> None:
    assert can_widen(before, after, iceberg_compat=True) == allowed


@given(types, types, types)
def test_widening_is_a_partial_order(a: DataType, b: DataType, c: DataType) -> None:
    assert not is_supported_change(a, a)
    if is_supported_change(a, b):
        assert not is_supported_change(b, a)
        if is_supported_change(b, c):
            assert is_supported_change(a, c)


@given(types, types)
def test_what_may_be_written_can_be_read(a: DataType, b: DataType) -> None:
    if can_widen(a, b, iceberg_compat=True):
        assert can_widen(a, b)
    if can_widen(a, b):
        assert a == b or is_supported_change(a, b)


def test_changes_are_recorded_and_read_back() -> None:
    f = with_type_change(with_type_change(StructField("a", BYTE), SHORT), LONG)
    assert f.type == LONG
    assert type_changes(f) == (TypeChange(BYTE, SHORT), TypeChange(SHORT, LONG))
    assert f.metadata[TYPE_CHANGES][0] == {"toType": "short", "fromType": "byte"}


def test_changes_inside_arrays_carry_their_path() -> None:
    recorded = [{"fromType": "integer", "toType": "long", "fieldPath": "element.element", "tableVersion": 3}]
    f = StructField("a", ArrayType(ArrayType(LONG)), True, {TYPE_CHANGES: recorded})
    schema = StructType((f,))
    assert list(recorded_changes(schema)) == [
        (("a", "element", "element"), TypeChange(INTEGER, LONG, ("element", "element")))
    ]
    check_type_changes(schema)


def test_a_recorded_change_nobody_knows_is_refused() -> None:
    f = StructField("b", STRING, True, {TYPE_CHANGES: [{"fromType": "integer", "toType": "string"}]})
    schema = StructType((StructField("s", StructType((f,))),))
    with pytest.raises(UnsupportedTypeChangeError, match=r"s\.b was changed from integer to string") as e:
        check_type_changes(schema)
    assert e.value.code == "UNSUPPORTED_TYPE_CHANGE"


@pytest.mark.parametrize("recorded", ["x", [1], [{}], [{"fromType": "int"}], [{"fieldPath": 3}]])
def test_records_that_are_none(recorded: object) -> None:
    with pytest.raises(SchemaInvalidError):
        check_type_changes(StructType((StructField("a", LONG, True, {TYPE_CHANGES: recorded}),)))


def test_changes_inside_arrays_and_maps_are_recorded_where_they_lie() -> None:
    before = StructField("a", MapType(INTEGER, ArrayType(INTEGER)))
    after = with_type_change(before, MapType(LONG, ArrayType(LONG)))
    assert list(recorded_changes(StructType((after,)))) == [
        (("a", "key"), TypeChange(INTEGER, LONG, ("key",))),
        (("a", "value", "element"), TypeChange(INTEGER, LONG, ("value", "element"))),
    ]
    assert with_type_change(before, before.type) == before


def test_columns_that_are_wider_are_told_at_every_level() -> None:
    def schema(kind: DataType, inner: DataType) -> StructType:
        struct = StructType((StructField("a", kind), StructField("b", ArrayType(inner))))
        return StructType(
            (StructField("v", kind), StructField("s", struct), StructField("l", ArrayType(struct)))
        )

    assert list(widened(schema(BYTE, STRING), schema(LONG, STRING))) == [
        (("v",), BYTE, LONG),
        (("s", "a"), BYTE, LONG),
        (("l", "element", "a"), BYTE, LONG),
    ]
    assert [path for path, _, _ in widened(schema(DATE, INTEGER), schema(DATE, DOUBLE))] == [
        ("s", "b", "element"),
        ("l", "element", "b", "element"),
    ]
    # New columns and new fields are no wider types.
    more = schema(DATE, INTEGER).fields
    assert list(widened(StructType(more[:1]), StructType(more))) == []
