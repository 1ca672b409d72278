"""Index tables by name: found in Spark's session catalog, entered there, written by name.

The catalog knows where a table is; what it is, its log says. A table is written first and entered after, so
that no name points at nothing. Dropping is what ``commands.catalog`` does for every table.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.commands import catalog as names
from tidegate.errors import NotATableError, OptionError, SchemaInvalidError, TableExistsError
from tidegate.index.log import IndexLog
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.write import session_conf, write
from tidegate.spark import catalog
from tidegate.spark.catalog import INDEX_PROVIDERS, Entry
from tidegate.spark.jvm import is_connect
from tidegate.spark.scan.projection import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = INDEX_PROVIDERS[0]
_KEEPS = "An index table keeps the columns it was created with: DROP TABLE it first, or take another name."
_OVERWRITE = 'Write with df.write.mode("overwrite"), with the option replaceWhere for some partitions.'

_held: weakref.WeakKeyDictionary[SparkSession, dict[str, tuple[Any, DataFrame]]] = weakref.WeakKeyDictionary()


def place_of(spark: SparkSession, name: str) -> str:
    """Where the index table of that name is; an error that says what is wrong with the name."""
    entry = names.entry_of(spark, name)
    if entry is None:
        raise names.not_found(name)
    if not entry.is_index or entry.location is None:
        raise NotATableError(f"{name} is {_kind(entry)}, not an index table.")
    return entry.location


def _kind(entry: Entry) -> str:
    return "a view" if entry.is_view else f"a table of the format {entry.provider}"


def current(spark: SparkSession, location: str) -> DataFrame:
    """The table at ``location`` as it is now; the same DataFrame as before if nothing is new."""
    confs = session_conf(spark)
    snapshot = IndexLog.at(location, options=confs).snapshot()
    seen = (snapshot.metadata.id, snapshot.version, tuple(sorted(confs.items())))
    known = _held.setdefault(spark, {})
    before = known.get(location)
    # A companion shows its Delta table, which goes on by itself.
    if before is not None and before[0] == seen and not _is_companion(snapshot):
        return before[1]
    frame = spark.read.format(FORMAT).load(location)
    known[location] = (seen, frame)
    return frame


def _is_companion(snapshot: IndexSnapshot) -> bool:
    from tidegate.index.write import COMPANION

    return snapshot.configuration.get(COMPANION) == "true"


def columns_of(location: str) -> list[names.ColumnInfo]:
    """The columns of the table at ``location``, as its log has them now."""
    snapshot = IndexLog.at(location).snapshot()
    partitions = {c.lower() for c in snapshot.partition_columns}
    return [
        names.ColumnInfo(
            f.name,
            spark_type(f.type).simpleString(),
            f.nullable,
            f.metadata.get("comment"),
            f.name.lower() in partitions,
            False,
        )
        for f in snapshot.schema.fields
    ]


# ---------------------------------------------------------------------------- making


def check_new(spark: SparkSession, name: str, path: str | None) -> tuple[str, bool]:
    """Where a table that is to get this name will be, and whether the catalog keeps its files."""
    if is_connect(spark):
        raise OptionError(
            "On Spark Connect index tables are not entered into the catalog.",
            hint="Write to the path, or make the table in a classic session of the same catalog.",
        )
    found, location, managed = names.place_for(spark, name, path)
    if found.path is not None:
        raise OptionError(f"{name} is the path of a Delta table, not a name for an index table.")
    log = IndexLog.at(location)
    if managed and next(log.log.store.list_from("", recursive=True), None) is not None:
        raise TableExistsError(
            f"The managed table {name} would be at {location}, where there are files already.",
            hint="Remove them, or make an external table with LOCATION or the option path.",
            errorClass="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
        )
    return location, managed


def enter(
    spark: SparkSession, name: str, location: str, *, managed: bool, comment: str | None = None
) -> None:
    """Enter the index table at ``location`` under a name."""
    found = names.table_name(spark, name)
    assert found is not None
    if catalog.find(spark, found.database, found.table) is not None:
        raise exists(name)
    catalog.create(
        spark, found.database, found.table, location, managed=managed, comment=comment, provider=FORMAT
    )


def exists(name: str, hint: str = "Use the mode append or overwrite.") -> TableExistsError:
    return TableExistsError(
        f"There is a table or view {name} already.", hint=hint, errorClass="TABLE_OR_VIEW_ALREADY_EXISTS"
    )


# ---------------------------------------------------------------------------- writing


def save_as_table(
    frame: DataFrame,
    name: str,
    *,
    mode: str = "error",
    partition_by: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> None:
    """``df.write.format("indextables").saveAsTable``: make the table, append to it, or overwrite its rows."""
    spark = frame.sparkSession
    mode = mode.lower()
    given = {k: v for k, v in (options or {}).items() if k.lower() != "path"}
    path = next((v for k, v in (options or {}).items() if k.lower() == "path"), None)
    entry = names.entry_of(spark, name)
    if entry is None:
        location, managed = check_new(spark, name, path)
        write(frame, location, mode=mode, partition_by=partition_by, options=given)
        enter(spark, name, location, managed=managed, comment=comment)
        return
    if not entry.is_index or entry.location is None:
        raise TableExistsError(
            f"{name} is {_kind(entry)}; an index table cannot be written there.",
            hint="Drop it first, or take another name.",
        )
    if mode in ("error", "errorifexists"):
        raise exists(name)
    if path is not None and IndexLog.at(path).url != IndexLog.at(entry.location).url:
        raise OptionError(
            f"The table {name} is at {entry.location}, the option path says {path}.",
            hint="Leave the option path out.",
        )
    if mode != "ignore":
        write(frame, entry.location, mode=mode, partition_by=partition_by, options=given)


def insert_into(
    frame: DataFrame, location: str, *, overwrite: bool = False, options: Mapping[str, str] | None = None
) -> None:
    """``df.write.insertInto``: by position, whatever the columns are called."""
    schema = IndexLog.at(location).snapshot().schema
    if len(frame.columns) != len(schema.fields):
        raise SchemaInvalidError(
            f"insertInto goes by position: the data has {len(frame.columns)} columns, the table "
            f"{len(schema.fields)} ({', '.join(schema.names)}).",
            table=location,
            hint="Append with saveAsTable to go by name.",
        )
    named = frame.toDF(*schema.names)
    write(named, location, mode="overwrite" if overwrite else "append", options=options)


def write_to(
    frame: DataFrame,
    name: str,
    verb: str,
    *,
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> None:
    """``df.writeTo``: the verbs that an index table has, ``create`` and ``append``."""
    if verb not in ("create", "append"):
        raise OptionError(
            f"writeTo(...).{verb}() is not served for index tables.",
            hint=_OVERWRITE if verb.startswith("overwrite") else _KEEPS,
        )
    if verb == "append":
        place_of(frame.sparkSession, name)
    mode = "append" if verb == "append" else "error"
    save_as_table(frame, name, mode=mode, partition_by=list(partition_by) or None, options=options)
