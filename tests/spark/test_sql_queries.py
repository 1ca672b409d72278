"""Delta tables in queries: wherever a name or a path may stand, shadowed or not, and with files skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate.errors import NotATableError, OptionError, VersionNotFoundError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``queries.t`` (ids 0 to 3, each in a file of its own) and the same table by its path."""
    path = str(tmp_path_factory.mktemp("queries") / "t")
    spark.sql("CREATE DATABASE IF NOT EXISTS queries")
    spark.sql(f"CREATE TABLE queries.t (id INT, k INT) USING delta LOCATION '{path}'")
    for i in range(4):
        spark.sql(f"INSERT INTO queries.t SELECT /*+ COALESCE(1) */ {i}, {i % 2}")
    yield path
    spark.sql("DROP DATABASE queries CASCADE")


@pytest.fixture
def sql(spark: SparkSession, place: str) -> Any:
    def run(text: str) -> list[Any]:
        rows = [tuple(r) for r in spark.sql(text.replace("{p}", place)).collect()]
        return [r[0] if len(r) == 1 else r for r in rows]

    return run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM QUERIES.T ORDER BY ID", [0, 1, 2, 3]),
        ("SELECT t.id FROM spark_catalog.queries.t ORDER BY 1 LIMIT 1", [0]),
        ("SELECT queries.t.id FROM queries.t WHERE queries.t.id = 2", [2]),
        ("SELECT `t`.`id` FROM `queries`.`t` WHERE id = 1", [1]),
        ("TABLE queries.t ORDER BY id LIMIT 1", [(0, 0)]),
        ("FROM queries.t SELECT max(id)", [3]),
        ("SELECT count(*) FROM (TABLE queries.t)", [4]),
        ("SELECT id FROM delta.`{p}` WHERE id > (SELECT avg(id) FROM delta.`{p}`) ORDER BY id", [2, 3]),
        ("SELECT count(*) FROM delta.`{p}` a JOIN delta.`{p}`@v1 b ON a.id = b.id", [1]),
        (
            "SELECT a.id FROM delta.`{p}` a WHERE EXISTS (SELECT 1 FROM queries.t b WHERE b.id = a.id + 3)",
            [0],
        ),
        ("SELECT x.m FROM queries.t t, LATERAL (SELECT t.id + 1 AS m) x WHERE t.id = 1", [2]),
        ("SELECT (SELECT count(*) FROM queries.t VERSION AS OF 2) AS n", [2]),
        ("WITH t AS (SELECT 9 AS id) SELECT id FROM t", [9]),
        ("WITH c AS (SELECT id FROM queries.t), d AS (SELECT max(id) AS m FROM c) SELECT m FROM d", [3]),
        ("SELECT count(*) FROM queries.t /* queries.t VERSION AS OF 1 */ -- delta.`/none`", [4]),
        ("SELECT sum(id) OVER (ORDER BY id) FROM queries.t ORDER BY 1 DESC LIMIT 1", [6]),
        ("SELECT id FROM queries.t GROUP BY id HAVING id = (SELECT max(id) FROM delta.`{p}`)", [3]),
        ("SELECT filter(collect_list(id), x -> x > 2) FROM queries.t", [[3]]),
        ("FROM queries.t |> WHERE id = 3 |> SELECT k", [1]),
        ("SELECT id FROM queries.t MINUS SELECT id FROM delta.`{p}` VERSION AS OF 3 ORDER BY 1", [3]),
        (
            "SELECT if(id = (SELECT min(id) FROM queries.t), 'least', 'no') FROM queries.t WHERE id = 0",
            ["least"],
        ),
    ],
)
def test_a_table_wherever_it_may_stand(sql: Any, text: str, expected: list[Any]) -> None:
    assert sql(text) == expected


