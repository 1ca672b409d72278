"""char(n) and varchar(n): strings in the log, with the whole type of a column in its metadata, as DDL.

The protocol has no such types, so other clients see strings. Spark keeps them this way in any catalog, and
knows from it what to fill up, what to cut and how to compare.
"""

from __future__ import annotations

import re

from tidegate.schema.types import STRING, ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

KEY = "__CHAR_VARCHAR_TYPE_STRING"
_LENGTH = re.compile(r"(char|varchar)\(\s*(\d+)\s*\)", re.IGNORECASE)
_DDL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def as_strings(schema: StructType) -> StructType:
    """A schema as users describe it, as the log holds it."""
    return StructType(tuple(_as_string(f) for f in schema.fields))


def _as_string(field: StructField) -> StructField:
    plain = without_lengths(field.type)
    if plain == field.type:
        return field
    return field.with_type(plain).with_metadata({KEY: str(_spelled(field.type))})


def without_lengths(kind: DataType) -> DataType:
    """A type with strings for every char and varchar in it."""
    return _mapped(kind, STRING)


def _spelled(kind: DataType) -> DataType:
    """A type whose primitives have the names they have in DDL."""
    return _mapped(kind, None)


def _mapped(kind: DataType, new: PrimitiveType | None) -> DataType:
    """A type with ``new`` for every char and varchar in it; without ``new``, as DDL spells it."""
    if isinstance(kind, PrimitiveType):
        found = _LENGTH.fullmatch(kind.name)
        if new is not None:
            return kind if found is None else new
        return PrimitiveType(
            _DDL.get(kind.name, kind.name) if found is None else f"{found[1].lower()}({found[2]})"
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_mapped(kind.element, new), kind.contains_null)
    if isinstance(kind, MapType):
        return MapType(_mapped(kind.key, new), _mapped(kind.value, new), kind.value_contains_null)
    if isinstance(kind, StructType):
        return StructType(tuple(f.with_type(_mapped(f.type, new)) for f in kind.fields))
    return kind


def with_length(field: StructField, kind: DataType) -> StructField | None:
    """A column of strings given the length that ``kind`` says, or none; None where values may not fit.

    A varchar may become longer, a char a varchar that holds it, and both plain strings.
    """
    if field.type != STRING or without_lengths(kind) != STRING:
        return None
    old, new = field.metadata.get(KEY), str(_spelled(kind))
    if kind == STRING:
        return field.with_metadata({KEY: None})
    if old == new:
        return field
    was, wanted = _LENGTH.fullmatch(old or ""), _LENGTH.fullmatch(new)
    if was is None or wanted is None or wanted[1] == "char" or int(wanted[2]) < int(was[2]):
        return None
    return field.with_metadata({KEY: new})
