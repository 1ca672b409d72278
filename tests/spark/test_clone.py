"""Shallow clones: of Delta tables at any version, and of parquet files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate import DeltaTable
from tidegate.commands.convert import clone_parquet
from tidegate.errors import MaintenanceRefusedError, OptionError, PropertyError, TableExistsError
from tidegate.log.table_log import TableLog

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> DeltaTable:
    path = str(tmp_path / "the source é")
    frame = spark.range(6).withColumn("p", F.concat(F.lit("a b/"), F.col("id") % 2))
    frame.write.format("delta").partitionBy("p").save(path)
    frame.where("id < 2").write.format("delta").mode("append").save(path)
    return DeltaTable.forPath(spark, path)


def _place(source: DeltaTable) -> str:
    return source.detail().collect()[0]["location"].removeprefix("file:")


def test_a_clone_has_the_rows_and_an_identity_of_its_own(source: DeltaTable, table: str, rows: Rows) -> None:
    made = source.clone(table, isShallow=True)
    assert rows(table) == rows(_place(source))
    assert rows(table, "p = 'a b/1' and id > 2") == [(3, "a b/1"), (5, "a b/1")]
    own, other = tidegate.open(table), tidegate.open(_place(source))
    assert own.metadata.id != other.metadata.id
    assert own.protocol == other.protocol
    assert all(p.startswith("file:/") for p in own.files().column("path").to_pylist())
    entry = made.history(1).collect()[0]
    assert entry["operation"] == "CLONE"
    assert entry["operationParameters"]["sourceVersion"] == "1"
    assert entry["operationMetrics"]["sourceNumOfFiles"] == str(other.num_files)


def test_both_tables_go_their_own_ways(
    spark: SparkSession, source: DeltaTable, table: str, rows: Rows
) -> None:
    made = source.clone(table, isShallow=True)
    before = rows(_place(source))
    made.delete("id = 1")
    spark.sql("select 100L id, 'c' p").write.format("delta").mode("append").save(table)
    assert rows(_place(source)) == before
    assert [r[0] for r in rows(table)] == [0, 0, 2, 3, 4, 5, 100]
    made.optimize().executeCompaction()
    assert [r[0] for r in rows(table)] == [0, 0, 2, 3, 4, 5, 100]
    source.delete("true")
    assert len(rows(table)) == 7


def test_older_versions_can_be_cloned(source: DeltaTable, tmp_path: Path, rows: Rows) -> None:
    by_version, by_time = str(tmp_path / "v"), str(tmp_path / "t")
    source.cloneAtVersion(0, by_version, isShallow=True)
    moment = tidegate.open(_place(source), version=0).timestamp.isoformat()
    source.cloneAtTimestamp(moment, by_time, isShallow=True)
    assert len(rows(by_version)) == len(rows(by_time)) == 6


def test_properties_of_the_clone_go_over_those_of_the_source(
    source: DeltaTable, table: str, tmp_path: Path
) -> None:
    source.setProperties({"mine": "1", "other": "2"})
    source.clone(table, isShallow=True, properties={"mine": "3", "delta.enableChangeDataFeed": "true"})
    snapshot = tidegate.open(table)
    assert snapshot.properties == {"mine": "3", "other": "2", "delta.enableChangeDataFeed": "true"}
    assert snapshot.protocol.supports("changeDataFeed")
    with pytest.raises(PropertyError):
        source.clone(str(tmp_path / "bad"), isShallow=True, properties={"delta.nothing": "1"})


def test_the_protocol_follows_from_the_source_alone(spark: SparkSession, tmp_path: Path, table: str) -> None:
    path = str(tmp_path / "plain")
    builder = DeltaTable.create(spark).location(path).addColumn("id", "long")
    plain = builder.property("delta.minReaderVersion", "1").property("delta.minWriterVersion", "1").execute()
    key = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
    spark.conf.set(key, "true")
    try:
        plain.clone(table, isShallow=True)
    finally:
        spark.conf.unset(key)
    assert tidegate.open(table).protocol == tidegate.open(path).protocol
    assert tidegate.open(table).properties == {}


def test_deletion_vectors_mapping_clustering_and_row_ids_come_along(
    spark: SparkSession, tmp_path: Path, table: str, rows: Rows
) -> None:
    path = str(tmp_path / "rich source")
    builder = DeltaTable.create(spark).location(path).addColumn("id", "long").clusterBy("id")
    for key in ("delta.enableDeletionVectors", "delta.enableRowTracking"):
        builder.property(key, "true")
    rich = builder.property("delta.columnMapping.mode", "name").execute()
    spark.range(10).coalesce(1).write.format("delta").mode("append").save(path)
    rich.delete("id = 4")
    made = rich.clone(table, isShallow=True)
    assert rows(table) == rows(path)
    assert made.detail().collect()[0]["clusteringColumns"] == ["id"]
    spark.range(50, 51).coalesce(1).write.format("delta").mode("append").save(table)
    assert sorted(tidegate.open(table).files().column("baseRowId").to_pylist())[-1] >= 10
    made.delete("id = 5")
    assert [r[0] for r in rows(table)] == [0, 1, 2, 3, 6, 7, 8, 9, 50]
    assert len(rows(path)) == 9


def test_a_clone_replaces_nothing_but_an_empty_table(
    spark: SparkSession, source: DeltaTable, table: str, rows: Rows
) -> None:
    with pytest.raises(MaintenanceRefusedError, match="shallow"):
        source.clone(table)
    spark.range(1).write.format("delta").save(table)
    with pytest.raises(TableExistsError):
        source.clone(table, isShallow=True)
    with pytest.raises(MaintenanceRefusedError, match="empty tables"):
        source.clone(table, isShallow=True, replace=True)
    DeltaTable.forPath(spark, table).delete()
    source.clone(table, isShallow=True, replace=True)
    assert rows(table) == rows(_place(source))


def test_parquet_files_can_be_cloned(spark: SparkSession, tmp_path: Path, table: str, rows: Rows) -> None:
    path = str(tmp_path / "files")
    frame = spark.range(4).withColumn("day", F.expr("date_add(date'2026-01-01', cast(id % 2 as int))"))
    frame.write.partitionBy("day").parquet(path)
    clone_parquet(TableLog.at(path), TableLog.at(table))
    assert tidegate.open(table).partition_columns == ("day",)
    assert [str(f.type) for f in tidegate.open(table).schema.fields] == ["long", "date"]
    assert [r[0] for r in rows(table, "day = '2026-01-02'")] == [1, 3]


def test_parquet_is_cloned_by_sql_by_its_path_and_by_its_name(
    spark: SparkSession, tmp_path: Path, table: str, rows: Rows
) -> None:
    path = str(tmp_path / "files")
    spark.range(3).write.parquet(path)
    spark.sql(f"CREATE TABLE delta.`{table}` SHALLOW CLONE parquet.`{path}`")
    assert rows(table) == [(0,), (1,), (2,)]
    spark.sql("DROP TABLE IF EXISTS parquet_to_clone")
    spark.sql(f"CREATE TABLE parquet_to_clone USING parquet LOCATION '{path}'")
    try:
        spark.sql(f"CREATE TABLE delta.`{table}2` SHALLOW CLONE parquet_to_clone")
        assert rows(table + "2") == [(0,), (1,), (2,)]
    finally:
        spark.sql("DROP TABLE parquet_to_clone")
    with pytest.raises(OptionError, match="no versions"):
        spark.sql(f"CREATE TABLE delta.`{table}3` SHALLOW CLONE parquet.`{path}` VERSION AS OF 0")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"target": 1}, "target"),
        ({"isShallow": "yes"}, "isShallow"),
        ({"replace": 1}, "replace"),
        ({"properties": [("a", "b")]}, "properties"),
        ({"properties": {"a": 1}}, "a"),
        ({"version": "1"}, "version"),
        ({"timestamp": 1}, "timestamp"),
    ],
)
def test_arguments_of_other_types_are_pythons_own_errors(
    source: DeltaTable, table: str, arguments: dict[str, Any], named: str
) -> None:
    given = {"target": table, "isShallow": True, **arguments}
    method = source.clone
    if "version" in given:
        method = source.cloneAtVersion
    elif "timestamp" in given:
        method = source.cloneAtTimestamp
    with pytest.raises(ValueError, match=named):
        method(**given)
    assert not Path(table).exists()
