"""Statistics of files that Spark wrote itself: measured afterwards, in the driver or by tasks.

The common case costs a footer for each file. What footers do not tell is read, only in the files and the
columns that lack it; executors do it where that is much.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tidegate.metadata import Metadata
from tidegate.spark.carried import carried
from tidegate.spark.places import Place
from tidegate.spark.write import bounds, footers
from tidegate.spark.write.bounds import Column
from tidegate.spark.write.statistics import as_table, columns_for_tasks, string_length

_log = logging.getLogger("tidegate.spark.write")
_THREADS = 8
# Beyond so many files, or so many bytes to read where footers do not tell, executors do it.
MANY_FILES = 500
MANY_BYTES = 32 << 20


def measured(spark: SparkSession, place: Place, names: Sequence[str], metadata: Metadata) -> pa.Table:
    """What is to be known of files below ``place``, in their order: a row each, as tasks send it.

    Footers are read here, unless there are many files. Columns whose footers do not tell are read here
    while they are small; otherwise tasks read them, each the columns of its own files.
    """
    columns = columns_for_tasks(metadata)
    length = string_length(metadata)
    if len(names) <= MANY_FILES:
        with ThreadPoolExecutor(_THREADS) as pool:
            opened = list(pool.map(lambda n: pq.ParquetFile(place.open_input(n)), names))
            found = [footers.of_footer(f.metadata, columns) for f in opened]
            if sum(f.bytes for f in found) <= MANY_BYTES:
                rows = pool.map(
                    lambda file, footer: footers.completed(file, footer, columns, length), opened, found
                )
                return as_table(list(rows), columns)
    return as_table(_by_tasks(spark, place, names, columns, length), columns)


def _by_tasks(
    spark: SparkSession, place: Place, names: Sequence[str], columns: tuple[Column, ...], length: int
) -> list[dict[str, Any]]:
    work = footers.measuring(place, columns, length)
    context = spark.sparkContext
    tasks = min(len(names), 4 * context.defaultParallelism)
    _log.debug("%r: %d tasks read the statistics of %d files", place, tasks, len(names))
    try:
        rows = context.parallelize(list(names), tasks).mapPartitions(work).collect()
    except Exception:
        # The data is written and whole: executors without pyarrow are no reason to lose it.
        _log.warning("Tasks could not read the statistics of files; the driver does.", exc_info=True)
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(lambda n: next(iter(work([n]))), names))
    by_name = {row["path"]: row for row in rows}
    return [by_name[name] for name in names]


# Executors need not have this package: these modules travel with the task.
carried(bounds, footers)
