"""Tables by name: found in Spark's session catalog, entered there, dropped from it.

The catalog knows where a table is; what it is, its log says. A table is written first and entered
after, so no name ever points at nothing (but see ``entering`` for Spark Connect); a managed table lives
where the catalog puts it and goes when it is dropped.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession

from tidegate.commands import clustering
from tidegate.commands.create_as import Mode, create_as
from tidegate.commands.names import join_name, split_name
from tidegate.commands.narrowed import remember
from tidegate.commands.read import readable
from tidegate.commands.write import write
from tidegate.errors import (
    NotATableError,
    OptionError,
    OutOfReachError,
    SchemaInvalidError,
    TableExistsError,
    TableNotFoundError,
)
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.spark import catalog
from tidegate.spark.catalog import PROVIDER, SESSION_CATALOG, Entry
from tidegate.spark.confs import session_defaults
from tidegate.spark.jvm import is_connect
from tidegate.spark.remote_columns import sql_of
from tidegate.spark.scan.native import scan
from tidegate.spark.scan.projection import spark_type
from tidegate.spark.write.positions import by_position

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


# ---------------------------------------------------------------------------- writing by name


def save_as_table(
    frame: DataFrame,
    name: str,
    *,
    mode: str = "error",
    partition_by: Sequence[str] | None = None,
    cluster_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> None:
    """``df.write.saveAsTable``: make the table, append to it by name, or overwrite it."""
    spark = frame.sparkSession
    mode = mode.lower()
    entry = entry_of(spark, name)
    if entry is not None:
        _only_delta(entry, name)
        if mode in ("error", "errorifexists"):
            raise TableExistsError(
                f"The table {name} already exists.",
                hint="Use the mode append or overwrite.",
                errorClass="TABLE_OR_VIEW_ALREADY_EXISTS",
            )
        if mode == "ignore":
            return
        assert entry.location is not None
        _same_place(entry, options)
        write(
            frame,
            entry.location,
            mode=mode,
            partition_by=partition_by,
            options=options,
            defaults=session_defaults(spark),
        )
        return
    path = _option(options, "path")
    found, location, managed = place_for(spark, name, path)
    make: Mode = "createOrReplace" if mode == "overwrite" else "create"
    if managed:
        _empty(location, name)
    entered = nullcontext() if found.path is not None else entering(spark, name, location, managed=managed)
    with entered:
        if mode == "append" and not managed:
            # What lies at the path already is entered with what it holds.
            write(
                frame,
                location,
                mode=mode,
                partition_by=partition_by,
                options=options,
                defaults=session_defaults(spark),
            )
        else:
            create_as(
                frame,
                location,
                mode=make,
                partition_by=partition_by or (),
                cluster_by=cluster_by,
                options=options,
                defaults=session_defaults(spark),
                managed=managed,
            )


def insert_into(
    frame: DataFrame, name: str, *, overwrite: bool = False, options: Mapping[str, str] | None = None
) -> None:
    """``df.write.insertInto``: by position, whatever the columns are called."""
    spark = frame.sparkSession
    log = log_of(spark, name)
    schema = load(log).schema
    if len(frame.columns) < len(schema.fields):
        raise SchemaInvalidError(
            f"insertInto goes by position: the data has {len(frame.columns)} columns, the table "
            f"{len(schema.fields)} ({', '.join(schema.names)}).",
            table=log.url,
            hint="Append with saveAsTable or writeTo to go by name.",
            errorClass="DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        )
    given = dict(options or {})
    if overwrite and _option(given, "partitionOverwriteMode") is None and _is_dynamic(spark):
        given["partitionOverwriteMode"] = "dynamic"
    frame = by_position(frame, schema, schema.names)
    write(frame, log.url, mode="overwrite" if overwrite else "append", options=given)


def write_to(
    frame: DataFrame,
    name: str,
    verb: str,
    *,
    condition: str | Column | None = None,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """``df.writeTo``: one of its verbs, on a table by name."""
    spark = frame.sparkSession
    if verb in ("append", "overwrite", "overwritePartitions"):
        given = dict(options or {})
        if verb == "overwritePartitions":
            given["partitionOverwriteMode"] = "dynamic"
        log = log_of(spark, name)
        if verb == "overwrite" and condition is not None:
            text = condition if isinstance(condition, str) else _text(spark, log, condition)
            if text.strip().lower() != "true":
                given["replaceWhere"] = text
        write(frame, log.url, mode="append" if verb == "append" else "overwrite", options=given)
        return
    entry = entry_of(spark, name)
    if entry is not None:
        _only_delta(entry, name)
    place = (
        (None, entry.location, entry.managed)
        if entry is not None and entry.location is not None
        else place_for(spark, name, _option(options, "path") or _option(properties, "location"))
    )
    found, location, managed = place
    if verb == "create" and entry is not None:
        raise TableExistsError(
            f"The table {name} already exists.",
            hint="Use createOrReplace, or append.",
            errorClass="TABLE_OR_VIEW_ALREADY_EXISTS",
        )
    if verb == "replace" and entry is None and (found is None or found.path is None):
        raise TableNotFoundError(
            f"The table {name} cannot be found, so it cannot be replaced.",
            hint="Use createOrReplace to make it.",
        )
    if entry is None and managed:
        _empty(location, name)
    modes: dict[str, Mode] = {"create": "create", "replace": "replace"}
    comment = _option(properties, "comment")
    is_new = entry is None and found is not None and found.path is None
    with entering(spark, name, location, managed=managed, comment=comment) if is_new else nullcontext():
        create_as(
            frame,
            location,
            mode=modes.get(verb, "createOrReplace"),
            partition_by=partition_by,
            cluster_by=cluster_by,
            properties={
                k: v for k, v in (properties or {}).items() if k.lower() not in ("location", "comment")
            },
            comment=comment,
            options=options,
            defaults=session_defaults(spark),
            managed=managed,
        )


def _text(spark: SparkSession, log: TableLog, condition: Column) -> str:
    if is_connect(spark):
        text = sql_of(condition)
        if text is None:
            raise OptionError(
                "On Spark Connect this condition of overwrite cannot be written as SQL.",
                hint="Give it as text: overwrite(\"day = '2024-01-31'\").",
            )
        return text
    return catalog.sql_of(current(spark, log.url), condition)


def _only_delta(entry: Entry, name: str) -> None:
    if not entry.is_delta:
        kind = "a view" if entry.is_view else f"a table of the format {entry.provider}"
        raise TableExistsError(
            f"{name} is {kind}; a Delta table cannot be written there.",
            hint="Drop it first, or take another name.",
            errorClass="DELTA_NOT_A_DELTA_TABLE",
        )


def _same_place(entry: Entry, options: Mapping[str, str] | None) -> None:
    path = _option(options, "path")
    if path is not None and TableLog.at(path).url != entry.location:
        raise OptionError(
            f"The table {join_name((entry.database, entry.name))} is at {entry.location}, the option path "
            f"says {path}.",
            hint="Leave the option path out.",
        )


def _empty(location: str, name: str) -> None:
    """A managed table begins where there is nothing."""
    log = TableLog.at(location)
    if next(log.store.list_from("", recursive=True), None) is not None:
        raise TableExistsError(
            f"The managed table {name} would be at {location}, where there are files already.",
            hint="Remove them, or make an external table with the option path.",
            errorClass="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
        )


def _is_dynamic(spark: SparkSession) -> bool:
    return str(spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static")).lower() == "dynamic"


def _option(options: Mapping[str, str] | None, name: str) -> str | None:
    return next((v for k, v in (options or {}).items() if k.lower() == name.lower()), None)
