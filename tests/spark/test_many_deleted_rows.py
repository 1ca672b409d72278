"""Millions of deleted rows: they travel as bits, so a driver of two gigabytes has room for them.

A deep run deletes ten million rows, in so many files that executors read the vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.spark.scan.vectors import MANY_VECTORS

pytestmark = pytest.mark.spark

VECTORS = "spark.databricks.delta.properties.defaults.enableDeletionVectors"


@pytest.fixture(params=["false", "true"])
def way(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.tidegate.read.portable", request.param)
    yield
    spark.conf.unset("spark.tidegate.read.portable")


def test_half_of_a_tables_rows_are_deleted_and_the_rest_is_read(
    spark: SparkSession, table: str, deep: bool, way: None
) -> None:
    assert spark.conf.get("spark.driver.memory") == "2g"
    rows, files = (20_000_000, MANY_VECTORS) if deep else (200_000, 2)
    spark.conf.set(VECTORS, "true")
    try:
        spark.range(0, rows, 1, files).write.format("delta").save(table)
    finally:
        spark.conf.unset(VECTORS)
    tidegate.DeltaTable.forPath(spark, table).delete("id % 2 = 0")
    cardinality = [
        v["cardinality"] for v in tidegate.open(table).files().column("deletionVector").to_pylist()
    ]
    assert sum(cardinality) == rows // 2
    found = spark.read.format("delta").load(table).selectExpr("count(*)", "sum(id)", "min(id % 2)").first()
    assert tuple(found) == (rows // 2, (rows // 2) ** 2, 1)
