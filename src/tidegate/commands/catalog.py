"""Tables by name: found in Spark's session catalog, entered there, dropped from it.

The catalog knows where a table is; what it is, its log says. A table is written first and entered
after, so no name ever points at nothing (but see ``entering`` for Spark Connect); a managed table lives
where the catalog puts it and goes when it is dropped.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from tidegate.commands import clustering
from tidegate.commands.names import split_name
from tidegate.commands.narrowed import remember
from tidegate.commands.read import readable
from tidegate.errors import (
    NotATableError,
    OptionError,
    OutOfReachError,
    TableExistsError,
    TableNotFoundError,
)
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.spark import catalog
from tidegate.spark.catalog import PROVIDER, SESSION_CATALOG, Entry
from tidegate.spark.jvm import is_connect
from tidegate.spark.scan.native import scan
from tidegate.spark.scan.projection import spark_type

_held: weakref.WeakKeyDictionary[SparkSession, dict[str, tuple[Snapshot, DataFrame]]] = (
    weakref.WeakKeyDictionary()
)


@dataclass(frozen=True)
class TableName:
    """A name as the session understands it: a path, or a database (None: the current one) and a table."""

    text: str
    path: str | None = None
    database: str | None = None
    table: str = ""


def table_name(spark: SparkSession, text: str) -> TableName | None:
    """What ``text`` names; None if it belongs to another catalog, which is none of ours."""
    parts = split_name(text)
    if len(parts) == 2 and parts[0].lower() == PROVIDER and "/" in parts[1]:
        return TableName(text, path=parts[1])
    if len(parts) == 3 and parts[0].lower() == SESSION_CATALOG:
        return TableName(text, database=parts[1], table=parts[2])
    if len(parts) > 2 or spark.catalog.currentCatalog().lower() != SESSION_CATALOG:
        return None
    return TableName(text, database=parts[0] if len(parts) == 2 else None, table=parts[-1])


def entry_of(spark: SparkSession, name: str) -> Entry | None:
    """The catalog's entry of that name, be it ours or not; None for paths and where there is none."""
    found = table_name(spark, name)
    if found is None or found.path is not None:
        return None
    if found.database is None and catalog.is_temporary_view(spark, found.table):
        return None
    return catalog.find(spark, found.database, found.table)


def is_temporary_view(spark: SparkSession, name: str) -> bool:
    """Whether a name is that of a temporary view."""
    found = table_name(spark, name)
    return (
        found is not None
        and found.path is None
        and found.database is None
        and catalog.is_temporary_view(spark, found.table)
    )


def location_of(spark: SparkSession, name: str) -> str | None:
    """Where the Delta table of that name is; None if there is none of that name, or it is no Delta table."""
    try:
        found = table_name(spark, name)
    except OptionError:
        return None
    if found is None:
        return None
    if found.path is not None:
        return found.path
    entry = entry_of(spark, name)
    return entry.location if entry is not None and entry.is_delta else None


def log_of(spark: SparkSession, name: str) -> TableLog:
    """The log of the table of that name; an error that says what is wrong with the name."""
    location = location_of(spark, name)
    if location is None:
        entry = entry_of(spark, name)
        if entry is None:
            raise not_found(name)
        kind = "a view" if entry.is_view else f"a table of the format {entry.provider}"
        raise NotATableError(
            f"{name} is not a Delta table: it is {kind}.", errorClass="DELTA_TABLE_ONLY_OPERATION"
        )
    log = TableLog.at(location)
    load(log)
    return log


def not_found(name: str) -> TableNotFoundError:
    return TableNotFoundError(
        f"There is no table {name}.",
        hint="spark.catalog.listTables() lists those of the current database.",
    )


def is_delta_table(spark: SparkSession, identifier: str) -> bool:
    """Whether a path holds a Delta table."""
    try:
        load(TableLog.at(identifier))
    except NotATableError:
        return False
    return True


@dataclass(frozen=True)
class ColumnInfo:
    """A column as ``spark.catalog.listColumns`` shows it."""

    name: str
    type: str
    nullable: bool
    comment: str | None
    is_partition: bool
    is_clustering: bool


def columns_of(location: str) -> list[ColumnInfo]:
    """The columns of the table at ``location``, as its log has them now."""
    snapshot = load(TableLog.at(location))
    partitions = {c.lower() for c in snapshot.partition_columns}
    clustered = {c[0].lower() for c in clustering.clustering_columns(snapshot)}
    return [
        ColumnInfo(
            f.name,
            spark_type(f.type).simpleString(),
            f.nullable,
            f.metadata.get("comment"),
            f.name.lower() in partitions,
            f.name.lower() in clustered,
        )
        for f in snapshot.schema.fields
    ]


