"""ALTER TABLE as methods of ``DeltaTable``: properties, constraints, columns, clustering, changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import tidegate
from tidegate import DeltaTable
from tidegate.errors import (
    AlterRefusedError,
    InvariantViolationException,
    ManualEnablementError,
    PropertyError,
    SchemaInvalidError,
)

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


@pytest.fixture
def made(spark: SparkSession, table: str) -> DeltaTable:
    frame = spark.sql("select id, cast(id as int) as n, named_struct('x', id, 'y', 'a') as s from range(3)")
    frame.write.format("delta").save(table)
    return DeltaTable.forPath(spark, table)


def _mapped(table: DeltaTable) -> DeltaTable:
    table.setProperties({"delta.columnMapping.mode": "name"})
    return table


# ---------------------------------------------------------------------------- properties


def test_properties_are_set_and_unset(made: DeltaTable, table: str) -> None:
    made.setProperties({"DELTA.appendonly": True, "mine": 7, "comment": "hello"})
    snapshot = tidegate.open(table)
    assert snapshot.properties == {"delta.appendOnly": "true", "mine": "7"}
    assert snapshot.metadata.description == "hello"
    made.unsetProperties("mine", "delta.appendOnly", "comment")
    assert tidegate.open(table).properties == {}
    assert tidegate.open(table).metadata.description is None
    operations = [r[0] for r in made.history().select("operation").collect()]
    assert operations[:2] == ["UNSET TBLPROPERTIES", "SET TBLPROPERTIES"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.nothingOfTheKind", "1"),
        ("delta.appendOnly", "maybe"),
        ("delta.logRetentionDuration", "interval 2 months"),
        ("delta.constraints.mine", "id > 0"),
        ("delta.feature.clustering", "supported"),
        ("location", "/elsewhere"),
        ("delta.columnMapping.mode", "id"),
        ("delta.deletedFileRetentionDuration", "interval 60 days"),
    ],
)
def test_illegal_properties_are_refused_before_anything_is_written(
    made: DeltaTable, table: str, key: str, value: str
) -> None:
    with pytest.raises(PropertyError) as caught:
        made.setProperties({"fine": "1", key: value})
    assert isinstance(caught.value, AnalysisException)
    assert tidegate.open(table).version == 0


def test_a_property_that_is_not_set_cannot_be_unset_unless_that_is_said(made: DeltaTable, table: str) -> None:
    with pytest.raises(PropertyError, match="no property"):
        made.unsetProperties("nothing")
    made.unsetProperties("nothing", ifExists=True)
    assert tidegate.open(table).properties == {}


def test_a_property_brings_its_feature(made: DeltaTable, table: str) -> None:
    made.setProperties({"delta.enableDeletionVectors": "true"})
    assert tidegate.open(table).protocol.supports("deletionVectors")


def test_row_tracking_gives_ids_to_the_files_there_are_first(made: DeltaTable, table: str) -> None:
    made.setProperties({"delta.enableRowTracking": "true"})
    snapshot = tidegate.open(table)
    files = snapshot.files()
    assert files.column("baseRowId").null_count == 0
    assert snapshot.properties["delta.rowTracking.materializedRowIdColumnName"]
    operations = [r[0] for r in made.history().select("operation").collect()]
    assert operations[:3] == ["SET TBLPROPERTIES", "ROW TRACKING BACKFILL", "UPGRADE PROTOCOL"]


# ---------------------------------------------------------------------------- constraints


def test_a_constraint_is_verified_against_the_rows_there_are(
    spark: SparkSession, made: DeltaTable, table: str, rows: Rows
) -> None:
    with pytest.raises(InvariantViolationException, match="1 rows"):
        made.addConstraint("small", "id < 2")
    assert tidegate.open(table).version == 0
    made.addConstraint("small", "id < 3")
    with pytest.raises(AlterRefusedError, match="already"):
        made.addConstraint("SMALL", "id < 9")
    bad = spark.sql("select 5L as id, 1 as n, named_struct('x', 1L, 'y', 'b') as s")
    with pytest.raises(InvariantViolationException):
        bad.write.format("delta").mode("append").save(table)
    made.dropConstraint("Small")
    bad.write.format("delta").mode("append").save(table)
    assert len(rows(table)) == 4
    with pytest.raises(AlterRefusedError, match="no constraint"):
        made.dropConstraint("small")
    made.dropConstraint("small", ifExists=True)


@pytest.mark.parametrize("expression", ["id +", "nothing > 1", "id + 1"])
def test_a_constraint_that_is_no_condition_is_refused(made: DeltaTable, table: str, expression: str) -> None:
    with pytest.raises(AnalysisException):
        made.addConstraint("c", expression)
    assert tidegate.open(table).version == 0


# ---------------------------------------------------------------------------- columns


def test_columns_are_added_at_their_places(made: DeltaTable, table: str, rows: Rows) -> None:
    made.addColumns("a string COMMENT 'new', b int", position="AFTER id")
    made.addColumns("z double", position="FIRST")
    assert tidegate.open(table).schema.names == ("z", "id", "a", "b", "n", "s")
    assert tidegate.open(table).schema.fields[2].metadata == {"comment": "new"}
    assert rows(table)[0][:4] == (None, 0, None, None)


@pytest.mark.parametrize("ddl", ["ID long", "new int NOT NULL"])
def test_columns_that_rows_could_not_have_are_refused(made: DeltaTable, table: str, ddl: str) -> None:
    with pytest.raises(AlterRefusedError):
        made.addColumns(ddl)
    assert tidegate.open(table).version == 0


def test_columns_are_renamed_and_dropped_under_column_mapping(
    spark: SparkSession, made: DeltaTable, table: str, rows: Rows
) -> None:
    with pytest.raises(AlterRefusedError, match="columnMapping"):
        made.renameColumn("n", "m")
    with pytest.raises(AlterRefusedError, match="columnMapping"):
        made.dropColumns("n")
    _mapped(made)
    made.renameColumn("n", "m")
    made.renameColumn("s.x", "left")
    made.dropColumns("s.y")
    assert [tuple(r) for r in rows(table)] == [(i, i, (i,)) for i in range(3)]
    assert tidegate.open(table).schema.fields[2].type.names == ("left",)  # type: ignore[union-attr]
    made.dropColumns("m", "s", "nothing", ifExists=True)
    made.addColumns("m string")
    assert rows(table) == [(0, None), (1, None), (2, None)]
    with pytest.raises(AlterRefusedError, match="already"):
        made.renameColumn("m", "ID")
    with pytest.raises(SchemaInvalidError, match="no column"):
        made.dropColumns("nothing")
    made.dropColumns("m")
    with pytest.raises(AlterRefusedError, match="last column"):
        made.dropColumns("id")


def test_a_column_others_depend_on_stays_as_it_is(made: DeltaTable, table: str) -> None:
    _mapped(made)
    made.addConstraint("positive", "n >= 0")
    made.clusterBy("id")
    version = tidegate.open(table).version
    for change in (
        lambda: made.dropColumns("n"),
        lambda: made.renameColumn("n", "m"),
        lambda: made.dropColumns("id"),
    ):
        with pytest.raises(AlterRefusedError):
            change()
    assert tidegate.open(table).version == version


def test_a_partition_column_is_renamed_but_never_dropped(spark: SparkSession, table: str, rows: Rows) -> None:
    spark.sql("select id, id % 2 as p from range(4)").write.format("delta").partitionBy("p").save(table)
    made = _mapped(DeltaTable.forPath(spark, table))
    with pytest.raises(AlterRefusedError, match="partitioned"):
        made.dropColumns("p")
    made.renameColumn("p", "q")
    assert tidegate.open(table).partition_columns == ("q",)
    assert rows(table, "q = 1") == [(1, 1), (3, 1)]


def test_types_widen_where_the_table_allows_it(spark: SparkSession, made: DeltaTable, table: str) -> None:
    with pytest.raises(AlterRefusedError, match="enableTypeWidening"):
        made.alterColumn("n", type="bigint")
    made.setProperties({"delta.enableTypeWidening": "true"})
    made.alterColumn("n", type="bigint")
    assert [r[0] for r in spark.read.format("delta").load(table).select("n").sort("n").collect()] == [0, 1, 2]
    with pytest.raises(AlterRefusedError, match="cannot be changed"):
        made.alterColumn("n", type="int")


def test_a_column_is_described_moved_and_made_not_null(
    spark: SparkSession, made: DeltaTable, table: str, rows: Rows
) -> None:
    made.alterColumn("n", comment="a number", position="FIRST")
    assert tidegate.open(table).schema.names == ("n", "id", "s")
    made.alterColumn("n", nullable=False)
    null = spark.sql("select cast(null as int) as n, 9L as id, null as s")
    with pytest.raises(InvariantViolationException):
        null.write.format("delta").mode("append").save(table)
    made.alterColumn("n", nullable=True)
    null.write.format("delta").mode("append").save(table)
    version = tidegate.open(table).version
    with pytest.raises(InvariantViolationException, match="1 rows"):
        made.alterColumn("n", nullable=False)
    assert tidegate.open(table).version == version
    assert tidegate.open(table).schema.fields[0].metadata["comment"] == "a number"


def test_a_default_needs_its_feature_and_fills_columns_left_out(
    spark: SparkSession, made: DeltaTable, table: str, rows: Rows
) -> None:
    with pytest.raises(ManualEnablementError):
        made.alterColumn("n", default="42")
    made.setProperties({"delta.feature.allowColumnDefaults": "supported"})
    made.alterColumn("n", default="42")
    spark.sql("select 9L as id").write.format("delta").mode("append").save(table)
    assert rows(table, "id = 9") == [(9, 42, None)]
    made.alterColumn("n", default="")
    spark.sql("select 10L as id").write.format("delta").mode("append").save(table)
    assert rows(table, "id = 10") == [(10, None, None)]


def test_clustering_columns_are_set_changed_and_taken_away(made: DeltaTable, table: str) -> None:
    made.clusterBy("id", "s.x")
    assert made.detail().collect()[0]["clusteringColumns"] == ["id", "s.x"]
    made.clusterBy()
    assert made.detail().collect()[0]["clusteringColumns"] == []


def test_changes_between_versions(spark: SparkSession, table: str) -> None:
    builder = DeltaTable.create(spark).location(table).addColumn("id", "long")
    made = builder.property("delta.enableChangeDataFeed", "true").execute()
    spark.range(2).write.format("delta").mode("append").save(table)
    spark.range(2, 3).write.format("delta").mode("append").save(table)
    got = sorted((r["id"], r["_change_type"], r["_commit_version"]) for r in made.changes(1, 1).collect())
    assert got == [(0, "insert", 1), (1, "insert", 1)]
    assert made.changes(1).count() == 3
