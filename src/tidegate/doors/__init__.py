"""The front doors: ``enable`` completes what a user's own Spark calls cannot do by themselves.

What is hooked, and why: PySpark's ``DataFrameReader`` and ``DataFrameWriter`` keep the chosen format
on the JVM side, where ``delta`` is unknown without JARs. Their ``format``, ``option(s)``, ``mode``,
``partitionBy``, ``load`` and ``save`` are wrapped once; for every session that is not enabled, and every
format that is not ours, a wrapper calls the original and nothing else.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter

from tidegate.commands.read import read
from tidegate.commands.write import write
from tidegate.errors import OptionError
from tidegate.spark.jvm import gateway_of, is_connect

FORMAT = "delta"
_DEFAULTS = "spark.databricks.delta.properties.defaults."

_contexts: weakref.WeakSet[Any] = weakref.WeakSet()
_originals: dict[tuple[type, str], Callable[..., Any]] = {}


def enable(spark: SparkSession) -> SparkSession:
    """Make ``format("delta")`` work in this session and in those derived from it; returns it."""
    if is_connect(spark):
        raise OptionError(
            "This release serves classic Spark sessions; Spark Connect comes with a later one.",
        )
    _refuse_jvm_delta(spark)
    _contexts.add(spark.sparkContext)
    _install()
    return spark


def disable(spark: SparkSession) -> None:
    """Take the session's enabling back."""
    _contexts.discard(spark.sparkContext)


def is_enabled(spark: SparkSession) -> bool:
    return not is_connect(spark) and spark.sparkContext in _contexts


def _refuse_jvm_delta(spark: SparkSession) -> None:
    """Two engines behind one name would shadow each other; the user decides which it is."""
    loader = gateway_of(spark).java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource("io/delta/sql/DeltaSparkSessionExtension.class") is not None:
        raise OptionError(
            "delta-spark's JARs are on this session's classpath, so format(\"delta\") is theirs.",
            hint="Start Spark without them to use Tidegate.",
        )


def _wrap(cls: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    key = (cls, name)
    if key not in _originals:
        original = _originals[key] = getattr(cls, name)
        setattr(cls, name, functools.wraps(original)(make(original)))


def _install() -> None:
    for cls in (DataFrameReader, DataFrameWriter):
        _wrap(cls, "format", _recording_format)
        _wrap(cls, "option", _recording_option)
        _wrap(cls, "options", _recording_options)
    _wrap(DataFrameReader, "load", _load)
    _wrap(DataFrameWriter, "mode", _recording_mode)
    _wrap(DataFrameWriter, "partitionBy", _recording_partitions)
    _wrap(DataFrameWriter, "save", _save)


def _notes(target: Any) -> dict[str, Any]:
    """What was said to a reader or writer so far, as far as we need it."""
    found = target.__dict__.setdefault("_tidegate", {"options": {}})
    assert isinstance(found, dict)
    return found


def _recording_format(original: Callable[..., Any]) -> Callable[..., Any]:
    def format(self: Any, source: str) -> Any:
        _notes(self)["format"] = source.lower()
        return original(self, source)

    return format


def _recording_option(original: Callable[..., Any]) -> Callable[..., Any]:
    def option(self: Any, key: str, value: Any) -> Any:
        _notes(self)["options"][key] = _text(value)
        return original(self, key, value)

    return option


def _recording_options(original: Callable[..., Any]) -> Callable[..., Any]:
    def options(self: Any, **given: Any) -> Any:
        _notes(self)["options"].update({k: _text(v) for k, v in given.items()})
        return original(self, **given)

    return options


def _recording_mode(original: Callable[..., Any]) -> Callable[..., Any]:
    def mode(self: Any, saveMode: str | None) -> Any:
        if saveMode:
            _notes(self)["mode"] = saveMode
        return original(self, saveMode)

    return mode


def _recording_partitions(original: Callable[..., Any]) -> Callable[..., Any]:
    def partitionBy(self: Any, *columns: Any) -> Any:
        names = columns[0] if len(columns) == 1 and isinstance(columns[0], list | tuple) else columns
        _notes(self)["partitions"] = list(names)
        return original(self, *columns)

    return partitionBy


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(
        self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> Any:
        notes = _notes(self)
        chosen = (format or notes.get("format") or "").lower()
        if chosen != FORMAT or not is_enabled(self._spark):
            return original(self, path, format, schema, **options)
        given = {**notes["options"], **{k: _text(v) for k, v in options.items()}}
        where = path or _path_of(given)
        if schema is not None or where is None or not isinstance(where, str):
            raise OptionError("A delta table is read from one path, and brings its own schema.")
        return read(self._spark, where, given)

    return load


def _save(original: Callable[..., Any]) -> Callable[..., Any]:
    def save(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> Any:
        notes = _notes(self)
        chosen = (format or notes.get("format") or "").lower()
        if chosen != FORMAT or not is_enabled(self._spark):
            return original(self, path, format, mode, partitionBy, **options)
        given = {**notes["options"], **{k: _text(v) for k, v in options.items()}}
        where = path or _path_of(given)
        if where is None:
            raise OptionError("There is no path to write to.", hint='Write .save("/path/of/the/table").')
        partitions = notes.get("partitions")
        if partitionBy is not None:
            partitions = [partitionBy] if isinstance(partitionBy, str) else list(partitionBy)
        write(
            _frame_of(self),
            where,
            mode=mode or notes.get("mode") or "error",
            partition_by=partitions,
            options=given,
            defaults=session_defaults(self._spark),
        )
        return None

    return save


def _frame_of(writer: Any) -> DataFrame:
    frame = writer._df
    assert isinstance(frame, DataFrame)
    return frame


def _path_of(options: dict[str, str]) -> str | None:
    return next((v for k, v in options.items() if k.lower() == "path"), None)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def session_defaults(spark: SparkSession) -> dict[str, str]:
    """The session's defaults for properties of new tables, under the properties' own keys."""
    found: dict[str, str] = {}
    for key, value in spark.conf.getAll.items():
        if key.startswith(_DEFAULTS):
            found["delta." + key[len(_DEFAULTS) :]] = value
    return found
