"""Streams: a table as a source of rows that are added, and as a sink that takes each batch once.

The source is read by offsets of the log (``spark.stream.tail``); the sink writes every batch as an
ordinary commit that carries the query's id and the batch's number, so a batch that comes again
after a crash is seen and left out. Everything that can be refused is refused before a query starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.commands import catalog
from tidegate.commands.changes import changes_in
from tidegate.commands.create import Definition, create
from tidegate.commands.options import WRITE, Options
from tidegate.commands.read import readable
from tidegate.commands.write import STREAMING, write
from tidegate.errors import NotATableError, OptionError, TidegateError
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.spark.confs import log_at, session_defaults
from tidegate.spark.jvm import is_connect
from tidegate.spark.moments import in_utc
from tidegate.spark.scan.scans import scan
from tidegate.spark.stream import portable, source
from tidegate.spark.stream.offsets import Limits
from tidegate.spark.stream.sink import passed_on, query_id
from tidegate.spark.stream.tail import FILES, LATEST, Slice, StreamOptions, Tail
from tidegate.spark.write.fit import check_columns, schema_of
from tidegate.transaction.pending import Operation

READ_STREAM = frozenset(
    {
        "path",
        "maxFilesPerTrigger",
        "maxBytesPerTrigger",
        "startingVersion",
        "startingTimestamp",
        "ignoreDeletes",
        "ignoreChanges",
        "ignoreFileDeletion",
        "skipChangeCommits",
        "failOnDataLoss",
        "excludeRegex",
        "readChangeFeed",
    }
)
WRITE_STREAM = (WRITE - {"txnAppId", "txnVersion", "replaceWhere", "partitionOverwriteMode"}) | {
    "checkpointLocation",
    "queryName",
}
# Known to delta-spark, and a promise that is not kept here: refused rather than ignored.
_NOT_SERVED = {
    "schemaTrackingLocation": "A stream has one schema; after a change that does not fit, begin a new query.",
    "schemaLocation": "A stream has one schema; after a change that does not fit, begin a new query.",
    "streamingSourceTrackingId": "There is no tracking of schemas here.",
    "allowSourceColumnRename": "After a rename, begin a new query with a new checkpoint.",
    "allowSourceColumnDrop": "After a column is dropped, begin a new query with a new checkpoint.",
    "allowSourceColumnTypeChange": "A type that was widened needs no option: start the query again.",
    "versionAsOf": "A stream begins at a version with startingVersion.",
    "timestampAsOf": "A stream begins at a time with startingTimestamp.",
    "endingVersion": "A stream has no end; trigger(availableNow=True) stops at what there is.",
    "endingTimestamp": "A stream has no end; trigger(availableNow=True) stops at what there is.",
    "txnAppId": "A stream counts its batches itself.",
    "txnVersion": "A stream counts its batches itself.",
    "replaceWhere": "Write with foreachBatch to replace parts of a table.",
    "partitionOverwriteMode": "Write with foreachBatch to replace parts of a table.",
}
_MODES = ("append", "complete")


# ---------------------------------------------------------------------------- source


def read_stream(
    spark: SparkSession, url: str | PathLike[str], options: Mapping[str, str] | None = None
) -> DataFrame:
    """The table at ``url`` as a stream: the rows it has, then those that are added."""
    given = stream_options(options or {})
    if given.starting_timestamp is not None:
        given = replace(given, starting_timestamp=in_utc(spark, given.starting_timestamp))
    log = TableLog.at(url)
    shape = readable(load(log))
    if is_connect(spark):
        return _portable(spark, shape, given, options or {})
    empty = Slice(None, FILES.empty_table(), FILES.empty_table(), shape.version + 1, shape.version)
    tail = Tail(log, shape, given)

    def frame(of: Tail, between: Slice) -> DataFrame:
        return batch(spark, of, between)

    return source.stream(
        spark,
        lambda: Tail(log, shape, given),
        frame,
        frame(tail, empty),
        path=log.url,
        options={k: v for k, v in (options or {}).items() if k.lower() != "path"},
    )


def _portable(
    spark: SparkSession, shape: Snapshot, given: StreamOptions, options: Mapping[str, str]
) -> DataFrame:
    """The stream on public API alone; what needs a newer Spark than this one is refused by name."""
    limits = [k for k in options if k.lower() in ("maxfilespertrigger", "maxbytespertrigger")]
    if limits and not portable.HAS_LIMITS:
        raise OptionError(
            f"{limits[0]} needs Spark 4.2 on Spark Connect.",
            hint="Leave it out, use a classic session, or a newer Spark.",
        )
    return portable.stream(spark, shape, given)


def batch(spark: SparkSession, tail: Tail, between: Slice) -> DataFrame:
    """The rows between two offsets."""
    if not tail.options.changes:
        return scan(spark, tail.shape, pa.concat_tables([between.initial, between.added]))
    initial = None if between.initial_version is None else _found(tail, between.initial_version)
    files = None if initial is None else (initial.version, initial.timestamp_ms, between.initial)
    return changes_in(spark, tail.log, tail.shape, between.first, between.last, initial=files)


def _found(tail: Tail, version: int) -> Snapshot:
    return tail.shape if version == tail.shape.version else load(tail.log, version)


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """The options of a stream, checked."""
    _refuse_unserved(options)
    given = Options(options, READ_STREAM)
    version, timestamp = given.get("startingVersion"), given.get("startingTimestamp")
    if version is not None and timestamp is not None:
        raise OptionError(
            "startingVersion and startingTimestamp exclude each other.",
            errorClass="DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET",
        )
    exclude = given.get("excludeRegex")
    try:
        re.compile(exclude or "")
    except re.error as e:
        raise OptionError(f"excludeRegex is not a regular expression: {e}.") from None
    return StreamOptions(
        limits=Limits.of(given.get("maxFilesPerTrigger"), given.get("maxBytesPerTrigger")),
        starting_version=None if version is None else _starting_version(version),
        starting_timestamp=timestamp,
        ignore_deletes=given.flag("ignoreDeletes"),
        ignore_changes=given.flag("ignoreChanges") or given.flag("ignoreFileDeletion"),
        skip_change_commits=given.flag("skipChangeCommits"),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        exclude=exclude,
        changes=given.flag("readChangeFeed"),
    )


def _starting_version(text: str) -> int | str:
    if text.lower() == LATEST:
        return LATEST
    if not text.isdecimal():
        raise OptionError(f"startingVersion is {text!r}; it is a whole number, or latest.")
    return int(text)


def _refuse_unserved(options: Mapping[str, str]) -> None:
    known = {k.lower(): k for k in _NOT_SERVED}
    for key in options:
        name = known.get(key.lower())
        if name is not None:
            travels = name.endswith("AsOf")
            raise OptionError(
                f"A stream does not take the option {name}.",
                hint=_NOT_SERVED[name],
                errorClass="DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS" if travels else None,
            )


# ---------------------------------------------------------------------------- sink


def check_sink(
    url: str | PathLike[str] | None,
    *,
    mode: str,
    partition_by: Sequence[str] | None,
    options: Mapping[str, str],
    checkpoint: str | None,
) -> None:
    """Refuse what can be refused before the query starts; ``url`` is None for a table yet to be made."""
    _refuse_unserved(options)
    Options(options, WRITE_STREAM)
    if mode.lower() not in _MODES:
        raise OptionError(
            f"A delta table takes no stream in the output mode {mode}.",
            hint="Use append or complete, or foreachBatch with a merge.",
            errorClass="DELTA_UNSUPPORTED_OUTPUT_MODE",
        )
    if not checkpoint:
        raise OptionError(
            "A stream into a delta table needs a checkpointLocation: only by it is each batch written once.",
            hint='Set .option("checkpointLocation", "/path/of/the/checkpoint").',
        )
    if url is None:
        return
    try:
        found = load(TableLog.at(url))
    except NotATableError:
        return
    wanted = tuple(c.lower() for c in partition_by or ())
    if partition_by is not None and wanted != tuple(c.lower() for c in found.partition_columns):
        raise OptionError(
            f"The table is partitioned by {', '.join(found.partition_columns) or 'nothing'}, "
            f"the stream by {', '.join(partition_by) or 'nothing'}.",
            hint="Leave partitionBy out to keep to the table's.",
        )


def table_for(
    frame: DataFrame,
    name: str,
    *,
    partition_by: Sequence[str] | None,
    cluster_by: Sequence[str],
    options: Mapping[str, str],
) -> str:
    """Where the table of that name is; one that is not there yet is made, with the stream's columns."""
    spark = frame.sparkSession
    location = catalog.location_of(spark, name)
    if location is not None:
        return location
    if catalog.entry_of(spark, name) is not None:
        raise OptionError(f"{name} is no Delta table.", errorClass="DELTA_NOT_A_DELTA_TABLE")
    path = next((v for k, v in options.items() if k.lower() == "path"), None)
    found, location, managed = catalog.place_for(spark, name, path)
    entered = (
        nullcontext() if found.path is not None else catalog.entering(spark, name, location, managed=managed)
    )
    with entered:
        table_at(frame, location, partition_by=partition_by, cluster_by=cluster_by, managed=managed)
    return location


