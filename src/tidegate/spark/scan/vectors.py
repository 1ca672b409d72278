"""Deletion vectors on their way into a scan: per file one bitmap, tested row by row in Spark.

A vector travels to the tasks as a constant of its file: a binary with one bit per row, seven to the
byte. Seven, because a byte below 128 is a character of its own, and ``ascii`` of one character is
the cheapest way that Spark's public functions have from bytes to a number. No join, no shuffle,
and only the vectors of files that survived pruning are ever read: by the driver while they are few, by
executors when they are many.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import StorageError, TidegateError
from tidegate.files import vector_files
from tidegate.files.deletion_vectors import ABSOLUTE, DeletionVector
from tidegate.log.table_log import TableLog
from tidegate.spark.carried import carried
from tidegate.spark.jvm import is_connect
from tidegate.spark.places import place_of
from tidegate.spark.scan import bitmaps
from tidegate.spark.scan.bitmaps import BITS, packed

__all__ = ["COLUMN", "is_live", "packed", "read_all", "read_bitmap"]

_log = logging.getLogger(__name__)
COLUMN = "__tidegate_deleted"
_THREADS = 8
# From so many vectors on, executors read them: then it is worth a job.
MANY_VECTORS = 200
_TASKS = 32
# Executors need not have this package: the module travels with the task.
carried(bitmaps)


def is_live(bitmap: Column, row_index: Column) -> Column:
    """Whether a row is not deleted. A file without a vector has a null bitmap, and all rows live."""
    byte = F.call_function(
        "substring", bitmap, F.call_function("div", row_index, F.lit(BITS)).cast("int") + 1, F.lit(1)
    )
    place = (row_index % BITS).cast("int")
    bit = F.call_function("shiftright", F.ascii(byte.cast("string")), place).bitwiseAND(F.lit(1))
    return bitmap.isNull() | (bit == 0)


def read_bitmap(log: TableLog, vector: DeletionVector) -> BitMap64:
    """The rows of one vector, checked."""
    try:
        return vector_files.read_bitmap(log.store, vector)
    except StorageError:
        raise
    except TidegateError as e:
        raise e.at(table=log.url) from None


def read_all(
    spark: SparkSession | None, log: TableLog, vectors: Mapping[int, DeletionVector]
) -> dict[int, bytes]:
    """The packed bitmap of each vector, by the caller's keys, read in parallel; without a session, here."""
    found: dict[int, bytes] = {}
    if spark is not None and len(vectors) >= MANY_VECTORS:
        found = _by_tasks(spark, log, vectors)

    def read(key: int) -> tuple[int, bytes]:
        return key, packed(read_bitmap(log, vectors[key]))

    with ThreadPoolExecutor(_THREADS) as pool:
        return {**found, **dict(pool.map(read, (k for k in vectors if k not in found)))}


def _by_tasks(spark: SparkSession, log: TableLog, vectors: Mapping[int, DeletionVector]) -> dict[int, bytes]:
    """What executors can read of the vectors; those at places of their own are left to the driver."""
    numbered = [(key, v) for key, v in vectors.items() if v.storage_type != ABSOLUTE]
    texts = pa.array([msgspec.json.encode(v).decode() for _, v in numbered], pa.string())
    listed = pa.table({"key": pa.array([key for key, _ in numbered], pa.int64()), "vector": texts})
    work = bitmaps.decoding(place_of(log.store))
    try:
        if is_connect(spark):
            frame = spark.createDataFrame(listed).repartition(_TASKS)
            answers = frame.mapInArrow(work, "key long, bits binary").toArrow()
        else:
            # A job of its own, not a query: Spark is in the middle of planning one.
            slices = listed.to_batches(max_chunksize=max(1, -(-listed.num_rows // _TASKS)))
            parts = spark.sparkContext.parallelize(slices, len(slices)).mapPartitions(work).collect()
            answers = pa.Table.from_batches(parts, bitmaps.ANSWER)
    except Exception:
        _log.warning("Tasks could not read deletion vectors; the driver does.", exc_info=True)
        return {}
    pairs = zip(answers.column(0).to_pylist(), answers.column(1).to_pylist(), strict=True)
    found = {key: bits for key, bits in pairs if bits is not None}
    _log.debug("%s: tasks read %d of %d deletion vectors", log.url, len(found), len(vectors))
    return found