def current(spark: SparkSession, location: str) -> DataFrame:
    """The table at ``location`` as it is now; the same DataFrame as before if nothing is new."""
    known = _held.setdefault(spark, {})
    before = known.get(location)
    if before is None:
        snapshot = readable(load(TableLog.at(location)))
    else:
        snapshot = readable(before[0].update())
        if snapshot is before[0]:
            return before[1]
    frame = remember(scan(spark, snapshot, follow=True), spark, snapshot)
    known[location] = (snapshot, frame)
    return frame


# ---------------------------------------------------------------------------- entering and dropping


def place_for(spark: SparkSession, name: str, path: str | None) -> tuple[TableName, str, bool]:
    """Where a table of that name is to be: its own ``path``, or where the catalog puts managed tables."""
    found = table_name(spark, name)
    if found is None:
        raise OptionError(
            f"{name} is of another catalog; tables are made in {SESSION_CATALOG} alone.",
            hint=f"Write {SESSION_CATALOG}.database.name.",
        )
    if found.path is not None:
        return found, found.path, False
    if found.database is not None and not catalog.database_exists(spark, found.database):
        raise TableNotFoundError(
            f"There is no database {found.database}.",
            hint="CREATE DATABASE makes it.",
            errorClass="SCHEMA_NOT_FOUND",
        )
    if path is not None:
        return found, TableLog.at(path).url, False
    return found, catalog.default_location(spark, found.database, found.table), True


def register(
    spark: SparkSession, name: str, location: str, *, managed: bool = False, comment: str | None = None
) -> Entry:
    """Enter the table at ``location`` under a name."""
    found = table_name(spark, name)
    if found is None or found.path is not None:
        raise OptionError(f"{name} is not a name that {SESSION_CATALOG} can hold.")
    if catalog.find(spark, found.database, found.table) is not None:
        raise TableExistsError(
            f"A table or view {name} already exists.", errorClass="TABLE_OR_VIEW_ALREADY_EXISTS"
        )
    return catalog.create(spark, found.database, found.table, location, managed=managed, comment=comment)


def check_movable(spark: SparkSession, entry: Entry) -> None:
    """Refuse to change what a managed name stands for where that would delete its files."""
    if entry.managed and is_connect(spark):
        raise OptionError(
            f"{entry.qualified} is a managed table: Spark Connect cannot move the name and keep the files.",
            hint="Do it in a session on the cluster, or name the path of the files.",
        )


def move(spark: SparkSession, entry: Entry, location: str) -> None:
    """Let a name that is there stand for the Delta table at ``location``."""
    check_movable(spark, entry)
    catalog.place(spark, entry, location)


@contextmanager
def entering(
    spark: SparkSession, name: str, location: str, *, managed: bool = False, comment: str | None = None
) -> Iterator[None]:
    """Enter the table that the block makes at ``location``, once it is made.

    Where the catalog takes a managed table only while its place is empty, it is entered before, and taken
    out again if the block makes none.
    """
    if not managed or not catalog.enters_managed_first(spark):
        yield
        register(spark, name, location, managed=managed, comment=comment)
        return
    entry = register(spark, name, location, managed=True, comment=comment)
    try:
        _shared(location, entry)
        yield
    except BaseException:
        if not is_delta_table(spark, location):
            catalog.drop(spark, entry)
        raise


def _shared(location: str, entry: Entry) -> None:
    """The folder that the server has made must be the one that we write to."""
    if entry.location != location or (location.startswith("/") and not os.path.isdir(location)):
        raise OutOfReachError(
            f"The server keeps its managed tables at {entry.location}, which this process does not reach.",
            table=location,
            hint="Make an external table, with the option path or LOCATION, where both reach it.",
        )


def drop_table(
    spark: SparkSession, name: str, *, if_exists: bool = False, purge: bool = False
) -> Entry | None:
    """Drop a table from the catalog; the files of a managed one go with it."""
    entry = entry_of(spark, name)
    if entry is None:
        if if_exists:
            return None
        raise not_found(name)
    catalog.drop(spark, entry, purge=purge)
    for known in list(_held.values()):
        known.pop(entry.location or "", None)
    return entry
