"""Views of tables at paths: a name that means the newest version whenever a query is analysed.

A temporary view holds a plan of one version, so every scan of one query sees that version; before the
next query is analysed the plan is replaced if the table has moved on. A view that was dropped or
replaced by somebody else is let go.
"""

from __future__ import annotations

import threading
import weakref
from os import PathLike

from pyspark.sql import DataFrame, SparkSession

from tidegate.commands import catalog
from tidegate.errors import NotATableError
from tidegate.log.table_log import TableLog
from tidegate.spark.catalog import holds_view

_lock = threading.Lock()
_views: weakref.WeakKeyDictionary[SparkSession, dict[str, tuple[str, DataFrame]]] = (
    weakref.WeakKeyDictionary()
)


def view(spark: SparkSession, name: str, path: str | PathLike[str]) -> DataFrame:
    """Make ``name`` a temporary view of the table at ``path``, always at its newest version; returns it."""
    location = TableLog.at(path).url
    frame = catalog.current(spark, location)
    frame.createOrReplaceTempView(name)
    with _lock:
        _views.setdefault(spark, {})[name] = (location, frame)
    return frame


def held(spark: SparkSession, name: str) -> tuple[str, DataFrame] | None:
    """Where the table behind a view of ours is, and its rows as of the last look; None if it is none."""
    known = _views.get(spark) or {}
    return next((found for key, found in known.items() if key.lower() == name.lower()), None)


def refresh(spark: SparkSession) -> None:
    """Bring the session's views to the versions that their tables have now."""
    known = _views.get(spark)
    if not known:
        return
    with _lock:
        for name, (location, before) in list(known.items()):
            try:
                frame = catalog.current(spark, location)
            except NotATableError:
                # Its table is gone. That is told by a query of the view, and by no other.
                continue
            if not holds_view(spark, name, before):
                del known[name]
                continue
            if frame is not before:
                frame.createOrReplaceTempView(name)
                known[name] = (location, frame)
