"""Tables in an object store that Spark itself cannot open: read and written by tasks with pyarrow.

The server is moto's, over HTTP. Its address and keys are in the environment of this process alone, put
there after Spark and its Python workers have started, so they reach tasks inside closures or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

import tidegate
from support.s3 import ACCESS_KEY, SECRET_KEY, S3Server, s3_server
from tidegate.errors import DataFileCorruptError, DataFileMissingError, InvariantViolationException
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.storage import open_store

pytestmark = [pytest.mark.spark, pytest.mark.s3]

Rows = Callable[..., list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[S3Server]:
    # The workers start with the first job, before the environment has anything to inherit.
    spark.range(2).mapInArrow(lambda batches: batches, "id long").count()
    with s3_server() as running:
        yield running


@pytest.fixture
def table(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{server.bucket()}/some/table"


def test_what_is_written_to_s3_comes_back(spark: SparkSession, table: str, rows: Rows) -> None:
    frame = spark.range(0, 8, 1, 2).selectExpr(
        "id", "concat('a/b ', id % 2) as p", "named_struct('l', array(id), 'm', map('k', id)) as s"
    )
    frame.write.format("delta").partitionBy("p").save(table)
    frame.write.format("delta").mode("append").save(table)
    assert [(r[0], r[1]) for r in rows(table, "id < 2")] == [
        (0, "a/b 0"),
        (0, "a/b 0"),
        (1, "a/b 1"),
        (1, "a/b 1"),
    ]
    assert spark.read.format("delta").load(table).selectExpr("sum(s.l[0] + s.m['k'])").first()[0] == 112
    assert spark.read.format("delta").option("versionAsOf", 0).load(table).count() == 8
    assert [f for f in verify(TableLog.at(table), deep=True).findings if f.severity == "error"] == []


def test_only_the_files_and_columns_that_were_named_beforehand_are_read(
    spark: SparkSession, table: str
) -> None:
    for start in (0, 10):
        frame = spark.range(start, start + 3, 1, 1).selectExpr("id", "id * 2 as twice")
        frame.write.format("delta").mode("append").save(table)
    files = tidegate.open(table).files()
    stats = files.column("stats").to_pylist()
    other = next(
        p for p, s in zip(files.column("path").to_pylist(), stats, strict=True) if '"id":12' not in s
    )
    open_store(table).delete([other])
    reader = (
        spark.read.format("delta").option("tidegate.where", "id > 11").option("tidegate.columns", "twice")
    )
    assert [tuple(r) for r in reader.load(table).collect()] == [(24,)]
    with pytest.raises(DataFileMissingError):
        spark.read.format("delta").load(table).collect()


def test_rows_are_deleted_updated_and_merged(spark: SparkSession, table: str, rows: Rows) -> None:
    key = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
    spark.conf.set(key, "true")
    try:
        spark.range(0, 5, 1, 1).selectExpr("id", "'old' as v").write.format("delta").save(table)
    finally:
        spark.conf.unset(key)
    there = tidegate.DeltaTable.forPath(spark, table)
    there.delete("id = 0")
    there.update("id = 1", {"v": "'updated'"})
    source = spark.range(4, 6).selectExpr("id", "'merged' as v")
    merge = there.alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert rows(table) == [(1, "updated"), (2, "old"), (3, "old"), (4, "merged"), (5, "merged")]


def test_the_change_feed_of_a_table_on_s3(spark: SparkSession, table: str) -> None:
    key = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    spark.conf.set(key, "true")
    try:
        spark.range(0, 3, 1, 1).write.format("delta").save(table)
    finally:
        spark.conf.unset(key)
    tidegate.DeltaTable.forPath(spark, table).delete("id = 1")
    feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 1).load(table)
    assert [(r.id, r._change_type) for r in feed.collect()] == [(1, "delete")]


def test_a_failed_write_leaves_no_object_behind(spark: SparkSession, table: str) -> None:
    key = "spark.databricks.delta.properties.defaults.constraints.small"
    spark.conf.set(key, "id < 40")
    try:
        with pytest.raises(InvariantViolationException):
            spark.range(0, 50, 1, 1).write.format("delta").option("maxRecordsPerFile", 10).save(table)
    finally:
        spark.conf.unset(key)
    assert list(open_store(table).list_from("", recursive=True)) == []


def test_a_corrupt_object_is_an_error_of_ours(spark: SparkSession, table: str) -> None:
    spark.range(0, 3, 1, 1).write.format("delta").save(table)
    name = tidegate.open(table).files().column("path")[0].as_py()
    open_store(table).put(name, b"nothing that anybody could read")
    with pytest.raises(DataFileCorruptError) as caught:
        spark.read.format("delta").load(table).collect()
    assert caught.value.file == f"{table}/{name}"


def test_keys_are_in_no_plan_no_option_and_no_log(
    spark: SparkSession, table: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    spark.range(0, 3, 1, 1).write.format("delta").save(table)
    frame = spark.read.format("delta").load(table)
    frame.explain(extended=True)
    open_store(table).delete([tidegate.open(table).files().column("path")[0].as_py()])
    with pytest.raises(DataFileMissingError) as caught:
        frame.collect()
    plan = frame._jdf.queryExecution().toString()
    seen = capsys.readouterr().out + caplog.text + plan + str(caught.value) + repr(frame)
    confs = str(spark.conf.getAll) + str(spark.sparkContext.getConf().getAll())
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret not in seen
        assert secret not in confs
