"""VACUUM in a session: statements, inventories, vectors and change files, and what is told of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tidegate
from tidegate import DeltaTable
from tidegate.errors import DataFileMissingError

pytestmark = pytest.mark.spark

DELTA = "spark.databricks.delta."
UNCHECKED = DELTA + "retentionDurationCheck.enabled"
OLD = (1.0, 1.0)


@pytest.fixture
def unchecked(spark: SparkSession) -> Iterator[None]:
    """No retention is too short."""
    spark.conf.set(UNCHECKED, "false")
    yield
    spark.conf.unset(UNCHECKED)


def _put(table: str, *names: str) -> None:
    """Files that no commit names, from long ago."""
    for name in names:
        path = Path(table) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("gibberish")
        os.utime(path, OLD)


def _aged(table: str) -> None:
    """As if all data files had been written long ago, so that only the log decides."""
    for path in Path(table).rglob("*"):
        if path.is_file() and "_delta_log" not in path.parts:
            os.utime(path, OLD)


def _kinds(table: str) -> dict[str, int]:
    found = [p for p in Path(table).rglob("*") if "_delta_log" not in p.parts and not p.name.startswith(".")]
    return {suffix: sum(p.suffix == f".{suffix}" for p in found) for suffix in ("parquet", "bin")}


def _paths(spark: SparkSession, statement: str) -> list[str]:
    return sorted(r[0].removeprefix("file:") for r in spark.sql(statement).collect())


def _condition(spark: SparkSession, statement: str) -> str | None:
    with pytest.raises(PySparkException) as caught:
        spark.sql(statement).collect()
    condition: str | None = caught.value.getCondition()
    return condition


def test_a_dry_run_names_files_and_empty_folders_and_a_run_names_the_table(
    spark: SparkSession, table: str
) -> None:
    spark.range(0, 4, 1, 1).selectExpr("id", "id % 2 AS p").write.format("delta").partitionBy("p").save(table)
    going = ["a b/#1/f%202.txt", "lost.txt", "metadata/x.json", "p=1/é.parquet"]
    kept = [".hidden.txt", ".hoodie/1.commit", "_mine/1.txt"]
    _put(table, *going, *kept)
    (Path(table) / "empty").mkdir()
    os.utime(Path(table) / "empty", OLD)
    told = _paths(spark, f"VACUUM '{table}' DRY RUN")
    assert told == sorted(f"{table}/{n}" for n in (*going, "empty"))
    assert all((Path(table) / n).exists() for n in going)
    assert spark.sql(f"VACUUM delta.`{table}` LITE DRY RUN").collect() == []
    assert _paths(spark, f"VACUUM delta.`{table}`") == [table]
    assert not any((Path(table) / n).exists() for n in (*going, "empty"))
    assert all((Path(table) / n).exists() for n in kept)
    end, start = DeltaTable.forPath(spark, table).history(2).collect()
    assert start["operationMetrics"] == {"numFilesToDelete": "5", "sizeOfDataToDelete": "36"}
    assert start["operationParameters"] == {
        "retentionCheckEnabled": "true",
        "defaultRetentionMillis": "604800000",
    }
    assert (end["operation"], end["operationParameters"]) == ("VACUUM END", {"status": "COMPLETED"})
    assert end["operationMetrics"]["numDeletedFiles"] == "5"
    assert DeltaTable.forPath(spark, table).vacuum().columns == []


def test_statements_that_make_no_sense_are_refused(
    spark: SparkSession, table: str, tmp_path: Path, unchecked: None
) -> None:
    spark.range(0, 4, 1, 1).selectExpr("id", "id % 2 AS p").write.format("delta").partitionBy("p").save(table)
    spark.range(1).write.parquet(str(tmp_path / "plain"))
    for clause in ("DRY RUN DRY RUN", "RETAIN 2 HOURS RETAIN 2 HOURS", "FULL LITE"):
        assert _condition(spark, f"VACUUM '{table}' {clause}") == "DUPLICATE_CLAUSES"
    twice = "USING INVENTORY t INVENTORY t"
    assert _condition(spark, f"VACUUM '{table}' {twice}") == "PARSE_SYNTAX_ERROR"
    spark.read.format("delta").load(table).createOrReplaceTempView("vacuumed")
    generate = "GENERATE symlink_format_manifest FOR TABLE vacuumed"
    for statement in ("VACUUM vacuumed", "OPTIMIZE vacuumed", "REORG TABLE vacuumed APPLY (PURGE)", generate):
        assert _condition(spark, statement) == "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE"
    spark.catalog.dropTempView("vacuumed")
    short = "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"
    assert _condition(spark, f"VACUUM '{table}' RETAIN -2 HOURS") == short
    assert _condition(spark, f"VACUUM '{table}' USING INVENTORY delta.`{table}`") == (
        "DELTA_INVALID_INVENTORY_SCHEMA"
    )
    assert _condition(spark, f"VACUUM '{table}' LITE USING INVENTORY delta.`{table}`") is not None
    for place in (tmp_path / "nothing", tmp_path / "plain", f"{table}/p=0"):
        assert _condition(spark, f"VACUUM '{place}'") == "DELTA_TABLE_ONLY_OPERATION"
        assert _condition(spark, f"VACUUM delta.`{place}`") == "DELTA_MISSING_DELTA_TABLE"
    spark.conf.set(UNCHECKED, "true")
    assert _condition(spark, f"VACUUM '{table}' RETAIN 167 HOURS") == short
    assert tidegate.open(table).version == 0


def test_an_inventory_may_be_a_table_or_a_query(spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.range(0, 4, 1, 1).selectExpr("id", "id AS _p").write.format("delta").partitionBy("_p").save(table)
    names = ["one.txt", "two.txt", "_p=1/x.txt", "_q=1/x.txt"]
    _put(table, *names)
    listed = [(f"file:{table}", True), *((f"file:{table}/{n}", False) for n in names), ("/tmp/x", False)]
    columns = "path string, length bigint, isDir boolean, modificationTime bigint"
    frame = spark.createDataFrame([(path, 9, folder, 0) for path, folder in listed], columns)
    inventory = str(tmp_path / "inventory")
    frame.write.format("delta").save(inventory)
    query = f"(SELECT * FROM delta.`{inventory}` WHERE path NOT LIKE '%two%')"
    assert _paths(spark, f"VACUUM '{table}' USING INVENTORY {query} DRY RUN") == [
        f"{table}/_p=1/x.txt",
        f"{table}/one.txt",
    ]
    _paths(spark, f"VACUUM '{table}' USING INVENTORY delta.`{inventory}`")
    assert [(Path(table) / n).exists() for n in names] == [False, False, False, True]
    assert spark.read.format("delta").load(table).count() == 4


def test_vectors_go_with_the_files_that_a_purge_has_replaced(
    spark: SparkSession, table: str, unchecked: None
) -> None:
    spark.range(0, 30, 1, 3).write.format("delta").option("delta.enableDeletionVectors", "true").save(table)
    made = DeltaTable.forPath(spark, table)
    made.delete("id % 2 = 0 AND id < 20")
    made.vacuum(0)
    assert _kinds(table) == {"parquet": 3, "bin": 1}
    spark.conf.set(DELTA + "optimize.maxFileSize", "2")
    try:
        spark.sql(f"REORG TABLE delta.`{table}` APPLY (PURGE)")
    finally:
        spark.conf.unset(DELTA + "optimize.maxFileSize")
    _put(table, "lost.parquet")
    _aged(table)
    made.vacuum(10)
    assert _kinds(table) == {"parquet": 5, "bin": 1}
    _put(table, "lost.parquet")
    spark.conf.set(DELTA + "vacuum.lite.enabled", "true")
    try:
        made.vacuum(0)
    finally:
        spark.conf.unset(DELTA + "vacuum.lite.enabled")
    assert _kinds(table) == {"parquet": 4, "bin": 0}
    _paths(spark, f"VACUUM '{table}' FULL RETAIN 0 HOURS")
    assert _kinds(table) == {"parquet": 3, "bin": 0}
    assert spark.read.format("delta").load(table).count() == 20


def test_change_files_go_with_their_commits_and_are_missed_by_name(
    spark: SparkSession, table: str, unchecked: None
) -> None:
    writer = spark.range(0, 10, 1, 1).write.format("delta").option("delta.enableChangeDataFeed", "true")
    writer.save(table)
    made = DeltaTable.forPath(spark, table)
    made.update("id = 0", {"id": "11"})
    _aged(table)

    def changes() -> int:
        return len(list((Path(table) / "_change_data").glob("*.parquet")))

    assert changes() == 1
    made.vacuum(100)
    assert changes() == 1
    made.vacuum(0)
    assert changes() == 0
    assert spark.read.format("delta").load(table).count() == 10
    feed: Any = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    with pytest.raises(DataFileMissingError, match="cdc-"):
        feed.option("endingVersion", 1).load(table).collect()
