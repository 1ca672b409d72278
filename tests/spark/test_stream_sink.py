"""``df.writeStream.format("delta")``: every batch of a query becomes one commit, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from support.streams import PATIENCE, into, source
from tidegate.errors import InvariantViolationException, OptionError, SchemaInvalidError, TidegateError
from tidegate.log.history import history
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.table.delta import DeltaTable

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> str:
    """A table with three files of one row each, to stream from: 0, 1 and 2, and p, which is 0 or 1."""
    path = str(tmp_path / "numbers")
    frame = spark.range(0, 3, 1, 3).withColumn("p", F.col("id") % 2)
    frame.write.format("delta").save(path)
    return path


def _add(spark: SparkSession, numbers: str, *values: int) -> None:
    frame = spark.createDataFrame([(v, v % 2) for v in values], "id long, p long")
    frame.write.format("delta").mode("append").save(numbers)


def _entries(path: str) -> list[dict[str, Any]]:
    """The history, oldest first."""
    log = TableLog.at(path)
    return history(log, tidegate.open(path).version)[::-1]


def test_each_batch_becomes_a_commit_that_names_its_query(
    spark: SparkSession, table: str, checkpoint: str, numbers: str, rows: Rows
) -> None:
    query = into(source(spark, numbers, maxFilesPerTrigger=2), table, checkpoint)
    assert rows(table) == [(0, 0), (1, 1), (2, 0)]
    entries = _entries(table)
    assert [e["operation"] for e in entries] == ["STREAMING UPDATE"] * 2
    assert [e["operationParameters"]["epochId"] for e in entries] == ["0", "1"]
    assert entries[0]["operationParameters"]["outputMode"] == "Append"
    assert tidegate.open(table).transactions[query.id].version == 1
    assert [f for f in verify(TableLog.at(table), deep=True).findings if f.severity == "error"] == []


def test_a_query_goes_on_where_it_stopped(
    spark: SparkSession, table: str, checkpoint: str, numbers: str, rows: Rows
) -> None:
    first = into(source(spark, numbers), table, checkpoint)
    _add(spark, numbers, 7)
    then = into(source(spark, numbers), table, checkpoint)
    assert rows(table) == [(0, 0), (1, 1), (2, 0), (7, 1)]
    assert first.id == then.id


def test_a_batch_that_was_written_before_a_crash_is_not_written_again(
    spark: SparkSession, table: str, checkpoint: str, numbers: str, rows: Rows
) -> None:
    into(source(spark, numbers), table, checkpoint)
    # What a crash between our commit and Spark's own note of it leaves behind.
    for name in ("0", ".0.crc"):
        (Path(checkpoint) / "commits" / name).unlink()
    _add(spark, numbers, 7)
    into(source(spark, numbers), table, checkpoint)
    assert rows(table) == [(0, 0), (1, 1), (2, 0), (7, 1)]
    assert [e["operationParameters"]["epochId"] for e in _entries(table)] == ["0", "1"]


def test_two_queries_into_one_table_do_not_stand_in_for_each_other(
    spark: SparkSession, table: str, tmp_path: Path, numbers: str, rows: Rows
) -> None:
    into(source(spark, numbers), table, str(tmp_path / "one"))
    into(source(spark, numbers), table, str(tmp_path / "other"))
    assert rows(table) == [(0, 0), (0, 0), (1, 1), (1, 1), (2, 0), (2, 0)]


def test_complete_mode_replaces_the_rows_with_each_batch(
    spark: SparkSession, table: str, checkpoint: str, numbers: str, rows: Rows
) -> None:
    counts = source(spark, numbers).groupBy("p").count()
    into(counts, table, checkpoint, "complete")
    assert rows(table) == [(0, 2), (1, 1)]
    _add(spark, numbers, 4)
    into(source(spark, numbers).groupBy("p").count(), table, checkpoint, "complete")
    assert rows(table) == [(0, 3), (1, 1)]
    assert _entries(table)[-1]["operationParameters"]["outputMode"] == "Complete"


def test_a_stream_partitions_the_table_it_makes(
    spark: SparkSession, table: str, checkpoint: str, numbers: str, rows: Rows
) -> None:
    writer = source(spark, numbers).writeStream.partitionBy("p").format("delta")
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    assert writer.start(table).awaitTermination(PATIENCE)
    assert tidegate.open(table).partition_columns == ("p",)
    assert rows(table, "p = 0") == [(0, 0), (2, 0)]
    again = source(spark, numbers).writeStream.format("delta").option("checkpointLocation", checkpoint)
    with pytest.raises(OptionError, match="partitioned by p"):
        again.start(table, partitionBy="id")


def test_a_stream_clusters_the_table_it_makes(
    spark: SparkSession, table: str, checkpoint: str, numbers: str
) -> None:
    writer = source(spark, numbers).writeStream.format("delta").clusterBy("id")
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    assert writer.start(table).awaitTermination(PATIENCE)
    assert "delta.clustering" in tidegate.open(table).domains


def test_new_columns_come_in_with_merge_schema_alone(
    spark: SparkSession, table: str, tmp_path: Path, numbers: str, rows: Rows
) -> None:
    spark.range(9, 10).write.format("delta").save(table)
    with pytest.raises(SchemaInvalidError):
        into(source(spark, numbers), table, str(tmp_path / "refused"))
    assert tidegate.open(table).version == 0
    into(source(spark, numbers), table, str(tmp_path / "merged"), mergeSchema=True)
    assert rows(table, "p is not null") == [(0, 0), (1, 1), (2, 0)]


def test_a_broken_constraint_ends_the_query_by_name_and_the_table_stays(
    spark: SparkSession, table: str, checkpoint: str, numbers: str, rows: Rows
) -> None:
    _add(spark, table, 8)
    transaction = tidegate.Transaction.begin(table)
    checked = {"delta.constraints.big": "id > 5"}
    transaction.update_metadata(transaction.metadata.with_configuration(checked))
    transaction.commit(operation="ADD CONSTRAINT")
    writer = source(spark, numbers).writeStream.format("delta").option("checkpointLocation", checkpoint)
    query = writer.start(table)
    with pytest.raises(InvariantViolationException, match="big") as caught:
        query.awaitTermination(PATIENCE)
    kept = query.exception()
    assert isinstance(kept, TidegateError)
    assert kept.code == caught.value.code == "CONSTRAINT_VIOLATED"
    assert rows(table) == [(8, 0)]


def test_a_function_for_batches_reads_writes_and_merges_as_ever(
    spark: SparkSession, table: str, checkpoint: str, numbers: str, rows: Rows
) -> None:
    """The session of a batch is another object than the one that was enabled."""
    _add(spark, table, 0, 2)
    copy = table + "-copy"

    def upsert(batch: DataFrame, number: int) -> None:
        assert batch.sparkSession is not spark
        new = batch.withColumn("p", F.col("p") + 100)
        target = DeltaTable.forPath(batch.sparkSession, table).alias("t")
        merge = target.merge(new.alias("s"), "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        current = batch.sparkSession.read.format("delta").load(table)
        writer = current.write.format("delta").mode("overwrite")
        writer.option("txnAppId", "copy").option("txnVersion", number).save(copy)

    writer = source(spark, numbers).writeStream.foreachBatch(upsert).option("checkpointLocation", checkpoint)
    assert writer.trigger(availableNow=True).start().awaitTermination(PATIENCE)
    assert rows(table) == rows(copy) == [(0, 100), (1, 101), (2, 100)]


def test_an_error_in_a_function_for_batches_keeps_its_kind(
    spark: SparkSession, table: str, checkpoint: str, numbers: str
) -> None:
    def wrong(batch: DataFrame, _: int) -> None:
        batch.write.format("delta").option("mergeSchem", "true").save(table)

    writer = source(spark, numbers).writeStream.foreachBatch(wrong).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(OptionError, match="mergeSchema"):
        query.awaitTermination(PATIENCE)


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    yield "stream_sink_table"
    spark.sql("DROP TABLE IF EXISTS stream_sink_table")


def test_a_table_is_streamed_by_name_in_and_out(
    spark: SparkSession, name: str, tmp_path: Path, numbers: str, table: str, rows: Rows
) -> None:
    def into_name(checkpoint: str, **more: Any) -> Any:
        writer = source(spark, numbers).writeStream.option("checkpointLocation", checkpoint)
        return writer.trigger(availableNow=True).toTable(name, **more).awaitTermination(PATIENCE)

    assert into_name(str(tmp_path / "in"), format="delta", partitionBy=["p"])
    assert sorted(r.id for r in spark.table(name).collect()) == [0, 1, 2]
    _add(spark, numbers, 5)
    assert into_name(str(tmp_path / "in"))
    into(spark.readStream.table(name), table, str(tmp_path / "out"))
    assert rows(table) == [(0, 0), (1, 1), (2, 0), (5, 1)]


# ---------------------------------------------------------------------------- what is refused at once


def test_what_cannot_be_written_is_refused_before_the_query_starts(
    spark: SparkSession, table: str, checkpoint: str, numbers: str
) -> None:
    def writer() -> Any:
        return source(spark, numbers).writeStream.format("delta")

    with pytest.raises(OptionError, match="checkpointLocation"):
        writer().start(table)
    with pytest.raises(OptionError, match="update"):
        writer().outputMode("update").option("checkpointLocation", checkpoint).start(table)
    with pytest.raises(OptionError, match="mergeSchema"):
        writer().option("mergeSchma", "true").option("checkpointLocation", checkpoint).start(table)
    with pytest.raises(OptionError, match="txnAppId"):
        writer().option("txnAppId", "x").option("checkpointLocation", checkpoint).start(table)
    with pytest.raises(OptionError, match="path"):
        writer().option("checkpointLocation", checkpoint).start()
    assert not Path(table).exists()
    assert spark.streams.active == []


def test_streams_of_other_formats_are_left_alone(
    spark: SparkSession, tmp_path: Path, checkpoint: str, numbers: str
) -> None:
    out = str(tmp_path / "parquet")
    writer = source(spark, numbers).writeStream.format("parquet").partitionBy("p")
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    assert writer.start(out).awaitTermination(PATIENCE)
    assert sorted(p.name for p in Path(out).glob("p=*")) == ["p=0", "p=1"]
