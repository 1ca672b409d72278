"""Tables by name: ``saveAsTable``, ``insertInto``, ``writeTo``, ``read.table`` and ``spark.catalog``.

What is hooked, and why: the writers' verbs, since Spark would look for a JVM source behind the name;
``DataFrameReader.table``, for its options (time travel, the change feed); ``SparkSession.table`` and the
making of sessions, so that each session plans our names natively (``commands.catalog.serve``) and those that
``newSession`` derives are enabled too;
``Catalog.listColumns``, since the catalog holds no copy of the schema, and ``Catalog.createTable``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.catalog import Column as ColumnEntry
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2
from pyspark.sql.types import StructType

from tidegate.commands import catalog, named_writes
from tidegate.commands.create import not_bucketed
from tidegate.commands.names import split_name
from tidegate.commands.read import read
from tidegate.commands.views import held, refresh
from tidegate.doors import indextables, references
from tidegate.doors.hooks import derive, frame_of, is_enabled, notes, session_of, text, wrap
from tidegate.doors.said import format_of, options_of, partitions_of
from tidegate.errors import OptionError
from tidegate.schema.paths import split_path
from tidegate.spark.catalog import INDEX_PROVIDERS, PROVIDER, Entry, serve_plans
from tidegate.spark.catalog_references import serve_references
from tidegate.spark.jvm import is_connect
from tidegate.spark.scan.origins import noted
from tidegate.sql.remote_views import reads
from tidegate.table.delta import DeltaTable

INDEX = INDEX_PROVIDERS[0]
_VERBS = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")


def install(
    reader: type = DataFrameReader,
    writer: type = DataFrameWriter,
    writer_to: type = DataFrameWriterV2,
    session: type = SparkSession,
    names: type = Catalog,
) -> None:
    """Hang the doors of tables by name, on the classes of a classic session or of Spark Connect."""
    wrap(writer, "saveAsTable", _save_as_table)
    wrap(writer, "insertInto", _insert_into)
    wrap(writer, "clusterBy", _recording_columns("clusters"))
    wrap(writer, "bucketBy", _recording_buckets)
    wrap(writer_to, "__init__", _recording_name)
    wrap(writer_to, "using", _recording_provider)
    wrap(writer_to, "option", _recording_option)
    wrap(writer_to, "options", _recording_options)
    wrap(writer_to, "tableProperty", _recording_property)
    wrap(writer_to, "partitionedBy", _recording_columns("partitions"))
    wrap(writer_to, "clusterBy", _recording_columns("clusters"))
    for verb in _VERBS:
        wrap(writer_to, verb, _verb(verb))
    wrap(reader, "table", _read_table)
    wrap(session, "table", _table)
    wrap(names, "listColumns", _list_columns)
    wrap(names, "createTable", _create_table)
    if session is SparkSession:
        wrap(session, "__init__", _new_session)
        wrap(session, "newSession", _derived)


def attach(spark: SparkSession) -> None:
    """Plan our names natively in this session, and what views say of paths and versions."""
    if not is_connect(spark):
        serve_plans(spark, _current)
        serve_references(spark, references.planned)


def _current(spark: SparkSession, entry: Entry) -> DataFrame | None:
    """What a name means while the session is enabled; afterwards it is Spark's again."""
    if not is_enabled(spark) or entry.location is None:
        return None
    if entry.is_index:
        frame: DataFrame = indextables.named().current(spark, entry.location)
        return frame
    return catalog.current(spark, entry.location)


# ---------------------------------------------------------------------------- df.write


