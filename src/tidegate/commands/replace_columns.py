"""ALTER TABLE ... REPLACE COLUMNS: the whole list of columns at once. No data is touched.

Columns may be put into another order, described anew, allowed to be null, and added; none may go, and none
may change its type or forbid null, for that would have to change rows.
"""

from __future__ import annotations

from tidegate.commands.alter import begin
from tidegate.errors import AlterRefusedError
from tidegate.log.table_log import TableLog
from tidegate.schema.columns import identity_columns
from tidegate.schema.paths import Path, join_path
from tidegate.schema.types import ArrayType, DataType, MapType, StructField, StructType, duplicate_columns
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed


def replace_columns(log: TableLog, columns: StructType) -> Committed:
    """Give the table these columns, in this order."""
    transaction, snapshot = begin(log)
    twice = duplicate_columns(columns)
    if twice:
        raise _refused(
            f"it names {', '.join(twice)} twice", "DELTA_DUPLICATE_COLUMNS_FOUND.REPLACING_COLUMNS"
        )
    if identity_columns(snapshot.schema):
        raise _refused(
            "ALTER TABLE REPLACE COLUMNS is not supported for tables with identity columns",
            "DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED",
        )
    schema = _struct(snapshot.schema, columns, ())
    transaction.update_metadata(snapshot.metadata.with_schema(schema))
    shown = [f.json_value() for f in columns.fields]
    return transaction.commit(operation=Operation("REPLACE COLUMNS", {"columns": shown}))


def _struct(old: StructType, new: StructType, at: Path) -> StructType:
    gone = [f.name for f in old.fields if new.field(f.name) is None]
    if gone:
        raise _refused(f"it drops {', '.join(join_path((*at, g)) for g in gone)}")
    return StructType(tuple(_field(old.field(f.name), f, at) for f in new.fields))


def _field(old: StructField | None, new: StructField, at: Path) -> StructField:
    name = join_path((*at, new.name))
    if old is None:
        if not new.nullable:
            raise _refused(f"it adds {name}, which may not be null")
        return new
    if old.nullable and not new.nullable:
        raise _refused(f"it forbids null in {name}")
    kind = _type(old.type, new.type, (*at, old.name))
    return StructField(old.name, kind, new.nullable, {**old.metadata, **new.metadata})


def _type(old: DataType, new: DataType, at: Path) -> DataType:
    if isinstance(old, StructType) and isinstance(new, StructType):
        return _struct(old, new, at)
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return ArrayType(_type(old.element, new.element, (*at, "element")), old.contains_null)
    if isinstance(old, MapType) and isinstance(new, MapType):
        key = _type(old.key, new.key, (*at, "key"))
        return MapType(key, _type(old.value, new.value, (*at, "value")), old.value_contains_null)
    if old != new:
        raise _refused(f"it makes {join_path(at)} {new}, which is {old}")
    return old


def _refused(
    what: str, error_class: str = "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"
) -> AlterRefusedError:
    return AlterRefusedError(
        f"REPLACE COLUMNS cannot be done: {what}.",
        hint="It orders, describes and adds columns; ALTER COLUMN and DROP COLUMN do more.",
        errorClass=error_class,
    )
