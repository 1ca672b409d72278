"""Spark Connect: the same doors on the client's own classes, and everything by the portable way.

What is hooked: the readers and writers of ``pyspark.sql.connect`` as ``batch``, ``catalog`` and ``streams``
say; the two ways to derive a session, so that a derived one is enabled too; and ``Catalog.listTables``, which
leaves out the views that stand in for tables in queries (``sql.remote``); and ``Catalog.getTable``, in which
Spark calls every table of a Python data source managed. The client reads and writes the
log, the server's executors read and write data files: both must reach the table. No Py4J is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.commands.catalog import entry_of
from tidegate.doors import batch, catalog, statements, streams
from tidegate.doors.hooks import is_enabled, mark, wrap
from tidegate.sql.remote import OWN_VIEWS


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
    wrap(Catalog, "listTables", _list_tables)
    wrap(Catalog, "getTable", _get_table)


def _derived(original: Callable[..., Any]) -> Callable[..., Any]:
    def derived(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        if is_enabled(self):
            mark(made)
        return made

    return derived


def _list_tables(original: Callable[..., Any]) -> Callable[..., Any]:
    def listTables(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        return [t for t in found if not (t.isTemporary and t.name.startswith(OWN_VIEWS))]

    return listTables


def _get_table(original: Callable[..., Any]) -> Callable[..., Any]:
    def getTable(self: Any, tableName: str) -> Any:
        found = original(self, tableName)
        entry = entry_of(self._sparkSession, tableName) if is_enabled(self._sparkSession) else None
        if entry is None or not entry.is_delta:
            return found
        return found._replace(tableType="MANAGED" if entry.managed else "EXTERNAL")

    return getTable
