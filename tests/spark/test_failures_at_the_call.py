"""What fails only when Spark runs reaches the user's own call as our error with its code: in reads, in the
methods of a table, and in SQL alike; and the table stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate
from support.dml import VECTORS, write
from tidegate.errors import (
    DataFileCorruptError,
    DataFileMissingError,
    DVChecksumError,
    InvariantViolationException,
    TidegateError,
)
from tidegate.table.delta import DeltaTable

pytestmark = pytest.mark.spark

Call = Callable[[SparkSession, str], Any]


def _merge(spark: SparkSession, path: str) -> None:
    source = spark.range(2).selectExpr("id", "-1L AS v")
    merge = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().execute()


READS: dict[str, Call] = {
    "collect": lambda spark, path: spark.read.format("delta").load(path).collect(),
    "toArrow": lambda spark, path: spark.read.format("delta").load(path).toArrow(),
    "select": lambda spark, path: spark.sql(f"SELECT sum(v) FROM delta.`{path}`").collect(),
}
CHANGES: dict[str, Call] = {
    "update": lambda spark, path: DeltaTable.forPath(spark, path).update("id % 2 = 0", {"v": "-1"}),
    "merge": _merge,
    "sql update": lambda spark, path: spark.sql(f"UPDATE delta.`{path}` SET v = -v").collect(),
    "sql insert": lambda spark, path: spark.sql(
        f"INSERT INTO delta.`{path}` SELECT id, -1 FROM delta.`{path}`"
    ).collect(),
}
DELETES: dict[str, Call] = {
    "delete": lambda spark, path: DeltaTable.forPath(spark, path).delete("v % 3 = 1"),
    "sql delete": lambda spark, path: spark.sql(f"DELETE FROM delta.`{path}` WHERE v % 3 = 1").collect(),
    "optimize": lambda spark, path: DeltaTable.forPath(spark, path).optimize().executeZOrderBy("id"),
}


def _fails(
    spark: SparkSession, path: str, kind: type[TidegateError], calls: dict[str, Call]
) -> list[TidegateError]:
    """Every one of the calls fails with the error, and the table stays at its version."""
    version = tidegate.open(path).version
    found = []
    for name, call in calls.items():
        with pytest.raises(TidegateError) as caught:
            call(spark, path)
        assert isinstance(caught.value, kind), name
        assert caught.value.code == kind.code, name
        assert tidegate.open(path).version == version, name
        found.append(caught.value)
    return found


def _table(spark: SparkSession, path: str, **properties: str) -> None:
    write(spark.range(0, 6, 1, 1).selectExpr("id", "id AS v"), path, properties)


def test_a_data_file_that_is_missing(spark: SparkSession, table: str) -> None:
    _table(spark, table)
    [file] = Path(table).glob("*.parquet")
    file.unlink()
    for error in _fails(spark, table, DataFileMissingError, READS | CHANGES | DELETES):
        assert error.file is not None
        assert error.file.endswith(file.name)


def test_a_data_file_that_is_corrupt(spark: SparkSession, table: str) -> None:
    _table(spark, table)
    [file] = Path(table).glob("*.parquet")
    file.write_bytes(b"PAR1 is not enough PAR1")
    for hidden in Path(table).glob(".*.crc"):
        hidden.unlink()
    for error in _fails(spark, table, DataFileCorruptError, READS | CHANGES | DELETES):
        assert error.file is not None
        assert error.file.endswith(file.name)


def test_a_deletion_vector_that_is_not_what_was_written(spark: SparkSession, table: str) -> None:
    _table(spark, table, **VECTORS)
    DeltaTable.forPath(spark, table).delete("id = 3")
    [file] = Path(table).rglob("deletion_vector_*.bin")
    damaged = bytearray(file.read_bytes())
    damaged[-5] ^= 1
    file.write_bytes(damaged)
    _fails(spark, table, DVChecksumError, READS | CHANGES | DELETES)


def test_a_constraint_that_is_violated(spark: SparkSession, table: str) -> None:
    _table(spark, table, **{"delta.constraints.positive": "v >= 0"})

    def append(spark: SparkSession, path: str) -> None:
        spark.range(1).selectExpr("id", "-1L AS v").write.format("delta").mode("append").save(path)

    for error in _fails(spark, table, InvariantViolationException, {"append": append, **CHANGES}):
        assert "positive" in str(error)
