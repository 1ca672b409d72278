"""Running what looks after tables: VACUUM, OPTIMIZE, REORG, RESTORE, CONVERT, GENERATE, REFRESH."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tidegate.commands import catalog
from tidegate.commands.convert_named import convert as run_convert
from tidegate.commands.reorg import purge
from tidegate.commands.vacuum_spark import vacuum as run_vacuum
from tidegate.errors import NotATableError, OptionError
from tidegate.sql import nodes
from tidegate.sql.context import Context
from tidegate.sql.queries import query
from tidegate.sql.tables import nothing
from tidegate.table.delta import DeltaTable
from tidegate.table.frames import OPTIMIZE, rows


def vacuum(context: Context, node: nodes.Vacuum) -> DataFrame:
    """The table's path; of a dry run the files and empty folders that would go."""
    log = served(context, node.table, "VACUUM")._log
    inventory = None if node.inventory is None else query(context, f"SELECT * FROM {node.inventory}")
    done = run_vacuum(
        context.spark,
        log,
        node.retain_hours,
        dry_run=node.dry_run,
        mode="lite" if node.mode == "lite" else "full" if node.mode == "full" else None,
        inventory=inventory,
    )
    going = [*done.names.to_pylist(), *done.folders]
    paths = [f"{log.url}/{n}" for n in going] if node.dry_run else [log.url]
    return rows(context.spark, [{"path": p} for p in paths], "path string")


def optimize(context: Context, node: nodes.Optimize) -> DataFrame:
    builder = served(context, node.table, "OPTIMIZE").optimize()
    if node.where is not None:
        builder = builder.where(node.where)
    if node.zorder:
        if node.full:
            raise OptionError("OPTIMIZE FULL reclusters a clustered table; ZORDER BY does not go with it.")
        return builder.executeZOrderBy(*node.zorder)
    return builder.executeFull() if node.full else builder.executeCompaction()


def reorg(context: Context, node: nodes.Reorg) -> DataFrame:
    if node.action != "PURGE":
        raise OptionError(
            f"REORG TABLE ... APPLY ({node.action}) is not served.", hint="APPLY (PURGE) rewrites files."
        )
    table = served(context, node.table, "REORG", other_format="DELTA_NOT_A_DELTA_TABLE")
    done = purge(context.spark, table._log, where=node.where)
    return rows(context.spark, [{"path": done.path, "metrics": done.metrics}], OPTIMIZE)


def restore(context: Context, node: nodes.Restore) -> DataFrame:
    if _is_view(context, node.table):
        raise NotATableError(
            f"{node.table} is a view; RESTORE is only supported for Delta tables.",
            errorClass="DELTA_ONLY_OPERATION",
        )
    table = context.table(node.table)
    if node.table.version is not None:
        return table.restoreToVersion(context.version(node.table.version))
    assert node.table.timestamp is not None
    return table.restoreToTimestamp(context.moment(node.table.timestamp, "DELTA_TIMESTAMP_INVALID"))


def served(
    context: Context, ref: nodes.TableRef, what: str, *, other_format: str = "DELTA_ONLY_OPERATION"
) -> DeltaTable:
    """The table that ``what`` is for; what is none has the error class that delta-spark gives it there."""
    refuse_view(context, ref, what)
    try:
        return context.table(ref)
    except NotATableError as e:
        if ref.path is not None and not ref.literal:
            raise
        known = other_format if ref.path is None else "DELTA_TABLE_ONLY_OPERATION"
        raise NotATableError(e.message, table=e.table, hint=e.hint, errorClass=known) from None


def refuse_view(context: Context, ref: nodes.TableRef, what: str) -> None:
    """A view has no files and no log: ``what`` needs a table."""
    if _is_view(context, ref):
        raise NotATableError(
            f"{what} needs a table; {ref.name} is a view.",
            errorClass="EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE",
        )


def _is_view(context: Context, ref: nodes.TableRef) -> bool:
    if ref.path is not None:
        return False
    entry = catalog.entry_of(context.spark, ref.name)
    return catalog.is_temporary_view(context.spark, ref.name) if entry is None else entry.is_view


def convert(context: Context, node: nodes.Convert) -> DataFrame:
    run_convert(context.spark, node.table.name, node.partition_schema, statistics=node.statistics)
    return nothing(context)


def generate(context: Context, node: nodes.Generate) -> DataFrame:
    served(context, node.table, "GENERATE").generate(node.mode)
    return nothing(context)


def refresh(context: Context, node: nodes.Refresh) -> DataFrame:
    if node.table.path is None:
        refresh_name(context.spark, node.table.name)
    return nothing(context)


def refresh_name(spark: SparkSession, name: str) -> None:
    """What is cached of a table is read anew; for the rest the log is asked by each query anyway."""
    if spark.catalog.isCached(name):
        spark.catalog.uncacheTable(name)
        spark.catalog.cacheTable(name)
