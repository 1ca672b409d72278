"""``spark.sql`` with Delta's statements.

Hooked is ``SparkSession.sql``, since stock Spark has no way to add statements without a JAR. What is
not ours reaches the original with the text and the arguments it was called with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from tidegate.commands.views import refresh
from tidegate.doors.hooks import is_enabled, wrap
from tidegate.sql.run import run


def install(cls: type = SparkSession) -> None:
    """Hang the door of SQL."""
    wrap(cls, "sql", _sql)


def _sql(original: Callable[..., Any]) -> Callable[..., Any]:
    def sql(self: Any, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:
        # A text with ``{frames}`` to be filled in is Spark's to read first.
        if is_enabled(self):
            refresh(self)
        if kwargs or not isinstance(sqlQuery, str) or not is_enabled(self):
            return original(self, sqlQuery, args, **kwargs)

        def spark_sql(*what: Any) -> Any:
            return original(self, *what)

        return run(self, spark_sql, sqlQuery, args)

    return sql
