"""Changing a table's columns: added, moved, widened, described. No data is touched.

Types only widen, and each change is recorded for the readers of old files. How columns go and get other
names, ``alter_names`` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tidegate import properties
from tidegate.commands.alter import begin
from tidegate.commands.alter_names import refuse_dependents
from tidegate.commands.schema_edits import (
    FIRST,
    described,
    edit,
    holder_of,
    inserted,
    put_inside,
    resolve,
    spelt_position,
    without,
)
from tidegate.errors import AlterRefusedError, ManualEnablementError
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.columns import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_START,
    users_type,
)
from tidegate.schema.lengths import KEY as LENGTHS
from tidegate.schema.lengths import as_strings, with_length, without_lengths
from tidegate.schema.paths import Path, join_path, split_path
from tidegate.schema.stored import check_types
from tidegate.schema.types import (
    STRING,
    VOID,
    DataType,
    StructField,
    StructType,
    duplicate_columns,
)
from tidegate.schema.widening import can_widen, with_type_change
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed

# What gives a column values by itself.
OWN_VALUES = {
    CURRENT_DEFAULT: "a default",
    GENERATION_EXPRESSION: "a generated value",
    IDENTITY_START: "an identity",
}


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
    schema, exact = snapshot.schema, log.settings().case_sensitive
    for column in columns:
        check_new(column.field)
        parent = column.parent
        if parent:
            found = resolve(schema, parent, exact)
            if not isinstance(found[1].type, StructType):
                raise AlterRefusedError(
                    f"{join_path(parent)} is {found[1].type}, which has no columns inside.",
                    errorClass="DELTA_ADD_COLUMN_PARENT_NOT_STRUCT",
                )
            parent = found[0]
        put = partial(inserted, field=column.field, position=column.position, exact=exact)
        schema = edit(schema, parent, put)
    twice = duplicate_columns(schema)
    if twice:
        raise AlterRefusedError(
            f"The table has the columns {', '.join(twice)} already.",
            table=log.url,
            errorClass="FIELD_ALREADY_EXISTS",
        )
    check_types(schema)
    transaction.update_metadata(snapshot.metadata.with_schema(schema))
    shown = [
        {
            "column": {**described(c.field), "name": join_path((*c.parent, c.field.name))},
            **({} if c.position is None else {"position": spelt_position(c.position)}),
        }
        for c in columns
    ]
    return transaction.commit(operation=Operation("ADD COLUMNS", {"columns": shown}))


def check_new(field: StructField) -> None:
    """Refuse a new column that rows which are there cannot have: not null, or with values of its own."""
    strict = [join_path(path) for path, inner in StructType((field,)).walk() if not inner.nullable]
    if strict:
        raise AlterRefusedError(
            f"The new column {strict[0]} may not be null, but rows that are there would have null in it.",
            hint="Add it, fill it, then set it NOT NULL.",
            errorClass="DELTA_OPERATION_NOT_ALLOWED",
        )
    nameless = [join_path(path) for path, inner in StructType((field,)).walk() if not inner.name]
    if nameless:
        raise AlterRefusedError(f"The new column {nameless[0]} has an empty name.")
    for key, what in OWN_VALUES.items():
        if field.metadata.get(key) is not None:
            raise AlterRefusedError(
                f"The new column {field.name} has {what}, which rows that are there cannot be given.",
                hint="Add the column without it; a default can be set afterwards.",
                errorClass="WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED"
                if key == CURRENT_DEFAULT
                else None,
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


Change = tuple[str, ColumnChange]


def altered(snapshot: Snapshot, changes: Sequence[Change]) -> tuple[Metadata, list[Path]]:
    """The metadata after ``changes``, or the reason why not. Whether rows allow them is not asked here."""
    exact = snapshot.log.settings().case_sensitive
    found = [resolve(snapshot.schema, split_path(name), exact) for name, _ in changes]
    paths = [path for path, _ in found]
    for n, one in enumerate(paths):
        if any(one[: len(other)] == other[: len(one)] for other in paths[:n]):
            raise AlterRefusedError(
                f"The column {join_path(one)}, with what is inside of it, is changed more than once.",
                table=snapshot.url,
                errorClass="NOT_SUPPORTED_CHANGE_SAME_COLUMN",
            )
    metadata = snapshot.metadata
    for path, (_, change) in zip(paths, changes, strict=True):
        metadata = _altered(snapshot, metadata, path, change)
    return metadata, paths


def _altered(snapshot: Snapshot, metadata: Metadata, path: Path, change: ColumnChange) -> Metadata:
    exact, field = snapshot.log.settings().case_sensitive, metadata.schema.find(path)
    assert field is not None
    if IDENTITY_START in field.metadata and (change.type not in (None, field.type) or change.default):
        raise AlterRefusedError(
            f"The column {join_path(path)} is an identity column: ALTER TABLE ALTER COLUMN is not supported "
            "for its type and default.",
            table=snapshot.url,
            errorClass="DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED",
        )
    holder = holder_of(metadata.schema, path)
    if holder != path:
        return _altered_inside(snapshot, metadata, path, holder, change)
    new = field
    if change.type is not None:
        new = _retyped(snapshot, path, new, change.type)
    if change.comment is not None:
        new = new.with_metadata({"comment": change.comment})
    if change.nullable is not None:
        new = StructField(new.name, new.type, change.nullable, new.metadata)
    if change.default is not None:
        new = _with_default(snapshot, path, new, change.default)

    def replaced(s: StructType) -> StructType:
        s = StructType(tuple(new if f.name == path[-1] else f for f in s.fields))
        if change.position in (None, f".{path[-1]}"):
            return s
        return inserted(without(s, path[-1]), new, change.position, exact)

    return metadata.with_schema(edit(metadata.schema, path[:-1], replaced))


def _altered_inside(
    snapshot: Snapshot, metadata: Metadata, path: Path, holder: Path, change: ColumnChange
) -> Metadata:
    """A wider type of what is in an array or a map; nothing else of it can change."""
    found, field = metadata.schema.find(path), metadata.schema.find(holder)
    assert found is not None
    assert field is not None
    if change.type is None or change != ColumnChange(type=change.type):
        raise AlterRefusedError(
            f"Of {join_path(path)}, which is no column of a struct, nothing but the type can change.",
            table=snapshot.url,
        )
    if change.type == found.type:
        return metadata
    refuse_dependents(snapshot, holder, "given another type")
    _check_widens(snapshot, path, found.type, change.type)
    new = with_type_change(field, put_inside(field.type, path[len(holder) :], change.type))

    def replaced(s: StructType) -> StructType:
        return StructType(tuple(new if f.name == holder[-1] else f for f in s.fields))

    return metadata.with_schema(edit(metadata.schema, holder[:-1], replaced))


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
    if users_type(new) == users_type(field.type):
        return field
    refuse_dependents(snapshot, path, "given another type")
    return _widened(snapshot, path, field, new)


def _widened(snapshot: Snapshot, path: Path, field: StructField, new: DataType) -> StructField:
    if field.type == VOID:
        return as_strings(StructType((field.with_type(new),))).fields[0]
    _check_widens(snapshot, path, field.type, new)
    return with_type_change(field, new)


def _check_widens(snapshot: Snapshot, path: Path, old: DataType, new: DataType) -> None:
    if not can_widen(old, new):
        raise _no_type(snapshot, path, old, new)
    if not snapshot.metadata.property(properties.ENABLE_TYPE_WIDENING):
        raise _no_type(snapshot, path, old, new, "Set delta.enableTypeWidening = true to allow wider types.")


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


def commit_altered(log: TableLog, *changes: Change) -> Committed | None:
    """CHANGE COLUMN, of one column or of several, for changes that no row can contradict."""
    transaction, snapshot = begin(log)
    metadata, paths = altered(snapshot, changes)
    if metadata == snapshot.metadata:
        return None
    transaction.update_metadata(metadata)
    return transaction.commit(operation=changes_operation(metadata, paths, changes))


def changes_operation(metadata: Metadata, paths: Sequence[Path], changes: Sequence[Change]) -> Operation:
    """What the history says of changed columns; of one alone it is ``change_operation``."""
    said = [change_operation(metadata, path, c.position) for path, (_, c) in zip(paths, changes, strict=True)]
    return (
        said[0] if len(said) == 1 else Operation("CHANGE COLUMNS", {"columns": [s.parameters for s in said]})
    )


def change_operation(metadata: Metadata, path: Path, position: str | None) -> Operation:
    """What the history says of a changed column."""
    found = metadata.schema.find(path)
    assert found is not None
    shown: dict[str, object] = {"column": {**described(found), "name": join_path(path)}}
    if position is not None:
        shown["position"] = spelt_position(position)
    return Operation("CHANGE COLUMN", shown)
