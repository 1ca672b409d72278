"""Queries over index tables: names and paths read through the source, searches in WHERE by the index.

Every reference to an index table becomes a view of its newest version, narrowed by what the searches that
belong to it ask of every row. A search below OR or NOT becomes a column of that view, true or false for each
row, which no star of the query shows. The rest of WHERE is Spark's, and its filters reach the index as they
do in ``spark.read``.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from sqlglot.tokenizer_core import TokenType

from tidegate.errors import OptionError, QueryError, TidegateError
from tidegate.index.datasource import FLAGS
from tidegate.index.named import FORMAT
from tidegate.spark.jvm import is_connect
from tidegate.sql import remote_views
from tidegate.sql.context import Context
from tidegate.sql.dialect import at_offset, tokens_of
from tidegate.sql.index_statements import index_path
from tidegate.sql.index_tables import location
from tidegate.sql.names import Name, makes_view, table_names
from tidegate.sql.narrowing import narrowing, stars
from tidegate.sql.positions import rewritten, told_back
from tidegate.sql.references import keeps_text
from tidegate.sql.searches import Search, marked, searches
from tidegate.table.index import IndexTable


def query(context: Context, text: str, arguments: Any = None) -> DataFrame | None:
    """The query with index tables in it; None where there are none."""
    found = searches(text)
    plain = marked(text, found)
    names = [n for n in table_names(plain) if not n.qualifies]
    places = {n.ref.start: (n, where) for n in names if (where := location(context, n.ref)) is not None}
    owners = {s.mark: _owner(text, s, [n for n, _ in places.values()]) for s in found}
    if not places or _is_kept(text, plain, found, [n for n, _ in places.values()]):
        return None
    narrowed = narrowing(plain, found, owners)
    changes = [(s.start, s.end, "TRUE" if s.mark in narrowed.always else s.mark) for s in found]
    columns = [s for s in found if s.mark not in narrowed.always]
    called = {at: _called(plain, name) for at, (name, _) in places.items()}
    changes += stars(plain, [(s, called[owners[s.mark]]) for s in columns])
    views: dict[str, DataFrame] = {}
    for start, (name, where) in places.items():
        asked = [s for s in found if owners[s.mark] == start]
        shown = [s for s in columns if owners[s.mark] == start]
        view = _view(context, where, asked, shown, narrowed.needed.get(start), views)
        alias = "" if name.alias is None else " AS `" + name.alias.replace("`", "``") + "`"
        changes.append((start, name.ref.end, f"`{view}`{alias}"))
    new = rewritten(text, sorted(changes))
    if is_connect(context.spark):
        # The server reads the text again when the query runs.
        remote_views.keep(context.spark, views)
        return context.query(new.text, arguments)
    for view, frame in views.items():
        frame.createOrReplaceTempView(view)
    try:
        return context.query(new.text, arguments)
    except AnalysisException as e:
        if isinstance(e, TidegateError):
            raise
        raise told_back(e, new) from None
    finally:
        for view in views:
            context.spark.catalog.dropTempView(view)


def _is_kept(text: str, plain: str, found: list[Search], names: list[Name]) -> bool:
    """Whether a statement keeps its query, as a view does, by names that the catalog will look up again.

    A search or a path cannot be kept so: it would go on to show the rows of today.
    """
    if not keeps_text(plain) and makes_view(plain) is None:
        return False
    paths = [n.ref.start for n in names if index_path(n.ref) is not None]
    if not found and not paths:
        return True
    error = OptionError(
        "A view names its tables: a search, or the path of an index table, cannot be kept in one.",
        hint="Make the table known with CREATE TABLE ... USING indextables LOCATION and take its name, and "
        "search the table itself, not the view.",
        errorClass="DELTA_OPERATION_NOT_ALLOWED",
    )
    raise at_offset(error, text, min([s.start for s in found] + paths))


def _owner(text: str, search: Search, names: list[Name]) -> int:
    """Where the table stands that a search is about: in its FROM, by the column's qualifier if it has one."""
    first, last = search.tables
    near = [n for n in names if first < n.ref.start < last]
    if search.column is not None and len(search.column) > 1:
        wanted = search.column[-2].lower()
        near = [n for n in near if _called(text, n).lower() == wanted]
    if len(near) != 1:
        many = "several index tables" if near else "no index table"
        raise at_offset(
            QueryError(
                f"The search belongs to {many} of its FROM.",
                hint="Search an index table, and write its alias before the column where there are several.",
            ),
            text,
            search.start,
        )
    return near[0].ref.start


def _called(text: str, name: Name) -> str:
    """What a table is called in its query."""
    if name.alias is not None:
        return name.alias
    behind = [t for t in tokens_of(text) if t.start > name.ref.end]
    return behind[1 if behind[0].token_type is TokenType.ALIAS else 0].text


def _view(
    context: Context,
    where: str,
    asked: list[Search],
    shown: list[Search],
    words: str | None,
    views: dict[str, DataFrame],
) -> str:
    table = IndexTable.forPath(context.spark, where)
    for search in asked:
        if search.column is not None and search.kind != "indexquery":
            # Refuses a search that the kind of the field cannot answer, with the remedy.
            getattr(table, search.kind)(search.column[-1], search.words)
    flags = json.dumps({s.mark: s.query for s in shown}) if shown else ""
    key = f"{where}#{table.version}#{words}#{flags}"
    name = "__tidegate_index_" + hashlib.sha256(key.encode()).hexdigest()[:16]
    if name not in views:
        reader = context.spark.read.format(FORMAT)
        if words:
            reader = reader.option("query", words)
        if flags:
            reader = reader.option(FLAGS, flags)
        views[name] = reader.load(where)
    return name
