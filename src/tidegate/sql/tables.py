"""Running the statements that define tables: CREATE, REPLACE, CLONE, LIKE, ALTER, DROP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from tidegate.commands import catalog, retention
from tidegate.commands.alter_columns import NewColumn, add_columns, parse_position
from tidegate.commands.clone import clone
from tidegate.commands.sync_identity import sync_identity
from tidegate.errors import OptionError
from tidegate.log.table_log import TableLog
from tidegate.schema.types import parse_schema
from tidegate.spark.confs import conf
from tidegate.sql import nodes
from tidegate.sql.context import Context
from tidegate.sql.modify import dotted
from tidegate.table import naming
from tidegate.table.builder import DeltaTableBuilder, IdentityGenerator, identity_metadata
from tidegate.table.delta import DeltaTable
from tidegate.table.frames import CLONE, rows

_DEFAULT = "CURRENT_DEFAULT"


def nothing(context: Context) -> DataFrame:
    """What a statement without an answer returns."""
    return context.spark.createDataFrame([], "struct<>")


def creates_ours(context: Context, node: nodes.Create) -> bool:
    """Whether CREATE is about a Delta table: by format, by path, or by what it copies."""
    if node.using is not None:
        return node.using == "delta"
    if node.table.path is not None or node.clone is not None:
        return True
    if node.like is not None:
        return context.is_ours(node.like)
    if context.spark.conf.get("spark.sql.sources.default", "parquet") == "delta":
        return True
    return node.mode != "create" and context.is_ours(node.table)


def create(context: Context, node: nodes.Create) -> DataFrame:
    if node.mode == "create" and node.if_not_exists and _exists(context, node):
        return nothing(context)
    if node.clone is not None:
        return _clone(context, node)
    if node.query is not None:
        return _create_as(context, node)
    builder = _builder(context, node)
    if node.like is not None:
        builder = _alike(context, node, builder)
    for column in node.columns:
        builder = builder.addColumns([field_of(column)])
    if node.partitioned:
        builder = builder.partitionedBy(*node.partitioned)
    if node.clustered:
        builder = builder.clusterBy(*node.clustered)
    builder.execute()
    return nothing(context)


def _exists(context: Context, node: nodes.Create) -> bool:
    if node.table.path is not None:
        return catalog.is_delta_table(context.spark, node.table.path)
    return catalog.entry_of(context.spark, node.table.name) is not None


def _builder(context: Context, node: nodes.Create) -> DeltaTableBuilder:
    make: dict[str, Callable[..., DeltaTableBuilder]] = {
        "create": DeltaTable.createIfNotExists if node.if_not_exists else DeltaTable.create,
        "replace": DeltaTable.replace,
        "create_or_replace": DeltaTable.createOrReplace,
    }
    builder = make[node.mode](context.spark)
    if node.table.path is not None:
        builder = builder.location(node.table.path)
    else:
        builder = builder.tableName(node.table.name)
        if node.location is not None:
            builder = builder.location(node.location)
    if node.comment is not None:
        builder = builder.comment(node.comment)
    for key, value in node.properties.items():
        builder = builder.property(key, value)
    return builder


def _alike(context: Context, node: nodes.Create, builder: DeltaTableBuilder) -> DeltaTableBuilder:
    """Schema, partitioning and properties of another table; the log's own marks stay behind."""
    assert node.like is not None
    metadata = context.snapshot(node.like).metadata
    schema = T.StructType.fromJson(json.loads(metadata.schema_string))
    builder = builder.addColumns(schema)
    if metadata.partition_columns:
        builder = builder.partitionedBy(*metadata.partition_columns)
    for key, value in metadata.configuration.items():
        if key not in node.properties and not _is_internal(key):
            builder = builder.property(key, value)
    return builder


def _is_internal(key: str) -> bool:
    return key.lower() in (
        "delta.columnmapping.maxcolumnid",
        "delta.rowtracking.materializedrowidcolumnname",
        "delta.rowtracking.materializedrowcommitversioncolumnname",
        "delta.incommittimestampenablementversion",
        "delta.incommittimestampenablementtimestamp",
        "delta.requirecheckpointprotectionbeforeversion",
    )


