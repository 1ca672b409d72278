"""Which types the columns of a table may have: those that its data files can hold.

Spark knows types that no file of a Delta table holds: intervals, times of day, shapes. They are refused
where a schema comes to be, before anything is written.
"""

from __future__ import annotations

from tidegate.errors import SchemaInvalidError
from tidegate.schema.paths import join_path
from tidegate.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType

_NOT_STORED = ("interval", "time(", "geometry", "geography", "calendarinterval")


def check_types(schema: StructType) -> None:
    """Refuse a column of a type that is not stored, at any depth."""
    for path, field in schema.walk():
        for inner in types_in(field.type):
            if isinstance(inner, PrimitiveType) and inner.name.lower().startswith(_NOT_STORED):
                raise SchemaInvalidError(
                    f"The column {join_path(path)} is {field.type}; Delta tables do not store {inner}.",
                    hint="Take a type that they do, such as string or long.",
                    errorClass="DELTA_UNSUPPORTED_DATA_TYPES",
                )


def types_in(kind: DataType) -> list[DataType]:
    """A type and the types inside its arrays and maps; structs have columns of their own."""
    if isinstance(kind, ArrayType):
        return [kind, *types_in(kind.element)]
    if isinstance(kind, MapType):
        return [kind, *types_in(kind.key), *types_in(kind.value)]
    return [kind]
