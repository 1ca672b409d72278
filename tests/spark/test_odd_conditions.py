"""Conditions that mean what Spark says they mean, where the log could take them for something else."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize("mode", ["none", "name"])
@pytest.mark.parametrize("column", ["d", "s.d"])
def test_old_files_of_a_widened_float_are_found_by_doubles(
    spark: SparkSession, table: str, column: str, mode: str
) -> None:
    # The log says 0.7 of the old file, where the float is 0.699999988079071 as a double.
    properties = f"'delta.enableTypeWidening' = 'true', 'delta.columnMapping.mode' = '{mode}'"
    spark.sql(
        f"CREATE TABLE delta.`{table}` (id INT, d FLOAT, s STRUCT<d: FLOAT>) USING delta "
        f"TBLPROPERTIES ({properties})"
    )
    value = "CAST(0.7 AS FLOAT)"
    for i in (1, 2, 3):
        spark.sql(f"INSERT INTO delta.`{table}` VALUES ({i}, {value}, named_struct('d', {value}))")
    spark.sql(f"ALTER TABLE delta.`{table}` ALTER COLUMN {column} TYPE DOUBLE")
    frame = spark.read.format("delta").load(table)
    assert frame.where(f"{column} < 0.7D").count() == 3
    dt = DeltaTable.forPath(spark, table)
    dt.update(f"{column} < 0.7D AND id = 1", {"id": "10"})
    dt.delete(f"{column} < 0.7D AND id = 2")
    merge = dt.alias("t").merge(spark.range(3, 4).alias("s"), f"t.{column} < 0.7D AND t.id = s.id")
    merge.whenMatchedUpdate(set={"id": "30"}).execute()
    found = spark.read.format("delta").load(table).collect()
    assert sorted(r.id for r in found) == [10, 30]


# As Spark itself writes these names, they are constants.
CONSTANTS = """
    SELECT CAST(id AS INT) AS id, id = 1 AS `true`, id = 2 AS `False`, id = 3 AS `null`, id = 1 AS x,
        named_struct('true', id = 1) AS s, named_struct('f', id = 2) AS `t.true`
    FROM range(1, 4)
"""
CONDITIONS = [
    "`true`",
    "NOT `true`",
    "`false`",
    "NOT `false`",
    "`null`",
    "x = `null`",
    "NOT (x = `null`)",
    "x <=> `true`",
    "x = `TRUE`",
    "`false` IS NOT NULL AND NOT x",
    "s.`true`",
    "NOT s.`true`",
    "`t.true`.f",
    "true",
    "x = true",
    "x = false",
    "NOT true",
    "x IS NULL OR null",
]


@pytest.mark.parametrize("partition", ["x", "true", None])
def test_a_column_with_the_name_of_a_constant_is_a_column(
    spark: SparkSession, table: str, partition: str | None
) -> None:
    _table(spark, table, CONSTANTS, partition)
    frame = spark.read.format("delta").load(table)
    for condition in CONDITIONS:
        # Spark's own answer, of rows that no file was left out of.
        marked = frame.withColumn("taken", F.expr(condition)).select("id", "taken").collect()
        expected = sorted(r.id for r in marked if r.taken)
        assert sorted(r.id for r in frame.where(condition).collect()) == expected, condition
        assert sorted(r.id for r in frame.where(F.expr(condition)).collect()) == expected, condition


def test_a_struct_with_the_name_of_a_constant_is_a_column(spark: SparkSession, table: str) -> None:
    rows = "SELECT CAST(id AS INT) AS id, named_struct('null', id = 2) AS `true` FROM range(1, 3)"
    _table(spark, table, rows, None)
    frame = spark.read.format("delta").load(table)
    assert [r.id for r in frame.where("`true`.`null`").collect()] == [2]
    assert [r.id for r in frame.where("NOT `true`.`null`").collect()] == [1]
    DeltaTable.forPath(spark, table).delete(F.col("true.null"))
    assert [r.id for r in spark.read.format("delta").load(table).collect()] == [1]


@pytest.mark.parametrize("partition", ["true", None])
def test_a_command_takes_the_rows_of_a_column_with_the_name_of_a_constant(
    spark: SparkSession, table: str, partition: str | None
) -> None:
    _table(spark, table, CONSTANTS, partition)
    dt = DeltaTable.forPath(spark, table)

    def ids() -> list[int]:
        return sorted(r.id for r in spark.read.format("delta").load(table).select("id").collect())

    dt.update(F.col("null"), {"id": F.lit(30)})
    assert ids() == [1, 2, 30]
    dt.delete(F.col("true"))
    assert ids() == [2, 30]
    assert tidegate.open(table).commit_info["operationParameters"]["predicate"] == '["`true`"]'
    dt.delete("`true`")
    assert ids() == [2, 30]
    dt.delete(~F.col("False"))
    assert ids() == [2]
    dt.delete(F.lit(True))
    assert ids() == []


def test_a_named_write_replaces_the_rows_of_a_column_with_the_name_of_a_constant(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE constants USING delta LOCATION '{tmp_path / 'named'}' AS {CONSTANTS}")
    try:
        frame = spark.table("constants").where("`true`").withColumn("id", F.lit(10)).localCheckpoint()
        frame.writeTo("constants").overwrite(F.col("true"))
        assert sorted(r.id for r in spark.table("constants").select("id").collect()) == [2, 3, 10]
    finally:
        spark.sql("DROP TABLE constants")


def test_a_merge_by_columns_with_the_names_of_constants(spark: SparkSession, table: str) -> None:
    _table(spark, table, CONSTANTS, None)
    dt = DeltaTable.forPath(spark, table)

    def merged(condition: str, when: str | None = None) -> list[int]:
        """Which rows a merge with a source of three rows takes, undone again."""
        source = spark.sql("SELECT id AS k, id = 2 AS y FROM range(1, 4)").alias("s")
        version = tidegate.open(table).version
        dt.alias("t").merge(source, condition).whenMatchedDelete(when).execute()
        left = {r.id for r in spark.read.format("delta").load(table).select("id").collect()}
        dt.restoreToVersion(version)
        return sorted({1, 2, 3} - left)

    assert merged("t.id = s.k AND `true`") == [1]
    assert merged("t.id = s.k AND NOT `true`") == [2, 3]
    assert merged("t.id = s.k AND t.`false`") == [2]
    assert merged("t.id = s.k AND x = `null`") == [2]
    assert merged("t.id = s.k", "`false`") == [2]
    assert merged("t.id = s.k", "x = `null` AND true") == [2]
    assert merged("t.id = s.k AND true") == [1, 2, 3]
    source = spark.sql("SELECT id AS k, id = 2 AS `t.false`, id = 3 AS `Null` FROM range(1, 4)").alias("s")
    by_source = dt.alias("t").merge(source, "t.id = s.k AND s.`Null`")
    by_source.whenNotMatchedBySourceDelete("t.`true`").whenMatchedDelete().execute()
    assert [r.id for r in spark.read.format("delta").load(table).collect()] == [2]
