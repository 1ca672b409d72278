"""What columns demand of a writer: not null, invariants, generated, identity and default columns.

All of it stands in the metadata of the fields. Here it is taken out as data; who writes rows turns the
SQL texts into expressions. Answers the sections "Column Invariants", "Generated Columns", "Identity
Columns" and "Default Columns" of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tidegate.errors import SchemaInvalidError
from tidegate.schema import lengths
from tidegate.schema.paths import Path, join_path
from tidegate.schema.types import ArrayType, DataType, MapType, StructField, StructType, nullable_type

INVARIANTS = "delta.invariants"
GENERATION_EXPRESSION = "delta.generationExpression"
IDENTITY_START = "delta.identity.start"
IDENTITY_STEP = "delta.identity.step"
IDENTITY_HIGH_WATER_MARK = "delta.identity.highWaterMark"
IDENTITY_ALLOW_EXPLICIT = "delta.identity.allowExplicitInsert"
CURRENT_DEFAULT = "CURRENT_DEFAULT"
EXISTS_DEFAULT = "EXISTS_DEFAULT"


# What the metadata of a column says to clients and to Spark itself: keys, and how keys begin.
_FOR_CLIENTS = frozenset(
    {CURRENT_DEFAULT, EXISTS_DEFAULT, "__metadata_col", "__qualified_access_only", "__COLLATIONS"}
)
_FOR_CLIENTS_BEGIN = ("delta.", "parquet.field.")


def users_metadata(field: StructField) -> dict[str, Any]:
    """What users attached to a column: comments, lengths, keys of their own.

    What the log keeps there for clients (ids, generation, invariants, defaults) belongs to the table: a
    DataFrame that carried it on would pass it off as a wish of its own when it is written elsewhere.
    """
    return {
        k: v
        for k, v in field.metadata.items()
        if not k.startswith(_FOR_CLIENTS_BEGIN)
        and k not in _FOR_CLIENTS
        and (k != lengths.KEY or lengths.is_current(field))
    }


def users_type(kind: DataType) -> DataType:
    """A type as users see it: the metadata of the fields inside as ``users_metadata`` has it."""
    if isinstance(kind, StructType):
        return StructType(
            tuple(StructField(f.name, users_type(f.type), f.nullable, users_metadata(f)) for f in kind.fields)
        )
    if isinstance(kind, ArrayType):
        return ArrayType(users_type(kind.element), kind.contains_null)
    if isinstance(kind, MapType):
        return MapType(users_type(kind.key), users_type(kind.value), kind.value_contains_null)
    return kind


@dataclass(frozen=True, slots=True)
class Invariant:
    """A condition on one column that every row must meet; NULL does not meet it."""

    path: Path
    expression: str


@dataclass(frozen=True, slots=True)
class GeneratedColumn:
    """A column whose value follows from others."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class IdentityColumn:
    """A column that numbers the rows: ``start + k * step``, beyond the high-water mark."""

    name: str
    start: int
    step: int
    high_water_mark: int | None
    allow_explicit_insert: bool


@dataclass(frozen=True, slots=True)
class DefaultColumn:
    """A column with a value for rows that give none; ``exists`` is the one older files would have had."""

    name: str
    current: str
    exists: str | None


def not_null(schema: StructType) -> tuple[Path, ...]:
    """Columns that may not be null, reached through structs alone; what holds one may not be null then."""
    return tuple(path for path, f in _through_structs(schema) if not f.nullable)


def unenforced_not_null(schema: StructType) -> tuple[Path, ...]:
    """Columns inside arrays and maps that may not be null, which no writer looks at."""
    reached = {path for path, _ in _through_structs(schema)}
    return tuple(path for path, f in schema.walk() if path not in reached and not f.nullable)


def without_unenforced(schema: StructType) -> StructType:
    """The schema in which every column inside arrays and maps may be null."""

    def loose(kind: DataType) -> DataType:
        return without_unenforced(kind) if isinstance(kind, StructType) else nullable_type(kind)

    return StructType(tuple(f.with_type(loose(f.type)) for f in schema.fields))


