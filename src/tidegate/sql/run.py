"""``run``: one statement, ours to the command that does it, any other to Spark as it came.

A statement is ours if its kind is Delta's alone or its table is a Delta table. Else the text goes to
Spark, with nothing but the places replaced that Spark cannot plan; without such places it is not
touched at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.commands import catalog
from tidegate.errors import OptionError, SqlSyntaxError, TidegateError
from tidegate.spark.catalog import INDEX_PROVIDERS
from tidegate.sql import altered, nodes, rows, services, shown, tables
from tidegate.sql.context import Context, SparkSql
from tidegate.sql.dialect import tokens_of, unread
from tidegate.sql.index_statements import index_path
from tidegate.sql.located import located, located_in_query
from tidegate.sql.parameters import bound
from tidegate.sql.parse import DELTA_ONLY, Unreadable, parse, says_delta
from tidegate.sql.queries import query
from tidegate.sql.references import references
from tidegate.sql.view_targets import view_target

Runner = Callable[[Context, Any], DataFrame]


def _index(context: Context, node: nodes.Index) -> DataFrame:
    """A statement of an index table, which needs what only the extra brings."""
    from tidegate.sql import index_run

    return index_run.run(context, node)


def _of_index(action: str) -> Runner:
    """A statement of any table, on an index table."""

    def run(context: Context, node: Any) -> DataFrame:
        from tidegate.sql import index_tables

        done: DataFrame = getattr(index_tables, action)(context, node)
        return done

    return run


_DELTA_ONLY: dict[type[nodes.Statement], Runner] = {
    nodes.Vacuum: services.vacuum,
    nodes.Optimize: services.optimize,
    nodes.Reorg: services.reorg,
    nodes.Restore: services.restore,
    nodes.Convert: services.convert,
    nodes.Generate: services.generate,
    nodes.Index: _index,
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
    nodes.Refresh: services.refresh,
    nodes.Alter: altered.alter,
}
_INDEX: dict[type[nodes.Statement], Runner] = {
    nodes.Insert: _of_index("insert"),
    nodes.Drop: tables.drop,
    **dict.fromkeys(
        (nodes.Update, nodes.Delete, nodes.Merge, nodes.Truncate, nodes.Alter), _of_index("refuse")
    ),
}


def run(spark: SparkSession, spark_sql: SparkSql, text: str, arguments: Any = None) -> DataFrame:
    """Run one statement; ``spark_sql`` is Spark's own way to do it."""
    context = Context(spark, spark_sql)
    said, unbound = text, None
    try:
        said = bound(text, arguments)
    except OptionError as e:
        # Spark takes parameters that cannot be written as literals; whether that matters, the table decides.
        unbound = e
    except SqlSyntaxError:
        pass
    try:
        node = parse(said)
    except Unreadable as e:
        # Spark may know better, unless the statement is about a table of ours: then it is ours.
        if _is_ours(context, text, e.table):
            raise e.cause from None
        node = None
    except SqlSyntaxError:
        if _is_tokens(said) or _begins_ours(text):
            raise
        table = _begun(said)
        if table is not None and context.is_ours(table):
            raise
        return context.through(text, arguments)
    runner = None if node is None else _runner(context, node)
    if node is not None and runner is None:
        runner = _on_view(context, node, said)
    if node is None or runner is None:
        try:
            return query(context, text, arguments)
        except TidegateError as e:
            located_in_query(e, text)
            raise
    try:
        if unbound is not None:
            raise unbound
        return runner(context, node)
    except (TidegateError, PySparkException) as e:
        found = located(e, said, node.table)
        if found is e:
            raise
        raise found from None


def _on_view(context: Context, node: nodes.Statement, text: str) -> Runner | None:
    """How rows are changed through a temporary view of a Delta table; None if the statement names none."""
    try:
        target = view_target(context, node)
    except (TidegateError, PySparkException) as e:
        raise located(e, text, node.table) from None
    if target is None:
        return None

    def run(context: Context, _: Any) -> DataFrame:
        done = _SHARED[type(target.node)](context, target.node)
        target.shown_again(context)
        return done

    return run


def _is_tokens(text: str) -> bool:
    """Whether a text can be read word by word; if so, it was a reader of our statements that refused it."""
    try:
        tokens_of(text)
    except SqlSyntaxError:
        return False
    return True


def _begun(text: str) -> nodes.TableRef | None:
    """The table of a statement whose end cannot be read."""
    try:
        node = parse(text[: unread(text)])
    except Unreadable as e:
        return e.table
    except TidegateError:
        return None
    return None if node is None else node.table


def _is_ours(context: Context, text: str, table: nodes.TableRef | None) -> bool:
    """Whether a statement that cannot be read is about a Delta table, by name or by path."""
    if table is not None and context.is_ours(table):
        return True
    return says_delta(text) or any(getattr(f.what, "path", None) for f in _found(text))


def _runner(context: Context, node: nodes.Statement) -> Runner | None:
    if type(node) in _DELTA_ONLY:
        return _DELTA_ONLY[type(node)]
    if isinstance(node, nodes.Create):
        if _creates_index(context, node):
            return _of_index("create")
        return tables.create if tables.creates_ours(context, node) else None
    if isinstance(node, nodes.Describe) and node.what in ("detail", "history"):
        return shown.describe
    only_delta = isinstance(node, nodes.Alter) and node.action == "sync identity"
    if only_delta or context.is_ours(node.table):
        return _SHARED[type(node)]
    if type(node) in _INDEX and _is_index(context, node.table):
        return _INDEX[type(node)]
    return None


def _creates_index(context: Context, node: nodes.Create) -> bool:
    if node.using is None and node.table.path is None and node.clone is None and node.like is None:
        return (context.spark.conf.get("spark.sql.sources.default", "") or "").lower() in INDEX_PROVIDERS
    return node.using in INDEX_PROVIDERS


def _is_index(context: Context, ref: nodes.TableRef) -> bool:
    if index_path(ref) is not None:
        return True
    entry = catalog.entry_of(context.spark, ref.name)
    return entry is not None and entry.is_index


def _found(text: str) -> list[Any]:
    try:
        return list(references(text))
    except SqlSyntaxError:
        return []


def _begins_ours(text: str) -> bool:
    """Whether a statement that cannot be read begins with words that only Delta knows."""
    words = tuple(text.split(None, 3)[:3])
    upper = tuple(w.upper() for w in words)
    return any(upper[: len(known)] == known for known in DELTA_ONLY)
