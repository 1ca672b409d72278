"""Sessions in zones of their own: files are skipped by instants, and times are said by the clocks there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate import DeltaTable
from tidegate.errors import TimestampOutOfRangeError

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def hours(spark: SparkSession, table: str) -> Iterator[str]:
    """A table with one file for each hour around the end of summer time in New York, read there."""
    for hour in range(4, 9):
        frame = spark.sql(f"SELECT {hour} AS hour, timestamp'2024-11-03T0{hour}:30:00Z' AS at")
        frame.coalesce(1).write.format("delta").mode("append").save(table)
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "America/New_York")
    yield table
    spark.conf.set(ZONE, before)


@pytest.mark.parametrize(
    ("condition", "hours_found"),
    [
        # Half past one comes twice that night.
        ("at = timestamp'2024-11-03T05:30:00Z'", [5]),
        ("at = timestamp'2024-11-03T06:30:00Z'", [6]),
        ("at < timestamp'2024-11-03T06:00:00Z'", [4, 5]),
        ("at >= timestamp'2024-11-03 02:30:00'", [7, 8]),
        ("at IN (timestamp'2024-11-03T04:30:00Z', timestamp'2024-11-03T08:30:00Z')", [4, 8]),
        ("at BETWEEN '2024-11-03 02:30:00' AND '2024-11-03 03:00:00'", [7]),
        ("cast(at AS date) = date'2024-11-03'", [4, 5, 6, 7, 8]),
    ],
)
def test_files_are_skipped_by_timestamps(
    spark: SparkSession, hours: str, condition: str, hours_found: list[int]
) -> None:
    found = spark.read.format("delta").load(hours).where(condition)
    assert sorted(r.hour for r in found.collect()) == hours_found
    [scanned] = tidegate.scan_metrics(found)
    assert scanned.files_read == len(hours_found)


def test_partitions_by_timestamp_are_pruned(spark: SparkSession, table: str) -> None:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "Asia/Kathmandu")
    try:
        frame = spark.sql("SELECT explode(sequence(1, 4)) AS id").selectExpr(
            "id", "timestamp'2024-01-01 00:00:00' + make_interval(0, 0, 0, id) AS day"
        )
        frame.write.format("delta").partitionBy("day").save(table)
        found = spark.read.format("delta").load(table).where("day = timestamp'2024-01-03 00:00:00'")
        assert [r.id for r in found.collect()] == [2]
        [scanned] = tidegate.scan_metrics(found)
        assert (scanned.files_considered, scanned.files_read) == (4, 1)
    finally:
        spark.conf.set(ZONE, before)


def test_partitions_are_compacted_by_what_the_clocks_of_the_session_show(
    spark: SparkSession, table: str
) -> None:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "America/New_York")
    try:
        for _ in range(2):
            frame = spark.sql("SELECT explode(array(0, 5)) AS id").selectExpr(
                "id", "timestamp'2024-01-01 00:00:00' + make_interval(0, 0, 0, 0, id) AS at"
            )
            frame.coalesce(1).write.format("delta").mode("append").partitionBy("at").save(table)
        spark.sql(f"OPTIMIZE '{table}' WHERE at = '2024-01-01 00:00:00'")
    finally:
        spark.conf.set(ZONE, before)
    snapshot = tidegate.open(table)
    left = {h: snapshot.files(f"at = timestamp'2024-01-01T{h}:00:00Z'").num_rows for h in ("05", "10")}
    assert left == {"05": 1, "10": 2}


@pytest.fixture
def noon(spark: SparkSession, table: str) -> Iterator[str]:
    """A table of two versions, of 4 o'clock and of noon in Los Angeles, in a session of that zone."""
    properties = {"delta.enableChangeDataFeed": "true"}
    for version, hour in enumerate((12, 20)):
        frame = spark.range(version, version + 1).coalesce(1)
        frame.write.format("delta").mode("append").options(**properties).save(table)
        moment = datetime(2024, 1, 1, hour, tzinfo=timezone.utc).timestamp()
        os.utime(f"{table}/_delta_log/{version:020}.json", (moment, moment))
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "America/Los_Angeles")
    yield table
    spark.conf.set(ZONE, before)


def _feed(spark: SparkSession, path: str, start: str) -> list[int]:
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return sorted(r.id for r in reader.option("startingTimestamp", start).load(path).collect())


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2024-01-01 05:00:00", 0),
        ("2024-01-01 12:00:00", 1),
        # As Spark reads times, not only as ISO 8601 has them.
        ("2024-1-1 5:00:00.5", 0),
        ("2024-01-01", None),
    ],
)
def test_times_are_of_the_sessions_zone_wherever_they_are_said(
    spark: SparkSession, noon: str, tmp_path: Path, text: str, version: int | None
) -> None:
    made = DeltaTable.forPath(spark, noon)

    def restored() -> DataFrame:
        made.restoreToTimestamp(text)
        return made.toDF()

    ways: list[Callable[[], DataFrame]] = [
        lambda: spark.read.format("delta").option("timestampAsOf", text).load(noon),
        lambda: spark.sql(f"SELECT * FROM delta.`{noon}` TIMESTAMP AS OF '{text}'"),
        lambda: made.cloneAtTimestamp(text, str(tmp_path / "clone"), isShallow=True).toDF(),
        restored,
    ]
    for way in ways:
        if version is None:
            with pytest.raises(TimestampOutOfRangeError):
                way()
        else:
            assert way().count() == version + 1


def test_changes_begin_at_a_time_of_the_sessions_zone(spark: SparkSession, noon: str, tmp_path: Path) -> None:
    assert _feed(spark, noon, "2024-01-01 04:00:00") == [0, 1]
    assert _feed(spark, noon, "2024-01-01 05:00:00") == [1]
    assert [r.id for r in DeltaTable.forPath(spark, noon).changes("2024-01-01 05:00:00").collect()] == [1]
    stream = spark.readStream.format("delta").option("startingTimestamp", "2024-01-01 05:00:00").load(noon)
    out = str(tmp_path / "out")
    query = stream.writeStream.format("delta").option("checkpointLocation", f"{out}-marks")
    query.trigger(availableNow=True).start(out).awaitTermination()
    assert [r.id for r in spark.read.format("delta").load(out).collect()] == [1]
