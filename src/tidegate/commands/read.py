"""Reading a table into a DataFrame, at its latest version or back in time."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from pyspark.sql import DataFrame, SparkSession

from tidegate.commands.changes import changes_between
from tidegate.commands.marks import unmarked
from tidegate.commands.narrowed import remember
from tidegate.commands.options import READ, Options
from tidegate.commands.retention import CONF, check_retention
from tidegate.errors import NotATableError, OptionError, SchemaInvalidError
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.opening import open as open_table
from tidegate.spark.confs import conf
from tidegate.spark.moments import in_utc
from tidegate.spark.scan.scans import scan


def _bound(given: Options, which: str) -> int | str | None:
    """One end of a change feed: a version as a number, a timestamp as text."""
    version, timestamp = given.get(f"{which}Version"), given.get(f"{which}Timestamp")
    if version is not None and timestamp is not None:
        raise OptionError(
            f"{which}Version and {which}Timestamp exclude each other.",
            errorClass="DELTA_MULTIPLE_CDC_BOUNDARY",
        )
    if version is not None and not version.isdecimal():
        raise OptionError(
            f"{which}Version is {version!r}; it is a whole number.", errorClass="DELTA_VERSION_INVALID"
        )
    return timestamp if version is None else int(version)


def snapshot_for(spark: SparkSession, url: str | PathLike[str], given: Options) -> Snapshot:
    """The snapshot that the options of a read ask for."""
    version, timestamp = given.get("versionAsOf"), given.get("timestampAsOf")
    if version is not None and timestamp is not None:
        raise OptionError(
            "versionAsOf and timestampAsOf exclude each other.", errorClass="DELTA_ONEOF_IN_TIMETRAVEL"
        )
    if version is not None and not version.isdecimal():
        below_zero = version.removeprefix("-").isdecimal()
        raise OptionError(
            f"versionAsOf is {version!r}; it is a whole number from 0 on.",
            errorClass="DELTA_VERSION_NOT_FOUND" if below_zero else "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE",
        )
    if timestamp is not None:
        timestamp = in_utc(spark, timestamp)
    try:
        return open_table(url, version=None if version is None else int(version), timestamp=timestamp)
    except NotATableError as e:
        if next(iter(TableLog.at(url).store.list_from("", recursive=True)), None) is None:
            e.errorClass = "PATH_NOT_FOUND"
        raise


def within_retention(spark: SparkSession, then: Snapshot) -> Snapshot:
    """A version back in time, unless it is older than this session may go."""
    if conf(spark, CONF, False):
        check_retention(load(then.log), then)
    return then


def read(
    spark: SparkSession, url: str | PathLike[str], options: Mapping[str, str] | None = None
) -> DataFrame:
    """The table at ``url`` as a DataFrame, pinned to its version (in a stream: per batch).

    The options ``tidegate.where`` (SQL) and ``tidegate.columns`` (names apart by commas) say beforehand
    what is wanted, which is how files and columns are left out where Spark cannot tell us: on Connect,
    and in places that it cannot open. A mark at the end of the path (``@v12``) says which version is meant,
    unless a table is called so.
    """
    given = Options(options or {}, READ)
    if given.flag("readChangeFeed"):
        for name in ("versionAsOf", "timestampAsOf"):
            if given.get(name) is not None:
                raise OptionError(
                    f"A change feed goes from one version to another; it does not take {name}.",
                    hint="Say where it ends with endingVersion or endingTimestamp.",
                    errorClass="DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS",
                )
        return changes_between(
            spark,
            url,
            _bound(given, "starting"),
            _bound(given, "ending"),
        )
    try:
        snapshot = readable(snapshot_for(spark, url, given))
    except NotATableError:
        path, version, timestamp = unmarked(str(url))
        if version is not None:
            said = {"versionAsOf": version}
        elif timestamp is not None:
            said = {"timestampAsOf": timestamp}
        else:
            raise
        _check_unsaid(given, str(url))
        return read(spark, path, {**(options or {}), **said})
    columns = given.get("tidegate.columns")
    wanted = None if columns is None else _columns(snapshot, columns)
    latest = given.get("versionAsOf") is None and given.get("timestampAsOf") is None
    if not latest:
        snapshot = within_retention(spark, snapshot)
    where = given.get("tidegate.where")
    frame = scan(spark, snapshot, where=where, columns=wanted, follow=latest)
    return frame if where is not None else remember(frame, spark, snapshot, wanted)


def _check_unsaid(given: Options, path: str) -> None:
    """A version is meant by a mark or by an option, not by both."""
    for name in ("versionAsOf", "timestampAsOf"):
        if given.get(name) is not None:
            raise OptionError(
                f"The version is said twice: by the option {name}, and at the end of the path {path}.",
                errorClass="DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS",
            )


def _columns(snapshot: Snapshot, text: str) -> list[str]:
    wanted = []
    for name in (part.strip() for part in text.split(",")):
        field = snapshot.schema.field(name)
        if field is None:
            raise OptionError(
                f"tidegate.columns names {name!r}, which is no column of the table.",
                table=snapshot.url,
                hint=f"The columns are {', '.join(snapshot.schema.names)}.",
            )
        wanted.append(field.name)
    return wanted


def readable(snapshot: Snapshot) -> Snapshot:
    """The snapshot, unless it has no columns and so nothing to read."""
    if not snapshot.schema.fields:
        raise SchemaInvalidError(
            "The table has no columns at this version, so there is nothing to read.",
            table=snapshot.url,
            version=snapshot.version,
            errorClass="DELTA_SCHEMA_NOT_SET",
        )
    return snapshot
