"""The place of a table that is named: by the session's catalog, or by its path as ``delta.`/path```."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidegate.commands import catalog
from tidegate.commands.names import split_name
from tidegate.errors import (
    NotATableError,
    OptionError,
    TableExistsError,
    TableNotFoundError,
    TidegateError,
)
from tidegate.log.table_log import TableLog
from tidegate.spark.catalog import SESSION_CATALOG, Entry


@dataclass(frozen=True)
class Place:
    """Where a table is, what the catalog calls it, and whether it has yet to be told."""

    path: str
    name: str | None = None
    managed: bool = False
    is_new: bool = False
    # What the name stands for now, where that is no Delta table.
    stands_for: Entry | None = None


def path_in(identifier: str) -> str | None:
    """The path in ``delta.`/path```, None for a name or a bare path."""
    try:
        parts = split_name(identifier)
    except TidegateError:
        return None
    return parts[1] if len(parts) == 2 and parts[0].lower() == "delta" and "/" in parts[1] else None


def place(
    spark: SparkSession, identifier: str | None, location: str | None, *, over_others: bool = False
) -> Place:
    """Where a table that is to be made, or replaced, is; ``over_others``: in place of another format too."""
    if identifier is None:
        if location is None:
            raise OptionError(
                "A table needs a name or a location.",
                hint="Call tableName or location.",
                errorClass="DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION",
            )
        return Place(location)
    path = path_in(identifier)
    if path is not None:
        if location is not None and TableLog.at(location).url != TableLog.at(path).url:
            raise OptionError(
                f"The table is named by its path {path}, and its location is {location}.",
                hint="Leave the location out.",
                errorClass="DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH",
            )
        return Place(path)
    entry = catalog.entry_of(spark, identifier)
    if entry is not None and (entry.is_view or not (entry.is_delta or over_others)):
        raise NotATableError(
            f"{identifier} is not a Delta table: it is "
            f"{'a view' if entry.is_view else f'a table of the format {entry.provider}'}.",
            hint="Drop it first, or take another name.",
            errorClass="DELTA_NOT_A_DELTA_TABLE"
            if not entry.is_view
            else "DELTA_ONLY_OPERATION"
            if over_others
            else "DELTA_CANNOT_WRITE_INTO_VIEW",
        )
    if entry is not None and entry.location is not None:
        if location is not None and TableLog.at(location).url != TableLog.at(entry.location).url:
            raise OptionError(
                f"The table {identifier} is at {entry.location}, not at {location}.",
                errorClass="DELTA_TABLE_LOCATION_MISMATCH",
            )
        return Place(entry.location, identifier, entry.managed, stands_for=None if entry.is_delta else entry)
    _, where, managed = catalog.place_for(spark, identifier, location)
    return Place(where, identifier, managed, is_new=True)


def target(spark: SparkSession, text: str, *, replace: bool) -> Place:
    """Where a clone goes: a path, ``delta.`/path```, or a name that is free unless it is to be replaced."""
    if path_in(text) is None and ("/" in text or "://" in text):
        return Place(text)
    found = place(spark, text, None, over_others=True)
    if found.name is not None and not found.is_new and not replace:
        raise TableExistsError(
            f"The table {text} already exists.",
            table=found.path,
            hint="Clone to another name, or replace an empty table with replace=True.",
            errorClass="DELTA_TABLE_ALREADY_EXISTS",
        )
    return found


@contextmanager
def looking_for(name: str) -> Iterator[None]:
    """What the block looks for by ``name`` is a Delta table, or the error says that it is none."""
    try:
        yield
    except (NotATableError, TableNotFoundError) as e:
        said = (
            e.message if "is not a Delta table" in e.message else f"{name} is not a Delta table. {e.message}"
        )
        raise type(e)(said, table=e.table, hint=e.hint, errorClass="DELTA_MISSING_DELTA_TABLE") from None


def entering(spark: SparkSession, where: Place, comment: str | None = None) -> AbstractContextManager[None]:
    """Tell the catalog of the table that the block makes, if it does not know it."""
    if where.stands_for is not None:
        return _moving(spark, where.stands_for, where.path)
    if where.name is None or not where.is_new:
        return nullcontext()
    return catalog.entering(spark, where.name, where.path, managed=where.managed, comment=comment)


@contextmanager
def _moving(spark: SparkSession, entry: Entry, path: str) -> Iterator[None]:
    """Let a name of a table of another format stand for the Delta table that the block makes in its place."""
    catalog.check_movable(spark, entry)
    yield
    catalog.move(spark, entry, path)


def table_named(spark: SparkSession, identifier: str) -> str | None:
    """``identifier`` if the catalog knows a table by it, None if it names a path."""
    return None if catalog.entry_of(spark, identifier) is None else identifier


def full_name(entry: Entry) -> str:
    """A table's name with its database and its catalog, as the history writes it."""
    return ".".join((SESSION_CATALOG, entry.database, entry.name))
