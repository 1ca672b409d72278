"""The session catalog of a Spark Connect server, by SQL alone.

``SHOW TABLE EXTENDED`` tells what an entry is and where; ``CREATE TABLE`` wants to know the provider, so
where there is none of that name yet, one that serves nothing is registered in the session: reads and
writes by name are answered by the client, before the server ever asks the source.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource

from tidegate.errors import TidegateError
from tidegate.files.paths import HIVE_DEFAULT_PARTITION, unescape_path_name
from tidegate.spark.carried import carried

T = TypeVar("T")


class NameOnly(DataSource):
    """A provider that a catalog can hold."""

    @classmethod
    def name(cls) -> str:
        return "delta"

    def schema(self) -> str:
        return "log string"

    def reader(self, schema: Any) -> Any:
        raise RuntimeError(
            "Tables of the format delta are read by Tidegate, in a session that it is enabled in: "
            "tidegate.enable(spark), then spark.table or spark.sql."
        )


# Executors need not have this package: the module travels with the task.
carried(sys.modules[__name__])


def provided(spark: SparkSession, call: Callable[[], T]) -> T:
    """What ``call`` gives; if the server misses the provider, again after the session has been given one.

    A server looks for the provider of a table whenever it makes, loads or drops one, and what a session has
    registered is gone with it.
    """
    try:
        return call()
    except PySparkException as e:
        if "DATA_SOURCE_NOT_FOUND" not in str(e):
            raise
    spark.dataSource.register(NameOnly)
    return call()


def sql(spark: SparkSession, text: str) -> list[Any]:
    """Rows of a statement that goes to the server as it is."""
    run: Any = type(spark).sql
    return list(provided(spark, lambda: getattr(run, "__wrapped__", run)(spark, text).collect()))


def quoted(*parts: str | None) -> str:
    return ".".join("`" + p.replace("`", "``") + "`" for p in parts if p is not None)


def find(spark: SparkSession, database: str | None, name: str) -> dict[str, str] | None:
    """What the server tells of a table, by its own words: Database, Table, Type, Provider, Location."""
    if database is not None and not database_exists(spark, database):
        return None
    within = "" if database is None else f" IN {quoted(database)}"
    for row in sql(spark, f"SHOW TABLE EXTENDED{within} LIKE '{_pattern(name)}'"):
        if not row.isTemporary and row.tableName.lower() == name.lower():
            told = (line.partition(": ") for line in row.information.splitlines())
            return {key: value for key, found, value in told if found}
    return None


def described(spark: SparkSession, table: str) -> dict[str, Any]:
    """What the server tells of a table in JSON: its comment, times, partition columns and properties."""
    told: dict[str, Any] = json.loads(sql(spark, f"DESCRIBE TABLE EXTENDED {table} AS JSON")[0][0])
    return told


def _pattern(name: str) -> str:
    """A pattern that finds the name, and maybe others: in Spark it is a regular expression."""
    return re.sub(r"\W", ".", name)


def is_temporary_view(spark: SparkSession, name: str) -> bool:
    found = sql(spark, f"SHOW TABLES LIKE '{_pattern(name)}'")
    return any(r.isTemporary and r.tableName.lower() == name.lower() for r in found)


def holds_view(spark: SparkSession, name: str, frame: DataFrame) -> bool:
    """Whether the temporary view ``name`` is there and means ``frame``: the server compares the plans."""
    if not is_temporary_view(spark, name):
        return False
    try:
        return _means(spark, name, frame)
    except (PySparkException, TidegateError):
        # Its files are gone, so that the server cannot look at it: it is an old one of ours.
        return True


def is_same_view(spark: SparkSession, name: str, frame: DataFrame) -> bool:
    """``holds_view`` for a view that is there; one that the server cannot look at is another."""
    try:
        return _means(spark, name, frame)
    except (PySparkException, TidegateError):
        return False


def _means(spark: SparkSession, name: str, frame: DataFrame) -> bool:
    reader = spark.read
    table: Any = type(reader).table
    return bool(frame.sameSemantics(getattr(table, "__wrapped__", table)(reader, quoted(name))))


@dataclass(frozen=True)
class TemporaryView:
    """A temporary view: its columns, and its query if a statement made it.

    Each column is what the query calls it and what the view does.
    """

    columns: tuple[tuple[str, str], ...]
    query: str | None


def temporary_view(spark: SparkSession, name: str) -> TemporaryView | None:
    """What the server tells of a temporary view; None if there is none of that name."""
    if not is_temporary_view(spark, name):
        return None
    told = described(spark, quoted(name))
    names = [str(column["name"]) for column in told["columns"]]
    given = [str(column) for column in told.get("view_query_output_columns") or names]
    return TemporaryView(tuple(zip(given, names, strict=True)), told.get("view_text"))


@dataclass(frozen=True)
class View:
    """A view of the catalog: its query, where names in it are looked up, and its columns.

    Each column is the one of the query and what the view calls it.
    """

    query: str
    database: str
    columns: tuple[tuple[str, str], ...]


def view_of(spark: SparkSession, database: str, name: str) -> View:
    """What the server keeps of a view."""
    rows = sql(spark, f"DESCRIBE TABLE EXTENDED {quoted(database, name)}")
    ends = next(i for i, r in enumerate(rows) if not r.col_name or r.col_name.startswith("#"))
    names = [r.col_name for r in rows[:ends]]
    told = {r.col_name: r.data_type for r in rows[ends:]}
    namespace = told.get("View Catalog and Namespace", "").rpartition(".")[2].strip("`")
    listed = told.get("View Query Output Columns", "").removeprefix("[").removesuffix("]")
    given = [a.replace("``", "`") or b for a, b in re.findall(r"`((?:[^`]|``)*)`|([^`,\s][^`,]*)", listed)]
    columns = zip(given if len(given) == len(names) else names, names, strict=True)
    return View(told["View Text"], namespace or database, tuple(columns))


def partitions(spark: SparkSession, table: str) -> list[tuple[dict[str, str | None], str]]:
    """The partitions of a table that the server keeps them of: the values as text, and where each is."""
    out: list[tuple[dict[str, str | None], str]] = []
    for row in sql(spark, f"SHOW PARTITIONS {table}"):
        pairs = (folder.partition("=") for folder in row.partition.split("/"))
        texts = {unescape_path_name(key): unescape_path_name(value) for key, _, value in pairs}
        given = ", ".join(f"{quoted(key)} = {_literal(text)}" for key, text in texts.items())
        told = iter(sql(spark, f"DESCRIBE TABLE EXTENDED {table} PARTITION ({given})"))
        spec = {key: None if text == HIVE_DEFAULT_PARTITION else text for key, text in texts.items()}
        out.append((spec, plain(_place(told))))
    return out


def _place(told: Iterator[Row]) -> str:
    """The partition's own location: columns may have that name, and the table's comes after it."""
    next(r for r in told if r.col_name == "# Detailed Partition Information")
    return str(next(r.data_type for r in told if r.col_name == "Location"))


def database_exists(spark: SparkSession, name: str) -> bool:
    return bool(spark.catalog.databaseExists(name))


def default_location(spark: SparkSession, database: str | None, name: str) -> str:
    """Where the server puts a managed table of that name."""
    within = database or spark.catalog.currentDatabase()
    rows = sql(spark, f"DESCRIBE DATABASE {quoted(within)}")
    root = next(r.info_value for r in rows if r.info_name == "Location")
    return f"{plain(root)}/{name.lower()}"


def create(
    spark: SparkSession, database: str | None, name: str, location: str | None, comment: str | None
) -> None:
    """Enter a table; without a location a managed one, which the server gives an empty place."""
    said = "" if comment is None else f" COMMENT {_literal(comment)}"
    place = "" if location is None else f" LOCATION {_literal(location)}"
    sql(spark, f"CREATE TABLE {quoted(database, name)} USING delta{said}{place}")


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def drop(spark: SparkSession, database: str, name: str, *, purge: bool) -> None:
    sql(spark, f"DROP TABLE {quoted(database, name)}{' PURGE' if purge else ''}")


def plain(location: str) -> str:
    """A location as we write it."""
    if location.startswith("file:"):
        return "/" + unquote(location.removeprefix("file:")).lstrip("/")
    return location
