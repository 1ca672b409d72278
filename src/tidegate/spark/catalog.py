"""Spark's session catalog as a place for our tables: entries made, found, dropped, planned.

An entry holds a name, a location and the provider (``delta``, ``indextables``), and no more: schema and
properties are the log's, so no copy of them can grow stale. Spark's own analyser asks ``CatalogPlans.java``
for the plan of such an entry each time a query is analysed and gets a native scan of the newest version; it
asks once for each name in a query, so all scans of one query see one version.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, SparkSession

from tidegate.errors import TidegateError
from tidegate.files.paths import HIVE_DEFAULT_PARTITION
from tidegate.spark import failures, jvm, remote_catalog
from tidegate.spark.session_ids import session_id, standing_for

_log = logging.getLogger(__name__)

PROVIDER = "delta"
# Index tables: the name that is written, and the one that others have written before.
INDEX_PROVIDERS = ("indextables", "tantivy4spark")
SESSION_CATALOG = "spark_catalog"
_CATALOG = "org.apache.spark.sql.catalyst.catalog"

_served: weakref.WeakSet[SparkSession] = weakref.WeakSet()


@dataclass(frozen=True)
class Entry:
    """One table of the catalog, by its qualified name."""

    database: str
    name: str
    provider: str | None
    location: str | None
    managed: bool
    is_view: bool

    @property
    def is_delta(self) -> bool:
        return not self.is_view and (self.provider or "").lower() == PROVIDER

    @property
    def is_index(self) -> bool:
        return not self.is_view and (self.provider or "").lower() in INDEX_PROVIDERS

    @property
    def qualified(self) -> str:
        return ".".join("`" + p.replace("`", "``") + "`" for p in (SESSION_CATALOG, self.database, self.name))


@dataclass(frozen=True)
class Kept:
    """What the catalog itself keeps of a table of another format."""

    comment: str | None
    created: datetime | None
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]


def _catalog(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().catalog()


def _identifier(spark: SparkSession, database: str | None, name: str) -> Any:
    gateway = jvm.gateway_of(spark)
    option = gateway.scala.Option.apply(database)
    bare = gateway.org.apache.spark.sql.catalyst.TableIdentifier(name, option)
    return _catalog(spark).qualifyIdentifier(bare)


def is_temporary_view(spark: SparkSession, name: str) -> bool:
    """Whether a name of one part is a temporary view's, which hides every table."""
    if jvm.is_connect(spark):
        return remote_catalog.is_temporary_view(spark, name)
    gateway = jvm.gateway_of(spark)
    bare = gateway.org.apache.spark.sql.catalyst.TableIdentifier(name, gateway.scala.Option.empty())
    return bool(_catalog(spark).isTempView(bare))


def find(spark: SparkSession, database: str | None, name: str) -> Entry | None:
    """The table or view of that name, None if the catalog has none."""
    if jvm.is_connect(spark):
        told = remote_catalog.find(spark, database, name)
        return None if told is None else _remote_entry(told)
    catalog = _catalog(spark)
    identifier = _identifier(spark, database, name)
    if not catalog.databaseExists(identifier.database().get()) or not catalog.tableExists(identifier):
        return None
    return _entry(catalog.getTableMetadata(identifier))


def _entry(table: Any) -> Entry:
    identifier = table.identifier()
    provider, place = table.provider(), table.storage().locationUri()
    kind = table.tableType().name()
    return Entry(
        identifier.database().get(),
        identifier.table(),
        provider.get() if provider.isDefined() else None,
        _plain(place.get()) if place.isDefined() else None,
        kind == "MANAGED",
        kind == "VIEW",
    )


def kept(spark: SparkSession, entry: Entry) -> Kept:
    """What the catalog keeps of a table beside its place."""
    if jvm.is_connect(spark):
        told = remote_catalog.described(spark, entry.qualified)
        moment = told.get("created_time")
        return Kept(
            told.get("comment"),
            None if moment is None else datetime.fromisoformat(moment.replace("Z", "+00:00")),
            tuple(told.get("partition_columns", ())),
            dict(told.get("table_properties", {})),
        )
    table = _catalog(spark).getTableMetadata(_identifier(spark, entry.database, entry.name))
    comment = table.comment()
    properties = {str(p._1()): str(p._2()) for p in _each(table.properties())}
    return Kept(
        comment.get() if comment.isDefined() else None,
        datetime.fromtimestamp(table.createTime() / 1000, timezone.utc),
        tuple(str(name) for name in _each(table.partitionColumnNames())),
        properties,
    )


