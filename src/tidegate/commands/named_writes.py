"""Tables written by name: ``saveAsTable``, ``insertInto`` and ``writeTo``.

A name that the catalog knows is written where its table lies, if it is one of ours. A new one gets a place
that is empty, is written first, and is entered in the catalog after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from pyspark.sql import Column, DataFrame, SparkSession

from tidegate.commands.catalog import current, entering, entry_of, log_of, place_for
from tidegate.commands.create import check_empty, existing
from tidegate.commands.create_as import Mode, create_as
from tidegate.commands.names import join_name
from tidegate.commands.write import Saved, write
from tidegate.errors import (
    OptionError,
    SchemaInvalidError,
    TableExistsError,
    TableNotFoundError,
)
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.spark import catalog
from tidegate.spark.catalog import Entry
from tidegate.spark.confs import session_defaults
from tidegate.spark.jvm import is_connect
from tidegate.spark.remote_columns import sql_of
from tidegate.spark.write.positions import by_position


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
            saved=Saved(entry.managed),
            by_policy=mode == "append",
        )
        return
    path = _option(options, "path")
    found, location, managed = place_for(spark, name, path)
    make: Mode = "createOrReplace" if mode == "overwrite" else "create"
    if managed:
        _empty(location, name)
    elif found.path is None and mode != "overwrite":
        _new_place(location, name)
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
    write(frame, log.url, mode="overwrite" if overwrite else "append", options=given, by_policy=True)


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
    base: Snapshot | None = None,
) -> None:
    """``df.writeTo``: one of its verbs, on a table by name; what is replaced is ``base``, if it is given."""
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
        mode = "append" if verb == "append" else "overwrite"
        write(frame, log.url, mode=mode, options=given, by_policy=True)
        return
    if verb != "create" and (_option(options, "overwriteSchema") or "true").lower() == "false":
        raise OptionError(
            f"{verb} gives the table a new schema, so it goes with no overwriteSchema = false.",
            hint="Leave the option out, or overwrite the rows alone.",
            errorClass="DELTA_ILLEGAL_USAGE",
        )
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
    elif entry is None and verb == "create":
        _new_place(location, name)
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
            base=base,
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
            errorClass="DELTA_TABLE_LOCATION_MISMATCH",
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


def _new_place(location: str, name: str) -> None:
    """An external table begins where there is nothing, or is entered with the log that is there."""
    log = TableLog.at(location)
    if existing(log) is None:
        check_empty(log, name)


def _is_dynamic(spark: SparkSession) -> bool:
    return str(spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static")).lower() == "dynamic"


def _option(options: Mapping[str, str] | None, name: str) -> str | None:
    return next((v for k, v in (options or {}).items() if k.lower() == name.lower()), None)
