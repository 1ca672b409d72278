"""Work on its way to the executors: descriptions of splits as rows, results as Arrow.

What travels is pickled by reference: the executors have Tidegate, tantivy and pyarrow installed, as they
have PySpark. Storage options travel with the work and are never logged.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.index.work import Target

_BATCH = 10_000


def described(spark: SparkSession, targets: Sequence[Target], tasks: int) -> DataFrame:
    """One row for each group of targets."""
    groups = [list(targets[i::tasks]) for i in range(tasks)]
    rows = pa.table({"group": pa.array([pickle.dumps(g) for g in groups if g], pa.binary())})
    frame = spark.createDataFrame(rows, schema="group binary")
    return frame.repartition(tasks)


def working(work: Any) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow`` that does the work on every target of its rows."""
    payload = pickle.dumps(work)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        job = pickle.loads(payload)
        for batch in batches:
            for group in batch.column(0).to_pylist():
                for target in pickle.loads(group):
                    yield from job(target).to_batches(_BATCH)

    return run
