"""Tables made and replaced by ``DeltaTableBuilder``, as scripts for delta-spark do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import tidegate
from support.dml import confs
from tidegate import DeltaTable
from tidegate.errors import (
    AlterRefusedError,
    NotATableError,
    OptionError,
    PropertyError,
    SchemaInvalidError,
    TableExistsError,
)
from tidegate.table.builder import IdentityGenerator

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


def test_a_table_is_made_as_described(spark: SparkSession, table: str) -> None:
    made = (
        DeltaTable.create(spark)
        .location(table)
        .comment("what it is about")
        .addColumn("id", "BIGINT", nullable=False, comment="the key")
        .addColumn("day", T.DateType())
        .addColumns(T.StructType([T.StructField("name", T.StringType())]))
        .partitionedBy("day")
        .property("delta.appendOnly", "true")
        .property("mine", "yes")
        .execute()
    )
    snapshot = tidegate.open(table)
    assert [(f.name, str(f.type), f.nullable) for f in snapshot.schema.fields] == [
        ("id", "long", False),
        ("day", "date", True),
        ("name", "string", True),
    ]
    assert snapshot.schema.fields[0].metadata == {"comment": "the key"}
    assert snapshot.partition_columns == ("day",)
    assert snapshot.properties == {"delta.appendOnly": "true", "mine": "yes"}
    assert snapshot.metadata.description == "what it is about"
    assert made.toDF().count() == 0
    assert made.history().select("operation").collect()[0][0] == "CREATE TABLE"


def test_there_must_be_no_table_yet_unless_the_caller_says_otherwise(spark: SparkSession, table: str) -> None:
    DeltaTable.create(spark).location(table).addColumn("id", "long").execute()
    with pytest.raises(TableExistsError):
        DeltaTable.create(spark).location(table).addColumn("id", "long").execute()
    DeltaTable.createIfNotExists(spark).location(table).addColumn("other", "long").execute()
    assert tidegate.open(table).schema.names == ("id",)
    with pytest.raises(NotATableError) as caught:
        DeltaTable.replace(spark).location(table + "-nowhere").addColumn("id", "long").execute()
    assert isinstance(caught.value, AnalysisException)


def test_a_replaced_table_has_other_columns_and_no_rows_and_keeps_its_past(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.range(3).write.format("delta").save(table)
    DeltaTable.replace(spark).location(table).addColumn("name", "string").execute()
    assert rows(table) == []
    assert tidegate.open(table).schema.names == ("name",)
    old = spark.read.format("delta").option("versionAsOf", 0).load(table)
    assert sorted(r[0] for r in old.collect()) == [0, 1, 2]


def test_replacing_never_loses_a_feature_nor_gives_a_column_id_twice(spark: SparkSession, table: str) -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    builder = DeltaTable.create(spark).location(table).addColumn("a", "long").addColumn("b", "long")
    builder.property("delta.columnMapping.mode", "name").execute()
    before = tidegate.open(table)
    again = DeltaTable.createOrReplace(spark).location(table).addColumn("c", "long")
    again.property("delta.columnMapping.mode", "name").execute()
    after = tidegate.open(table)
    assert after.protocol.supports("columnMapping")
    ids = {f.metadata["delta.columnMapping.id"] for f in before.schema.fields}
    assert after.schema.fields[0].metadata["delta.columnMapping.id"] not in ids
    assert mapped.items() <= dict(after.properties).items()


def test_generated_columns_are_checked_before_the_table_is_made(spark: SparkSession, table: str) -> None:
    def builder(expression: str, kind: str = "date") -> None:
        made = DeltaTable.create(spark).location(table).addColumn("at", "timestamp")
        made.addColumn("day", kind, generatedAlwaysAs=expression).execute()

    with pytest.raises(AnalysisException):
        builder("cast(nothing as date)")
    with pytest.raises(SchemaInvalidError, match="its expression"):
        builder("cast(at as date)", "string")
    with pytest.raises(SchemaInvalidError, match="same value"):
        builder("current_date()")
    builder("cast(at as date)")
    spark.sql("select timestamp'2026-01-31 12:00:00' as at").write.format("delta").mode("append").save(table)
    assert str(spark.read.format("delta").load(table).collect()[0]["day"]) == "2026-01-31"


def test_identity_columns_are_described_in_the_schema(spark: SparkSession, table: str) -> None:
    builder = DeltaTable.create(spark).location(table).addColumn("name", "string")
    builder.addColumn("id", "bigint", generatedAlwaysAs=IdentityGenerator(start=10, step=5))
    builder.addColumn("other", "bigint", generatedByDefaultAs=IdentityGenerator()).execute()
    fields = tidegate.open(table).schema.fields
    assert fields[1].metadata == {
        "delta.identity.start": 10,
        "delta.identity.step": 5,
        "delta.identity.allowExplicitInsert": False,
    }
    assert fields[2].metadata["delta.identity.allowExplicitInsert"] is True
    assert tidegate.open(table).protocol.supports("identityColumns")
    with pytest.raises(ValueError, match="non-zero step"):
        DeltaTable.create(spark).addColumn("id", "bigint", generatedAlwaysAs=IdentityGenerator(step=0))
    other = DeltaTable.create(spark).location(table + "2").addColumn("n", "string")
    other.addColumn("id", "int", generatedAlwaysAs=IdentityGenerator())
    with pytest.raises(SchemaInvalidError, match="bigint"):
        other.execute()


def test_a_clustered_table_says_so_in_its_domain_and_detail(spark: SparkSession, table: str) -> None:
    builder = DeltaTable.create(spark).location(table).addColumn("id", "long").addColumn("s", "string")
    made = builder.clusterBy("id").execute()
    snapshot = tidegate.open(table)
    assert snapshot.protocol.supports("clustering")
    assert '"clusteringColumns":[["id"]]' in snapshot.domains["delta.clustering"].configuration
    assert made.detail().collect()[0]["clusteringColumns"] == ["id"]


@pytest.mark.parametrize(
    ("clusters", "partitions", "error"),
    [
        (["nothing"], [], SchemaInvalidError),
        (["id", "id"], [], AlterRefusedError),
        (["tags"], [], AlterRefusedError),
        (["id"], ["s"], OptionError),
    ],
)
def test_what_cannot_be_clustered_by_is_refused(
    spark: SparkSession, table: str, clusters: list[str], partitions: list[str], error: type[Exception]
) -> None:
    builder = DeltaTable.create(spark).location(table).addColumn("id", "long").addColumn("s", "string")
    builder.addColumn("tags", "array<string>").clusterBy(*clusters)
    if partitions:
        builder.partitionedBy(*partitions)
    with pytest.raises(error):
        builder.execute()
    assert not DeltaTable.isDeltaTable(spark, table)


def test_unknown_properties_and_missing_partition_columns_are_refused(
    spark: SparkSession, table: str
) -> None:
    misspelt = DeltaTable.create(spark).location(table).addColumn("a", "long")
    with pytest.raises(PropertyError, match="Did you mean delta"):
        misspelt.property("delta.appendOnl", "true").execute()
    with pytest.raises(SchemaInvalidError, match="partition"):
        DeltaTable.create(spark).location(table).addColumn("a", "long").partitionedBy("b").execute()
    with pytest.raises(SchemaInvalidError, match="twice"):
        DeltaTable.create(spark).location(table).addColumn("a", "long").addColumn("A", "int").execute()
    with pytest.raises(OptionError, match="name or a location"):
        DeltaTable.create(spark).addColumn("a", "long").execute()
    assert not DeltaTable.isDeltaTable(spark, table)


def test_the_sessions_defaults_count_when_a_table_is_made(spark: SparkSession, table: str) -> None:
    key = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    spark.conf.set(key, "true")
    try:
        DeltaTable.create(spark).location(table).addColumn("a", "long").execute()
    finally:
        spark.conf.unset(key)
    assert tidegate.open(table).properties["delta.enableChangeDataFeed"] == "true"


def test_a_table_by_name_is_made_found_and_replaced(spark: SparkSession) -> None:
    spark.sql("drop table if exists made_by_name")
    try:
        DeltaTable.create(spark).tableName("made_by_name").addColumn("a", "long").execute()
        found = DeltaTable.forName(spark, "made_by_name")
        assert found.toDF().columns == ["a"]
        assert found.detail().collect()[0]["name"] == "spark_catalog.default.made_by_name"
        with pytest.raises(TableExistsError):
            DeltaTable.create(spark).tableName("made_by_name").addColumn("a", "long").execute()
        DeltaTable.createOrReplace(spark).tableName("made_by_name").addColumn("b", "long").execute()
        assert DeltaTable.forName(spark, "made_by_name").toDF().columns == ["b"]
    finally:
        spark.sql("drop table if exists made_by_name")


def test_wrong_types_of_arguments_are_told_apart(spark: SparkSession) -> None:
    builder = DeltaTable.create(spark)
    with pytest.raises(TypeError):
        builder.addColumn(1, "long")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        builder.addColumn("a", 1)  # type: ignore[arg-type]
    bad: list[Callable[[Any], object]] = [
        builder.tableName,
        builder.location,
        builder.comment,
        builder.addColumns,
        builder.partitionedBy,
        lambda x: builder.partitionedBy(x, "1"),
        lambda x: builder.partitionedBy([x]),
        lambda x: builder.addColumns([T.StructField("1", T.IntegerType()), x]),
        lambda x: builder.addColumn("a", "int", comment=x),
        lambda x: builder.addColumn("a", "int", generatedAlwaysAs=x),
        lambda x: builder.addColumn("a", "int", nullable=x),
        lambda x: builder.property(x, "1"),
        lambda x: builder.property("1", x),
    ]
    for call in bad:
        with pytest.raises(TypeError):
            call(1)
    with pytest.raises(ParseException):
        builder.addColumn("a", "1")
    with pytest.raises(ValueError, match="both"):
        builder.addColumn("a", "long", generatedAlwaysAs="b", generatedByDefaultAs=IdentityGenerator())


def test_a_replacement_gives_features_back_where_the_session_allows_it(
    spark: SparkSession, table: str
) -> None:
    def replaced() -> set[str]:
        DeltaTable.createOrReplace(spark).location(table).addColumn("c", "long").execute()
        return set(tidegate.open(table).protocol.features())

    builder = DeltaTable.create(spark).location(table).addColumn("a", "long")
    builder.property("delta.enableDeletionVectors", "true").execute()
    assert "deletionVectors" in replaced()
    with confs(spark, replace__protocolDowngradeAllowed="true"):
        assert "deletionVectors" not in replaced()
    spark.range(3).toDF("c").write.format("delta").mode("append").save(table)
    assert DeltaTable.forPath(spark, table).toDF().count() == 3


def test_a_path_may_come_with_settings_of_file_systems_alone(spark: SparkSession, table: str) -> None:
    spark.range(2).write.format("delta").save(table)
    settings = {"fs.fake.impl": "org.example.Fake", "dfs.replication": "1"}
    with pytest.warns(UserWarning, match="uses none of the settings"):
        found = DeltaTable.forPath(spark, table, hadoopConf=settings)
    assert found.toDF().count() == 2
    with pytest.raises(IllegalArgumentException, match=r"spark\.x") as refused:
        DeltaTable.forPath(spark, table, {"spark.x": "1"})
    assert refused.value.getCondition() == "DELTA_TABLE_FOR_PATH_UNSUPPORTED_HADOOP_CONF"