def _each(values: Any) -> Iterator[Any]:
    """The members of a Scala collection."""
    found = values.iterator()
    while found.hasNext():
        yield found.next()


def _remote_entry(told: Mapping[str, str]) -> Entry:
    place = told.get("Location")
    return Entry(
        told["Database"],
        told["Table"],
        told.get("Provider"),
        None if place is None else remote_catalog.plain(place),
        told.get("Type") == "MANAGED",
        told.get("Type") == "VIEW",
    )


def _plain(uri: Any) -> str:
    """A location as we write it: a path on this machine bare, everything else as a URL."""
    scheme = uri.getScheme()
    return str(uri.getPath()) if scheme in (None, "file") else str(uri.toString())


def partitions(spark: SparkSession, entry: Entry) -> list[tuple[dict[str, str | None], str]]:
    """The partitions of a table that the catalog keeps them of: the values as text, and where each is."""
    if jvm.is_connect(spark):
        return remote_catalog.partitions(spark, entry.qualified)
    catalog = _catalog(spark)
    none = jvm.gateway_of(spark).scala.Option.empty()
    out: list[tuple[dict[str, str | None], str]] = []
    for partition in _each(catalog.listPartitions(_identifier(spark, entry.database, entry.name), none)):
        spec: dict[str, str | None] = {}
        for pair in _each(partition.spec()):
            spec[str(pair._1())] = None if pair._2() in (None, HIVE_DEFAULT_PARTITION) else str(pair._2())
        out.append((spec, _plain(partition.location())))
    return out


def default_location(spark: SparkSession, database: str | None, name: str) -> str:
    """Where a managed table of that name belongs."""
    if jvm.is_connect(spark):
        return remote_catalog.default_location(spark, database, name)
    return _plain(_catalog(spark).defaultTablePath(_identifier(spark, database, name)))


def enters_managed_first(spark: SparkSession) -> bool:
    """Whether a managed table must be entered before it is made: a server refuses a place that has files."""
    return jvm.is_connect(spark)


def create(
    spark: SparkSession,
    database: str | None,
    name: str,
    location: str,
    *,
    managed: bool,
    comment: str | None = None,
    provider: str = PROVIDER,
) -> Entry:
    """Enter a table into the catalog; Spark's own errors where the name is taken or not legal."""
    if jvm.is_connect(spark):
        assert provider == PROVIDER
        remote_catalog.create(spark, database, name, None if managed else location, comment)
        made = find(spark, database, name)
        assert made is not None
        return made
    table = _definition(spark, database, name, location, managed=managed, comment=comment, provider=provider)
    _catalog(spark).createTable(table, False, False)
    return _entry(table)


def place(spark: SparkSession, entry: Entry, location: str) -> None:
    """Let a name that is there stand for the Delta table at ``location``, whatever it stood for before."""
    if jvm.is_connect(spark):
        # An external one alone: its files stay where they are when the name goes.
        remote_catalog.drop(spark, entry.database, entry.name, purge=False)
        remote_catalog.create(spark, entry.database, entry.name, location, None)
        return
    catalog = _catalog(spark)
    catalog.invalidateCachedTable(_identifier(spark, entry.database, entry.name))
    catalog.alterTable(_definition(spark, entry.database, entry.name, location, managed=entry.managed))


