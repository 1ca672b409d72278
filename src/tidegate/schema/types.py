"""The types of a Delta schema and their JSON form, as Spark writes it.

A schema is a tree of frozen values. ``parse_schema`` reads the ``schemaString`` of a metadata action
and ``StructType.to_json`` gives it back: same keys, same order, no spaces, so an untouched schema
keeps its bytes. Column names are compared without regard to case, and keep the case they came with.
Answers the section "Schema Serialization Format" of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from tidegate.errors import SchemaInvalidError
from tidegate.schema.paths import Path, join_path, split_path


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type that is only a name."""

    name: str

    def json_value(self) -> object:
        return self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType:
    """An exact number of at most 38 digits, ``scale`` of them after the point."""

    precision: int = 10
    scale: int = 0

    @property
    def name(self) -> str:
        return f"decimal({self.precision},{self.scale})"

    def json_value(self) -> object:
        return self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of values of one type."""

    element: DataType
    contains_null: bool = True

    def json_value(self) -> object:
        return {
            "type": "array",
            "elementType": self.element.json_value(),
            "containsNull": self.contains_null,
        }

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Keys of one type to values of another."""

    key: DataType
    value: DataType
    value_contains_null: bool = True

    def json_value(self) -> object:
        return {
            "type": "map",
            "keyType": self.key.json_value(),
            "valueType": self.value.json_value(),
            "valueContainsNull": self.value_contains_null,
        }

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """One column, at any level. ``metadata`` is what writers attach to it: read it, do not change it."""

    name: str
    type: DataType
    nullable: bool = True
    # Not hashed: it is a plain mapping with nested JSON in it.
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def json_value(self) -> object:
        return {
            "name": self.name,
            "type": self.type.json_value(),
            "nullable": self.nullable,
            "metadata": dict(self.metadata),
        }

    def with_metadata(self, changes: Mapping[str, object]) -> StructField:
        """This field with some metadata keys set, or taken away where the value is None."""
        merged = {k: v for k, v in {**self.metadata, **changes}.items() if v is not None}
        return StructField(self.name, self.type, self.nullable, merged)

    def with_type(self, type: DataType) -> StructField:
        return StructField(self.name, type, self.nullable, self.metadata)

    def with_name(self, name: str) -> StructField:
        return StructField(name, self.type, self.nullable, self.metadata)


@dataclass(frozen=True, slots=True)
class StructType:
    """Named columns in order: a whole schema, or a struct inside one."""

    fields: tuple[StructField, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))

    def __len__(self) -> int:
        return len(self.fields)

    def __str__(self) -> str:
        return "struct<" + ",".join(f"{f.name}:{f.type}" for f in self.fields) + ">"

    @property
    def names(self) -> Path:
        return tuple(f.name for f in self.fields)

    def json_value(self) -> object:
        return {"type": "struct", "fields": [f.json_value() for f in self.fields]}

    def to_json(self) -> str:
        """The schema string of a metadata action."""
        return msgspec.json.encode(self.json_value()).decode()

    def field(self, name: str) -> StructField | None:
        """The column of that name at this level: exact case first, then any case."""
        for f in self.fields:
            if f.name == name:
                return f
        folded = name.casefold()
        return next((f for f in self.fields if f.name.casefold() == folded), None)

    def find(self, path: str | Sequence[str]) -> StructField | None:
        """The column at a path, in any case; a string is split as ``split_path`` does."""
        found = self.resolve(path)
        return found[1] if found else None

    def resolve(self, path: str | Sequence[str]) -> tuple[Path, StructField] | None:
        """The column at a path together with the path in the table's own case."""
        parts = split_path(path) if isinstance(path, str) else tuple(path)
        here: DataType = self
        found: StructField | None = None
        canonical: list[str] = []
        for part in parts:
            step = child(here, part)
            if step is None:
                return None
            found = step
            here = step.type
            canonical.append(step.name)
        return (tuple(canonical), found) if found is not None else None

    def leaves(self) -> Iterator[tuple[Path, StructField]]:
        """The columns that hold values, reached through structs alone: arrays and maps are leaves."""
        for f in self.fields:
            if isinstance(f.type, StructType):
                for path, leaf in f.type.leaves():
                    yield (f.name, *path), leaf
            else:
                yield (f.name,), f

    def walk(self) -> Iterator[tuple[Path, StructField]]:
        """Every column at every level, parents first, also inside arrays and maps."""
        for f in self.fields:
            yield (f.name,), f
            for path, inner in _inner_fields(f.type):
                yield (f.name, *path), inner

    def transform(self, change: Callable[[Path, StructField], StructField]) -> StructType:
        """This schema with every column replaced by what ``change`` makes of it, parents first.

        ``change`` sees the paths of the schema as it was, and the types of its columns unchanged.
        """
        return _transform_struct(self, (), change)

    def contains(self, wanted: Callable[[DataType], bool]) -> bool:
        """Whether any type at any level answers to ``wanted``."""
        return any(wanted(t) for t in _types(self))


