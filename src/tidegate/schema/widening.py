"""Type widening: the changes of a column's type that old files can be read through.

A table records each change in the column's metadata, under ``delta.typeChanges``. A reader must know
every recorded change, or refuse the table: reading old values as if they had the new type would give
wrong rows. Answers the section "Type Widening" of the protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.errors import SchemaInvalidError, UnsupportedTypeChangeError
from tidegate.schema.paths import Path, join_path
from tidegate.schema.types import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    parse_type,
)

TYPE_CHANGES = "delta.typeChanges"

_WIDER: dict[DataType, frozenset[DataType]] = {
    BYTE: frozenset({SHORT, INTEGER, LONG, DOUBLE}),
    SHORT: frozenset({INTEGER, LONG, DOUBLE}),
    INTEGER: frozenset({LONG, DOUBLE}),
    FLOAT: frozenset({DOUBLE}),
    DATE: frozenset({TIMESTAMP_NTZ}),
}
# Digits before the point that every value of the type fits in. The protocol lets bytes and shorts become
# decimals of ten such digits and more; tables of the preview have narrower ones, which read just as well.
_DIGITS: dict[DataType, int] = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}
_LEAST_DIGITS = 10
# Iceberg readers cannot follow these.
_NOT_ICEBERG = frozenset({DOUBLE, TIMESTAMP_NTZ})


@dataclass(frozen=True, slots=True)
class TypeChange:
    """One recorded change; ``path`` leads into the column's arrays and maps, and is empty for the column."""

    before: DataType
    after: DataType
    path: Path = ()


def is_supported_change(before: DataType, after: DataType) -> bool:
    """Whether this client reads values written as ``before`` in a column that is now ``after``."""
    if after in _WIDER.get(before, ()):
        return True
    if not isinstance(after, DecimalType):
        return False
    if isinstance(before, DecimalType):
        more_digits = after.precision - before.precision
        more_scale = after.scale - before.scale
        return before != after and more_digits >= more_scale >= 0
    digits = _DIGITS.get(before)
    return digits is not None and after.precision - digits >= after.scale


def can_widen(before: DataType, after: DataType, *, iceberg_compat: bool = False) -> bool:
    """Whether a column may become ``after``: the same type, a void that gets one, or a supported change."""
    if before in (after, VOID):
        return True
    if not is_supported_change(before, after):
        return False
    if isinstance(after, DecimalType):
        if isinstance(before, DecimalType):
            return not iceberg_compat or before.scale == after.scale
        return not iceberg_compat and after.precision - after.scale >= _LEAST_DIGITS
    if not iceberg_compat:
        return True
    # float to double is the one way to a double that Iceberg has too.
    return after not in _NOT_ICEBERG or before == FLOAT


def reads_as(before: DataType, after: DataType) -> bool:
    """Whether files that hold ``before`` can be read as ``after``, at every level; fields may come and go."""
    if isinstance(before, StructType) and isinstance(after, StructType):
        pairs = [(f, after.field(f.name)) for f in before.fields]
        return all(now is None or reads_as(f.type, now.type) for f, now in pairs)
    if isinstance(before, ArrayType) and isinstance(after, ArrayType):
        return reads_as(before.element, after.element)
    if isinstance(before, MapType) and isinstance(after, MapType):
        return reads_as(before.key, after.key) and reads_as(before.value, after.value)
    return before in (after, VOID) or is_supported_change(before, after)


def type_changes(field: StructField) -> tuple[TypeChange, ...]:
    """What the column's metadata records, oldest first."""
    recorded = field.metadata.get(TYPE_CHANGES)
    if recorded is None:
        return ()
    if not isinstance(recorded, list):
        raise SchemaInvalidError(f"column {field.name} has {recorded!r} for {TYPE_CHANGES}, not a list")
    return tuple(_parse_change(field, change) for change in recorded)


def recorded_changes(schema: StructType) -> Iterator[tuple[Path, TypeChange]]:
    """Every recorded change of every column."""
    for path, f in schema.walk():
        for change in type_changes(f):
            yield (*path, *change.path), change


def check_type_changes(schema: StructType) -> None:
    """Refuse a schema that records a change this client does not know."""
    for path, change in recorded_changes(schema):
        if not is_supported_change(change.before, change.after):
            raise UnsupportedTypeChangeError(
                f"column {join_path(path)} was changed from {change.before} to {change.after}, "
                "a type change this release cannot read through",
                hint="Read the table with a newer release, or drop the feature typeWidening with its writer.",
            )


def with_type_change(field: StructField, after: DataType) -> StructField:
    """The column with its new type, and the change recorded; also one inside its arrays and maps."""
    recorded = list(field.metadata.get(TYPE_CHANGES) or ())
    for path, old, new in _changed_leaves(field.type, after, ()):
        change = {"toType": new.json_value(), "fromType": old.json_value()}
        recorded.append({**change, "fieldPath": ".".join(path)} if path else change)
    return field.with_type(after).with_metadata({TYPE_CHANGES: recorded} if recorded else {})


def widened(before: StructType, after: StructType) -> Iterator[tuple[Path, DataType, DataType]]:
    """The columns, at every level, whose type is wider in ``after``, with both types."""
    for path, f in before.walk():
        now = after.find(path)
        if now is not None:
            for inside, old, new in _changed_leaves(f.type, now.type, ()):
                yield (*path, *inside), old, new


def _changed_leaves(
    before: DataType, after: DataType, path: Path
) -> Iterator[tuple[Path, DataType, DataType]]:
    """Where two types differ within arrays and maps; fields of structs record their own changes."""
    if isinstance(before, ArrayType) and isinstance(after, ArrayType):
        yield from _changed_leaves(before.element, after.element, (*path, "element"))
    elif isinstance(before, MapType) and isinstance(after, MapType):
        yield from _changed_leaves(before.key, after.key, (*path, "key"))
        yield from _changed_leaves(before.value, after.value, (*path, "value"))
    elif is_supported_change(before, after):
        yield path, before, after


def _parse_change(field: StructField, change: object) -> TypeChange:
    if not isinstance(change, dict):
        raise SchemaInvalidError(f"column {field.name} has {change!r} in {TYPE_CHANGES}, not an object")
    at = (field.name,)
    path = change.get("fieldPath") or ""
    if not isinstance(path, str):
        raise SchemaInvalidError(f"column {field.name} has {path!r} for a fieldPath in {TYPE_CHANGES}")
    return TypeChange(
        parse_type(change.get("fromType"), at),
        parse_type(change.get("toType"), at),
        tuple(path.split(".")) if path else (),
    )
