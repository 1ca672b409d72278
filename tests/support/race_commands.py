"""The commands that race and that are killed: what a user can do to a table, each as one function.

Every command takes a session and the path of a table made by ``race_tables``, and is written so that it
would come to the same, or to the same error, whenever it is run on the same table.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from support.race_tables import rows
from tidegate import DeltaTable
from tidegate.commands.clone import clone
from tidegate.commands.drop_feature import drop_feature
from tidegate.commands.write import write
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.retention import clean_up
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog

Work = Callable[[SparkSession, str], object]


@dataclass(frozen=True)
class Command:
    """``steps``: it makes several commits, so that a conflict may leave the first of them behind.

    ``by_log``: it needs no Spark, and ``log_commands`` has it too.
    """

    name: str
    work: Work
    steps: bool = False
    by_log: bool = False

    def __str__(self) -> str:
        return self.name


COMMANDS: dict[str, Command] = {}


def command(name: str, *, steps: bool = False, by_log: bool = False) -> Callable[[Work], Work]:
    """Enter a function among the commands."""

    def entered(work: Work) -> Work:
        COMMANDS[name] = Command(name, work, steps, by_log)
        return work

    return entered


def _table(spark: SparkSession, path: str) -> DeltaTable:
    return DeltaTable.forPath(spark, path)


# ---------------------------------------------------------------------------- writing


@command("append")
def _append(spark: SparkSession, path: str) -> object:
    return write(rows(spark, 100, 104, "a"), path, mode="append")


@command("append among the rows")
def _append_low(spark: SparkSession, path: str) -> object:
    frame = spark.createDataFrame([(3, 1003, "a"), (33, 1033, "b")], "id long, v long, p string")
    return write(frame.coalesce(1), path, mode="append")


@command("overwrite")
def _overwrite(spark: SparkSession, path: str) -> object:
    return write(rows(spark, 110, 114, "a"), path, mode="overwrite")


@command("replace where")
def _replace_where(spark: SparkSession, path: str) -> object:
    new = rows(spark, 120, 124, "a")
    return write(new, path, mode="overwrite", options={"replaceWhere": "p = 'a' AND id < 10 OR id >= 120"})


@command("dynamic overwrite")
def _dynamic(spark: SparkSession, path: str) -> object:
    new = rows(spark, 130, 134, "b")
    return write(new, path, mode="overwrite", options={"partitionOverwriteMode": "dynamic"})


@command("dynamic overwrite elsewhere")
def _dynamic_elsewhere(spark: SparkSession, path: str) -> object:
    new = rows(spark, 135, 139, "a")
    return write(new, path, mode="overwrite", options={"partitionOverwriteMode": "dynamic"})


@command("batch of a stream")
def _batch(spark: SparkSession, path: str) -> object:
    options = {"txnAppId": "stream", "txnVersion": "1"}
    return write(rows(spark, 140, 144, "b"), path, mode="append", options=options)


@command("append with a new column")
def _append_wider(spark: SparkSession, path: str) -> object:
    new = rows(spark, 150, 154, "b").selectExpr("*", "id * 2 AS wide")
    return write(new, path, mode="append", options={"mergeSchema": "true"})


# ---------------------------------------------------------------------------- rows


@command("delete")
def _delete(spark: SparkSession, path: str) -> object:
    return _table(spark, path).delete("id IN (3, 12)")


@command("delete elsewhere")
def _delete_high(spark: SparkSession, path: str) -> object:
    return _table(spark, path).delete("id >= 32 AND id < 40")


@command("delete a partition")
def _delete_part(spark: SparkSession, path: str) -> object:
    return _table(spark, path).delete("p = 'b'")


@command("truncate")
def _truncate(spark: SparkSession, path: str) -> object:
    return _table(spark, path).delete()


@command("update")
def _update(spark: SparkSession, path: str) -> object:
    return _table(spark, path).update("id BETWEEN 8 AND 11", {"v": "v + 1000"})


@command("update all")
def _update_all(spark: SparkSession, path: str) -> object:
    return _table(spark, path).update(None, {"v": "v * 2"})


@command("update by value")
def _update_value(spark: SparkSession, path: str) -> object:
    return _table(spark, path).update("v >= 1000", {"v": "-v"})


def _source(spark: SparkSession, *values: tuple[int, int, str]) -> object:
    return spark.createDataFrame(list(values), "id long, v long, p string").coalesce(1).alias("s")


@command("merge inserts")
def _merge_inserts(spark: SparkSession, path: str) -> object:
    source = _source(spark, (2, 0, "a"), (100, 5, "a"), (160, 7, "b"))
    merge = _table(spark, path).alias("t").merge(source, "t.id = s.id")
    return merge.whenNotMatchedInsertAll().execute()


@command("merge upserts")
def _merge_upserts(spark: SparkSession, path: str) -> object:
    source = _source(spark, (4, 44, "a"), (22, 2222, "b"), (161, 7, "b"))
    merge = _table(spark, path).alias("t").merge(source, "t.id = s.id")
    return merge.whenMatchedUpdate(set={"v": "s.v + t.v"}).whenNotMatchedInsertAll().execute()


@command("merge below")
def _merge_below(spark: SparkSession, path: str) -> object:
    source = _source(spark, (4, 44, "a"), (5, 55, "a"), (6, 66, "a"))
    merge = _table(spark, path).alias("t").merge(source, "t.id = s.id")
    return merge.whenMatchedUpdate(set={"v": "s.v + t.v"}).whenNotMatchedInsertAll().execute()


@command("merge deletes")
def _merge_deletes(spark: SparkSession, path: str) -> object:
    source = _source(spark, (4, 0, "a"), (33, 0, "b"))
    merge = _table(spark, path).alias("t").merge(source, "t.id = s.id")
    return merge.whenMatchedDelete().execute()


@command("merge by source")
def _merge_by_source(spark: SparkSession, path: str) -> object:
    source = _source(spark, (1, 0, "a"), (21, 0, "b"))
    merge = _table(spark, path).alias("t").merge(source, "t.id = s.id")
    return merge.whenMatchedUpdate(set={"v": "-1"}).whenNotMatchedBySourceDelete("t.id % 10 = 7").execute()


# ---------------------------------------------------------------------------- services


@command("optimize")
def _optimize(spark: SparkSession, path: str) -> object:
    return _table(spark, path).optimize().executeCompaction()


@command("zorder")
def _zorder(spark: SparkSession, path: str) -> object:
    return _table(spark, path).optimize().executeZOrderBy("id")


@command("purge")
def _purge(spark: SparkSession, path: str) -> object:
    return spark.sql(f"REORG TABLE delta.`{path}` APPLY (PURGE)")


@command("vacuum", steps=True, by_log=True)
def _vacuum(spark: SparkSession, path: str) -> object:
    return _table(spark, path).vacuum()


@command("restore", by_log=True)
def _restore(spark: SparkSession, path: str) -> object:
    return _table(spark, path).restoreToVersion(2)


@command("checkpoint", by_log=True)
def _checkpoint(spark: SparkSession, path: str) -> object:
    snapshot = load(TableLog.at(path))
    write_checkpoint(snapshot)
    return clean_up(snapshot, before=snapshot.log.clock() - 86_400_000)


@command("clone away")
def _clone(spark: SparkSession, path: str) -> object:
    target = Path(f"{path}-clone-{os.urandom(4).hex()}")
    return clone(TableLog.at(path), TableLog.at(target))


# ---------------------------------------------------------------------------- alterations


@command("set a property", by_log=True)
def _set(spark: SparkSession, path: str) -> object:
    return _table(spark, path).setProperties({"delta.dataSkippingNumIndexedCols": "5"})


@command("track rows", steps=True, by_log=True)
def _track(spark: SparkSession, path: str) -> object:
    return _table(spark, path).setProperties({"delta.enableRowTracking": "true"})


@command("enable vectors", by_log=True)
def _vectors(spark: SparkSession, path: str) -> object:
    return _table(spark, path).setProperties({"delta.enableDeletionVectors": "true"})


@command("enable the feed", by_log=True)
def _feed(spark: SparkSession, path: str) -> object:
    return _table(spark, path).setProperties({"delta.enableChangeDataFeed": "true"})


@command("map columns", by_log=True)
def _map(spark: SparkSession, path: str) -> object:
    return _table(spark, path).setProperties({"delta.columnMapping.mode": "name"})


@command("add a column", by_log=True)
def _add_column(spark: SparkSession, path: str) -> object:
    return _table(spark, path).addColumns("extra string")


@command("rename a column", by_log=True)
def _rename(spark: SparkSession, path: str) -> object:
    return _table(spark, path).renameColumn("v", "w")


@command("drop a column", by_log=True)
def _drop_column(spark: SparkSession, path: str) -> object:
    return _table(spark, path).dropColumns("v")


@command("add a constraint")
def _constrain(spark: SparkSession, path: str) -> object:
    return _table(spark, path).addConstraint("small", "v < 1000")


@command("cluster by", by_log=True)
def _cluster(spark: SparkSession, path: str) -> object:
    return _table(spark, path).clusterBy("v")


@command("upgrade", by_log=True)
def _upgrade(spark: SparkSession, path: str) -> object:
    return _table(spark, path).addFeatureSupport("vacuumProtocolCheck")


@command("drop the vectors' feature", steps=True)
def _drop_vectors(spark: SparkSession, path: str) -> object:
    return _table(spark, path).dropFeatureSupport("deletionVectors")


@command("drop the feed's feature", steps=True)
def _drop_feed(spark: SparkSession, path: str) -> object:
    return drop_feature(TableLog.at(path), "changeDataFeed")


@command("drop row tracking", steps=True, by_log=True)
def _drop_tracking(spark: SparkSession, path: str) -> object:
    return drop_feature(TableLog.at(path), "rowTracking")
