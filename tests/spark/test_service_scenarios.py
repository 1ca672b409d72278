"""Table services scenario by scenario, as Delta's suites ask for them: RESTORE, CLONE, CONVERT, GENERATE."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import tidegate
from support.dml import confs, feed, last
from tidegate import DeltaTable
from tidegate.errors import PropertyError

pytestmark = pytest.mark.spark

_TAKEN = "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
_MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"
_VECTORS = "delta.enableDeletionVectors"


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
    taken = {f"CREATE TABLE IF NOT EXISTS delta.`{path}` SHALLOW CLONE s": _TAKEN}
    _refused(spark, taken)
    spark.sql("DELETE FROM s WHERE id = 0")
    place = DeltaTable.forName(spark, "s").detail().collect()[0]["location"].removeprefix("file:")
    spark.sql(f"CREATE TABLE delta.`{path}-then` SHALLOW CLONE delta.`{place}@v0`")
    assert _rows(spark, f"SELECT count(*) FROM delta.`{path}-then`") == [(3,)]


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
            f"CREATE TABLE delta.`{full}` SHALLOW CLONE s": _TAKEN,
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
        "SELECT id AS Location, id % 2 AS k, cast(id % 2 AS string) AS s FROM range(4)"
    )
    spark.sql("CREATE TABLE c SHALLOW CLONE p")
    assert spark.table("c").dtypes == [("Location", "bigint"), ("k", "bigint"), ("s", "string")]
    assert _rows(spark, "SELECT * FROM c WHERE s = '1'") == [(1, 1, "1"), (3, 1, "1")]


def test_a_clone_of_a_parquet_table_is_what_the_catalog_says(
    spark: SparkSession, services: str, tmp_path: Path
) -> None:
    columns = "SELECT id, cast(id % 2 AS string) AS k FROM range(4)"
    spark.sql(f"CREATE TABLE p USING parquet PARTITIONED BY (k) TBLPROPERTIES ('mine' = '1') AS {columns}")
    place = spark.sql("DESCRIBE EXTENDED p").where("col_name = 'Location'").collect()[0]["data_type"]
    more = spark.sql("SELECT id, '2' AS k, 'x' AS inner, 'y' AS other FROM range(10, 12)")
    more.write.partitionBy("k", "inner").mode("append").parquet(place)
    spark.sql(f"ALTER TABLE p PARTITION (k = '1') SET LOCATION '{place}/k=2/inner=x'")
    spark.sql("CREATE TABLE c SHALLOW CLONE p TBLPROPERTIES ('own' = '2')")
    assert _rows(spark, "SELECT * FROM c") == _rows(spark, "SELECT * FROM p")
    assert spark.table("c").dtypes == [("id", "bigint"), ("k", "string")]
    assert spark.sql("DESCRIBE DETAIL c").collect()[0]["properties"] == {"mine": "1", "own": "2"}


def test_a_clone_of_a_clone_needs_its_own_source_alone(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    spark.range(4).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(table)
    spark.range(4, 6).coalesce(1).write.format("delta").mode("append").save(table)
    DeltaTable.forPath(spark, table).delete("id = 0")
    between, last_one = tmp_path / "between", str(tmp_path / "last")
    DeltaTable.forPath(spark, table).clone(str(between), isShallow=True).clone(last_one, isShallow=True)
    shutil.rmtree(between)
    assert _rows(spark, f"SELECT * FROM delta.`{last_one}`") == [(1,), (2,), (3,), (4,), (5,)]
    DeltaTable.forPath(spark, last_one).delete("id = 1")
    assert _rows(spark, f"SELECT * FROM delta.`{last_one}`") == [(2,), (3,), (4,), (5,)]


def test_a_clone_that_comes_home_keeps_its_files_from_vacuum(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    spark.range(4).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(table)
    home, away = f"delta.`{table}`", f"delta.`{tmp_path}/away`"
    spark.sql(f"DELETE FROM {home} WHERE id = 0")
    spark.sql(f"CREATE TABLE {away} SHALLOW CLONE {home}")
    spark.sql(f"DELETE FROM {away} WHERE id = 1")
    spark.sql(f"DELETE FROM {home}")
    spark.sql(f"REPLACE TABLE {home} SHALLOW CLONE {away}")
    with confs(spark, retentionDurationCheck__enabled="false"):
        for mode in ("FULL", "LITE"):
            spark.sql(f"VACUUM {home} {mode} RETAIN 0 HOURS")
            assert _rows(spark, f"SELECT * FROM {home}") == [(2,), (3,)]


def test_a_clone_has_no_transactions_of_its_source(spark: SparkSession, table: str, tmp_path: Path) -> None:
    once = spark.range(1).write.format("delta").option("txnAppId", "app").option("txnVersion", 1)
    once.save(table)
    clone = str(tmp_path / "clone")
    DeltaTable.forPath(spark, table).clone(clone, isShallow=True)
    once.mode("append").save(table)
    assert tidegate.open(table).version == 0
    once.mode("append").save(clone)
    assert tidegate.open(clone).version == 1


@pytest.mark.parametrize("exists", [False, True])
def test_a_clone_has_the_features_that_its_properties_name(
    spark: SparkSession, table: str, tmp_path: Path, exists: bool
) -> None:
    source = str(tmp_path / "source")
    spark.range(2).write.format("delta").save(source)
    if exists:
        spark.range(0).write.format("delta").save(table)
    named = {"delta.feature.deletionVectors": "supported", "delta.minWriterVersion": "7"}
    DeltaTable.forPath(spark, source).clone(table, isShallow=True, replace=True, properties=named)
    made = tidegate.open(table)
    assert made.protocol.supports("deletionVectors")
    assert made.properties == {}
    assert not tidegate.open(source).protocol.supports("deletionVectors")


def test_a_clone_maps_its_columns_as_its_source_does(spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.range(2).write.format("delta").option("delta.columnMapping.mode", "name").save(table)
    source, copy = DeltaTable.forPath(spark, table), str(tmp_path / "copy")
    for key, value in {"maxColumnId": "123", "mode": "id"}.items():
        with pytest.raises(AnalysisException if key == "mode" else UnsupportedOperationException):
            source.clone(copy, isShallow=True, properties={f"delta.columnMapping.{key}": value})
        assert not Path(copy).exists()
    with confs(spark, properties__defaults__columnMapping__mode="id"):
        source.clone(copy, isShallow=True)
    assert tidegate.open(copy).properties == tidegate.open(table).properties
    assert _rows(spark, f"SELECT * FROM delta.`{copy}`") == [(0,), (1,)]


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


@pytest.mark.parametrize("signs", ["%!@#$%^&*-", "?.+<_>|/", "_", "."])
def test_files_whose_folders_spell_other_signs(spark: SparkSession, table: str, signs: str) -> None:
    name, value = f"{signs}key{signs}", f"{signs}a{signs}{signs}value"
    frame = spark.range(2).withColumn(name, F.lit(value))
    frame.write.partitionBy(name).parquet(table)
    DeltaTable.convertToDelta(spark, f"parquet.`{table}`", T.StructType().add(name, "string"))
    found = spark.read.format("delta").load(table)
    assert sorted(map(tuple, found.where(F.col(f"`{name}`") == value).collect())) == [(0, value), (1, value)]
    assert found.where(F.col(f"`{name}`") == value[1:]).count() == 0


def test_a_folder_within_a_partition_is_converted_alone(spark: SparkSession, table: str) -> None:
    frame = spark.sql("SELECT id, id % 2 AS k, cast(id % 3 AS string) AS s FROM range(6)")
    frame.write.partitionBy("k", "s").parquet(table)
    inner = f"{table}/k=1/"
    spark.sql(f"CONVERT TO DELTA parquet.`{inner}` PARTITIONED BY (s STRING)")
    assert _rows(spark, f"SELECT * FROM delta.`{inner}`") == [(1, "1"), (3, "0"), (5, "2")]


def test_a_table_converted_by_its_path_is_entered_by_its_name_later(
    spark: SparkSession, services: str, table: str
) -> None:
    rows = "SELECT id, id % 2 AS k FROM range(4)"
    spark.sql(f"CREATE TABLE p USING parquet LOCATION '{table}' PARTITIONED BY (k) AS {rows}")
    spark.sql(f"CONVERT TO DELTA parquet.`{table}` PARTITIONED BY (k BIGINT)")
    spark.sql("CONVERT TO DELTA services.p PARTITIONED BY (k BIGINT)")
    assert spark.sql("DESCRIBE DETAIL p").collect()[0]["format"] == "delta"
    for again in ("p", f"delta.`{table}`"):
        spark.sql(f"CONVERT TO DELTA {again}")
    assert _rows(spark, "SELECT * FROM p WHERE k = 1") == [(1, 1), (3, 1)]
    assert tidegate.open(table).version == 0


def test_a_table_of_files_has_the_sessions_defaults(spark: SparkSession, table: str) -> None:
    spark.range(2).write.parquet(table)
    with confs(spark, properties__defaults__appendOnly="true"):
        DeltaTable.convertToDelta(spark, f"parquet.`{table}`")
    assert tidegate.open(table).properties == {"delta.appendOnly": "true"}


def test_files_of_several_schemas_are_read_as_one_table(spark: SparkSession, table: str) -> None:
    for part, query in enumerate(("1048576 AS id", "cast(1 AS short) AS id", "2L AS other")):
        spark.sql(f"SELECT {query}, '9' AS part").write.parquet(f"{table}/part={part}")
    spark.sql(f"CONVERT TO DELTA parquet.`{table}` PARTITIONED BY (part INT)")
    rows = {tuple(r) for r in spark.read.format("delta").load(table).select("part", "id", "other").collect()}
    assert rows == {(0, 1048576, None), (1, 1, None), (2, None, 2)}


# ---------------------------------------------------------------------------- GENERATE


def _manifests(path: str) -> dict[str, list[str]]:
    """The names of the files in each manifest, by the folder that the manifest is in."""
    root = Path(path, "_symlink_format_manifest")
    return {
        str(f.parent.relative_to(root)): [line.rsplit("/", 1)[-1] for line in f.read_text().splitlines()]
        for f in root.rglob("manifest")
    }


def _live(path: str) -> list[str]:
    return sorted(tidegate.open(path).files().column("path").to_pylist())


def test_manifests_follow_every_commit(spark: SparkSession, table: str) -> None:
    for start in (0, 2):
        frame = spark.range(start, start + 2).coalesce(1).write.format("delta").mode("append")
        frame.option(_MANIFESTS, "true").save(table)
    there = DeltaTable.forPath(spark, table)
    assert _manifests(table) == {".": _live(table)}
    steps: list[Callable[[], object]] = [
        lambda: there.optimize().executeCompaction(),
        lambda: there.restoreToVersion(0),
        lambda: spark.range(0).write.format("delta").mode("overwrite").save(table),
        lambda: there.restoreToVersion(1),
    ]
    for step in steps:
        before = tidegate.open(table).version
        step()
        assert tidegate.open(table).version > before
        assert _manifests(table) == {".": _live(table)}
    there.setProperties({_MANIFESTS: "false"})
    there.delete()
    assert len(_manifests(table)["."]) == 2
    there.setProperties({_MANIFESTS: "true"})
    assert _manifests(table) == {".": []}


def test_manifests_of_partitions_with_odd_names(spark: SparkSession, table: str) -> None:
    frame = spark.createDataFrame([(1, "yes space"), (2, "库尔 勒"), (3, None)], "v int, `a/b.` string")
    frame.coalesce(1).write.format("delta").partitionBy("a/b.").option(_MANIFESTS, "true").save(table)
    name = "a%2Fb."
    kept = {f"{name}=yes space", f"{name}=库尔 勒", f"{name}=__HIVE_DEFAULT_PARTITION__"}
    assert _manifests(table).keys() == kept
    spark.sql(f"DELETE FROM delta.`{table}` WHERE v = 2")
    spark.sql(f"UPDATE delta.`{table}` SET `a/b.` = 'moved' WHERE v = 3")
    assert _manifests(table).keys() == {f"{name}=yes space", f"{name}=moved"}
    for place in Path(table).rglob("manifest"):
        for line in place.read_text().splitlines():
            assert Path(line.removeprefix("file:")).is_file()


def test_manifests_and_vectors_exclude_each_other(spark: SparkSession, table: str) -> None:
    there = DeltaTable.create(spark).location(table).addColumn("id", "long").execute()
    spark.range(3).coalesce(1).write.format("delta").mode("append").save(table)
    on, off = "true", "false"

    def refused(properties: dict[str, str], why: str) -> None:
        with pytest.raises(PropertyError) as caught:
            there.setProperties(properties)
        kind = f"DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED.{why}_WITH_INCREMENTAL_MANIFEST_GENERATION"
        assert caught.value.errorClass == kind

    both = "PERSISTENT_DELETION_VECTORS"
    refused({_VECTORS: on, _MANIFESTS: on}, both)
    there.setProperties({_MANIFESTS: on})
    refused({_VECTORS: on}, both)
    there.setProperties({_MANIFESTS: off, _VECTORS: on})
    refused({_MANIFESTS: on}, both)
    there.delete("id = 1")
    there.setProperties({_VECTORS: off})
    refused({_MANIFESTS: on}, "EXISTING_DELETION_VECTORS")
    spark.sql(f"REORG TABLE delta.`{table}` APPLY (PURGE)")
    there.setProperties({_MANIFESTS: on})
    assert _manifests(table) == {".": _live(table)}