def _save_as_table(original: Callable[..., Any]) -> Callable[..., Any]:
    def saveAsTable(
        self: Any,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> Any:
        said, spark = notes(self), session_of(self)
        kind = _kind(spark, name, format_of(self, format)) if is_enabled(spark) else None
        if kind is None:
            return original(self, name, format, mode, partitionBy, **options)
        if kind == INDEX:
            _refuse_clusters(said)
            indextables.named().save_as_table(
                frame_of(self),
                name,
                mode=mode or said.get("mode") or "error",
                partition_by=partitions_of(self, partitionBy),
                options=options_of(self, options),
            )
            return None
        if "buckets" in said:
            raise not_bucketed(name)
        named_writes.save_as_table(
            frame_of(self),
            name,
            mode=mode or said.get("mode") or "error",
            partition_by=partitions_of(self, partitionBy),
            cluster_by=said.get("clusters") or (),
            options=options_of(self, options),
        )
        return None

    return saveAsTable


def _insert_into(original: Callable[..., Any]) -> Callable[..., Any]:
    def insertInto(self: Any, tableName: str, overwrite: bool | None = None) -> Any:
        said = notes(self)
        spark = session_of(self)
        kind = _kind(spark, tableName, "") if is_enabled(spark) else None
        if kind is None:
            return original(self, tableName, overwrite)
        if said.get("partitions"):
            raise OptionError(
                "insertInto takes no partitionBy: the table knows its partition columns.",
                hint="Leave partitionBy out.",
            )
        whole = overwrite if overwrite is not None else said.get("mode") == "overwrite"
        if kind == INDEX:
            names = indextables.named()
            where = names.place_of(spark, tableName)
            names.insert_into(frame_of(self), where, overwrite=bool(whole), options=said["options"])
            return None
        named_writes.insert_into(frame_of(self), tableName, overwrite=bool(whole), options=said["options"])
        return None

    return insertInto


def _kind(spark: Any, name: str, chosen: str) -> str | None:
    """Which kind of our tables a write to a name is about, by what it says or by what is there."""
    if chosen:
        return PROVIDER if chosen == PROVIDER else INDEX if chosen in INDEX_PROVIDERS else None
    if catalog.location_of(spark, name) is not None:
        return PROVIDER
    return None if indextables.location_of(spark, name) is None else INDEX


def _refuse_clusters(said: dict[str, Any]) -> None:
    if said.get("clusters"):
        raise OptionError("An index table is not clustered.", hint="Leave clusterBy out.")


# ---------------------------------------------------------------------------- df.writeTo


def _recording_name(original: Callable[..., Any]) -> Callable[..., Any]:
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if is_enabled(session_of(self)):
            table = kwargs.get("table") or next(a for a in args if isinstance(a, str))
            notes(self).update(name=table, properties={})

    return begin


def _recording_provider(original: Callable[..., Any]) -> Callable[..., Any]:
    def using(self: Any, provider: str) -> Any:
        notes(self)["format"] = provider.lower()
        return original(self, provider)

    return using


def _recording_option(original: Callable[..., Any]) -> Callable[..., Any]:
    def option(self: Any, key: str, value: Any) -> Any:
        if value is not None:
            notes(self)["options"][key] = text(value)
        return original(self, key, value)

    return option


def _recording_options(original: Callable[..., Any]) -> Callable[..., Any]:
    def options(self: Any, **given: Any) -> Any:
        notes(self)["options"].update({k: text(v) for k, v in given.items() if v is not None})
        return original(self, **given)

    return options


def _recording_property(original: Callable[..., Any]) -> Callable[..., Any]:
    def tableProperty(self: Any, property: str, value: str) -> Any:
        notes(self)["properties"][property] = text(value)
        return original(self, property, value)

    return tableProperty


def _recording_buckets(original: Callable[..., Any]) -> Callable[..., Any]:
    def bucketBy(self: Any, numBuckets: int, col: Any, *cols: Any) -> Any:
        notes(self)["buckets"] = numBuckets
        return original(self, numBuckets, col, *cols)

    return bucketBy


def _recording_columns(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def recording(original: Callable[..., Any]) -> Callable[..., Any]:
        def columns(self: Any, *cols: Any) -> Any:
            flat = [c for col in cols for c in (col if isinstance(col, list | tuple) else [col])]
            notes(self)[kind] = flat
            return original(self, *cols)

        return columns

    return recording


def _verb(verb: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrapping(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any) -> Any:
            said = notes(self)
            name, spark = said["name"], session_of(self)
            kind = _kind(spark, name, said.get("format") or "") if is_enabled(spark) else None
            if kind is None:
                return original(self, *args)
            if kind == INDEX:
                _refuse_clusters(said)
                indextables.named().write_to(
                    frame_of(self),
                    name,
                    verb,
                    partition_by=[_plain(c, "partitioned") for c in said.get("partitions") or ()],
                    options={**said["properties"], **said["options"]},
                )
                return None
            named_writes.write_to(
                frame_of(self),
                name,
                verb,
                condition=args[0] if args else None,
                partition_by=[_plain(c, "partitioned") for c in said.get("partitions") or ()],
                cluster_by=[_plain(c, "clustered") for c in said.get("clusters") or ()],
                properties=said["properties"],
                options=said["options"],
            )
            return None

        return run

    return wrapping


def _plain(column: Any, how: str) -> str:
    """The name of a column; an expression is no partitioning of a Delta table."""
    if not isinstance(column, Column):
        return str(column)
    shown = str(column)
    name = shown.removeprefix("Column<'").removesuffix("'>")
    if "(" in name:
        raise OptionError(
            f"A Delta table is {how} by columns, not by {name}.",
            hint="Make it a generated column, and take that.",
            errorClass="DELTA_OPERATION_NOT_ALLOWED",
        )
    return split_name(name)[-1] if "`" in name else name


# ---------------------------------------------------------------------------- reading


def _read_table(original: Callable[..., Any]) -> Callable[..., Any]:
    def table(self: Any, tableName: str) -> Any:
        said = notes(self)
        given = said["options"]
        spark = session_of(self)
        if is_enabled(spark):
            refresh(spark)
        if not is_enabled(spark):
            return original(self, tableName)
        if (location := catalog.location_of(spark, tableName)) is not None:
            return read(spark, location, given)
        if (location := indextables.location_of(spark, tableName)) is not None:
            return indextables.read(spark, location, given)
        return _of_view(spark, tableName, original(self, tableName))

    return table


def _table(original: Callable[..., Any]) -> Callable[..., Any]:
    def table(self: Any, tableName: str) -> Any:
        if is_enabled(self):
            attach(self)
            refresh(self)
            if is_connect(self):
                return _remote_table(self, tableName, original)
        return original(self, tableName)

    return table


def _remote_table(spark: Any, name: str, original: Callable[..., Any]) -> Any:
    """A table by name on Spark Connect, where no name of ours is planned on the server."""
    view = held(spark, name)
    if view is not None:
        # By its name the server would look it up when the query runs, whatever it means by then.
        return view[1]
    location = catalog.location_of(spark, name)
    if location is not None:
        return read(spark, location)
    entry = catalog.entry_of(spark, name)
    if entry is not None and entry.is_index and entry.location is not None:
        return indextables.read(spark, entry.location, {})
    if entry is not None and entry.is_view:
        # Its query may read tables of ours.
        return spark.sql(f"SELECT * FROM {name}")
    return original(spark, name) if entry is not None else _of_view(spark, name, original(spark, name))


def _of_view(spark: Any, name: str, frame: Any) -> Any:
    """What a name that is none of ours gave: on Spark Connect a temporary view may read tables of ours."""
    parts = split_path(name) if is_connect(spark) else ()
    return noted(frame, reads(spark, parts[0])) if len(parts) == 1 else frame


def _new_session(original: Callable[..., Any]) -> Callable[..., Any]:
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if is_enabled(self):
            attach(self)

    return begin


def _derived(original: Callable[..., Any]) -> Callable[..., Any]:
    def newSession(self: Any) -> Any:
        made = original(self)
        share(made, self)
        return made

    return newSession


def share(made: Any, origin: Any) -> None:
    """A session that was derived from an enabled one is enabled too."""
    if derive(made, origin):
        attach(made)


def _create_table(original: Callable[..., Any]) -> Callable[..., Any]:
    def createTable(
        self: Any,
        tableName: str,
        path: str | None = None,
        source: str | None = None,
        schema: StructType | None = None,
        description: str | None = None,
        **options: str,
    ) -> Any:
        spark = self._sparkSession
        kind = source or (spark.conf.get("spark.sql.sources.default", "") if is_enabled(spark) else "")
        if not is_enabled(spark) or (kind or "").lower() != PROVIDER:
            return original(self, tableName, path, source, schema, description, **options)
        builder = DeltaTable.create(spark).tableName(tableName)
        where = path or next((str(v) for k, v in options.items() if k.lower() == "path"), None)
        builder = builder if where is None else builder.location(where)
        builder = builder if schema is None else builder.addColumns(schema)
        builder = builder if description is None else builder.comment(description)
        builder.execute()
        return spark.table(tableName)

    return createTable


def _list_columns(original: Callable[..., Any]) -> Callable[..., Any]:
    def listColumns(self: Any, tableName: str, dbName: str | None = None) -> Any:
        spark = self._sparkSession
        name = tableName if dbName is None else f"`{dbName}`.{tableName}"
        found = _columns(spark, name) if is_enabled(spark) else None
        if found is None:
            return original(self, tableName, dbName)
        return [
            ColumnEntry(
                name=c.name,
                description=c.comment,
                dataType=c.type,
                nullable=c.nullable,
                isPartition=c.is_partition,
                isBucket=False,
                isCluster=c.is_clustering,
            )
            for c in found
        ]

    return listColumns


def _columns(spark: Any, name: str) -> list[catalog.ColumnInfo] | None:
    """The columns of a table of ours; None if the name is another's."""
    if (location := catalog.location_of(spark, name)) is not None:
        return catalog.columns_of(location)
    if (location := indextables.location_of(spark, name)) is not None:
        found: list[catalog.ColumnInfo] = indextables.named().columns_of(location)
        return found
    return None
