"""A walk through the product, small enough to run on every release of PySpark that is supported.

Whatever stands on classes that Spark does not promise to keep is touched here: the file index, the native
write, names in the session catalog, streams, rebalancing, what errors become on their way through the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from support.session import shared_session
from tidegate.errors import (
    DataFileMissingError,
    DVFileMissingError,
    InvariantViolationException,
    TableExistsError,
)
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.spark.scan import vectors
from tidegate.spark.write import measured

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
    # By text, by a column of the table's frame, and by one of the source's.
    table.delete(table.toDF()["id"] == 0)
    table.update("id = 1", {"v": "'updated'"})
    source = spark.range(4, 6).selectExpr("id", "'merged' as v")
    merge = table.alias("t").merge(source, F.col("t.id") == source["id"])
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


def test_files_are_pruned_and_their_statistics_computed(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    for start in (0, 10):
        frame = spark.range(start, start + 2, 1, 1).selectExpr(
            "id", "if(id % 2 = 0, double('NaN'), double(id)) as x", "array(id, null) as l"
        )
        frame.write.format("delta").mode("append").save(path)
    found = spark.read.format("delta").load(path).where("x < 5")
    assert [r.id for r in found.collect()] == [1]
    assert [m.files_read for m in tidegate.scan_metrics(found)] == [1]
    assert "delta-v1:" in found._jdf.queryExecution().toString()


def test_statistics_and_vectors_of_many_files_are_read_by_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "MANY_FILES", 0)
    monkeypatch.setattr(vectors, "MANY_VECTORS", 1)
    path = str(tmp_path / "table")
    spark.conf.set(DEFAULTS + "enableDeletionVectors", "true")
    try:
        spark.range(0, 20, 1, 4).write.format("delta").save(path)
    finally:
        spark.conf.unset(DEFAULTS + "enableDeletionVectors")
    tidegate.DeltaTable.forPath(spark, path).delete("id % 5 = 0")
    assert _rows(spark, path) == [(i,) for i in range(20) if i % 5]


def test_names_are_planned_wherever_they_stand(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS smoke")
    spark.range(3).write.format("delta").option("path", str(tmp_path / "t")).saveAsTable("smoke.t")
    try:
        spark.range(3, 5).write.insertInto("smoke.t")
        spark.sql("INSERT INTO smoke.t VALUES (5)")
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW upper AS SELECT * FROM smoke.t WHERE id > 1")
        spark.range(6, 7).writeTo("smoke.t").append()
        assert spark.table("smoke.t").count() == 7
        assert spark.sql("SELECT count(*), max(id) FROM upper").head() == (5, 6)
        assert spark.sql("SELECT a.id FROM smoke.t a JOIN smoke.t b ON a.id = b.id").count() == 7
        tidegate.view(spark, "followed", str(tmp_path / "t"))
        assert spark.sql("SELECT count(*) FROM followed").head() == (7,)
    finally:
        for view in ("upper", "followed"):
            spark.catalog.dropTempView(view)
        spark.sql("DROP TABLE smoke.t")
        spark.sql("DROP DATABASE smoke")


def test_statements(spark: SparkSession, tmp_path: Path) -> None:
    at = f"delta.`{tmp_path / 'table'}`"
    spark.sql(f"CREATE TABLE {at} (id LONG GENERATED BY DEFAULT AS IDENTITY, v STRING, p INT) USING delta")
    for v in ("a", "b", "c"):
        spark.sql(f"INSERT INTO {at} (v, p) VALUES ('{v}', 1)")
    spark.sql(f"UPDATE {at} SET v = 'A' WHERE v = 'a'")
    spark.sql(f"DELETE FROM {at} WHERE v = 'b'")
    spark.sql(
        f"MERGE INTO {at} t USING (SELECT 'c' AS v UNION ALL SELECT 'd') s ON t.v = s.v "
        "WHEN MATCHED THEN UPDATE SET p = 2 WHEN NOT MATCHED THEN INSERT (v, p) VALUES (s.v, 3)"
    )
    spark.sql(f"OPTIMIZE {at} ZORDER BY (v)").collect()
    assert spark.sql(f"SELECT v, p FROM {at} ORDER BY v").collect() == [("A", 1), ("c", 2), ("d", 3)]
    assert spark.sql(f"SELECT count(*) FROM {at} VERSION AS OF 3").head() == (3,)
    done = [r.operation for r in spark.sql(f"DESCRIBE HISTORY {at}").collect()]
    assert done[:4] == ["OPTIMIZE", "MERGE", "DELETE", "UPDATE"]


def test_an_optimized_write_is_rebalanced(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    frame = spark.range(0, 40, 1, 8).selectExpr("id", "id % 2 as p")
    frame.write.format("delta").partitionBy("p").option("optimizeWrite", True).save(path)
    assert tidegate.open(path).files().num_rows == 2


def test_streams_go_in_and_out(spark: SparkSession, tmp_path: Path) -> None:
    source, sink = str(tmp_path / "source"), str(tmp_path / "sink")

    def run() -> None:
        reader = spark.readStream.format("delta").load(source)
        writer = reader.writeStream.format("delta").option("checkpointLocation", f"{sink}-checkpoint")
        query = writer.trigger(availableNow=True).start(sink)
        assert query.awaitTermination(120)
        assert query.exception() is None

    spark.range(3).write.format("delta").save(source)
    run()
    spark.range(3, 5).write.format("delta").mode("append").save(source)
    run()
    assert _rows(spark, sink) == [(i,) for i in range(5)]
    assert tidegate.open(sink).version == 1


def test_a_batch_merges_inside_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    spark.range(3).selectExpr("id", "'new' as v").write.format("delta").save(source)
    spark.range(1).selectExpr("id", "'old' as v").write.format("delta").save(target)

    def merge(frame: DataFrame, _: int) -> None:
        there = tidegate.DeltaTable.forPath(frame.sparkSession, target)
        merging = there.alias("t").merge(frame.alias("s"), "t.id = s.id")
        merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    reader = spark.readStream.format("delta").load(source)
    writer = reader.writeStream.option("checkpointLocation", f"{target}-checkpoint")
    query = writer.foreachBatch(merge).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert _rows(spark, target) == [(0, "new"), (1, "new"), (2, "new")]


def test_errors_of_planning_keep_their_kind(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    spark.conf.set(DEFAULTS + "enableDeletionVectors", "true")
    try:
        spark.range(0, 5, 1, 1).write.format("delta").save(path)
    finally:
        spark.conf.unset(DEFAULTS + "enableDeletionVectors")
    tidegate.DeltaTable.forPath(spark, path).delete("id = 3")
    next(Path(path).glob("deletion_vector_*.bin")).unlink()
    with pytest.raises(DVFileMissingError):
        spark.read.format("delta").load(path).collect()
