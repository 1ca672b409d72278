"""How a door is hung: one method of PySpark replaced by a wrapper that knows the original.

Each wrapper is put in place when the first session is enabled, and goes when the last one is disabled. It
first asks whether the session at hand is enabled and the call is ours; if not, it calls the original and
does nothing else. Our errors leave every door as Spark's own kinds too.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.spark.analysis import door
from tidegate.spark.jvm import is_connect

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]

_enabled: weakref.WeakSet[Any] = weakref.WeakSet()
# What stood there before, what stands there now, and whether the class had the method itself.
_hung: dict[tuple[type, str], tuple[Callable[..., Any], Callable[..., Any], bool]] = {}


def _key(spark: SparkSession) -> Any:
    """What sessions derived from one another share: the context, or the client of a Connect session."""
    return spark.client if is_connect(spark) else spark.sparkContext


def mark(spark: SparkSession) -> None:
    """From here on the session, and those derived from it, are enabled."""
    _enabled.add(_key(spark))


def unmark(spark: SparkSession) -> None:
    """The session is as PySpark made it; with the last one PySpark itself is."""
    _enabled.discard(_key(spark))
    if not _enabled:
        _take_down()


def is_enabled(spark: SparkSession) -> bool:
    return _key(spark) in _enabled


def wrap(cls: type, name: str, make: Wrapper) -> None:
    """Replace a method by what ``make`` builds around it; a second time does nothing."""
    key = (cls, name)
    if key not in _hung:
        original = getattr(cls, name)
        ours = functools.wraps(original)(door(make(original)))
        _hung[key] = (original, ours, name in vars(cls))
        setattr(cls, name, ours)


def _take_down() -> None:
    """Put PySpark's methods back, except where somebody has replaced ours since."""
    for (cls, name), (original, ours, own) in list(_hung.items()):
        if vars(cls).get(name) is not ours:
            continue
        if own:
            setattr(cls, name, original)
        else:
            delattr(cls, name)
        del _hung[cls, name]


def original(cls: type, name: str) -> Callable[..., Any]:
    """The method as PySpark made it."""
    found = _hung.get((cls, name))
    return getattr(cls, name) if found is None else found[0]


def session_of(target: Any) -> Any:
    """The session of a reader or writer, classic or of Spark Connect."""
    found = getattr(target, "_spark", None)
    return target._client if found is None else found


def frame_of(writer: Any) -> DataFrame:
    """The DataFrame that a writer writes; on Spark Connect it holds the plan alone."""
    frame = writer._df
    if isinstance(frame, DataFrame):
        return frame
    from pyspark.sql.connect.dataframe import DataFrame as Remote

    return Remote(frame, writer._spark)


def notes(target: Any) -> dict[str, Any]:
    """What was said to a reader or writer so far, as far as we need it."""
    found = target.__dict__.setdefault("_tidegate", {"options": {}})
    assert isinstance(found, dict)
    return found


def text(value: Any) -> str:
    """An option's value as Spark would spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def noting_format(original: Callable[..., Any]) -> Callable[..., Any]:
    """``format``, which keeps what was chosen on the JVM's side alone."""

    def format(self: Any, source: str) -> Any:
        notes(self)["format"] = source.lower()
        return original(self, source)

    return format


def noting_option(original: Callable[..., Any]) -> Callable[..., Any]:
    def option(self: Any, key: str, value: Any) -> Any:
        notes(self)["options"][key] = text(value)
        return original(self, key, value)

    return option


def noting_options(original: Callable[..., Any]) -> Callable[..., Any]:
    def options(self: Any, **given: Any) -> Any:
        notes(self)["options"].update({k: text(v) for k, v in given.items()})
        return original(self, **given)

    return options


def names_of(columns: Any) -> list[str]:
    """Column names given one by one, as one list, or as a single name."""
    if isinstance(columns, str):
        return [columns]
    single = len(columns) == 1 and isinstance(columns[0], list | tuple)
    return list(columns[0] if single else columns)
