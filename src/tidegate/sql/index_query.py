"""Queries over index tables: names and paths read through the source, searches in WHERE by the index.

Every reference to an index table becomes a view of its newest version, narrowed by the searches that belong
to it; what is left of WHERE is Spark's, and its filters reach the index as they do in ``spark.read``.
"""

from __future__ import annotations

import hashlib
from typing import Any

from pyspark.sql import DataFrame

from tidegate.errors import QueryError
from tidegate.index.named import FORMAT
from tidegate.sql.context import Context
from tidegate.sql.dialect import at_offset
from tidegate.sql.index_tables import location
from tidegate.sql.names import Name, table_names
from tidegate.sql.searches import Search, blanked, searches
from tidegate.table.index import IndexTable


def query(context: Context, text: str, arguments: Any = None) -> DataFrame | None:
    """The query with index tables in it; None where there are none."""
    found = searches(text)
    plain = blanked(text, found)
    names = [n for n in table_names(plain) if not n.qualifies]
    places = {n.ref.start: (n, where) for n in names if (where := location(context, n.ref)) is not None}
    asked: dict[int, list[Search]] = {at: [] for at in places}
    for search in found:
        asked[_owner(text, search, [n for n, _ in places.values()])].append(search)
    if not places:
        return None
    out, at = [], 0
    views: dict[str, DataFrame] = {}
    for start in sorted(places):
        name, where = places[start]
        view = _view(context, where, asked[start], views)
        alias = "" if name.alias is None else " AS `" + name.alias.replace("`", "``") + "`"
        out += [plain[at:start], f"`{view}`{alias}"]
        at = name.ref.end + 1
    new = "".join([*out, plain[at:]])
    for view, frame in views.items():
        frame.createOrReplaceTempView(view)
    try:
        return context.query(new, arguments)
    finally:
        for view in views:
            context.spark.catalog.dropTempView(view)


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
    words = text[name.ref.end + 1 :].split(None, 2)
    return words[1] if words[0].upper() == "AS" else words[0].rstrip(",")


def _view(context: Context, where: str, asked: list[Search], views: dict[str, DataFrame]) -> str:
    table = IndexTable.forPath(context.spark, where)
    for search in asked:
        if search.column is not None and search.kind != "indexquery":
            # Refuses a search that the kind of the field cannot answer, with the remedy.
            getattr(table, search.kind)(search.column[-1], search.words)
    words = " AND ".join(s.query for s in asked)
    key = f"{where}#{table.version}#{words}"
    name = "__tidegate_index_" + hashlib.sha256(key.encode()).hexdigest()[:16]
    if name not in views:
        reader = context.spark.read.format(FORMAT)
        views[name] = (reader.option("query", words) if words else reader).load(where)
    return name
