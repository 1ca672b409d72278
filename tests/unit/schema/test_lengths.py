"""char(n) and varchar(n) as the log holds them, and which length a column may be given."""

from __future__ import annotations

import json

import pytest

from tidegate.schema.lengths import KEY, as_strings, is_current, refreshed, with_length
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


# ---------------------------------------------------------------------------- a schema that changes


def struct(*fields: tuple[str, object], own: dict[str, str] | None = None) -> dict[str, object]:
    said = own or {}
    inner = [
        {"name": n, "type": t, "nullable": True, "metadata": {KEY: said[n]} if n in said else {}}
        for n, t in fields
    ]
    return {"type": "struct", "fields": inner}


def again(kind: object, text: str | None) -> str | None:
    field = {"name": "c", "type": kind, "nullable": True, "metadata": {KEY: text} if text else {}}
    (found,) = refreshed(parse_schema(json.dumps({"type": "struct", "fields": [field]}))).fields
    assert is_current(found)
    return found.metadata.get(KEY)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("string", "char(3)", "char(3)"),
        ("string", None, None),
        ("integer", "char(3)", None),
        (struct(("a", "string"), ("b", "long")), "struct<a:char(3)>", "struct<a:char(3),b:bigint>"),
        (struct(("b", "long"), ("A", "string")), "struct<a:char(3),b:bigint>", "struct<b:bigint,A:char(3)>"),
        (struct(("b", "long")), "struct<a:char(3),b:bigint>", None),
        (struct(("k", "string")), "struct<a:char(3)>", "struct<k:char(3)>"),
        (
            struct(("a", "string"), ("z", "string"), own={"z": "varchar(2)"}),
            None,
            "struct<a:string,z:varchar(2)>",
        ),
        (
            struct(
                ("a", {"type": "array", "elementType": "string", "containsNull": True}), ("d", "decimal(3,1)")
            ),
            "struct<a:array<varchar(2)>>",
            "struct<a:array<varchar(2)>,d:decimal(3,1)>",
        ),
        (
            {
                "type": "map",
                "keyType": "string",
                "valueType": struct(("x", "string")),
                "valueContainsNull": True,
            },
            "map<char(1),struct<`x`: VARCHAR(4)>>",
            "map<char(1),struct<x:varchar(4)>>",
        ),
        ("string", "struct<", None),
        (struct(("a", "string")), "struct<a:map<int>>", None),
    ],
)
def test_lengths_follow_a_schema_that_changes(kind: object, text: str | None, expected: str | None) -> None:
    assert again(kind, text) == expected


def test_lengths_said_of_another_type_are_not_current() -> None:
    inner = parse_schema(json.dumps(struct(("a", "string"), ("b", "long"))))
    assert not is_current(StructField("c", inner, True, {KEY: "struct<a:char(3)>"}))
    assert is_current(StructField("c", inner, True, {KEY: "struct<a:char(3),b:bigint>"}))
    assert is_current(StructField("c", inner))
