"""Confs of the session that steer reading and writing: statistics, feeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate import DeltaTable
from tidegate.errors import AlterRefusedError, TidegateError

pytestmark = pytest.mark.spark
Rows = Callable[..., list[tuple[object, ...]]]
Conf = Callable[[str, str], None]


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Conf]:
    keys = []

    def put(name: str, value: str) -> None:
        keys.append(f"spark.databricks.delta.{name}")
        spark.conf.set(keys[-1], value)

    yield put
    for key in keys:
        spark.conf.unset(key)


def test_rows_that_wrong_statistics_hide_are_found_where_none_are_trusted(
    spark: SparkSession, table: str, rows: Rows, conf: Conf
) -> None:
    spark.range(3).coalesce(1).write.format("delta").save(table)
    commit = Path(table) / "_delta_log" / f"{0:020d}.json"
    text = commit.read_text()
    wrong = text.replace(r"\"maxValues\":{\"id\":2}", r"\"maxValues\":{\"id\":0}")
    assert wrong != text
    commit.write_text(wrong)
    assert rows(table, "id = 2") == []
    conf("stats.skipping", "false")
    assert rows(table, "id = 2") == [(2,)]
    DeltaTable.forPath(spark, table).delete("id = 2")
    assert rows(table) == [(0,), (1,)]


def test_columns_stay_where_the_session_forbids_to_drop_them(
    spark: SparkSession, table: str, conf: Conf
) -> None:
    frame = spark.range(1).selectExpr("id", "id AS more")
    frame.write.format("delta").save(table)
    found = DeltaTable.forPath(spark, table)
    found.setProperties({"delta.columnMapping.mode": "name"})
    conf("alterTable.dropColumn.enabled", "false")
    with pytest.raises(AlterRefusedError, match="switched off"):
        found.dropColumns("more")
    conf("alterTable.dropColumn.enabled", "true")
    found.dropColumns("more")
    assert found.toDF().columns == ["id"]


def test_a_checkpoint_of_the_session_comes_in_parts(
    spark: SparkSession, table: str, rows: Rows, conf: Conf
) -> None:
    conf("checkpoint.partSize", "2")
    conf("writeChecksumFile.enabled", "false")
    conf("properties.defaults.checkpointInterval", "1")
    spark.range(0, 6, 1, 5).write.format("delta").save(table)
    spark.range(6, 7).coalesce(1).write.format("delta").mode("append").save(table)
    names = sorted(p.name for p in (Path(table) / "_delta_log").iterdir() if "checkpoint.0" in p.name)
    assert names == [f"{1:020}.checkpoint.{n:010}.{3:010}.parquet" for n in (1, 2, 3)]
    assert not list((Path(table) / "_delta_log").glob("*.crc"))
    assert rows(table) == [(n,) for n in range(7)]


def test_without_statistics_rows_are_counted_all_the_same(
    spark: SparkSession, table: str, rows: Rows, conf: Conf
) -> None:
    conf("stats.collect", "false")
    spark.range(3).coalesce(1).write.format("delta").save(table)
    stats = json.loads(tidegate.open(table).files().column("stats")[0].as_py())
    assert stats["numRecords"] == 3
    assert not {key for key in ("minValues", "maxValues", "nullCount") if stats.get(key)}
    assert tidegate.open(table).commit_info["operationMetrics"]["numOutputRows"] == "3"
    assert rows(table, "id = 2") == [(2,)]


def test_a_feed_that_begins_after_the_newest_version_is_empty_where_the_session_allows_it(
    spark: SparkSession, table: str, conf: Conf
) -> None:
    DeltaTable.create(spark).location(table).addColumn("id", "BIGINT").property(
        "delta.enableChangeDataFeed", "true"
    ).execute()
    late = {"startingTimestamp": "2999-01-01 00:00:00"}
    for beginning in ({"startingVersion": "7"}, late):
        feed = spark.read.format("delta").option("readChangeFeed", "true")
        with pytest.raises(TidegateError):
            feed.options(**beginning).load(table)
    conf("changeDataFeed.timestampOutOfRange.enabled", "true")
    again = spark.read.format("delta").option("readChangeFeed", "true")
    assert again.option("startingVersion", "7").load(table).count() == 0
    again = spark.read.format("delta").option("readChangeFeed", "true")
    assert again.options(**late).load(table).columns == [
        "id",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    ]
