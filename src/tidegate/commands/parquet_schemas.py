"""The schemas of parquet files as the columns of one table: what each has, in types that hold all."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import SchemaInvalidError
from tidegate.schema.types import (
    BYTE,
    INTEGER,
    SHORT,
    ArrayType,
    DataType,
    MapType,
    StructType,
    nullable,
)

# Parquet has one form for all of them.
_SMALL: list[DataType] = [BYTE, SHORT, INTEGER]


def described(schema: StructType) -> StructType:
    """The columns of a file as a table has them: null is allowed, and of the metadata comments stay."""
    return nullable(schema).transform(
        lambda _, f: f.with_metadata({key: None for key in f.metadata if key != "comment"})
    )


def columns_of(metadata: pq.FileMetaData) -> pa.Schema:
    """The columns of a file; times in the old form of twelve bytes are instants, as Spark reads them."""
    schema = metadata.schema.to_arrow_schema()
    columns = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    if all(c.physical_type != "INT96" for c in columns):
        return schema
    if any(c.physical_type == "INT64" and "nanoseconds" in str(c.logical_type) for c in columns):
        # Arrow shows both alike, and the other kind is refused.
        return schema
    return pa.schema([f.with_type(_without_nanoseconds(f.type)) for f in schema])


def _without_nanoseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_without_nanoseconds(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_without_nanoseconds(kind.key_type), _without_nanoseconds(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_nanoseconds(kind.value_type)))
    return kind


def merged(schemas: list[tuple[str, StructType]], table: str) -> StructType:
    """The union of the files' columns; a column of two types is an error that names the file."""
    out = schemas[0][1]
    seen = {out.to_json()}
    for name, schema in schemas[1:]:
        text = schema.to_json()
        if text not in seen:
            seen.add(text)
            out = _union(out, schema, name, table)
    return out


def _union(one: StructType, other: StructType, file: str, table: str) -> StructType:
    fields = list(one.fields)
    at = {f.name.lower(): i for i, f in enumerate(fields)}
    for f in other.fields:
        i = at.get(f.name.lower())
        if i is None:
            fields.append(f)
            continue
        known = fields[i].type
        merged = _united(known, f.type, file, table)
        if merged is None:
            raise SchemaInvalidError(
                f"The column {f.name} is {f.type} in this file and {known} in others.",
                table=table,
                file=file,
                errorClass="DELTA_FAILED_TO_MERGE_FIELDS",
            )
        fields[i] = fields[i].with_type(merged)
    return StructType(tuple(fields))


def _united(one: DataType, other: DataType, file: str, table: str) -> DataType | None:
    """A type that holds both, None if there is none."""
    if one == other:
        return one
    if isinstance(one, StructType) and isinstance(other, StructType):
        return _union(one, other, file, table)
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        element = _united(one.element, other.element, file, table)
        return None if element is None else ArrayType(element, one.contains_null or other.contains_null)
    if isinstance(one, MapType) and isinstance(other, MapType):
        key, value = _united(one.key, other.key, file, table), _united(one.value, other.value, file, table)
        nulls = one.value_contains_null or other.value_contains_null
        return None if key is None or value is None else MapType(key, value, nulls)
    if one in _SMALL and other in _SMALL:
        return max(one, other, key=_SMALL.index)
    return None
