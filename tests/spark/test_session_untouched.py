"""A user's session stays as it was: no door changes a conf of it, and nothing is left in its context."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate

pytestmark = pytest.mark.spark

Door = Callable[[SparkSession, str], Any]
_SEEN = ("spark.job.description", "spark.sql.execution.id", "spark.jobGroup.id")


def _state(spark: SparkSession) -> dict[str, object]:
    context: Any = spark.sparkContext
    return {
        "confs": dict(spark.conf.getAll),
        "properties": {name: context.getLocalProperty(name) for name in _SEEN},
        "hadoop": context._jsc.hadoopConfiguration().size(),
        "database": spark.catalog.currentDatabase(),
        "temporary": [t.name for t in spark.catalog.listTables() if t.isTemporary],
    }


def _write(spark: SparkSession, table: str) -> None:
    spark.range(0, 6, 1, 2).selectExpr("id", "id % 2 as p").write.format("delta").partitionBy("p").save(table)


def _read(spark: SparkSession, table: str) -> None:
    _write(spark, table)
    spark.read.format("delta").load(table).where("id > 2").collect()
    spark.read.format("delta").option("versionAsOf", 0).load(table).toArrow()


def _change(spark: SparkSession, table: str) -> None:
    _write(spark, table)
    there = tidegate.DeltaTable.forPath(spark, table)
    there.delete("id = 1")
    there.update("id = 2", {"id": "20"})
    source = spark.range(3)
    there.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedDelete().execute()
    there.optimize().executeCompaction()
    there.vacuum()


def _sql(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{table}` (id LONG, v STRING) USING delta")
    spark.sql(f"INSERT INTO delta.`{table}` VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"UPDATE delta.`{table}` SET v = 'c' WHERE id = 1")
    spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 2")
    spark.sql(f"SELECT * FROM delta.`{table}` VERSION AS OF 1").collect()
    spark.sql(f"OPTIMIZE delta.`{table}`").collect()
    spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()


def _by_name(spark: SparkSession, table: str) -> None:
    spark.range(3).write.format("delta").option("path", table).saveAsTable("untouched")
    try:
        spark.table("untouched").collect()
        spark.sql("SELECT * FROM untouched").collect()
        spark.range(3).write.insertInto("untouched")
        spark.range(1).writeTo("untouched").append()
    finally:
        spark.sql("DROP TABLE untouched")


def _streams(spark: SparkSession, table: str) -> None:
    _write(spark, table)
    source = spark.readStream.format("delta").load(table)
    query = (
        source.writeStream.format("delta")
        .option("checkpointLocation", f"{table}_checkpoint")
        .trigger(availableNow=True)
        .start(f"{table}_copy")
    )
    query.awaitTermination(60)


def _changes(spark: SparkSession, table: str) -> None:
    key = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    spark.conf.set(key, "true")
    try:
        _write(spark, table)
    finally:
        spark.conf.unset(key)
    spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 0).load(table).count()


def _portable(spark: SparkSession, table: str) -> None:
    frame = spark.range(3).write.format("delta").option("tidegate.write.portable", "true")
    frame.save(table)


def _index_tables(spark: SparkSession, table: str) -> None:
    pytest.importorskip("tantivy")
    spark.range(0, 6, 1, 1).selectExpr("id", "concat('word', id) as w").write.format("indextables").save(
        table
    )
    spark.read.format("indextables").load(table).where("w = 'word3'").collect()


def _failing(spark: SparkSession, table: str) -> None:
    _write(spark, table)
    next(Path(table).rglob("*.parquet")).unlink()
    with pytest.raises(tidegate.errors.DataFileMissingError):
        spark.read.format("delta").load(table).collect()


@pytest.mark.parametrize(
    "door",
    [_read, _change, _sql, _by_name, _streams, _changes, _portable, _index_tables, _failing],
    ids=lambda d: d.__name__.strip("_"),
)
def test_a_door_leaves_the_session_as_it_was(spark: SparkSession, table: str, door: Door) -> None:
    before = _state(spark)
    door(spark, table)
    assert _state(spark) == before


def test_filters_reach_the_index_without_the_session_saying_so(spark: SparkSession, table: str) -> None:
    pytest.importorskip("tantivy")
    frame = spark.range(0, 100, 1, 1).selectExpr("id", "concat('word', id) as w")
    frame.write.format("indextables").save(table)
    read = spark.read.format("indextables").load(table)
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "false"
    found = read.where("w = 'word3'")
    plan = found._jdf.queryExecution().executedPlan()
    assert [row.getLong(0) for row in plan.executeCollect()] == [3]
    # Of a hundred rows one came out of the scan, before Spark filtered.
    assert plan.collectLeaves().apply(0).metrics().get("numOutputRows").get().value() == 1
    # Also where the frame is only a part of a query, and behind a name of the user's own.
    assert spark.range(5).join(found, "id").count() == 1
    read.createOrReplaceTempView("searched")
    try:
        assert spark.sql("SELECT id FROM searched WHERE w = 'word7'").collect() == [(7,)]
    finally:
        spark.catalog.dropTempView("searched")
