"""The current time is one for a whole command, however many queries it takes to find rows and to write them.

Rows lie a hundredth of a second apart around now: two queries of one command that asked for the time each on
their own would disagree on some of them.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from support.dml import last
from tidegate import DeltaTable

ROWS = 12_000


@pytest.fixture(params=[True, False], ids=["vectors", "copies"])
def around_now(request: pytest.FixtureRequest, spark: SparkSession, table: str) -> str:
    moments = "current_timestamp() + make_dt_interval(0, 0, 0, (id - 2000) * 0.01) AS ts"
    frame = spark.range(0, ROWS, 1, 1).selectExpr("id", moments, "0 AS v")
    vectors = str(request.param).lower()
    frame.write.format("delta").option("delta.enableDeletionVectors", vectors).save(table)
    return table


@pytest.mark.parametrize("condition", ["ts > current_timestamp()", "ts < now()", "column"])
def test_an_update_loses_no_row_and_doubles_none(
    spark: SparkSession, around_now: str, condition: str
) -> None:
    asked = F.col("ts") > F.current_timestamp() if condition == "column" else condition
    DeltaTable.forPath(spark, around_now).update(asked, {"v": "1", "ts": "now()"})
    found = spark.read.format("delta").load(around_now)
    assert found.count() == found.select("id").distinct().count() == ROWS
    updated = found.where("v = 1")
    assert updated.count() == int(last(around_now)["operationMetrics"]["numUpdatedRows"])
    assert updated.select("ts").distinct().count() == 1


def test_a_delete_counts_the_rows_that_it_takes(spark: SparkSession, around_now: str) -> None:
    DeltaTable.forPath(spark, around_now).delete("ts > now()")
    left = spark.read.format("delta").load(around_now).count()
    assert 0 < left == ROWS - int(last(around_now)["operationMetrics"]["numDeletedRows"])


def test_a_replacement_counts_the_rows_that_it_takes(spark: SparkSession, around_now: str) -> None:
    none = spark.read.format("delta").load(around_now).where("false")
    writer = none.write.format("delta").mode("overwrite")
    writer.option("replaceWhere", "ts > current_timestamp()").save(around_now)
    left = spark.read.format("delta").load(around_now).count()
    assert 0 < left == ROWS - int(last(around_now)["operationMetrics"]["numDeletedRows"])
