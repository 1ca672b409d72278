"""``commitInfo.userMetadata``: every commit of the session carries it, whatever command made it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate import DeltaTable

pytestmark = pytest.mark.spark
CONF = "spark.databricks.delta.commitInfo.userMetadata"


@pytest.fixture
def says(spark: SparkSession) -> Iterator[str]:
    spark.conf.set(CONF, "nightly")
    yield "nightly"
    spark.conf.unset(CONF)


def _said(path: str) -> dict[str, object]:
    return {c["operation"]: c.get("userMetadata") for c in tidegate.open(path).history()}


def test_every_command_that_commits_carries_what_the_session_says(
    spark: SparkSession, table: str, tmp_path: Path, says: str
) -> None:
    found = (
        DeltaTable.create(spark)
        .location(table)
        .addColumn("id", "BIGINT")
        .property("delta.autoOptimize.autoCompact", "false")
        .execute()
    )
    for _ in range(2):
        spark.range(3).coalesce(1).write.format("delta").mode("append").save(table)
    found.optimize().executeCompaction()
    found.setProperties({"delta.appendOnly": "false"})
    found.restoreToVersion(2)
    found.vacuum()
    found.delete("id = 1")
    found.upgradeTableProtocol(1, 3)
    expected = {
        "CREATE TABLE",
        "WRITE",
        "OPTIMIZE",
        "SET TBLPROPERTIES",
        "RESTORE",
        "VACUUM START",
        "VACUUM END",
        "DELETE",
        "UPGRADE PROTOCOL",
    }
    assert _said(table) == dict.fromkeys(expected, says)
    clone = str(tmp_path / "clone")
    found.clone(clone, isShallow=True)
    assert _said(clone) == {"CLONE": says}
    spark.range(1).write.parquet(str(tmp_path / "parquet"))
    DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path / 'parquet'}`")
    assert _said(str(tmp_path / "parquet")) == {"CONVERT": says}


def test_an_auto_compaction_carries_it_too_and_the_write_its_own_word(
    spark: SparkSession, table: str, says: str
) -> None:
    spark.range(0).write.format("delta").save(table)
    DeltaTable.forPath(spark, table).setProperties({"delta.autoOptimize.autoCompact": "true"})
    spark.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "2")
    try:
        frame = spark.range(0, 4, 1, 2).write.format("delta").mode("append")
        frame.option("userMetadata", "by hand").save(table)
    finally:
        spark.conf.unset("spark.databricks.delta.autoCompact.minNumFiles")
    last, before = tidegate.open(table).history(2)
    assert (last["operation"], last["userMetadata"]) == ("OPTIMIZE", says)
    assert (before["operation"], before["userMetadata"]) == ("WRITE", "by hand")


def test_a_table_opened_before_says_what_holds_at_the_commit(spark: SparkSession, table: str) -> None:
    spark.range(1).write.format("delta").save(table)
    opened = DeltaTable.forPath(spark, table)
    spark.conf.set(CONF, "later")
    try:
        opened.setProperties({"a": "1"})
    finally:
        spark.conf.unset(CONF)
    opened.setProperties({"a": "2"})
    last, before, first = tidegate.open(table).history()
    assert [c.get("userMetadata") for c in (last, before, first)] == [None, "later", None]
