"""CONVERT: parquet files become a Delta table where they lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate import DeltaTable
from tidegate.commands.convert import Reading, convert_folder
from tidegate.errors import DataFileCorruptError, OptionError, SchemaInvalidError, TableNotFoundError
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


def _sound(path: str) -> bool:
    return not [f for f in verify(TableLog.at(path), deep=True).findings if f.severity == "error"]


def test_files_become_a_table_with_statistics(spark: SparkSession, table: str, rows: Rows) -> None:
    spark.range(10).withColumn("name", F.concat(F.lit("n"), F.col("id"))).repartition(2).write.parquet(table)
    made = DeltaTable.convertToDelta(spark, f"parquet.`{table}`")
    assert rows(table) == sorted((i, f"n{i}") for i in range(10))
    texts = tidegate.open(table).files().column("stats").to_pylist()
    assert sum(json.loads(t)["numRecords"] for t in texts) == 10
    assert tidegate.open(table).files("id > 100").num_rows == 0
    assert made.history().collect()[0]["operation"] == "CONVERT"
    assert _sound(table)
    spark.sql("select 11L id, 'x' name").write.format("delta").mode("append").save(table)
    assert len(rows(table)) == 11


def test_partitions_take_the_types_the_caller_gives(spark: SparkSession, table: str, rows: Rows) -> None:
    text = "if(id = 3, null, concat('a b/', id % 2)) as p"
    frame = spark.sql(f"select id, {text}, date_add(date'2026-01-01', cast(id as int)) as d from range(4)")
    frame.write.partitionBy("p", "d").parquet(table)
    DeltaTable.convertToDelta(spark, f"parquet.`{table}`", "p string, d date")
    assert rows(table, "p = 'a b/1'") == [(1, "a b/1", frame.where("id = 1").collect()[0]["d"])]
    assert [r[0] for r in rows(table, "p is null")] == [3]
    assert _sound(table)


def test_a_table_that_is_one_already_stays_as_it_is(spark: SparkSession, table: str) -> None:
    spark.range(3).write.format("delta").save(table)
    DeltaTable.convertToDelta(spark, f"parquet.`{table}`")
    assert tidegate.open(table).version == 0


def test_schemas_are_united_and_foreign_writers_understood(tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "mixed"
    path.mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int64())}), path / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([3], pa.int64()), "s": pa.array([{"x": 1}])}), path / "b.parquet")
    (path / "_SUCCESS").touch()
    assert convert_folder(TableLog.at(path)) == 2
    got = sorted(
        (r["id"], r["s"]["x"] if r["s"] else None)
        for r in DeltaTable.forPath(spark, str(path)).toDF().collect()
    )
    assert got == [(1, None), (2, None), (3, 1)]


def test_what_makes_no_table_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    def refused(name: str, error: type[Exception], schema: str | None = None) -> None:
        path = tmp_path / name
        with pytest.raises(error):
            DeltaTable.convertToDelta(spark, f"parquet.`{path}`", schema)
        assert not (path / "_delta_log").exists()

    (tmp_path / "empty").mkdir()
    refused("empty", SchemaInvalidError)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.parquet").write_text("no parquet")
    refused("text", DataFileCorruptError)
    (tmp_path / "clash").mkdir()
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), tmp_path / "clash" / "a.parquet")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "clash" / "b.parquet")
    refused("clash", SchemaInvalidError)
    (tmp_path / "parts" / "p=x").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "parts" / "p=x" / "a.parquet")
    refused("parts", AnalysisException)
    refused("parts", AnalysisException, "p int")
    refused("parts", AnalysisException, "q string")
    with pytest.raises(OptionError):
        DeltaTable.convertToDelta(spark, "iceberg.`/somewhere`")


def test_a_parquet_table_by_name_is_a_delta_table_under_the_same_name(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE converted")
    try:
        query = "SELECT id, id % 2 AS p FROM range(4)"
        spark.sql(f"CREATE TABLE converted.t USING parquet PARTITIONED BY (p) AS {query}")
        spark.sql("CREATE VIEW converted.v AS SELECT 1 AS a")
        spark.sql("CREATE TABLE converted.c (a INT) USING csv")
        assert DeltaTable.convertToDelta(spark, "converted.t").detail().head()["partitionColumns"] == ["p"]
        spark.sql("DELETE FROM converted.t WHERE id = 0")
        assert sorted(r.id for r in spark.table("converted.t").collect()) == [1, 2, 3]
        for name, error in {"v": OptionError, "c": OptionError, "none": TableNotFoundError}.items():
            with pytest.raises(error):
                DeltaTable.convertToDelta(spark, f"converted.{name}")
    finally:
        spark.sql("DROP DATABASE converted CASCADE")


def test_statistics_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), path / "a.parquet")
    convert_folder(TableLog.at(path), reading=Reading(statistics=False))
    assert json.loads(tidegate.open(path).files().column("stats")[0].as_py()) == {"numRecords": 2}
