"""The Python data source called delta, driven as Spark drives it: planned here, read from a pickle."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import tidegate
from tidegate.errors import OptionError
from tidegate.spark.scan.source import DeltaSource

pytestmark = pytest.mark.spark

DEFAULTS = "spark.databricks.delta.properties.defaults."


def _rows(path: str, declared: StructType | None = None) -> list[dict[str, object]]:
    source = DeltaSource({"path": path})
    reader = source.reader(declared or source.schema())
    planned = pickle.dumps((reader, reader.partitions()))
    reader, partitions = pickle.loads(planned)
    return sorted((r for p in partitions for b in reader.read(p) for r in b.to_pylist()), key=str)


def test_mapped_columns_partitions_and_deleted_rows(spark: SparkSession, table: str) -> None:
    confs = {"columnMapping.mode": "name", "enableDeletionVectors": "true"}
    for name, value in confs.items():
        spark.conf.set(DEFAULTS + name, value)
    try:
        frame = spark.range(0, 6, 1, 1).selectExpr(
            "id", "id % 2 as p", "named_struct('x y', array(named_struct('c', id))) as s"
        )
        frame.write.format("delta").partitionBy("p").save(table)
    finally:
        for name in confs:
            spark.conf.unset(DEFAULTS + name)
    tidegate.DeltaTable.forPath(spark, table).delete("id = 4")
    expected = [{"id": i, "p": i % 2, "s": {"x y": [{"c": i}]}} for i in (0, 1, 2, 3, 5)]
    assert _rows(table) == expected


def test_a_reader_gives_the_columns_that_were_declared(spark: SparkSession, table: str) -> None:
    spark.range(0, 2, 1, 1).selectExpr("id", "'x' as v").write.format("delta").save(table)
    declared = StructType.fromDDL("v string, gone int, id bigint")
    assert _rows(table, declared) == [{"v": "x", "gone": None, "id": i} for i in (0, 1)]


def test_it_does_not_write_and_wants_a_path() -> None:
    with pytest.raises(OptionError, match="no path"):
        DeltaSource({}).schema()
    with pytest.raises(OptionError):
        DeltaSource({"path": "/t"}).writer(StructType(), False)
