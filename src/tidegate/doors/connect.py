"""Spark Connect: the same doors on the client's own classes, and everything by the portable way.

What is hooked: the readers and writers of ``pyspark.sql.connect`` as ``batch``, ``catalog`` and ``streams``
say; filters of DataFrames; what makes temporary views of them, so that it is known what these show; the two
ways to derive a session, so that a derived one is enabled too; and in ``Catalog`` the calls for which the
server loads tables, since it must know their provider. ``listTables`` leaves out the views that stand in for
tables in queries (``sql.remote``), and ``getTable`` tells external tables from managed ones, which Spark does
not where a Python data source serves them. The client reads and writes the log, the server's executors read
and write data files: both must reach the table. No Py4J is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.commands import subqueries
from tidegate.commands.catalog import entry_of
from tidegate.doors import batch, catalog, filters, statements, streams
from tidegate.doors.hooks import derive, is_enabled, original, wrap
from tidegate.spark.remote_catalog import provided
from tidegate.sql import remote
from tidegate.sql.context import Context
from tidegate.sql.remote_views import OWN_VIEWS, remember


def install() -> None:
    """Hang the doors of Spark Connect."""
    from pyspark.sql.connect.catalog import Catalog
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.connect.streaming.query import StreamingQuery
    from pyspark.sql.connect.streaming.readwriter import DataStreamReader, DataStreamWriter

    batch.install(DataFrameReader, DataFrameWriter)
    catalog.install(DataFrameReader, DataFrameWriter, DataFrameWriterV2, SparkSession, Catalog)
    streams.install(DataStreamReader, DataStreamWriter, StreamingQuery)
    statements.install(SparkSession)
    filters.install(DataFrame)
    for name in ("newSession", "cloneSession"):
        if hasattr(SparkSession, name):
            wrap(SparkSession, name, _derived)
    wrap(Catalog, "listTables", _list_tables)
    wrap(Catalog, "getTable", _get_table)
    wrap(Catalog, "tableExists", _table_exists)
    for name in ("createTempView", "createOrReplaceTempView"):
        wrap(DataFrame, name, _makes_view, lambda frame: is_enabled(frame.sparkSession))
    subqueries.serve(_read_by)


def _derived(original: Callable[..., Any]) -> Callable[..., Any]:
    def derived(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        derive(made, self)
        return made

    return derived


def _makes_view(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(self: Any, name: str) -> Any:
        made = original(self, name)
        remember(self.sparkSession, name, self)
        return made

    return make


def _read_by(spark: Any) -> subqueries.Reader | None:
    """How the subqueries of one command's values are read; None if the session is not enabled."""
    if not is_enabled(spark):
        return None
    context = Context(spark, lambda *what: original(type(spark), "sql")(spark, *what))
    return lambda text: remote.value(context, text)


def _provided(names: Any, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call of the server's catalog, which may have to load tables of ours."""
    spark = names._sparkSession
    if not is_enabled(spark):
        return original(names, *args, **kwargs)
    return provided(spark, lambda: original(names, *args, **kwargs))


def _table_exists(original: Callable[..., Any]) -> Callable[..., Any]:
    def tableExists(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _provided(self, original, *args, **kwargs)

    return tableExists


def _list_tables(original: Callable[..., Any]) -> Callable[..., Any]:
    def listTables(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = _provided(self, original, *args, **kwargs)
        return [t for t in found if not (t.isTemporary and t.name.startswith(OWN_VIEWS))]

    return listTables


def _get_table(original: Callable[..., Any]) -> Callable[..., Any]:
    def getTable(self: Any, tableName: str) -> Any:
        found = _provided(self, original, tableName)
        entry = entry_of(self._sparkSession, tableName) if is_enabled(self._sparkSession) else None
        if entry is None or not entry.is_delta:
            return found
        return found._replace(tableType="MANAGED" if entry.managed else "EXTERNAL")

    return getTable
