"""Implicit casts: which types turn into others by themselves, and where two schemas do not go together."""

from __future__ import annotations

import pytest

from tidegate.schema.implicit import not_merging, turns_into
from tidegate.schema.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)


def struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


@pytest.mark.parametrize(
    ("data", "table"),
    [
        (LONG, INTEGER),
        (INTEGER, DOUBLE),
        (DOUBLE, DecimalType(5, 2)),
        (DATE, TIMESTAMP),
        (STRING, INTEGER),
        (STRING, DecimalType(5, 2)),
        (STRING, DATE),
        (STRING, BINARY),
        (BOOLEAN, STRING),
        (BINARY, STRING),
        (VOID, BOOLEAN),
        (BOOLEAN, BOOLEAN),
    ],
)
def test_these_turn_into_others(data: DataType, table: DataType) -> None:
    assert turns_into(data, table)


@pytest.mark.parametrize(
    ("data", "table"),
    [
        (STRING, BOOLEAN),
        (BINARY, INTEGER),
        (BOOLEAN, INTEGER),
        (INTEGER, BOOLEAN),
        (LONG, TIMESTAMP),
        (DATE, INTEGER),
        (ArrayType(INTEGER), STRING),
        (struct(a=INTEGER), INTEGER),
    ],
)
def test_these_do_not(data: DataType, table: DataType) -> None:
    assert not turns_into(data, table)


def test_the_first_place_where_schemas_do_not_go_together_is_told() -> None:
    table = struct(a=INTEGER, s=struct(x=ArrayType(struct(b=BOOLEAN)), m=MapType(STRING, LONG)))
    assert not_merging(table, struct(a=STRING, new=BINARY, S=struct(m=MapType(INTEGER, DOUBLE)))) is None
    inner = struct(s=struct(x=ArrayType(struct(B=STRING))))
    assert not_merging(table, inner) == (("s", "x", "element", "B"), BOOLEAN, STRING)
    assert not_merging(table, struct(s=struct(m=MapType(STRING, BOOLEAN)))) == (
        ("s", "m", "value"),
        LONG,
        BOOLEAN,
    )
    assert not_merging(table, struct(s=struct(m=MapType(ArrayType(STRING), LONG)))) == (
        ("s", "m", "key"),
        STRING,
        ArrayType(STRING),
    )
    assert not_merging(table, struct(s=INTEGER)) == (("s",), table.fields[1].type, INTEGER)
