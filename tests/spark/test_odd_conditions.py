"""Conditions that mean what Spark says they mean, where the log could take them for something else."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from support.dml import session_confs
from tidegate import DeltaTable
from tidegate.errors import PredicateError


def _table(spark: SparkSession, table: str, rows: str, partition: str | None) -> None:
    """The rows of a query, a file each, in partitions or not."""
    for i in range(spark.sql(rows).count()):
        writer = (
            spark.sql(rows).orderBy("id").offset(i).limit(1).coalesce(1).write.format("delta").mode("append")
        )
        (writer.partitionBy(partition) if partition else writer).save(table)


LEFT = [
    # Without ANSI mode a text is cast to the column's own type, where it is null.
    ("INT", "1, 2", "p < '9999999999'", {"ansi__enabled": "false"}),
    ("TINYINT", "1, 2", "p <= '300'", {"ansi__enabled": "false"}),
    # A pattern without a wildcard is held against the text of a value.
    ("DOUBLE", "1, 2", "p LIKE '1'", {}),
    ("DOUBLE", "1, 2", "p NOT LIKE '2'", {}),
    ("TIMESTAMP", "DATE'2024-01-01', DATE'2024-01-02'", "p LIKE '2024-01-01'", {}),
    ("STRING", "'a', 'ab'", "p LIKE 'a'", {}),
    ("STRING", "'a', 'ab'", "p NOT LIKE 'a'", {}),
    # An instant is another time of the day in each zone.
    (
        "TIMESTAMP_NTZ",
        "TIMESTAMP_NTZ'2023-12-31 20:00:00', TIMESTAMP_NTZ'2023-12-31 10:00:00'",
        "p >= TIMESTAMP'2024-01-01 00:00:00Z'",
        {"session__timeZone": "America/Los_Angeles"},
    ),
    # Between double quotes stands a name.
    ("STRING", "'b', 'x'", 'p = "id"', {"ansi__doubleQuotedIdentifiers": "true"}),
    ("STRING", "'id', '1'", 'p = "id"', {"ansi__doubleQuotedIdentifiers": "true"}),
]


@pytest.mark.parametrize("partition", ["p", None])
@pytest.mark.parametrize(("kind", "values", "condition", "confs"), LEFT)
def test_a_delete_takes_the_rows_that_a_query_finds(
    spark: SparkSession,
    table: str,
    kind: str,
    values: str,
    condition: str,
    confs: dict[str, str],
    partition: str | None,
) -> None:
    listed = f"SELECT posexplode(array({values})) AS (id, p)"
    _table(
        spark,
        table,
        f"SELECT CAST(id + 1 AS STRING) AS id, CAST(p AS {kind}) AS p FROM ({listed})",
        partition,
    )
    frame = spark.read.format("delta").load(table)
    with session_confs(spark, **confs):
        # Spark's own answer, of rows that no file was left out of.
        kept = frame.withColumn("taken", F.expr(condition)).where("taken is not true").select("id", "p")
        expected = sorted(map(str, kept.collect()))
        found = sorted(
            map(str, spark.read.format("delta").load(table).where(f"NOT ({condition}) IS TRUE").collect())
        )
        assert found == expected
        DeltaTable.forPath(spark, table).delete(condition)
    assert sorted(map(str, spark.read.format("delta").load(table).collect())) == expected


def test_a_merge_on_dates_that_python_does_not_know(spark: SparkSession, table: str) -> None:
    spark.sql("SELECT DATE'9999-12-31' + 10 AS d, 1 AS v").write.format("delta").save(table)
    source = spark.sql("SELECT DATE'9999-12-31' + 10 AS d, 2 AS v").alias("s")
    DeltaTable.forPath(spark, table).alias("t").merge(source, "t.d = s.d").whenMatchedUpdateAll().execute()
    assert [r.v for r in spark.read.format("delta").load(table).select("v").collect()] == [2]


def test_functions_that_answer_otherwise_each_time_are_no_conditions(spark: SparkSession, table: str) -> None:
    spark.range(10).write.format("delta").save(table)
    coin = F.udf(lambda i: i > 4, "boolean").asNondeterministic()
    for condition in (coin(F.col("id")), "spark_partition_id() = 0", "input_file_name() LIKE '%part%'"):
        with pytest.raises((PredicateError, AnalysisException)):
            DeltaTable.forPath(spark, table).update(condition, {"id": "id + 1"})
    assert tidegate.open(table).version == 0


def test_a_struct_that_is_otherwise_each_time_is_no_value(spark: SparkSession, table: str) -> None:
    spark.sql("SELECT id, struct(1L AS a, 1L AS b) AS s, 0D AS d FROM range(5)").write.format("delta").save(
        table
    )
    value = "IF(rand() < 0.5, named_struct('a', 1L, 'b', 1L), named_struct('a', 2L, 'b', 2L))"
    dt = DeltaTable.forPath(spark, table)
    with pytest.raises(PredicateError, match="otherwise each time"):
        dt.update(set={"s": value})
    source = spark.range(3).alias("s")
    with pytest.raises(PredicateError, match="otherwise each time"):
        dt.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"t.s": value}).execute()
    assert tidegate.open(table).version == 0
    dt.update(set={"d": "rand()", "s": "named_struct('a', id, 'b', id)"})
    assert all(r.s.a == r.s.b == r.id for r in spark.read.format("delta").load(table).collect())


def test_a_statement_in_double_quoted_names_merges_by_columns(spark: SparkSession, table: str) -> None:
    spark.sql("SELECT 'a' AS k, 'b' AS other, 1 AS v").write.format("delta").save(table)
    source = spark.sql("SELECT 'b' AS k, 9 AS v").alias("s")
    with session_confs(spark, ansi__doubleQuotedIdentifiers="true"):
        merge = DeltaTable.forPath(spark, table).alias("t").merge(source, 't."other" = s."k"')
        merge.whenMatchedUpdate(set={"v": "s.v"}).execute()
    assert [r.v for r in spark.read.format("delta").load(table).collect()] == [9]
