"""``spark.readStream.format("delta")``: the rows of a table, then those that are added, each once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from support.streams import PATIENCE, Collected, run, source
from tidegate.errors import (
    ChangeDataMissingError,
    DataFileMissingError,
    NotATableError,
    OptionError,
    StreamOffsetError,
    StreamSchemaChangedError,
    StreamSourceChangedError,
)
from tidegate.metadata import Metadata
from tidegate.table.delta import DeltaTable

pytestmark = pytest.mark.spark


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


def _append(frame: DataFrame, path: str, **options: Any) -> None:
    frame.write.format("delta").mode("append").options(**options).save(path)


def _change(path: str, change: Callable[[Metadata], Metadata]) -> None:
    transaction = tidegate.Transaction.begin(path)
    transaction.update_metadata(change(transaction.metadata))
    transaction.commit(operation="SET TBLPROPERTIES")


def _ids(*numbers: int) -> list[tuple[int]]:
    return [(n,) for n in numbers]


def test_the_table_comes_first_then_what_is_added_and_a_restart_goes_on(
    spark: SparkSession, table: str, checkpoint: str
) -> None:
    frame = spark.range(4).withColumn("p", F.col("id") % 2)
    frame.write.format("delta").partitionBy("p").save(table)
    assert run(source(spark, table), checkpoint).rows == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert run(source(spark, table), checkpoint).rows == []
    _append(frame.where("id = 1"), table)
    _append(frame.where("id = 2"), table)
    assert run(source(spark, table), checkpoint).rows == [(1, 1), (2, 0)]


def test_a_running_stream_sees_commits_as_they_come(spark: SparkSession, table: str, checkpoint: str) -> None:
    _append(spark.range(2), table)
    out = Collected()
    query = (
        source(spark, table).writeStream.foreachBatch(out).option("checkpointLocation", checkpoint).start()
    )
    try:
        query.processAllAvailable()
        assert out.rows == _ids(0, 1)
        _append(spark.range(5, 6), table)
        query.processAllAvailable()
        assert out.rows == _ids(0, 1, 5)
    finally:
        query.stop()
    assert query.exception() is None


def test_limits_cut_the_table_into_batches(spark: SparkSession, table: str, tmp_path: Path) -> None:
    for i in range(4):
        _append(spark.range(i, i + 1).coalesce(1), table)
    by_files = run(source(spark, table, maxFilesPerTrigger=3), str(tmp_path / "files"))
    assert [len(b) for b in by_files.batches] == [3, 1]
    by_bytes = run(source(spark, table, maxBytesPerTrigger="1b"), str(tmp_path / "bytes"))
    assert [len(b) for b in by_bytes.batches] == [1, 1, 1, 1]
    assert by_files.rows == by_bytes.rows == _ids(0, 1, 2, 3)


def test_limits_hold_for_commits_as_they_do_for_the_table(
    spark: SparkSession, table: str, checkpoint: str
) -> None:
    _append(spark.range(1), table)
    frame = source(spark, table, maxFilesPerTrigger=1)
    run(frame, checkpoint)
    _append(spark.range(10, 12, 1, 2), table)
    _append(spark.range(20, 21), table)
    found = run(frame, checkpoint)
    assert found.rows == _ids(10, 11, 20)
    assert len(found.batches) == 3


def test_a_stream_begins_where_it_is_told(spark: SparkSession, table: str, tmp_path: Path) -> None:
    for i in range(3):
        _append(spark.range(i, i + 1), table)
    moment = tidegate.open(table, version=2).timestamp_ms
    exact = datetime.fromtimestamp(moment / 1000, timezone.utc).isoformat(timespec="milliseconds")
    assert run(source(spark, table, startingVersion=1), str(tmp_path / "1")).rows == _ids(1, 2)
    assert run(source(spark, table, startingTimestamp=exact), str(tmp_path / "2")).rows == _ids(2)
    assert run(source(spark, table, startingVersion="latest"), str(tmp_path / "3")).rows == []
    _append(spark.range(9, 10), table)
    assert run(source(spark, table, startingVersion="latest"), str(tmp_path / "3")).rows == _ids(9)


def test_filters_of_the_query_leave_files_unread(spark: SparkSession, table: str, checkpoint: str) -> None:
    spark.range(0, 1000, 1, 4).write.format("delta").save(table)
    frame = source(spark, table).where("id >= 990")
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    ended = query.trigger(availableNow=True).start()
    assert ended.awaitTermination(PATIENCE)
    read = [p["sources"][0] for p in ended.recentProgress if p["sources"][0]["numInputRows"]]
    assert [p["numInputRows"] for p in read] == [250]
    assert read[0]["description"] == f"delta:{table}"


def test_streams_aggregate_and_join_as_any_stream_does(
    spark: SparkSession, table: str, checkpoint: str
) -> None:
    _append(spark.range(6).withColumn("k", F.col("id") % 2), table)
    names = spark.createDataFrame([(0, "even"), (1, "odd")], "k long, name string")
    frame = source(spark, table).join(names, "k").groupBy("name").count()
    out = Collected()
    writer = frame.writeStream.outputMode("complete").option("checkpointLocation", checkpoint)
    assert writer.foreachBatch(out).trigger(availableNow=True).start().awaitTermination(PATIENCE)
    assert out.batches[-1] == [("even", 3), ("odd", 3)]


def test_mapped_columns_come_under_the_names_users_see(
    spark: SparkSession, table: str, checkpoint: str
) -> None:
    frame = spark.range(2).select(F.struct("id").alias("s"), F.col("id").alias("p"))
    frame.write.format("delta").partitionBy("p").save(table)
    _change(
        table,
        lambda m: m.with_configuration({**m.configuration, "delta.columnMapping.mode": "name"}),
    )
    found = source(spark, table)
    assert found.columns == ["s", "p"]
    assert run(found.select("s.id", "p"), checkpoint).rows == [(0, 0), (1, 1)]


def test_rows_that_deletion_vectors_hide_are_not_passed_on(
    spark: SparkSession, table: str, checkpoint: str, tmp_path: Path
) -> None:
    _append(spark.range(4).coalesce(1), table)
    vectors = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    _change(table, lambda m: m.with_configuration(vectors))
    run(source(spark, table), checkpoint)
    DeltaTable.forPath(spark, table).delete("id = 1")
    assert tidegate.open(table).files().column("deletionVector").null_count == 0
    assert run(source(spark, table), str(tmp_path / "anew")).rows == _ids(0, 2, 3)
    again = run(source(spark, table, ignoreChanges=True), checkpoint)
    assert again.rows == _ids(0, 2, 3), "the file comes again, without the row that was deleted"
    feed = source(spark, table, readChangeFeed=True, startingVersion=2).select("id", "_change_type")
    assert run(feed, str(tmp_path / "feed")).rows == [(1, "delete")]


# ---------------------------------------------------------------------------- what stops a stream


def _failure(frame: DataFrame, checkpoint: str) -> tuple[Any, Any]:
    """What a stream fails with: as awaitTermination raises it, and as the query keeps it."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(Exception) as caught:
        query.awaitTermination(PATIENCE)
    return caught.value, query.exception()


