"""``spark.sql`` with Delta's statements.

Hooked is ``SparkSession.sql``, since stock Spark has no way to add statements without a JAR. What is
not ours reaches the original with the text and the arguments it was called with. ``Catalog.refreshTable`` is
hooked too, since Spark's own looks for an entry of its catalog in every scan, and ours have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.sql_formatter import SQLStringFormatter

from tidegate.commands.catalog import location_of
from tidegate.commands.views import refresh
from tidegate.doors.hooks import is_enabled, wrap
from tidegate.spark.jvm import is_connect
from tidegate.spark.scan.origins import newest_tables, noted
from tidegate.sql.run import run
from tidegate.sql.services import refresh_name


def install(cls: type = SparkSession) -> None:
    """Hang the door of SQL."""
    wrap(cls, "sql", _sql)
    if cls is SparkSession:
        wrap(Catalog, "refreshTable", _refresh_table)


def _refresh_table(original: Callable[..., Any]) -> Callable[..., Any]:
    def refreshTable(self: Any, tableName: str) -> Any:
        spark = self._sparkSession
        if not is_enabled(spark) or location_of(spark, tableName) is None:
            return original(self, tableName)
        return refresh_name(spark, tableName)

    return refreshTable


def _sql(original: Callable[..., Any]) -> Callable[..., Any]:
    def sql(self: Any, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:
        if not is_enabled(self) or not isinstance(sqlQuery, str):
            return original(self, sqlQuery, args, **kwargs)
        refresh(self)

        def spark_sql(*what: Any) -> Any:
            return original(self, *what)

        if not kwargs:
            return run(self, spark_sql, sqlQuery, args)
        if is_connect(self):
            return _with_frames(self, original, sqlQuery, args, kwargs)
        # As PySpark does it: frames become views for as long as the statement is read.
        formatter = SQLStringFormatter(self)
        try:
            return run(self, spark_sql, formatter.format(sqlQuery, **kwargs), args)
        finally:
            formatter.clear()

    return sql


def _with_frames(
    spark: Any, original: Callable[..., Any], text: str, args: Any, given: dict[str, Any]
) -> Any:
    """A text with frames in it, on Spark Connect: the client hands them to the server beside the text.

    Only PySpark knows how. So each has a name while we read the text, and is put back where it stood before
    the text, or a part of it, goes on.
    """
    from pyspark.sql.connect.sql_formatter import SQLStringFormatter as RemoteFormatter

    formatter = RemoteFormatter(spark)
    named = formatter.format(text, **given)
    frames = {name: frame for frame, name in formatter._temp_views}

    def spark_sql(part: str, parameters: Any = None) -> Any:
        held = {name: frame for name, frame in frames.items() if name in part}
        if held:
            part = part.replace("{", "{{").replace("}", "}}")
        for name in held:
            part = part.replace(name, "{" + name + "}")
        read = set().union(*map(newest_tables, held.values()))
        return noted(original(spark, part, parameters, **held), read)

    return run(spark, spark_sql, named, args)
