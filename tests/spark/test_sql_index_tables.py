"""Index tables in SQL: queries by path and by name, searches in WHERE, and their statements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import OptionError, QueryError, SqlSyntaxError, TidegateError

pytestmark = pytest.mark.spark
pytest.importorskip("tantivy")


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path_factory.mktemp("splits")))
        yield


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six rows in two commits: a number, a text of words, an exact string, a partition."""
    where = str(tmp_path_factory.mktemp("index") / "logs")
    for start in (0, 3):
        frame = spark.range(start, start + 3).selectExpr(
            "id",
            "concat(if(id % 2 = 0, 'connection reset', 'all is well'), ' n', id) AS message",
            "CASE WHEN id > 3 THEN 'ERROR' ELSE 'INFO' END AS level",
            "CAST(id % 2 AS INT) AS p",
        )
        writer = frame.coalesce(1).write.format("indextables").mode("append").partitionBy("p")
        writer.option("spark.indextables.indexing.typemap.message", "text").save(where)
    return where


@pytest.fixture
def sql(spark: SparkSession) -> Any:
    return lambda text: [tuple(r) for r in spark.sql(text).collect()]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("", [0, 1, 2, 3, 4, 5]),
        ("WHERE id > 3", [4, 5]),
        ("WHERE message TEXTSEARCH 'reset'", [0, 2, 4]),
        ("WHERE message TEXTSEARCH 'reset AND n2'", [2]),
        ("WHERE textsearch(message, 'reset') AND id > 1", [2, 4]),
        ("WHERE level FIELDMATCH 'ERROR' AND message TEXTSEARCH 'well'", [5]),
        ("WHERE * INDEXQUERY 'level:ERROR OR message:n0'", [0, 4, 5]),
        ("WHERE indexqueryall('message:(reset AND NOT n2)')", [0, 4]),
        ("WHERE id = 1 OR message TEXTSEARCH 'n2' OR level FIELDMATCH 'ERROR'", [1, 2, 4, 5]),
        ("WHERE message TEXTSEARCH 'n0' OR level FIELDMATCH 'ERROR'", [0, 4, 5]),
        ("WHERE NOT message TEXTSEARCH 'reset' AND p = 1", [1, 3, 5]),
        ("WHERE NOT (message TEXTSEARCH 'reset' OR id = 1)", [3, 5]),
        ("WHERE message TEXTSEARCH 'reset' = (level FIELDMATCH 'ERROR')", [1, 3, 4]),
    ],
)
def test_a_path_is_read_and_searched(sql: Any, path: str, where: str, expected: list[int]) -> None:
    assert sql(f"SELECT id FROM indextables.`{path}` {where} ORDER BY id") == [(i,) for i in expected]


def test_searches_belong_to_their_own_table_in_joins_and_subqueries(sql: Any, path: str) -> None:
    t = f"indextables.`{path}`"
    joined = f"SELECT a.id, b.id FROM {t} a JOIN {t} b ON a.id = b.id + 2 WHERE a.message TEXTSEARCH 'n4'"
    assert sql(joined) == [(4, 2)]
    nested = (
        f"SELECT count(*) FROM (SELECT * FROM {t} WHERE message TEXTSEARCH 'reset') WHERE id = 0 OR id = 1"
    )
    assert sql(nested) == [(1,)]
    rows = f"SELECT * FROM {t} WHERE id = 1 OR message TEXTSEARCH 'n0'"
    assert sql(f"{rows} ORDER BY id") == [
        (0, "connection reset n0", "INFO", 0),
        (1, "all is well n1", "INFO", 1),
    ]
    outer = f"SELECT r.id, a.* FROM range(6) r LEFT JOIN {t} a ON a.id = r.id + 4 WHERE"
    assert sql(f"{outer} a.message TEXTSEARCH 'reset'") == [(0, 4, "connection reset n4", "ERROR", 0)]
    assert [r[0] for r in sql(f"{outer} NOT a.message TEXTSEARCH 'reset'")] == [1]
    with pytest.raises(QueryError, match="several"):
        sql(f"SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id WHERE message TEXTSEARCH 'n4'")


def test_a_search_that_a_field_cannot_answer_is_refused_with_the_remedy(sql: Any, path: str) -> None:
    with pytest.raises(QueryError, match="fieldmatch"):
        sql(f"SELECT * FROM indextables.`{path}` WHERE level TEXTSEARCH 'ERROR'")
    with pytest.raises(QueryError, match="WHERE of a SELECT"):
        sql(f"SELECT message TEXTSEARCH 'reset' FROM indextables.`{path}`")
    for kind in ("VIEW", "TEMPORARY VIEW"):
        with pytest.raises(OptionError, match="cannot be kept") as caught:
            sql(f"CREATE {kind} v AS SELECT * FROM indextables.`{path}` WHERE message TEXTSEARCH 'reset'")
        assert caught.value.errorClass == "DELTA_OPERATION_NOT_ALLOWED"
    with pytest.raises(QueryError, match="no index table"):
        sql("SELECT * FROM range(3) WHERE id TEXTSEARCH '1'")


