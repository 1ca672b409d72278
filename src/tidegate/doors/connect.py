"""Spark Connect: the same doors on the client's own classes, and everything by the portable way.

What is hooked: the readers and writers of ``pyspark.sql.connect`` as ``batch`` and ``streams`` say, and the
two ways to derive a session, so that a derived one is enabled too. The client reads and writes the log,
the server's executors read and write data files: both must reach the table. No Py4J is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.doors import batch, catalog, statements, streams
from tidegate.doors.hooks import is_enabled, mark, wrap


def install() -> None:
    """Hang the doors of Spark Connect."""
    from pyspark.sql.connect.catalog import Catalog
    from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.connect.streaming.query import StreamingQuery
    from pyspark.sql.connect.streaming.readwriter import DataStreamReader, DataStreamWriter

    batch.install(DataFrameReader, DataFrameWriter)
    catalog.install(DataFrameReader, DataFrameWriter, DataFrameWriterV2, SparkSession, Catalog)
    streams.install(DataStreamReader, DataStreamWriter, StreamingQuery)
    statements.install(SparkSession)
    for name in ("newSession", "cloneSession"):
        if hasattr(SparkSession, name):
            wrap(SparkSession, name, _derived)


def _derived(original: Callable[..., Any]) -> Callable[..., Any]:
    def derived(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        if is_enabled(self):
            mark(made)
        return made

    return derived
