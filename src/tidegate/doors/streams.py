"""``spark.readStream`` and ``df.writeStream`` with ``format("delta")``.

As with batches, what is said to a reader or writer is noted beside, and ``load``, ``table``, ``start``
and ``toTable`` are answered here when the format is ours. A stream into a table is Spark's own
``foreachBatch`` over our write. ``partitionBy`` is held back until then, because Spark refuses it
together with ``foreachBatch``. ``foreachBatch`` itself is hooked so that an error of ours in a user's
function keeps its kind, and ``StreamingQuery.exception`` so that it is found there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from tidegate.commands.stream import batch_writer, check_sink, read_stream
from tidegate.doors.hooks import (
    is_enabled,
    names_of,
    notes,
    noting_format,
    noting_option,
    noting_options,
    text,
    wrap,
)
from tidegate.errors import OptionError, TidegateError
from tidegate.spark import failures
from tidegate.spark.confs import session_defaults

FORMAT = "delta"
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"


def install() -> None:
    """Hang the doors of streams."""
    for cls in (DataStreamReader, DataStreamWriter):
        wrap(cls, "format", noting_format)
        wrap(cls, "option", noting_option)
        wrap(cls, "options", noting_options)
    wrap(DataStreamReader, "schema", _noting_schema)
    wrap(DataStreamReader, "load", _load)
    wrap(DataStreamWriter, "outputMode", _noting_mode)
    wrap(DataStreamWriter, "partitionBy", _holding_partitions)
    wrap(DataStreamWriter, "clusterBy", _noting_clusters)
    wrap(DataStreamWriter, "foreachBatch", _foreach_batch)
    wrap(DataStreamWriter, "start", _start)
    wrap(StreamingQuery, "exception", _exception)


def _noting_schema(original: Callable[..., Any]) -> Callable[..., Any]:
    def schema(self: Any, schema: Any) -> Any:
        notes(self)["schema"] = schema
        return original(self, schema)

    return schema


def _noting_mode(original: Callable[..., Any]) -> Callable[..., Any]:
    def outputMode(self: Any, outputMode: str) -> Any:
        notes(self)["mode"] = outputMode
        return original(self, outputMode)

    return outputMode


def _holding_partitions(original: Callable[..., Any]) -> Callable[..., Any]:
    def partitionBy(self: Any, *cols: Any) -> Any:
        if not is_enabled(self._spark):
            return original(self, *cols)
        notes(self)["partitions"] = names_of(cols)
        notes(self)["partition"] = lambda: original(self, *cols)
        return self

    return partitionBy


def _noting_clusters(original: Callable[..., Any]) -> Callable[..., Any]:
    def clusterBy(self: Any, *cols: Any) -> Any:
        notes(self)["clusters"] = names_of(cols)
        return original(self, *cols)

    return clusterBy


# ---------------------------------------------------------------------------- reading


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(
        self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> Any:
        said = notes(self)
        if not _is_ours(self._spark, format or said.get("format")):
            return original(self, path, format, schema, **options)
        given = {**said["options"], **{k: text(v) for k, v in options.items()}}
        where = path or _option(given, "path")
        if schema is not None or "schema" in said or not isinstance(where, str):
            raise OptionError("A delta table is streamed from one path, and brings its own schema.")
        return read_stream(self._spark, where, given)

    return load


# ---------------------------------------------------------------------------- writing


def _start(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        said = notes(self)
        if not _is_ours(self._spark, format or said.get("format")) or said.get("foreach"):
            _release(self)
            return original(self, path, format, outputMode, partitionBy, queryName, **options)
        given = {**said["options"], **{k: text(v) for k, v in options.items()}}
        where = path or _option(given, "path")
        if where is None:
            raise OptionError("There is no path to write to.", hint='Write .start("/path/of/the/table").')
        partitions = names_of(partitionBy) if partitionBy is not None else said.get("partitions")
        begin(self, where, given, outputMode or said.get("mode") or "append", partitions)
        return original(self, outputMode=outputMode, queryName=queryName, **options)

    return start


def begin(writer: Any, where: str, given: dict[str, str], mode: str, partitions: list[str] | None) -> None:
    """Give Spark's writer our write for each of its batches; it is then to be started."""
    spark: SparkSession = writer._spark
    if notes(writer).get("clusters"):
        raise OptionError(
            "A stream does not cluster the table it creates.",
            hint="Create the table with clusterBy first, then stream into it.",
        )
    checkpoint = _option(given, "checkpointLocation") or spark.conf.get(_CHECKPOINTS, None)
    check_sink(where, mode=mode, partition_by=partitions, options=given, checkpoint=checkpoint)
    passed = {k: v for k, v in given.items() if k.lower() not in ("path", "checkpointlocation", "queryname")}
    work = batch_writer(
        where,
        mode=mode,
        partition_by=partitions,
        options=passed,
        defaults=session_defaults(spark),
        checkpoint=_option(given, "checkpointLocation"),
    )
    writer.foreachBatch(work)
    notes(writer).pop("foreach")


def _release(writer: Any) -> None:
    """The query is not ours: what was held back is said to Spark after all."""
    held = notes(writer).pop("partition", None)
    if held is not None:
        held()


def _foreach_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    def foreachBatch(self: Any, func: Callable[[DataFrame, int], None]) -> Any:
        if not is_enabled(self._spark):
            return original(self, func)
        notes(self)["foreach"] = True

        def kept(frame: DataFrame, number: int) -> None:
            try:
                func(frame, number)
            except TidegateError as e:
                raise failures.through_spark(e) from e

        return original(self, kept)

    return foreachBatch


# ---------------------------------------------------------------------------- failures


def _exception(original: Callable[..., Any]) -> Callable[..., Any]:
    def exception(self: Any) -> Any:
        found = original(self)
        if found is None:
            return None
        ours = failures.translated(str(found))
        if ours is None:
            return found
        ours.__cause__ = found
        return ours

    return exception


def _is_ours(spark: SparkSession, chosen: str | None) -> bool:
    return (chosen or "").lower() == FORMAT and is_enabled(spark)


def _option(options: dict[str, str], name: str) -> str | None:
    return next((v for k, v in options.items() if k.lower() == name.lower()), None)