def table_at(
    frame: DataFrame,
    url: str | PathLike[str],
    *,
    partition_by: Sequence[str] | None,
    cluster_by: Sequence[str] = (),
    managed: bool = False,
) -> None:
    """Make an empty table with the stream's columns, unless there is one."""
    schema = schema_of(frame)
    check_columns(schema, tuple(partition_by or ()))
    definition = Definition(schema, tuple(partition_by or ()), tuple(cluster_by))
    defaults = session_defaults(frame.sparkSession)
    create(
        log_at(frame.sparkSession, url), definition, "createIfNotExists", defaults=defaults, managed=managed
    )


def batch_writer(
    url: str | PathLike[str],
    *,
    mode: str,
    partition_by: Sequence[str] | None,
    options: Mapping[str, str],
    defaults: Mapping[str, str],
    checkpoint: str | None,
) -> Callable[[DataFrame, int], None]:
    """What ``foreachBatch`` calls: writes each batch of a query once."""

    def write_batch(frame: DataFrame, number: int) -> None:
        try:
            query = query_id(frame, checkpoint)
            parameters = {"outputMode": mode.capitalize(), "queryId": query, "epochId": str(number)}
            write(
                frame,
                url,
                mode="overwrite" if mode.lower() == "complete" else "append",
                partition_by=partition_by,
                options={**options, "txnAppId": query, "txnVersion": str(number)},
                defaults=defaults,
                operation=Operation(STREAMING, parameters),
            )
        except TidegateError as e:
            raise passed_on(e, frame.sparkSession) from e

    return write_batch
