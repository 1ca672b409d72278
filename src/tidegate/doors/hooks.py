"""How a door is hung: one method of PySpark replaced by a wrapper that knows the original.

Each wrapper is put in place when the first session is enabled, and goes when the last one is disabled. It
first asks whether the session at hand is enabled; if not, it calls the original and does nothing else, so
that sessions beside an enabled one stay as PySpark made them. Our errors leave every door as Spark's own
kinds too.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.spark import failures
from tidegate.spark.analysis import door
from tidegate.spark.jvm import is_connect
from tidegate.spark.session_ids import session_id, session_of_stream

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]
Concerns = Callable[[Any], bool]

# By the id of a session: what lives as long as it does.
_enabled: dict[str, weakref.ref[Any]] = {}
# Sessions that share the enabling of another, which they were derived from.
_shares: dict[str, str] = {}
# What stood there before, what stands there now, and whether the class had the method itself.
_hung: dict[tuple[type, str], tuple[Callable[..., Any], Callable[..., Any], bool]] = {}


def mark(spark: SparkSession) -> None:
    """From here on the session, and those derived from it, are enabled."""
    key = session_id(spark)
    _shares.pop(key, None)
    _enabled[key] = weakref.ref(spark.client if is_connect(spark) else spark.sparkContext)


def derive(made: SparkSession, origin: SparkSession) -> bool:
    """Let a session that was made from another share its enabling; False if there is none to share."""
    key, of = session_id(made), session_id(origin)
    of = _shares.get(of, of)
    if of in _enabled and key not in _enabled:
        _shares[key] = of
    return of in _enabled


def unmark(spark: SparkSession) -> None:
    """The session, and those that share with it, are as PySpark made them; with the last one PySpark is.

    What was derived from it is remembered, and is enabled again when it is.
    """
    key = session_id(spark)
    _shares.pop(key, None)
    _enabled.pop(key, None)
    for over in [other for other, held in _enabled.items() if _is_over(held())]:
        del _enabled[over]
        for derived in [d for d, of in _shares.items() if of == over]:
            del _shares[derived]
    if not _enabled:
        _take_down()
        failures.step_back()


def _is_over(holder: Any) -> bool:
    """Whether a session's context or client is gone, or a context has been stopped."""
    return holder is None or getattr(holder, "_jsc", holder) is None


def is_enabled(spark: SparkSession) -> bool:
    return bool(_enabled) and _is_known(session_id(spark))


def _is_known(key: str) -> bool:
    return _shares.get(key, key) in _enabled


def _concerns(target: Any) -> bool:
    """Whether the session of a reader, a writer, a catalog, a stream or the session itself is enabled."""
    if not _enabled:
        return False
    if hasattr(target, "_jsq"):
        return _is_known(session_of_stream(target))
    if hasattr(target, "newSession"):
        return is_enabled(target)
    held = ("_sparkSession", "_spark", "_session", "_client")
    return is_enabled(next(found for name in held if (found := getattr(target, name, None)) is not None))


def wrap(cls: type, name: str, make: Wrapper, concerns: Concerns = _concerns) -> None:
    """Replace a method by what ``make`` builds around it; a second time does nothing.

    ``concerns`` says of an object whether its call is for us.
    """
    key = (cls, name)
    if key not in _hung:
        original = getattr(cls, name)
        ours = _gated(original, door(make(original)), concerns)
        _hung[key] = (original, ours, name in vars(cls))
        setattr(cls, name, ours)


def _gated(original: Callable[..., Any], ours: Callable[..., Any], concerns: Concerns) -> Callable[..., Any]:
    """``ours`` for enabled sessions; what is being made knows its session afterwards, and asks itself."""
    if original.__name__ == "__init__":
        return functools.wraps(original)(ours)

    @functools.wraps(original)
    def hung(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (ours if concerns(self) else original)(self, *args, **kwargs)

    return hung


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
        made = original(self, source)
        notes(self)["format"] = source.lower()
        return made

    return format


def noting_schema(original: Callable[..., Any]) -> Callable[..., Any]:
    """``schema`` of a reader: a table brings its own."""

    def schema(self: Any, schema: Any) -> Any:
        made = original(self, schema)
        notes(self)["schema"] = schema
        return made

    return schema


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
