"""A walk through the product, small enough to run on every release of PySpark that is supported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from support.session import shared_session
from tidegate.errors import DataFileMissingError, InvariantViolationException, TableExistsError
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

# Old releases of PySpark leave sockets to the garbage collector, and some of their imports are deprecated.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DEFAULTS = "spark.databricks.delta.properties.defaults."


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture(params=["native", "portable"])
def way(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    portable = str(request.param == "portable").lower()
    for conf in ("spark.tidegate.write.portable", "spark.tidegate.read.portable"):
        spark.conf.set(conf, portable)
    yield request.param
    for conf in ("spark.tidegate.write.portable", "spark.tidegate.read.portable"):
        spark.conf.unset(conf)


def _rows(spark: SparkSession, path: str, **options: str) -> list[tuple[object, ...]]:
    return sorted(tuple(r) for r in spark.read.format("delta").options(**options).load(path).collect())


def test_a_table_lives(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path = str(tmp_path / "table with a space")
    frame = spark.range(6).selectExpr("id", "concat('p ', id % 2) as p", "named_struct('a', array(id)) as s")
    frame.select("id", "p").write.format("delta").partitionBy("p").save(path)
    with pytest.raises(TableExistsError):
        frame.write.format("delta").save(path)
    spark.range(9, 10).selectExpr("id", "'p 9' as p").write.format("delta").mode("append").save(path)
    frame.write.format("delta").mode("append").option("mergeSchema", True).save(path)
    assert spark.read.format("delta").load(path).where("p = 'p 1'").count() == 6
    assert spark.read.format("delta").load(path).where("s.a[0] = 5").select("id").collect()[0][0] == 5
    assert len(_rows(spark, path, versionAsOf="0")) == 6
    assert [f for f in verify(TableLog.at(path), deep=True).findings if f.severity == "error"] == []


def test_rows_are_deleted_updated_and_merged(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path = str(tmp_path / "table")
    for name in ("enableDeletionVectors", "enableChangeDataFeed"):
        spark.conf.set(DEFAULTS + name, "true")
    try:
        spark.range(0, 5, 1, 1).selectExpr("id", "'old' as v").write.format("delta").save(path)
    finally:
        for name in ("enableDeletionVectors", "enableChangeDataFeed"):
            spark.conf.unset(DEFAULTS + name)
    table = tidegate.DeltaTable.forPath(spark, path)
    table.delete("id = 0")
    table.update("id = 1", {"v": "'updated'"})
    source = spark.range(4, 6).selectExpr("id", "'merged' as v")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert _rows(spark, path) == [(1, "updated"), (2, "old"), (3, "old"), (4, "merged"), (5, "merged")]
    feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 1).load(path)
    assert sorted((r.id, r._change_type) for r in feed.collect()) == [
        (0, "delete"),
        (1, "update_postimage"),
        (1, "update_preimage"),
        (4, "update_postimage"),
        (4, "update_preimage"),
        (5, "insert"),
    ]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_mapped(spark: SparkSession, tmp_path: Path, way: str, mode: str) -> None:
    path = str(tmp_path / "table")
    spark.conf.set(DEFAULTS + "columnMapping.mode", mode)
    try:
        frame = spark.range(3).selectExpr("id", "named_struct('x y', id) as `a b`")
        frame.write.format("delta").save(path)
    finally:
        spark.conf.unset(DEFAULTS + "columnMapping.mode")
    assert [(r[0], tuple(r[1])) for r in _rows(spark, path)] == [(i, (i,)) for i in range(3)]


def test_failures_arrive_by_name(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path = str(tmp_path / "table")
    spark.conf.set(DEFAULTS + "constraints.positive", "id > 0")
    try:
        spark.range(1, 3, 1, 1).write.format("delta").save(path)
    finally:
        spark.conf.unset(DEFAULTS + "constraints.positive")
    with pytest.raises(InvariantViolationException):
        spark.range(0, 1, 1, 1).write.format("delta").mode("append").save(path)
    next(Path(path).glob("*.parquet")).unlink()
    with pytest.raises(DataFileMissingError):
        spark.read.format("delta").load(path).collect()
