"""Selective overwrites: rows leave and come in one commit, by a condition or by what the new rows match."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate.errors import InvariantViolationException, OptionError
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


def _make(spark: SparkSession, table: str, **properties: str) -> None:
    """Rows 0..9 in two files, id and what it is called."""
    from tidegate.commands.write import write

    frame = spark.range(0, 10, 1, 2).selectExpr("id", "concat('n', id) AS name")
    write(frame, table, properties={k.replace("_", "."): v for k, v in properties.items()})


def _new(spark: SparkSession, *ids: int) -> DataFrame:
    return spark.createDataFrame([(i, f"new{i}") for i in ids], "id long, name string")


def _replace(frame: DataFrame, table: str, where: str) -> None:
    frame.write.format("delta").mode("overwrite").option("replaceWhere", where).save(table)


LAYOUTS = [
    {},
    {"delta_enableDeletionVectors": "true"},
    {"delta_enableChangeDataFeed": "true"},
    {"delta_enableChangeDataFeed": "true", "delta_enableDeletionVectors": "true"},
    {"delta_columnMapping_mode": "name"},
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda p: "+".join(p) or "plain")
def test_rows_that_match_leave_and_the_new_ones_come(
    spark: SparkSession, table: str, rows: Rows, layout: dict[str, str]
) -> None:
    _make(spark, table, **layout)
    _replace(_new(spark, 3, 33), table, "id % 5 = 3")
    kept = [(i, f"n{i}") for i in (0, 1, 2, 4, 5, 6, 7, 9)]
    assert rows(table) == sorted([*kept, (3, "new3"), (33, "new33")])
    assert tidegate.open(table).version == 1
    assert [f for f in verify(TableLog.at(table), deep=True).findings if f.severity == "error"] == []
    if "delta_enableChangeDataFeed" in layout:
        feed = (
            spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 1).load(table)
        )
        told = sorted((r._change_type, r.id, r.name) for r in feed.collect())
        assert told == [
            ("delete", 3, "n3"),
            ("delete", 8, "n8"),
            ("insert", 3, "new3"),
            ("insert", 33, "new33"),
        ]


def test_a_new_row_that_does_not_meet_the_condition_fails_the_write(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    _make(spark, table)
    with pytest.raises(InvariantViolationException) as caught:
        _replace(_new(spark, 3, 4), table, "id = 3")
    assert caught.value.errorClass == "DELTA_REPLACE_WHERE_MISMATCH"
    assert '"id":4' in str(caught.value)
    assert len(rows(table)) == 10
    spark.conf.set("spark.databricks.delta.replaceWhere.constraintCheck.enabled", "false")
    try:
        _replace(_new(spark, 3, 4), table, "id = 3")
    finally:
        spark.conf.unset("spark.databricks.delta.replaceWhere.constraintCheck.enabled")
    assert [r for r in rows(table) if r[0] in (3, 4)] == [(3, "new3"), (4, "n4"), (4, "new4")]


def test_nothing_matches_and_all_match(spark: SparkSession, table: str, rows: Rows) -> None:
    _make(spark, table)
    _replace(_new(spark, 77), table, "id > 50")
    assert len(rows(table)) == 11
    _replace(_new(spark, 1), table, "name IS NOT NULL")
    assert rows(table) == [(1, "new1")]


def test_partitions_and_data_columns_together(spark: SparkSession, table: str, rows: Rows) -> None:
    frame = spark.range(8).selectExpr("id", "id % 2 AS p")
    frame.write.format("delta").partitionBy("p").save(table)
    new = spark.range(4, 5).selectExpr("id", "id % 2 AS p")
    _replace(new, table, "p = 0 AND id >= 4")
    assert rows(table) == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0), (5, 1), (7, 1)]


def test_the_history_tells_the_condition_and_what_it_came_to(spark: SparkSession, table: str) -> None:
    _make(spark, table)
    _replace(_new(spark, 3), table, "id = 3")
    entry = tidegate.open(table).history(1)[0]
    assert entry["operation"] == "WRITE"
    assert entry["operationParameters"]["predicate"] == "id = 3"
    metrics = {k: int(v) for k, v in entry["operationMetrics"].items()}
    assert metrics["numDeletedRows"] == 1
    # Rows that were moved are written too, as Delta counts.
    assert metrics["numOutputRows"] == 1 + metrics["numCopiedRows"]
    assert (metrics["numFiles"], metrics["numAddedChangeFiles"]) == (1 + metrics["numRemovedFiles"], 0)


def test_conditions_that_cannot_be_used_are_refused_before_any_job(spark: SparkSession, table: str) -> None:
    _make(spark, table)
    for where in ("nope = 1", "id = = 3", "sum(id) > 1", "id IN (SELECT 1)"):
        with pytest.raises(AnalysisException):
            _replace(_new(spark, 3), table, where)
    writer = _new(spark, 3).write.format("delta").option("replaceWhere", "id = 3")
    with pytest.raises(OptionError, match="mode overwrite"):
        writer.mode("append").save(table)
    with pytest.raises(OptionError, match="overwriteSchema"):
        _new(spark, 3).write.format("delta").mode("overwrite").option("overwriteSchema", True).option(
            "replaceWhere", "id = 3"
        ).save(table)
    assert tidegate.open(table).version == 0


def test_the_session_can_forbid_data_columns(spark: SparkSession, table: str) -> None:
    _make(spark, table)
    spark.conf.set("spark.databricks.delta.replaceWhere.dataColumns.enabled", "false")
    try:
        with pytest.raises(OptionError, match="not partition columns"):
            _replace(_new(spark, 3), table, "id = 3")
    finally:
        spark.conf.unset("spark.databricks.delta.replaceWhere.dataColumns.enabled")


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_replace_using_columns_and_replace_on_a_condition(
    spark: SparkSession, table: str, rows: Rows, vectors: str
) -> None:
    _make(spark, table, delta_enableDeletionVectors=vectors)
    writer = _new(spark, 3, 30).write.format("delta").mode("overwrite")
    writer.option("replaceUsing", "id").save(table)
    assert [r for r in rows(table) if str(r[1]).startswith("new")] == [(3, "new3"), (30, "new30")]
    assert len(rows(table)) == 11
    writer = _new(spark, 5).alias("s").write.format("delta").mode("overwrite")
    writer.option("replaceOn", "t.id >= s.id AND t.id < 10").option("targetAlias", "t").save(table)
    assert [r[0] for r in rows(table)] == [0, 1, 2, 3, 4, 5, 30]
    with pytest.raises(OptionError, match="replaceUsing names nope"):
        _new(spark, 5).write.format("delta").mode("overwrite").option("replaceUsing", "nope").save(table)


@pytest.mark.parametrize(
    ("key", "new", "stays"),
    [
        ("TIMESTAMP'2020-01-01 00:00:00'", "DATE'2020-01-01'", "TIMESTAMP'2020-01-01 05:00:00'"),
        ("2", "CAST(2 AS DECIMAL(5, 0))", "3"),
        ("'2'", "2", "'a'"),
        ("2L", "2", "3L"),
    ],
)
def test_keys_are_compared_as_they_will_be_stored(
    spark: SparkSession, table: str, key: str, new: str, stays: str
) -> None:
    spark.sql(f"SELECT {key} AS k, 1 AS v UNION ALL SELECT {stays}, 2").write.format("delta").save(table)
    writer = spark.sql(f"SELECT {new} AS k, 9 AS v").write.format("delta").mode("overwrite")
    writer.option("replaceUsing", "k").save(table)
    found = spark.read.format("delta").load(table)
    assert {(r.is_key, r.v) for r in found.selectExpr(f"k = {key} AS is_key", "v").collect()} == {
        (True, 9),
        (False, 2),
    }


def test_names_of_keys_are_told_apart_by_case_where_the_session_does(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    _make(spark, table)
    writer = _new(spark, 3).write.format("delta").mode("overwrite").option("replaceUsing", "ID")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(OptionError, match="names ID"):
            writer.save(table)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    writer.save(table)
    assert len(rows(table)) == 10


def test_dynamic_overwrite_by_the_sessions_conf(spark: SparkSession, table: str, rows: Rows) -> None:
    spark.range(4).selectExpr("id", "id % 2 AS p").write.format("delta").partitionBy("p").save(table)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        new = spark.range(9, 10).selectExpr("id", "id % 2 AS p")
        new.write.format("delta").mode("overwrite").save(table)
        assert rows(table) == [(0, 0), (2, 0), (9, 1)]
        _replace(spark.range(8, 9).selectExpr("id", "id % 2 AS p"), table, "p = 0")
        assert rows(table) == [(8, 0), (9, 1)]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    new.write.format("delta").mode("overwrite").save(table)
    assert rows(table) == [(9, 1)]
