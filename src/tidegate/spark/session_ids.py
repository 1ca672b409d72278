"""What tells one session from another: of the JVM's sessions, of which PySpark may hold several objects."""

from __future__ import annotations

import weakref
from typing import Any

from pyspark.sql import SparkSession

from tidegate.spark.jvm import is_connect

_known: weakref.WeakKeyDictionary[SparkSession, str] = weakref.WeakKeyDictionary()


def session_id(spark: SparkSession) -> str:
    """The id of a session, the same for all objects that stand for it."""
    found = _known.get(spark)
    if found is None:
        other: Any = spark
        found = str(other.session_id if is_connect(spark) else spark._jsparkSession.sessionUUID())
        _known[spark] = found
    return found


def standing_for(key: str) -> SparkSession | None:
    """An object that stands for the session of that id; None if PySpark holds none any more."""
    return next((spark for spark, found in list(_known.items()) if found == key), None)


def session_of_stream(query: Any) -> str:
    """The id of the session that a running stream of a classic session was started in."""
    return str(query._jsq.sparkSession().sessionUUID())
