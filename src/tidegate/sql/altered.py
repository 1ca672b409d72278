"""Running ALTER TABLE: each change to the command that makes it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from tidegate.commands import catalog
from tidegate.commands.alter_columns import Change, NewColumn, add_columns, parse_position
from tidegate.commands.alter_rows import alter_columns
from tidegate.commands.replace_columns import replace_columns
from tidegate.commands.sync_identity import sync_identity
from tidegate.errors import AlterRefusedError, NotATableError, OptionError
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.schema.lengths import as_strings
from tidegate.schema.paths import join_path
from tidegate.schema.types import parse_schema
from tidegate.sql import nodes
from tidegate.sql.context import Context
from tidegate.sql.modify import dotted
from tidegate.sql.tables import field_of, nothing
from tidegate.table.alterations import column_change
from tidegate.table.delta import DeltaTable

_BYPASS = "spark.databricks.delta.alterLocation.bypassSchemaCheck"


def alter(context: Context, node: nodes.Alter) -> DataFrame:
    try:
        table = context.table(node.table)
    except NotATableError as e:
        if node.action != "sync identity":
            raise
        known = "DELTA_IDENTITY_COLUMNS_ALTER_NON_DELTA_FORMAT"
        raise NotATableError(e.message, table=e.table, hint=e.hint, errorClass=known) from None
    name = dotted(node.name) if node.name else ""
    match node.action:
        case "add constraint":
            table.addConstraint(node.name[0], node.text or "")
        case "drop constraint":
            table.dropConstraint(node.name[0], ifExists=node.flag)
        case "add feature":
            table.addFeatureSupport(node.name[0])
        case "drop feature":
            table.dropFeatureSupport(node.name[0], True if node.flag else None)
        case "add columns":
            add_columns(table._log, [_new(c) for c in node.columns])
        case "drop columns":
            table.dropColumns(*(dotted(n) for n in node.names), ifExists=node.flag)
        case "rename column":
            table.renameColumn(name, dotted(node.to))
        case "set properties":
            table.setProperties(node.properties)
        case "unset properties":
            # IF EXISTS or not: delta-spark takes both in the same way.
            table.unsetProperties(*(n[0] for n in node.names), ifExists=True)
        case "cluster by":
            table.clusterBy(*(join_path(n) for n in node.names))
        case "columns":
            alter_columns(context.spark, table._log, [_change_of(each) for each in node.each])
        case "column change":
            _change(table, node, name)
        case "sync identity":
            sync_identity(context.spark, table._log, name)
        case "replace columns":
            fields = [field_of(c) for c in node.columns]
            replace_columns(table._log, as_strings(parse_schema(T.StructType(fields).json())))
        case "set location":
            _set_location(context, node)
        case _:
            raise AlterRefusedError(
                f"ALTER TABLE ... {node.text} is not for Delta tables: partitions and their places are "
                "what the log says.",
                errorClass="DELTA_OPERATION_NOT_ALLOWED",
            )
    return nothing(context)


def _set_location(context: Context, node: nodes.Alter) -> None:
    """Another place for a name; what is there must be a Delta table of the same columns."""
    assert node.text is not None
    if node.table.path is not None:
        raise AlterRefusedError(
            "SET LOCATION moves a name of the catalog; a path is where it is.",
            errorClass="DELTA_CANNOT_SET_LOCATION_ON_PATH_IDENTIFIER",
        )
    new = load(TableLog.at(node.text))
    old = load(context.log(node.table))
    bypass = context.spark.conf.get(_BYPASS, "false") or "false"
    if bypass.lower() != "true" and (new.schema, new.partition_columns) != (
        old.schema,
        old.partition_columns,
    ):
        raise AlterRefusedError(
            f"The table at {node.text} has other columns: {new.schema}, where {node.table} has {old.schema}.",
            hint=f"Set {_BYPASS} to true where that is meant.",
            errorClass="DELTA_SET_LOCATION_SCHEMA_MISMATCH",
        )
    entry = catalog.entry_of(context.spark, node.table.name)
    assert entry is not None
    catalog.move(context.spark, entry, new.url)


def _new(column: nodes.ColumnDef) -> NewColumn:
    schema = as_strings(parse_schema(T.StructType([field_of(column)]).json()))
    return NewColumn(schema.fields[0], parent=column.name[:-1], position=parse_position(column.position))


def _change_of(node: nodes.Alter) -> Change:
    """A column, and what ALTER COLUMN says of it."""
    match node.action:
        case "column type":
            change = column_change(type=node.text)
        case "column comment":
            change = column_change(comment=node.text)
        case "column position":
            change = column_change(position=node.text)
        case "column nullable":
            change = column_change(nullable=node.flag)
        case _:
            change = column_change(default=node.text or "")
    return dotted(node.name), change


def _change(table: DeltaTable, node: nodes.Alter, name: str) -> None:
    """Hive's CHANGE: old and new name are the same, or the column is renamed too."""
    column = node.columns[0]
    exact = table._log.settings().case_sensitive
    if node.to[0].lower() != node.name[-1].lower() or (exact and node.to[0] != node.name[-1]):
        raise OptionError(
            "CHANGE COLUMN keeps a column's name.", hint="Rename it with ALTER TABLE ... RENAME COLUMN."
        )
    table.alterColumn(name, type=column.type, comment=column.comment, position=column.position)
