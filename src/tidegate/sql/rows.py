"""Running the statements that change rows: INSERT, UPDATE, DELETE, MERGE, TRUNCATE."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate.commands.delete import delete as delete_rows
from tidegate.commands.update import update as update_rows
from tidegate.commands.write import write
from tidegate.errors import SchemaInvalidError
from tidegate.log.snapshot import load
from tidegate.schema.types import StructType
from tidegate.spark.confs import session_defaults
from tidegate.spark.scan.projection import spark_type
from tidegate.sql import nodes
from tidegate.sql.context import Context
from tidegate.sql.dialect import Walk, tokens_of
from tidegate.table.frames import rows

_AFFECTED = "num_affected_rows bigint"


def insert(context: Context, node: nodes.Insert) -> DataFrame:
    """By position unless BY NAME or a list of columns says otherwise; static partitions are filled in."""
    log = context.log(node.table)
    snapshot = load(log)
    frame = context.query(node.query)
    static = {k: v for k, v in node.partition.items() if v is not None}
    frame = _named(frame, node, snapshot.schema, snapshot.partition_columns)
    for name, text in static.items():
        column = snapshot.schema.field(name)
        if column is None:
            raise SchemaInvalidError(
                f"The table has no partition column {name}.",
                table=log.url,
                errorClass="NON_PARTITION_COLUMN",
            )
        frame = frame.withColumn(column.name, F.expr(text).cast(spark_type(column.type)))
    options: dict[str, str] = {}
    overwrite = node.overwrite or node.replace_where is not None
    if node.replace_where is not None:
        options["replaceWhere"] = node.replace_where
    elif node.overwrite and _is_dynamic(context):
        options["partitionOverwriteMode"] = "dynamic"
    elif node.overwrite and static:
        options["replaceWhere"] = " AND ".join(f"`{k}` <=> {v}" for k, v in static.items())
    write(
        frame,
        log.url,
        mode="overwrite" if overwrite else "append",
        options=options,
        defaults=session_defaults(context.spark),
    )
    return context.spark.createDataFrame([], "struct<>")


def _is_dynamic(context: Context) -> bool:
    found = context.spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static")
    return (found or "").lower() == "dynamic"


def _named(
    frame: DataFrame, node: nodes.Insert, schema: StructType, partitions: tuple[str, ...]
) -> DataFrame:
    """The query's columns under the names of those they go to."""
    static = {k.lower() for k, v in node.partition.items() if v is not None}
    if node.by_name:
        return frame
    if node.columns:
        names = list(node.columns)
        unknown = [n for n in names if schema.field(n) is None]
        if unknown:
            raise SchemaInvalidError(
                f"The table has no column {', '.join(unknown)}; it has {', '.join(schema.names)}.",
                errorClass="UNRESOLVED_COLUMN",
            )
    else:
        names = [n for n in schema.names if n.lower() not in static]
        if node.partition:
            # With a partition clause the partition columns come last, as in Hive.
            last = [n for n in names if n.lower() in {p.lower() for p in partitions}]
            names = [n for n in names if n not in last] + last
    if len(frame.columns) != len(names):
        raise SchemaInvalidError(
            f"The query gives {len(frame.columns)} columns, the table takes {len(names)} here "
            f"({', '.join(names)}).",
            hint="Name the columns behind the table, or insert BY NAME.",
            errorClass="DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        )
    return frame.toDF(*names)


def update(context: Context, node: nodes.Update) -> DataFrame:
    table = context.table(node.table)
    count = update_rows(
        context.spark, table._log, dict(node.set), node.where, alias=node.alias or _last(node)
    )
    return rows(context.spark, [{"num_affected_rows": count}], _AFFECTED)


def delete(context: Context, node: nodes.Delete) -> DataFrame:
    table = context.table(node.table)
    count = delete_rows(context.spark, table._log, node.where, alias=node.alias or _last(node))
    shown = -1 if count is None else count
    return rows(context.spark, [{"num_affected_rows": shown}], _AFFECTED)


def _last(node: nodes.Statement) -> str | None:
    """What stands before columns where no alias is given: the table's own name."""
    return None if node.table.path is not None else node.table.parts[-1]


def truncate(context: Context, node: nodes.Truncate) -> DataFrame:
    """All rows, or those of the partitions named."""
    where = " AND ".join(f"`{k}` <=> {v}" for k, v in node.partition.items() if v is not None) or None
    delete_rows(context.spark, context.log(node.table), where)
    return context.spark.createDataFrame([], "struct<>")


def merge(context: Context, node: nodes.Merge) -> DataFrame:
    source = context.query(f"SELECT * FROM {node.source}")
    alias = node.source_alias or _source_name(node.source)
    if alias is not None:
        source = source.alias(alias)
    table = context.table(node.table)
    target = node.alias or _last(node)
    builder = (table.alias(target) if target is not None else table).merge(source, node.on)
    if node.evolution:
        builder = builder.withSchemaEvolution()
    for clause in node.clauses:
        values = None if clause.values is None else dict(clause.values)
        match (clause.kind, clause.action):
            case ("matched", "delete"):
                builder = builder.whenMatchedDelete(clause.condition)
            case ("matched", _) if values is None:
                builder = builder.whenMatchedUpdateAll(clause.condition)
            case ("matched", _):
                builder = builder.whenMatchedUpdate(clause.condition, values)
            case ("not_matched", _) if values is None:
                builder = builder.whenNotMatchedInsertAll(clause.condition)
            case ("not_matched", _):
                builder = builder.whenNotMatchedInsert(clause.condition, values)
            case (_, "delete"):
                builder = builder.whenNotMatchedBySourceDelete(clause.condition)
            case _:
                builder = builder.whenNotMatchedBySourceUpdate(clause.condition, values)
    done: DataFrame = builder.execute()
    return done


def _source_name(text: str) -> str | None:
    """The name that a source without an alias goes by: the last part of a table's name."""
    if text.startswith("("):
        return None
    ref = Walk(text, tokens_of(text)).table()
    return None if ref.path is not None else ref.parts[-1]
