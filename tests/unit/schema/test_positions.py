"""Data by position: names of the table at every level, and when the data's own names are taken."""

from __future__ import annotations

import pytest

from tidegate.errors import SchemaInvalidError
from tidegate.schema.positions import fits_by_name, placed
from tidegate.schema.types import (
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)


def struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


TABLE = struct(x=INTEGER, y=STRING)


def test_fields_take_the_names_at_their_positions_and_keep_their_types() -> None:
    given = struct(col1=LONG, col2=STRING)
    assert placed(given, TABLE, "c") == struct(x=LONG, y=STRING)
    assert placed(ArrayType(given), ArrayType(TABLE), "c") == ArrayType(struct(x=LONG, y=STRING))
    assert placed(MapType(given, given), MapType(TABLE, TABLE), "c") == MapType(
        struct(x=LONG, y=STRING), struct(x=LONG, y=STRING)
    )
    assert placed(struct(q=given), struct(s=TABLE), "c") == struct(s=struct(x=LONG, y=STRING))


def test_what_the_table_lacks_keeps_its_name() -> None:
    wider = placed(struct(a=INTEGER, b=STRING, more=LONG), TABLE, "c")
    assert wider == struct(x=INTEGER, y=STRING, more=LONG)


def test_fewer_fields_than_the_table_has_are_refused_by_their_path() -> None:
    with pytest.raises(SchemaInvalidError, match=r"1 fields in c.element, the table 2 \(x, y\)") as refused:
        placed(ArrayType(struct(a=INTEGER)), ArrayType(TABLE), "c")
    assert refused.value.errorClass == "DELTA_INSERT_COLUMN_ARITY_MISMATCH"


@pytest.mark.parametrize(
    ("data", "fits"),
    [
        (struct(x=INTEGER, y=STRING), True),
        (struct(y=STRING, x=INTEGER), True),
        (struct(y=STRING, x=INTEGER, more=LONG), True),
        (struct(x=LONG, y=STRING), False),
        (struct(X=INTEGER, y=STRING), False),
        (struct(x=INTEGER), False),
    ],
)
def test_names_fit_where_all_of_the_table_is_there_with_its_types(data: StructType, fits: bool) -> None:
    assert fits_by_name(data, TABLE) is fits
    assert fits_by_name(ArrayType(data), ArrayType(TABLE)) is fits
    assert fits_by_name(MapType(STRING, data), MapType(STRING, TABLE)) is fits