def test_the_current_database_completes_a_name(spark: SparkSession, sql: Any) -> None:
    spark.sql("USE queries")
    try:
        assert sql("SELECT count(*) FROM t") == [4]
        assert sql("SELECT count(*) FROM t@v1") == [1]
        assert sql("DESCRIBE DETAIL t")[0][2] == "spark_catalog.queries.t"
    finally:
        spark.sql("USE default")
    with pytest.raises(AnalysisException):
        sql("SELECT count(*) FROM t")


def test_views_see_the_newest_version_and_may_stand_on_each_other(sql: Any) -> None:
    sql("CREATE TABLE queries.w (id INT) USING delta")
    sql("CREATE VIEW queries.one AS SELECT id + 1 AS id FROM queries.w")
    sql("CREATE VIEW queries.two AS SELECT max(id) AS m FROM queries.one")
    sql("INSERT INTO queries.w VALUES (1)")
    assert sql("SELECT m FROM queries.two") == [2]
    sql("INSERT INTO queries.w VALUES (5)")
    assert sql("SELECT m FROM queries.two") == [6]
    sql("CREATE OR REPLACE TEMPORARY VIEW w_old AS SELECT * FROM queries.w VERSION AS OF 1")
    sql("INSERT INTO queries.w VALUES (7)")
    assert sql("SELECT * FROM w_old") == [1]
    sql("DROP VIEW w_old")


@pytest.mark.parametrize("what", ["delta.`{p}`", "queries.t VERSION AS OF 1", "delta.`{p}`@v1"])
def test_a_temporary_view_stands_on_what_has_no_name(sql: Any, what: str) -> None:
    sql(f"CREATE OR REPLACE TEMPORARY VIEW not_kept AS SELECT id FROM {what} WHERE id = 0")
    assert sql("SELECT * FROM not_kept") == [0]
    sql("DROP VIEW not_kept")


def test_a_temporary_view_hides_the_table_of_its_name(spark: SparkSession, sql: Any) -> None:
    spark.sql("USE queries")
    try:
        sql("CREATE TEMPORARY VIEW t AS SELECT 'view' AS what")
        assert sql("SELECT * FROM t") == ["view"]
        assert len(sql("SELECT * FROM queries.t")) == 4
        sql("DROP VIEW t")
        assert len(sql("SELECT * FROM t")) == 4
    finally:
        spark.sql("USE default")


def test_cached_analysed_and_explained(spark: SparkSession, sql: Any) -> None:
    sql("CACHE TABLE queries.t")
    assert sql("SELECT count(*) FROM queries.t") == [4]
    sql("UNCACHE TABLE queries.t")
    sql("CACHE LAZY TABLE kept AS SELECT * FROM delta.`{p}`")
    assert sql("SELECT count(*) FROM kept") == [4]
    sql("DROP VIEW kept")


def test_a_temporary_view_over_a_path_follows_its_table(spark: SparkSession, sql: Any, table: str) -> None:
    sql(f"CREATE TABLE delta.`{table}` (a INT) USING delta")
    sql(f"CREATE TEMPORARY VIEW follows AS SELECT max(a) AS m FROM delta.`{table}`")
    sql(f"INSERT INTO delta.`{table}` VALUES (1)")
    assert sql("SELECT m FROM follows") == [1]
    sql(f"INSERT INTO delta.`{table}` VALUES (5)")
    assert sql("SELECT m FROM follows") == [5]
    sql("DROP VIEW follows")


def test_a_plan_tells_of_our_scan(sql: Any) -> None:
    assert "TableFileIndex" in sql("EXPLAIN SELECT * FROM queries.t WHERE id = 1")[0]
    assert "TableFileIndex" in sql("EXPLAIN FORMATTED SELECT * FROM delta.`{p}` WHERE id = 1")[0]


def test_sparks_catalog_tells_of_the_table(spark: SparkSession, place: str) -> None:
    catalog = spark.catalog
    assert catalog.tableExists("queries.t")
    assert catalog.tableExists("spark_catalog.queries.t")
    assert not catalog.tableExists("queries.none")
    assert catalog.getTable("queries.t").tableType == "EXTERNAL"
    assert [c.name for c in catalog.listColumns("queries.t")] == ["id", "k"]
    assert "t" in {t.name for t in catalog.listTables("queries")}
    catalog.refreshTable("queries.t")
    spark.sql("REFRESH TABLE queries.t")
    assert spark.table("queries.t").count() == 4


