"""``spark.readStream`` and ``df.writeStream`` with ``format("delta")``.

As with batches, what is said to a reader or writer is noted beside, and ``load``, ``table``, ``start``
and ``toTable`` are answered here when the format is ours. A stream into a table is Spark's own
``foreachBatch`` over our write. ``partitionBy`` and ``clusterBy`` are held back until then, because
Spark refuses them together with ``foreachBatch``. ``foreachBatch`` itself is hooked so that an error
of ours in a user's function keeps its kind, and ``StreamingQuery.exception`` so that it is found there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from tidegate.commands.catalog import location_of
from tidegate.commands.stream import batch_writer, check_sink, read_stream, table_at, table_for
from tidegate.doors.catalog import share
from tidegate.doors.hooks import is_enabled, names_of, notes, noting_schema, wrap
from tidegate.doors.hooks import original as original_of
from tidegate.doors.said import format_of, option, options_of, partitions_of, take_notes
from tidegate.errors import OptionError, TidegateError
from tidegate.spark import failures
from tidegate.spark.confs import session_defaults
from tidegate.spark.jvm import is_connect
from tidegate.spark.stream.sink import passed_on

FORMAT = "delta"
_OF_THE_QUERY = frozenset({"path", "checkpointlocation", "queryname"})
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"


def install(
    reader: type = DataStreamReader, writer: type = DataStreamWriter, query: type = StreamingQuery
) -> None:
    """Hang the doors of streams, on a classic session's classes or on those of Spark Connect."""
    take_notes(reader, writer)
    wrap(reader, "schema", noting_schema)
    wrap(reader, "load", _load)
    wrap(writer, "outputMode", _noting_mode)
    wrap(writer, "partitionBy", _holding("partitions"))
    if hasattr(writer, "clusterBy"):
        wrap(writer, "clusterBy", _holding("clusters"))
    wrap(writer, "foreachBatch", _foreach_batch)
    wrap(writer, "start", _start)
    wrap(writer, "toTable", _to_table)
    wrap(query, "exception", _exception)
    wrap(reader, "table", _table)


def _noting_mode(original: Callable[..., Any]) -> Callable[..., Any]:
    def outputMode(self: Any, outputMode: str) -> Any:
        notes(self)["mode"] = outputMode
        return original(self, outputMode)

    return outputMode


