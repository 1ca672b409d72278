"""Running a stream to its end, and collecting what each of its batches brought."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

# No batch of these tests takes this long; a stream that hangs fails instead.
PATIENCE = 120


class Collected:
    """The rows of each batch, as tuples, in order."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[Any, ...]]] = []

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.batches.append(sorted(tuple(r) for r in frame.collect()))

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """All rows, sorted."""
        return sorted(r for batch in self.batches for r in batch)


def source(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.readStream.format("delta").options(**options).load(path)


def run(frame: DataFrame, checkpoint: str) -> Collected:
    """Everything that is there now, in as many batches as the limits of the source make."""
    out = Collected()
    writer = frame.writeStream.foreachBatch(out).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE), "the stream did not end"
    return out


def into(frame: DataFrame, path: str, checkpoint: str, mode: str = "append", **options: Any) -> Any:
    """Stream everything that is there now into the table at ``path``; the query, ended."""
    writer = frame.writeStream.format("delta").outputMode(mode).option("checkpointLocation", checkpoint)
    query = writer.options(**options).trigger(availableNow=True).start(path)
    assert query.awaitTermination(PATIENCE), "the stream did not end"
    return query
