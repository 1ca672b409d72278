"""What scripts for delta-spark hand over and rely on: the arguments they pass, the names they use."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import tidegate
from support.session import CONNECT
from tidegate.errors import (
    AlterRefusedError,
    OptionError,
    PredicateError,
    SchemaInvalidError,
    StorageError,
    TidegateError,
    TimestampOutOfRangeError,
)
from tidegate.tables import DeltaTable, IdentityGenerator

pytestmark = pytest.mark.spark
GENERATORS = ("explode(array(1, 2))", "posexplode(array(1))", "inline(array(struct(1)))", "stack(2, 1, 2)")


@pytest.fixture
def existing(spark: SparkSession, table: str) -> DeltaTable:
    spark.sql("SELECT 1 AS id, 'x' AS v").write.format("delta").save(table)
    return DeltaTable.forPath(spark, table)


def _version(table: str) -> int:
    return tidegate.open(table).version


# ---------------------------------------------------------------------------- values


@pytest.mark.parametrize("value", GENERATORS)
def test_a_value_that_makes_several_rows_of_one_is_refused_before_anything_is_written(
    spark: SparkSession, table: str, existing: DeltaTable, value: str
) -> None:
    source = spark.sql("SELECT 2 AS id, 'y' AS v").alias("s")
    merge = existing.alias("t").merge(source, "t.id = s.id")
    for begin in (
        merge.whenNotMatchedInsert(values={"id": value, "v": "s.v"}).execute,
        merge.whenMatchedUpdate(set={"id": value}).execute,
        lambda: existing.update(set={"id": value}),
        lambda: existing.update(set={"id": F.expr(f"coalesce({value})")}),
    ):
        with pytest.raises((PredicateError, SchemaInvalidError), match=r"generator|several columns|struct"):
            begin()
    assert _version(table) == 0


def test_a_function_of_java_may_not_decide_which_rows_go(existing: DeltaTable, table: str) -> None:
    with pytest.raises(PredicateError, match="same answer each time"):
        existing.delete("reflect('java.util.UUID', 'randomUUID') < '8'")
    assert _version(table) == 0


# ---------------------------------------------------------------------------- names


def test_a_table_by_name_is_known_by_it_in_its_frame_and_in_sources(
    spark: SparkSession, managed: str
) -> None:
    table = DeltaTable.forName(spark, managed)
    assert table.toDF().select(f"{managed}.id").collect() == [(1,)]
    other = DeltaTable.forName(spark, managed).toDF().withColumn("v", F.lit("new"))
    table.alias("t").merge(other, f"t.id = {managed}.id").whenMatchedUpdate(set={"v": "'new'"}).execute()
    assert table.alias("a").toDF().select("a.v").collect() == [("new",)]


def test_a_source_goes_by_its_alias_whatever_was_done_with_it_since(
    spark: SparkSession, existing: DeltaTable
) -> None:
    frame = spark.createDataFrame([(1, "a", 1), (1, "b", 2), (9, "c", 3)], "id int, v string, n int")
    made = frame.alias("s").where("n <> 2").withColumn("w", F.lit(1)).drop("w").orderBy("n").limit(5)
    rows = existing.toDF().count()
    (
        existing.alias("t")
        .merge(made, "t.id = s.id")
        .whenMatchedUpdate("s.n = 1", {"v": "s.v"})
        .whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"})
        .execute()
    )
    assert existing.toDF().where("id IN (1, 9)").orderBy("id").select("id", "v").collect() == [
        (1, "a"),
        (9, "c"),
    ]
    assert existing.toDF().count() == rows + 1


@pytest.fixture
def managed(spark: SparkSession) -> Any:
    name = "moving_over"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id, 'x' AS v")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.skipif(CONNECT, reason="a managed table cannot be moved by a client")
def test_a_table_that_was_converted_by_name_goes_by_it(spark: SparkSession) -> None:
    spark.sql("DROP TABLE IF EXISTS converted_by_name")
    spark.sql("CREATE TABLE converted_by_name USING parquet AS SELECT 1 AS id")
    try:
        table = DeltaTable.convertToDelta(spark, "converted_by_name")
        assert table.detail().first()["name"] == "spark_catalog.default.converted_by_name"
        table.delete("converted_by_name.id = 1")
        assert table.toDF().count() == 0
    finally:
        spark.sql("DROP TABLE converted_by_name")


# ---------------------------------------------------------------------------- arguments


def test_a_store_that_cannot_be_asked_is_no_table_that_is_missing(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not DeltaTable.isDeltaTable(spark, table)

    def refused(*_: object, **__: object) -> None:
        raise StorageError("Access denied.", table=table)

    monkeypatch.setattr("tidegate.commands.catalog.load", refused)
    with pytest.raises(StorageError, match="Access denied"):
        DeltaTable.isDeltaTable(spark, table)
    spark.conf.set("spark.databricks.delta.isDeltaTable.throwOnError", "false")
    try:
        assert not DeltaTable.isDeltaTable(spark, table)
    finally:
        spark.conf.unset("spark.databricks.delta.isDeltaTable.throwOnError")
    with pytest.raises(TypeError, match="identifier must be str"):
        DeltaTable.isDeltaTable(spark, None)


def test_a_clone_of_no_version_is_none_of_the_newest(existing: DeltaTable, table: str) -> None:
    for clone in (existing.cloneAtVersion, existing.cloneAtTimestamp):
        with pytest.raises(ValueError, match="NoneType"):
            clone(None, f"{table}-clone", isShallow=True)
    assert not DeltaTable.isDeltaTable(existing._spark, f"{table}-clone")


def test_a_time_at_the_end_of_the_calendar_is_out_of_range(spark: SparkSession, existing: DeltaTable) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        for moment in ("9999-12-31 23:59:59", "+20000-01-01"):
            with pytest.raises(TimestampOutOfRangeError, match="9999-12-31"):
                existing.restoreToTimestamp(moment)
        with pytest.raises(TimestampOutOfRangeError, match="0001-01-01"):
            existing.restoreToTimestamp("0000-01-01")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_version_is_found_by_its_own_time_to_the_millisecond(
    spark: SparkSession, existing: DeltaTable, table: str
) -> None:
    existing.update(set={"v": "'y'"})
    [(when,)] = existing.history(1).select("timestamp").collect()
    existing.update(set={"v": "'z'"})
    said = spark.createDataFrame([(when,)], "t timestamp").selectExpr("string(t)").first()[0]
    read = spark.read.format("delta").option("timestampAsOf", said).load(table)
    assert read.select("v").collect() == [("y",)]


def test_the_source_of_a_merge_is_a_frame_of_spark(existing: DeltaTable) -> None:
    with pytest.raises(TypeError, match="must be DataFrame"):
        existing.merge(pd.DataFrame({"id": [1]}), "true")


def test_a_retention_may_be_any_number(existing: DeltaTable, table: str) -> None:
    for hours in ("168", 1e300, float("inf"), 200):
        assert existing.vacuum(hours).count() == 0
    with pytest.raises(ValueError, match="could not convert"):
        existing.vacuum("soon")


def test_names_of_columns_and_properties_come_one_by_one_or_as_a_list(
    existing: DeltaTable, table: str
) -> None:
    existing.setProperties({"delta.columnMapping.mode": "name", "a": 1, "b": True})
    existing.unsetProperties(["a", "b"])
    existing.addColumns([T.StructField("p", T.IntegerType()), T.StructField("q", T.StringType())])
    existing.dropColumns(["p", "q"])
    existing.clusterBy(["id"])
    assert tidegate.open(table).schema.names == ("id", "v")


@pytest.mark.parametrize(
    ("refused", "call"),
    [
        (TypeError, lambda t: t.alterColumn("v", comment=5)),
        (TypeError, lambda t: t.alterColumn("v", type=5)),
        (TypeError, lambda t: t.alterColumn("v", type=T.IntegerType)),
        (TypeError, lambda t: t.alterColumn("v", position=5)),
        (TypeError, lambda t: t.setProperties({"owner": None})),
        (TypeError, lambda t: t.setProperties("a")),
        (TypeError, lambda t: t.setProperties({1: "a"})),
        (OptionError, lambda t: t.setProperties({})),
        (OptionError, lambda t: t.unsetProperties()),
        (TypeError, lambda t: t.renameColumn("v", None)),
        (TypeError, lambda t: t.addColumns("int")),
        (TypeError, lambda t: t.addColumns([])),
        (AlterRefusedError, lambda t: t.addColumns([T.StructField("", T.IntegerType())])),
        (TypeError, lambda t: t.addConstraint(None, "id > 0")),
        (TypeError, lambda t: t.dropConstraint(None)),
        (TypeError, lambda t: t.generate(None)),
        (TypeError, lambda t: DeltaTable.convertToDelta(t._spark, "parquet.`/x`", 5)),
    ],
)
def test_an_argument_of_another_type_is_refused_and_nothing_written(
    existing: DeltaTable, table: str, refused: type[Exception], call: Any
) -> None:
    with pytest.raises(refused):
        call(existing)
    assert _version(table) == 0


def test_numbers_of_an_identity_fit_into_its_column(spark: SparkSession, table: str) -> None:
    for generator in (IdentityGenerator(start=2**63), IdentityGenerator(step=-(2**63) - 1)):
        builder = DeltaTable.create(spark).location(table)
        with pytest.raises(SchemaInvalidError, match="must fit into a bigint"):
            builder.addColumn("i", "BIGINT", generatedAlwaysAs=generator).execute()
    assert not DeltaTable.isDeltaTable(spark, table)


def test_settings_for_hadoop_that_nobody_uses_are_told(spark: SparkSession, existing: DeltaTable) -> None:
    with pytest.warns(UserWarning, match="uses none of the settings"):
        DeltaTable.forPath(spark, existing._log.url, {"fs.s3a.access.key": "x"})


# ---------------------------------------------------------------------------- sessions


@pytest.mark.skipif(CONNECT, reason="the builder would make a classic session")
def test_a_builder_for_delta_spark_makes_a_session_that_is_enabled(spark: SparkSession, table: str) -> None:
    builder = (
        SparkSession.builder.appName("moved over")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension, com.example.Other")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    )
    configured = tidegate.configure_spark_with_delta_pip(builder)
    assert configured is builder
    assert builder._options["spark.sql.extensions"] == "com.example.Other"
    assert "spark.sql.catalog.spark_catalog" not in builder._options
    del builder._options["spark.sql.extensions"]
    session = configured.getOrCreate()
    session.range(3).write.format("delta").save(table)
    assert session.read.format("delta").load(table).count() == 3
    with pytest.raises(TypeError, match="builder of a SparkSession"):
        tidegate.configure_spark_with_delta_pip(spark)


@pytest.mark.skipif(CONNECT, reason="the catalog is the server's")
def test_a_session_with_the_catalog_of_absent_jars_is_told_which_line_to_leave_out(
    spark: SparkSession,
) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    with pytest.raises(TidegateError, match="Leave the conf out"):
        tidegate.enable(other)
