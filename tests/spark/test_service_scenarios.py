"""Table services scenario by scenario, as Delta's own suites ask for them: RESTORE, CLONE, CONVERT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import tidegate
from support.dml import confs, feed, last
from tidegate import DeltaTable

pytestmark = pytest.mark.spark


@pytest.fixture
def services(spark: SparkSession) -> Iterator[str]:
    """A database of its own, as the current one."""
    spark.sql("DROP DATABASE IF EXISTS services CASCADE")
    spark.sql("CREATE DATABASE services")
    spark.sql("USE services")
    yield "services"
    spark.sql("USE default")
    spark.sql("DROP DATABASE services CASCADE")


def _rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in spark.sql(query).collect())


def _refused(spark: SparkSession, statements: dict[str, str], kind: type = AnalysisException) -> None:
    for statement, condition in statements.items():
        with pytest.raises(kind) as caught:
            spark.sql(statement)
        assert caught.value.getCondition() == condition, statement


# ---------------------------------------------------------------------------- RESTORE


def test_a_restore_to_where_the_table_is_does_nothing(spark: SparkSession, table: str) -> None:
    spark.range(2).coalesce(1).write.format("delta").save(table)
    spark.range(2, 3).coalesce(1).write.format("delta").mode("append").save(table)
    there = DeltaTable.forPath(spark, table)
    for answer in (
        there.restoreToVersion(1),
        there.restoreToTimestamp(tidegate.open(table).timestamp.isoformat()),
        spark.sql(f"RESTORE delta.`{table}` TO VERSION AS OF 1"),
    ):
        assert answer.collect() == []
        assert answer.columns[0] == "table_size_after_restore"
    assert tidegate.open(table).version == 1


def test_what_is_restored_by_name_is_a_delta_table(spark: SparkSession, services: str) -> None:
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(2)")
    spark.sql("INSERT INTO t SELECT id FROM range(2, 5)")
    spark.sql("CREATE VIEW v AS SELECT 1 AS id")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW passing AS SELECT * FROM t")
    _refused(
        spark,
        {
            "RESTORE TABLE v VERSION AS OF 0": "DELTA_ONLY_OPERATION",
            "RESTORE passing TO VERSION AS OF 0": "DELTA_ONLY_OPERATION",
            "RESTORE TABLE none VERSION AS OF 0": "TABLE_OR_VIEW_NOT_FOUND",
            "RESTORE t TO TIMESTAMP AS OF 'soon'": "DELTA_TIMESTAMP_INVALID",
        },
    )
    spark.catalog.dropTempView("passing")
    spark.sql("RESTORE TABLE spark_catalog.services.t VERSION AS OF 0")
    assert _rows(spark, "SELECT * FROM t") == [(0,), (1,)]


def test_a_feed_of_restores_over_vectors(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (id INT) USING delta TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO {name} SELECT /*+ coalesce(1) */ * FROM VALUES (0), (1)")
    spark.sql(f"INSERT INTO {name} VALUES (2)")
    spark.sql(f"DELETE FROM {name} WHERE id < 1")
    spark.sql(f"UPDATE {name} SET id = 4 WHERE id > 1")
    for version, changes in ((3, [(2, "insert"), (4, "delete")]), (2, [(0, "insert")])):
        DeltaTable.forPath(spark, table).restoreToVersion(version)
        assert feed(spark, table, tidegate.open(table).version) == changes


def test_names_of_hidden_columns_outlive_a_restore(spark: SparkSession, table: str) -> None:
    spark.range(2).coalesce(1).write.format("delta").save(table)
    there = DeltaTable.forPath(spark, table)
    there.setProperties({"delta.enableRowTracking": "true"})
    named = {k: v for k, v in tidegate.open(table).properties.items() if "materialized" in k}
    assert len(named) == 2
    with confs(spark, properties__defaults__appendOnly="true"):
        there.restoreToVersion(0)
    assert tidegate.open(table).properties == named


# ---------------------------------------------------------------------------- CLONE


def test_a_clone_by_name_knows_its_source_and_has_no_name_of_it(
    spark: SparkSession, services: str, tmp_path: Path
) -> None:
    spark.sql("CREATE TABLE s USING delta COMMENT 'of the source' AS SELECT id FROM range(3)")
    spark.sql("CREATE TABLE c SHALLOW CLONE s VERSION AS OF 0 TBLPROPERTIES ('mine' = '1')")
    made = tidegate.open(DeltaTable.forName(spark, "c").detail().collect()[0]["location"])
    assert made.commit_info["operationParameters"]["source"] == "spark_catalog.services.s"
    assert (made.metadata.name, made.metadata.description) == (None, None)
    assert made.properties == {"mine": "1"}
    path = str(tmp_path / "c")
    DeltaTable.forName(spark, "s").clone(path, isShallow=True)
    assert last(path)["operationParameters"]["source"] == "spark_catalog.services.s"
    assert [p.name for p in Path(path).iterdir()] == ["_delta_log"]
    spark.sql("CREATE TABLE IF NOT EXISTS c SHALLOW CLONE delta.`/nowhere`")
    assert _rows(spark, "SELECT count(*) FROM c") == [(3,)]


def test_a_clone_takes_the_place_of_a_table_of_another_format(spark: SparkSession, services: str) -> None:
    spark.sql("CREATE TABLE s USING delta AS SELECT id FROM range(3)")
    for form in ("parquet", "json"):
        spark.sql(f"CREATE TABLE {form}_t USING {form} AS SELECT 'old' AS other")
        spark.sql(f"CREATE OR REPLACE TABLE {form}_t SHALLOW CLONE s")
        assert _rows(spark, f"SELECT * FROM {form}_t") == [(0,), (1,), (2,)]
        assert spark.sql(f"DESCRIBE DETAIL {form}_t").collect()[0]["format"] == "delta"


def test_what_cannot_be_cloned_is_refused(spark: SparkSession, services: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE s USING delta AS SELECT id FROM range(3)")
    spark.sql("CREATE TABLE j USING json AS SELECT 1 AS a")
    spark.sql("CREATE VIEW v AS SELECT 1 AS id")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW passing AS SELECT 1 AS a")
    full, free = tmp_path / "full", tmp_path / "free"
    full.mkdir()
    (full / "file").write_text("x")
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    _refused(
        spark,
        {
            f"CREATE TABLE delta.`{free}` SHALLOW CLONE v": "DELTA_CLONE_UNSUPPORTED_SOURCE",
            f"CREATE TABLE delta.`{free}` SHALLOW CLONE passing": "DELTA_CLONE_UNSUPPORTED_SOURCE",
            "CREATE TABLE c SHALLOW CLONE j": "DELTA_CLONE_UNSUPPORTED_SOURCE",
            "CREATE TABLE c SHALLOW CLONE none VERSION AS OF 0": "TABLE_OR_VIEW_NOT_FOUND",
            f"CREATE TABLE delta.`{full}` SHALLOW CLONE s": "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
            f"REPLACE TABLE delta.`{free}` SHALLOW CLONE s": "DELTA_CANNOT_REPLACE_MISSING_TABLE",
            f"CREATE TABLE delta.`{free}` SHALLOW CLONE s LOCATION '{full}'": "DELTA_CLONE_AMBIGUOUS_TARGET",
            "CREATE OR REPLACE TABLE v SHALLOW CLONE s": "DELTA_ONLY_OPERATION",
            "CREATE TABLE passing SHALLOW CLONE s": "DELTA_ONLY_OPERATION",
            "CREATE OR REPLACE TABLE j (a INT) USING delta": "DELTA_NOT_A_DELTA_TABLE",
            "CREATE OR REPLACE TABLE j USING delta AS SELECT 2 AS a": "DELTA_NOT_A_DELTA_TABLE",
            "CREATE TABLE c SHALLOW CLONE s TIMESTAMP AS OF 'soon'": "DELTA_TIMESTAMP_INVALID",
            f"CREATE TABLE c SHALLOW CLONE s {mapped}": "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        },
    )
    spark.catalog.dropTempView("passing")
    for words in ("CREATE OR REPLACE", "REPLACE"):
        _refused(
            spark, {f"{words} TABLE IF NOT EXISTS c SHALLOW CLONE s": "PARSE_SYNTAX_ERROR"}, ParseException
        )
    assert not free.exists()
    kept = [r["tableName"] for r in spark.sql("SHOW TABLES").collect() if not r["isTemporary"]]
    assert sorted(kept) == ["j", "s", "v"]
    assert _rows(spark, "SELECT * FROM j") == [(1,)]


def test_vectors_that_a_clone_is_told_not_to_have(spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.range(4).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(table)
    source = DeltaTable.forPath(spark, table)
    no_vectors = {"delta.enableDeletionVectors": "false"}
    source.clone(str(tmp_path / "before"), isShallow=True, properties=no_vectors)
    source.delete("id = 1")
    with pytest.raises(AnalysisException) as caught:
        source.clone(str(tmp_path / "after"), isShallow=True, properties=no_vectors)
    assert caught.value.getCondition() == "DELTA_ADDING_DELETION_VECTORS_DISALLOWED"


def test_a_replaced_table_keeps_its_id_and_comment(spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.range(2).write.format("delta").save(str(tmp_path / "s"))
    spark.sql(f"CREATE TABLE delta.`{table}` (x INT) USING delta COMMENT 'mine'")
    before = tidegate.open(table)
    spark.sql(f"REPLACE TABLE delta.`{table}` SHALLOW CLONE delta.`{tmp_path}/s`")
    after = tidegate.open(table)
    assert (after.metadata.id, after.metadata.description) == (before.metadata.id, "mine")
    assert after.schema.names == ("id",)


def test_a_clone_of_a_parquet_table_has_the_partitions_of_the_catalog(
    spark: SparkSession, services: str
) -> None:
    spark.sql(
        "CREATE TABLE p USING parquet PARTITIONED BY (k, s) AS "
        "SELECT id, id % 2 AS k, cast(id % 2 AS string) AS s FROM range(4)"
    )
    spark.sql("CREATE TABLE c SHALLOW CLONE p")
    assert spark.table("c").dtypes == [("id", "bigint"), ("k", "bigint"), ("s", "string")]
    assert _rows(spark, "SELECT * FROM c WHERE s = '1'") == [(1, 1, "1"), (3, 1, "1")]


# ---------------------------------------------------------------------------- CONVERT


def test_a_parquet_table_is_converted_as_the_catalog_knows_it(
    spark: SparkSession, services: str, tmp_path: Path
) -> None:
    spark.sql(
        "CREATE TABLE p USING parquet PARTITIONED BY (k) TBLPROPERTIES ('mine' = '1') AS "
        "SELECT id, cast(id % 2 AS string) AS k FROM range(4)"
    )
    place = spark.sql("DESCRIBE EXTENDED p").where("col_name = 'Location'").collect()[0]["data_type"]
    more = spark.sql("SELECT id, '2' AS k, 'x' AS inner FROM range(10, 12)")
    more.write.partitionBy("k", "inner").mode("append").parquet(place)
    spark.sql(f"ALTER TABLE p PARTITION (k = '1') SET LOCATION '{place}/k=2/inner=x'")
    before = _rows(spark, "SELECT * FROM p")
    spark.sql("CREATE VIEW v AS SELECT * FROM p")
    _refused(
        spark,
        {
            "CONVERT TO DELTA p PARTITIONED BY (k INT)": "DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER",
            "CONVERT TO DELTA none": "TABLE_OR_VIEW_NOT_FOUND",
            "CONVERT TO DELTA v": "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
            "CONVERT TO DELTA `/somewhere`": "DELTA_MISSING_PROVIDER_FOR_CONVERT",
            "CONVERT TO DELTA json.`/somewhere`": "DELTA_CONVERT_NON_PARQUET_TABLE",
        },
    )
    spark.sql("CONVERT TO DELTA p PARTITIONED BY (k STRING)")
    assert _rows(spark, "SELECT * FROM p") == before == [(0, "0"), (2, "0"), (10, "1"), (11, "1")]
    detail = spark.sql("DESCRIBE DETAIL p").collect()[0]
    assert (detail["format"], detail["properties"]) == ("delta", {"mine": "1"})


def test_two_parquet_tables_over_one_folder(spark: SparkSession, services: str, tmp_path: Path) -> None:
    place = tmp_path / "shared"
    spark.sql(
        f"CREATE TABLE one USING parquet LOCATION '{place}' TBLPROPERTIES ('a' = '1') AS SELECT 1 x, 2 y"
    )
    spark.sql(f"CREATE TABLE two (x INT) USING parquet LOCATION '{place}' TBLPROPERTIES ('a' = '2')")
    spark.sql(f"CREATE TABLE three (x INT) USING parquet LOCATION '{place}'")
    spark.sql("CONVERT TO DELTA one")
    spark.sql("CONVERT TO DELTA three")
    assert tidegate.open(place).version == 0
    with pytest.raises(AnalysisException, match=r"convert\.metadataCheck\.enabled"):
        spark.sql("CONVERT TO DELTA two")
    with confs(spark, convert__metadataCheck__enabled="false"):
        spark.sql("CONVERT TO DELTA two")
    assert tidegate.open(place).properties == {"a": "2"}
    for name in ("one", "two", "three"):
        assert _rows(spark, f"SELECT * FROM {name}") == [(1, 2)]


def test_columns_that_the_catalog_does_not_know_are_left_out(
    spark: SparkSession, services: str, tmp_path: Path
) -> None:
    for name, asks in (("by_catalog", "true"), ("by_files", "false")):
        spark.sql("SELECT 1 AS x, 'y' AS y, 'z' AS z").write.parquet(str(tmp_path / name))
        columns = "z VARCHAR(3) COMMENT 'last', x INT"
        spark.sql(f"CREATE TABLE {name} ({columns}) USING parquet LOCATION '{tmp_path / name}'")
        with confs(spark, convert__useCatalogSchema=asks):
            spark.sql(f"CONVERT TO DELTA {name}")
    assert _rows(spark, "SELECT * FROM by_catalog") == [("z", 1)]
    kept = tidegate.open(tmp_path / "by_catalog").schema.field("z")
    assert kept is not None
    assert kept.metadata == {"comment": "last", "__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}
    assert _rows(spark, "SELECT * FROM by_files") == [(1, "y", "z")]


def test_a_database_may_be_called_parquet(spark: SparkSession, table: str) -> None:
    spark.range(2).write.parquet(table)
    spark.sql("CREATE DATABASE parquet")
    try:
        spark.sql("CREATE TABLE parquet.t USING parquet AS SELECT 1 AS a")
        spark.sql("CONVERT TO DELTA parquet.t")
        spark.sql(f"CONVERT TO DELTA parquet.`{table}`")
        assert spark.sql("DESCRIBE DETAIL parquet.t").collect()[0]["format"] == "delta"
        assert tidegate.open(table).version == 0
    finally:
        spark.sql("DROP DATABASE parquet CASCADE")
