"""Queries on Spark Connect, where no analyser of ours stands between a name and the server.

Every name in a query that is a Delta table of the server's catalog is replaced by a temporary view of a
portable scan, as paths and versions are; a view of the catalog whose query reads such tables, by that
query. The server analyses a query when it is run, by the names in it, so these views stay in the session. A
temporary view that a user makes reads views that follow their tables: they are brought to the newest
version before each query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from tidegate.commands import catalog, views
from tidegate.errors import OptionError
from tidegate.log.table_log import TableLog
from tidegate.spark.catalog import INDEX_PROVIDERS
from tidegate.spark.remote_catalog import quoted, view_of
from tidegate.spark.scan.origins import answered
from tidegate.sql.names import Name, makes_view, table_names
from tidegate.sql.positions import rewritten
from tidegate.sql.references import Changes, Found, queries_in, references
from tidegate.sql.remote_views import OWN_VIEWS, is_kept, keep, reads

if TYPE_CHECKING:
    from tidegate.spark.catalog import Entry
    from tidegate.sql.context import Context

_FOLLOWING = f"{OWN_VIEWS}latest_"
_DEEPEST = 16


def query(context: Context, text: str, arguments: Any = None) -> DataFrame:
    """A query through the server, with names, paths and versions of Delta tables replaced."""
    kind = makes_view(text)
    rewriting = _Rewriting(context, follows=kind == "temporary")
    new = rewriting.rewritten(text)
    if rewriting.reads_ours and kind == "permanent":
        raise OptionError(
            "On Spark Connect a view over Delta tables is a temporary one: to keep another, the server would "
            "have to know their columns.",
            hint="Write CREATE TEMPORARY VIEW, or make the view in a classic session of the same catalog.",
        )
    keep(context.spark, rewriting.views)
    return answered(context.through(new, arguments), new, rewriting.newest)


def value(context: Context, text: str) -> tuple[str, set[str]]:
    """A value with the Delta tables in its subqueries replaced, and those that it reads as they are now."""
    rewriting = _Rewriting(context, follows=False)
    places = [(start, end, rewriting.rewritten(text[start : end + 1])) for start, end in queries_in(text)]
    keep(context.spark, rewriting.views)
    return rewritten(text, places).text, rewriting.newest


class _Rewriting:
    """One statement, and the views that its new text needs."""

    def __init__(self, context: Context, follows: bool, database: str | None = None, depth: int = 0) -> None:
        self.context = context
        self.follows = follows
        self.database = database
        self.depth = depth
        self.views: dict[str, DataFrame] = {}
        self.reads_ours = False
        # Where the tables are that are read as they are now.
        self.newest: set[str] = set()

    def rewritten(self, text: str) -> str:
        """The text with every place replaced that the server cannot plan; the same text if there is none."""
        ours = (self.context.placed(f) for f in references(text) if self._is_ours(f))
        places = {f.start: (f.end, self._found(f)) for f in ours}
        spans = [(start, end) for start, (end, _) in places.items()]
        for name in table_names(text):
            inside = any(start <= name.ref.start <= end for start, end in spans)
            new = None if inside else self._name(name)
            if new is not None:
                places[name.ref.start] = (name.ref.end, new)
        return rewritten(text, ((start, *places[start]) for start in sorted(places))).text

    def _is_ours(self, found: Found) -> bool:
        return isinstance(found.what, Changes) or self.context.is_ours(found.what)

    def _found(self, found: Found) -> str:
        """A path, a version or a call of ``table_changes``."""
        what = found.what
        if not isinstance(what, Changes) and what.version is None and what.timestamp is None:
            url = self.context.log(what).url
            if self.follows:
                return self._following(url)
            self.newest.add(url)
        alias = "" if found.alias is None else f" AS {quoted(found.alias)}"
        key, make = self.context.scanned(what)
        return quoted(self._view(key, make, fixed=not isinstance(what, Changes))) + alias

    def _name(self, name: Name) -> str | None:
        """What stands for a name: None if it is the server's own."""
        text = name.ref.name
        followed = views.held(self.context.spark, name.ref.parts[0]) if len(name.ref.parts) == 1 else None
        if followed is not None:
            return None if self.follows else self._latest(followed[0]) + _alias(name)
        if self.database is not None and len(name.ref.parts) == 1:
            text = quoted(self.database, name.ref.parts[0])
        entry = catalog.entry_of(self.context.spark, text)
        view = None
        if entry is not None and entry.is_delta and entry.location is not None:
            view = self._following(entry.location) if self.follows else self._latest(entry.location)
        elif entry is not None and entry.is_index and entry.location is not None:
            view = self._index(entry.location)
        elif entry is not None and entry.is_view:
            view = self._expanded(entry)
        if view is None:
            if entry is None and len(name.ref.parts) == 1 and not self.follows:
                self.newest |= reads(self.context.spark, name.ref.parts[0])
            # In the body of a view a name belongs to the view's database, whatever the current one is.
            return text if self.database is not None and entry is not None else None
        return quoted(name.ref.parts[-1]) if name.qualifies else view + _alias(name)

    def _latest(self, location: str) -> str:
        self.newest.add(TableLog.at(location).url)
        return quoted(self._view(*self.context.latest_at(location)))

    def _index(self, location: str) -> str:
        """An index table, whose source the server knows after the client has read one."""
        from tidegate.table.index import IndexTable

        version = IndexTable.forPath(self.context.spark, location).version
        return quoted(
            self._view(
                f"index:{location}#{version}",
                lambda: self.context.spark.read.format(INDEX_PROVIDERS[0]).load(location),
            )
        )

    def _expanded(self, entry: Entry) -> str | None:
        """A view of the catalog, by its query, if that reads Delta tables."""
        if self.depth >= _DEEPEST:
            return None
        view = view_of(self.context.spark, entry.database, entry.name)
        inner = _Rewriting(self.context, self.follows, view.database, self.depth + 1)
        new = inner.rewritten(view.query)
        if not inner.reads_ours:
            return None
        self.reads_ours = True
        self.newest |= inner.newest
        self.views.update(inner.views)
        columns = ", ".join(f"{quoted(a)} AS {quoted(b)}" for a, b in view.columns)
        return f"(SELECT {columns} FROM ({new}))"

    def _view(self, key: str, make: Callable[[], DataFrame], *, fixed: bool = True) -> str:
        """The name of the view for some rows; what is fixed is made once in a session."""
        self.reads_ours = True
        name = self.context.view_name(key)
        if name not in self.views and not (fixed and is_kept(self.context.spark, name)):
            self.views[name] = make()
        return name

    def _following(self, location: str) -> str:
        self.reads_ours = True
        name = _FOLLOWING + hashlib.sha256(location.encode()).hexdigest()[:16]
        views.view(self.context.spark, name, location)
        return quoted(name)


def _alias(name: Name) -> str:
    """What keeps a name its own, where the text gives it no other."""
    return "" if name.alias is None else f" AS {quoted(name.alias)}"
