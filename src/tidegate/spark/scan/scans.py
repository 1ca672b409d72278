"""``scan``: a snapshot as a DataFrame, by whichever way the session and the place of the table allow.

The native way is Spark's own file index (classic sessions, places that Hadoop opens), the portable way
public API alone (Spark Connect, other places). What differs between them stands in one function of each:
``live_rows``. A predicate said beforehand prunes files on both; on the native way any filter does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import PredicateError
from tidegate.files.predicate import parse
from tidegate.log.snapshot import Snapshot
from tidegate.spark.scan import native
from tidegate.spark.scan.native import live_rows
from tidegate.spark.skipping import narrowing

__all__ = ["live_rows", "positioned", "scan"]


def scan(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table | None = None,
    *,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    follow: bool = False,
) -> DataFrame:
    """A snapshot (or some of its files) as a DataFrame of the table's columns.

    ``where`` (SQL) leaves out other rows, and on the portable way files that cannot hold any; with
    ``columns`` only those are read. With ``follow`` a stream that the DataFrame is part of sees the latest
    version with each batch.
    """
    needed = None if columns is None else set(columns)
    if where is not None:
        try:
            predicate = parse(where).resolve(snapshot.schema)
            if files is None:
                told = narrowing(spark, predicate, snapshot.partition_columns)
                files = snapshot.files(told, columns=native.FILE_COLUMNS)
            if needed is not None:
                needed = needed | {c[0] for c in predicate.columns} if predicate.is_known else None
        except PredicateError:
            # Spark understands more than skipping does; then every file and column is looked at.
            needed = None
    frame = native.scan(spark, snapshot, files, needed, follow=follow)
    if where is not None:
        frame = frame.where(where)
    return frame if columns is None else frame.select(*(_quoted(c) for c in columns))


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def positioned(spark: SparkSession, snapshot: Snapshot, files: pa.Table | None = None) -> DataFrame:
    """The rows with the places they come from, by public API where it must be."""
    from tidegate.spark.scan import positions
    from tidegate.spark.scan.widening import by_stored_type, narrow_decimals

    listed = files if files is not None else snapshot.files(columns=positions.FILE_COLUMNS)
    layout = native.layout_of(spark, snapshot)
    given = positions._with_constants(listed, layout, list(range(listed.num_rows)))
    ways = by_stored_type(snapshot, layout, given) if narrow_decimals(layout) else [(layout, given)]
    frames = [
        positions.placed_rows(native.FilePlanner(spark, snapshot, positions._extended(way), some), way)
        for way, some in ways or [(layout, given)]
    ]
    return reduce(DataFrame.unionAll, frames).drop(positions.NUMBER, positions.PLACE)