def test_a_new_column_stops_the_stream_by_name_and_the_next_start_goes_on(
    spark: SparkSession, table: str, checkpoint: str
) -> None:
    _append(spark.range(1), table)
    frame = source(spark, table)
    run(frame, checkpoint)
    _append(spark.range(1, 2), table)
    _append(spark.range(2, 3).withColumn("more", F.lit("x")), table, mergeSchema=True)
    raised, kept = _failure(frame, checkpoint)
    assert isinstance(raised, StreamSchemaChangedError)
    assert raised.code == kept.code == "STREAM_SCHEMA_CHANGED"
    assert raised.version == 2
    assert run(source(spark, table), checkpoint).rows == [(2, "x")]


def test_changed_rows_stop_the_stream_unless_told_otherwise(
    spark: SparkSession, table: str, checkpoint: str, tmp_path: Path
) -> None:
    _append(spark.range(1), table)
    run(source(spark, table), checkpoint)
    spark.range(7, 8).write.format("delta").mode("overwrite").save(table)
    raised, _ = _failure(source(spark, table), checkpoint)
    assert isinstance(raised, StreamSourceChangedError)
    _append(spark.range(8, 9), table)
    assert run(source(spark, table, skipChangeCommits=True), checkpoint).rows == _ids(8)
    again = source(spark, table, startingVersion=0, ignoreChanges=True)
    assert run(again, str(tmp_path / "again")).rows == _ids(0, 7, 8)


