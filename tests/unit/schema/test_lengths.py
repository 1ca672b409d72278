"""char(n) and varchar(n) as the log holds them, and which length a column may be given."""

from __future__ import annotations

import json

import pytest

from tidegate.schema.lengths import KEY, as_strings, with_length
from tidegate.schema.types import STRING, PrimitiveType, StructField, parse_schema


def described(kind: object, metadata: object = None) -> StructField:
    field = {"name": "c", "type": kind, "nullable": True, "metadata": metadata or {}}
    return as_strings(parse_schema(json.dumps({"type": "struct", "fields": [field]}))).fields[0]


@pytest.mark.parametrize("kind", ["string", "integer", "decimal(3,1)"])
def test_other_types_stay_as_they_are(kind: str) -> None:
    found = described(kind, {"comment": "x"})
    assert (str(found.type), found.metadata) == (kind, {"comment": "x"})


@pytest.mark.parametrize("kind", ["char(3)", "varchar(20)", "VARCHAR( 20 )", "Char(3)"])
def test_a_length_goes_into_the_metadata_beside_what_is_there(kind: str) -> None:
    found = described(kind, {"comment": "x"})
    assert found.type == STRING
    assert found.metadata == {"comment": "x", KEY: kind.lower().replace(" ", "")}


@pytest.mark.parametrize(
    ("kind", "plain", "text"),
    [
        (
            {"type": "array", "elementType": "varchar(2)", "containsNull": True},
            "array<string>",
            "array<varchar(2)>",
        ),
        (
            {"type": "map", "keyType": "char(1)", "valueType": "integer", "valueContainsNull": True},
            "map<string,integer>",
            "map<char(1),int>",
        ),
        (
            {
                "type": "struct",
                "fields": [{"name": "a", "type": "char(3)", "nullable": True, "metadata": {}}],
            },
            "struct<a:string>",
            "struct<a:char(3)>",
        ),
    ],
)
def test_lengths_inside_a_type_are_kept_with_the_whole_type(kind: object, plain: str, text: str) -> None:
    found = described(kind)
    assert (str(found.type), found.metadata) == (plain, {KEY: text})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("varchar(4)", "varchar(10)", "varchar(10)"),
        ("varchar(4)", "varchar(4)", "varchar(4)"),
        ("varchar(4)", "varchar(3)", "refused"),
        ("varchar(4)", "char(4)", "refused"),
        ("varchar(4)", "string", None),
        ("char(3)", "varchar(3)", "varchar(3)"),
        ("char(3)", "varchar(2)", "refused"),
        ("char(3)", "char(3)", "char(3)"),
        ("char(3)", "char(5)", "refused"),
        ("char(3)", "string", None),
        (None, "varchar(3)", "refused"),
        (None, "char(3)", "refused"),
        (None, "string", None),
    ],
)
def test_a_column_is_given_a_length_that_its_values_fit_in(
    old: str | None, new: str, expected: str | None
) -> None:
    found = with_length(StructField("c", STRING, True, {KEY: old} if old else {}), PrimitiveType(new))
    assert ("refused" if found is None else found.metadata.get(KEY)) == expected


def test_numbers_are_given_no_length() -> None:
    assert with_length(StructField("c", PrimitiveType("integer")), PrimitiveType("varchar(3)")) is None
