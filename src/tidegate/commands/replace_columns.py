"""ALTER TABLE ... REPLACE COLUMNS: the whole list of columns at once. No data is touched.

Columns may be put into another order, described anew, allowed to be null, and added. With column mapping they
may go, and with type widening become wider, as by the statements for one column. What would have to change
rows is refused, and so is a list that drops and adds at one place: it could as well mean a rename.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate import properties
from tidegate.commands.alter import begin
from tidegate.commands.alter_columns import OWN_VALUES, check_new
from tidegate.commands.alter_names import refuse_dependents, refuse_listed, with_indexed
from tidegate.commands.schema_edits import described
from tidegate.errors import AlterRefusedError
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.schema import lengths
from tidegate.schema.columns import identity_columns
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.paths import Path, join_path
from tidegate.schema.stored import check_types
from tidegate.schema.types import (
    STRING,
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
    schema = _Replacing(snapshot, columns).struct(snapshot.schema, columns, ())
    partitions = {c.lower() for c in snapshot.partition_columns}
    if all(f.name.lower() in partitions for f in schema.fields):
        raise _refused("it leaves no column that holds data")
    check_types(schema)
    metadata = snapshot.metadata.with_schema(schema)
    for path, _ in snapshot.schema.walk():
        if schema.find(path) is None:
            metadata = with_indexed(metadata, path, None)
    transaction.update_metadata(metadata)
    shown = [described(f) for f in columns.fields]
    return transaction.commit(operation=Operation("REPLACE COLUMNS", {"columns": shown}))


@dataclass(frozen=True)
class _Replacing:
    """The table's columns held against those it is to have."""

    snapshot: Snapshot
    columns: StructType

    def struct(self, old: StructType, new: StructType, at: Path) -> StructType:
        if self.snapshot.log.settings().case_sensitive:
            for f in new.fields:
                there = old.field(f.name)
                if there is not None and there.name != f.name:
                    name = join_path((*at, there.name))
                    raise _refused(f"it says {f.name} for {name}, and the session tells names apart by case")
        if at and not new.fields:
            raise _refused(f"it leaves nothing in {join_path(at)}")
        gone = [f.name for f in old.fields if new.field(f.name) is None]
        added = [f.name for f in new.fields if old.field(f.name) is None]
        if gone and mapping_mode(self.snapshot.metadata) == "none":
            raise _refused(f"it drops {_named(gone, at)}")
        if gone and added:
            raise _refused(
                f"it drops {_named(gone, at)} and adds {_named(added, at)}, which could be a rename"
            )
        for name in gone:
            # A generated column that goes too asks for nothing more.
            refuse_dependents(self.snapshot, (*at, name), "dropped", left=self.columns)
            refuse_listed(self.snapshot, (*at, name))
        return StructType(tuple(self._field(old.field(f.name), f, at) for f in new.fields))

    def _field(self, old: StructField | None, new: StructField, at: Path) -> StructField:
        name = join_path((*at, new.name))
        if old is None:
            if not new.nullable:
                raise _refused(f"it adds {name}, which may not be null")
            check_new(new)
            return new
        for key, what in OWN_VALUES.items():
            if new.metadata.get(key) not in (None, old.metadata.get(key)):
                raise _refused(f"it gives {name} {what}, which rows that are there do not have")
        if old.nullable and not new.nullable:
            raise _refused(f"it forbids null in {name}")
        kind = self._type(old.type, new.type, (*at, old.name))
        changed = with_type_change(old, kind)
        if kind == STRING:
            sized = lengths.with_length(changed, lengths.described(new))
            if sized is None:
                raise _refused(f"it makes {name} {lengths.described(new)}, which is {lengths.described(old)}")
            changed = sized
        return StructField(old.name, kind, new.nullable, {**changed.metadata, **new.metadata})

    def _type(self, old: DataType, new: DataType, at: Path) -> DataType:
        if isinstance(old, StructType) and isinstance(new, StructType):
            return self.struct(old, new, at)
        if isinstance(old, ArrayType) and isinstance(new, ArrayType):
            return ArrayType(self._type(old.element, new.element, (*at, "element")), old.contains_null)
        if isinstance(old, MapType) and isinstance(new, MapType):
            key = self._type(old.key, new.key, (*at, "key"))
            return MapType(key, self._type(old.value, new.value, (*at, "value")), old.value_contains_null)
        if old == new:
            return old
        if not self.snapshot.metadata.property(properties.ENABLE_TYPE_WIDENING) or not can_widen(old, new):
            raise _refused(f"it makes {join_path(at)} {new}, which is {old}")
        refuse_dependents(self.snapshot, at, "given another type")
        return new


def _named(names: list[str], at: Path) -> str:
    return ", ".join(join_path((*at, n)) for n in names)


def _refused(
    what: str, error_class: str = "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"
) -> AlterRefusedError:
    return AlterRefusedError(
        f"REPLACE COLUMNS cannot be done: {what}.",
        hint="It orders, describes and adds columns; with column mapping it drops them.",
        errorClass=error_class,
    )
