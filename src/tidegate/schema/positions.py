"""Rows that come by position: the data's types under the names of the table's columns, at every level.

INSERT and ``insertInto`` match columns by where they stand, and the fields of structs with them. Data whose
names fit the table as they are keeps them: then it is matched by name, as every other write.
"""

from __future__ import annotations

from tidegate.errors import SchemaInvalidError
from tidegate.schema.types import ArrayType, DataType, MapType, StructField, StructType


def fits_by_name(data: DataType, table: DataType) -> bool:
    """Whether all that the table has is in the data under the same names and with the same types."""
    if isinstance(data, StructType) and isinstance(table, StructType):
        have = {f.name: f.type for f in data.fields}
        return all(f.name in have and fits_by_name(have[f.name], f.type) for f in table.fields)
    if isinstance(data, ArrayType) and isinstance(table, ArrayType):
        return fits_by_name(data.element, table.element)
    if isinstance(data, MapType) and isinstance(table, MapType):
        return fits_by_name(data.key, table.key) and fits_by_name(data.value, table.value)
    return data == table


def placed(data: DataType, table: DataType, path: str) -> DataType:
    """The data's type with the table's names for the fields of structs, position by position.

    What the data has beyond the table keeps its own names, for a schema that may evolve.
    """
    if isinstance(data, StructType) and isinstance(table, StructType):
        if len(data.fields) < len(table.fields):
            raise SchemaInvalidError(
                f"The data has {len(data.fields)} fields in {path}, the table {len(table.fields)} "
                f"({', '.join(table.names)}).",
                hint="Give all of them, null where there is no value.",
                errorClass="DELTA_INSERT_COLUMN_ARITY_MISMATCH",
            )
        pairs = zip(data.fields, table.fields, strict=False)
        matched = tuple(_placed_field(f, to, path) for f, to in pairs)
        return StructType(matched + data.fields[len(matched) :])
    if isinstance(data, ArrayType) and isinstance(table, ArrayType):
        return ArrayType(placed(data.element, table.element, f"{path}.element"), data.contains_null)
    if isinstance(data, MapType) and isinstance(table, MapType):
        return MapType(
            placed(data.key, table.key, f"{path}.key"),
            placed(data.value, table.value, f"{path}.value"),
            data.value_contains_null,
        )
    return data


def _placed_field(field: StructField, to: StructField, path: str) -> StructField:
    return field.with_name(to.name).with_type(placed(field.type, to.type, f"{path}.{to.name}"))
