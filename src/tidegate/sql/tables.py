"""Running the statements that define tables: CREATE, REPLACE, CLONE, LIKE, DROP."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from tidegate.commands import catalog, named_writes, retention
from tidegate.commands.clone import clone
from tidegate.commands.convert import Known, clone_parquet
from tidegate.commands.convert_named import catalog_partitions, known_of
from tidegate.commands.create import not_bucketed
from tidegate.errors import (
    NotATableError,
    OptionError,
    SqlSyntaxError,
    TableExistsError,
    TableNotFoundError,
    TidegateError,
)
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.schema.types import StructType
from tidegate.spark.confs import conf, log_at
from tidegate.sql import nodes
from tidegate.sql.context import Context
from tidegate.sql.queries import query
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
    _check_clauses(context, node)
    exists = _exists(context, node)
    if node.mode == "create" and _leaves(node) and exists:
        return nothing(context) if node.clone is None else rows(context.spark, [], CLONE)
    _check_exists(node, exists)
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


def _leaves(node: nodes.Create) -> bool:
    """Whether a table that is there is left as it is; to a path that is taken no clone is made even so."""
    return node.if_not_exists and (node.clone is None or node.table.path is None)


def _exists(context: Context, node: nodes.Create) -> bool:
    if node.table.path is not None:
        return catalog.is_delta_table(context.spark, node.table.path)
    return catalog.entry_of(context.spark, node.table.name) is not None


def _check_exists(node: nodes.Create, exists: bool) -> None:
    """What is created by name may not be there yet; what is replaced must be."""
    if node.mode == "create" and exists and node.table.path is None:
        raise TableExistsError(
            f"There is a table or view {node.table} already.",
            hint="Use CREATE OR REPLACE TABLE, CREATE TABLE IF NOT EXISTS, or another name.",
            errorClass="TABLE_OR_VIEW_ALREADY_EXISTS" if node.clone is None else "DELTA_TABLE_ALREADY_EXISTS",
        )
    if node.mode == "replace" and not exists:
        raise TableNotFoundError(
            f"There is no table {node.table} to replace.",
            hint="Use CREATE OR REPLACE TABLE to make it.",
            errorClass="DELTA_CANNOT_REPLACE_MISSING_TABLE" if node.clone is not None else None,
        )


def _check_clauses(context: Context, node: nodes.Create) -> None:
    """Refuse two places for one table, and buckets and passing tables, which Delta does not have."""
    if node.temporary:
        raise OptionError(
            f"{node.table} cannot be temporary: a Delta table is kept where its log is.",
            hint="Write CREATE TEMPORARY VIEW ... AS SELECT * FROM delta.`path`, or CREATE TABLE.",
            errorClass="DELTA_OPERATION_NOT_ALLOWED",
        )
    if node.bucketed:
        raise not_bucketed(str(node.table))
    path, said = node.table.path, node.location
    if path is None or said is None or node.clone is not None:
        return
    if TableLog.at(path).url != TableLog.at(said).url and not conf(
        context.spark, "legacy.allowAmbiguousPathsInCreateTable", False
    ):
        raise OptionError(
            f"CREATE TABLE has two places for one table: {path} and the location {said}.",
            hint="Leave LOCATION out.",
            errorClass="DELTA_AMBIGUOUS_PATHS_IN_CREATE_TABLE",
        )


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
    base = None
    if node.mode != "create":
        # Before the query is planned, which may read this very table. One that is not there is told below.
        with suppress(TidegateError):
            base = load(context.log(node.table))
    named_writes.write_to(
        query(context, node.query),
        node.table.name,
        verbs[node.mode],
        partition_by=node.partitioned,
        cluster_by=node.clustered,
        properties=properties,
        base=base,
    )
    return nothing(context)


def _clone(context: Context, node: nodes.Create) -> DataFrame:
    """SHALLOW CLONE of a Delta table, at a version if one is named, or of a folder of parquet files."""
    assert node.clone is not None
    source = context.unmarked(node.clone)
    if node.table.path is not None and node.location is not None:
        raise OptionError(
            f"Two paths say where the clone is to be: {node.table.path} and the location {node.location}.",
            hint="Leave one of them out.",
            errorClass="DELTA_CLONE_AMBIGUOUS_TARGET",
        )
    if node.table.path is None and catalog.is_temporary_view(context.spark, node.table.name):
        raise NotATableError(
            f"{node.table} is a temporary view; CLONE is only supported for Delta tables.",
            hint="Write the name with its database.",
            errorClass="DELTA_ONLY_OPERATION",
        )
    where = naming.place(
        context.spark,
        None if node.table.path else node.table.name,
        node.location or node.table.path,
        over_others=True,
    )
    files, called = _parquet(context, source), _called(context, source)
    if files is not None and (source.version is not None or source.timestamp is not None):
        raise OptionError(
            f"{source} holds parquet files, which have no versions.",
            hint="Clone it as it is.",
        )
    with naming.entering(context.spark, where):
        if files is not None:
            place = log_at(context.spark, files)
            partitions, known = _known(context, source, place)
            metrics = clone_parquet(
                place,
                log_at(context.spark, where.path),
                partitions,
                known=known,
                called=called,
                replace=node.mode != "create",
                properties=node.properties,
                if_not_exists=_leaves(node),
            )
        else:
            metrics = clone(
                context.log(source),
                log_at(context.spark, where.path),
                version=None if source.version is None else context.version(source.version),
                timestamp=None
                if source.timestamp is None
                else context.moment(source.timestamp, "DELTA_TIMESTAMP_INVALID"),
                replace=node.mode != "create",
                properties=node.properties,
                if_not_exists=_leaves(node),
                within_retention=conf(context.spark, retention.CONF, False),
                called=called,
            )
    return rows(context.spark, [] if metrics is None else [metrics], CLONE)


def _parquet(context: Context, source: nodes.TableRef) -> str | None:
    """Where the parquet files are that a source names, by their path or as a table of the catalog."""
    path = _parquet_path(source)
    if path is not None:
        return path
    entry = None if source.path is not None else catalog.entry_of(context.spark, source.name)
    return entry.location if entry is not None and entry.provider == "parquet" else None


def _parquet_path(source: nodes.TableRef) -> str | None:
    return source.parts[1] if len(source.parts) == 2 and source.parts[0].lower() == "parquet" else None


def _called(context: Context, source: nodes.TableRef) -> str | None:
    """What the history calls a source that is named; views and tables of other formats cannot be cloned."""
    if source.path is not None or _parquet_path(source) is not None:
        return None
    entry = catalog.entry_of(context.spark, source.name)
    if entry is None and not catalog.is_temporary_view(context.spark, source.name):
        return None
    if entry is not None and (entry.is_delta or entry.provider == "parquet"):
        return naming.full_name(entry)
    kind = "View" if entry is None or entry.is_view else entry.provider
    raise NotATableError(
        f"{source} cannot be cloned: its format is {kind}.",
        hint="Delta tables and parquet files can.",
        errorClass="DELTA_CLONE_UNSUPPORTED_SOURCE",
    )


def _known(
    context: Context, source: nodes.TableRef, place: TableLog
) -> tuple[StructType | None, Known | None]:
    """The partition columns of a parquet table, and what else the catalog says; None of files at a path."""
    entry = None if _parquet_path(source) is not None else catalog.entry_of(context.spark, source.name)
    if entry is None:
        return None, None
    partitions = catalog_partitions(context.spark, entry)
    return partitions, known_of(context.spark, entry, partitions, place)


def field_of(column: nodes.ColumnDef) -> T.StructField:
    """A column of the statement as Spark's field, with what Delta keeps in its metadata."""
    metadata: dict[str, Any] = {}
    if column.comment is not None:
        metadata["comment"] = column.comment
    if column.default is not None:
        metadata[_DEFAULT] = column.default
    if column.generated is not None:
        metadata["delta.generationExpression"] = column.generated
    if column.identity is not None:
        if column.identity.step == 0:
            raise SqlSyntaxError(
                f"The identity column {column.name[-1]} has the step 0, so it would number nothing.",
                hint="Write INCREMENT BY 1, or another step.",
                errorClass="IDENTITY_COLUMNS_ILLEGAL_STEP",
            )
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
