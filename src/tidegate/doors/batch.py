"""``spark.read`` and ``df.write`` with ``format("delta")``.

PySpark's ``DataFrameReader`` and ``DataFrameWriter`` keep the chosen format on the JVM side, where
``delta`` is unknown without JARs. So what is said to them is noted beside, and ``load`` and ``save``
are answered here when the format is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter

from tidegate.commands.read import read
from tidegate.commands.write import write
from tidegate.doors.hooks import frame_of, is_enabled, names_of, notes, noting_schema, session_of, wrap
from tidegate.doors.said import format_of, option, options_of, partitions_of, take_notes
from tidegate.errors import OptionError
from tidegate.spark.confs import session_defaults

FORMAT = "delta"
Reading = Callable[[Any, str, dict[str, str]], Any]
Writing = Callable[[Any, str, str, "list[str] | None", dict[str, str]], Any]


def _write_delta(
    frame: Any, where: str, mode: str, partitions: list[str] | None, options: dict[str, str]
) -> Any:
    defaults = session_defaults(frame.sparkSession)
    return write(frame, where, mode=mode, partition_by=partitions, options=options, defaults=defaults)


_readers: dict[str, Reading] = {FORMAT: read}
_writers: dict[str, Writing] = {FORMAT: _write_delta}


def serve(name: str, reading: Reading, writing: Writing) -> None:
    """Answer for one more format."""
    _readers[name], _writers[name] = reading, writing


def install(reader: type = DataFrameReader, writer: type = DataFrameWriter) -> None:
    """Hang the doors of batch reading and writing: on the classic classes, or on those of Spark Connect."""
    take_notes(reader, writer)
    wrap(reader, "schema", noting_schema)
    wrap(reader, "load", _load)
    wrap(writer, "mode", _recording_mode)
    wrap(writer, "partitionBy", _recording_partitions)
    wrap(writer, "save", _save)


def _recording_mode(original: Callable[..., Any]) -> Callable[..., Any]:
    def mode(self: Any, saveMode: str | None) -> Any:
        if saveMode:
            notes(self)["mode"] = saveMode
        return original(self, saveMode)

    return mode


def _recording_partitions(original: Callable[..., Any]) -> Callable[..., Any]:
    def partitionBy(self: Any, *columns: Any) -> Any:
        notes(self)["partitions"] = names_of(columns)
        return original(self, *columns)

    return partitionBy


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(
        self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> Any:
        chosen, spark = format_of(self, format), session_of(self)
        if chosen not in _readers or not is_enabled(spark):
            return original(self, path, format, schema, **options)
        given = options_of(self, options)
        where = path or option(given, "path")
        if schema is not None or "schema" in notes(self) or not isinstance(where, str):
            raise OptionError(
                f"A table of {chosen} is read from one path, and brings its own schema.",
                hint="Leave .schema(...) away, and cast what is read.",
            )
        return _readers[chosen](spark, where, given)

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
        chosen, spark = format_of(self, format), session_of(self)
        if chosen not in _writers or not is_enabled(spark):
            return original(self, path, format, mode, partitionBy, **options)
        given = options_of(self, options)
        where = path or option(given, "path")
        if where is None:
            raise OptionError("There is no path to write to.", hint='Write .save("/path/of/the/table").')
        chosen_mode = mode or notes(self).get("mode") or "error"
        _writers[chosen](frame_of(self), where, chosen_mode, partitions_of(self, partitionBy), given)
        return None

    return save
