"""Deletion vectors on their way into a scan: per file one bitmap, tested row by row in Spark.

A vector travels to the tasks as a constant of its file: a binary with one bit per row, seven to the
byte. Seven, because a byte below 128 is a character of its own, and ``ascii`` of one character is
the cheapest way that Spark's public functions have from bytes to a number. No join, no shuffle,
and only the vectors of files that survived pruning are ever read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidegate.errors import StorageError, TidegateError
from tidegate.files import vector_files
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.log.table_log import TableLog

COLUMN = "__tidegate_deleted"
_BITS = 7
_THREADS = 8


def packed(rows: Iterable[int]) -> bytes:
    """A bitmap of deleted rows, seven to the byte, up to the last row that is deleted."""
    positions = np.fromiter(rows, dtype=np.int64)
    if not len(positions):
        return b""
    size = int(positions[-1]) // _BITS + 1
    flags = np.zeros(size * _BITS, dtype=np.uint8)
    flags[positions] = 1
    weights = (1 << np.arange(_BITS, dtype=np.uint8)).astype(np.uint8)
    packed_bytes: bytes = (flags.reshape(size, _BITS) * weights).sum(axis=1, dtype=np.uint8).tobytes()
    return packed_bytes


def is_live(bitmap: Column, row_index: Column) -> Column:
    """Whether a row is not deleted. A file without a vector has a null bitmap, and all rows live."""
    byte = F.call_function(
        "substring", bitmap, F.call_function("div", row_index, F.lit(_BITS)).cast("int") + 1, F.lit(1)
    )
    place = (row_index % _BITS).cast("int")
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


def read_all(log: TableLog, vectors: Mapping[int, DeletionVector]) -> dict[int, bytes]:
    """The packed bitmap of each vector, by the caller's keys, read in parallel."""

    def read(item: tuple[int, DeletionVector]) -> tuple[int, bytes]:
        key, vector = item
        return key, packed(read_bitmap(log, vector))

    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(pool.map(read, vectors.items()))
