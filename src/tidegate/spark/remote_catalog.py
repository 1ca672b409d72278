"""The session catalog of a Spark Connect server, by SQL alone.

``SHOW TABLE EXTENDED`` tells what an entry is and where; ``CREATE TABLE`` wants to know the provider, so
where there is none of that name yet, one that serves nothing is registered in the session: reads and
writes by name are answered by the client, before the server ever asks the source.
"""

from __future__ import annotations

import re
import sys
from typing import Any
from urllib.parse import unquote

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource


class NameOnly(DataSource):
    """A provider that a catalog can hold."""

    @classmethod
    def name(cls) -> str:
        return "delta"

    def schema(self) -> str:
        return "log string"

    def reader(self, schema: Any) -> Any:
        raise RuntimeError(
            "A table of Tidegate's is read by an enabled session, by spark.table or spark.sql."
        )


# Executors need not have this package: the module travels with the task. PySpark's cloudpickle is untyped.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def sql(spark: SparkSession, text: str) -> list[Any]:
    """Rows of a statement that goes to the server as it is."""
    run: Any = type(spark).sql
    return list(getattr(run, "__wrapped__", run)(spark, text).collect())


def quoted(*parts: str | None) -> str:
    return ".".join("`" + p.replace("`", "``") + "`" for p in parts if p is not None)


def find(spark: SparkSession, database: str | None, name: str) -> dict[str, str] | None:
    """What the server tells of a table, by its own words: Database, Table, Type, Provider, Location."""
    if not re.fullmatch(r"\w+", name):
        return None
    within = database or spark.catalog.currentDatabase()
    if not database_exists(spark, within):
        return None
    for row in sql(spark, f"SHOW TABLE EXTENDED IN {quoted(within)} LIKE '{name}'"):
        if not row.isTemporary and row.tableName.lower() == name.lower():
            told = (line.partition(": ") for line in row.information.splitlines())
            return {key: value for key, found, value in told if found}
    return None


def is_temporary_view(spark: SparkSession, name: str) -> bool:
    return any(t.isTemporary and t.name.lower() == name.lower() for t in spark.catalog.listTables())


def database_exists(spark: SparkSession, name: str) -> bool:
    return bool(spark.catalog.databaseExists(name))


def default_location(spark: SparkSession, database: str | None, name: str) -> str:
    """Where the server puts a managed table of that name."""
    within = database or spark.catalog.currentDatabase()
    rows = sql(spark, f"DESCRIBE DATABASE {quoted(within)}")
    root = next(r.info_value for r in rows if r.info_name == "Location")
    return f"{plain(root)}/{name.lower()}"


def create(spark: SparkSession, database: str | None, name: str, location: str, comment: str | None) -> None:
    """Enter an external table; the server gives managed ones a place only where nothing is yet."""
    said = "" if comment is None else " COMMENT '" + comment.replace("\\", "\\\\").replace("'", "\\'") + "'"
    place = location.replace("\\", "\\\\").replace("'", "\\'")
    text = f"CREATE TABLE {quoted(database, name)} USING delta{said} LOCATION '{place}'"
    try:
        sql(spark, text)
    except PySparkException as e:
        if "DATA_SOURCE_NOT_FOUND" not in str(e):
            raise
        spark.dataSource.register(NameOnly)
        sql(spark, text)


def drop(spark: SparkSession, database: str, name: str, *, purge: bool) -> None:
    sql(spark, f"DROP TABLE {quoted(database, name)}{' PURGE' if purge else ''}")


def plain(location: str) -> str:
    """A location as we write it."""
    if location.startswith("file:"):
        return "/" + unquote(location.removeprefix("file:")).lstrip("/")
    return location
