"""Delta types as Arrow types, and back.

Timestamps are microseconds: with the zone UTC for ``timestamp``, without one for ``timestamp_ntz``.
Void columns are Arrow nulls; a variant is a struct of two binaries, as it lies in parquet. Types that
Tidegate knows by name only (calendar intervals) have no Arrow form and say so.
"""

from __future__ import annotations

import pyarrow as pa

from tidegate.errors import SchemaInvalidError
from tidegate.schema.mapping import field_id
from tidegate.schema.paths import join_path
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
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    is_geospatial,
)

_VARIANT = pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])

_TO_ARROW: dict[PrimitiveType, pa.DataType] = {
    STRING: pa.string(),
    LONG: pa.int64(),
    INTEGER: pa.int32(),
    SHORT: pa.int16(),
    BYTE: pa.int8(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    BOOLEAN: pa.bool_(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    VARIANT: _VARIANT,
    VOID: pa.null(),
}


def to_arrow_type(t: DataType) -> pa.DataType:
    """The Arrow type that holds a column of this type."""
    return _to_arrow(t, field_ids=False)


def to_arrow_field(f: StructField, *, field_ids: bool = False) -> pa.Field:
    """One column; with ``field_ids`` it carries its column-mapping id the way parquet does."""
    identifier = field_id(f) if field_ids else None
    metadata = {b"PARQUET:field_id": str(identifier).encode()} if identifier is not None else None
    return _field(f.name, _to_arrow(f.type, field_ids), f.nullable, metadata)


def to_arrow_schema(schema: StructType, *, field_ids: bool = False) -> pa.Schema:
    """All columns, in order."""
    return pa.schema([to_arrow_field(f, field_ids=field_ids) for f in schema.fields])


def from_arrow_type(t: pa.DataType, at: tuple[str, ...] = ()) -> DataType:
    """The Delta type that holds an Arrow column without loss; others are refused, with the column named."""
    for delta, arrow in _TO_ARROW.items():
        if t.equals(arrow):
            return delta
    if pa.types.is_dictionary(t):
        return from_arrow_type(t.value_type, at)
    if pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return STRING
    if pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t) or pa.types.is_binary_view(t):
        return BINARY
    if pa.types.is_timestamp(t) and t.unit != "ns":
        return TIMESTAMP_NTZ if t.tz is None else TIMESTAMP
    if pa.types.is_decimal(t) and t.precision <= 38 and 0 <= t.scale <= t.precision:
        return DecimalType(t.precision, t.scale)
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return ArrayType(from_arrow_type(t.value_type, (*at, "element")), t.value_field.nullable)
    if pa.types.is_map(t):
        return MapType(
            from_arrow_type(t.key_type, (*at, "key")),
            from_arrow_type(t.item_type, (*at, "value")),
            t.item_field.nullable,
        )
    if pa.types.is_struct(t):
        return StructType(tuple(_from_arrow_field(t.field(i), at) for i in range(t.num_fields)))
    where = f"column {join_path(at)} has the Arrow type {t}" if at else f"the Arrow type {t}"
    raise SchemaInvalidError(f"{where}, which no Delta type holds without loss", hint="Cast it first.")


def from_arrow_schema(schema: pa.Schema) -> StructType:
    """The Delta schema of Arrow columns."""
    return StructType(tuple(_from_arrow_field(f, ()) for f in schema))


def _from_arrow_field(f: pa.Field, at: tuple[str, ...]) -> StructField:
    return StructField(f.name, from_arrow_type(f.type, (*at, f.name)), f.nullable)


def _to_arrow(t: DataType, field_ids: bool) -> pa.DataType:
    if isinstance(t, PrimitiveType):
        return _TO_ARROW.get(t) or _parametric(t)
    if isinstance(t, DecimalType):
        return pa.decimal128(t.precision, t.scale)
    if isinstance(t, ArrayType):
        return pa.list_(_field("element", _to_arrow(t.element, field_ids), t.contains_null))
    if isinstance(t, MapType):
        return pa.map_(
            _map_key(t.key, field_ids),
            _field("value", _to_arrow(t.value, field_ids), t.value_contains_null),
        )
    return pa.struct([to_arrow_field(f, field_ids=field_ids) for f in t.fields])


def _map_key(t: DataType, field_ids: bool) -> pa.Field:
    if t == VOID:
        raise SchemaInvalidError("a map has keys of the type void, and keys are never null")
    return pa.field("key", _to_arrow(t, field_ids), nullable=False)


def _field(name: str, t: pa.DataType, nullable: bool, metadata: dict[bytes, bytes] | None = None) -> pa.Field:
    # Arrow has no column of nulls that may not be null, whatever a schema says.
    return pa.field(name, t, nullable or pa.types.is_null(t), metadata)


def _parametric(t: PrimitiveType) -> pa.DataType:
    name = t.name.lower()
    if name.startswith(("string collate ", "char(", "varchar(")):
        return pa.string()
    if name.startswith("time"):
        return pa.time64("us")
    if is_geospatial(t):
        return pa.binary()
    raise SchemaInvalidError(f"the type {t.name} has no Arrow form in this release")
