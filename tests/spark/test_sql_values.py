"""What INSERT, UPDATE and MERGE store: DEFAULT, and values that are text; a name that moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import AlterRefusedError, PredicateError, TidegateError

pytestmark = pytest.mark.spark


@pytest.fixture
def sql(spark: SparkSession) -> Any:
    return lambda text: [tuple(r) for r in spark.sql(text).collect()]


@pytest.fixture
def with_defaults(sql: Any, table: str) -> str:
    """A table of three columns, of which the second and the third have defaults."""
    name = f"delta.`{table}`"
    sql(
        f"CREATE TABLE {name} (a INT, b STRING DEFAULT 'd', c INT DEFAULT 1 + 1) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    return name


def test_default_is_a_value_in_insert(sql: Any, with_defaults: str) -> None:
    sql(f"INSERT INTO {with_defaults} VALUES (1, DEFAULT, 5), (2, 'x', DEFAULT), (DEFAULT, 'n', 0)")
    sql(f"INSERT INTO {with_defaults} (c, a) VALUES (DEFAULT, 3)")
    sql(f"INSERT INTO {with_defaults} SELECT 4, DEFAULT, 6")
    found = sql(f"SELECT * FROM {with_defaults} ORDER BY a")
    assert found == [(None, "n", 0), (1, "d", 5), (2, "x", 2), (3, "d", 2), (4, "d", 6)]


def test_default_is_a_value_in_update_and_merge(sql: Any, with_defaults: str) -> None:
    sql(f"INSERT INTO {with_defaults} VALUES (1, 'x', 5), (2, 'y', 6)")
    assert sql(f"UPDATE {with_defaults} SET c = DEFAULT, a = a + 10 WHERE a = 2") == [(1,)]
    merged = sql(
        f"MERGE INTO {with_defaults} t USING (SELECT 1 AS a UNION ALL SELECT 7) s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET t.b = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (a, b, c) VALUES (s.a, DEFAULT, DEFAULT)"
    )
    assert merged == [(2, 1, 0, 1)]
    assert sql(f"SELECT * FROM {with_defaults} ORDER BY a") == [(1, "d", 5), (7, "d", 2), (12, "y", 2)]


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO {} VALUES (1, DEFAULT || 'x', 2)", "UPDATE {} SET b = concat(DEFAULT, 'x')"],
)
def test_default_within_an_expression_is_refused(sql: Any, with_defaults: str, statement: str) -> None:
    with pytest.raises(PredicateError) as told:
        sql(statement.format(with_defaults))
    assert told.value.errorClass == "DEFAULT_PLACEMENT_INVALID"
    assert sql(f"SELECT count(*) FROM {with_defaults}") == [(0,)]


def test_text_is_inserted_as_the_value_it_spells(spark: SparkSession, sql: Any, table: str) -> None:
    sql(f"CREATE TABLE delta.`{table}` (d DATE, m DECIMAL(6,2), b BOOLEAN, i INT) USING delta")
    sql(f"INSERT INTO delta.`{table}` SELECT '2024-02-02', '4.25', 'true', '7'")
    assert sql(f"SELECT CAST(d AS STRING), CAST(m AS STRING), b, i FROM delta.`{table}`") == [
        ("2024-02-02", "4.25", True, 7)
    ]
    with pytest.raises(PySparkException) as told:
        sql(f"INSERT INTO delta.`{table}` SELECT '2024-02-02', '4.25', 'true', 'seven'")
    assert told.value.getCondition() == "CAST_INVALID_INPUT"
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(PySparkException, match="does not fit into i"):
            # Spark would make null of it without a word.
            sql(f"INSERT INTO delta.`{table}` SELECT '2024-02-02', '4.25', 'true', 'seven'")
        assert tidegate.open(table).version == 1
        sql(f"INSERT INTO delta.`{table}` SELECT '2024-02-03', '4.25', 'true', '8'")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert sql(f"SELECT i FROM delta.`{table}` WHERE d = DATE'2024-02-03'") == [(8,)]


@pytest.fixture
def name(spark: SparkSession, table: str) -> Iterator[str]:
    """The name of an external table that holds one row."""
    spark.sql("CREATE DATABASE IF NOT EXISTS moved")
    spark.sql(f"CREATE TABLE moved.t (a INT) USING delta LOCATION '{table}'")
    spark.sql("INSERT INTO moved.t VALUES (1)")
    yield "moved.t"
    spark.sql("DROP DATABASE moved CASCADE")


def test_a_name_is_moved_to_a_table_of_the_same_columns(sql: Any, name: str, table: str) -> None:
    sql(f"CREATE TABLE delta.`{table}2` (a INT) USING delta")
    sql(f"INSERT INTO delta.`{table}2` VALUES (2)")
    sql(f"ALTER TABLE {name} SET LOCATION '{table}2'")
    assert sql(f"SELECT * FROM {name}") == [(2,)]
    sql(f"INSERT INTO {name} VALUES (3)")
    assert sorted(sql(f"SELECT * FROM delta.`{table}2`")) == [(2,), (3,)]
    assert sql(f"SELECT * FROM delta.`{table}`") == [(1,)]


def test_a_name_is_not_moved_to_other_columns_or_to_nothing(
    spark: SparkSession, sql: Any, name: str, table: str
) -> None:
    sql(f"CREATE TABLE delta.`{table}2` (other STRING) USING delta")
    with pytest.raises(AlterRefusedError) as told:
        sql(f"ALTER TABLE {name} SET LOCATION '{table}2'")
    assert told.value.errorClass == "DELTA_SET_LOCATION_SCHEMA_MISMATCH"
    with pytest.raises(TidegateError):
        sql(f"ALTER TABLE {name} SET LOCATION '{table}-none'")
    assert sql(f"SELECT * FROM {name}") == [(1,)]
    spark.conf.set("spark.databricks.delta.alterLocation.bypassSchemaCheck", "true")
    try:
        sql(f"ALTER TABLE {name} SET LOCATION '{table}2'")
    finally:
        spark.conf.unset("spark.databricks.delta.alterLocation.bypassSchemaCheck")
    assert spark.table(name).columns == ["other"]
