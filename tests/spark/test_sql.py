"""Delta's statements in ``spark.sql``: what each does, on names and on paths, and what is left to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import TidegateError


@pytest.fixture
def sql(spark: SparkSession) -> Any:
    """Run a statement; its rows as tuples."""

    def run(text: str, args: Any = None) -> list[tuple[Any, ...]]:
        return [tuple(r) for r in spark.sql(text, args).collect()]

    return run


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    """A name of the catalog that is free, and is dropped afterwards."""
    spark.sql("CREATE DATABASE IF NOT EXISTS sqltests")
    yield "sqltests.t"
    for table in spark.catalog.listTables("sqltests"):
        spark.sql(f"DROP TABLE IF EXISTS sqltests.`{table.name}`")


def test_a_table_by_path_is_made_filled_read_and_changed(sql: Any, table: str) -> None:
    sql(f"CREATE TABLE delta.`{table}` (id BIGINT, v STRING) USING delta")
    sql(f"INSERT INTO delta.`{table}` VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    assert sql(f"UPDATE delta.`{table}` SET v = upper(v) WHERE id > 1") == [(2,)]
    assert sql(f"DELETE FROM delta.`{table}` WHERE id = 3") == [(1,)]
    assert sorted(sql(f"SELECT id, v FROM delta.`{table}`")) == [(1, "a"), (2, "B")]
    assert sql(f"SELECT count(*) FROM delta.`{table}` VERSION AS OF 1") == [(3,)]
    assert [r[0] for r in sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 2")] == [3, 2]
    assert tidegate.open(table).version == 3


def test_a_managed_table_lives_and_dies_with_its_name(spark: SparkSession, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} (a INT NOT NULL, b STRING COMMENT 'second') USING delta PARTITIONED BY (b)")
    sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y')")
    assert sorted(sql(f"SELECT * FROM {name}")) == [(1, "x"), (2, "y")]
    assert sorted(sql(f"SHOW PARTITIONS {name}")) == [("x",), ("y",)]
    assert sql(f"SHOW COLUMNS IN {name}") == [("a",), ("b",)]
    assert sql(f"DESCRIBE {name}")[:2] == [("a", "int", None), ("b", "string", "second")]
    location = sql(f"DESCRIBE DETAIL {name}")[0][4].removeprefix("file:")
    sql(f"DROP TABLE {name}")
    with pytest.raises(TidegateError):
        tidegate.open(location)


def test_create_table_as_select_and_replace(sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} USING delta AS SELECT id, id % 2 AS odd FROM range(4)")
    assert len(sql(f"SELECT * FROM {name}")) == 4
    sql(f"CREATE OR REPLACE TABLE {name} USING delta TBLPROPERTIES ('k' = 'v') AS SELECT 'x' AS a")
    assert sql(f"SELECT * FROM {name}") == [("x",)]
    assert ("k", "v") in sql(f"SHOW TBLPROPERTIES {name}")
    sql(f"CREATE TABLE IF NOT EXISTS {name} (other INT) USING delta")
    assert sql(f"SELECT * FROM {name}") == [("x",)]
    with pytest.raises(AnalysisException):
        sql(f"CREATE TABLE {name} (other INT) USING delta")


def test_create_table_like_takes_schema_and_properties(sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} (a INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ('k' = 'v')")
    sql(f"CREATE TABLE {name}2 LIKE {name}")
    assert sql(f"DESCRIBE {name}2") == sql(f"DESCRIBE {name}")
    assert ("k", "v") in sql(f"SHOW TBLPROPERTIES {name}2")
    assert sql(f"SELECT * FROM {name}2") == []


def test_a_table_that_is_there_is_entered_by_its_location(sql: Any, name: str, table: str) -> None:
    sql(f"CREATE TABLE delta.`{table}` (a INT, p STRING) USING delta PARTITIONED BY (p)")
    sql(f"INSERT INTO delta.`{table}` VALUES (1, 'x')")
    sql(f"CREATE TABLE {name} USING delta LOCATION '{table}'")
    assert sql(f"SELECT * FROM {name}") == [(1, "x")]
    assert tidegate.open(table).version == 1
    sql(f"CREATE TABLE {name}2 (a INT, p STRING) USING delta PARTITIONED BY (p) LOCATION '{table}'")
    for other in ("(a BIGINT, p STRING) USING delta PARTITIONED BY (p)", "(a INT, p STRING) USING delta"):
        with pytest.raises(AnalysisException, match="differ"):
            sql(f"CREATE TABLE {name}3 {other} LOCATION '{table}'")
    with pytest.raises(AnalysisException, match="properties"):
        sql(f"CREATE TABLE {name}3 USING delta LOCATION '{table}' TBLPROPERTIES ('k' = 'v')")
    sql(f"DROP TABLE {name}")
    assert tidegate.open(table).version == 1


def test_insert_in_every_form(spark: SparkSession, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} (a INT, b INT, p STRING) USING delta PARTITIONED BY (p)")
    sql(f"INSERT INTO {name} (p, a) VALUES ('x', 1)")
    sql(f"INSERT INTO {name} BY NAME SELECT 'x' AS p, 2 AS b, 2 AS a")
    sql(f"INSERT INTO {name} PARTITION (p = 'y') SELECT 3, 3")
    sql(f"WITH c AS (SELECT 4 AS a) INSERT INTO {name} SELECT a, a, 'z' FROM c")
    assert sorted(sql(f"SELECT a, p FROM {name}")) == [(1, "x"), (2, "x"), (3, "y"), (4, "z")]
    sql(f"INSERT OVERWRITE {name} PARTITION (p = 'x') SELECT 5, 5")
    assert sorted(sql(f"SELECT a, p FROM {name}")) == [(3, "y"), (4, "z"), (5, "x")]
    sql(f"INSERT INTO {name} REPLACE WHERE p = 'z' SELECT 6, 6, 'z'")
    assert sorted(sql(f"SELECT a, p FROM {name}")) == [(3, "y"), (5, "x"), (6, "z")]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        sql(f"INSERT OVERWRITE {name} SELECT 7, 7, 'y'")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sorted(sql(f"SELECT a, p FROM {name}")) == [(5, "x"), (6, "z"), (7, "y")]
    sql(f"INSERT OVERWRITE {name} VALUES (8, 8, 'q')")
    assert sql(f"SELECT a, p FROM {name}") == [(8, "q")]
    with pytest.raises(AnalysisException, match="3 here"):
        sql(f"INSERT INTO {name} SELECT 1")


def test_merge_with_schema_evolution(sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} USING delta AS SELECT id, 'old' AS v FROM range(3)")
    counts = sql(
        f"""MERGE WITH SCHEMA EVOLUTION INTO {name} t
        USING (SELECT id + 2 AS id, 'new' AS v, 1 AS extra FROM range(2)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE"""
    )
    assert counts == [(3, 1, 1, 1)]
    assert sorted(sql(f"SELECT * FROM {name}")) == [(1, "old", None), (2, "new", 1), (3, "new", 1)]


def test_time_travel_and_change_feed_wherever_a_table_may_stand(sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} (a INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    sql(f"INSERT INTO {name} VALUES (1)")
    sql(f"INSERT INTO {name} VALUES (2)")
    assert sql(f"SELECT a FROM {name} VERSION AS OF 1") == [(1,)]
    assert sql(f"SELECT a FROM {name}@v1") == [(1,)]
    joined = f"SELECT x.a FROM {name} x LEFT ANTI JOIN {name} VERSION AS OF 1 y ON x.a = y.a"
    assert sql(joined) == [(2,)]
    assert sql(
        f"WITH old AS (SELECT * FROM {name}@v1) SELECT * FROM old WHERE a IN (SELECT a FROM {name})"
    ) == [(1,)]
    moment = sql(f"DESCRIBE HISTORY {name} LIMIT 1")[0][1]
    sql(f"INSERT INTO {name} SELECT a + 10 FROM {name} TIMESTAMP AS OF '{moment}'")
    feed = sql(f"SELECT a, _change_type, _commit_version FROM table_changes('{name}', 2, 3) ORDER BY a")
    assert feed == [(2, "insert", 2), (11, "insert", 3), (12, "insert", 3)]


def test_alter_table_in_its_forms(sql: Any, name: str) -> None:
    sql(
        f"CREATE TABLE {name} (a INT, s STRUCT<x: INT>) USING delta "
        "TBLPROPERTIES (delta.columnMapping.mode = 'name', delta.enableTypeWidening = true)"
    )
    sql(f"INSERT INTO {name} VALUES (1, named_struct('x', 2))")
    sql(f"ALTER TABLE {name} ADD COLUMNS (b STRING COMMENT 'new' FIRST, s.y INT)")
    sql(f"ALTER TABLE {name} RENAME COLUMN a TO id")
    sql(f"ALTER TABLE {name} ALTER COLUMN id TYPE BIGINT")
    sql(f"ALTER TABLE {name} ALTER COLUMN id COMMENT 'the key'")
    sql(f"ALTER TABLE {name} ADD CONSTRAINT positive CHECK (id > 0)")
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('k' = 'v')")
    assert sql(f"SELECT b, id, s.x, s.y FROM {name}") == [(None, 1, 2, None)]
    assert ("id", "bigint", "the key") in sql(f"DESCRIBE {name}")
    with pytest.raises(TidegateError, match="positive"):
        sql(f"INSERT INTO {name} VALUES ('x', -1, NULL)")
    sql(f"ALTER TABLE {name} DROP CONSTRAINT positive")
    sql(f"ALTER TABLE {name} DROP COLUMN b")
    sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('k')")
    assert sql(f"SHOW COLUMNS IN {name}") == [("id",), ("s",)]
    assert "k" not in [r[0] for r in sql(f"SHOW TBLPROPERTIES {name}")]


def test_optimize_restore_truncate(sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} (a INT) USING delta")
    for i in range(3):
        sql(f"INSERT INTO {name} VALUES ({i})")
    assert sql(f"OPTIMIZE {name}")[0][1].numFilesRemoved == 3
    sql(f"TRUNCATE TABLE {name}")
    assert sql(f"SELECT * FROM {name}") == []
    sql(f"RESTORE TABLE {name} TO VERSION AS OF 3")
    assert sorted(sql(f"SELECT a FROM {name}")) == [(0,), (1,), (2,)]
    text = sql(f"SHOW CREATE TABLE {name}")[0][0]
    assert text.startswith("CREATE TABLE")
    assert "USING delta" in text


def test_vacuum_clone_convert_reorg_generate(spark: SparkSession, sql: Any, name: str, tmp_path: Any) -> None:
    sql(f"CREATE TABLE {name} (a INT) USING delta TBLPROPERTIES (delta.enableDeletionVectors = true)")
    sql(f"INSERT INTO {name} SELECT CAST(id AS INT) FROM range(10)")
    sql(f"DELETE FROM {name} WHERE a < 3")
    assert sql(f"REORG TABLE {name} APPLY (PURGE)")[0][1].numFilesRemoved >= 1
    assert sql(f"VACUUM {name} RETAIN 200 HOURS DRY RUN") == []
    location = sql(f"DESCRIBE DETAIL {name}")[0][4].removeprefix("file:")
    assert [r[0].removeprefix("file:") for r in sql(f"VACUUM {name}")] == [location]
    sql(f"CREATE TABLE {name}2 SHALLOW CLONE {name} VERSION AS OF 1")
    assert sql(f"SELECT count(*) FROM {name}2") == [(10,)]
    spark.range(4).write.parquet(f"{tmp_path}/plain")
    sql(f"CONVERT TO DELTA parquet.`{tmp_path}/plain`")
    assert sql(f"SELECT count(*) FROM delta.`{tmp_path}/plain`") == [(4,)]
    sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{tmp_path}/plain`")
    assert (tmp_path / "plain" / "_symlink_format_manifest" / "manifest").exists()


def test_parameters_reach_statements_and_queries(sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} (a INT, v STRING) USING delta")
    sql(f"INSERT INTO {name} SELECT :a, :v", {"a": 1, "v": "it's"})
    sql(f"UPDATE {name} SET v = ? WHERE a = ?", ["new", 1])
    assert sql(f"SELECT v FROM {name}@v2 WHERE a = :a", {"a": 1}) == [("new",)]


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        ("VACUUM nowhere.t", AnalysisException, "nowhere"),
        ("OPTIMIZE sqltests.none", AnalysisException, "none"),
        ("OPTIMIZE delta.`{path}`", AnalysisException, "table"),
        ("RESTORE TABLE t", ParseException, "VERSION AS OF"),
        ("VACUUM t RETAIN", ParseException, "number"),
        ("UPDATE delta.`{path}` SET", ParseException, "Expected"),
    ],
)
def test_a_mistake_is_told_before_anything_happens(
    sql: Any, name: str, table: str, text: str, kind: type[Exception], word: str
) -> None:
    with pytest.raises(kind, match=word) as caught:
        sql(text.format(path=table))
    assert isinstance(caught.value, TidegateError)


def test_what_is_not_ours_reaches_spark_as_it_came(spark: SparkSession, sql: Any, tmp_path: Any) -> None:
    assert sql("SELECT /* delta.`/x` */ 'VACUUM t' AS a, 1 AS version") == [("VACUUM t", 1)]
    sql(f"CREATE TABLE sqlplain (a INT) USING parquet LOCATION '{tmp_path}/p'")
    try:
        sql("INSERT INTO sqlplain VALUES (1)")
        assert sql("SELECT * FROM sqlplain") == [(1,)]
        assert sql("DESCRIBE sqlplain")[0][:2] == ("a", "int")
    finally:
        sql("DROP TABLE sqlplain")
    with pytest.raises(ParseException):
        sql("SELEKT 1")


def test_a_session_that_is_disabled_is_spark_alone(spark: SparkSession, sql: Any, table: str) -> None:
    tidegate.disable(spark)
    try:
        with pytest.raises(Exception, match=r"(?i)optimize"):
            sql("OPTIMIZE t")
    finally:
        tidegate.enable(spark)
        tidegate.enable(spark)
    sql(f"CREATE TABLE delta.`{table}` (a INT) USING delta")
