"""Schemas: their JSON form and back, paths, and what is refused."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import SchemaInvalidError
from tidegate.schema.paths import join_path, split_path
from tidegate.schema.types import (
    BINARY,
    DATE,
    INTEGER,
    LONG,
    PRIMITIVES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    duplicate_columns,
    is_geospatial,
    parse_schema,
    parse_type,
)

column_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
decimals = st.integers(1, 38).flatmap(lambda p: st.builds(DecimalType, st.just(p), st.integers(0, p)))
atoms = st.sampled_from(sorted(PRIMITIVES.values(), key=str)) | decimals
json_values = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5)


def fields(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructField]:
    metadata = st.dictionaries(st.text(max_size=5), json_values, max_size=2)
    return st.builds(StructField, column_names, types, st.booleans(), metadata)


def structs(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    return st.builds(StructType, st.lists(fields(types), max_size=3).map(tuple))


types = st.recursive(
    atoms,
    lambda inner: (
        st.builds(ArrayType, inner, st.booleans())
        | st.builds(MapType, inner, inner, st.booleans())
        | structs(inner)
    ),
    max_leaves=6,
)
schemas = structs(types)

NESTED = StructType(
    (
        StructField("Id", LONG, nullable=False),
        StructField("info", StructType((StructField("Name", STRING), StructField("a.b", INTEGER)))),
        StructField("tags", ArrayType(StructType((StructField("k", STRING),)))),
        StructField("props", MapType(STRING, StructType((StructField("v", DATE),)))),
    )
)


@given(schemas)
def test_json_round_trip(schema: StructType) -> None:
    assert parse_schema(schema.to_json()) == schema
    assert parse_schema(schema.to_json()).to_json() == schema.to_json()


@given(schemas)
def test_schemas_are_values(schema: StructType) -> None:
    assert hash(parse_schema(schema.to_json())) == hash(schema)
    assert schema.transform(lambda _, f: f) == schema
    assert len(list(schema.leaves())) <= len(list(schema.walk()))


def test_json_is_what_spark_writes() -> None:
    text = (
        '{"type":"struct","fields":[{"name":"a","type":"long","nullable":false,"metadata":{"comment":"Zürich"}},'
        '{"name":"b","type":{"type":"array","elementType":"decimal(10,2)","containsNull":false},"nullable":true,'
        '"metadata":{}},{"name":"c","type":{"type":"map","keyType":"string","valueType":{"type":"struct",'
        '"fields":[{"name":"d","type":"timestamp_ntz","nullable":true,"metadata":{}}]},"valueContainsNull":true},'
        '"nullable":true,"metadata":{"delta.identity.start":1,"x":{"y":[1.5,"z",null]}}}]}'
    )
    assert parse_schema(text).to_json() == text


def test_what_old_writers_leave_out_is_read_as_spark_does() -> None:
    schema = parse_schema(
        '{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":"long"}}]}'
    )
    assert schema == StructType((StructField("a", ArrayType(LONG, True), True, {}),))


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("decimal", DecimalType(10, 0)),
        ("decimal(38,18)", DecimalType(38, 18)),
        ("decimal( 5 , 2 )", DecimalType(5, 2)),
        ("timestamp_ltz", TIMESTAMP),
        ("string collate UTF8_LCASE", PrimitiveType("string collate UTF8_LCASE")),
        ("varchar(10)", PrimitiveType("varchar(10)")),
        ("interval day to second", PrimitiveType("interval day to second")),
        ("interval year to month", PrimitiveType("interval year to month")),
        ("geometry(OGC:CRS84)", PrimitiveType("geometry(OGC:CRS84)")),
        ("geography(EPSG:4326, spherical)", PrimitiveType("geography(EPSG:4326, spherical)")),
    ],
)
def test_types_by_name(name: str, want: DataType) -> None:
    assert parse_type(name) == want


def test_geospatial_types_are_recognised() -> None:
    assert is_geospatial(parse_type("geometry(4326)"))
    assert is_geospatial(parse_type("geography"))
    assert not is_geospatial(STRING)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('"long"', "the schema is long, where a struct"),
        ("[]", "for a type"),
        ("null", "has no type"),
        ('{"type":"union"}', "kind 'union'"),
        ('{"type":"struct"}', "without a list of fields"),
        ('{"type":"struct","fields":[{"type":"long"}]}', "a field without a name"),
        ('{"type":"struct","fields":[{"name":"a"}]}', "column a has no type"),
        ('{"type":"struct","fields":[{"name":"a","type":"hyperlong"}]}', "column a has the type 'hyperlong'"),
        ('{"type":"struct","fields":[{"name":"a","type":"decimal(39,0)"}]}', "precision is 1 to 38"),
        ('{"type":"struct","fields":[{"name":"a","type":"decimal(5,6)"}]}', "precision is 1 to 38"),
        ('{"type":"struct","fields":[{"name":"a","type":"long","nullable":"no"}]}', "for nullable"),
        ('{"type":"struct","fields":[{"name":"a","type":"long","metadata":[]}]}', "for metadata"),
        (
            '{"type":"struct","fields":[{"name":"a.b","type":{"type":"array","elementType":"x"}}]}',
            r"column `a\.b`\.element has the type 'x'",
        ),
        ('{"type":"struct","fields":[' * 100_000, "not JSON|nested too deeply"),
    ],
)
def test_schemas_that_are_none(text: str, says: str) -> None:
    with pytest.raises(SchemaInvalidError, match=says):
        parse_schema(text)


def test_a_schema_nested_too_deeply_is_named() -> None:
    deep: object = "long"
    for _ in range(300):
        deep = {"type": "array", "elementType": deep}
    text = json.dumps({"type": "struct", "fields": [{"name": "a", "type": deep}]})
    assert parse_schema(text).contains(lambda t: t == LONG)
    much = '{"type":"array","elementType":' * 5000 + '"long"' + "}" * 5000
    with pytest.raises(SchemaInvalidError, match="nested too deeply"):
        parse_schema('{"type":"struct","fields":[{"name":"a","type":' + much + "}]}")


# ---------------------------------------------------------------------------- finding columns


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("id", ("Id",)),
        ("INFO.NAME", ("info", "Name")),
        ("info.`A.B`", ("info", "a.b")),
        (("info", "a.b"), ("info", "a.b")),
        ("tags.element.K", ("tags", "element", "k")),
        ("props.value.v", ("props", "value", "v")),
        ("props.key", ("props", "key")),
        ("tags", ("tags",)),
    ],
)
def test_columns_are_found_in_any_case(path: str | tuple[str, ...], want: tuple[str, ...]) -> None:
    resolved = NESTED.resolve(path)
    assert resolved is not None
    assert resolved[0] == want
    assert NESTED.find(path) == resolved[1]


@pytest.mark.parametrize("path", ["nope", "info.nope", "Id.x", "tags.k", "", "props.element"])
def test_columns_that_are_not_there(path: str) -> None:
    assert NESTED.find(path) is None


def test_the_exact_case_goes_first() -> None:
    twins = StructType((StructField("a", LONG), StructField("A", STRING)))
    assert twins.find("A") == StructField("A", STRING)
    assert twins.find("a") == StructField("a", LONG)


def test_leaves_go_through_structs_alone() -> None:
    assert [path for path, _ in NESTED.leaves()] == [
        ("Id",),
        ("info", "Name"),
        ("info", "a.b"),
        ("tags",),
        ("props",),
    ]


def test_walk_goes_everywhere_parents_first() -> None:
    assert [path for path, _ in NESTED.walk()] == [
        ("Id",),
        ("info",),
        ("info", "Name"),
        ("info", "a.b"),
        ("tags",),
        ("tags", "element", "k"),
        ("props",),
        ("props", "value", "v"),
    ]


def test_transform_reaches_every_column_with_its_old_path() -> None:
    seen = []

    def rename(path: tuple[str, ...], f: StructField) -> StructField:
        seen.append(path)
        return f.with_name(f.name.upper())

    renamed = NESTED.transform(rename)
    assert seen == [path for path, _ in NESTED.walk()]
    assert renamed.find(("PROPS", "value", "V")) == StructField("V", DATE)


def test_contains_looks_into_everything() -> None:
    schema = StructType((StructField("m", MapType(STRING, ArrayType(TIMESTAMP_NTZ))),))
    assert schema.contains(lambda t: t == TIMESTAMP_NTZ)
    assert not schema.contains(lambda t: t == BINARY)


def test_duplicates_are_found_at_every_level() -> None:
    inner = StructType((StructField("x", LONG), StructField("X", LONG)))
    schema = StructType((StructField("a", ArrayType(inner)), StructField("A", LONG), StructField("x", LONG)))
    assert duplicate_columns(schema) == ("a.element.X", "A")
    assert duplicate_columns(NESTED) == ()


def test_metadata_is_set_and_taken_away() -> None:
    f = StructField("a", LONG, True, {"k": 1, "l": 2})
    assert f.with_metadata({"k": None, "m": 3}).metadata == {"l": 2, "m": 3}
    assert f.metadata == {"k": 1, "l": 2}


def test_types_read_well() -> None:
    assert str(NESTED) == (
        "struct<Id:long,info:struct<Name:string,a.b:integer>,tags:array<struct<k:string>>,"
        "props:map<string,struct<v:date>>>"
    )


# ---------------------------------------------------------------------------- paths


@given(st.lists(st.text(st.sampled_from("ab.`- é"), max_size=4), min_size=1, max_size=4).map(tuple))
def test_paths_round_trip(path: tuple[str, ...]) -> None:
    assert split_path(join_path(path)) == path


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a``b`", ("a`b",)),
        ("`a.b", ("`a", "b")),
    ],
)
def test_split_path(text: str, want: tuple[str, ...]) -> None:
    assert split_path(text) == want


def test_parsed_schemas_are_shared() -> None:
    text = msgspec.json.encode(NESTED.json_value()).decode()
    assert parse_schema(text) is parse_schema(text)
