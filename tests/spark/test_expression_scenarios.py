"""Expressions that a table keeps: which CHECK constraints, defaults and generated columns are refused."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import tidegate
from tidegate import DeltaTable

pytestmark = pytest.mark.spark

DEFAULTS = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"


@pytest.fixture
def plain(spark: SparkSession, table: str) -> str:
    """A table without rows that may have defaults."""
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (a INT, b INT, s STRING, ts TIMESTAMP) USING delta {DEFAULTS}")
    return name


@pytest.mark.parametrize(
    ("check", "error_class"),
    [
        ("max(a) > 1", "INVALID_WHERE_CONDITION"),
        ("row_number() OVER (ORDER BY a) > 1", "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE"),
        ("a > (SELECT 0)", "DELTA_UNSUPPORTED_SUBQUERY"),
        ("rand() > 0", "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"),
        ("a + 1", "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT"),
        ("nope > 1", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ],
)
def test_a_constraint_that_is_no_condition_on_a_row(
    spark: SparkSession, table: str, plain: str, check: str, error_class: str
) -> None:
    with pytest.raises(AnalysisException) as refused:
        spark.sql(f"ALTER TABLE {plain} ADD CONSTRAINT c CHECK ({check})")
    assert refused.value.getCondition() == error_class
    assert tidegate.open(table).version == 0


BAD_DEFAULTS = {
    "(SELECT 1)": "INVALID_DEFAULT_VALUE.SUBQUERY_EXPRESSION",
    "a": "INVALID_DEFAULT_VALUE.NOT_CONSTANT",
    "rand()": "INVALID_DEFAULT_VALUE.DATA_TYPE",
    "'x'": "INVALID_DEFAULT_VALUE.DATA_TYPE",
    "99999999999": "INVALID_DEFAULT_VALUE.DATA_TYPE",
    "1.5": "INVALID_DEFAULT_VALUE.DATA_TYPE",
    "current_date()": "INVALID_DEFAULT_VALUE.DATA_TYPE",
    "max(1)": "UNSUPPORTED_EXPR_FOR_OPERATOR",
    "row_number() OVER (ORDER BY 1)": "UNSUPPORTED_EXPR_FOR_OPERATOR",
    "nofn()": "UNRESOLVED_ROUTINE",
}


@pytest.mark.parametrize("default", BAD_DEFAULTS)
def test_a_default_that_is_no_value_of_its_column(
    spark: SparkSession, table: str, plain: str, default: str
) -> None:
    for statement in (
        f"CREATE TABLE delta.`{table}/other` (a INT, b INT DEFAULT {default}) USING delta {DEFAULTS}",
        f"ALTER TABLE {plain} ALTER COLUMN b SET DEFAULT {default}",
    ):
        with pytest.raises(AnalysisException) as refused:
            spark.sql(statement)
        assert refused.value.getCondition() == BAD_DEFAULTS[default]
    assert tidegate.open(table).version == 0


def test_defaults_that_fit(spark: SparkSession, table: str, plain: str) -> None:
    for column, default in (("b", "'5'"), ("b", "1 + 2"), ("b", "-7Y"), ("s", "concat('a', 'b')")):
        spark.sql(f"ALTER TABLE {plain} ALTER COLUMN {column} SET DEFAULT {default}")
    spark.sql(f"ALTER TABLE {plain} ALTER COLUMN ts SET DEFAULT DATE'2024-01-31'")
    spark.sql(f"INSERT INTO {plain} (a) VALUES (1)")
    found = spark.read.format("delta").load(table).selectExpr("a", "b", "s", "date(ts)").first()
    assert found is not None
    assert [str(v) for v in found] == ["1", "-7", "ab", "2024-01-31"]


def test_a_default_that_does_not_parse(spark: SparkSession, plain: str) -> None:
    with pytest.raises(ParseException):
        spark.sql(f"ALTER TABLE {plain} ALTER COLUMN b SET DEFAULT 1 +")
    with pytest.raises(AnalysisException) as refused:
        spark.sql(
            "CREATE TABLE twice (a INT, b INT GENERATED ALWAYS AS (a + 1) DEFAULT 5) USING delta " + DEFAULTS
        )
    assert refused.value.getCondition() == "GENERATED_COLUMN_WITH_DEFAULT_VALUE"


BAD_GENERATED = {
    "rand()": "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN",
    "spark_partition_id()": "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN",
    "length(input_file_name())": "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN",
    "year(current_date)": "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
    "unix_timestamp()": "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
    "max(a)": "DELTA_AGGREGATE_IN_GENERATED_COLUMN",
    "row_number() OVER (ORDER BY a)": "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
    "(SELECT 1)": "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
    "nope + 1": "DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
    "other + 1": "DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
    "cast(a AS STRING)": "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH",
    "plus_one(a)": "DELTA_UDF_IN_GENERATED_COLUMN",
}


def test_generated_columns_that_do_not_follow_from_their_row(spark: SparkSession, table: str) -> None:
    spark.udf.register("plus_one", lambda x: x + 1, "int")
    for expression, error_class in BAD_GENERATED.items():
        with pytest.raises(AnalysisException) as refused:
            spark.sql(
                f"CREATE TABLE delta.`{table}` (a INT, other INT GENERATED ALWAYS AS (a * 2), "
                f"g INT GENERATED ALWAYS AS ({expression})) USING delta"
            )
        assert refused.value.getCondition() == error_class, expression
    assert not DeltaTable.isDeltaTable(spark, table)


def test_columns_may_be_called_as_functions_are(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{table}` (current_price INT, rand INT, "
        "g INT GENERATED ALWAYS AS (abs(current_price) + rand)) USING delta"
    )
    spark.sql(f"INSERT INTO delta.`{table}` (current_price, rand) VALUES (-1, 2)")
    assert [tuple(r) for r in spark.read.format("delta").load(table).collect()] == [(-1, 2, 3)]
