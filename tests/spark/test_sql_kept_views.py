"""Views that the catalog keeps, over paths and versions: their text is the user's own, and is read again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import NotATableError, OptionError, VersionNotFoundError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with one row in each of three files: versions 1 to 3."""
    path = str(tmp_path_factory.mktemp("kept") / "it's a table")
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, k INT) USING delta")
    for i in range(3):
        spark.sql(f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ {i}, {i % 2}")
    return path


@pytest.fixture
def sql(spark: SparkSession, place: str) -> Iterator[Any]:
    """A statement's rows; ``{p}`` is the table's path, ``{t}`` the moment of its version 2."""
    millis = spark.sql(f"DESCRIBE HISTORY delta.`{place}`").selectExpr("version", "unix_millis(timestamp)")
    moment = f"timestamp_millis({dict(millis.collect())[2]})"

    def run(text: str, session: SparkSession = spark) -> list[Any]:
        rows = [tuple(r) for r in session.sql(text.replace("{p}", place).replace("{t}", moment)).collect()]
        return [r[0] if len(r) == 1 else r for r in rows]

    spark.sql("CREATE DATABASE kept_views")
    yield run
    spark.sql("DROP DATABASE kept_views CASCADE")


def test_a_view_over_a_path_follows_its_table_and_keeps_the_users_text(
    spark: SparkSession, sql: Any, table: str
) -> None:
    spark.range(2).write.format("delta").save(table)
    body = f"SELECT max(id) AS m, count(*) AS n /* as it was written */ FROM delta.`{table}`"
    sql(f"CREATE VIEW kept_views.v AS {body}")
    assert sql("SELECT * FROM kept_views.v") == [(1, 2)]
    spark.range(5, 6).write.format("delta").mode("append").save(table)
    assert sql("SELECT * FROM kept_views.v") == [(5, 3)]
    assert spark.table("kept_views.v").collect() == [(5, 3)]
    told = {r.col_name: r.data_type for r in spark.sql("DESCRIBE TABLE EXTENDED kept_views.v").collect()}
    assert told["View Text"] == body
    assert [t.name for t in spark.catalog.listTables("kept_views") if not t.isTemporary] == ["v"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM delta.`{p}` VERSION AS OF 1", [0]),
        ("SELECT id FROM delta.`{p}@v2` ORDER BY id", [0, 1]),
        ("SELECT t.id FROM delta.`{p}`@v1 AS t", [0]),
        ("SELECT count(*) AS n FROM delta.`{p}` TIMESTAMP AS OF {t}", [2]),
        ("SELECT delta.`{p}`.id FROM delta.`{p}` WHERE id = 2", [2]),
        ("SELECT count(*) AS n FROM delta.`{p}` a JOIN delta.`{p}` b ON a.k = b.k", [5]),
        ("SELECT id FROM delta.`{p}` WHERE id > (SELECT avg(id) FROM DELTA.`{p}`)", [2]),
        ("WITH c AS (SELECT id FROM delta.`{p}`) SELECT a.id FROM c a JOIN c b ON a.id = b.id + 2", [2]),
        ("SELECT id FROM delta.`{p}` WHERE id = 0 UNION ALL SELECT id FROM delta.`{p}` WHERE id = 0", [0, 0]),
    ],
)
def test_whatever_a_query_may_say_a_view_may_keep(sql: Any, text: str, expected: list[Any]) -> None:
    sql(f"CREATE OR REPLACE VIEW kept_views.v (c) COMMENT 'x' AS {text}")
    assert sql("SELECT c FROM kept_views.v") == expected


def test_a_view_over_a_version_of_a_name_finds_it_in_its_own_database(spark: SparkSession, sql: Any) -> None:
    sql("CREATE TABLE kept_views.t (id INT) USING delta")
    sql("INSERT INTO kept_views.t VALUES (1)")
    sql("INSERT INTO kept_views.t VALUES (2)")
    spark.sql("USE kept_views")
    try:
        sql("CREATE VIEW one AS SELECT * FROM t VERSION AS OF 1")
        sql("CREATE VIEW marked AS SELECT * FROM t@v1")
    finally:
        spark.sql("USE default")
    assert sql("SELECT * FROM kept_views.one") == sql("SELECT * FROM kept_views.marked") == [1]
    sql("ALTER VIEW kept_views.one AS SELECT count(*) AS n FROM delta.`{p}`")
    assert sql("SELECT * FROM kept_views.one") == [3]


def test_its_filters_reach_the_scan(spark: SparkSession, sql: Any) -> None:
    sql("CREATE VIEW kept_views.v AS SELECT * FROM delta.`{p}`")
    found = spark.sql("SELECT * FROM kept_views.v WHERE id = 1")
    assert found.collect() == [(1, 1)]
    (metrics,) = tidegate.scan_metrics(found)
    assert (metrics.files_considered, metrics.files_read) == (3, 1)


def test_another_session_reads_it_if_it_is_enabled(spark: SparkSession, sql: Any) -> None:
    sql("CREATE VIEW kept_views.v AS SELECT max(id) AS m FROM delta.`{p}`")
    other = spark.newSession()
    assert sql("SELECT * FROM kept_views.v", other) == [2]
    tidegate.disable(spark)
    try:
        with pytest.raises(AnalysisException, match=r"TABLE_OR_VIEW_NOT_FOUND.*`delta`"):
            other.sql("SELECT * FROM kept_views.v")
    finally:
        tidegate.enable(spark)
    assert sql("SELECT * FROM kept_views.v", other) == [2]


def test_what_is_wrong_is_said_when_the_view_is_made_and_when_it_is_read(
    spark: SparkSession, sql: Any, table: str
) -> None:
    with pytest.raises(NotATableError):
        sql(f"CREATE VIEW kept_views.v AS SELECT * FROM delta.`{table}`")
    with pytest.raises(VersionNotFoundError):
        sql("CREATE VIEW kept_views.v AS SELECT * FROM delta.`{p}` VERSION AS OF 99")
    text = "CREATE VIEW kept_views.v AS SELECT * FROM table_changes('kept_views.t', 0)"
    with pytest.raises(OptionError, match="change feed") as caught:
        sql(text)
    assert (caught.value.line, caught.value.column) == (1, text.index("table_changes") + 1)
    spark.range(2).write.format("delta").save(table)
    sql(f"CREATE VIEW kept_views.v AS SELECT * FROM delta.`{table}`")
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN id TO other")
    with pytest.raises(AnalysisException, match="INCOMPATIBLE_VIEW_SCHEMA_CHANGE"):
        sql("SELECT * FROM kept_views.v")
