"""Work on its way to the executors and failures on their way back.

What travels is pickled by reference: the executors have Tidegate, tantivy and pyarrow installed, as they
have PySpark. Storage options and what the driver's environment says of object stores travel inside closures,
never in plans, options or logs. An error of ours that is raised in a task comes back as what it was, however
Spark wraps it.
"""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH = 10_000
_MARK = re.compile(r"TIDEGATE-INDEX\[([A-Za-z0-9+/=]+)\]")
Batches = Iterator[pa.RecordBatch]


class FailedInTask(Exception):
    """Raised in a task in place of one of our errors, which it carries."""


def carried(error: TidegateError) -> FailedInTask:
    """A stand-in for ``error`` that survives the way to the driver."""
    return FailedInTask(f"{error} TIDEGATE-INDEX[{base64.b64encode(pickle.dumps(error)).decode()}]")


def translated(text: str) -> TidegateError | None:
    """The error of ours in the text of a failure."""
    found = _MARK.search(text)
    if found is None:
        return None
    try:
        error = pickle.loads(base64.b64decode(found[1]))
    except Exception:
        return None
    return error if isinstance(error, TidegateError) else None


@contextmanager
def translating() -> Iterator[None]:
    """Run a job of Spark; what fails in its tasks for a reason of ours is raised as ours."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as e:
        ours = translated(str(e))
        if ours is None:
            raise
        raise ours from None


def task(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow`` whose errors of ours come back as such.

    It takes along what the driver's environment says of object stores: executors need no keys of their own.
    """
    from tidegate.spark.places import surrounded, surroundings

    environment = surroundings()

    def run(batches: Batches) -> Batches:
        with surrounded(environment):
            try:
                yield from function(batches)
            except TidegateError as e:
                raise carried(e) from None

    return run


def described(spark: SparkSession, targets: Sequence[Any], tasks: int) -> DataFrame:
    """One row for each group of targets."""
    groups = [list(targets[i::tasks]) for i in range(tasks)]
    rows = pa.table({"group": pa.array([pickle.dumps(g) for g in groups if g], pa.binary())})
    return spark.createDataFrame(rows, schema="group binary").repartition(tasks)


def working(work: Any) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that does the work on every target of its rows."""
    payload = pickle.dumps(work)

    def run(batches: Batches) -> Batches:
        job = pickle.loads(payload)
        for batch in batches:
            for group in batch.column(0).to_pylist():
                for target in pickle.loads(group):
                    yield from job(target).to_batches(_BATCH)

    return task(run)
