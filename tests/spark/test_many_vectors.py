"""Deletion vectors of many files: executors read them, and what they cannot read the driver does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import DVChecksumError
from tidegate.spark.scan import vectors

pytestmark = pytest.mark.spark

VECTORS = "spark.databricks.delta.properties.defaults.enableDeletionVectors"


@pytest.fixture
def holed(spark: SparkSession, table: str) -> str:
    spark.conf.set(VECTORS, "true")
    try:
        spark.range(0, 60, 1, 6).selectExpr("id", "id % 3 as p").write.format("delta").save(table)
    finally:
        spark.conf.unset(VECTORS)
    tidegate.DeltaTable.forPath(spark, table).delete("p = 1")
    return table


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every vector is one of many; how many vectors tasks have read, plan by plan."""
    read: list[int] = []
    by_tasks = vectors._by_tasks

    def counting(*args: Any) -> dict[int, bytes]:
        found = by_tasks(*args)
        read.append(len(found))
        return found

    monkeypatch.setattr(vectors, "MANY_VECTORS", 1)
    monkeypatch.setattr(vectors, "_by_tasks", counting)
    return read


@pytest.mark.parametrize("way", ["false", "true"])
def test_executors_read_the_vectors_of_the_files_that_are_left(
    spark: SparkSession, holed: str, many: list[int], way: str
) -> None:
    spark.conf.set("spark.tidegate.read.portable", way)
    try:
        frame = spark.read.format("delta").load(holed)
        assert sorted(r.id for r in frame.collect()) == [i for i in range(60) if i % 3 != 1]
    finally:
        spark.conf.unset("spark.tidegate.read.portable")
    assert set(many) == {6}


def test_vectors_of_pruned_files_are_not_read(spark: SparkSession, holed: str, many: list[int]) -> None:
    found = spark.read.format("delta").load(holed).where("id >= 50")
    assert found.count() == 7
    assert set(many) == {1}


def test_a_damaged_vector_keeps_its_error(spark: SparkSession, holed: str, many: list[int]) -> None:
    [file] = Path(holed).glob("deletion_vector_*.bin")
    data = bytearray(file.read_bytes())
    data[12] ^= 0xFF
    file.write_bytes(data)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    with pytest.raises(DVChecksumError):
        spark.read.format("delta").load(holed).collect()
    assert set(many) == {5}