DataType = PrimitiveType | DecimalType | ArrayType | MapType | StructType

STRING = PrimitiveType("string")
LONG = PrimitiveType("long")
INTEGER = PrimitiveType("integer")
SHORT = PrimitiveType("short")
BYTE = PrimitiveType("byte")
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
BOOLEAN = PrimitiveType("boolean")
BINARY = PrimitiveType("binary")
DATE = PrimitiveType("date")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMP_NTZ = PrimitiveType("timestamp_ntz")
VARIANT = PrimitiveType("variant")
VOID = PrimitiveType("void")
CALENDAR_INTERVAL = PrimitiveType("interval")

_NAMED = (STRING, LONG, INTEGER, SHORT, BYTE, FLOAT, DOUBLE, BOOLEAN, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ)
PRIMITIVES: Mapping[str, PrimitiveType] = {t.name: t for t in (*_NAMED, VARIANT, VOID, CALENDAR_INTERVAL)}

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,9})\s*,\s*(-?\d{1,9})\s*\)")
# Types whose name carries a parameter. Knowing the name is not reading them: that is for their features.
_PARAMETRIC = re.compile(
    r"""
      string\ collate\ [\w.]+
    | (?:char|varchar)\(\s*\d+\s*\)
    | interval\ (?:year|month|day|hour|minute|second)(?:\ to\ (?:month|hour|minute|second))?
    | time(?:\(\s*\d\s*\))?
    | (?:geometry|geography)(?:\([^()]*\))?
    """,
    re.VERBOSE | re.IGNORECASE,
)


def nullable(schema: StructType) -> StructType:
    """The schema with null allowed everywhere: what is not null is a constraint, not a type."""
    return StructType(
        tuple(StructField(f.name, nullable_type(f.type), True, f.metadata) for f in schema.fields)
    )


def nullable_type(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return nullable(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(nullable_type(kind.element), True)
    if isinstance(kind, MapType):
        return MapType(nullable_type(kind.key), nullable_type(kind.value), True)
    return kind


def is_geospatial(t: DataType) -> bool:
    """Whether a type is a geometry or a geography, with or without its reference system."""
    return isinstance(t, PrimitiveType) and t.name.lower().startswith(("geometry", "geography"))


def parse_type(value: object, at: Path = ()) -> DataType:
    """A type from its decoded JSON form; ``at`` is the column it is for, for the error."""
    if isinstance(value, str):
        return _parse_name(value, at)
    if isinstance(value, dict):
        kind = value.get("type")
        if kind == "struct":
            return _parse_struct(value, at)
        if kind == "array":
            return ArrayType(
                parse_type(value.get("elementType"), (*at, "element")), _flag(value, "containsNull", at)
            )
        if kind == "map":
            return MapType(
                parse_type(value.get("keyType"), (*at, "key")),
                parse_type(value.get("valueType"), (*at, "value")),
                _flag(value, "valueContainsNull", at),
            )
        raise _bad(at, f"has a type of the kind {kind!r}, which is not a Delta type")
    raise _bad(at, "has no type" if value is None else f"has {value!r} for a type")


@lru_cache(maxsize=256)
def parse_schema(text: str) -> StructType:
    """The schema in a ``schemaString``. Parsed once per text: metadata actions repeat themselves."""
    try:
        decoded = msgspec.json.decode(text)
        schema = parse_type(decoded)
    except msgspec.DecodeError as e:
        raise SchemaInvalidError(f"the schema string is not JSON: {e}") from e
    except RecursionError as e:
        raise SchemaInvalidError("the schema is nested too deeply to be read") from e
    if not isinstance(schema, StructType):
        raise SchemaInvalidError(f"the schema is {schema}, where a struct of columns must stand")
    return schema


def duplicate_columns(schema: StructType) -> tuple[str, ...]:
    """Names that occur twice among siblings when case is ignored, as dotted paths."""
    seen: set[Path] = set()
    twice: list[str] = []
    for path, _ in schema.walk():
        folded = tuple(p.casefold() for p in path)
        if folded in seen:
            twice.append(join_path(path))
        seen.add(folded)
    return tuple(twice)


def child(here: DataType, part: str) -> StructField | None:
    """One level down: a struct's column, or what an array or a map holds, as a field without metadata."""
    if isinstance(here, StructType):
        return here.field(part)
    for name, inner, nullable in _inner_types(here):
        if name == part.lower():
            return StructField(name, inner, nullable)
    return None


def _parse_name(name: str, at: Path) -> DataType:
    known = PRIMITIVES.get(name)
    if known is not None:
        return known
    if name == "decimal":
        return DecimalType()
    if name == "timestamp_ltz":
        return TIMESTAMP
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2])
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise _bad(at, f"has the type {name}: precision is 1 to 38 and scale at most that")
        return DecimalType(precision, scale)
    if _PARAMETRIC.fullmatch(name):
        return PrimitiveType(name)
    raise _bad(at, f"has the type {name!r}, which is not a Delta type")