def _holding(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def holding(original: Callable[..., Any]) -> Callable[..., Any]:
        def columns(self: Any, *cols: Any) -> Any:
            if not is_enabled(_session(self)):
                return original(self, *cols)
            notes(self)[kind] = names_of(cols)
            notes(self).setdefault("held", {})[kind] = lambda: original(self, *cols)
            return self

        return columns

    return holding


# ---------------------------------------------------------------------------- reading


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(
        self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> Any:
        if not _is_ours(self, format):
            return original(self, path, format, schema, **options)
        given = options_of(self, options)
        where = path or option(given, "path")
        if schema is not None or "schema" in notes(self) or not isinstance(where, str):
            raise OptionError("A delta table is streamed from one path, and brings its own schema.")
        return read_stream(_session(self), where, given)

    return load


def _table(original: Callable[..., Any]) -> Callable[..., Any]:
    def table(self: Any, tableName: str) -> Any:
        if is_enabled(_session(self)) and (location := location_of(_session(self), tableName)) is not None:
            return read_stream(_session(self), location, notes(self)["options"])
        return original(self, tableName)

    return table


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
        if not _is_ours(self, format) or notes(self).get("foreach"):
            _release(self)
            return original(self, path, format, outputMode, partitionBy, queryName, **options)
        sink = _Sink(self, outputMode, partitionBy, options)
        where = path or option(sink.options, "path")
        if where is None:
            raise OptionError("There is no path to write to.", hint='Write .start("/path/of/the/table").')
        sink.check(where)
        if sink.clusters:
            table_at(_frame(self), where, partition_by=sink.partitions, cluster_by=sink.clusters)
        sink.receive(where)
        return original(self, outputMode=outputMode, queryName=queryName, **options)

    return start


def _to_table(original: Callable[..., Any]) -> Callable[..., Any]:
    def toTable(
        self: Any,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        ours = _is_ours(self, format)
        if not ours and not format_of(self, format) and is_enabled(_session(self)):
            ours = location_of(_session(self), tableName) is not None
        if not ours:
            _release(self)
            return original(self, tableName, format, outputMode, partitionBy, queryName, **options)
        sink = _Sink(self, outputMode, partitionBy, options)
        sink.check(location_of(_session(self), tableName))
        where = table_for(
            _frame(self),
            tableName,
            partition_by=sink.partitions,
            cluster_by=sink.clusters,
            options=sink.options,
        )
        sink.receive(where)
        start = original_of(type(self), "start")
        return start(self, outputMode=outputMode, queryName=queryName, **options)

    return toTable


class _Sink:
    """What was said to a writer whose stream goes into a table."""

    def __init__(self, writer: Any, mode: str | None, partitions: Any, options: dict[str, Any]) -> None:
        said = notes(writer)
        self.writer = writer
        self.options = options_of(writer, options)
        self.mode: str = mode or said.get("mode") or "append"
        self.partitions = partitions_of(writer, partitions)
        self.clusters: list[str] = said.get("clusters") or []

    def check(self, where: str | None) -> None:
        """Refuse what can be refused before anything is done."""
        everywhere = _session(self.writer).conf.get(_CHECKPOINTS, None)
        check_sink(
            where,
            mode=self.mode,
            partition_by=self.partitions,
            options=self.options,
            checkpoint=option(self.options, "checkpointLocation") or everywhere,
        )

    def receive(self, where: str) -> None:
        """Give Spark's writer our write for each of its batches; it is then to be started."""
        spark: SparkSession = _session(self.writer)
        work = batch_writer(
            where,
            mode=self.mode,
            partition_by=self.partitions,
            options={k: v for k, v in self.options.items() if k.lower() not in _OF_THE_QUERY},
            defaults=session_defaults(spark),
            checkpoint=option(self.options, "checkpointLocation"),
        )
        self.writer.foreachBatch(work)
        notes(self.writer).pop("foreach")
        if is_connect(spark):
            # The server would look for the format first.
            self.writer._write_proto.format = ""


def _release(writer: Any) -> None:
    """The query is not ours: what was held back is said to Spark after all."""
    for say in notes(writer).pop("held", {}).values():
        say()


def _foreach_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    def foreachBatch(self: Any, func: Callable[[DataFrame, int], None]) -> Any:
        if not is_enabled(_session(self)):
            return original(self, func)
        notes(self)["foreach"] = True

        return original(self, _kept(func, None if is_connect(_session(self)) else _session(self)))

    return foreachBatch


def _kept(
    func: Callable[[DataFrame, int], None], origin: SparkSession | None
) -> Callable[[DataFrame, int], None]:
    """A user's function for batches, in an enabled session, whose errors of ours keep their kind."""

    def kept(frame: DataFrame, number: int) -> None:
        if origin is not None:
            # Spark runs the batches of a stream in a session that it derives for them.
            share(frame.sparkSession, origin)
        else:
            # It runs in a process of the server's own.
            import tidegate

            tidegate.enable(frame.sparkSession)
        try:
            func(frame, number)
        except TidegateError as e:
            raise passed_on(e, frame.sparkSession) from e

    return kept


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


def _session(target: Any) -> Any:
    """The session of a reader or writer, classic or of Spark Connect."""
    held = ("_spark", "_session", "_client")
    return next(found for name in held if (found := getattr(target, name, None)) is not None)


def _frame(writer: Any) -> DataFrame:
    """The DataFrame that a writer streams; on Spark Connect it holds the plan alone."""
    if not is_connect(_session(writer)):
        frame: DataFrame = writer._df
        return frame
    from pyspark.sql.connect.dataframe import DataFrame as Remote

    return Remote(writer._write_stream._child, writer._session)


def _is_ours(target: Any, given: str | None) -> bool:
    return format_of(target, given) == FORMAT and is_enabled(_session(target))
