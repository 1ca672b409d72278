"""Tables by name in Spark's session catalog: made, found, read natively, written, dropped."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.commands import catalog
from tidegate.errors import (
    NotATableError,
    OptionError,
    SchemaInvalidError,
    TableExistsError,
    TableNotFoundError,
)

pytestmark = pytest.mark.spark

_numbers = itertools.count()


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    """A name that no table has; what is made under it is dropped again."""
    made = f"t{next(_numbers)}"
    yield made
    catalog.drop_table(spark, made, if_exists=True)


def _ids(frame: DataFrame) -> list[int]:
    return sorted(r.id for r in frame.select("id").collect())


def test_a_managed_table_is_seen_everywhere_a_name_can_stand(spark: SparkSession, name: str) -> None:
    spark.range(4).write.format("delta").saveAsTable(name)
    assert _ids(spark.table(name)) == [0, 1, 2, 3]
    assert _ids(spark.read.table(name)) == [0, 1, 2, 3]
    assert spark.sql(f"SELECT count(*) FROM {name} WHERE id > 1").head()[0] == 2
    assert name in {t.name for t in spark.catalog.listTables()}
    assert spark.catalog.tableExists(name)
    assert spark.catalog.getTable(name).tableType == "MANAGED"
    assert [c.name for c in spark.catalog.listColumns(name)] == ["id"]
    assert tidegate.open(str(catalog.location_of(spark, name))).version == 0


def test_a_new_session_of_the_same_catalog_sees_the_table(spark: SparkSession, name: str) -> None:
    spark.range(2).write.format("delta").saveAsTable(name)
    other = spark.newSession()
    assert _ids(other.table(name)) == [0, 1]
    assert other.sql(f"SELECT max(id) FROM {name}").head()[0] == 1
    other.range(2, 3).write.format("delta").mode("append").saveAsTable(name)
    assert _ids(spark.table(name)) == [0, 1, 2]


def test_a_name_is_planned_natively_with_the_filters_of_the_query(
    spark: SparkSession, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = spark.range(4).selectExpr("id", "id % 2 AS p")
    frame.write.format("delta").partitionBy("p").saveAsTable(name)
    spark.sql(f"SELECT id FROM {name} WHERE p = 1").explain()
    shown = capsys.readouterr().out
    assert "TableFileIndex" in shown
    assert "PartitionFilters: [isnotnull(p" in shown


def test_every_query_sees_the_newest_version_and_one_alone(spark: SparkSession, name: str) -> None:
    spark.range(1).write.format("delta").saveAsTable(name)
    pinned = spark.table(name)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name}_v AS SELECT * FROM {name}")
    spark.range(1, 2).write.format("delta").mode("append").saveAsTable(name)
    assert _ids(pinned) == [0]
    assert _ids(spark.table(name)) == [0, 1]
    assert _ids(spark.sql(f"SELECT * FROM {name}_v")) == [0, 1]
    joined = spark.sql(
        f"SELECT a.id FROM {name} a JOIN {name} b ON a.id = b.id JOIN {name}_v c ON c.id = b.id"
    )
    assert _ids(joined) == [0, 1]
    spark.sql(f"DROP VIEW {name}_v")


def test_the_schema_is_the_logs_even_when_it_changed_behind_the_catalog(
    spark: SparkSession, name: str
) -> None:
    spark.range(1).write.format("delta").saveAsTable(name)
    where = str(catalog.location_of(spark, name))
    wider = spark.range(1, 2).withColumn("extra", F.lit("x"))
    wider.write.format("delta").mode("append").option("mergeSchema", True).save(where)
    assert spark.table(name).columns == ["id", "extra"]
    assert spark.sql(f"SELECT extra FROM {name} WHERE id = 1").head()[0] == "x"
    assert [c.name for c in spark.catalog.listColumns(name)] == ["id", "extra"]


def test_dropping_a_managed_table_deletes_its_files_and_an_external_one_keeps_them(
    spark: SparkSession, name: str, table: str
) -> None:
    spark.range(1).write.format("delta").saveAsTable(name)
    where = Path(str(catalog.location_of(spark, name)))
    assert (where / "_delta_log").is_dir()
    spark.sql(f"DROP TABLE {name}")
    assert not where.exists()
    assert not spark.catalog.tableExists(name)
    spark.range(3).write.format("delta").option("path", table).saveAsTable(name)
    assert spark.catalog.getTable(name).tableType == "EXTERNAL"
    spark.sql(f"DROP TABLE {name}")
    assert tidegate.open(table).version == 0


def test_a_name_can_be_used_again_after_a_drop(spark: SparkSession, name: str) -> None:
    spark.range(1).write.format("delta").saveAsTable(name)
    assert _ids(spark.table(name)) == [0]
    spark.sql(f"DROP TABLE {name}")
    spark.range(7, 8).selectExpr("id", "'x' AS other").write.format("delta").saveAsTable(name)
    assert spark.table(name).columns == ["id", "other"]
    assert _ids(spark.sql(f"SELECT * FROM {name}")) == [7]


def test_save_modes_mean_what_they_mean_for_paths(spark: SparkSession, name: str) -> None:
    spark.range(2).write.format("delta").saveAsTable(name)
    with pytest.raises(TableExistsError) as caught:
        spark.range(9).write.format("delta").saveAsTable(name)
    assert isinstance(caught.value, AnalysisException)
    spark.range(9).write.format("delta").mode("ignore").saveAsTable(name)
    spark.range(2, 3).write.mode("append").saveAsTable(name)
    assert _ids(spark.table(name)) == [0, 1, 2]
    spark.range(5, 6).write.format("delta").mode("overwrite").saveAsTable(name)
    assert _ids(spark.table(name)) == [5]


def test_insert_into_goes_by_position(spark: SparkSession, name: str) -> None:
    spark.range(1).selectExpr("id", "'a' AS word").write.format("delta").saveAsTable(name)
    spark.range(1, 2).selectExpr("id AS word", "'b' AS id").write.insertInto(name)
    assert [tuple(r) for r in spark.table(name).orderBy("id").collect()] == [(0, "a"), (1, "b")]
    with pytest.raises(SchemaInvalidError, match="by position"):
        spark.range(1).write.insertInto(name)
    spark.range(8, 9).selectExpr("id", "'z'").write.insertInto(name, overwrite=True)
    assert _ids(spark.table(name)) == [8]


def test_write_to_creates_replaces_appends_and_overwrites(spark: SparkSession, name: str) -> None:
    frame = spark.range(4).selectExpr("id", "id % 2 AS p")
    with pytest.raises(TableNotFoundError):
        frame.writeTo(name).using("delta").replace()
    frame.writeTo(name).using("delta").partitionedBy(F.col("p")).tableProperty(
        "delta.appendOnly", "false"
    ).create()
    snapshot = tidegate.open(str(catalog.location_of(spark, name)))
    assert snapshot.partition_columns == ("p",)
    assert snapshot.metadata.configuration["delta.appendOnly"] == "false"
    with pytest.raises(TableExistsError):
        frame.writeTo(name).using("delta").create()
    frame.where("id = 0").writeTo(name).append()
    assert _ids(spark.table(name)) == [0, 0, 1, 2, 3]
    spark.range(6, 7).selectExpr("id", "id % 2 AS p").writeTo(name).overwritePartitions()
    assert _ids(spark.table(name)) == [1, 3, 6]
    spark.range(9, 10).selectExpr("id", "id % 2 AS p").writeTo(name).overwrite(F.col("p") == 1)
    assert _ids(spark.table(name)) == [6, 9]
    spark.range(1).withColumn("new", F.lit(1)).writeTo(name).using("delta").createOrReplace()
    assert spark.table(name).columns == ["id", "new"]
    replaced = tidegate.open(str(catalog.location_of(spark, name)))
    assert replaced.partition_columns == ()
    assert replaced.history(1)[0]["operation"] == "CREATE OR REPLACE TABLE AS SELECT"


def test_names_have_one_two_or_three_parts_and_may_be_quoted(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {name}_db")
    try:
        spark.range(3).write.format("delta").saveAsTable(f"`{name}_db`.`{name}`")
        for spelled in (
            f"{name}_db.{name}",
            f"spark_catalog.{name}_db.{name}",
            f"`{name}_DB`.`{name.upper()}`",
        ):
            assert _ids(spark.table(spelled)) == [0, 1, 2]
            assert catalog.location_of(spark, spelled) is not None
            spark.range(1).where("false").write.insertInto(spelled)
        assert catalog.location_of(spark, name) is None
        assert f"{name}_db.db/{name}" in str(catalog.location_of(spark, f"{name}_db.{name}"))
    finally:
        spark.sql(f"DROP DATABASE {name}_db CASCADE")
    with pytest.raises(TableNotFoundError, match="no database"):
        spark.range(1).write.format("delta").saveAsTable("nowhere.t")
    with pytest.raises(AnalysisException, match=r"INVALID_SCHEMA_OR_RELATION_NAME|not a valid name"):
        spark.range(1).write.format("delta").saveAsTable("`odd name`")


def test_a_path_in_the_clothes_of_a_name_is_a_path(spark: SparkSession, table: str) -> None:
    spark.range(2).write.format("delta").save(table)
    assert catalog.location_of(spark, f"delta.`{table}`") == table
    spark.range(2, 3).writeTo(f"delta.`{table}`").append()
    assert _ids(spark.read.table(f"delta.`{table}`")) == [0, 1, 2]


def test_time_travel_by_name(spark: SparkSession, name: str) -> None:
    spark.range(1).write.format("delta").saveAsTable(name)
    spark.range(1, 2).write.format("delta").mode("append").saveAsTable(name)
    assert _ids(spark.read.option("versionAsOf", 0).table(name)) == [0]
    assert _ids(spark.read.table(name)) == [0, 1]


def test_what_is_wrong_with_a_name_is_said(spark: SparkSession, name: str, table: str) -> None:
    with pytest.raises(TableNotFoundError):
        catalog.log_of(spark, name)
    spark.range(1).write.format("parquet").saveAsTable(name)
    with pytest.raises(NotATableError, match="format parquet"):
        catalog.log_of(spark, name)
    with pytest.raises(TableExistsError, match="format parquet"):
        spark.range(1).write.format("delta").mode("append").saveAsTable(name)
    assert _ids(spark.table(name)) == [0]
    spark.range(1).write.mode("append").saveAsTable(name)
    assert _ids(spark.table(name)) == [0, 0]
    with pytest.raises(OptionError, match="not by"):
        spark.range(1).writeTo("x").using("delta").partitionedBy(F.partitioning.years("id")).create()


def test_a_managed_table_is_not_made_over_files_that_lie_there(spark: SparkSession, name: str) -> None:
    where = Path(catalog.place_for(spark, name, None)[1])
    where.mkdir(parents=True)
    (where / "precious").write_text("x")
    try:
        with pytest.raises(TableExistsError, match="files already"):
            spark.range(1).write.format("delta").saveAsTable(name)
        assert [p.name for p in where.iterdir()] == ["precious"]
    finally:
        (where / "precious").unlink()
        where.rmdir()


def test_a_temporary_view_hides_the_table_of_its_name(spark: SparkSession, name: str) -> None:
    spark.range(1).write.format("delta").saveAsTable(name)
    spark.range(5).createOrReplaceTempView(name)
    try:
        assert spark.table(name).count() == 5
        assert spark.read.table(name).count() == 5
    finally:
        spark.catalog.dropTempView(name)
    assert spark.table(name).count() == 1


def test_a_table_whose_files_are_gone_is_an_error_of_ours_and_can_be_dropped(
    spark: SparkSession, name: str
) -> None:
    import shutil

    spark.range(1).write.format("delta").saveAsTable(name)
    shutil.rmtree(str(catalog.location_of(spark, name)))
    with pytest.raises(NotATableError):
        spark.table(name)
    with pytest.raises(NotATableError):
        spark.sql(f"SELECT * FROM {name}")
    catalog.drop_table(spark, name)
    assert not spark.catalog.tableExists(name)


def test_a_disabled_session_gets_no_plan_from_us(spark: SparkSession, name: str) -> None:
    spark.range(1).write.format("delta").saveAsTable(name)
    assert spark.table(name).count() == 1
    tidegate.disable(spark)
    try:
        with pytest.raises(Exception, match=r"DATA_SOURCE_NOT_FOUND|delta"):
            spark.sql(f"SELECT * FROM {name}").collect()
    finally:
        tidegate.enable(spark)
    assert spark.table(name).count() == 1
