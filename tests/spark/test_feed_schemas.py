"""The change feed over versions of other columns: shown where rows can be, refused by name where not."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import SchemaInvalidError

FEED = "'delta.enableChangeDataFeed' = 'true'"


def _changes(spark: SparkSession, table: str, first: int, last: int | None = None) -> list[tuple[Any, ...]]:
    reader = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", first)
    reader = reader if last is None else reader.option("endingVersion", last)
    frame = reader.load(table).drop("_commit_version", "_commit_timestamp")
    return sorted((tuple(r) for r in frame.collect()), key=str)


def _refused(spark: SparkSession, table: str, first: int) -> None:
    with pytest.raises(SchemaInvalidError) as found:
        _changes(spark, table, first)
    assert found.value.errorClass == "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"


def test_a_column_that_came_back_under_its_name_is_another_one(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (a INT, b STRING) USING delta "
        f"TBLPROPERTIES ({FEED}, 'delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, 'x')")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN a TO c")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN b")
    # Renamed columns are shown by the name that they have, dropped ones not at all.
    assert _changes(spark, table, 1) == [(1, "insert")]
    spark.sql(f"ALTER TABLE {name} ADD COLUMN b INT")
    spark.sql(f"INSERT INTO {name} VALUES (2, 5)")
    _refused(spark, table, 1)
    assert _changes(spark, table, 1, 1) == [(1, "x", "insert")]
    assert _changes(spark, table, 4) == [(2, 5, "insert")]


@pytest.mark.parametrize(
    ("old", "new"), [("'x'", "5L"), ("5", "'x'"), ("struct(1 AS i)", "struct('x' AS i)")]
)
def test_another_type_is_refused_and_no_file_is_called_corrupt(
    spark: SparkSession, table: str, old: str, new: str
) -> None:
    spark.sql(f"CREATE TABLE delta.`{table}` USING delta TBLPROPERTIES ({FEED}) AS SELECT {old} AS v")
    again = spark.sql(f"SELECT {new} AS v").write.format("delta").mode("overwrite")
    again.option("overwriteSchema", True).save(table)
    _refused(spark, table, 0)
    assert len(_changes(spark, table, 0, 0)) == 1


def test_other_partitions_are_refused_and_wider_types_are_read(spark: SparkSession, table: str) -> None:
    widening = "'delta.enableTypeWidening' = 'true'"
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (p INT, v INT) USING delta TBLPROPERTIES ({FEED}, {widening})")
    spark.sql(f"INSERT INTO {name} VALUES (1, 2)")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN v TYPE BIGINT")
    spark.sql(f"INSERT INTO {name} VALUES (3, 4)")
    assert _changes(spark, table, 1) == [(1, 2, "insert"), (3, 4, "insert")]
    again = spark.sql("SELECT 5 AS p, 6L AS v").write.format("delta").mode("overwrite").partitionBy("p")
    again.option("overwriteSchema", True).save(table)
    _refused(spark, table, 1)
