"""DELETE: what goes, what stays, how files leave, and what is refused before anything runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from support.dml import FEED, VECTORS, WAYS, Meanwhile, feed, last, no_job, sound, tracked, write
from tidegate.errors import (
    AppendOnlyError,
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    PredicateError,
)
from tidegate.table.delta import DeltaTable

pytestmark = pytest.mark.spark
Rows = Callable[..., list[tuple[Any, ...]]]


def make(spark: SparkSession, path: str, files: int = 2, n: int = 20, **properties: str) -> DeltaTable:
    """A table of ``n`` ids in ``files`` files with ranges of their own; v is ten times the id."""
    frame = (
        spark.range(n)
        .withColumn("v", F.col("id") * 10)
        .repartitionByRange(files, "id")
        .sortWithinPartitions("id")
    )
    write(frame, path, properties)
    return DeltaTable.forPath(spark, path)


def ids(rows: Rows, path: str) -> list[int]:
    return [r[0] for r in rows(path)]


@pytest.mark.parametrize("properties", WAYS)
def test_rows_that_match_go_and_the_others_stay(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    make(spark, table, **properties).delete("id % 7 = 3")
    assert ids(rows, table) == [i for i in range(20) if i % 7 != 3]
    assert last(table)["operation"] == "DELETE"
    assert last(table)["operationParameters"]["predicate"] == '["id % 7 = 3"]'
    assert last(table)["operationMetrics"]["numDeletedRows"] == "3"
    sound(table)


def test_without_a_condition_all_files_leave_by_the_log_alone(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    make(spark, table).delete()
    assert rows(table) == []
    metrics = last(table)["operationMetrics"]
    assert (metrics["numRemovedFiles"], metrics["numDeletedRows"], metrics["numAddedFiles"]) == (
        "2",
        "20",
        "0",
    )
    assert tidegate.open(table).version == 1


def test_a_predicate_on_partitions_reads_no_file(spark: SparkSession, table: str, rows: Rows) -> None:
    frame = spark.range(12).withColumn("p", (F.col("id") % 3).cast("int"))
    write(frame, table, {}, ["p"])
    spark.sparkContext.setJobGroup("partitions", "none of them may run")
    DeltaTable.forPath(spark, table).delete("p = 1 or p > 1")
    assert spark.sparkContext.statusTracker().getJobIdsForGroup("partitions") == []
    spark.sparkContext.setJobGroup("", "")
    assert ids(rows, table) == [0, 3, 6, 9]
    assert last(table)["operationMetrics"]["numDeletedRows"] == "8"


@pytest.mark.parametrize("condition", ["p + 1 = 2", "p % 2 = 1", "abs(p - 2) = 1 and p < 2"])
def test_a_function_of_partitions_takes_their_rows_alone(
    spark: SparkSession, table: str, rows: Rows, condition: str
) -> None:
    frame = spark.range(9).selectExpr("id", "cast(id % 3 as int) p")
    write(frame, table, {}, ["p"])
    assert [r[0] for r in rows(table, condition)] == [1, 4, 7]
    DeltaTable.forPath(spark, table).delete(condition)
    assert ids(rows, table) == [0, 2, 3, 5, 6, 8]


def test_a_null_condition_takes_no_row(spark: SparkSession, table: str, rows: Rows) -> None:
    frame = spark.createDataFrame([(1, None), (2, 5), (3, 6)], "id int, x int")
    write(frame, table, {})
    DeltaTable.forPath(spark, table).delete("x = 5")
    assert ids(rows, table) == [1, 3]
    DeltaTable.forPath(spark, table).delete("x is null or null")
    assert ids(rows, table) == [3]


def test_nothing_that_matches_is_no_commit(spark: SparkSession, table: str) -> None:
    dt = make(spark, table)
    dt.delete("id = 1000")
    dt.delete("id % 100 = 99")
    assert tidegate.open(table).version == 0


def test_only_files_that_hold_matches_are_touched(spark: SparkSession, table: str, rows: Rows) -> None:
    dt = make(spark, table, files=4)
    before = set(tidegate.open(table).files().column("path").to_pylist())
    dt.delete(F.col("id") == 2)
    after = set(tidegate.open(table).files().column("path").to_pylist())
    assert len(before - after) == 1
    assert len(after - before) == 1
    assert len(rows(table)) == 19


@pytest.mark.parametrize("properties", WAYS)
def test_a_file_that_loses_all_rows_is_removed_whole(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    dt = make(spark, table, **properties)
    stats = tidegate.open(table).files("id = 0").column("stats")[0].as_py()
    bound = json.loads(stats)["maxValues"]["id"]
    dt.delete(f"id <= {bound}")
    metrics = last(table)["operationMetrics"]
    assert (metrics["numRemovedFiles"], metrics["numAddedFiles"]) == ("1", "0")
    assert ids(rows, table) == list(range(bound + 1, 20))


def test_vectors_hide_rows_and_later_ones_are_added_to_them(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    dt = make(spark, table, files=1, **VECTORS)
    dt.delete("id in (1, 2)")
    dt.delete("id in (2, 3, 19)")
    files = tidegate.open(table).files()
    assert files.num_rows == 1
    assert files.column("deletionVector")[0].as_py()["cardinality"] == 4
    assert '"tightBounds":false' in files.column("stats")[0].as_py()
    assert ids(rows, table) == [0, *range(4, 19)]
    metrics = last(table)["operationMetrics"]
    assert metrics["numDeletionVectorsUpdated"] == "1"
    assert metrics["numDeletedRows"] == "2"
    dt.delete("id >= 0")
    assert tidegate.open(table).files().num_rows == 0
    sound(table)


def test_many_rows_become_bitmaps_where_they_lie(
    spark: SparkSession, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.spark.scan import positions

    monkeypatch.setattr(positions, "_COLLECTED", 0)
    frame = spark.range(70_000).coalesce(1)
    write(frame, table, VECTORS)
    DeltaTable.forPath(spark, table).delete("id % 2 = 0 or id in (1, 69999)")
    assert ids(rows, table) == list(range(3, 69_999, 2))


def test_the_copy_way_can_be_asked_for_by_conf(spark: SparkSession, table: str, rows: Rows) -> None:
    dt = make(spark, table, **VECTORS)
    spark.conf.set("spark.databricks.delta.delete.deletionVectors.persistent", "false")
    try:
        dt.delete("id = 3")
    finally:
        spark.conf.unset("spark.databricks.delta.delete.deletionVectors.persistent")
    assert tidegate.open(table).files().column("deletionVector").null_count == 2
    assert 3 not in ids(rows, table)


@pytest.mark.parametrize("properties", WAYS)
def test_the_change_feed_tells_what_went(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    dt = make(spark, table, **FEED, **properties)
    dt.delete("id in (3, 15)")
    assert feed(spark, table, 1) == [(3, 30, "delete"), (15, 150, "delete")]
    dt.delete("id < 10")
    assert feed(spark, table, 2) == [(i, i * 10, "delete") for i in range(10) if i != 3]
    assert ids(rows, table) == [i for i in range(10, 20) if i != 15]
    sound(table)


def test_a_feed_of_files_that_leave_whole_and_in_part(spark: SparkSession, table: str, rows: Rows) -> None:
    dt = make(spark, table, files=4, **FEED)
    dt.delete("id <= 10")
    assert feed(spark, table, 1) == [(i, i * 10, "delete") for i in range(11)]
    assert ids(rows, table) == list(range(11, 20))


@pytest.mark.parametrize("properties", WAYS)
def test_rows_that_stay_keep_their_ids(spark: SparkSession, table: str, properties: dict[str, str]) -> None:
    dt = make(spark, table, files=1, **{"delta.enableRowTracking": "true"}, **properties)
    before = tracked(spark, table)
    dt.delete("id in (2, 4)")
    dt.delete("id = 6")
    assert tracked(spark, table) == {i: place for i, place in before.items() if i not in (2, 4, 6)}
    sound(table)


def test_mapped_columns_nested_fields_and_aliases(spark: SparkSession, table: str, rows: Rows) -> None:
    frame = spark.range(6).select("id", F.struct(F.col("id").alias("x"), F.lit("k").alias("y")).alias("s"))
    write(frame, table, {"delta.columnMapping.mode": "name", **VECTORS})
    dt = DeltaTable.forPath(spark, table).alias("t")
    dt.delete("t.s.x = 2")
    dt.delete(F.col("t.id") == 4)
    dt.delete("S.X = 5")
    assert ids(rows, table) == [0, 1, 3]


def test_text_that_is_not_in_utc_keeps_all_files(spark: SparkSession, table: str) -> None:
    write(spark.sql("select timestamp'2024-01-01 00:30:00' as at, 1 as id"), table, {})
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        DeltaTable.forPath(spark, table).delete("at = timestamp'2023-12-31 19:30:00'")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert tidegate.open(table).files().num_rows == 0


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("nope = 1", AnalysisException),
        ("id +", ParseException),
        ("sum(id) > 1", PredicateError),
        ("id in (select 1)", PredicateError),
        ("exists (select 1 from range(2))", PredicateError),
        ("rand() > 0.5", PredicateError),
        ("id", AnalysisException),
    ],
)
def test_bad_conditions_are_refused_as_analysis(
    spark: SparkSession, table: str, condition: str, kind: type[Exception]
) -> None:
    dt = make(spark, table)
    with no_job(spark), pytest.raises(kind) as caught:
        dt.delete(condition)
    assert isinstance(caught.value, AnalysisException)
    assert tidegate.open(table).version == 0


def test_an_append_only_table_is_left_alone(spark: SparkSession, table: str) -> None:
    dt = make(spark, table, **{"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError):
        dt.delete("id = 1")
    with pytest.raises(TypeError):
        dt.delete(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("properties", WAYS)
def test_deletes_in_different_files_both_succeed(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dt = make(spark, table, **properties)
    Meanwhile(monkeypatch, lambda: dt.delete("id between 0 and 3"))
    dt.delete("id between 15 and 17")
    assert ids(rows, table) == [*range(4, 15), 18, 19]
    assert tidegate.open(table).version == 2


@pytest.mark.parametrize("properties", WAYS)
def test_deletes_in_the_same_file_conflict_by_name(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dt = make(spark, table, files=1, **properties)
    Meanwhile(monkeypatch, lambda: dt.delete("id = 1"))
    with pytest.raises((ConcurrentDeleteReadException, ConcurrentAppendException)):
        dt.delete("id = 15")
    assert ids(rows, table) == [i for i in range(20) if i != 1]


def test_an_append_of_matching_rows_conflicts_and_of_others_does_not(
    spark: SparkSession, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    dt = make(spark, table)

    def append(first: int) -> Callable[[], None]:
        frame = spark.range(first, first + 2).withColumn("v", F.lit(0).cast("long"))
        return lambda: frame.write.format("delta").mode("append").save(table)

    with monkeypatch.context() as patch:
        Meanwhile(patch, append(100))
        dt.delete("id + 1 = 4 and id < 50")
    with monkeypatch.context() as patch:
        Meanwhile(patch, append(10))
        with pytest.raises(ConcurrentAppendException):
            dt.delete("id = 11")
    assert ids(rows, table).count(11) == 2
