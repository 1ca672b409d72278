"""UPDATE: which rows change, what follows from it, and what is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from support.dml import FEED, VECTORS, WAYS, Meanwhile, feed, last, no_job, sound, tracked, write
from tidegate.errors import (
    AppendOnlyError,
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    InvariantViolationException,
    OptionError,
    PredicateError,
    SchemaInvalidError,
)
from tidegate.table.delta import DeltaTable

pytestmark = pytest.mark.spark
Rows = Callable[..., list[tuple[Any, ...]]]


def make(spark: SparkSession, path: str, files: int = 2, n: int = 10, **properties: str) -> DeltaTable:
    """Ids from 0 in ranges of files; v is ten times the id."""
    frame = spark.range(n).withColumn("v", F.col("id") * 10).repartitionByRange(files, "id")
    write(frame.sortWithinPartitions("id"), path, properties)
    return DeltaTable.forPath(spark, path)


@pytest.mark.parametrize("properties", WAYS)
def test_rows_that_match_get_new_values(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    dt = make(spark, table, **properties)
    dt.update("id in (1, 2)", {"v": "v + id", "id": "id + 100"})
    expected = [(i, i * 10) for i in range(10) if i not in (1, 2)] + [(101, 11), (102, 22)]
    assert rows(table) == expected
    info = last(table)
    assert (info["operation"], info["operationParameters"]["predicate"]) == ("UPDATE", '["id in (1, 2)"]')
    metrics = info["operationMetrics"]
    assert metrics["numUpdatedRows"] == "2"
    assert metrics["numCopiedRows"] == ("0" if properties else "3")
    # Delta counts a file that only gets a vector as removed and added again.
    assert metrics["numRemovedFiles"] == "1"
    sound(table)


@pytest.mark.parametrize("properties", WAYS)
def test_without_a_condition_every_row_changes(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    make(spark, table, **properties).update(set={"v": F.lit(1)})
    assert rows(table) == [(i, 1) for i in range(10)]
    assert last(table)["operationMetrics"]["numUpdatedRows"] == "10"
    assert tidegate.open(table).files().column("deletionVector").null_count >= 1


def test_nothing_that_matches_is_no_commit(spark: SparkSession, table: str) -> None:
    dt = make(spark, table)
    dt.update("id = 99", {"v": "0"})
    dt.update("v = 5", {"v": "0"})
    dt.update("cast(null as boolean)", {"v": "0"})
    assert tidegate.open(table).version == 0


@pytest.mark.parametrize("properties", WAYS)
def test_the_feed_tells_rows_as_they_were_and_as_they_are(
    spark: SparkSession, table: str, properties: dict[str, str]
) -> None:
    dt = make(spark, table, files=1, **FEED, **properties, **{"delta.enableRowTracking": "true"})
    before = tracked(spark, table)
    dt.update("id = 3", {"v": "-1"})
    assert feed(spark, table, 1) == [(3, -1, "update_postimage"), (3, 30, "update_preimage")]
    after = tracked(spark, table)
    assert after == {**before, 3: (before[3][0], 1)}
    dt.update(set={"v": "id"})
    assert len(feed(spark, table, 2)) == 20
    assert {i: place for i, (place, _) in tracked(spark, table).items()} == {
        i: place for i, (place, _) in before.items()
    }
    sound(table)


@pytest.mark.parametrize("mode", ["none", "name"])
def test_fields_inside_structs_are_set_by_their_path(spark: SparkSession, table: str, mode: str) -> None:
    frame = spark.sql(
        "select 1L id, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', 2)) s union all select 2L, null"
    )
    write(frame, table, {"delta.columnMapping.mode": mode, **VECTORS})
    dt = DeltaTable.forPath(spark, table).alias("t")
    dt.update("t.id = 1", {"s.b.c": "concat(s.b.c, 'y')", "T.S.A": F.col("s.a") + 1})
    dt.update("id = 2", {"s.a": "7"})
    found = {r.id: r.s.asDict(True) for r in spark.read.format("delta").load(table).collect()}
    assert found == {1: {"a": 2, "b": {"c": "xy", "d": 2}}, 2: {"a": 7, "b": None}}
    dt.update("id = 2", {"s": "named_struct('b', named_struct('d', 1, 'c', 'q'), 'a', 5)"})
    found = {r.id: r.s.asDict(True) for r in spark.read.format("delta").load(table).collect()}
    assert found[2] == {"a": 5, "b": {"c": "q", "d": 1}}
    dt.update("id = 2", {"s": "null"})
    assert spark.read.format("delta").load(table).where("s is null").count() == 1


@pytest.mark.parametrize("properties", WAYS)
def test_generated_columns_follow_and_constraints_hold(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    builder = (
        DeltaTable.create(spark)
        .location(table)
        .addColumn("id", "long", nullable=False)
        .addColumn("half", "int", generatedAlwaysAs="cast(id / 2 as int)")
        .property("delta.constraints.few", "id < 50")
    )
    for key, value in properties.items():
        builder = builder.property(key, value)
    dt = builder.execute()
    spark.range(6).write.format("delta").mode("append").save(table)
    dt.update("id = 2", {"id": "20"})
    assert rows(table) == [(0, 0), (1, 0), (3, 1), (4, 2), (5, 2), (20, 10)]
    dt.update("id = 20", {"half": "10"})
    with pytest.raises(InvariantViolationException):
        dt.update("id = 3", {"half": "9"})
    with pytest.raises(InvariantViolationException):
        dt.update("id = 3", {"id": "99"})
    with pytest.raises(InvariantViolationException):
        dt.update("id = 3", {"id": "null"})
    assert len(rows(table)) == 6


def test_a_partition_column_moves_rows(spark: SparkSession, table: str, rows: Rows) -> None:
    write(spark.range(6).withColumn("p", (F.col("id") % 2).cast("int")), table, {}, ["p"])
    DeltaTable.forPath(spark, table).update("p = 1 and id > 1", {"p": "9"})
    assert rows(table) == [(0, 0), (1, 1), (2, 0), (3, 9), (4, 0), (5, 9)]
    assert tidegate.open(table).files("p = 9").num_rows == 1
    sound(table)


def test_values_are_cast_as_they_are_stored(spark: SparkSession, table: str, rows: Rows) -> None:
    dt = make(spark, table, n=3)
    dt.update("id = 1", {"v": "'17'"})
    dt.update("id = 2", {"v": F.lit(3.0)})
    assert rows(table) == [(0, 0), (1, 17), (2, 3)]


@pytest.mark.parametrize(
    ("given", "kind", "name"),
    [
        ({"nope": "1"}, SchemaInvalidError, "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ({"v": "1", "V": "2"}, SchemaInvalidError, "DELTA_CONFLICT_SET_COLUMN"),
        ({"v": "nope"}, AnalysisException, "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ({"v": "sum(id)"}, PredicateError, "DELTA_AGGREGATION_NOT_SUPPORTED"),
        (
            {"v": "1 + (select max(r.id) from range(3) r where r.id = v)"},
            PredicateError,
            "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_CORRELATED_SCALAR_SUBQUERY",
        ),
        (
            {"v": "cast(v in (select id from range(3)) as int)"},
            PredicateError,
            "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_IN_EXISTS_SUBQUERY",
        ),
        ({"v": "row_number() over (order by id)"}, PredicateError, "DELTA_UNSUPPORTED_EXPRESSION"),
        ({"v": "array(1)"}, AnalysisException, "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"),
        ({}, OptionError, "DELTA_ILLEGAL_OPTION"),
    ],
)
def test_bad_assignments_are_refused_before_any_job(
    spark: SparkSession, table: str, given: dict[str, str], kind: type[Exception], name: str
) -> None:
    dt = make(spark, table, n=2, files=1)
    with no_job(spark), pytest.raises(kind) as caught:
        dt.update("id = 1", given)
    assert isinstance(caught.value, AnalysisException)
    assert name in (getattr(caught.value, "errorClass", None), caught.value.getCondition())
    assert tidegate.open(table).version == 0


def test_arguments_of_other_kinds_are_pythons_own_errors(spark: SparkSession, table: str) -> None:
    dt = make(spark, table, n=2, files=1, **{"delta.appendOnly": "true"})
    with pytest.raises(ValueError, match="set"):
        dt.update("id = 1")
    with pytest.raises(TypeError):
        dt.update("id = 1", {"v": 1})  # type: ignore[dict-item]
    with pytest.raises(AppendOnlyError):
        dt.update("id = 1", {"v": "1"})


@pytest.mark.parametrize("properties", WAYS)
def test_updates_in_different_files_both_succeed_and_in_the_same_conflict(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dt = make(spark, table, **properties)
    with monkeypatch.context() as patch:
        Meanwhile(patch, lambda: dt.update("id = 1", {"v": "-1"}))
        dt.update("id = 8", {"v": "-8"})
    assert rows(table, "v < 0") == [(1, -1), (8, -8)]
    with monkeypatch.context() as patch:
        Meanwhile(patch, lambda: dt.delete("id = 2"))
        with pytest.raises((ConcurrentDeleteReadException, ConcurrentAppendException)):
            dt.update("id = 3", {"v": "-3"})
    assert rows(table, "v < 0") == [(1, -1), (8, -8)]
