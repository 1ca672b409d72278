"""The metadata action: its wire form, what is forgiven in it, and what is not."""

from __future__ import annotations

import msgspec
import pytest

from tidegate import properties
from tidegate.errors import (
    ColumnMappingInvalidError,
    PropertyError,
    SchemaInvalidError,
    TidegateError,
    UnsupportedFormatError,
    UnsupportedTypeChangeError,
)
from tidegate.metadata import Format, Metadata
from tidegate.schema.types import LONG, STRING, ArrayType, StructField, StructType

SCHEMA = StructType((StructField("id", LONG), StructField("Day", STRING)))
EMPTY = '{"type":"struct","fields":[]}'


def decode(text: str) -> Metadata:
    return msgspec.json.decode(text, type=Metadata)


def table(schema: StructType = SCHEMA, *partitions: str, **configuration: str) -> Metadata:
    return Metadata(
        id="t",
        schema_string=schema.to_json(),
        partition_columns=partitions,
        configuration={f"delta.{k.replace('_', '.')}": v for k, v in configuration.items()},
    )


# ---------------------------------------------------------------------------- the wire


def test_required_fields_are_written_even_when_empty() -> None:
    written = msgspec.json.encode(Metadata(id="x", schema_string=EMPTY)).decode()
    assert written == (
        '{"id":"x","format":{"provider":"parquet","options":{}},'
        '"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}","partitionColumns":[],"configuration":{}}'
    )


def test_all_fields_go_there_and_back() -> None:
    full = Metadata(
        id="x",
        name="n",
        description="d",
        format=Format("parquet", {"o": "1"}),
        schema_string=SCHEMA.to_json(),
        partition_columns=("Day",),
        configuration={"k": "v"},
        created_time=12,
    )
    written = msgspec.json.decode(msgspec.json.encode(full))
    assert list(written) == [
        "id",
        "name",
        "description",
        "format",
        "schemaString",
        "partitionColumns",
        "configuration",
        "createdTime",
    ]
    assert decode(msgspec.json.encode(full).decode()) == full


@pytest.mark.parametrize(
    "text",
    [
        '{"id":"x"}',
        '{"id":"x","format":{"provider":"parquet"}}',
        '{"id":"x","format":{},"name":null,"configuration":null,"partitionColumns":null,"schemaString":null}',
        '{"id":"x","format":{"provider":"parquet","options":null},"configuration":{"k":null},"unheardOf":1}',
    ],
)
def test_what_writers_leave_out_is_forgiven(text: str) -> None:
    metadata = decode(text)
    assert metadata == Metadata(id="x")
    assert metadata.configuration == {}
    assert metadata.format == Format("parquet", {})
    assert metadata.schema == StructType()
    metadata.validate()


def test_a_missing_schema_string_stays_missing() -> None:
    assert "schemaString" not in msgspec.json.decode(msgspec.json.encode(decode('{"id":"x"}')))


def test_an_id_is_required() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode("{}")


# ---------------------------------------------------------------------------- what it gives


def test_schema_is_parsed_once() -> None:
    assert table().schema == SCHEMA
    assert table().schema is table().schema


def test_partition_columns_are_found_in_any_case() -> None:
    assert table(SCHEMA, "day").partition_schema == StructType((StructField("Day", STRING),))


def test_properties_are_typed() -> None:
    metadata = table(checkpointInterval="3", logRetentionDuration="interval 1 day")
    assert metadata.property(properties.CHECKPOINT_INTERVAL) == 3
    assert metadata.property(properties.LOG_RETENTION) == 86_400_000
    assert metadata.property(properties.APPEND_ONLY) is False


def test_a_bad_property_hurts_only_who_asks_for_it() -> None:
    metadata = table(checkpointInterval="often", appendOnly="true")
    metadata.validate()
    assert metadata.property(properties.APPEND_ONLY) is True
    with pytest.raises(PropertyError, match="checkpointInterval is 'often'"):
        metadata.property(properties.CHECKPOINT_INTERVAL)


def test_changed_copies() -> None:
    metadata = table()
    grown = metadata.with_schema(StructType((*SCHEMA.fields, StructField("new", LONG))))
    assert grown.schema.names == ("id", "Day", "new")
    assert metadata.with_configuration({"a": "b"}).configuration == {"a": "b"}
    assert metadata.schema.names == ("id", "Day")


# ---------------------------------------------------------------------------- what is refused


MAPPED = StructField("a", LONG, True, {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "p"})
CHANGED = StructField("a", STRING, True, {"delta.typeChanges": [{"fromType": "long", "toType": "string"}]})


@pytest.mark.parametrize(
    ("metadata", "error", "says"),
    [
        (
            Metadata(id="t", format=Format("orc"), schema_string=EMPTY),
            UnsupportedFormatError,
            "'orc'; this client reads parquet",
        ),
        (Metadata(id="t", schema_string="{"), SchemaInvalidError, "not JSON"),
        (
            Metadata(id="t", schema_string=EMPTY.replace("[]", '[{"name":"id","type":"hyperlong"}]')),
            SchemaInvalidError,
            "id has the type 'hyperlong'",
        ),
        (table(SCHEMA, "nope"), SchemaInvalidError, "partition column nope is not in the schema.* id, Day"),
        (
            table(StructType((StructField("l", ArrayType(LONG)),)), "l"),
            SchemaInvalidError,
            "partition column l is array<long>",
        ),
        (
            table(StructType((StructField("a", LONG), StructField("A", LONG)))),
            SchemaInvalidError,
            "twice when case is ignored: A",
        ),
        (table(columnMapping_mode="name"), ColumnMappingInvalidError, "column id has no"),
        (
            table(StructType((MAPPED, MAPPED.with_name("b"))), columnMapping_mode="id"),
            ColumnMappingInvalidError,
            "share the column mapping id 1",
        ),
        (table(columnMapping_mode="odd"), ColumnMappingInvalidError, "'odd'"),
        (table(StructType((CHANGED,))), UnsupportedTypeChangeError, "from long to string"),
    ],
)
def test_metadata_that_cannot_be_served(metadata: Metadata, error: type[TidegateError], says: str) -> None:
    with pytest.raises(error, match=says):
        metadata.validate()


def test_mapping_metadata_without_the_mode_is_ignored() -> None:
    table(StructType((MAPPED, MAPPED.with_name("b")))).validate()


def test_another_log_family_has_other_formats() -> None:
    metadata = Metadata(id="t", format=Format("indextables"), schema_string=EMPTY)
    metadata.validate(providers=("indextables", "tantivy4spark"))
    with pytest.raises(UnsupportedFormatError):
        metadata.validate()
