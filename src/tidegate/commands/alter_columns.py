"""Changing a table's columns: added, dropped, renamed, moved, widened, described. No data is touched.

A column may go or change its name only where files know it under another one (column mapping), and
never while a partition, a constraint, a generated column or the clustering depends on it. Types only
widen, and each change is recorded for the readers of old files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from tidegate import properties
from tidegate.commands.alter import begin
from tidegate.commands.clustering import clustering_columns
from tidegate.errors import AlterRefusedError, ManualEnablementError, SchemaInvalidError
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.columns import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_START,
    generated_columns,
)
from tidegate.schema.constraints import check_constraints
from tidegate.schema.lengths import KEY as LENGTHS
from tidegate.schema.lengths import as_strings, with_length, without_lengths
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.paths import Path, join_path, split_path
from tidegate.schema.references import speaks_of
from tidegate.schema.types import (
    STRING,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    duplicate_columns,
)
from tidegate.schema.widening import can_widen, with_type_change
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed

FIRST = "first"


@dataclass(frozen=True)
class NewColumn:
    """A column to be added: where (empty for the top level), what, and after which one.

    ``position`` is None for the end, ``first``, or ``.c`` for behind the column c: see ``parse_position``.
    """

    field: StructField
    parent: Path = ()
    position: str | None = None


def parse_position(text: str | None) -> str | None:
    """``FIRST`` or ``AFTER c`` as a position."""
    if text is None:
        return None
    words = text.strip().split(None, 1)
    if len(words) == 1 and words[0].lower() == FIRST:
        return FIRST
    if len(words) == 2 and words[0].lower() == "after":
        return "." + split_path(words[1])[-1]
    raise AlterRefusedError(f"{text!r} is no position.", hint="Write FIRST, or AFTER and a column.")


# ---------------------------------------------------------------------------- adding


def add_columns(log: TableLog, columns: Sequence[NewColumn]) -> Committed:
    """ADD COLUMNS. Rows that are there have null in them."""
    transaction, snapshot = begin(log)
    schema = snapshot.schema
    for column in columns:
        _check_new(column)
        parent = column.parent
        if parent:
            found = _resolve(schema, parent)
            if not isinstance(found[1].type, StructType):
                raise AlterRefusedError(
                    f"{join_path(parent)} is {found[1].type}, which has no columns inside.",
                    errorClass="DELTA_ADD_COLUMN_PARENT_NOT_STRUCT",
                )
            parent = found[0]
        schema = _edit(schema, parent, partial(_inserted, field=column.field, position=column.position))
    twice = duplicate_columns(schema)
    if twice:
        raise AlterRefusedError(
            f"The table has the columns {', '.join(twice)} already.",
            table=log.url,
            errorClass="FIELD_ALREADY_EXISTS",
        )
    transaction.update_metadata(snapshot.metadata.with_schema(schema))
    shown = [
        {
            "column": {**_shown(c.field), "name": join_path((*c.parent, c.field.name))},
            **({} if c.position is None else {"position": c.position}),
        }
        for c in columns
    ]
    return transaction.commit(operation=Operation("ADD COLUMNS", {"columns": shown}))


def _check_new(column: NewColumn) -> None:
    field = column.field
    if not field.nullable:
        raise AlterRefusedError(
            f"The new column {field.name} may not be null, but rows that are there would have null in it.",
            hint="Add it, fill it, then set it NOT NULL.",
            errorClass="DELTA_OPERATION_NOT_ALLOWED",
        )
    for key, what in (
        (CURRENT_DEFAULT, "a default"),
        (GENERATION_EXPRESSION, "a generated value"),
        (IDENTITY_START, "an identity"),
    ):
        if field.metadata.get(key) is not None:
            raise AlterRefusedError(
                f"The new column {field.name} has {what}, which rows that are there cannot be given.",
                hint="Add the column without it; a default can be set afterwards.",
                errorClass="WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED"
                if key == CURRENT_DEFAULT
                else None,
            )


# ---------------------------------------------------------------------------- dropping and renaming


def drop_columns(log: TableLog, names: Iterable[str], *, if_exists: bool = False) -> Committed | None:
    """DROP COLUMNS: from the schema alone; files keep what they have."""
    transaction, snapshot = begin(log)
    schema = snapshot.schema
    _need_mapping(snapshot, "dropped")
    dropped: list[str] = []
    for name in names:
        if if_exists and schema.resolve(name) is None:
            continue
        path, _ = _resolve(schema, split_path(name))
        _refuse_dependents(snapshot, path, "dropped")
        if any(path == c[: len(path)] for c in clustering_columns(snapshot)):
            raise AlterRefusedError(
                f"The table is clustered by {join_path(path)}.",
                table=log.url,
                hint="Cluster it by other columns first.",
                errorClass="DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN",
            )
        if path[0].lower() in {c.lower() for c in snapshot.partition_columns}:
            raise AlterRefusedError(
                f"The table is partitioned by {path[0]}, which cannot be dropped.",
                table=log.url,
                errorClass="DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN",
            )
        schema = _edit(schema, path[:-1], partial(_without, name=path[-1]))
        dropped.append(join_path(path))
    if not dropped:
        return None
    partitions = {c.lower() for c in snapshot.partition_columns}
    if not any(f.name.lower() not in partitions for f in schema.fields):
        raise AlterRefusedError(
            "The last column that holds data cannot be dropped.",
            table=log.url,
            errorClass="DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA",
        )
    transaction.update_metadata(snapshot.metadata.with_schema(schema))
    return transaction.commit(operation=Operation("DROP COLUMNS", {"columns": dropped}))


def rename_column(log: TableLog, name: str, new_name: str) -> Committed:
    """RENAME COLUMN, at any level; the new name is that of the last level alone."""
    transaction, snapshot = begin(log)
    _need_mapping(snapshot, "renamed")
    path, _ = _resolve(snapshot.schema, split_path(name))
    new = split_path(new_name)
    if len(new) > 1 and tuple(p.lower() for p in new[:-1]) != tuple(p.lower() for p in path[:-1]):
        raise AlterRefusedError("A column cannot be moved into another one by a rename.", table=log.url)
    _refuse_dependents(snapshot, path, "renamed")
    schema = _edit(snapshot.schema, path[:-1], lambda s: _renamed(s, path[-1], new[-1]))
    if duplicate_columns(schema):
        raise AlterRefusedError(
            f"There is a column {new_name} already.",
            table=log.url,
            errorClass="FIELD_ALREADY_EXISTS",
        )
    partitions = snapshot.partition_columns
    if len(path) == 1:
        partitions = tuple(new[-1] if c.lower() == path[0].lower() else c for c in partitions)
    metadata = msgspec.structs.replace(
        snapshot.metadata, schema_string=schema.to_json(), partition_columns=partitions
    )
    transaction.update_metadata(metadata)
    parameters = {"oldColumnPath": join_path(path), "newColumnPath": join_path((*path[:-1], new[-1]))}
    return transaction.commit(operation=Operation("RENAME COLUMN", parameters))


def _need_mapping(snapshot: Snapshot, what: str) -> None:
    if mapping_mode(snapshot.metadata) == "none":
        raise AlterRefusedError(
            f"Columns of this table cannot be {what}: its files know them by the names that users see.",
            table=snapshot.url,
            hint="Set delta.columnMapping.mode = name first.",
            errorClass="DELTA_UNSUPPORTED_DROP_COLUMN"
            if what == "dropped"
            else "DELTA_UNSUPPORTED_RENAME_COLUMN",
        )


def _refuse_dependents(snapshot: Snapshot, path: Path, what: str) -> None:
    """Refuse to touch a column that a constraint or a generated column speaks of."""
    metadata = snapshot.metadata
    checks = [n for n, sql in check_constraints(metadata.configuration).items() if speaks_of(sql, path)]
    if checks:
        raise AlterRefusedError(
            f"The column {join_path(path)} cannot be {what}: constraints speak of it ({', '.join(checks)}).",
            table=snapshot.url,
            hint="Drop them first.",
            errorClass="DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
        )
    made = [g.name for g in generated_columns(metadata.schema) if speaks_of(g.expression, path)]
    if made:
        raise AlterRefusedError(
            f"The column {join_path(path)} cannot be {what}: {', '.join(made)} are generated from it.",
            table=snapshot.url,
            errorClass="DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE",
        )


# ---------------------------------------------------------------------------- changing one


@dataclass(frozen=True)
class ColumnChange:
    """What is to change about one column; None leaves a thing as it is. ``default`` '' takes it away."""

    type: DataType | None = None
    comment: str | None = None
    nullable: bool | None = None
    default: str | None = None
    position: str | None = None


def altered(snapshot: Snapshot, name: str, change: ColumnChange) -> tuple[Metadata, Path]:
    """The metadata after ``change``, or the reason why not. Whether rows allow it is not asked here."""
    path, field = _resolve(snapshot.schema, split_path(name))
    new = field
    if change.type is not None:
        new = _retyped(snapshot, path, new, change.type)
    if change.comment is not None:
        new = new.with_metadata({"comment": change.comment})
    if change.nullable is not None:
        new = StructField(new.name, new.type, change.nullable, new.metadata)
    if change.default is not None:
        new = _with_default(snapshot, path, new, change.default)

    def edit(s: StructType) -> StructType:
        s = StructType(tuple(new if f.name == path[-1] else f for f in s.fields))
        return s if change.position is None else _inserted(_without(s, path[-1]), new, change.position)

    return snapshot.metadata.with_schema(_edit(snapshot.schema, path[:-1], edit)), path


def _retyped(snapshot: Snapshot, path: Path, field: StructField, new: DataType) -> StructField:
    if field.type == without_lengths(new) == STRING:
        found = with_length(field, new)
        if found is None:
            raise _no_type(
                snapshot,
                path,
                field.metadata.get(LENGTHS, field.type),
                new,
                "A varchar can become longer, a char a varchar that holds it, and both a string.",
            )
        return found
    if new == field.type:
        return field
    _refuse_dependents(snapshot, path, "given another type")
    return _widened(snapshot, path, field, new)


def _widened(snapshot: Snapshot, path: Path, field: StructField, new: DataType) -> StructField:
    if field.type == VOID:
        return as_strings(StructType((field.with_type(new),))).fields[0]
    if not can_widen(field.type, new):
        raise _no_type(snapshot, path, field.type, new)
    if not snapshot.metadata.property(properties.ENABLE_TYPE_WIDENING):
        raise _no_type(
            snapshot, path, field.type, new, "Set delta.enableTypeWidening = true to allow wider types."
        )
    return with_type_change(field, new)


def _no_type(
    snapshot: Snapshot, path: Path, old: DataType | str, new: DataType, hint: str | None = None
) -> AlterRefusedError:
    return AlterRefusedError(
        f"The column {join_path(path)} cannot be changed from {old} to {new}.",
        table=snapshot.url,
        hint=hint or "Types can only become wider; write the table anew with overwriteSchema for others.",
    )


def _with_default(snapshot: Snapshot, path: Path, field: StructField, default: str) -> StructField:
    if len(path) > 1:
        raise AlterRefusedError("Only columns at the top level have defaults.", table=snapshot.url)
    if not default:
        return field.with_metadata({CURRENT_DEFAULT: None})
    if not snapshot.protocol.supports("allowColumnDefaults"):
        raise ManualEnablementError(
            "The table does not have the feature allowColumnDefaults.",
            table=snapshot.url,
            hint="Set delta.feature.allowColumnDefaults = supported first.",
            errorClass="WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED",
        )
    return field.with_metadata({CURRENT_DEFAULT: default})


def commit_altered(log: TableLog, name: str, change: ColumnChange) -> Committed | None:
    """CHANGE COLUMN, for changes that no row can contradict."""
    transaction, snapshot = begin(log)
    metadata, path = altered(snapshot, name, change)
    if metadata == snapshot.metadata:
        return None
    transaction.update_metadata(metadata)
    return transaction.commit(operation=change_operation(metadata, path, change.position))


def change_operation(metadata: Metadata, path: Path, position: str | None) -> Operation:
    """What the history says of a changed column."""
    found = metadata.schema.find(path)
    assert found is not None
    shown = {"column": {**_shown(found), "name": join_path(path)}}
    return Operation("CHANGE COLUMN", shown if position is None else {**shown, "position": position})


# ---------------------------------------------------------------------------- schemas


def _shown(field: StructField) -> dict[str, object]:
    return {
        "name": field.name,
        "type": field.type.json_value(),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }


def _resolve(schema: StructType, path: Path) -> tuple[Path, StructField]:
    found = schema.resolve(path)
    if found is None:
        raise SchemaInvalidError(
            f"There is no column {join_path(path)}; the table has {', '.join(schema.names)}.",
            errorClass="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
        )
    return found


def _edit(schema: StructType, parent: Path, change: Callable[[StructType], StructType]) -> StructType:
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


def _without(struct: StructType, name: str) -> StructType:
    return StructType(tuple(f for f in struct.fields if f.name != name))


def _renamed(struct: StructType, old: str, new: str) -> StructType:
    return StructType(tuple(f.with_name(new) if f.name == old else f for f in struct.fields))


def _inserted(struct: StructType, field: StructField, position: str | None) -> StructType:
    fields = list(struct.fields)
    if position is None:
        at = len(fields)
    elif position == FIRST:
        at = 0
    else:
        before = struct.field(position.removeprefix("."))
        if before is None:
            raise SchemaInvalidError(
                f"There is no column {position.removeprefix('.')} to stand after; there are "
                f"{', '.join(struct.names)}.",
                errorClass="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
            )
        at = fields.index(before) + 1
    return StructType((*fields[:at], field, *fields[at:]))
