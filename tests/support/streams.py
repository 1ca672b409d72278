"""Running a stream to its end, and collecting what each of its batches brought."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

# What runs on a server travels to it: nothing of the tests is installed there.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

# No batch of these tests takes this long; a stream that hangs fails instead.
PATIENCE = 120


class Collected:
    """The rows of each batch, as tuples, in order.

    They are kept in files: on Connect a batch is handed to a copy of this object in another process.
    """

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="tidegate-batches-")
        weakref.finalize(self, shutil.rmtree, self._folder, True)

    def __call__(self, frame: DataFrame, number: int) -> None:
        rows = sorted(tuple(r) for r in frame.collect())
        at = len(os.listdir(self._folder))
        Path(self._folder, f"{at:06d}").write_bytes(pickle.dumps(rows))

    @property
    def batches(self) -> list[list[tuple[Any, ...]]]:
        return [pickle.loads(p.read_bytes()) for p in sorted(Path(self._folder).iterdir())]

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
