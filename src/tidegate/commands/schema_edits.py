"""Schemas with one thing changed: a struct at a path, a field in it, a type inside of arrays and maps."""

from __future__ import annotations

from collections.abc import Callable

from tidegate import properties
from tidegate.errors import SchemaInvalidError
from tidegate.metadata import Metadata
from tidegate.schema.paths import Path, join_path, split_names, split_path
from tidegate.schema.types import ArrayType, DataType, MapType, StructField, StructType

FIRST = "first"


def resolve(schema: StructType, path: Path, exact: bool = False) -> tuple[Path, StructField]:
    """The column at a path, which is in the table's own case where that is asked for (``exact``)."""
    found = schema.resolve(path)
    if found is None or (exact and found[0] != path):
        raise SchemaInvalidError(
            f"There is no column {join_path(path)}; the table has {', '.join(schema.names)}.",
            errorClass="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
        )
    return found


def check_indexed(metadata: Metadata) -> None:
    """Refuse columns that are to have statistics and are not there."""
    for name in split_names(metadata.configuration.get(properties.DATA_SKIPPING_STATS_COLUMNS.key, "")):
        resolve(metadata.schema, split_path(name))


def edit(schema: StructType, parent: Path, change: Callable[[StructType], StructType]) -> StructType:
    """The schema with ``change`` made to the struct at ``parent``, the top level where that is empty."""
    out = _edit_type(schema, parent, change)
    assert isinstance(out, StructType)
    return out


def _edit_type(kind: DataType, at: Path, change: Callable[[StructType], StructType]) -> DataType:
    if isinstance(kind, StructType):
        if not at:
            return change(kind)
        return StructType(
            tuple(
                f.with_type(_edit_type(f.type, at[1:], change)) if f.name == at[0] else f for f in kind.fields
            )
        )
    if isinstance(kind, ArrayType) and at:
        return ArrayType(_edit_type(kind.element, at[1:], change), kind.contains_null)
    if isinstance(kind, MapType) and at and at[0] == "key":
        return MapType(_edit_type(kind.key, at[1:], change), kind.value, kind.value_contains_null)
    if isinstance(kind, MapType) and at:
        return MapType(kind.key, _edit_type(kind.value, at[1:], change), kind.value_contains_null)
    return kind


def without(struct: StructType, name: str) -> StructType:
    return StructType(tuple(f for f in struct.fields if f.name != name))


def renamed(struct: StructType, old: str, new: str) -> StructType:
    return StructType(tuple(f.with_name(new) if f.name == old else f for f in struct.fields))


def inserted(struct: StructType, field: StructField, position: str | None, exact: bool = False) -> StructType:
    fields = list(struct.fields)
    if position is None:
        at = len(fields)
    elif position == FIRST:
        at = 0
    else:
        before = struct.field(position.removeprefix("."))
        if before is None or (exact and before.name != position.removeprefix(".")):
            raise SchemaInvalidError(
                f"There is no column {position.removeprefix('.')} to stand after; there are "
                f"{', '.join(struct.names)}.",
                errorClass="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
            )
        at = fields.index(before) + 1
    return StructType((*fields[:at], field, *fields[at:]))


def holder_of(schema: StructType, path: Path) -> Path:
    """The field of a struct that a path leads to or into: ``a`` of ``a.element``, all of ``s.x``."""
    while len(path) > 1:
        above = schema.find(path[:-1])
        if above is None or isinstance(above.type, StructType):
            break
        path = path[:-1]
    return path


def put_inside(kind: DataType, path: Path, new: DataType) -> DataType:
    """``kind`` with another type at a path through its arrays and maps."""
    if not path:
        return new
    if isinstance(kind, ArrayType):
        return ArrayType(put_inside(kind.element, path[1:], new), kind.contains_null)
    assert isinstance(kind, MapType)
    if path[0] == "key":
        return MapType(put_inside(kind.key, path[1:], new), kind.value, kind.value_contains_null)
    return MapType(kind.key, put_inside(kind.value, path[1:], new), kind.value_contains_null)


# ---------------------------------------------------------------------------- for the history


def described(field: StructField) -> dict[str, object]:
    """A column as the history describes it: of a struct, an array or a map no more than that it is one."""
    kind = field.type.json_value()
    return {
        "name": field.name,
        "type": kind["type"] if isinstance(kind, dict) else kind,
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }


def spelt_position(position: str) -> str:
    """A position as SQL has it: FIRST, or AFTER a column."""
    return "FIRST" if position == FIRST else f"AFTER {position.removeprefix('.')}"
