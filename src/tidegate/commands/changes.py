"""The change data feed: which rows each version inserted, updated and deleted.

Which files hold them is found by ``spark.scan.change_files``; here are the ranges that users ask for,
and the rows. Specification: "Change Data Feed".
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from os import PathLike

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import OptionError, VersionNotFoundError
from tidegate.log.history import version_at
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.opening import milliseconds
from tidegate.schema.types import LONG, STRING, TIMESTAMP, StructField, StructType
from tidegate.spark.confs import conf
from tidegate.spark.moments import in_utc
from tidegate.spark.scan.change_files import CHANGE, FILES, TIME, VERSION, ChangeFiles
from tidegate.spark.scan.native import FilePlanner, layout_of, live_rows


def changes_between(
    spark: SparkSession, url: str | PathLike[str], start: int | str | None, end: int | str | None
) -> DataFrame:
    """The changes from ``start`` to ``end``, both included: versions as numbers, timestamps as text."""
    log = TableLog.at(url)
    latest = load(log)
    if start is None:
        raise OptionError(
            "A change feed needs a beginning.",
            hint="Set startingVersion or startingTimestamp.",
            errorClass="DELTA_NO_START_FOR_CDC_READ",
        )
    if isinstance(start, str):
        start = in_utc(spark, start)
    if isinstance(end, str):
        end = in_utc(spark, end)
    beyond = conf(spark, "changeDataFeed.timestampOutOfRange.enabled", False)
    first = start if isinstance(start, int) else _first_after(log, latest, start, beyond)
    last = latest.version if end is None else end if isinstance(end, int) else _last_before(log, latest, end)
    if first > latest.version:
        if beyond:
            return changes_in(spark, log, latest, first, latest.version)
        raise VersionNotFoundError(
            f"The feed begins at version {first}, the table is at {latest.version}.",
            table=log.url,
            version=first,
            errorClass="DELTA_CDC_START_VERSION_AFTER_LATEST",
        )
    if last < first:
        raise OptionError(
            f"The feed would end at version {last}, before it begins at {first}.",
            errorClass="DELTA_INVALID_CDC_RANGE",
        )
    last = min(last, latest.version)
    shape = latest if last == latest.version else load(log, last)
    collected = ChangeFiles(log, shape)
    collected.read(first, last)
    return _frame(spark, collected)


def changes_in(
    spark: SparkSession,
    log: TableLog,
    shape: Snapshot,
    first: int,
    last: int,
    *,
    initial: tuple[int, int, pa.Table] | None = None,
) -> DataFrame:
    """The changes from version ``first`` to ``last`` in the columns of ``shape``; none if the range is empty.

    ``initial`` is a version, its time and files of it, whose rows come first, as inserts.
    """
    collected = ChangeFiles(log, shape)
    if initial is not None:
        collected.begin_with(*initial)
    if first <= last:
        collected.read(first, last)
    return _frame(spark, collected)


def _first_after(log: TableLog, latest: Snapshot, text: str, beyond: bool) -> int:
    """The first version at or after a moment; with ``beyond`` that may be one that is still to come."""
    moment = milliseconds(text)
    if beyond and moment > latest.timestamp_ms:
        return latest.version + 1
    found = version_at(log, moment, latest=latest)
    return found if load(log, found).timestamp_ms >= moment else found + 1


def _last_before(log: TableLog, latest: Snapshot, text: str) -> int:
    moment = milliseconds(text)
    if moment >= latest.timestamp_ms:
        return latest.version
    return version_at(log, moment, latest=latest)


def _frame(spark: SparkSession, found: ChangeFiles) -> DataFrame:
    """All changes as one DataFrame: the table's columns, then what changed, and when."""
    layout = layout_of(spark, found.shape)
    constants = StructType((StructField(VERSION, LONG), StructField(TIME, TIMESTAMP)))
    kind = StructField(CHANGE, STRING)
    ways = [
        (
            found.inferred,
            replace(
                layout,
                partitions=StructType((*layout.partitions.fields, *constants.fields, kind)),
            ),
        ),
        (
            found.cdc,
            replace(
                layout,
                data=StructType((*layout.data.fields, kind)),
                partitions=StructType((*layout.partitions.fields, *constants.fields)),
            ),
        ),
    ]
    parts = []
    for files, way in ways:
        if files or way is ways[0][1]:
            table = pa.Table.from_pylist(files, FILES)
            planner = FilePlanner(spark, found.shape, way, table)
            columns = [*layout.columns(), F.col(CHANGE), F.col(VERSION), F.col(TIME)]
            parts.append(live_rows(planner).select(*columns))
    return reduce(DataFrame.unionAll, parts)
