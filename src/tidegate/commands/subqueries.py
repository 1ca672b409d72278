"""Values that hold a subquery, on Spark Connect: the Delta tables in it are replaced by scans.

A classic session's analyser plans such tables itself. A server knows none of them; there the texts of values
are read as queries are. How that is done stands above (``sql.remote``), so it is handed in by the doors.
Without it a subquery reads what the server itself knows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pyspark.sql import Column, SparkSession

from tidegate.spark.expressions import as_column
from tidegate.spark.jvm import is_connect
from tidegate.spark.remote_columns import with_tables

# From the text of a value to one that the server understands, and the tables read in it as they are now.
Reader = Callable[[str], tuple[str, Collection[str]]]
_readers: list[Callable[[SparkSession], Reader | None]] = []


def serve(reader_of: Callable[[SparkSession], Reader | None]) -> None:
    """Read the values of commands by what ``reader_of`` gives for their session, None for none."""
    _readers[:] = [reader_of]


def as_columns(spark: SparkSession, values: Sequence[str | Column]) -> list[Column]:
    """The values of one command as columns, over tables in the version that they have now."""
    columns = [as_column(v) for v in values]
    read = _readers[0](spark) if _readers and is_connect(spark) else None
    return columns if read is None else [with_tables(c, read) for c in columns]
