"""OPTIMIZE: the same rows in fewer, fuller or better sorted files; no row changes (``dataChange=false``).

Bins of files are rewritten by Spark jobs side by side, deletion vectors purged and row ids kept on the
way, and committed together. A commit that loses a race is tried again as long as every file that was
rewritten is still live; otherwise the conflict is the answer and the new files wait for VACUUM.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from tidegate import properties
from tidegate.commands import bins as binning
from tidegate.commands import clustering, hilbert, zorder
from tidegate.commands.alter import begin
from tidegate.commands.bins import Bin, Settings
from tidegate.commands.optimize_metrics import Plan, clustering_stats, commit_metrics, run_metrics
from tidegate.commands.partition_filter import matching
from tidegate.commands.removes import as_removes
from tidegate.errors import (
    DeltaConcurrentModificationException,
    MaintenanceRefusedError,
    OptionError,
    SchemaInvalidError,
)
from tidegate.files.stats import has_bounds
from tidegate.log.columns import STRING_MAP
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.schema.paths import Path, join_path
from tidegate.spark.confs import conf, text
from tidegate.spark.scan.positions import positioned
from tidegate.spark.scan.scans import scan
from tidegate.spark.write.files import write_files
from tidegate.spark.write.layout import ROW_COMMIT_VERSION, ROW_ID
from tidegate.transaction.pending import Operation, num_records
from tidegate.transaction.transaction import Committed, Transaction

_log = logging.getLogger(__name__)
Choose = Callable[[Snapshot, pa.Table], pa.Table]
_CUBES = "optimize.clustering.mergeStrategy."


@dataclass
class Optimized:
    """What an OPTIMIZE came to: its metrics as Delta names them, and the versions it committed."""

    path: str
    metrics: dict[str, Any]
    versions: list[int] = field(default_factory=list)


def settings_of(spark: SparkSession) -> Settings:
    """The session's sizes, or Delta's."""
    size = conf(spark, "optimize.maxFileSize", binning.GIB)
    batch = text(spark, "optimize.batchSize")
    return Settings(
        min_file_size=conf(spark, "optimize.minFileSize", binning.GIB),
        max_file_size=size,
        max_deleted_ratio=conf(spark, "optimize.maxDeletedRowsRatio", 0.05),
        max_threads=conf(spark, "optimize.maxThreads", 15),
        batch_size=None if batch is None else conf(spark, "optimize.batchSize", 0) or None,
        repartition=conf(spark, "optimize.repartition.enabled", False),
        min_cube_size=conf(spark, _CUBES + "minCubeSize.threshold", 100 * binning.GIB),
        target_cube_size=conf(spark, _CUBES + "minCubeSize.targetCubeSize", 150 * binning.GIB),
    )


def optimize(
    spark: SparkSession,
    log: TableLog,
    *,
    where: str | None = None,
    zorder_by: Sequence[str] = (),
    full: bool = False,
    settings: Settings | None = None,
) -> Optimized:
    """Compact the table, Z-order it, or cluster it where it has clustering columns."""
    settings = settings or settings_of(spark)
    transaction, snapshot = begin(log)
    plan = _plan(spark, snapshot, settings, where, zorder_by, full)
    return _run(spark, transaction, snapshot, plan, settings)


def compact(
    spark: SparkSession, log: TableLog, choose: Choose, settings: Settings, *, auto: bool = False
) -> Optimized | None:
    """Compact the files that ``choose`` picks; None where there is nothing to do."""
    transaction, snapshot = begin(log)
    files = snapshot.files()
    chosen = choose(snapshot, files)
    found = binning.bins(chosen, snapshot.metadata, settings.max_file_size)
    if not found:
        return None
    parameters = {"predicate": [], "zOrderBy": [], "clusterBy": [], "auto": auto}
    plan = Plan(Operation("OPTIMIZE", parameters), found, files.num_rows)
    return _run(spark, transaction, snapshot, plan, settings)


def rewrite(
    spark: SparkSession,
    log: TableLog,
    choose: Choose,
    operation: Operation,
    *,
    where: str | None = None,
    settings: Settings | None = None,
) -> Optimized:
    """Rewrite every file that ``choose`` picks, alone if need be: what REORG and lifting features do."""
    settings = settings or settings_of(spark)
    transaction, snapshot = begin(log)
    files = matching(spark, snapshot, where)
    chosen = choose(snapshot, files)
    found = binning.bins(chosen, snapshot.metadata, settings.max_file_size, single=True)
    plan = Plan(operation, found, files.num_rows)
    return _run(spark, transaction, snapshot, plan, settings)


# ---------------------------------------------------------------------------- planning


def _plan(
    spark: SparkSession,
    snapshot: Snapshot,
    settings: Settings,
    where: str | None,
    zorder_by: Sequence[str],
    full: bool,
) -> Plan:
    columns = clustering.clustering_columns(snapshot)
    clustered = clustering.is_clustered(snapshot)
    if clustered and zorder_by:
        raise MaintenanceRefusedError(
            "The table is clustered; it cannot be Z-ordered too.",
            table=snapshot.url,
            hint="Run OPTIMIZE without ZORDER BY.",
            errorClass="DELTA_CLUSTERING_WITH_ZORDER_BY",
        )
    if clustered and where is not None:
        raise MaintenanceRefusedError(
            "The table is clustered, so it has no partitions to choose from.",
            table=snapshot.url,
            errorClass="DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
        )
    if full and not columns:
        raise MaintenanceRefusedError(
            "OPTIMIZE FULL is for clustered tables; this one has no clustering columns.",
            table=snapshot.url,
            errorClass="DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
        )
    paths = _zorder_columns(spark, snapshot, zorder_by)
    files = matching(spark, snapshot, where)
    parameters: dict[str, Any] = {
        "predicate": [] if where is None else [where],
        "zOrderBy": [join_path(c) for c in paths],
        "clusterBy": [clustering.spelt(c) for c in columns],
        "auto": False,
    }
    metadata = snapshot.metadata
    operation = Operation("OPTIMIZE", parameters)
    if paths:
        found = binning.bins(files, metadata, 1 << 62, single=True)
        return Plan(operation, found, files.num_rows, columns=tuple(paths))
    if columns:
        operation = Operation("OPTIMIZE", {**parameters, "isFull": full})
        own = clustering.own_columns(snapshot)
        chosen = clustering.to_cluster(files, own, settings.min_cube_size, full=full)
        size = max(settings.min_cube_size, settings.target_cube_size)
        found = binning.bins(chosen, metadata, size, single=True)
        stats = clustering_stats(files, chosen, own, full=full)
        return Plan(operation, found, files.num_rows, columns=tuple(columns), clustering=stats)
    chosen = binning.candidates(files, settings)
    return Plan(operation, binning.bins(chosen, metadata, settings.max_file_size), files.num_rows)


def _zorder_columns(spark: SparkSession, snapshot: Snapshot, names: Sequence[str]) -> list[Path]:
    out: list[Path] = []
    partitions = {c.lower() for c in snapshot.partition_columns}
    indexed = clustering.indexed(snapshot.metadata)
    check = conf(spark, "optimize.zorder.checkStatsCollection.enabled", True)
    for name in names:
        found = snapshot.schema.resolve(name)
        if found is None:
            raise SchemaInvalidError(
                f"There is no column {name} to Z-order by; the table has {', '.join(snapshot.schema.names)}.",
                table=snapshot.url,
                errorClass="DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
            )
        path, column = found
        if path[0].lower() in partitions:
            raise OptionError(
                f"{name} is a partition column. Z-Ordering can only be performed on data columns.",
                table=snapshot.url,
                hint="Files lie in their partitions already; leave the column out.",
                errorClass="DELTA_ZORDERING_ON_PARTITION_COLUMN",
            )
        if check and (path not in indexed or not has_bounds(column.type)):
            raise OptionError(
                f"No minimum and maximum of {name} is collected, so Z-ordering by it would help nobody.",
                table=snapshot.url,
                hint="Raise delta.dataSkippingNumIndexedCols, or leave the column out.",
                errorClass="DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS",
            )
        out.append(path)
    return out


# ---------------------------------------------------------------------------- rewriting


def _run(
    spark: SparkSession, transaction: Transaction, snapshot: Snapshot, plan: Plan, settings: Settings
) -> Optimized:
    started = snapshot.log.clock()
    out = Optimized(snapshot.url, {})
    adds: list[pa.Table] = []
    removed: list[pa.Table] = []
    for number, group in enumerate(binning.batches(plan.bins, settings.batch_size)):
        if number:
            transaction = Transaction(snapshot.log, snapshot)
        new = _rewritten(spark, transaction, snapshot, group, plan, settings)
        old = pa.concat_tables([b.files for b in group])
        committed = _commit(transaction, snapshot, new, old, plan)
        out.versions.append(committed.version)
        adds.append(new)
        removed.append(old)
    out.metrics = run_metrics(spark, snapshot, plan, adds, removed, started)
    return out


def _rewritten(
    spark: SparkSession,
    transaction: Transaction,
    snapshot: Snapshot,
    group: Sequence[Bin],
    plan: Plan,
    settings: Settings,
) -> pa.Table:
    """The new files of some bins, written side by side."""

    def one(found: Bin) -> pa.Table:
        frame = _arranged(rows_of(spark, snapshot, found.files), found, plan, settings)
        adds = write_files(transaction, frame, is_optimize=True, operation="OPTIMIZE").adds
        return _tagged(adds, plan)

    if len(group) == 1:
        return one(group[0])
    with ThreadPoolExecutor(max(1, settings.max_threads), thread_name_prefix="tidegate-optimize") as pool:
        return pa.concat_tables(list(pool.map(one, group)))


def rows_of(spark: SparkSession, snapshot: Snapshot, files: pa.Table) -> DataFrame:
    """The rows of some files; with their ids where the table tracks them."""
    if not snapshot.metadata.property(properties.ENABLE_ROW_TRACKING):
        return scan(spark, snapshot, files.drop_columns(["dataChange"]))
    frame = positioned(spark, snapshot, files)
    keep = {ROW_ID, ROW_COMMIT_VERSION}
    names = set(snapshot.schema.names)
    return frame.drop(*(c for c in frame.columns if c not in names and c not in keep))


def _arranged(frame: DataFrame, found: Bin, plan: Plan, settings: Settings) -> DataFrame:
    """The rows of a bin as its new files will hold them."""
    if plan.columns:
        files = found.size // max(1, settings.max_file_size)
        if files > 1:
            counts = num_records(found.files.column("stats").combine_chunks())
            curve = zorder.ordered if plan.clustering is None else hilbert.ordered
            return curve(frame, plan.columns, files, pc.sum(counts).as_py())
    return frame.repartition(1) if settings.repartition else frame.coalesce(1)


def _tagged(adds: pa.Table, plan: Plan) -> pa.Table:
    """New files of a clustered table with the cube they make up."""
    if plan.clustering is None:
        return adds
    n = adds.num_rows
    tags = list(clustering.cube_tags(str(uuid.uuid4()), plan.columns, hilbert.curve(plan.columns)).items())
    for name, column in (
        ("tags", pa.array([tags] * n, STRING_MAP)),
        ("clusteringProvider", pa.array([clustering.PROVIDER] * n, pa.string())),
    ):
        at = adds.schema.get_field_index(name)
        adds = adds.set_column(at, adds.schema.field(at), column)
    return adds


def _commit(
    transaction: Transaction, snapshot: Snapshot, adds: pa.Table, old: pa.Table, plan: Plan
) -> Committed:
    metrics = commit_metrics(adds, old)
    while True:
        transaction.read_files(old)
        removes = as_removes(old, snapshot.log.clock(), data_change=False)
        try:
            return transaction.commit(operation=plan.operation, adds=adds, removes=removes, metrics=metrics)
        except DeltaConcurrentModificationException as conflict:
            transaction = Transaction.begin(snapshot.log)
            now = transaction.snapshot
            if now is None or now.partition_columns != snapshot.partition_columns or not _all_live(now, old):
                raise
            tracked = properties.ENABLE_ROW_TRACKING
            if now.metadata.property(tracked) != snapshot.metadata.property(tracked):
                # What was written carries no ids, and rows have got theirs meanwhile; or lost them.
                raise
            _log.info("%s: OPTIMIZE commits again after %s", snapshot.url, type(conflict).__name__)


def _all_live(snapshot: Snapshot, files: pa.Table) -> bool:
    """Whether each of ``files`` is still in the table, with the same deletion vector."""
    return _identities(files) <= _identities(snapshot.files(columns=["path", "deletionVector"]))


def _identities(files: pa.Table) -> set[tuple[Any, ...]]:
    vectors = files.column("deletionVector").to_pylist()
    return {
        (path, *(() if v is None else (v["storageType"], v["pathOrInlineDv"], v["offset"])))
        for path, v in zip(files.column("path").to_pylist(), vectors, strict=True)
    }
