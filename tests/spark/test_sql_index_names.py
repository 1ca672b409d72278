"""Index tables by name: made by SQL and by writers, read, searched, looked after and dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import (
    NotATableError,
    OptionError,
    SchemaInvalidError,
    TableExistsError,
    TableNotFoundError,
    TidegateError,
)
from tidegate.table.index import IndexTable

pytestmark = pytest.mark.spark
pytest.importorskip("tantivy")

TEXT = "OPTIONS (spark.indextables.indexing.typemap.message 'text')"


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path_factory.mktemp("splits")))
        yield


@pytest.fixture
def sql(spark: SparkSession) -> Any:
    return lambda text: [tuple(r) for r in spark.sql(text).collect()]


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    yield "ix_logs"
    spark.sql("DROP TABLE IF EXISTS ix_logs")


def test_a_managed_table_lives_and_goes_by_its_name(spark: SparkSession, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT, message STRING, p INT) USING indextables {TEXT} PARTITIONED BY (p)")
    sql(f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT) USING indextables")
    assert sql(f"SELECT * FROM {name}") == []
    sql(f"INSERT INTO {name} VALUES (1, 'connection reset', 0), (2, 'all is well', 1)")
    sql(f"INSERT INTO {name} (p, id) SELECT 0, 3L")
    assert spark.table(name).count() == 3
    assert sql(f"SELECT id FROM {name} WHERE id > 1 ORDER BY id") == [(2,), (3,)]
    assert sql(f"SELECT id FROM {name} WHERE textsearch(message, 'reset')") == [(1,)]
    assert sql(f"SELECT l.id FROM default.{name} l WHERE l.message TEXTSEARCH 'well'") == [(2,)]
    table = IndexTable.forName(spark, f"default.{name}")
    assert (table.count("message:reset"), table.fields()["message"]) == (1, "text")
    assert [(c.name, c.isPartition) for c in spark.catalog.listColumns(name)] == [
        ("id", False),
        ("message", False),
        ("p", True),
    ]
    assert spark.sql(f"MERGE SPLITS {name}").collect()[0].splits_merged == 2
    purged = spark.sql(f"PURGE INDEXTABLE {name} OLDER THAN 7 DAYS DRY RUN").collect()
    assert purged[0].status == "dry_run"
    log = spark.sql(f"DESCRIBE INDEXTABLES TRANSACTION LOG default.{name}").collect()
    assert {"protocol", "metadata"} <= {r.action_type for r in log}
    place = Path(table.path)
    assert place.is_dir()
    sql(f"DROP TABLE {name}")
    assert not place.exists()
    assert name not in [t.name for t in spark.catalog.listTables()]
    with pytest.raises(TableNotFoundError):
        IndexTable.forName(spark, name)


def test_a_query_makes_an_external_table_whose_files_stay(
    spark: SparkSession, sql: Any, name: str, tmp_path: Path
) -> None:
    where = str(tmp_path / "t")
    rows = "SELECT id, concat('line n', id) AS message FROM range(3)"
    sql(f"CREATE TABLE {name} USING indextables {TEXT} LOCATION '{where}' AS {rows}")
    assert sql(f"SELECT id FROM {name} WHERE message TEXTSEARCH 'n2'") == [(2,)]
    sql(f"DROP TABLE {name}")
    assert IndexTable.forPath(spark, where).count() == 3
    with pytest.raises(SchemaInvalidError, match="other columns"):
        sql(f"CREATE TABLE {name} (id INT) USING indextables LOCATION '{where}'")
    sql(f"CREATE TABLE {name} USING tantivy4spark LOCATION '{where}'")
    sql(f"CREATE OR REPLACE TEMPORARY VIEW ix_view AS SELECT id FROM {name} WHERE id < 2")
    assert spark.table("ix_view").count() == 2
    sql(f"INSERT OVERWRITE {name} VALUES (7, 'new')")
    assert sql(f"SELECT * FROM {name}") == [(7, "new")]
    old = spark.read.option("versionAsOf", 0).table(name)
    assert old.count() == 3
    spark.catalog.dropTempView("ix_view")


def test_writers_go_by_name(spark: SparkSession, sql: Any, name: str) -> None:
    frame = spark.createDataFrame([(1, "connection reset")], "id INT, message STRING")
    writer = frame.write.format("indextables").option("spark.indextables.indexing.typemap.message", "text")
    writer.saveAsTable(name)
    with pytest.raises(TableExistsError, match="already"):
        frame.write.format("indextables").saveAsTable(name)
    frame.write.mode("append").saveAsTable(name)
    frame.toDF("a", "b").write.insertInto(name)
    frame.writeTo(name).append()
    assert sql(f"SELECT count(*) FROM {name} WHERE message TEXTSEARCH 'reset'") == [(4,)]
    frame.write.format("indextables").mode("overwrite").saveAsTable(name)
    assert spark.table(name).count() == 1
    with pytest.raises(OptionError, match="not served"):
        frame.writeTo(name).createOrReplace()


@pytest.mark.parametrize(
    ("text", "kind", "match"),
    [
        ("CREATE TABLE ix_logs (id INT NOT NULL) USING indextables", OptionError, "NOT NULL"),
        ("CREATE TABLE ix_logs (id INT) USING indextables CLUSTER BY (id)", OptionError, "CLUSTER BY"),
        ("CREATE TABLE ix_logs USING indextables", SchemaInvalidError, "no columns"),
        (
            "CREATE TABLE ix_logs (id INT) USING indextables TBLPROPERTIES (a = 1)",
            OptionError,
            "no property a",
        ),
        ("REPLACE TABLE ix_logs (id INT) USING indextables", TableNotFoundError, "to replace"),
        ("DELETE FROM indextables.`/nowhere/t` WHERE id = 1", OptionError, "DELETE is not served"),
        ("UPDATE indextables.`/nowhere/t` SET id = 1", OptionError, "UPDATE is not served"),
    ],
)
def test_what_index_tables_do_not_have_is_refused_with_the_place(
    sql: Any, text: str, kind: type[TidegateError], match: str
) -> None:
    with pytest.raises(kind, match=match) as caught:
        sql(text)
    assert caught.value.line == 1


def test_a_name_of_another_kind_is_told_apart(spark: SparkSession, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} (id INT) USING delta")
    with pytest.raises(NotATableError, match="format delta"):
        IndexTable.forName(spark, name)
    with pytest.raises(TableExistsError, match="format delta"):
        spark.range(1).write.format("indextables").mode("append").saveAsTable(name)
