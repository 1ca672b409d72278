"""UPDATE, DELETE and MERGE through temporary views: which are the table, and what the others are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from support.dml import write
from support.session import CONNECT

pytestmark = pytest.mark.spark
Rows = Callable[..., list[tuple[Any, ...]]]

DELETE = "DELETE FROM v WHERE key >= 1 AND v.value < 3"
UPDATE = "UPDATE v SET value = key + value, key = v.key + 1 WHERE key >= 1 AND value < 3"
MERGE = (
    "MERGE INTO v USING (SELECT 1 AS k, 7 AS n UNION ALL SELECT 5, 50) s ON v.key = s.k "
    "WHEN MATCHED THEN UPDATE SET value = n WHEN NOT MATCHED THEN INSERT (key, value) VALUES (k, n)"
)


@pytest.fixture
def made(spark: SparkSession, table: str) -> Iterator[Callable[..., str]]:
    """Makes the table of two rows anew at each call, and the view v of it, by a statement or of a frame."""

    def make(query: str, *, of_frame: bool = False) -> str:
        write(spark.sql("SELECT * FROM VALUES (0, 3), (1, 2) AS x(key, value)").coalesce(1), table, {})
        text = query.replace("tab", f"delta.`{table}`")
        if of_frame:
            spark.sql(text).createOrReplaceTempView("v")
        else:
            spark.sql(f"CREATE OR REPLACE TEMP VIEW v AS {text}")
        return table

    yield make
    spark.catalog.dropTempView("v")


def _view(spark: SparkSession) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in spark.table("v").collect())


@pytest.mark.parametrize("of_frame", [False, True], ids=["statement", "frame"])
def test_a_view_of_the_whole_table_is_the_table(
    spark: SparkSession, made: Callable[..., str], rows: Rows, of_frame: bool
) -> None:
    table = made("SELECT * FROM (SELECT * FROM tab AS a) AS b", of_frame=of_frame)
    assert [tuple(r) for r in spark.sql(UPDATE).collect()] == [(1,)]
    assert rows(table) == _view(spark) == [(0, 3), (2, 3)]
    # What the statements before did is seen, and the alias is the view's where it has one.
    spark.sql(
        "MERGE INTO v AS t USING (SELECT 2 AS key, 9 AS value UNION ALL SELECT 4, 4) s ON t.key = s.key "
        "WHEN MATCHED AND t.value = 3 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(table) == _view(spark) == [(0, 3), (2, 9), (4, 4)]
    assert [tuple(r) for r in spark.sql("DELETE FROM v WHERE v.key = 2").collect()] == [(1,)]
    assert rows(table) == _view(spark) == [(0, 3), (4, 4)]


@pytest.mark.parametrize("columns", ["value AS key, key AS value", "key AS value, value AS key"])
@pytest.mark.parametrize("of_frame", [False, True], ids=["statement", "frame"])
def test_a_view_under_other_names_is_changed_in_its_own_words(
    spark: SparkSession, made: Callable[..., str], rows: Rows, of_frame: bool, columns: str
) -> None:
    table = made(f"SELECT {columns} FROM tab", of_frame=of_frame)
    spark.sql("UPDATE v SET value = key + value, key = v.key + 1 WHERE v.key = 2")
    assert rows(table) == [(0, 3), (3, 3)]
    assert sorted(tuple(r) for r in spark.sql("SELECT key, value FROM v").collect()) == [(3, 0), (3, 3)]
    spark.sql("DELETE FROM v WHERE value = 0 AND key > 1")
    assert (rows(table), _view(spark)) == ([(3, 3)], [(3, 3)])
    with pytest.raises(AnalysisException) as caught:
        spark.sql(MERGE)
    assert caught.value.errorClass == "DELTA_UNSUPPORTED_SOURCE"


def test_a_view_of_some_columns_knows_no_others(
    spark: SparkSession, made: Callable[..., str], rows: Rows
) -> None:
    table = made("SELECT key FROM tab")
    for statement in (DELETE, UPDATE):
        with pytest.raises(AnalysisException) as caught:
            spark.sql(statement)
        found = getattr(caught.value, "errorClass", None) or caught.value.getCondition()
        assert found == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    spark.sql("DELETE FROM v WHERE key >= 1")
    assert rows(table) == [(0, 3)]


def test_names_that_are_not_the_views_columns_stay_as_they_are(
    spark: SparkSession, made: Callable[..., str], rows: Rows
) -> None:
    table = made("SELECT key AS day FROM tab")
    # Those of a subquery, of a lambda and of a unit of time.
    spark.sql("UPDATE v SET day = (SELECT max(day) FROM VALUES (1, 40) AS other(key, day)) WHERE day = 1")
    assert rows(table) == [(0, 3), (40, 2)]
    spark.sql(
        "UPDATE v SET day = aggregate(array(1, 2), day, (key, x) -> key + x + day) "
        "WHERE day = 0 AND DATE '2020-01-01' + INTERVAL 1 day > DATE '2020-01-01'"
    )
    assert rows(table) == [(3, 3), (40, 2)]
    # The table's own names are not the view's.
    for value in ("value", "key + 1"):
        with pytest.raises(AnalysisException) as caught:
            spark.sql(f"UPDATE v SET day = {value}")
        assert caught.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert rows(table) == [(3, 3), (40, 2)]


def test_a_view_of_a_frame_keeps_the_order_of_its_columns(
    spark: SparkSession, made: Callable[..., str], rows: Rows
) -> None:
    table = made("SELECT value, key FROM tab", of_frame=True)
    for _ in range(2):
        spark.sql(
            "MERGE INTO v USING (SELECT 1 AS k) s ON key = k WHEN MATCHED THEN UPDATE SET value = value + 1"
        )
    assert (spark.table("v").columns, _view(spark), rows(table)) == (
        ["value", "key"], [(3, 0), (4, 1)], [(0, 3), (1, 4)]
    )  # fmt: skip


CHOICES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "by alias": lambda f: f.alias("x").select("x.key", "value").toDF("a", "b"),
    "renamed": lambda f: f.withColumnRenamed("key", "a").withColumnsRenamed({"VALUE": "b"}),
    "as expressions": lambda f: f.selectExpr("value AS b", "key a", "key").drop("key"),
    "as columns": lambda f: f.select("*").select(f["value"].alias("b"), F.col("key").alias("a")),
    "turned round": lambda f: f.toDF("value", "key").select(F.col("key").alias("b"), "value").toDF("b", "a"),
    "a star beside": lambda f: f.select(F.expr("key").alias("a"), "*").drop("key").toDF("a", "b"),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_columns_of_a_frame_may_be_chosen_and_renamed_on_the_way(
    spark: SparkSession, made: Callable[..., str], rows: Rows, choice: str
) -> None:
    table = made("SELECT * FROM tab")
    CHOICES[choice](spark.read.format("delta").load(table)).createOrReplaceTempView("v")
    spark.sql("UPDATE v SET b = a + b, a = v.a + 10 WHERE b = 2")
    assert rows(table) == [(0, 3), (11, 3)]
    assert sorted(tuple(r) for r in spark.sql("SELECT a, b FROM v").collect()) == [(0, 3), (11, 3)]
    spark.sql("DELETE FROM v WHERE a = 0")
    assert rows(table) == [(11, 3)]


FRAMES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "DELTA_UNEXPECTED_PARTIAL_SCAN": lambda f: f.where("key = 1").select("value"),
    "DELTA_UNSUPPORTED_SOURCE": lambda f: f.limit(1).alias("x"),
    "DELTA_CANNOT_RESOLVE_COLUMN": lambda f: f.withColumn("more", F.lit(1)).select("more", "key"),
}


def test_a_frame_that_is_more_than_columns_of_the_table_is_refused_by_name(
    spark: SparkSession, made: Callable[..., str], rows: Rows
) -> None:
    table = made("SELECT * FROM tab")
    frame = spark.read.format("delta").load(table)
    old = spark.read.format("delta").option("versionAsOf", 0).load(table)
    joined = frame.alias("a").join(old.alias("b"), "key").select("a.*")
    refused = [(name, choice(frame)) for name, choice in FRAMES.items()]
    refused += [("DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION", old), ("DELTA_UNSUPPORTED_SOURCE", joined)]
    for name, given in refused:
        given.createOrReplaceTempView("v")
        with pytest.raises(AnalysisException) as caught:
            spark.sql("DELETE FROM v")
        assert getattr(caught.value, "errorClass", None) == name
    assert (rows(table), tidegate.open(table).version) == ([(0, 3), (1, 2)], 0)


def test_a_view_of_views_is_followed_to_the_table(
    spark: SparkSession, made: Callable[..., str], rows: Rows
) -> None:
    table = made("SELECT value AS b, key AS a FROM tab")
    try:
        spark.sql("CREATE OR REPLACE TEMP VIEW w (x, y) AS SELECT v.a, b AS n FROM v")
        spark.sql("UPDATE w SET x = x + y WHERE w.y = 2")
        assert rows(table) == [(0, 3), (3, 2)]
        spark.table("w").select("y").createOrReplaceTempView("w")
        spark.sql("DELETE FROM v WHERE b = 3")
        assert rows(table) == [(3, 2)]
    finally:
        spark.catalog.dropTempView("w")


def test_a_view_shows_the_columns_that_it_was_made_with(
    spark: SparkSession, made: Callable[..., str], rows: Rows
) -> None:
    table = made("SELECT * FROM tab")
    spark.sql(f"ALTER TABLE delta.`{table}` ADD COLUMN other INT FIRST")
    spark.sql("UPDATE v SET value = key WHERE value = 2")
    assert rows(table, "key = 1") == [(None, 1, 1)]
    with pytest.raises(AnalysisException):
        spark.sql("UPDATE v SET other = 1")


def test_the_name_of_a_view_means_what_it_was_given_last(
    spark: SparkSession, made: Callable[..., str], rows: Rows, tmp_path: Path
) -> None:
    table, other = made("SELECT * FROM tab", of_frame=True), str(tmp_path / "other")
    write(spark.sql("SELECT 1 AS key, 2 AS value"), other, {})
    # Somebody who is not heard of here.
    plain: Any = type(spark).sql
    plain.__wrapped__(spark, "CREATE OR REPLACE TEMP VIEW v AS SELECT 7 AS key")
    with pytest.raises(PySparkException, match="UPDATE"):
        spark.sql("UPDATE v SET key = 5")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM delta.`{other}`")
    spark.sql("DELETE FROM v")
    assert (rows(table), rows(other)) == ([(0, 3), (1, 2)], [])
    spark.read.format("delta").load(table).createOrReplaceTempView("v")
    spark.catalog.dropTempView("v")
    spark.range(3).selectExpr("id AS key").createTempView("v")
    with pytest.raises(PySparkException, match="UPDATE"):
        spark.sql("UPDATE v SET key = 5")
    assert rows(table) == [(0, 3), (1, 2)]


# What each view is told, for UPDATE and for MERGE.
REFUSED = {
    "SELECT key, value, 1 AS one FROM tab": (
        "DELTA_CANNOT_RESOLVE_COLUMN", "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"
    ),
    "SELECT key, value + 1 AS value FROM tab": ("DELTA_UNSUPPORTED_SOURCE",) * 2,
    "SELECT key, CAST(CAST(value AS TINYINT) AS INT) AS value FROM tab": ("DELTA_UNSUPPORTED_SOURCE",) * 2,
    "SELECT * FROM tab WHERE key > 0": ("DELTA_UNEXPECTED_PARTIAL_SCAN",) * 2,
    "SELECT a.key, b.value FROM tab a JOIN tab b ON a.key = b.key": ("DELTA_UNSUPPORTED_SOURCE",) * 2,
    "SELECT key, max(value) AS value FROM tab GROUP BY key": ("DELTA_UNSUPPORTED_SOURCE",) * 2,
    "SELECT * FROM tab LIMIT 10": ("DELTA_UNSUPPORTED_SOURCE",) * 2,
    "SELECT * FROM tab VERSION AS OF 0": ("DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION",) * 2,
}  # fmt: skip


def test_a_view_that_is_more_than_columns_of_the_table_is_refused_by_name(
    spark: SparkSession, made: Callable[..., str], rows: Rows
) -> None:
    found = {}
    table = made("SELECT * FROM tab")
    for query in REFUSED:
        spark.sql(f"CREATE OR REPLACE TEMP VIEW v AS {query.replace('tab', f'delta.`{table}`')}")
        named = []
        for statement in (UPDATE, MERGE):
            with pytest.raises(AnalysisException) as caught:
                spark.sql(statement)
            named.append(caught.value.errorClass)
        found[query] = tuple(named)
    assert found == REFUSED
    assert tidegate.open(table).version == 0


def test_views_that_follow_a_table_and_views_for_everybody(
    spark: SparkSession, made: Callable[..., str], rows: Rows
) -> None:
    table = made("SELECT * FROM tab")
    tidegate.view(spark, "v", table)
    spark.sql("DELETE FROM v WHERE key = 1")
    assert rows(table) == _view(spark) == [(0, 3)]
    # Whoever makes a view of that name means another one.
    spark.sql("SELECT 1 AS key").createOrReplaceTempView("v")
    with pytest.raises(PySparkException, match="UPDATE"):
        spark.sql("UPDATE v SET key = 5")
    if CONNECT:
        return
    spark.read.format("delta").load(table).createOrReplaceGlobalTempView("everybodys")
    spark.sql("UPDATE global_temp.everybodys SET value = 8 WHERE everybodys.key = 0")
    spark.catalog.dropGlobalTempView("everybodys")
    assert rows(table) == [(0, 8)]
