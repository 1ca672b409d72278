"""Column mapping: the two names of a column, and the ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ColumnMappingInvalidError
from tidegate.metadata import Metadata
from tidegate.schema.mapping import (
    ID,
    NESTED_IDS,
    PHYSICAL_NAME,
    Mode,
    assign_mapping,
    check_mapping,
    field_id,
    logical_to_physical,
    mapping_mode,
    max_field_id,
    physical_name,
    physical_to_logical,
    to_physical,
)
from tidegate.schema.types import LONG, STRING, ArrayType, MapType, StructField, StructType


def mapped(
    name: str, identifier: int, physical: str, type: StructType | ArrayType | None = None
) -> StructField:
    return StructField(name, type or LONG, True, {ID: identifier, PHYSICAL_NAME: physical})


INNER = StructType((mapped("x", 2, "col-x"), mapped("y", 3, "col-y")))
SCHEMA = StructType((mapped("S", 1, "col-s", INNER), mapped("l", 4, "col-l", ArrayType(INNER))))
# In an array the inner columns have ids of their own.
SCHEMA = StructType(
    (
        SCHEMA.fields[0],
        mapped("l", 4, "col-l", ArrayType(StructType((mapped("x", 5, "col-x"), mapped("y", 6, "col-y"))))),
    )
)

plain = st.recursive(
    st.just(LONG),
    lambda inner: (
        st.builds(ArrayType, inner)
        | st.builds(MapType, inner, inner)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: StructType(tuple(StructField(f"c{i}", t) for i, t in enumerate(ts)))
        )
    ),
    max_leaves=6,
)
plain_schemas = st.lists(plain, min_size=1, max_size=4).map(
    lambda ts: StructType(tuple(StructField(f"c{i}", t) for i, t in enumerate(ts)))
)


@pytest.mark.parametrize(("text", "mode"), [("none", "none"), ("Name", "name"), ("ID", "id")])
def test_mode(text: str, mode: Mode) -> None:
    assert mapping_mode(Metadata(id="t", configuration={"delta.columnMapping.mode": text})) == mode
    assert mapping_mode(Metadata(id="t")) == "none"


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ColumnMappingInvalidError, match="'position'") as e:
        mapping_mode(Metadata(id="t", configuration={"delta.columnMapping.mode": "position"}))
    assert e.value.code == "COLUMN_MAPPING_INVALID"


def test_names_at_every_level() -> None:
    physical = to_physical(SCHEMA, "name")
    assert [path for path, _ in physical.walk()] == [
        ("col-s",),
        ("col-s", "col-x"),
        ("col-s", "col-y"),
        ("col-l",),
        ("col-l", "element", "col-x"),
        ("col-l", "element", "col-y"),
    ]
    assert to_physical(SCHEMA, "none") is SCHEMA
    assert physical_name(SCHEMA.fields[0], "none") == "S"


@pytest.mark.parametrize(
    ("logical", "physical"),
    [
        (("s",), ("col-s",)),
        (("s", "X"), ("col-s", "col-x")),
        (("l", "element", "y"), ("col-l", "element", "col-y")),
    ],
)
def test_paths(logical: tuple[str, ...], physical: tuple[str, ...]) -> None:
    assert logical_to_physical(SCHEMA, logical, "id") == physical
    back = physical_to_logical(SCHEMA, physical, "id")
    assert back is not None
    assert [p.lower() for p in back] == [p.lower() for p in logical]


def test_paths_without_mapping_are_brought_to_the_tables_case() -> None:
    assert logical_to_physical(SCHEMA, ("s", "X"), "none") == ("S", "x")
    assert logical_to_physical(SCHEMA, ("nope",), "name") is None
    assert physical_to_logical(SCHEMA, ("nope",), "name") is None


@given(plain_schemas, st.integers(0, 50))
def test_assigned_mappings_are_legal_and_stay(schema: StructType, max_id: int) -> None:
    assigned, highest = assign_mapping(schema, max_id)
    check_mapping(assigned, "name")
    columns = [f for _, f in schema.walk()]
    assert highest == max_id + len(columns)
    assert [field_id(f) for _, f in assigned.walk()] == list(range(max_id + 1, highest + 1))
    assert assign_mapping(assigned, highest) == (assigned, highest)
    assert [p for p, _ in assigned.walk()] == [p for p, _ in schema.walk()]


def test_columns_added_later_go_on_from_the_highest_id() -> None:
    grown = StructType((*SCHEMA.fields, StructField("new", STRING)))
    assigned, highest = assign_mapping(grown, 40)
    assert highest == 41
    assert field_id(assigned.fields[-1]) == 41
    assert physical_name(assigned.fields[-1], "name").startswith("col-")
    assert assigned.fields[:-1] == SCHEMA.fields


def test_mapping_turned_on_for_files_that_are_there_keeps_their_names() -> None:
    schema = StructType((StructField("a", StructType((StructField("b", LONG),))),))
    assigned, _ = assign_mapping(schema, new_name=lambda f: f.name)
    assert [p for p, _ in to_physical(assigned, "name").walk()] == [("a",), ("a", "b")]


def test_nested_ids_count_for_the_highest() -> None:
    f = StructField("l", ArrayType(LONG), True, {ID: 1, PHYSICAL_NAME: "l", NESTED_IDS: {"l.element": 9}})
    assert max_field_id(StructType((f,))) == 9
    assert max_field_id(StructType()) == 0


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (StructType((StructField("a", LONG),)), "column a has no delta.columnMapping.id"),
        (
            StructType((StructField("a", LONG, True, {ID: 1}),)),
            "column a has no delta.columnMapping.physicalName",
        ),
        (
            StructType((StructField("a", LONG, True, {ID: "1", PHYSICAL_NAME: "p"}),)),
            "no delta.columnMapping.id",
        ),
        (StructType((mapped("a", 1, "p"), mapped("b", 1, "q"))), "a and b share the column mapping id 1"),
        (StructType((mapped("a", 1, "p"), mapped("b", 2, "p"))), "a and b share the physical name p"),
        (
            StructType((mapped("s", 1, "p", StructType((mapped("x", 2, "q"), mapped("y", 3, "q")))),)),
            r"s\.x and s\.y share the physical name p\.q",
        ),
        (
            StructType((mapped("s", 1, "p", ArrayType(StructType((StructField("x", LONG),)))),)),
            r"column s\.element\.x has no",
        ),
    ],
)
def test_mappings_that_are_not_legal(schema: StructType, says: str, mode: Mode) -> None:
    with pytest.raises(ColumnMappingInvalidError, match=says):
        check_mapping(schema, mode)
    check_mapping(schema, "none")


def test_one_physical_name_at_two_levels_is_legal() -> None:
    check_mapping(SCHEMA, "id")
