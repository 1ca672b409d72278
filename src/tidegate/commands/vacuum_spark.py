"""VACUUM in a Spark session: its confs, an inventory that is a DataFrame, listing and deleting by its tasks.

Few folders are listed and few files deleted by threads of the driver. Many are spread over the
executors, who need Tidegate installed for it; where they have not, the driver does it after all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commands import vacuum as vacuuming
from tidegate.commands.vacuum import Deleter, Mode, Progress, Vacuumed, delete_here
from tidegate.commands.vacuum_listing import FILES, Lister, as_table, list_here, ranges, within
from tidegate.log.table_log import TableLog
from tidegate.spark.confs import conf, text
from tidegate.storage.opening import open_store

_log = logging.getLogger(__name__)
# So many files are worth a job of Spark, in tasks of so many each.
MANY = 100_000
_PER_TASK = 10_000
# So many folders are, too; in at most so many tasks.
MANY_FOLDERS = 1_000
_LISTINGS = 256
T = TypeVar("T")


def vacuum(
    spark: SparkSession,
    log: TableLog,
    retention_hours: float | None = None,
    *,
    mode: Mode | None = None,
    dry_run: bool = False,
    inventory: DataFrame | None = None,
) -> Vacuumed:
    """``commands.vacuum.vacuum`` as this session is configured."""
    lite = conf(spark, "vacuum.lite.enabled", False)
    return vacuuming.vacuum(
        log,
        retention_hours,
        mode=mode or ("lite" if lite else "full"),
        dry_run=dry_run,
        inventory=None if inventory is None else _arrow(inventory),
        check_retention=conf(spark, "retentionDurationCheck.enabled", True),
        log_commits=conf(spark, "vacuum.logging.enabled", True),
        lister=_lister(spark),
        delete=_deleter(spark),
    )


def _lister(spark: SparkSession) -> Lister:
    """Lists in this process or on Spark, by how many folders there are."""

    def lister(log: TableLog, at: Sequence[str]) -> pa.Table:
        if len(at) < MANY_FOLDERS or log.url.startswith("memory:"):
            return list_here(log, at)
        done = _by_tasks(log, "lists", lambda: list_on_spark(spark, log, at))
        return list_here(log, at) if done is None else done

    return lister


def list_on_spark(spark: SparkSession, log: TableLog, at: Sequence[str]) -> pa.Table:
    """All files below the table, listed by tasks of a Spark job between the folders ``at``."""
    bounds = ranges(at, _LISTINGS)
    url = log.url

    def listing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(url)
        for batch in batches:
            for row in batch.to_pylist():
                yield from as_table(within(store, (row["start"], row["end"]))).to_batches()

    frame = spark.createDataFrame(bounds, "start string, end string").repartition(len(bounds))
    found = frame.mapInArrow(listing, "name string, size bigint, modified bigint").toArrow()
    return found.cast(FILES).sort_by("name")


def _by_tasks(log: TableLog, doing: str, run: Callable[[], T]) -> T | None:
    """What the executors answer; None if they have no Tidegate to do it with."""
    try:
        return run()
    except PySparkException as e:
        if "No module named 'tidegate'" not in str(e):
            raise
        _log.warning("%s: the executors have no Tidegate, so the driver %s", log.url, doing)
        return None


def _deleter(spark: SparkSession) -> Deleter:
    """Deletes in this process or on Spark: as the session says, by default as many as there are."""
    said = text(spark, "vacuum.parallelDelete.enabled")
    least = MANY if said is None else 0 if conf(spark, "vacuum.parallelDelete.enabled", False) else None

    def delete(log: TableLog, names: pa.Array, report: Progress) -> None:
        if least is not None and len(names) > least and not log.url.startswith("memory:"):
            done = _by_tasks(log, "deletes", lambda: delete_on_spark(spark, log, names))
            if done is not None:
                report("deleting", len(names), len(names))
                return
        delete_here(log, names, report)

    return delete


def delete_on_spark(spark: SparkSession, log: TableLog, names: pa.Array) -> int:
    """Delete names below the table by tasks of a Spark job; how many they were told to."""
    frame = spark.createDataFrame(pa.table({"name": names}))
    tasks = max(2, -(-len(names) // _PER_TASK))
    url = log.url

    def deleting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(url)
        for batch in batches:
            store.delete(batch.column(0).to_pylist())
            yield pa.record_batch({"deleted": pa.array([batch.num_rows], pa.int64())})

    counts = frame.repartition(tasks).mapInArrow(deleting, "deleted bigint").toArrow()
    return sum(counts.column("deleted").to_pylist())


def _arrow(inventory: DataFrame) -> object:
    kinds = {f.name: f.dataType.typeName() for f in inventory.schema.fields}
    if kinds.get("modificationTime") == "timestamp":
        inventory = inventory.withColumn("modificationTime", F.unix_millis("modificationTime"))
    return inventory.toArrow()
