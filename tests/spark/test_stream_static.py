"""A batch table beside a stream: read anew with each batch, pinned everywhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from support.streams import PATIENCE, Collected, source
from tidegate.errors import StreamSchemaChangedError

pytestmark = pytest.mark.spark


@pytest.fixture
def prices(spark: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "prices")
    spark.createDataFrame([(1, "one")], "id long, price string").write.format("delta").save(path)
    return path


def _put(spark: SparkSession, path: str, number: int, price: str) -> None:
    frame = spark.createDataFrame([(number, price)], "id long, price string")
    frame.write.format("delta").mode("append").save(path)


class Running:
    """A stream of ids, joined with a batch table, that is let on by adding ids to its source."""

    def __init__(self, spark: SparkSession, ids: str, joined: Any, checkpoint: str) -> None:
        self.spark, self.ids = spark, ids
        self.out = Collected()
        spark.range(1, 2).write.format("delta").save(ids)
        writer = joined(source(spark, ids)).writeStream.foreachBatch(self.out)
        self.query = writer.option("checkpointLocation", checkpoint).start()

    def add(self, number: int) -> list[tuple[Any, ...]]:
        """The rows of the batch that the id makes."""
        self.spark.range(number, number + 1).write.format("delta").mode("append").save(self.ids)
        self.query.processAllAvailable()
        return self.out.batches[-1]


def test_a_stream_sees_the_latest_of_the_table_it_is_joined_with(
    spark: SparkSession, tmp_path: Path, prices: str
) -> None:
    latest = spark.read.format("delta").load(prices)
    first = spark.read.format("delta").option("versionAsOf", 0).load(prices).withColumnRenamed("price", "old")

    def joined(ids: DataFrame) -> DataFrame:
        return ids.join(latest, "id", "left").join(F.broadcast(first), "id", "left")

    running = Running(spark, str(tmp_path / "ids"), joined, str(tmp_path / "checkpoint"))
    try:
        running.query.processAllAvailable()
        assert running.out.batches[-1] == [(1, "one", "one")]
        _put(spark, prices, 2, "two")
        assert running.add(2) == [(2, "two", None)]
        assert latest.count() == 1, "outside of the stream the DataFrame stays at its version"
        more = spark.createDataFrame([(3, "three", True)], "id long, price string, more boolean")
        more.write.format("delta").mode("append").option("mergeSchema", "true").save(prices)
        assert running.add(3) == [(3, "three", None)]
        other = spark.createDataFrame([(4, 4.0)], "id long, price double")
        other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(prices)
        with pytest.raises(StreamSchemaChangedError, match="price"):
            running.add(4)
    finally:
        running.query.stop()


def test_what_is_read_inside_a_batch_is_pinned(spark: SparkSession, tmp_path: Path, prices: str) -> None:
    seen: list[tuple[int, int]] = []

    def work(batch: DataFrame, _: int) -> None:
        before = batch.sparkSession.read.format("delta").load(prices)
        _put(batch.sparkSession, prices, 2, "two")
        seen.append((before.count(), batch.sparkSession.read.format("delta").load(prices).count()))

    ids = str(tmp_path / "ids")
    spark.range(1).write.format("delta").save(ids)
    writer = source(spark, ids).writeStream.foreachBatch(work)
    query = (
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    )
    assert query.awaitTermination(PATIENCE)
    assert seen == [(1, 2)]