def _definition(
    spark: SparkSession,
    database: str | None,
    name: str,
    location: str,
    *,
    managed: bool,
    comment: str | None = None,
    provider: str = PROVIDER,
) -> Any:
    """An entry as the catalog keeps it, without a schema."""
    gateway = jvm.gateway_of(spark)
    option = gateway.scala.Option
    kinds = gateway.org.apache.spark.sql.catalyst.catalog
    empty = getattr(getattr(kinds, "CatalogStorageFormat$"), "MODULE$").empty()
    arity = _arity(gateway, "CatalogStorageFormat")
    rest = [getattr(empty, f"copy$default${i}")() for i in range(2, arity + 1)]
    uri = gateway.java.net.URI(_as_uri(location))
    types = getattr(getattr(kinds, "CatalogTableType$"), "MODULE$")
    given = {
        1: _identifier(spark, database, name),
        2: types.MANAGED() if managed else types.EXTERNAL(),
        3: empty.copy(option.apply(uri), *rest),
        4: gateway.org.apache.spark.sql.types.StructType(),
        5: option.apply(provider),
    }
    if comment is not None:
        given[15] = option.apply(comment)
    companion = getattr(getattr(kinds, "CatalogTable$"), "MODULE$")
    count = _arity(gateway, "CatalogTable")
    values = [
        given[i] if i in given else getattr(companion, f"apply$default${i}")() for i in range(1, count + 1)
    ]
    return kinds.CatalogTable(*values)


def _arity(gateway: Any, name: str) -> int:
    """How many parameters a case class has, which differs between releases."""
    kind = gateway.java.lang.Class.forName(f"{_CATALOG}.{name}")
    return int(kind.getConstructors()[0].getParameterCount())


def _as_uri(location: str) -> str:
    return "file:" + quote(location) if location.startswith("/") else location


def drop(spark: SparkSession, entry: Entry, *, purge: bool = False) -> None:
    """Take a table out of the catalog; the files of a managed one go with it."""
    if jvm.is_connect(spark):
        remote_catalog.drop(spark, entry.database, entry.name, purge=purge)
        return
    catalog = _catalog(spark)
    identifier = _identifier(spark, entry.database, entry.name)
    catalog.invalidateCachedTable(identifier)
    catalog.dropTable(identifier, False, purge)


def database_exists(spark: SparkSession, name: str) -> bool:
    if jvm.is_connect(spark):
        return remote_catalog.database_exists(spark, name)
    return bool(_catalog(spark).databaseExists(name))


def serve_plans(spark: SparkSession, scan: Callable[[SparkSession, Entry], DataFrame | None]) -> bool:
    """From here on names of our tables are planned by ``scan``, given the entry; once is enough.

    ``scan`` answers None where it leaves a table to Spark. False where this Spark has no such place.
    """
    if spark in _served:
        return True
    # By the id: the object at hand may go while others stand for the same session.
    key = session_id(spark)

    def plan(table: Any) -> Any:
        session = standing_for(key)
        entry = _entry(table)
        if session is None or entry.location is None:
            return None
        try:
            found = scan(session, entry)
        except TidegateError as e:
            failures.watch(entry.location, entry.location)
            raise failures.through_spark(e) from e
        return None if found is None else plan_of(found)

    try:
        done = jvm.compiled(spark, "CatalogPlans.java").install(_catalog(spark), jvm.JavaFunction(plan))
    except Exception:
        _log.warning("this Spark keeps its plans elsewhere; names are read by the source", exc_info=True)
        return False
    if done:
        _served.add(spark)
    return bool(done)


def plan_of(frame: DataFrame) -> Any:
    """The plan of a frame, with columns that no other plan of it has.

    So two frames over one table can be joined by their columns, as those over two tables.
    """
    return frame.toDF(*frame.columns)._jdf.queryExecution().analyzed()


def sql_of(table: DataFrame, condition: Column) -> str:
    """A condition on the rows of a table, from a classic session, as SQL text."""
    found = table.where(condition)._jdf.queryExecution().analyzed().condition()
    return jvm.sql_text(table.sparkSession, found)


def holds_view(spark: SparkSession, name: str, frame: DataFrame) -> bool:
    """Whether the temporary view ``name`` is still the one that was made from ``frame``."""
    if jvm.is_connect(spark):
        return remote_catalog.holds_view(spark, name, frame)
    if not is_made_of_frame(spark, name):
        return False
    plan = _catalog(spark).getRawTempView(name).get().plan().get()
    return bool(plan.equals(frame._jdf.queryExecution().analyzed()))


def is_made_of_frame(spark: SparkSession, name: str) -> bool:
    """Whether the temporary view ``name`` holds the plan of a DataFrame, not a text."""
    if jvm.is_connect(spark):
        view = remote_catalog.temporary_view(spark, name)
        return view is not None and view.query is None
    found = _catalog(spark).getRawTempView(name)
    return bool(found.isDefined() and found.get().plan().isDefined())
