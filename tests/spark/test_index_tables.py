"""Index tables on Spark: writing, searching in the driver and on executors, reading with filters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import IndexTable
from tidegate.errors import (
    OptionError,
    QueryError,
    SchemaInvalidError,
    TableExistsError,
    ValueNotIndexableError,
)
from tidegate.index.cache import shared_cache

pytestmark = pytest.mark.spark
TEXT = {"spark.indextables.indexing.typemap.message": "text"}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path_factory.mktemp("splits")))
        yield


def messages(spark: SparkSession, count: int = 120) -> DataFrame:
    level = F.when(F.col("id") % 5 == 0, "ERROR").when(F.col("id") % 7 == 0, None).otherwise("INFO")
    return spark.range(count).select(
        "id",
        (F.col("id") % 3).cast("int").alias("day"),
        F.concat(F.lit("Connection reset, number "), F.col("id")).alias("message"),
        level.alias("level"),
        F.timestamp_micros(F.col("id") * 1_000_001 + 1_700_000_000_000_000).alias("ts"),
    )


@pytest.fixture(scope="module")
def logs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> IndexTable:
    path = str(tmp_path_factory.mktemp("tables") / "logs")
    writer = messages(spark).write.format("indextables").partitionBy("day")
    writer.options(**TEXT).save(path)
    return IndexTable.forPath(spark, path)


def test_rows_come_back_as_they_were_written(spark: SparkSession, logs: IndexTable) -> None:
    expected = messages(spark).toArrow().sort_by("id")
    found = logs.search().toArrow().sort_by("id")
    assert found.to_pylist() == expected.to_pylist()
    assert logs.count() == 120
    assert sorted(r.id for r in logs.toDF().collect()) == list(range(120))


def test_a_result_is_a_dataframe_that_counts_without_spark(spark: SparkSession, logs: IndexTable) -> None:
    found = logs.search('"number 77"', ["id", "level"])
    assert isinstance(found, DataFrame)
    assert found.count() == 1
    assert found.toArrow().to_pylist() == [{"id": 77, "level": None}]
    assert [tuple(r) for r in messages(spark).join(found.select("id"), "id").select("id").collect()] == [
        (77,)
    ]
    assert [r.id for r in found.where("level is null").collect()] == [77]


def test_driver_and_executors_give_the_same_result(spark: SparkSession, logs: IndexTable) -> None:
    far = IndexTable.forPath(spark, logs.path, options={"search.driverSplits": "0"})
    asked = [
        {"query": "level:ERROR AND day:1", "columns": ["id", "day"]},
        {"query": "number", "columns": ["id"], "limit": 7},
        {"query": "number OR id:5", "columns": ["id"], "limit": 5, "scores": True, "highlight": ["message"]},
    ]
    near = [(logs.search(**a).toArrow(), logs.count(str(a["query"]))) for a in asked]
    groups = logs.aggregate(None, "level", ["count", "sum(id)", "max(ts)"]).toArrow()
    for a, (table, count) in zip(asked, near, strict=True):
        shared_cache().clear()
        assert far.count(str(a["query"])) == count
        shared_cache().clear()
        assert far.search(**a).toArrow().equals(table)
    shared_cache().clear()
    assert far.aggregate(None, "level", ["count", "sum(id)", "max(ts)"]).toArrow().equals(groups)
    shared_cache().clear()
    assert far.search("level:ERROR", ["id"]).orderBy("id").limit(2).collect() == [(0,), (5,)]


@pytest.mark.parametrize(
    "where",
    [
        "level = 'ERROR' AND id > 100",
        "level IS NULL AND day = 2",
        "NOT level = 'INFO' AND id < 30",
        "message = 'Connection reset, number 5'",
        "message LIKE '%ber 11%' AND level LIKE 'E%'",
        "ts >= timestamp'2023-11-14 22:14:00.5' AND id IN (40, 60, 70, 500)",
    ],
)
def test_filters_are_exact_whatever_the_index_answers(
    spark: SparkSession, logs: IndexTable, where: str
) -> None:
    frame = spark.read.format("indextables").load(logs.path)
    expected = [tuple(r) for r in messages(spark).where(where).orderBy("id").collect()]
    assert expected
    assert [tuple(r) for r in frame.where(where).orderBy("id").collect()] == expected


def test_a_read_takes_a_query_and_stays_at_its_version(spark: SparkSession, table: str) -> None:
    messages(spark, 10).write.format("indextables").options(**TEXT).save(table)
    before = spark.read.format("indextables").option("query", "level:ERROR").load(table)
    messages(spark, 40).write.format("indextables").mode("overwrite").save(table)
    assert before.count() == 2
    index = IndexTable.forPath(spark, table)
    assert (index.count("level:ERROR"), index.asOf(version=0).count("level:ERROR")) == (8, 2)
    assert spark.read.format("indextables").option("versionAsOf", 0).load(table).count() == 10
    with pytest.raises(QueryError, match="no field"):
        spark.read.format("indextables").option("query", "nobody:1").load(table)


def test_later_writes_go_by_the_tables_own_fields(spark: SparkSession, table: str) -> None:
    index = IndexTable.create(spark, table, messages(spark, 10), ["day"], TEXT)
    frame = messages(spark, 5).withColumn("id", F.col("id") + 100)
    frame.select("message", "ID", "day", "level").write.format("indextables").mode("append").save(table)
    assert (index.count(), index.count("number"), index.count("ts:*")) == (15, 15, 10)
    with pytest.raises(TableExistsError):
        frame.write.format("indextables").save(table)
    with pytest.raises(OptionError, match="level otherwise"):
        frame.write.format("indextables").mode("append").option(
            "indexing.typemap.text", "message,level"
        ).save(table)
    with pytest.raises(SchemaInvalidError, match="partitioned by"):
        frame.write.format("indextables").mode("append").partitionBy("level").save(table)
    with pytest.raises(OptionError, match=r"indexing\.typo"):
        frame.write.format("indextables").mode("append").option("indexing.typo", "x").save(table)
    assert index.version == 1


def test_a_failing_task_names_the_value_and_changes_nothing(spark: SparkSession, table: str) -> None:
    good = spark.createDataFrame([("10.0.0.1",)], "a string")
    index = IndexTable.create(spark, table, good, options={"indexing.typemap.a": "ip"})
    with pytest.raises(ValueNotIndexableError, match="'here', which is no IP address"):
        spark.createDataFrame([("here",)], "a string").write.format("indextables").mode("append").save(table)
    assert (index.version, index.count("a:10.0.0.0/8")) == (0, 1)


def test_the_kinds_of_search_name_each_other(logs: IndexTable) -> None:
    assert logs.textsearch("message", "reset AND 77").count() == 1
    assert logs.fieldmatch("level", "ERROR OR WARN").count() == 24
    assert logs.fieldmatch("day", "1").count() == 40
    with pytest.raises(QueryError, match="fieldmatch"):
        logs.textsearch("level", "ERROR")
    with pytest.raises(QueryError, match="textsearch"):
        logs.fieldmatch("message", "reset")


def test_histograms_count_by_steps(logs: IndexTable) -> None:
    steps = logs.histogram("id", 50, "level:ERROR").toArrow().to_pylist()
    assert steps == [{"bucket": b, "count": n} for b, n in ((0, 10), (50, 10), (100, 4))]
    days = logs.dateHistogram("ts", "1m", metrics=["count", "min(id)"]).collect()
    assert [tuple(r)[1:] for r in days] == [(40, 0), (60, 40), (20, 100)]
    with pytest.raises(QueryError, match="not a time"):
        logs.dateHistogram("id", "1d")


def test_an_optimized_write_puts_each_partition_into_one_split(spark: SparkSession, table: str) -> None:
    frame = messages(spark).repartition(4)
    options = {**TEXT, "spark.indextables.write.optimizeWrite.enabled": "true"}
    index = IndexTable.create(spark, table, frame, ["day"], options)
    assert len(list(Path(table).rglob("*.split"))) == 3
    assert index.count("number") == 120


def test_maintenance_from_merge_to_purge(spark: SparkSession, table: str) -> None:
    for number in range(3):
        frame = messages(spark, 12).withColumn("id", F.col("id") + 100 * number)
        frame.write.format("indextables").mode("append").partitionBy("day").options(**TEXT).save(table)
    index = IndexTable.forPath(spark, table, options={"purge.retentionCheckEnabled": "false"})
    expected = index.search().toArrow().sort_by("id")
    merged = index.mergeSplits("10M")
    assert merged["splitsCreated"] == 3
    assert index.search().toArrow().sort_by("id").equals(expected)
    assert index.dropPartitions("day = 0") == merged["version"] + 1
    assert (index.count(), index.count("day:0"), index.asOf(merged["version"]).count()) == (24, 0, 36)
    index.truncateHistory()
    splits = len(list(Path(table).rglob("*.split")))
    index.purge(retentionHours=0)
    assert len(list(Path(table).rglob("*.split"))) <= splits
    assert sorted(index.search("number", ["id"]).toArrow().column("id").to_pylist()) == sorted(
        r for r in expected.column("id").to_pylist() if r % 100 % 3
    )
    assert index.describeLog().count() > 0


def test_only_the_columns_that_are_named_are_read(spark: SparkSession, logs: IndexTable) -> None:
    reader = spark.read.format("indextables").option("tidegate.columns", "LEVEL, id")
    found = reader.option("query", '"number 77" OR day:0').load(logs.path)
    assert found.columns == ["level", "id"]
    assert sorted(r.id for r in found.where("id > 70").collect()) == sorted(
        {77, *(i for i in range(71, 120) if i % 3 == 0)}
    )
    with pytest.raises(QueryError, match="no column nobody"):
        spark.read.format("indextables").option("tidegate.columns", "nobody").load(logs.path)


def test_confs_of_the_session_hold_until_an_option_says_otherwise(spark: SparkSession, table: str) -> None:
    key = "spark.indextables.transaction.compression.enabled"
    spark.conf.set(key, "true")
    try:
        messages(spark, 5).write.format("indextables").options(**TEXT).save(table)
        messages(spark, 5).write.format("indextables").mode("append").option(key, "false").save(table)
    finally:
        spark.conf.unset(key)
    first, second = sorted((Path(table) / "_transaction_log").glob("*.json"))
    assert (first.read_bytes()[:2], second.read_bytes()[:1]) == (b"\x01\x01", b"{")
    assert IndexTable.forPath(spark, table).count("number") == 10


def test_partitions_are_replaced_and_splits_merged_by_a_write(spark: SparkSession, table: str) -> None:
    writer = messages(spark, 12).write.format("indextables").partitionBy("day")
    writer.options(**TEXT).save(table)
    again = messages(spark, 30).where("day = 1 AND id >= 12").write.format("indextables").mode("overwrite")
    options = {"mergeOnWrite.enabled": "true", "mergeOnWrite.targetSize": "10M"}
    again.option("replaceWhere", "day = 1").options(**options).save(table)
    index = IndexTable.forPath(spark, table)
    found = sorted(index.search(None, ["id"]).toArrow().column("id").to_pylist())
    assert found == sorted([i for i in range(12) if i % 3 != 1] + list(range(13, 30, 3)))
    with pytest.raises(OptionError, match="not of the partitions that are replaced"):
        messages(spark, 12).write.format("indextables").mode("overwrite").option(
            "replaceWhere", "day = 1"
        ).save(table)
