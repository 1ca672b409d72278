"""What follows a write: auto compaction, and manifests that are kept up to date."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate import DeltaTable
from tidegate.commands import optimize as optimizing

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]
PREFIX = "spark.databricks.delta.autoCompact."


@pytest.fixture(autouse=True)
def _few(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PREFIX + "minNumFiles", "3")
    yield
    for name in ("minNumFiles", "enabled", "maxFileSize"):
        spark.conf.unset(PREFIX + name)


def _append(spark: SparkSession, path: str, start: int, end: int) -> None:
    frame = spark.range(start, end).withColumn("p", F.col("id") % 2).coalesce(1)
    frame.write.format("delta").mode("append").partitionBy("p").save(path)


def _operations(spark: SparkSession, path: str) -> list[tuple[str, str | None]]:
    found = DeltaTable.forPath(spark, path).history().sort("version").collect()
    return [(r["operation"], r["operationParameters"].get("auto")) for r in found]


def test_enough_small_files_in_a_partition_become_one(spark: SparkSession, table: str, rows: Rows) -> None:
    _append(spark, table, 0, 2)
    DeltaTable.forPath(spark, table).setProperties({"delta.autoOptimize.autoCompact": "true"})
    _append(spark, table, 2, 4)
    assert tidegate.open(table).num_files == 4
    spark.createDataFrame([(5, 1)], "id long, p long").coalesce(1).write.format("delta").mode("append").save(
        table
    )
    assert _operations(spark, table)[-1] == ("OPTIMIZE", "true")
    assert tidegate.open(table).files("p = 1").num_rows == 1
    assert tidegate.open(table).files("p = 0").num_rows == 2
    assert [r[0] for r in rows(table)] == [0, 1, 2, 3, 5]


def test_the_session_goes_before_the_table(spark: SparkSession, table: str) -> None:
    spark.conf.set(PREFIX + "enabled", "true")
    for i in range(3):
        _append(spark, table, 2 * i, 2 * i + 2)
    assert tidegate.open(table).num_files == 2
    spark.conf.set(PREFIX + "enabled", "false")
    DeltaTable.forPath(spark, table).setProperties({"delta.autoOptimize.autoCompact": "true"})
    for i in range(3):
        _append(spark, table, 2 * i, 2 * i + 2)
    assert tidegate.open(table).num_files == 8


def test_a_table_that_does_not_ask_is_left_alone(spark: SparkSession, table: str) -> None:
    for i in range(4):
        _append(spark, table, 2 * i, 2 * i + 2)
    assert tidegate.open(table).num_files == 8


def test_changes_of_rows_are_followed_too(spark: SparkSession, table: str, rows: Rows) -> None:
    for i in range(3):
        _append(spark, table, 4 * i, 4 * i + 4)
    made = DeltaTable.forPath(spark, table)
    made.setProperties({"delta.autoOptimize.autoCompact": "true"})
    made.update("id = 0", {"id": "100"})
    assert _operations(spark, table)[-1] == ("OPTIMIZE", "true")
    assert tidegate.open(table).files("p = 0").num_rows == 1
    assert len(rows(table)) == 12


def test_a_compaction_that_fails_does_not_fail_the_write(
    spark: SparkSession, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no room left")

    monkeypatch.setattr(optimizing, "write_files", failing)
    spark.conf.set(PREFIX + "enabled", "true")
    for i in range(3):
        _append(spark, table, 2 * i, 2 * i + 2)
    assert tidegate.open(table).num_files == 6
    assert len(rows(table)) == 6


def test_manifests_are_made_and_kept_up_to_date(spark: SparkSession, table: str) -> None:
    _append(spark, table, 0, 4)
    made = DeltaTable.forPath(spark, table)
    made.generate("symlink_format_manifest")
    folder = Path(table) / "_symlink_format_manifest"

    def listed() -> set[str]:
        lines = [p.read_text().splitlines() for p in folder.rglob("manifest")]
        return {line.removeprefix("file:") for some in lines for line in some}

    def live() -> set[str]:
        return {f"{table}/{p}" for p in tidegate.open(table).files().column("path").to_pylist()}

    assert listed() == live()
    assert sorted(p.parent.name for p in folder.rglob("manifest")) == ["p=0", "p=1"]
    made.setProperties({"delta.compatibility.symlinkFormatManifest.enabled": "true"})
    _append(spark, table, 4, 6)
    assert listed() == live()
    made.delete("p = 1")
    assert listed() == live()
    assert [p.parent.name for p in folder.rglob("manifest")] == ["p=0"]


def test_a_table_that_needs_its_log_has_no_manifest(spark: SparkSession, table: str) -> None:
    from tidegate.errors import MaintenanceRefusedError, OptionError

    _append(spark, table, 0, 4)
    made = DeltaTable.forPath(spark, table)
    with pytest.raises(OptionError):
        made.generate("something else")
    made.setProperties({"delta.enableDeletionVectors": "true"})
    spark.range(10, 20).withColumn("p", F.lit(0)).coalesce(1).write.format("delta").mode("append").save(table)
    made.delete("id = 11")
    with pytest.raises(MaintenanceRefusedError, match="deletion vectors"):
        made.generate("symlink_format_manifest")


def test_vacuum_in_a_session_follows_its_confs(spark: SparkSession, table: str, rows: Rows) -> None:
    from pyspark.errors import IllegalArgumentException

    from tidegate.commands.vacuum_spark import vacuum
    from tidegate.errors import RetentionTooShortError
    from tidegate.log.table_log import TableLog

    _append(spark, table, 0, 4)
    made = DeltaTable.forPath(spark, table)
    made.delete("p = 1")
    before = rows(table)
    with pytest.raises(RetentionTooShortError) as caught:
        made.vacuum(0)
    assert isinstance(caught.value, IllegalArgumentException)
    key = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(key, "false")
    try:
        inventory = spark.createDataFrame(
            [(f"file:{table}/nowhere.parquet", 1, False, 0)],
            "path string, length bigint, isDir boolean, modificationTime bigint",
        )
        assert vacuum(spark, TableLog.at(table), 0, inventory=inventory, dry_run=True).count == 1
        assert made.vacuum(0).collect() == []
    finally:
        spark.conf.unset(key)
    assert not list(Path(table).glob("p=1/*.parquet"))
    assert rows(table) == before


def test_many_files_are_deleted_by_the_tasks_of_a_job(
    spark: SparkSession, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.commands import vacuum_spark
    from tidegate.commands.vacuum_listing import list_here
    from tidegate.log.table_log import TableLog

    def not_here(*_: object) -> None:
        raise AssertionError("the driver does it")

    _append(spark, table, 0, 4)
    before = rows(table)
    for i in range(30):
        orphan = Path(table) / f"p=1/orphan é {i}.parquet"
        (orphan.parent / f".{orphan.name}.crc").write_bytes(b"x")
        orphan.write_bytes(b"x")
        os.utime(orphan, (1, 1))
    monkeypatch.setattr(vacuum_spark, "delete_here", not_here)
    with pytest.raises(AssertionError):
        vacuum_spark.vacuum(spark, TableLog.at(table))
    found = vacuum_spark.list_on_spark(spark, TableLog.at(table), ["p=0/", "p=1/"])
    assert found.equals(list_here(TableLog.at(table), []))
    monkeypatch.setattr(vacuum_spark, "MANY", 29)
    assert vacuum_spark.vacuum(spark, TableLog.at(table)).count == 30
    assert not list(Path(table).rglob("*orphan*"))
    assert rows(table) == before
    entry = DeltaTable.forPath(spark, table).history(1).collect()[0]
    assert entry["operationMetrics"]["numDeletedFiles"] == "30"