def _create_as(context: Context, node: nodes.Create) -> DataFrame:
    """CREATE TABLE AS SELECT: the columns are the query's."""
    assert node.query is not None
    if node.columns:
        raise OptionError("CREATE TABLE AS SELECT takes its columns from the query; list none.")
    verbs = {"create": "create", "replace": "replace", "create_or_replace": "createOrReplace"}
    properties = dict(node.properties)
    if node.location is not None:
        properties["location"] = node.location
    if node.comment is not None:
        properties["comment"] = node.comment
    catalog.write_to(
        context.query(node.query),
        node.table.name,
        verbs[node.mode],
        partition_by=node.partitioned,
        cluster_by=node.clustered,
        properties=properties,
    )
    return nothing(context)


def _clone(context: Context, node: nodes.Create) -> DataFrame:
    """SHALLOW CLONE of a Delta table, at a version if one is named, or of a folder of parquet files."""
    source = node.clone
    assert source is not None
    where = naming.place(
        context.spark, None if node.table.path else node.table.name, node.location or node.table.path
    )
    is_parquet = len(source.parts) == 2 and source.parts[0].lower() == "parquet"
    with naming.entering(context.spark, where):
        metrics = clone(
            TableLog.at(source.parts[1]) if is_parquet else context.log(source),
            TableLog.at(where.path),
            version=None if source.version is None else context.version(source.version),
            timestamp=None if source.timestamp is None else context.moment(source.timestamp),
            replace=node.mode != "create",
            properties=node.properties,
            if_not_exists=node.if_not_exists,
            within_retention=conf(context.spark, retention.CONF, False),
        )
    return rows(context.spark, [] if metrics is None else [metrics], CLONE)


def field_of(column: nodes.ColumnDef) -> T.StructField:
    """A column of the statement as Spark's field, with what Delta keeps in its metadata."""
    metadata: dict[str, Any] = {}
    if column.comment is not None:
        metadata["comment"] = column.comment
    if column.default is not None:
        metadata[_DEFAULT] = metadata["EXISTS_DEFAULT"] = column.default
    if column.generated is not None:
        metadata["delta.generationExpression"] = column.generated
    if column.identity is not None:
        generator = IdentityGenerator(column.identity.start, column.identity.step)
        metadata.update(identity_metadata(generator, explicit=not column.identity.always))
    return T.StructField(column.name[-1], T.DataType.fromDDL(column.type), column.nullable, metadata)


def drop(context: Context, node: nodes.Drop) -> DataFrame:
    if node.table.path is not None:
        raise OptionError(
            "DROP TABLE takes a name of the catalog, not a path.",
            hint="Delete the folder, or DELETE FROM the table.",
        )
    catalog.drop_table(context.spark, node.table.name, if_exists=node.if_exists, purge=node.purge)
    return nothing(context)


# ---------------------------------------------------------------------------- ALTER TABLE


def alter(context: Context, node: nodes.Alter) -> DataFrame:
    table = context.table(node.table)
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
            table.renameColumn(name, node.to[0])
        case "set properties":
            table.setProperties(node.properties)
        case "unset properties":
            table.unsetProperties(*(n[0] for n in node.names), ifExists=node.flag)
        case "cluster by":
            table.clusterBy(*(".".join(n) for n in node.names))
        case "column type":
            table.alterColumn(name, type=node.text)
        case "column comment":
            table.alterColumn(name, comment=node.text)
        case "column position":
            table.alterColumn(name, position=node.text)
        case "column nullable":
            table.alterColumn(name, nullable=node.flag)
        case "column default":
            table.alterColumn(name, default=node.text or "")
        case "column change":
            _change(table, node, name)
        case "sync identity":
            sync_identity(context.spark, table._log, name)
        case _:
            raise OptionError(
                f"ALTER TABLE ... {node.action.upper()} is not served.",
                hint="Drop the table from the catalog and enter it again at its new place.",
            )
    return nothing(context)


def _new(column: nodes.ColumnDef) -> NewColumn:
    schema = parse_schema(T.StructType([field_of(column)]).json())
    return NewColumn(schema.fields[0], parent=column.name[:-1], position=parse_position(column.position))


def _change(table: DeltaTable, node: nodes.Alter, name: str) -> None:
    """Hive's CHANGE: old and new name are the same, or the column is renamed too."""
    column = node.columns[0]
    if node.to[0].lower() != node.name[-1].lower():
        raise OptionError(
            "CHANGE COLUMN keeps a column's name.", hint="Rename it with ALTER TABLE ... RENAME COLUMN."
        )
    current = table.toDF().schema[node.name[0]].dataType if len(node.name) == 1 else None
    wanted = T.DataType.fromDDL(column.type)
    if current != wanted:
        table.alterColumn(name, type=wanted)
    if column.comment is not None:
        table.alterColumn(name, comment=column.comment)
