"""Which types always fit into others: what the strict store assignment policy takes."""

from __future__ import annotations

import pytest

from tidegate.schema.implicit import loses, losing, up_casts
from tidegate.schema.types import (
    BINARY,
    BOOLEAN,
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
    StructType,
)

FITS: list[tuple[DataType, DataType]] = [
    (INTEGER, INTEGER),
    (VOID, BOOLEAN),
    (BYTE, SHORT),
    (INTEGER, LONG),
    (LONG, FLOAT),
    (FLOAT, DOUBLE),
    (BOOLEAN, STRING),
    (BINARY, STRING),
    (DATE, TIMESTAMP),
    (DATE, TIMESTAMP_NTZ),
    (TIMESTAMP_NTZ, TIMESTAMP),
    (LONG, TIMESTAMP),
    (DecimalType(5, 2), STRING),
    (INTEGER, DecimalType(10, 0)),
    (SHORT, DecimalType(7, 2)),
    (DecimalType(6, 2), DecimalType(7, 2)),
    (DecimalType(6, 2), DecimalType(7, 3)),
    (DecimalType(9, 0), INTEGER),
    (DecimalType(19, 0), LONG),
]
DOES_NOT: list[tuple[DataType, DataType]] = [
    (LONG, INTEGER),
    (DOUBLE, FLOAT),
    (DOUBLE, LONG),
    (STRING, INTEGER),
    (STRING, BOOLEAN),
    (BOOLEAN, INTEGER),
    (INTEGER, BOOLEAN),
    (TIMESTAMP, DATE),
    (INTEGER, DATE),
    (STRING, BINARY),
    (DecimalType(6, 2), DecimalType(5, 2)),
    (DecimalType(6, 2), DecimalType(6, 3)),
    (INTEGER, DecimalType(9, 0)),
    (SHORT, DecimalType(6, 2)),
    (DecimalType(10, 0), INTEGER),
    (DecimalType(4, 1), LONG),
    (DecimalType(5, 0), DOUBLE),
    (FLOAT, DecimalType(38, 9)),
    (ArrayType(LONG), STRING),
    (StructType(), INTEGER),
]


@pytest.mark.parametrize(("data", "table"), FITS, ids=str)
def test_a_type_whose_every_value_fits_is_taken(data: DataType, table: DataType) -> None:
    assert up_casts(data, table)


@pytest.mark.parametrize(("data", "table"), DOES_NOT, ids=str)
def test_a_type_that_can_lose_something_is_not(data: DataType, table: DataType) -> None:
    assert not up_casts(data, table)


@pytest.mark.parametrize(
    ("data", "table"),
    [
        (DOUBLE, LONG),
        (FLOAT, BYTE),
        (DOUBLE, DecimalType(38, 18)),
        (DecimalType(6, 2), DecimalType(20, 1)),
        (DecimalType(6, 2), INTEGER),
        (TIMESTAMP, DATE),
        (TIMESTAMP_NTZ, DATE),
    ],
)
def test_some_casts_cut_off_without_a_word(data: DataType, table: DataType) -> None:
    assert loses(data, table)
    assert not up_casts(data, table)
    assert losing(ArrayType(table), ArrayType(data)) == (("element",), table, data)


@pytest.mark.parametrize(
    ("data", "table"),
    [
        *FITS,
        (LONG, BYTE),
        (LONG, DecimalType(3, 2)),
        (DecimalType(9, 2), DecimalType(5, 2)),
        (DecimalType(6, 0), BYTE),
        (DOUBLE, FLOAT),
        (DecimalType(6, 2), DOUBLE),
        (TIMESTAMP, TIMESTAMP_NTZ),
        (STRING, INTEGER),
        (BINARY, DATE),
    ],
)
def test_others_take_all_of_a_value_or_fail(data: DataType, table: DataType) -> None:
    assert not loses(data, table)
