"""Column mapping as data: the name and the id a column has in the files, apart from the one users see.

In the modes ``name`` and ``id`` every column at every level carries a physical name and an id in its
metadata, unique in the table for ever; statistics and partition values are keyed by physical names.
In the mode ``none`` that metadata is ignored. Answers the section "Column Mapping" of the protocol.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, cast

from tidegate.errors import ColumnMappingInvalidError
from tidegate.schema.paths import Path, join_path
from tidegate.schema.types import DataType, StructField, StructType, child

Mode = Literal["none", "name", "id"]

MODE = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
NESTED_IDS = "delta.columnMapping.nested.ids"


class HasConfiguration(Protocol):
    """A table's metadata, as far as this module needs it: the metadata itself stands below."""

    @property
    def configuration(self) -> dict[str, str]: ...


def mapping_mode(metadata: HasConfiguration) -> Mode:
    """The mode a table's properties ask for."""
    return parse_mode(metadata.configuration.get(MODE, "none"))


def parse_mode(text: str) -> Mode:
    """One of the three modes, in any case."""
    mode = text.lower()
    if mode not in ("none", "name", "id"):
        raise ColumnMappingInvalidError(f"{MODE} is {text!r}: the modes are none, name and id")
    return cast(Mode, mode)


def field_id(field: StructField) -> int | None:
    """The column's id, where it has one."""
    value = field.metadata.get(ID)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def physical_name(field: StructField, mode: Mode) -> str:
    """The name the column has in data files, statistics and partition values."""
    if mode == "none":
        return field.name
    name = field.metadata.get(PHYSICAL_NAME)
    if not isinstance(name, str) or not name:
        raise ColumnMappingInvalidError(
            f"column {field.name} has no {PHYSICAL_NAME} in the mapping mode {mode}"
        )
    return name


def to_physical(schema: StructType, mode: Mode) -> StructType:
    """The schema as data files have it: physical names at every level, everything else kept."""
    if mode == "none":
        return schema
    return schema.transform(lambda _, f: f.with_name(physical_name(f, mode)))


def logical_to_physical(schema: StructType, path: Sequence[str], mode: Mode) -> Path | None:
    """A column's path in data files, or None where the schema has no such column."""
    here: DataType = schema
    physical: list[str] = []
    for part in path:
        level = child(here, part)
        if level is None:
            return None
        # What stands inside an array or a map has no metadata of its own and keeps its name.
        physical.append(physical_name(level, mode) if isinstance(here, StructType) else level.name)
        here = level.type
    return tuple(physical)


def physical_to_logical(schema: StructType, path: Sequence[str], mode: Mode) -> Path | None:
    """The way back, for names found in files and statistics; physical names are matched exactly."""
    wanted = tuple(path)
    return next((logical for logical, physical in _paths(schema, mode) if physical == wanted), None)


def max_field_id(schema: StructType) -> int:
    """The highest id in use, nested ids of arrays and maps included; 0 where there is none."""
    ids = [0]
    for _, f in schema.walk():
        ids.append(field_id(f) or 0)
        nested = f.metadata.get(NESTED_IDS)
        if isinstance(nested, Mapping):
            ids.extend(v for v in nested.values() if isinstance(v, int))
    return max(ids)


def random_physical_name(_: StructField) -> str:
    """A name that no column has had and none will have."""
    return f"col-{uuid.uuid4()}"


def assign_mapping(
    schema: StructType,
    max_id: int = 0,
    *,
    new_name: Callable[[StructField], str] = random_physical_name,
) -> tuple[StructType, int]:
    """The schema with an id and a physical name on every column, and the highest id now in use.

    What a column already has is kept. A new table takes random physical names; where mapping is
    turned on for a table with files, pass ``new_name=lambda f: f.name``, so that its files still fit.
    """
    last = max(max_id, max_field_id(schema))

    def assign(_: Path, f: StructField) -> StructField:
        nonlocal last
        identifier = field_id(f)
        if identifier is None:
            last = identifier = last + 1
        return f.with_metadata({ID: identifier, PHYSICAL_NAME: f.metadata.get(PHYSICAL_NAME) or new_name(f)})

    return schema.transform(assign), last


def check_mapping(schema: StructType, mode: Mode) -> None:
    """Refuse a schema whose ids or physical names are missing or not unique."""
    if mode == "none":
        return
    ids: dict[int, str] = {}
    for path, f in schema.walk():
        logical = join_path(path)
        identifier = field_id(f)
        if identifier is None:
            raise ColumnMappingInvalidError(f"column {logical} has no {ID} in the mapping mode {mode}")
        if identifier in ids:
            raise ColumnMappingInvalidError(
                f"columns {ids[identifier]} and {logical} share the column mapping id {identifier}"
            )
        ids[identifier] = logical
    names: dict[Path, Path] = {}
    for path, physical in _paths(schema, mode):
        if physical in names:
            raise ColumnMappingInvalidError(
                f"columns {join_path(names[physical])} and {join_path(path)} "
                f"share the physical name {join_path(physical)}"
            )
        names[physical] = path


def _paths(schema: StructType, mode: Mode) -> Iterator[tuple[Path, Path]]:
    # Both walks go through the same tree in the same order.
    for (logical, _), (physical, _) in zip(schema.walk(), to_physical(schema, mode).walk(), strict=True):
        yield logical, physical
