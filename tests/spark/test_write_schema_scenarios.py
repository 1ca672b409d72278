"""Writes whose schema is not the table's: what fits, what evolves, what is refused and with which words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


def write(spark: SparkSession, table: str, query: str, mode: str = "append", **options: object) -> None:
    spark.sql(query).write.format("delta").mode(mode).options(**options).save(table)


def test_small_whole_numbers_grow_with_the_data(spark: SparkSession, table: str, rows: Rows) -> None:
    nested = "named_struct('x', cast({0} AS {1})) AS s"
    write(spark, table, f"SELECT cast(1 AS byte) AS a, {nested.format(1, 'short')}")
    write(spark, table, f"SELECT 70000 AS a, {nested.format(2, 'short')}", mergeSchema=True)
    write(spark, table, f"SELECT cast(3 AS short) AS a, {nested.format(80000, 'int')}", mergeSchema=True)
    assert spark.read.format("delta").load(table).schema.simpleString() == "struct<a:int,s:struct<x:int>>"
    assert [(a, tuple(s)) for a, s in rows(table)] == [(1, (1,)), (3, (80000,)), (70000, (2,))]
    assert [r[0] for r in rows(table, "a > 5")] == [70000]


def test_a_column_of_nulls_gets_its_type_by_merge_schema_alone(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    write(spark, table, "SELECT 1 AS a, null AS b")
    with pytest.raises(AnalysisException, match="mergeSchema") as refused:
        write(spark, table, "SELECT 2 AS a, 3 AS b")
    assert refused.value.getCondition() == "DELTA_METADATA_MISMATCH"
    write(spark, table, "SELECT 2 AS a, 3 AS b", mergeSchema=True)
    assert rows(table) == [(1, None), (2, 3)]


def test_a_partition_column_named_twice(spark: SparkSession, table: str) -> None:
    for make in (
        lambda: spark.range(1).selectExpr("id", "1 AS p").write.format("delta").partitionBy("p", "P"),
        lambda: spark.range(1).selectExpr("id", "1 AS p").write.format("delta").partitionBy("p", "p"),
    ):
        with pytest.raises(AnalysisException) as refused:
            make().save(table)
        assert refused.value.getCondition() == "DELTA_DUPLICATE_COLUMNS_FOUND.PARTITION_COLUMNS"
    with pytest.raises(AnalysisException):
        spark.sql(f"CREATE TABLE delta.`{table}` (a INT, p INT) USING delta PARTITIONED BY (p, p)")


def test_the_table_keeps_the_case_of_its_names(spark: SparkSession, table: str, rows: Rows) -> None:
    write(spark, table, "SELECT 1 AS Id, named_struct('Xy', 1) AS S")
    write(spark, table, "SELECT named_struct('xY', 2) AS s, 2 AS iD")
    write(spark, table, "SELECT 3 AS ID, named_struct('XY', 3, 'Z', 4) AS s", mergeSchema=True)
    kind = spark.read.format("delta").load(table).schema.simpleString()
    assert kind == "struct<Id:int,S:struct<Xy:int,Z:int>>"
    assert [(i, tuple(s)) for i, s in rows(table)] == [(1, (1, None)), (2, (2, None)), (3, (3, 4))]
