"""INSERT and insertInto: by position at every level; what fits by name, what is refused, what evolves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark

AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
VALUES = "1, struct(1, 'x'), array(struct(2, 'y')), map('k', struct(3, 'z'))"
ROW = (1, (1, "x"), [(2, "y")], {"k": (3, "z")})


@pytest.fixture
def nested(spark: SparkSession) -> Iterator[str]:
    """A table with structs in a column, an array and a map."""
    name = "nested_inserts"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    inner = "struct<x: int, y: string>"
    spark.sql(
        f"CREATE TABLE {name} (a INT, c {inner}, d array<{inner}>, m map<string, {inner}>) USING delta"
    ).collect()
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def content(spark: SparkSession, name: str) -> list[tuple[Any, ...]]:
    rows = spark.table(name).collect()
    spark.sql(f"TRUNCATE TABLE {name}").collect()
    return [tuple(r) for r in rows]


@pytest.mark.parametrize(
    "statement",
    [
        f"INSERT INTO {{}} VALUES ({VALUES})",
        f"INSERT INTO {{}} (a, c, d, m) VALUES ({VALUES})",
        f"INSERT OVERWRITE {{}} VALUES ({VALUES})",
        f"INSERT INTO {{}} REPLACE WHERE a = 1 VALUES ({VALUES})",
        "INSERT INTO {} SELECT 1 z, named_struct('y', 1, 'x', 'x'), array(named_struct('y', 2, 'x', 'y')), "
        "map('k', named_struct('y', 3, 'x', 'z'))",
        "INSERT INTO {} (d, m, c, a) VALUES "
        "(array(struct(2, 'y')), map('k', struct(3, 'z')), struct(1, 'x'), 1)",
        "INSERT INTO {} BY NAME SELECT map('k', struct(3, 'z')) AS m, struct(1, 'x') AS c, 1 AS a, "
        "array(struct(2, 'y')) AS d",
        "INSERT INTO {} VALUES ('1', struct('1', 'x'), array(struct('2', 'y')), map('k', struct('3', 'z')))",
    ],
)
def test_fields_of_structs_go_by_position(spark: SparkSession, nested: str, statement: str) -> None:
    spark.sql(statement.format(nested)).collect()
    assert content(spark, nested) == [ROW]


def test_names_that_fit_are_taken_as_they_are(spark: SparkSession, nested: str) -> None:
    swapped = "named_struct('y', 's', 'x', 1)"
    spark.sql(f"INSERT INTO {nested} BY NAME SELECT {swapped} AS c, array({swapped}) AS d, 2 AS a").collect()
    assert content(spark, nested) == [(2, (1, "s"), [(1, "s")], None)]
    spark.sql(f"SELECT 2 AS a, {swapped} AS c").writeTo(nested).append()
    assert content(spark, nested) == [(2, (1, "s"), None, None)]


def test_insert_into_goes_by_position_at_every_level(spark: SparkSession, nested: str) -> None:
    frame = spark.sql(
        "SELECT 1 z, struct(1, 'x') b, array(struct(2, 'y')) e, map('k', named_struct('y', 3, 'x', 'z')) f"
    )
    frame.write.insertInto(nested)
    assert content(spark, nested) == [ROW]
    frame.write.insertInto(nested, overwrite=True)
    assert content(spark, nested) == [ROW]


@pytest.mark.parametrize(
    ("statement", "error_class"),
    [
        ("INSERT INTO {} VALUES (1, struct(1), null, null)", "DELTA_INSERT_COLUMN_ARITY_MISMATCH"),
        ("INSERT INTO {} VALUES (1, null, null, map('k', struct(1)))", "DELTA_INSERT_COLUMN_ARITY_MISMATCH"),
        ("INSERT INTO {} BY NAME SELECT 1 a, named_struct('x', 1) c", "DELTA_INSERT_COLUMN_ARITY_MISMATCH"),
        ("INSERT INTO {} VALUES (1, struct(1, 'x', 2), null, null)", "DELTA_METADATA_MISMATCH"),
        ("INSERT INTO {} VALUES (1, null, null, null, 7)", "DELTA_METADATA_MISMATCH"),
        ("INSERT INTO {} VALUES (1, null)", "DELTA_INSERT_COLUMN_ARITY_MISMATCH"),
    ],
)
def test_fewer_or_more_fields_than_the_table_has(
    spark: SparkSession, nested: str, statement: str, error_class: str
) -> None:
    with pytest.raises(AnalysisException) as refused:
        spark.sql(statement.format(nested)).collect()
    assert refused.value.getCondition() == error_class


def test_names_that_only_writes_by_name_know_are_refused_there(spark: SparkSession, nested: str) -> None:
    with pytest.raises(AnalysisException, match="col1"):
        spark.sql("SELECT 1 AS a, struct(1, 'x') AS c").writeTo(nested).append()


def test_what_comes_behind_the_known_fields_joins_the_schema(spark: SparkSession, nested: str) -> None:
    spark.conf.set(AUTO_MERGE, "true")
    try:
        spark.sql(
            f"INSERT INTO {nested} SELECT 1, struct(1, 'x', 2), null, map('k', struct(3, 'z', 4)), 7 AS extra"
        ).collect()
    finally:
        spark.conf.unset(AUTO_MERGE)
    kinds = {f.name: f.dataType.simpleString() for f in spark.table(nested).schema.fields}
    assert kinds["c"] == "struct<x:int,y:string,col3:int>"
    assert kinds["m"] == "map<string,struct<x:int,y:string,col3:int>>"
    assert kinds["extra"] == "int"
    assert content(spark, nested) == [(1, (1, "x", 2), None, {"k": (3, "z", 4)}, 7)]


@pytest.mark.parametrize("clause", ["(p = 2, id)", "(p = 2)"])
def test_columns_go_by_the_order_of_the_table_whatever_partitions_are_named(
    spark: SparkSession, table: str, clause: str
) -> None:
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, n BIGINT, p INT) USING delta PARTITIONED BY (id, p)")
    spark.sql(f"INSERT INTO {name} VALUES (2, 20, 2), (4, 40, 2), (5, 50, 3)")
    rows = f"INSERT OVERWRITE {name} PARTITION {clause} SELECT id, id * 100 FROM range(1, 3)"
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql(rows)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    found = [(1, 100, 2), (2, 200, 2), (4, 40, 2), (5, 50, 3)]
    assert sorted(tuple(r) for r in spark.sql(f"SELECT * FROM {name}").collect()) == found
    spark.sql(rows)
    found.remove((4, 40, 2))
    assert sorted(tuple(r) for r in spark.sql(f"SELECT * FROM {name}").collect()) == found


def test_a_column_has_one_value_in_an_insert(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{table}` (a INT, p INT) USING delta PARTITIONED BY (p)")
    with pytest.raises(AnalysisException) as refused:
        spark.sql(f"INSERT INTO delta.`{table}` PARTITION (p = 1) (a, p) VALUES (1, 2)")
    assert refused.value.getCondition() == "STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST"


def test_partition_values_alone_are_enough_where_the_table_fills_the_rest(
    spark: SparkSession, table: str
) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT GENERATED BY DEFAULT AS IDENTITY, p INT, q INT DEFAULT 7) "
        "USING delta PARTITIONED BY (p, q) TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    spark.sql(f"INSERT INTO {name} (p) VALUES (1)")
    spark.sql("SELECT 2 AS p").write.format("delta").mode("append").save(table)
    assert sorted(tuple(r) for r in spark.sql(f"SELECT * FROM {name}").collect()) == [(1, 1, 7), (2, 2, 7)]


@pytest.mark.parametrize(
    ("kind", "there", "said", "stays"),
    [
        ("STRING", ["'1'", "'01'", "'abc'"], "1", ["'01'", "'abc'"]),
        ("STRING", ["'1'", "'01'"], "01", ["'01'"]),
        ("STRING", ["'2024-01-05'", "'x'"], "DATE'2024-01-05'", ["'x'"]),
        ("FLOAT", ["0.1", "0.2"], "0.1", ["0.2"]),
        ("STRING", ["NULL", "'x'"], "'__HIVE_DEFAULT_PARTITION__'", ["'x'"]),
        ("INT", ["1", "NULL"], "'1'", ["NULL"]),
    ],
)
def test_a_partition_that_is_overwritten_is_the_one_that_the_value_means_there(
    spark: SparkSession, table: str, kind: str, there: list[str], said: str, stays: list[str]
) -> None:
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (id INT, `p``q` {kind}) USING delta PARTITIONED BY (`p``q`)")
    for value in there:
        spark.sql(f"INSERT INTO {name} SELECT 1, CAST({value} AS {kind})")
    spark.sql(f"INSERT OVERWRITE {name} PARTITION (`p``q` = {said}) SELECT 9")
    old = spark.sql(f"SELECT `p``q` FROM {name} WHERE id = 1").collect()
    kept = spark.sql(" UNION ALL ".join(f"SELECT CAST({value} AS {kind})" for value in stays)).collect()
    assert sorted(map(str, (r[0] for r in old))) == sorted(map(str, (r[0] for r in kept)))
    assert spark.sql(f"SELECT count(*) FROM {name} WHERE id = 9").collect()[0][0] == 1


WRITERS: dict[str, Callable[[DataFrame, str], None]] = {
    "insertInto": lambda df, name: df.write.insertInto(name),
    "insertInto overwrite": lambda df, name: df.write.insertInto(name, overwrite=True),
    "saveAsTable": lambda df, name: df.write.format("delta").mode("append").saveAsTable(name),
    "append": lambda df, name: df.writeTo(name).append(),
    "overwrite": lambda df, name: df.writeTo(name).overwrite(F.lit(True)),
    "overwritePartitions": lambda df, name: df.writeTo(name).overwritePartitions(),
}


@pytest.fixture
def typed(spark: SparkSession) -> Iterator[str]:
    """A table by name with columns that are no text."""
    name = "typed_inserts"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} (i INT, d DATE, b BOOLEAN, s STRUCT<x: INT>, v ARRAY<DECIMAL(4, 1)>, "
        "m MAP<STRING, BIGINT>) USING delta"
    ).collect()
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.parametrize("writer", WRITERS)
def test_writers_by_name_take_text_as_the_value_it_spells(
    spark: SparkSession, typed: str, writer: str
) -> None:
    text = (
        "SELECT '1' AS i, '2024-01-02' AS d, 'true' AS b, named_struct('x', '3') AS s, array('4.5') AS v, "
        "map('k', '6') AS m"
    )
    WRITERS[writer](spark.sql(text), typed)
    found = spark.sql(f"SELECT i, CAST(d AS STRING), b, s.x, CAST(v[0] AS STRING), m['k'] FROM {typed}")
    assert [tuple(r) for r in found.collect()] == [(1, "2024-01-02", True, 3, "4.5", 6)]
    with pytest.raises(PySparkException) as refused:
        WRITERS[writer](spark.sql(text.replace("'6'", "'six'")), typed)
    assert refused.value.getCondition() == "CAST_INVALID_INPUT"
    assert spark.table(typed).count() == 1


def test_a_schema_that_is_replaced_is_that_of_the_data(spark: SparkSession, typed: str) -> None:
    text = spark.sql("SELECT 'one' AS i")
    text.writeTo(typed).option("overwriteSchema", True).overwrite(F.lit(True))
    assert spark.table(typed).schema.simpleString() == "struct<i:string>"
    assert [tuple(r) for r in spark.table(typed).collect()] == [("one",)]


def test_text_is_stored_as_the_store_assignment_policy_says(spark: SparkSession, typed: str) -> None:
    def append(value: str) -> None:
        spark.sql(f"SELECT '{value}' AS i").writeTo(typed).append()

    spark.conf.set("spark.sql.storeAssignmentPolicy", "STRICT")
    try:
        with pytest.raises(AnalysisException) as refused:
            append("1")
        assert refused.value.getCondition() == "CANNOT_UP_CAST_DATATYPE"
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
        append("2")
        append("two")
        spark.conf.set("spark.sql.storeAssignmentPolicy", "ANSI")
        append("3")
        with pytest.raises(PySparkException, match="does not fit into i"):
            append("three")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.unset("spark.sql.storeAssignmentPolicy")
    assert [r.i for r in spark.table(typed).orderBy("i").collect()] == [None, 2, 3]