def _parse_struct(value: Mapping[str, Any], at: Path) -> StructType:
    items = value.get("fields")
    if not isinstance(items, list):
        raise _bad(at, "is a struct without a list of fields")
    return StructType(tuple(_parse_field(item, at) for item in items))


def _parse_field(item: object, at: Path) -> StructField:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise _bad(at, f"has a field without a name: {item!r}")
    path = (*at, item["name"])
    metadata = item.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise _bad(path, f"has {metadata!r} for metadata, where an object must stand")
    type = parse_type(item.get("type"), path)
    return StructField(item["name"], type, _flag(item, "nullable", path), metadata)


def _flag(item: Mapping[str, Any], key: str, at: Path) -> bool:
    # Old writers leave these out, and Spark then reads them as true.
    value = item.get(key, True)
    if not isinstance(value, bool):
        raise _bad(at, f"has {value!r} for {key}, where true or false must stand")
    return value


def _bad(at: Path, what: str) -> SchemaInvalidError:
    subject = f"column {join_path(at)}" if at else "the schema"
    return SchemaInvalidError(f"{subject} {what}")


def _inner_types(t: DataType) -> tuple[tuple[str, DataType, bool], ...]:
    if isinstance(t, ArrayType):
        return (("element", t.element, t.contains_null),)
    if isinstance(t, MapType):
        return (("key", t.key, False), ("value", t.value, t.value_contains_null))
    return ()


def _inner_fields(t: DataType) -> Iterator[tuple[Path, StructField]]:
    if isinstance(t, StructType):
        yield from t.walk()
    for part, inner, _ in _inner_types(t):
        for path, f in _inner_fields(inner):
            yield (part, *path), f


def _types(t: DataType) -> Iterator[DataType]:
    yield t
    if isinstance(t, StructType):
        for f in t.fields:
            yield from _types(f.type)
    for _, inner, _ in _inner_types(t):
        yield from _types(inner)


_Change = Callable[[Path, StructField], StructField]


def _transform_struct(struct: StructType, at: Path, change: _Change) -> StructType:
    def one(f: StructField) -> StructField:
        path = (*at, f.name)
        changed = change(path, f)
        return changed.with_type(_transform_type(changed.type, path, change))

    return StructType(tuple(one(f) for f in struct.fields))


def _transform_type(t: DataType, at: Path, change: _Change) -> DataType:
    if isinstance(t, StructType):
        return _transform_struct(t, at, change)
    if isinstance(t, ArrayType):
        return ArrayType(_transform_type(t.element, (*at, "element"), change), t.contains_null)
    if isinstance(t, MapType):
        return MapType(
            _transform_type(t.key, (*at, "key"), change),
            _transform_type(t.value, (*at, "value"), change),
            t.value_contains_null,
        )
    return t
