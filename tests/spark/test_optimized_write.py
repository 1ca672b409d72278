"""Optimized writes, options and confs of a write: what they come to in files and in the history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.commands.write import write
from tidegate.errors import OptionError

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]
PREFIX = "spark.databricks.delta."


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets confs below the prefix for the length of a test."""
    given: list[str] = []

    def set_conf(name: str, value: str) -> None:
        given.append(PREFIX + name)
        spark.conf.set(PREFIX + name, value)

    yield set_conf
    for key in given:
        spark.conf.unset(key)


def _files(table: str) -> int:
    return tidegate.open(table).files().num_rows


@pytest.mark.parametrize("how", ["option", "conf", "property"])
def test_many_tasks_write_one_file_for_each_partition(
    spark: SparkSession, table: str, rows: Rows, conf: Callable[[str, str], None], how: str
) -> None:
    frame = spark.range(0, 40, 1, 8).selectExpr("id", "id % 2 AS p")
    write(frame, table, partition_by=["p"])
    assert _files(table) == 16
    options = {"optimizeWrite": "true"} if how == "option" else {}
    if how == "conf":
        conf("optimizeWrite.enabled", "true")
    if how == "property":
        transaction = tidegate.Transaction.begin(table)
        metadata = transaction.metadata
        transaction.update_metadata(metadata.with_configuration({"delta.autoOptimize.optimizeWrite": "true"}))
        transaction.commit(operation="SET TBLPROPERTIES")
    write(frame, table, mode="overwrite", options=options)
    assert _files(table) == 2
    assert rows(table) == [(i, i % 2) for i in range(40)]
    if how != "option":
        write(frame, table, mode="overwrite", options={"optimizeWrite": "false"})
        assert _files(table) == 16


def test_the_bin_size_is_the_target(
    spark: SparkSession, table: str, conf: Callable[[str, str], None]
) -> None:
    frame = spark.range(0, 20000, 1, 4).selectExpr("id", "uuid() AS text")
    write(frame, table, options={"optimizeWrite": "true"})
    assert _files(table) == 1
    conf("optimizeWrite.binSize", "200k")
    write(frame, table, mode="overwrite", options={"optimizeWrite": "true"})
    assert 2 <= _files(table) <= 8


def test_the_sessions_confs_stand_in_for_options(
    spark: SparkSession, table: str, rows: Rows, conf: Callable[[str, str], None]
) -> None:
    spark.range(1).write.format("delta").save(table)
    conf("schema.autoMerge.enabled", "true")
    conf("commitInfo.userMetadata", "nightly")
    wider = spark.range(1, 2).selectExpr("id", "'x' AS more")
    wider.write.format("delta").mode("append").save(table)
    assert rows(table, "id = 1") == [(1, "x")]
    assert tidegate.open(table).history(1)[0]["userMetadata"] == "nightly"
    wider.write.format("delta").mode("append").option("userMetadata", "by hand").save(table)
    assert tidegate.open(table).history(1)[0]["userMetadata"] == "by hand"


def test_idempotence_by_the_sessions_confs_counts_for_each_write_or_for_one(
    spark: SparkSession, table: str, rows: Rows, conf: Callable[[str, str], None]
) -> None:
    spark.range(1).write.format("delta").save(table)
    conf("write.txnAppId", "job")
    conf("write.txnVersion", "7")
    for _ in range(2):
        spark.range(1).write.format("delta").mode("append").save(table)
    assert len(rows(table)) == 2
    conf("write.txnVersion.autoReset.enabled", "true")
    conf("write.txnVersion", "8")
    spark.range(1).write.format("delta").mode("append").save(table)
    assert spark.conf.get(PREFIX + "write.txnVersion", None) is None
    with pytest.raises(OptionError, match="go together"):
        spark.range(1).write.format("delta").mode("append").save(table)


def test_dynamic_overwrites_can_be_forbidden(
    spark: SparkSession, table: str, conf: Callable[[str, str], None]
) -> None:
    frame = spark.range(2).selectExpr("id", "id AS p")
    frame.write.format("delta").partitionBy("p").save(table)
    conf("dynamicPartitionOverwrite.enabled", "false")
    with pytest.raises(OptionError, match="forbids dynamic"):
        frame.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(table)


def test_records_per_file_and_data_change(spark: SparkSession, table: str, rows: Rows) -> None:
    spark.range(0, 10, 1, 1).write.format("delta").option("maxRecordsPerFile", 4).save(table)
    assert _files(table) == 3
    writer = spark.read.format("delta").load(table).repartition(1).write.format("delta").mode("overwrite")
    writer.option("dataChange", False).save(table)
    assert _files(table) == 1
    assert tidegate.open(table).files().column("dataChange").to_pylist() == [False]
    assert len(rows(table)) == 10


def test_rows_keep_their_ids_and_new_ones_get_their_own(spark: SparkSession, table: str) -> None:
    write(spark.range(0, 4, 1, 2), table, properties={"delta.enableRowTracking": "true"})
    write(spark.range(4, 8, 1, 2), table, mode="append")
    files = tidegate.open(table).files()
    spans = sorted(files.column("baseRowId").to_pylist())
    assert spans == [0, 2, 4, 6]
    assert sorted(files.column("defaultRowCommitVersion").to_pylist()) == [0, 0, 1, 1]
    replaced = spark.range(6, 7)
    replaced.write.format("delta").mode("overwrite").option("replaceWhere", "id = 6").save(table)
    from tidegate.spark.scan.positions import positioned

    found = positioned(spark, tidegate.open(table)).select("id", "__tidegate_row_id").collect()
    ids = {r[0]: r[1] for r in found}
    assert [ids[i] for i in (0, 1, 2, 3, 4, 5, 7)] == [0, 1, 2, 3, 4, 5, 7]
    assert ids[6] > 7


def test_a_stream_keeps_to_what_the_session_said_when_it_began(
    spark: SparkSession, table: str, tmp_path: Path, conf: Callable[[str, str], None]
) -> None:
    spark.range(1).coalesce(1).write.format("delta").save(table)
    source = tmp_path / "source"
    source.mkdir()
    rows = spark.readStream.schema("id long").json(str(source)).repartition(4)
    conf("optimizeWrite.enabled", "true")
    query = rows.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "c")).start(table)
    try:
        conf("optimizeWrite.enabled", "false")
        spark.range(20).coalesce(1).write.mode("append").json(str(source))
        query.processAllAvailable()
    finally:
        query.stop()
    assert _files(table) == 2
