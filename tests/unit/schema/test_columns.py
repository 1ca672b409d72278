"""What columns and constraints demand, as data."""

from __future__ import annotations

import pytest

from tidegate.errors import SchemaInvalidError
from tidegate.schema.columns import (
    DefaultColumn,
    GeneratedColumn,
    IdentityColumn,
    Invariant,
    default_columns,
    generated_columns,
    identity_columns,
    invariants,
    not_null,
    with_high_water_mark,
)
from tidegate.schema.constraints import check_constraints, constraint_key
from tidegate.schema.types import LONG, STRING, ArrayType, StructField, StructType


def column(name: str, **metadata: object) -> StructField:
    return StructField(name, LONG, True, {k.replace("_", "."): v for k, v in metadata.items()})


def schema(*fields: StructField) -> StructType:
    return StructType(fields)


RULE = '{"expression":{"expression":"x < 3"}}'
IDENTITY = {"delta_identity_start": 10, "delta_identity_step": -2, "delta_identity_allowExplicitInsert": True}


def test_not_null_reaches_through_structs_alone() -> None:
    inner = schema(StructField("x", LONG, False), StructField("y", LONG))
    nested = schema(
        StructField("s", inner),
        StructField("t", inner, False),
        StructField("l", ArrayType(inner)),
        StructField("k", STRING, False),
    )
    assert not_null(nested) == (("s", "x"), ("t",), ("t", "x"), ("k",))


def test_invariants_nested_too() -> None:
    nested = schema(StructField("s", schema(column("x", delta_invariants=RULE))), column("y"))
    assert invariants(nested) == (Invariant(("s", "x"), "x < 3"),)


@pytest.mark.parametrize("rule", ["", "{", "[]", '{"expression":"x"}', '{"expression":{"expression":3}}', 5])
def test_invariants_that_are_none(rule: object) -> None:
    with pytest.raises(SchemaInvalidError, match="column x"):
        invariants(schema(column("x", delta_invariants=rule)))


def test_generated_columns() -> None:
    assert generated_columns(schema(column("a"), column("b", delta_generationExpression="a + 1"))) == (
        GeneratedColumn("b", "a + 1"),
    )


def test_identity_columns() -> None:
    assert identity_columns(schema(column("a"), column("b", **IDENTITY))) == (
        IdentityColumn("b", 10, -2, None, True),
    )
    marked = schema(column("b", **IDENTITY, delta_identity_highWaterMark=4))
    assert identity_columns(marked)[0].high_water_mark == 4


def test_the_high_water_mark_is_moved() -> None:
    moved = with_high_water_mark(schema(column("a"), column("B", **IDENTITY)), "b", 6)
    assert identity_columns(moved)[0].high_water_mark == 6
    assert moved.fields[0] == column("a")


def test_half_an_identity_is_refused() -> None:
    with pytest.raises(SchemaInvalidError, match=r"b lacks delta\.identity\.step, delta\.identity\.allow"):
        identity_columns(schema(column("b", delta_identity_start=1)))
    with pytest.raises(SchemaInvalidError, match="numbers"):
        identity_columns(schema(column("b", **{**IDENTITY, "delta_identity_step": "x"})))


def test_default_columns() -> None:
    fields = (
        StructField("a", LONG, True, {"CURRENT_DEFAULT": "16", "EXISTS_DEFAULT": "15"}),
        StructField("b", LONG, True, {"CURRENT_DEFAULT": "current_date()"}),
        StructField("c", LONG),
    )
    assert default_columns(StructType(fields)) == (
        DefaultColumn("a", "16", "15"),
        DefaultColumn("b", "current_date()", None),
    )


def test_check_constraints() -> None:
    configuration = {"delta.constraints.positive": "id > 0", "DELTA.CONSTRAINTS.Day": "d = 1", "delta.x": "1"}
    assert check_constraints(configuration) == {"positive": "id > 0", "Day": "d = 1"}
    assert constraint_key("Positive") == "delta.constraints.positive"