def _files_read(frame: DataFrame) -> int:
    """How many files the scans of a plan have read, by their own metrics."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    plan = plan.executedPlan() if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec" else plan
    leaves = plan.collectLeaves()
    total = 0
    for i in range(leaves.size()):
        metrics = leaves.apply(i).metrics()
        if metrics.contains("numFiles"):
            total += metrics.apply("numFiles").value()
    return total


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("SELECT * FROM queries.t", 4),
        ("SELECT * FROM queries.t WHERE id = 2", 1),
        ("SELECT * FROM delta.`{p}` WHERE id > 1", 2),
        ("SELECT * FROM queries.t VERSION AS OF 3 WHERE id >= 1", 2),
        ("WITH c AS (SELECT * FROM queries.t) SELECT * FROM c WHERE id = 0", 1),
        ("SELECT * FROM (SELECT id FROM delta.`{p}`) WHERE id = 9", 0),
    ],
)
def test_files_that_cannot_match_are_not_read(spark: SparkSession, place: str, text: str, files: int) -> None:
    assert _files_read(spark.sql(text.replace("{p}", place))) == files


def test_an_odd_path_is_a_path(spark: SparkSession, tmp_path: Any) -> None:
    odd = str(tmp_path / "a b'c;d ü")
    name = f"delta.`{odd}`"
    spark.sql(f"CREATE TABLE {name} (a INT) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    assert spark.sql(f"SELECT a FROM {name} -- '").head().a == 1
    assert re.search("a b", spark.sql(f"DESCRIBE DETAIL {name}").head().location)


def test_frames_and_values_stand_in_statements(spark: SparkSession, tmp_path: Any) -> None:
    frame = spark.range(4)
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} USING delta AS SELECT * FROM {{f}}", f=frame)
    joined = f"SELECT t.id FROM {table} t JOIN {{f}} f ON t.id = f.id + {{n}} WHERE f.id > :m ORDER BY t.id"
    assert spark.sql(joined, {"m": 0}, f=frame, n=1).collect() == [(2,), (3,)]
    spark.sql(f"INSERT INTO {table} SELECT id + 10 FROM {{f}} WHERE id > {{n}}", f=frame, n=2)
    spark.sql(f"MERGE INTO {table} t USING {{f}} s ON t.id = s.id WHEN MATCHED THEN DELETE", f=spark.range(3))
    spark.sql(f"UPDATE {table} SET id = {{n}} WHERE id = 13", n=14)
    assert spark.sql(f"SELECT id FROM {table} ORDER BY id").collect() == [(3,), (14,)]


def test_a_reader_takes_a_mark_at_the_end_of_a_path_for_a_version(spark: SparkSession, table: str) -> None:
    for path in (table, f"{table}@v0"):
        spark.range(2).write.format("delta").save(path)
        spark.range(2).write.format("delta").mode("append").save(path)

    def count(path: str, **options: str) -> int:
        return spark.read.format("delta").options(**options).load(path).count()

    # A table that is called so is meant itself.
    assert [count(p) for p in (table, f"{table}@v1", f"{table}@v0", f"{table}@v0@v0")] == [4, 4, 4, 2]
    moment = tidegate.open(table).timestamp.strftime("%Y%m%d%H%M%S%f")[:-3]
    assert count(f"{table}@{moment}") == 4
    with pytest.raises(OptionError) as caught:
        count(f"{table}@v1", versionAsOf="0")
    assert caught.value.errorClass == "DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS"
    with pytest.raises(VersionNotFoundError):
        count(f"{table}@v9")
    with pytest.raises(NotATableError):
        count(f"{table}-none@v0")
