"""``run``: one statement, ours to the command that does it, any other to Spark as it came.

A statement is ours if its kind is Delta's alone or its table is a Delta table. Else the text goes to
Spark, with nothing but the places replaced that Spark cannot plan; without such places it is not
touched at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import SqlSyntaxError
from tidegate.sql import nodes, rows, services, shown, tables
from tidegate.sql.context import Context, SparkSql
from tidegate.sql.parameters import bound
from tidegate.sql.parse import Unreadable, parse
from tidegate.sql.references import references

Runner = Callable[[Context, Any], DataFrame]

_DELTA_ONLY: dict[type[nodes.Statement], Runner] = {
    nodes.Vacuum: services.vacuum,
    nodes.Optimize: services.optimize,
    nodes.Reorg: services.reorg,
    nodes.Restore: services.restore,
    nodes.Convert: services.convert,
    nodes.Generate: services.generate,
}
_SHARED: dict[type[nodes.Statement], Runner] = {
    nodes.Describe: shown.describe,
    nodes.Show: shown.show,
    nodes.Insert: rows.insert,
    nodes.Update: rows.update,
    nodes.Delete: rows.delete,
    nodes.Merge: rows.merge,
    nodes.Truncate: rows.truncate,
    nodes.Drop: tables.drop,
    nodes.Alter: tables.alter,
}


def run(spark: SparkSession, spark_sql: SparkSql, text: str, arguments: Any = None) -> DataFrame:
    """Run one statement; ``spark_sql`` is Spark's own way to do it."""
    context = Context(spark, spark_sql)
    try:
        node = parse(bound(text, arguments))
    except Unreadable as e:
        # Spark may know better, unless the statement speaks of a table by its path: then it is ours.
        if any(getattr(f.what, "path", None) for f in _found(text)):
            raise e.cause from None
        node = None
    except SqlSyntaxError:
        if not _begins_ours(text):
            return context.through(text, arguments)
        raise
    if node is not None:
        runner = _runner(context, node)
        if runner is not None:
            return runner(context, node)
    return context.query(text, arguments)


def _runner(context: Context, node: nodes.Statement) -> Runner | None:
    if type(node) in _DELTA_ONLY:
        return _DELTA_ONLY[type(node)]
    if isinstance(node, nodes.Create):
        return tables.create if tables.creates_ours(context, node) else None
    if isinstance(node, nodes.Describe) and node.what in ("detail", "history"):
        return shown.describe
    return _SHARED[type(node)] if context.is_ours(node.table) else None


def _found(text: str) -> list[Any]:
    try:
        return list(references(text))
    except SqlSyntaxError:
        return []


def _begins_ours(text: str) -> bool:
    """Whether a statement that cannot be read begins with a word that only Delta knows."""
    first = text.split(None, 1)[0].upper() if text.split() else ""
    return first in ("VACUUM", "OPTIMIZE", "REORG", "RESTORE", "CONVERT", "GENERATE", "DESCRIBE", "DESC")
