"""How a door is hung: one method of PySpark replaced by a wrapper that knows the original.

Each wrapper is put in place once for the process. It first asks whether the session at hand is
enabled and the call is ours; if not, it calls the original and does nothing else. Our errors leave
every door as Spark's own kinds too.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from tidegate.spark.analysis import door
from tidegate.spark.jvm import is_connect

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]

_enabled: weakref.WeakSet[Any] = weakref.WeakSet()
_originals: dict[tuple[type, str], Callable[..., Any]] = {}


def _key(spark: SparkSession) -> Any:
    """What sessions derived from one another share: the context, or the client of a Connect session."""
    return spark.client if is_connect(spark) else spark.sparkContext


def mark(spark: SparkSession) -> None:
    """From here on the session, and those derived from it, are enabled."""
    _enabled.add(_key(spark))


def unmark(spark: SparkSession) -> None:
    _enabled.discard(_key(spark))


def is_enabled(spark: SparkSession) -> bool:
    return _key(spark) in _enabled


def wrap(cls: type, name: str, make: Wrapper) -> None:
    """Replace a method by what ``make`` builds around it; a second time does nothing."""
    key = (cls, name)
    if key not in _originals:
        original = _originals[key] = getattr(cls, name)
        setattr(cls, name, functools.wraps(original)(door(make(original))))


def notes(target: Any) -> dict[str, Any]:
    """What was said to a reader or writer so far, as far as we need it."""
    found = target.__dict__.setdefault("_tidegate", {"options": {}})
    assert isinstance(found, dict)
    return found


def text(value: Any) -> str:
    """An option's value as Spark would spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
