"""Tables whose log does not count the rows of their files: other writers may leave that out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from support.dml import FEED, VECTORS, feed, last, sound, write
from tidegate.table.delta import DeltaTable

pytestmark = pytest.mark.spark
Rows = Callable[..., list[tuple[Any, ...]]]
OLD = {i: i * 10 for i in range(20)}


def forget_counts(path: str, *, bounds: bool = False) -> None:
    """Take the statistics out of the log, all of them or the number of rows alone."""
    for commit in (Path(path) / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for add in (a["add"] for a in actions if "add" in a):
            found = json.loads(add.pop("stats"))
            if bounds:
                del found["numRecords"]
                add["stats"] = json.dumps(found)
        commit.write_text("".join(json.dumps(a) + "\n" for a in actions))
    for companion in (Path(path) / "_delta_log").glob("*.crc"):
        companion.unlink()


def make(spark: SparkSession, path: str, properties: dict[str, str]) -> DeltaTable:
    """Two files of ten rows each with ranges of their own."""
    frame = spark.range(20).withColumn("v", F.col("id") * 10).repartitionByRange(2, "id")
    write(frame.sortWithinPartitions("id"), path, properties)
    return DeltaTable.forPath(spark, path)


def _delete(table: DeltaTable, path: str) -> None:
    table.delete("id = 3")


def _update(table: DeltaTable, path: str) -> None:
    table.update("id = 3", {"v": "-1"})


def _merge(table: DeltaTable, path: str) -> None:
    source = table.toDF().sparkSession.range(18, 22).alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id").whenMatchedDelete("t.id = 18")
    merge.whenMatchedUpdate(set={"v": "-1"}).whenNotMatchedInsert(values={"id": "s.id", "v": "-2"}).execute()


def _replace(option: str, value: str) -> Callable[[DeltaTable, str], None]:
    def run(table: DeltaTable, path: str) -> None:
        new = table.toDF().sparkSession.sql("select 3L id, 0L v")
        new.write.format("delta").mode("overwrite").option(option, value).save(path)

    return run


COMMANDS: dict[str, tuple[Callable[[DeltaTable, str], None], dict[int, int]]] = {
    "delete": (_delete, {i: v for i, v in OLD.items() if i != 3}),
    "update": (_update, OLD | {3: -1}),
    "merge": (_merge, {i: v for i, v in OLD.items() if i != 18} | {19: -1, 20: -2, 21: -2}),
    "replaceWhere": (_replace("replaceWhere", "id = 3"), OLD | {3: 0}),
    "replaceUsing": (_replace("replaceUsing", "id"), OLD | {3: 0}),
}


@pytest.mark.parametrize(
    ("command", "bounds"), [*((c, False) for c in COMMANDS), ("delete", True), ("replaceWhere", True)]
)
@pytest.mark.parametrize("properties", [{}, FEED, VECTORS], ids=["copy", "feed", "vectors"])
def test_rows_that_share_a_file_with_changed_ones_stay(
    spark: SparkSession, table: str, rows: Rows, command: str, properties: dict[str, str], bounds: bool
) -> None:
    found = make(spark, table, properties)
    forget_counts(table, bounds=bounds)
    run, expected = COMMANDS[command]
    run(found, table)
    assert rows(table) == sorted(expected.items())
    sound(table)


def test_the_rows_written_anew_are_counted(spark: SparkSession, table: str) -> None:
    found = make(spark, table, {})
    forget_counts(table)
    found.update("id = 3", {"v": "-1"})
    metrics = last(table)["operationMetrics"]
    assert (metrics["numUpdatedRows"], metrics["numCopiedRows"]) == ("1", "9")
    found.delete("id = 13")
    metrics = last(table)["operationMetrics"]
    assert (metrics["numDeletedRows"], metrics["numCopiedRows"]) == ("1", "9")


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("properties", [{}, FEED, VECTORS], ids=["copy", "feed", "vectors"])
def test_the_rows_of_a_merge_are_counted(
    spark: SparkSession, table: str, properties: dict[str, str], hidden: bool
) -> None:
    found = make(spark, table, properties | (VECTORS if hidden else {}))
    if hidden:
        found.delete("id = 12")
        found.setProperties({"delta.enableDeletionVectors": str(properties == VECTORS).lower()})
    forget_counts(table)
    _merge(found, table)
    metrics = last(table)["operationMetrics"]
    names = ("Inserted", "Updated", "Deleted", "Copied")
    copied = 0 if properties == VECTORS else 7 if hidden else 8
    assert [int(metrics[f"numTargetRows{n}"]) for n in names] == [2, 1, 1, copied]
    assert int(metrics["numOutputRows"]) == 3 + copied


def test_a_merge_answers_with_the_rows_it_changed(spark: SparkSession, table: str) -> None:
    found = make(spark, table, {}).alias("t")
    forget_counts(table)
    source = spark.range(18, 23).alias("s")
    merge = found.merge(source, "t.id = s.id").whenMatchedUpdate(set={"v": "-1"})
    out = merge.whenNotMatchedInsert(values={"id": "s.id", "v": "-2"}).execute()
    assert [tuple(r) for r in out.collect()] == [(5, 2, 0, 3)]
    out = found.merge(source, "t.id = s.id").whenMatchedUpdate(set={"v": "-3"}).execute()
    assert [tuple(r) for r in out.collect()] == [(5, 5, 0, 0)]


def test_the_feed_tells_the_rows_alone_that_a_vector_hid(spark: SparkSession, table: str) -> None:
    found = make(spark, table, FEED | VECTORS)
    found.delete("id = 3")
    forget_counts(table)
    assert feed(spark, table, 1) == [(3, 30, "delete")]
