"""Planning a scan: its cost does not grow call by call, equal scans are one, other versions are others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from support.named_files import named_files
from tidegate.errors import OptionError

pytestmark = pytest.mark.spark


def _filled(spark: SparkSession, table: str, files: int, partitions: int = 0) -> str:
    """A table whose log names so many files; planning asks for no more."""
    frame = spark.range(0).selectExpr("id", "'p' as p")
    writer = frame.write.format("delta")
    (writer.partitionBy("p") if partitions else writer).save(table)
    tidegate.Transaction.begin(table).commit(named_files(files, partitions))
    return table


def _calls(spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often planning a read of the whole table crosses over to Java."""
    count = 0
    sends = GatewayClient.send_command

    def counting(self: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        # What Python has let go of, perhaps long before, is no part of planning.
        count += not command.startswith(MEMORY_COMMAND_NAME)
        return sends(self, command, *args, **kwargs)

    frame = spark.read.format("delta").load(table)
    with monkeypatch.context() as patch:
        patch.setattr(GatewayClient, "send_command", counting)
        [found] = tidegate.scan_metrics(frame)
    assert found.files_read == found.files_considered > 0
    return count


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
def test_planning_crosses_over_to_java_about_as_often_for_few_files_as_for_many(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deep: bool, partitioned: bool
) -> None:
    files, partitions = (100_000, 10_000) if deep else (2_000, 1_000)
    few = _filled(spark, str(tmp_path / "few"), 10, 10 if partitioned else 0)
    many = _filled(spark, str(tmp_path / "many"), files, partitions if partitioned else 0)
    _calls(spark, few, monkeypatch)
    # Rows of partitions go over in slices, of which there may be a few more.
    assert _calls(spark, many, monkeypatch) < _calls(spark, few, monkeypatch) + 200


def test_equal_scans_share_an_exchange_and_other_versions_do_not(spark: SparkSession, table: str) -> None:
    spark.range(0, 100, 1, 2).selectExpr("id", "id % 10 as k").write.format("delta").save(table)
    spark.range(100, 110).selectExpr("id", "id % 10 as k").write.format("delta").mode("append").save(table)

    def counted(version: int) -> Any:
        frame = spark.read.format("delta").option("versionAsOf", version).load(table)
        return frame.groupBy("k").agg(F.count("id").alias(f"n{version}"))

    def executed(left: Any, right: Any) -> tuple[str, list[Any]]:
        both = left.join(F.broadcast(right), "k").orderBy("k")
        rows = both.collect()
        return both._jdf.queryExecution().executedPlan().toString(), rows

    plan, rows = executed(counted(1), counted(1).withColumnRenamed("n1", "m1"))
    assert "ReusedExchange" in plan
    assert all(r.n1 == r.m1 == 11 for r in rows)
    plan, rows = executed(counted(0), counted(1))
    assert "ReusedExchange" not in plan
    assert all((r.n0, r.n1) == (10, 11) for r in rows)


def test_what_is_cached_is_used_for_its_version_alone(spark: SparkSession, table: str) -> None:
    spark.range(3).write.format("delta").save(table)
    cached = spark.read.format("delta").load(table).cache()
    try:
        assert cached.count() == 3
        again = spark.read.format("delta").load(table)
        assert "InMemoryTableScan" in again._jdf.queryExecution().executedPlan().toString()
        spark.range(4).write.format("delta").mode("append").save(table)
        newer = spark.read.format("delta").load(table)
        assert "InMemoryTableScan" not in newer._jdf.queryExecution().executedPlan().toString()
        assert (cached.count(), newer.count()) == (3, 7)
    finally:
        cached.unpersist()


def test_a_table_made_anew_at_the_same_place_is_another_one(spark: SparkSession, table: str) -> None:
    spark.range(3).write.format("delta").save(table)
    cached = spark.read.format("delta").load(table).cache()
    try:
        assert cached.count() == 3
        Path(table).rename(f"{table}_before")
        spark.range(5).write.format("delta").save(table)
        assert spark.read.format("delta").load(table).count() == 5
    finally:
        cached.unpersist()


def test_files_are_pruned_inside_of_joins_and_subqueries(spark: SparkSession, table: str) -> None:
    for start in range(0, 40, 10):
        frame = spark.range(start, start + 10, 1, 1).selectExpr("id", "id % 3 as k")
        frame.write.format("delta").mode("append").save(table)
    tidegate.view(spark, "pruned", table)
    try:
        for query in (
            "SELECT * FROM pruned a JOIN (SELECT id FROM pruned WHERE id > 35) b USING (id) WHERE a.id > 30",
            "SELECT * FROM pruned WHERE id > 31 AND k = (SELECT max(k) FROM pruned WHERE id > 36)",
            "WITH c AS (SELECT * FROM pruned WHERE id >= 30) SELECT * FROM c UNION ALL SELECT * FROM c",
        ):
            found = spark.sql(query)
            found.collect()
            assert {m.files_read for m in tidegate.scan_metrics(found)} == {1}, query
    finally:
        spark.catalog.dropTempView("pruned")


def test_filters_that_are_no_sql_in_sparks_words_keep_all_files(spark: SparkSession, table: str) -> None:
    spark.sql("SELECT 1 AS id, CAST(null AS INT) AS n").write.format("delta").save(table)
    read = spark.read.format("delta").load(table)
    shown = "to_json(struct(id, n), map('ignoreNullFields', 'false')) = '{\"id\":1,\"n\":null}'"
    assert read.where(shown).count() == 1
    assert read.where(f"id > 1 OR {shown}").count() == 1


def test_a_write_leaves_nothing_in_the_table_but_its_files_and_its_log(
    spark: SparkSession, table: str
) -> None:
    for mode in ("error", "append", "overwrite"):
        frame = spark.range(0, 4, 1, 2).selectExpr("id", "id % 2 as p")
        frame.write.format("delta").partitionBy("p").mode(mode).save(table)
    top = {p.name for p in Path(table).iterdir()}
    assert top == {"_delta_log", "p=0", "p=1"}
    assert not list(Path(table).rglob("_spark_metadata"))
    assert not list(Path(table).rglob("_SUCCESS"))
    assert not list(Path(table).rglob("_temporary"))


def test_delta_on_the_classpath_is_said_clearly_instead_of_shadowed(
    spark: SparkSession, tmp_path: Path
) -> None:
    there = tmp_path / "classes/io/delta/sql/DeltaSparkSessionExtension.class"
    there.parent.mkdir(parents=True)
    there.write_bytes(b"")
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(tmp_path / "classes")).toURI().toURL()
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, before))
    try:
        with pytest.raises(OptionError, match="delta-spark's JARs are on this session's classpath"):
            tidegate.enable(spark)
    finally:
        thread.setContextClassLoader(before)
    tidegate.enable(spark)
