"""Options of a write that begin with ``delta.`` are properties of the table that it makes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrameWriter, SparkSession

import tidegate
from support.dml import confs
from tidegate import DeltaTable
from tidegate.commands import catalog
from tidegate.errors import PropertyError

pytestmark = pytest.mark.spark

_numbers = itertools.count()
INTERVAL = "delta.checkpointInterval"


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    made = f"properties_in_options{next(_numbers)}"
    yield made
    catalog.drop_table(spark, made, if_exists=True)


def _writer(spark: SparkSession, mode: str = "error", **options: object) -> DataFrameWriter:
    return spark.range(3).write.format("delta").mode(mode).options(**options)


def _properties(spark: SparkSession, name: str) -> dict[str, str]:
    return dict(DeltaTable.forName(spark, name).detail().collect()[0].properties)


def test_a_new_table_has_them_whatever_their_case_and_no_other_options(
    spark: SparkSession, table: str
) -> None:
    _writer(spark, **{"DELTA.checkpointinterval": 7, "delta.appendOnly": True, "mine": "x"}).save(table)
    assert dict(tidegate.open(table).properties) == {INTERVAL: "7", "delta.appendOnly": "true"}


def test_features_that_they_ask_for_are_enabled(spark: SparkSession, table: str) -> None:
    _writer(spark, **{"delta.columnMapping.mode": "name"}).save(table)
    DeltaTable.forPath(spark, table).renameColumn("id", "key")
    assert spark.read.format("delta").load(table).columns == ["key"]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_table_that_is_there_keeps_its_own(spark: SparkSession, table: str, mode: str) -> None:
    _writer(spark, **{INTERVAL: 7}).save(table)
    _writer(spark, mode, **{INTERVAL: 9, "overwriteSchema": mode == "overwrite"}).save(table)
    assert tidegate.open(table).properties == {INTERVAL: "7"}


def test_tables_made_by_name_have_them_and_a_replacement_has_new_ones(spark: SparkSession, name: str) -> None:
    _writer(spark, **{INTERVAL: 7}).saveAsTable(name)
    assert _properties(spark, name) == {INTERVAL: "7"}
    _writer(spark, "overwrite", **{INTERVAL: 9}).saveAsTable(name)
    assert _properties(spark, name) == {INTERVAL: "7"}
    spark.range(3).writeTo(name).using("delta").option(INTERVAL, "8").createOrReplace()
    assert _properties(spark, name) == {INTERVAL: "8"}


@pytest.mark.parametrize("exists", [False, True])
def test_what_is_no_property_or_no_value_of_one_is_refused(
    spark: SparkSession, table: str, exists: bool
) -> None:
    if exists:
        _writer(spark).save(table)
    with pytest.raises(AnalysisException, match=r"delta\.nope") as caught:
        _writer(spark, "append", **{"delta.nope": 1}).save(table)
    assert caught.value.getCondition() == "DELTA_UNKNOWN_CONFIGURATION"
    with pytest.raises(IllegalArgumentException, match=INTERVAL) as refused:
        _writer(spark, "append", **{INTERVAL: "often"}).save(table)
    assert isinstance(refused.value, PropertyError)
    assert DeltaTable.isDeltaTable(spark, table) == exists


def test_a_session_may_allow_properties_that_nobody_knows(spark: SparkSession, table: str) -> None:
    _writer(spark).save(table)
    with confs(spark, allowArbitraryProperties__enabled="true"):
        _writer(spark, "append", **{"delta.nope": 1}).save(table)
    assert tidegate.open(table).properties == {}