def invariants(schema: StructType) -> tuple[Invariant, ...]:
    """The SQL invariants of columns, nested ones too."""
    return tuple(
        Invariant(path, _invariant_sql(path, f.metadata[INVARIANTS]))
        for path, f in _through_structs(schema)
        if f.metadata.get(INVARIANTS) is not None
    )


def generated_columns(schema: StructType) -> tuple[GeneratedColumn, ...]:
    """The generated columns: always at the top level."""
    return tuple(
        GeneratedColumn(f.name, str(f.metadata[GENERATION_EXPRESSION]))
        for f in schema.fields
        if f.metadata.get(GENERATION_EXPRESSION) is not None
    )


def identity_columns(schema: StructType) -> tuple[IdentityColumn, ...]:
    """The identity columns: always at the top level, always with start, step and insert rule."""
    return tuple(_identity(f) for f in schema.fields if _has_identity(f))


def default_columns(schema: StructType) -> tuple[DefaultColumn, ...]:
    """The columns with a default: always at the top level."""
    return tuple(
        DefaultColumn(
            f.name,
            str(f.metadata[CURRENT_DEFAULT]),
            None if f.metadata.get(EXISTS_DEFAULT) is None else str(f.metadata[EXISTS_DEFAULT]),
        )
        for f in schema.fields
        if f.metadata.get(CURRENT_DEFAULT) is not None
    )


def filled_columns(schema: StructType) -> frozenset[str]:
    """The columns that a write fills where the data lacks them: generated ones, identities and defaults."""
    return frozenset(
        (
            *(c.name for c in generated_columns(schema)),
            *(c.name for c in identity_columns(schema)),
            *(c.name for c in default_columns(schema)),
        )
    )


def with_high_water_mark(schema: StructType, column: str, mark: int) -> StructType:
    """The schema after identity values up to ``mark`` have been handed out in ``column``."""
    target = schema.field(column)
    return StructType(
        tuple(f.with_metadata({IDENTITY_HIGH_WATER_MARK: mark}) if f is target else f for f in schema.fields)
    )


def _through_structs(schema: StructType, at: Path = ()) -> list[tuple[Path, StructField]]:
    found: list[tuple[Path, StructField]] = []
    for f in schema.fields:
        path = (*at, f.name)
        found.append((path, f))
        if isinstance(f.type, StructType):
            found.extend(_through_structs(f.type, path))
    return found


def _invariant_sql(path: Path, rule: Any) -> str:
    # Spark keeps the rule as JSON text inside the metadata's JSON: {"expression": {"expression": SQL}}.
    try:
        decoded = msgspec.json.decode(rule) if isinstance(rule, str) else rule
        sql = decoded["expression"]["expression"]
    except (msgspec.DecodeError, KeyError, TypeError) as e:
        raise SchemaInvalidError(f"column {join_path(path)} has no invariant in {rule!r}") from e
    if not isinstance(sql, str):
        raise SchemaInvalidError(f"column {join_path(path)} has an invariant that is not SQL: {sql!r}")
    return sql


def is_long(value: int) -> bool:
    """Whether a column of longs holds the value."""
    return -(1 << 63) <= value < 1 << 63


def _has_identity(f: StructField) -> bool:
    parts = (IDENTITY_START, IDENTITY_STEP, IDENTITY_ALLOW_EXPLICIT)
    present = [p for p in parts if f.metadata.get(p) is not None]
    if present and len(present) < len(parts):
        missing = ", ".join(p for p in parts if p not in present)
        raise SchemaInvalidError(f"identity column {f.name} lacks {missing}")
    return bool(present)


def _identity(f: StructField) -> IdentityColumn:
    try:
        mark = f.metadata.get(IDENTITY_HIGH_WATER_MARK)
        return IdentityColumn(
            f.name,
            start=int(f.metadata[IDENTITY_START]),
            step=int(f.metadata[IDENTITY_STEP]),
            high_water_mark=None if mark is None else int(mark),
            allow_explicit_insert=f.metadata[IDENTITY_ALLOW_EXPLICIT] in (True, "true"),
        )
    except (TypeError, ValueError) as e:
        raise SchemaInvalidError(f"identity column {f.name}: start, step and mark are numbers") from e
