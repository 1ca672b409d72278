"""Running the statements of index tables: each to the method of ``IndexTable`` that does it."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from tidegate.commands import catalog
from tidegate.errors import NotATableError
from tidegate.sql import nodes
from tidegate.sql.context import Context
from tidegate.sql.index_tables import location
from tidegate.table.frames import rows
from tidegate.table.index import IndexTable


def table(context: Context, ref: nodes.TableRef) -> IndexTable:
    """The index table that a statement speaks of; a typed error if there is none."""
    where = location(context, ref)
    if where is None:
        if catalog.entry_of(context.spark, ref.name) is None:
            raise catalog.not_found(ref.name)
        raise NotATableError(f"{ref} is not an index table.")
    return IndexTable.forPath(context.spark, where)


def run(context: Context, node: nodes.Index) -> DataFrame:
    if node.action == "build companion":
        return _build(context, node)
    found = table(context, node.table)
    return _RUNNERS[node.action](context, node, found)


def _merge(context: Context, node: nodes.Index, found: IndexTable) -> DataFrame:
    done = found.mergeSplits(
        node.size or "5G", node.where, maxDestSplits=node.max_dest, maxSourceSplits=node.max_source
    )
    told = {
        "table_path": found.path,
        "status": "success" if done["splitsMerged"] else "no_action",
        "version": done["version"],
        "splits_merged": done["splitsMerged"],
        "splits_created": done["splitsCreated"],
    }
    schema = "table_path string, status string, version bigint, splits_merged bigint, splits_created bigint"
    return rows(context.spark, [told], schema)


def _purge(context: Context, node: nodes.Index, found: IndexTable) -> DataFrame:
    done = found.purge(node.hours, node.dry_run, node.log_hours)
    told = {
        "table_path": found.path,
        "status": "dry_run" if node.dry_run else "success",
        "files_deleted": len(done.paths),
        "size_in_bytes": done.size_in_bytes,
        "log_files_deleted": len(done.log_files),
    }
    schema = (
        "table_path string, status string, files_deleted int, size_in_bytes bigint, log_files_deleted int"
    )
    return rows(context.spark, [told], schema)


def _drop_partitions(context: Context, node: nodes.Index, found: IndexTable) -> DataFrame:
    before = found._log.snapshot()
    found.dropPartitions(node.where or "")
    after = found._log.snapshot()
    gone = before.num_files - after.num_files
    told = {
        "table_path": found.path,
        "status": "success" if gone else "no_action",
        "splits_removed": gone,
        "total_size_bytes": before.size_in_bytes - after.size_in_bytes,
        "message": f"{gone} splits removed" if gone else "no partition meets the condition",
    }
    schema = (
        "table_path string, status string, splits_removed bigint, total_size_bytes bigint, message string"
    )
    return rows(context.spark, [told], schema)


def _checkpoint(context: Context, node: nodes.Index, found: IndexTable) -> DataFrame:
    done = found.checkpoint()
    told = {
        "table_path": found.path,
        "status": "success",
        "checkpoint_version": done.version,
        "num_actions": done.num_actions,
        "num_files": done.num_files,
        "protocol_version": done.protocol_version,
        "is_multi_part": done.is_multi_part,
    }
    schema = (
        "table_path string, status string, checkpoint_version bigint, num_actions bigint, num_files bigint, "
        "protocol_version bigint, is_multi_part boolean"
    )
    return rows(context.spark, [told], schema)


def _truncate(context: Context, node: nodes.Index, found: IndexTable) -> DataFrame:
    done = found.truncateHistory(dryRun=node.dry_run)
    told = {
        "table_path": found.path,
        "status": "dry_run" if node.dry_run else "success",
        "checkpoint_version": done.version,
        "versions_deleted": done.versions_deleted,
        "checkpoints_deleted": done.checkpoints_deleted,
        "files_preserved": done.files_preserved,
    }
    schema = (
        "table_path string, status string, checkpoint_version bigint, versions_deleted bigint, "
        "checkpoints_deleted bigint, files_preserved bigint"
    )
    return rows(context.spark, [told], schema)


def _describe_log(context: Context, node: nodes.Index, found: IndexTable) -> DataFrame:
    actions = found._log.describe(include_all=node.include_all)
    return context.spark.createDataFrame(actions)


def _describe_state(context: Context, node: nodes.Index, found: IndexTable) -> DataFrame:
    snapshot = found._log.snapshot()
    told = {
        "table_path": found.path,
        "version": snapshot.version,
        "num_files": snapshot.num_files,
        "size_in_bytes": snapshot.size_in_bytes,
        "num_records": snapshot.num_records,
    }
    schema = "table_path string, version bigint, num_files bigint, size_in_bytes bigint, num_records bigint"
    return rows(context.spark, [told], schema)


def _repair(context: Context, node: nodes.Index, found: IndexTable) -> DataFrame:
    done = found.repair(node.to or "")
    told = {
        "source_path": found.path,
        "target_path": node.to,
        "source_version": done.source_version,
        "total_splits": done.total_splits,
        "valid_splits": done.valid_splits,
        "missing_splits": len(done.missing),
        "status": "success",
    }
    schema = (
        "source_path string, target_path string, source_version bigint, total_splits bigint, "
        "valid_splits bigint, missing_splits bigint, status string"
    )
    return rows(context.spark, [told], schema)


def _build(context: Context, node: nodes.Index) -> DataFrame:
    """BUILD COMPANION: the source is a Delta table by path or name."""
    source = context.table(node.table)
    options = {f"spark.indextables.indexing.typemap.{k}": v for k, v in node.modes.items()}
    made = IndexTable.buildFor(source, node.to, node.columns or None, options, context.spark)
    told = {
        "table_path": made.path,
        "source_path": source._log.url,
        "status": "success",
        "splits_created": made._log.snapshot().num_files,
    }
    return rows(
        context.spark, [told], "table_path string, source_path string, status string, splits_created bigint"
    )


_RUNNERS: dict[str, Callable[[Context, nodes.Index, IndexTable], DataFrame]] = {
    "merge splits": _merge,
    "purge": _purge,
    "drop partitions": _drop_partitions,
    "checkpoint": _checkpoint,
    "truncate": _truncate,
    "describe log": _describe_log,
    "describe state": _describe_state,
    "repair": _repair,
}