def test_what_is_searched_can_be_inserted_into_a_delta_table(sql: Any, path: str, table: str) -> None:
    sql(f"CREATE TABLE delta.`{table}` (id BIGINT, message STRING) USING delta")
    found = f"SELECT id, message FROM indextables.`{path}` WHERE message TEXTSEARCH 'n1'"
    sql(f"INSERT INTO delta.`{table}` {found}")
    assert sql(f"SELECT id FROM delta.`{table}`") == [(1,)]


def test_the_statements_of_index_tables(spark: SparkSession, tmp_path: Path, sql: Any) -> None:
    where = str(tmp_path / "t")
    for i in range(3):
        frame = spark.range(i, i + 1).selectExpr("id", "CAST(id % 2 AS INT) AS p")
        frame.write.format("indextables").mode("append").partitionBy("p").save(where)
    log = spark.sql(f"DESCRIBE INDEXTABLES TRANSACTION LOG '{where}' INCLUDE ALL")
    assert {"version", "action_type"} <= set(log.columns)
    assert sum(r.action_type == "add" for r in log.collect()) == 3
    merged = spark.sql(f"MERGE SPLITS '{where}' TARGET SIZE 100M").head()
    assert (merged.status, merged.splits_merged, merged.splits_created) == ("success", 2, 1)
    assert spark.sql(f"MERGE SPLITS indextables.`{where}`").head().status == "no_action"
    assert spark.sql(f"CHECKPOINT INDEXTABLES '{where}'").head().num_files == 2
    assert spark.sql(f"DESCRIBE TANTIVY4SPARK STATE '{where}'").head().num_records == 3
    dropped = spark.sql(f"DROP INDEXTABLES PARTITIONS FROM '{where}' WHERE p = 1").head()
    assert (dropped.status, dropped.splits_removed) == ("success", 1)
    assert spark.sql(f"DROP INDEXTABLES PARTITIONS FROM '{where}' WHERE p = 7").head().status == "no_action"
    assert sql(f"SELECT id FROM indextables.`{where}` ORDER BY id") == [(0,), (2,)]
    purged = spark.sql(f"PURGE INDEXTABLE '{where}' OLDER THAN 7 DAYS DRY RUN").head()
    assert (purged.status, purged.files_deleted) == ("dry_run", 0)
    assert spark.sql(f"TRUNCATE INDEXTABLES TIME TRAVEL '{where}' DRY RUN").head().status == "dry_run"
    repaired = spark.sql(f"REPAIR INDEXFILES TRANSACTION LOG '{where}' AT LOCATION '{where}-again'").head()
    assert (repaired.total_splits, repaired.missing_splits) == (1, 0)


def test_a_companion_of_a_delta_table_is_built(spark: SparkSession, sql: Any, table: str) -> None:
    sql(f"CREATE TABLE delta.`{table}` (id BIGINT, message STRING) USING delta")
    sql(f"INSERT INTO delta.`{table}` VALUES (1, 'connection reset'), (2, 'all is well')")
    built = spark.sql(
        f"BUILD INDEXTABLES COMPANION FOR DELTA '{table}' INDEXING MODES ('message':'text') "
        f"AT LOCATION '{table}-index'"
    ).head()
    assert built.status == "success"
    assert sql(f"SELECT id FROM indextables.`{table}-index` WHERE message TEXTSEARCH 'reset'") == [(1,)]


@pytest.mark.parametrize(
    ("text", "kind", "column"),
    [
        ("PREWARM INDEXTABLES CACHE 't'", OptionError, 1),
        ("MERGE SPLITS 't' PRECOMMIT", OptionError, 18),
        ("MERGE SPLITS 't' TARGET SIZE", SqlSyntaxError, 29),
        ("PURGE INDEXTABLE 't' OLDER THAN x DAYS", SqlSyntaxError, 33),
        ("DROP INDEXTABLES PARTITIONS FROM 't'", SqlSyntaxError, 37),
        ("DESCRIBE INDEXTABLES TRANSACTION LOG", SqlSyntaxError, 37),
        ("MERGE SPLITS nowhere.t", TidegateError, 14),
        ("CHECKPOINT INDEXTABLES '/nowhere/t'", TidegateError, 24),
    ],
)
def test_a_wrong_statement_says_where(sql: Any, text: str, kind: type[TidegateError], column: int) -> None:
    with pytest.raises(kind) as caught:
        sql(text)
    assert isinstance(caught.value, TidegateError)
    assert (caught.value.line, caught.value.column) == (1, column)
