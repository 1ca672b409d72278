"""RESTORE: a table becomes what it was, and its history goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from support.dml import confs, no_job
from tidegate import DeltaTable
from tidegate.commands.restore import restore
from tidegate.errors import (
    AppendOnlyError,
    DataFileMissingError,
    OptionError,
    TidegateError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


def _three_versions(spark: SparkSession, path: str) -> DeltaTable:
    spark.range(3).write.format("delta").save(path)
    spark.range(3, 5).write.format("delta").mode("append").save(path)
    spark.range(9).withColumn("more", F.lit("x")).write.format("delta").mode("overwrite").option(
        "overwriteSchema", "true"
    ).save(path)
    return DeltaTable.forPath(spark, path)


def test_rows_schema_and_files_are_what_they_were(spark: SparkSession, table: str, rows: Rows) -> None:
    made = _three_versions(spark, table)
    got = made.restoreToVersion(1).collect()
    assert rows(table) == [(i,) for i in range(5)]
    assert tidegate.open(table).version == 3
    before = tidegate.open(table, version=1)
    assert got[0].asDict() == {
        "table_size_after_restore": before.size_in_bytes,
        "num_of_files_after_restore": before.num_files,
        "num_removed_files": tidegate.open(table, version=2).num_files,
        "num_restored_files": before.num_files,
        "removed_files_size": tidegate.open(table, version=2).size_in_bytes,
        "restored_files_size": before.size_in_bytes,
    }
    entry = made.history(1).collect()[0]
    assert (entry["operation"], entry["operationParameters"]["version"]) == ("RESTORE", "1")
    assert entry["operationMetrics"]["numRestoredFiles"] == str(before.num_files)
    assert [f for f in verify(TableLog.at(table), deep=True).findings if f.severity == "error"] == []


def test_a_restore_can_itself_be_restored_from(spark: SparkSession, table: str, rows: Rows) -> None:
    made = _three_versions(spark, table)
    made.restoreToVersion(0)
    assert rows(table) == [(0,), (1,), (2,)]
    made.restoreToVersion(2)
    assert len(rows(table)) == 9
    made.restoreToTimestamp(tidegate.open(table, version=3).timestamp.isoformat())
    assert rows(table) == [(0,), (1,), (2,)]


def test_deletion_vectors_come_back_as_they_were(spark: SparkSession, table: str, rows: Rows) -> None:
    spark.range(10).coalesce(1).write.format("delta").save(table)
    made = DeltaTable.forPath(spark, table)
    made.setProperties({"delta.enableDeletionVectors": "true"})
    made.delete("id = 3")
    made.delete("id = 4")
    made.restoreToVersion(2)
    assert [r[0] for r in rows(table)] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    made.restoreToVersion(1)
    assert len(rows(table)) == 10
    assert tidegate.open(table).num_files == 1


def test_domains_and_properties_come_back_and_features_stay(spark: SparkSession, table: str) -> None:
    spark.range(3).write.format("delta").save(table)
    made = DeltaTable.forPath(spark, table)
    made.setProperties({"mine": "1"})
    made.clusterBy("id")
    made.unsetProperties("mine")
    made.restoreToVersion(2)
    assert tidegate.open(table).properties == {"mine": "1"}
    assert made.detail().collect()[0]["clusteringColumns"] == ["id"]
    made.restoreToVersion(0)
    assert tidegate.open(table).properties == {}
    assert made.detail().collect()[0]["clusteringColumns"] == []
    assert tidegate.open(table).protocol.supports("clustering")


def test_row_ids_and_column_ids_are_never_given_again(spark: SparkSession, table: str) -> None:
    builder = DeltaTable.create(spark).location(table).addColumn("id", "long")
    builder.property("delta.enableRowTracking", "true").property("delta.columnMapping.mode", "name")
    made = builder.execute()
    spark.range(5).coalesce(1).write.format("delta").mode("append").save(table)
    made.addColumns("extra string")
    made.restoreToVersion(0)
    spark.range(2).coalesce(1).write.format("delta").mode("append").save(table)
    assert tidegate.open(table).files().column("baseRowId").to_pylist() == [5]
    made.addColumns("other string")
    ids = [f.metadata["delta.columnMapping.id"] for f in tidegate.open(table).schema.fields]
    assert ids == [1, 3]


def test_the_change_feed_tells_of_a_restore(spark: SparkSession, table: str) -> None:
    builder = DeltaTable.create(spark).location(table).addColumn("id", "long")
    made = builder.property("delta.enableChangeDataFeed", "true").execute()
    spark.range(2).coalesce(1).write.format("delta").mode("append").save(table)
    spark.range(2, 3).coalesce(1).write.format("delta").mode("append").save(table)
    made.restoreToVersion(1)
    got = [(r["id"], r["_change_type"]) for r in made.changes(3, 3).collect()]
    assert got == [(2, "delete")]


def test_files_that_vacuum_took_are_missed_before_anything_is_written(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    made = _three_versions(spark, table)
    [gone] = list(Path(table).glob("*.parquet"))[:1]
    for path in tidegate.open(table, version=0).files().column("path").to_pylist()[:1]:
        gone = Path(table) / path
    gone.unlink()
    with pytest.raises(DataFileMissingError, match=gone.name):
        made.restoreToVersion(1)
    assert tidegate.open(table).version == 2
    restore(TableLog.at(table), version=1, ignore_missing=True)
    assert tidegate.open(table).version == 3


def test_what_cannot_be_restored_is_refused(spark: SparkSession, table: str) -> None:
    made = _three_versions(spark, table)
    with pytest.raises(OptionError, match="whole numbers") as caught:
        made.restoreToVersion(-1)
    assert isinstance(caught.value, IllegalArgumentException)
    with pytest.raises(VersionNotFoundError) as missing:
        made.restoreToVersion(7)
    assert isinstance(missing.value, AnalysisException)
    with pytest.raises(TimestampOutOfRangeError):
        made.restoreToTimestamp("2001-01-01")
    with pytest.raises(TimestampOutOfRangeError):
        made.restoreToTimestamp("2101-01-01 00:00:00")
    with pytest.raises(ValueError, match="int"):
        made.restoreToVersion("1")  # type: ignore[arg-type]
    made.setProperties({"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError):
        made.restoreToVersion(0)
    assert tidegate.open(table).version == 3


def test_a_protocol_comes_down_only_where_the_session_allows_it(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.range(3).write.format("delta").save(table)
    made = DeltaTable.forPath(spark, table)
    before = tidegate.open(table).protocol
    made.setProperties({"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"})
    made.delete("id = 1")
    made.restoreToVersion(0)
    assert tidegate.open(table).protocol.supports("deletionVectors")
    with confs(spark, restore__protocolDowngradeAllowed="true"):
        made.restoreToVersion(0)
    assert tidegate.open(table).protocol == before
    assert rows(table) == [(0,), (1,), (2,)]
    assert [f for f in verify(TableLog.at(table), deep=True).findings if f.severity == "error"] == []
    old = spark.read.format("delta").option("versionAsOf", 2).load(table)
    assert sorted(r[0] for r in old.collect()) == [0, 2]


def test_a_protocol_that_comes_down_keeps_what_guards_older_versions(spark: SparkSession, table: str) -> None:
    spark.range(3).write.format("delta").save(table)
    made = DeltaTable.forPath(spark, table)
    made.clusterBy("id")
    made.setProperties({"delta.enableDeletionVectors": "true"})
    made.dropFeatureSupport("deletionVectors")
    assert tidegate.open(table).protocol.supports("checkpointProtection")
    with confs(spark, restore__protocolDowngradeAllowed="true"):
        made.restoreToVersion(0)
    after = tidegate.open(table).protocol
    assert after.supports("checkpointProtection")
    assert after.supports("domainMetadata")
    assert not after.supports("clustering")
    spark.range(3, 5).write.format("delta").mode("append").save(table)
    assert spark.read.format("delta").load(table).count() == 5


def test_versions_beyond_the_retention_are_out_of_reach_where_the_session_says_so(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    spark.range(3).write.format("delta").save(table)
    spark.range(3, 5).write.format("delta").mode("append").save(table)
    made = DeltaTable.forPath(spark, table)
    made.setProperties({"delta.deletedFileRetentionDuration": "interval 0 hours"})

    def then() -> int:
        return spark.read.format("delta").option("versionAsOf", 0).load(table).count()

    attempts: list[Callable[[], object]] = [
        then,
        lambda: spark.sql(f"select * from delta.`{table}` version as of 0").count(),
        lambda: made.restoreToVersion(0),
        lambda: made.cloneAtVersion(0, str(tmp_path / "clone"), isShallow=True),
    ]
    with confs(spark, vacuum__enforceTimeTravelWithinDeletedFileRetentionDuration="true"):
        for attempt in attempts:
            with pytest.raises(TimestampOutOfRangeError, match="retention of deleted files") as caught:
                attempt()
            assert isinstance(caught.value, AnalysisException)
        assert spark.read.format("delta").option("versionAsOf", 2).load(table).count() == 5
    assert then() == 3
    made.restoreToVersion(0)
    assert made.toDF().count() == 3


@pytest.mark.parametrize(
    ("attempt", "kind"),
    [
        (lambda t: t.restoreToVersion(99), VersionNotFoundError),
        (lambda t: t.restoreToVersion(-1), OptionError),
        (lambda t: t.restoreToTimestamp("1999-01-01"), TimestampOutOfRangeError),
        (lambda t: t.cloneAtVersion(99, "/nowhere", isShallow=True), VersionNotFoundError),
        (lambda t: t.vacuum(-1), OptionError),
        (lambda t: t.vacuum(1), OptionError),
        (lambda t: t.optimize().where("id > 1").executeCompaction(), TidegateError),
        (lambda t: t.optimize().executeZOrderBy("nope"), TidegateError),
        (lambda t: t.addConstraint("c", "nope > 1"), AnalysisException),
        (lambda t: t.changes(7), TidegateError),
    ],
)
def test_what_cannot_be_served_is_refused_before_any_job(
    spark: SparkSession, table: str, attempt: Callable[[DeltaTable], object], kind: type[Exception]
) -> None:
    spark.range(3).write.format("delta").save(table)
    made = DeltaTable.forPath(spark, table)
    with no_job(spark), pytest.raises(kind):
        attempt(made)
    assert tidegate.open(table).version == 0