def test_a_missing_data_file_is_named(spark: SparkSession, table: str, checkpoint: str) -> None:
    _append(spark.range(1).coalesce(1), table)
    name = tidegate.open(table).files().column("path")[0].as_py()
    (Path(table) / name).unlink()
    raised, kept = _failure(source(spark, table), checkpoint)
    assert isinstance(raised, DataFileMissingError)
    assert isinstance(kept, DataFileMissingError)


def test_the_checkpoint_of_another_table_is_refused(spark: SparkSession, table: str, checkpoint: str) -> None:
    _append(spark.range(1), table)
    run(source(spark, table), checkpoint)
    _append(spark.range(1), table + "-2")
    raised, _ = _failure(source(spark, table + "-2"), checkpoint)
    assert isinstance(raised, StreamOffsetError)


# ---------------------------------------------------------------------------- change feed


def test_the_change_feed_as_a_stream(spark: SparkSession, table: str, checkpoint: str) -> None:
    _append(spark.range(2), table)
    _change(table, lambda m: m.with_configuration({"delta.enableChangeDataFeed": "true"}))
    _append(spark.range(2, 3), table)
    columns = ["id", "_change_type", "_commit_version"]
    feed = source(spark, table, readChangeFeed=True)
    assert feed.columns == [*columns, "_commit_timestamp"]
    first = run(feed.select(*columns), checkpoint).rows
    assert first == [(0, "insert", 2), (1, "insert", 2), (2, "insert", 2)]
    spark.range(9, 10).write.format("delta").mode("overwrite").save(table)
    _append(spark.range(4, 5), table)
    then = run(feed.select(*columns), checkpoint).rows
    assert then == [
        (0, "delete", 3),
        (1, "delete", 3),
        (2, "delete", 3),
        (4, "insert", 4),
        (9, "insert", 3),
    ]


def test_the_feed_of_a_table_without_one_is_refused(spark: SparkSession, table: str, checkpoint: str) -> None:
    _append(spark.range(1), table)
    raised, _ = _failure(source(spark, table, readChangeFeed=True), checkpoint)
    assert isinstance(raised, ChangeDataMissingError)


# ---------------------------------------------------------------------------- what is refused at once


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"maxFilePerTrigger": "1"}, "maxFilesPerTrigger"),
        ({"maxFilesPerTrigger": "none"}, "maxFilesPerTrigger"),
        ({"maxBytesPerTrigger": "lots"}, "maxBytesPerTrigger"),
        ({"startingVersion": "first"}, "latest"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "exclude"),
        ({"excludeRegex": "("}, "excludeRegex"),
        ({"ignoreDeletes": "maybe"}, "true or false"),
        ({"schemaTrackingLocation": "/x"}, "schemaTrackingLocation"),
        ({"versionAsOf": "1"}, "startingVersion"),
    ],
)
def test_options_are_checked_when_the_stream_is_made(
    spark: SparkSession, table: str, options: dict[str, str], says: str
) -> None:
    _append(spark.range(1), table)
    with pytest.raises(OptionError, match=says) as caught:
        source(spark, table, **options)
    assert isinstance(caught.value, AnalysisException)


def test_a_stream_needs_a_table_and_no_schema(spark: SparkSession, table: str) -> None:
    with pytest.raises(NotATableError):
        source(spark, table)
    _append(spark.range(1), table)
    with pytest.raises(OptionError, match="schema"):
        spark.readStream.format("delta").schema("id long").load(table)
    with pytest.raises(OptionError, match="path"):
        spark.readStream.format("delta").load()
