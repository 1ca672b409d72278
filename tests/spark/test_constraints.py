"""Constraints in the write itself: what breaks one is named, with its values, and nothing becomes visible."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import InvariantViolationException, SchemaInvalidError
from tidegate.metadata import Metadata

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


def _create(table: str, fields: str, partition_by: tuple[str, ...] = (), **configuration: str) -> None:
    transaction = tidegate.Transaction.begin(table)
    schema = f'{{"type":"struct","fields":[{fields}]}}'
    properties = {k.replace("__", "."): v for k, v in configuration.items()}
    transaction.update_metadata(
        Metadata(id="1", schema_string=schema, partition_columns=partition_by, configuration=properties)
    )
    transaction.commit(operation="CREATE TABLE")


def _field(name: str, kind: str = '"long"', nullable: bool = True, metadata: str = "{}") -> str:
    return f'{{"name":"{name}","type":{kind},"nullable":{str(nullable).lower()},"metadata":{metadata}}}'


def _append(spark: SparkSession, table: str, text: str) -> None:
    spark.sql(f"SELECT {text}").write.format("delta").mode("append").save(table)


def test_not_null_holds_at_every_level(spark: SparkSession, table: str, rows: Rows) -> None:
    inner = '{"type":"struct","fields":[' + _field("deep-x", nullable=False) + "]}"
    outer = '{"type":"struct","fields":[' + _field("in.ner", inner) + "]}"
    _create(table, _field("id", nullable=False) + "," + _field("s", outer))
    # A struct that is null has null in all its columns.
    for struct in ("null", "named_struct('in.ner', null)"):
        with pytest.raises(InvariantViolationException, match=r"NOT NULL s.`in.ner`.deep-x"):
            _append(spark, table, f"1L AS id, {struct} AS s")
    _append(spark, table, "3L AS id, named_struct('in.ner', named_struct('deep-x', 5L)) AS s")
    with pytest.raises(InvariantViolationException, match="NOT NULL id") as caught:
        _append(spark, table, "null AS id, null AS s")
    assert caught.value.errorClass == "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    with pytest.raises(InvariantViolationException, match=r"NOT NULL s.`in.ner`.deep-x"):
        _append(
            spark, table, "4L AS id, named_struct('in.ner', named_struct('deep-x', cast(null AS long))) AS s"
        )
    with pytest.raises(InvariantViolationException, match="NOT NULL id"):
        _append(spark, table, "null AS s")
    assert [r[0] for r in rows(table)] == [3]


def test_the_constraint_and_the_values_are_named(spark: SparkSession, table: str) -> None:
    _create(
        table,
        _field("id") + "," + _field("tags", '{"type":"array","elementType":"string","containsNull":true}'),
        delta__constraints__two_tags="size(tags) >= 2 AND tags[0] != tags[1] AND id BETWEEN 0 AND 9",
    )
    _append(spark, table, "1L AS id, array('a', 'b') AS tags")
    with pytest.raises(InvariantViolationException) as caught:
        _append(spark, table, "5L AS id, array('x', 'x') AS tags")
    said = str(caught.value)
    assert "two_tags" in said
    assert "tags[0] != tags[1]" in said
    assert '{"id":5,"tags":["x","x"]}' in said
    assert caught.value.errorClass == "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    with pytest.raises(InvariantViolationException):
        _append(spark, table, "null AS id, array('a', 'b') AS tags")
    assert tidegate.open(table).version == 1


def test_invariants_of_columns_hold(spark: SparkSession, table: str) -> None:
    rule = '{"delta.invariants":"{\\\\"expression\\\\":{\\\\"expression\\\\":\\\\"id < 3\\\\"}}"}'.replace(
        "\\\\", "\\"
    )
    _create(table, _field("id", metadata=rule))
    _append(spark, table, "2L AS id")
    with pytest.raises(InvariantViolationException, match="invariant of id"):
        _append(spark, table, "3L AS id")


def test_an_empty_partition_value_is_null_before_it_is_checked(spark: SparkSession, table: str) -> None:
    _create(table, _field("id") + "," + _field("p", '"string"', nullable=False), ("p",))
    _append(spark, table, "1L AS id, 'x' AS p")
    with pytest.raises(InvariantViolationException, match="NOT NULL p"):
        _append(spark, table, "2L AS id, '' AS p")


def test_generated_columns_follow_from_others_and_may_not_contradict_them(
    spark: SparkSession, table: str
) -> None:
    made = '{"delta.generationExpression":"year(day)"}'
    _create(table, _field("day", '"date"') + "," + _field("Year_of_day", '"integer"', metadata=made), ())
    _append(spark, table, "DATE'2024-05-01' AS day")
    _append(spark, table, "null AS day")
    _append(spark, table, "DATE'2023-05-01' AS day, 2023 AS `year_OF_day`")
    found = spark.read.format("delta").load(table).selectExpr("`Year_of_day`").collect()
    assert sorted(str(r[0]) for r in found) == ["2023", "2024", "None"]
    with pytest.raises(InvariantViolationException, match="generated column Year_of_day"):
        _append(spark, table, "DATE'2023-05-01' AS day, 2024 AS `year_OF_day`")


def test_a_constraint_that_does_not_parse_is_named_before_any_job(spark: SparkSession, table: str) -> None:
    _create(table, _field("id"), delta__constraints__broken="id >")
    with pytest.raises(SchemaInvalidError, match="broken"):
        _append(spark, table, "1L AS id")
    assert tidegate.open(table).version == 0


def test_the_portable_way_holds_constraints_too(spark: SparkSession, table: str) -> None:
    _create(table, _field("id"), delta__constraints__small="id < 3")
    writer = spark.sql("SELECT 5L AS id").write.format("delta").mode("append")
    with pytest.raises(InvariantViolationException, match="small"):
        writer.option("tidegate.write.portable", True).save(table)
