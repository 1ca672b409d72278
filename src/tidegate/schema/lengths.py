"""char(n) and varchar(n): strings in the log, with the whole type of a column in its metadata, as DDL.

The protocol has no such types, so other clients see strings. Spark keeps them this way in any catalog, and
knows from it what to fill up, what to cut and how to compare.
"""

from __future__ import annotations

import re

from tidegate.schema.types import STRING, ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

KEY = "__CHAR_VARCHAR_TYPE_STRING"
_LENGTH = re.compile(r"(char|varchar)\(\s*(\d+)\s*\)", re.IGNORECASE)
_OPENING = re.compile(r"(array|map|struct)\s*<\s*", re.IGNORECASE)
_FIELD = re.compile(r"(`[^`]+`|[^:<>,`]+)\s*:\s*")
_SIMPLE = re.compile(r"[^<>,()]+(?:\([^()]*\))?")
_DDL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def as_strings(schema: StructType) -> StructType:
    """A schema as users describe it, as the log holds it."""
    return StructType(tuple(_as_string(f, f.type) for f in schema.fields))


def refreshed(schema: StructType) -> StructType:
    """A schema that has changed, with every column's lengths said of the type that it has now."""
    return StructType(tuple(_as_string(f, described(f)) for f in schema.fields))


def is_current(field: StructField) -> bool:
    """Whether what a column says of lengths is said of the type that it has."""
    if KEY not in field.metadata:
        return True
    said = _said(field)
    return said is not None and spelled(described(field)).lower() == spelled(said).lower()


def _as_string(field: StructField, kind: DataType) -> StructField:
    """A column whose type is ``kind``, in the words of the log."""
    plain = without_lengths(kind)
    text = None if plain == kind else spelled(kind)
    if text == field.metadata.get(KEY) and plain == field.type:
        return field
    return field.with_type(plain).with_metadata({KEY: text})


def described(field: StructField) -> DataType:
    """The type of a column as users described it: with the lengths that it, or a field inside, says."""
    return _joined(field.type, _said(field))


def spelled(kind: DataType) -> str:
    """A type with lengths in it as DDL, which is how a column says them."""
    return str(_spelled(kind))


def length_of(kind: DataType) -> tuple[str, int] | None:
    """``char`` or ``varchar``, and how long; None for other types."""
    found = _LENGTH.fullmatch(kind.name) if isinstance(kind, PrimitiveType) else None
    return (found[1].lower(), int(found[2])) if found else None


def _said(field: StructField) -> DataType | None:
    text = field.metadata.get(KEY)
    return _parsed(text) if isinstance(text, str) else None


def _joined(kind: DataType, said: DataType | None) -> DataType:
    if isinstance(kind, StructType):
        return StructType(tuple(_joined_field(f, i, kind, said) for i, f in enumerate(kind.fields)))
    if isinstance(kind, ArrayType):
        element = said.element if isinstance(said, ArrayType) else None
        return ArrayType(_joined(kind.element, element), kind.contains_null)
    if isinstance(kind, MapType):
        key, value = (said.key, said.value) if isinstance(said, MapType) else (None, None)
        return MapType(_joined(kind.key, key), _joined(kind.value, value), kind.value_contains_null)
    return said if said is not None and kind == STRING and length_of(said) is not None else kind


def _joined_field(field: StructField, at: int, kind: StructType, said: DataType | None) -> StructField:
    found = _said(field)
    if isinstance(said, StructType):
        named = said.field(field.name)
        if named is None and len(said) == len(kind):
            # It has another name since.
            named = said.fields[at]
        found = named.type if named is not None else found
    return field.with_type(_joined(field.type, found)).with_metadata({KEY: None})


def _parsed(text: str) -> DataType | None:
    """A type in DDL as far as lengths are looked for in it; None if it cannot be read."""
    kind, rest = _next(text.strip())
    return kind if not rest else None


def _next(text: str) -> tuple[DataType | None, str]:
    """The type that a text begins with, and what is left."""
    opened = _OPENING.match(text)
    if opened is None:
        name = _SIMPLE.match(text)
        return (PrimitiveType(name[0].strip()), text[name.end() :]) if name else (None, text)
    rest, parts = text[opened.end() :], []
    while rest and not rest.startswith(">"):
        name = _FIELD.match(rest) if opened[1].lower() == "struct" else None
        kind, rest = _next(rest[name.end() :] if name else rest)
        if kind is None:
            return None, text
        parts.append((name[1].strip("`") if name else "", kind))
        rest = rest.removeprefix(",").lstrip()
    kinds = [kind for _, kind in parts]
    match opened[1].lower(), len(parts):
        case "array", 1:
            return ArrayType(kinds[0]), rest[1:]
        case "map", 2:
            return MapType(kinds[0], kinds[1]), rest[1:]
        case "struct", _:
            return StructType(tuple(StructField(n, k) for n, k in parts)), rest[1:]
    return None, text


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
    was, wanted = length_of(described(field)), length_of(kind)
    if wanted is None or was == wanted:
        return field.with_metadata({KEY: None if wanted is None else spelled(kind)})
    if was is None or wanted[0] == "char" or wanted[1] < was[1]:
        return None
    return field.with_metadata({KEY: spelled(kind)})
