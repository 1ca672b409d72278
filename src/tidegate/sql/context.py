"""What running a statement needs: the session, Spark's own ``sql``, and how tables are looked up.

A table is ours if it is named by its path or the catalog says that its format is delta. All references
of one statement to one table see one version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.commands import catalog
from tidegate.commands.changes import changes_between
from tidegate.commands.marks import unmarked
from tidegate.commands.read import readable, within_retention
from tidegate.commands.views import view as follow
from tidegate.errors import OptionError, SqlSyntaxError, TidegateError
from tidegate.log.moments import text_of
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.opening import open as open_table
from tidegate.spark.catalog_references import serves_references
from tidegate.spark.jvm import is_connect
from tidegate.spark.scan.scans import scan
from tidegate.sql import remote, remote_views
from tidegate.sql.nodes import TableRef
from tidegate.sql.positions import Rewritten, told_back
from tidegate.sql.references import Changes, Found, is_marked, keeps_text, references, replaced
from tidegate.table.delta import DeltaTable

SparkSql = Callable[..., DataFrame]


@dataclass
class Context:
    """One statement in one session."""

    spark: SparkSession
    spark_sql: SparkSql
    _latest: dict[str, Snapshot] = field(default_factory=dict)

    # ------------------------------------------------------------------ tables

    def is_ours(self, ref: TableRef) -> bool:
        return ref.path is not None or catalog.location_of(self.spark, ref.name) is not None

    def table(self, ref: TableRef) -> DeltaTable:
        """The Delta table that a statement speaks of; a typed error if there is none."""
        if ref.path is not None:
            return DeltaTable.forPath(self.spark, ref.path)
        return DeltaTable(self.spark, catalog.log_of(self.spark, ref.name), ref.name)

    def placed(self, found: Found) -> Found:
        """A place whose path ends in a mark (``/path@v3``), as the path and the version that it means.

        A folder that is called so is meant itself.
        """
        return found if isinstance(found.what, Changes) else replace(found, what=self.unmarked(found.what))

    def unmarked(self, ref: TableRef) -> TableRef:
        """``placed`` for the table itself."""
        if ref.path is None or ref.version or ref.timestamp:
            return ref
        path, version, timestamp = unmarked(ref.path)
        if (version is None and timestamp is None) or catalog.is_delta_table(self.spark, ref.path):
            return ref
        said = None if timestamp is None else f"'{timestamp}'"
        return replace(ref, parts=(ref.parts[0], path), version=version, timestamp=said)

    def log(self, ref: TableRef) -> TableLog:
        return self.table(ref)._log

    def snapshot(self, ref: TableRef) -> Snapshot:
        """The version that a reference asks for, the newest without one."""
        log = self.log(ref)
        if ref.version is not None:
            return within_retention(self.spark, open_table(log.url, version=self.version(ref.version)))
        if ref.timestamp is not None:
            found = open_table(log.url, timestamp=self.moment(ref.timestamp))
            return within_retention(self.spark, found)
        if log.url not in self._latest:
            self._latest[log.url] = load(log)
        return self._latest[log.url]

    # ------------------------------------------------------------------ values in a statement

    def value(self, text: str) -> Any:
        """What an expression without columns comes to."""
        row = self.spark_sql(f"SELECT {text}").first()
        return row[0] if row is not None else None

    def version(self, text: str) -> int:
        """A version: a number, also between quotes."""
        bare = text.strip().strip("'\"")
        if bare.isdecimal():
            return int(bare)
        found = self.value(text)
        if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
            return found
        raise SqlSyntaxError(f"A version is a whole number, not {text}.")

    def moment(self, text: str, error_class: str = "DELTA_INVALID_TIMESTAMP_FORMAT") -> str:
        """A timestamp in the session's zone, as text in UTC."""
        millis = self.value(f"unix_millis(try_cast(({text}) AS TIMESTAMP))")
        if millis is None:
            raise OptionError(
                f"{text} is no timestamp.",
                hint="Write it as '2024-01-31 12:00:00'.",
                errorClass=error_class,
            )
        return text_of(millis)

    # ------------------------------------------------------------------ queries

    def query(self, text: str, arguments: Any = None) -> DataFrame:
        """A query through Spark, with the places that need us planned as scans of ours."""
        if is_connect(self.spark):
            return remote.query(self, text, arguments)
        lasts = keeps_text(text)
        found = [self.placed(f) for f in references(text) if self._needs_us(f, text, lasts=lasts)]
        if not found:
            return self.through(text, arguments)
        views: dict[str, DataFrame] = {}
        new = replaced(text, found, lambda place: "`" + self._view(place, views, follows=lasts) + "`")
        for name, frame in views.items():
            frame.createOrReplaceTempView(name)
        try:
            return self.rewritten(new, arguments)
        finally:
            # An analysed plan holds its tables itself; a temporary view is kept as text, with names in it.
            for name in views if not lasts else ():
                self.spark.catalog.dropTempView(name)

    def _needs_us(self, found: Found, text: str, *, lasts: bool) -> bool:
        """Whether a place is to be replaced; Spark's analyser asks for paths and numbered versions itself."""
        what = found.what
        if isinstance(what, Changes):
            return True
        asked = what.timestamp is None and (what.version is None or what.version.strip("'\"").isdecimal())
        if asked and not lasts and not is_marked(text, found) and serves_references(self.spark):
            return False
        return self.is_ours(what)

    def rewritten(self, new: Rewritten, arguments: Any) -> DataFrame:
        """``through`` for a text with places replaced; Spark's errors are told of the user's own text."""
        try:
            return self.through(new.text, arguments)
        except PySparkException as e:
            if isinstance(e, TidegateError):
                raise
            raise told_back(e, new) from None

    def through(self, text: str, arguments: Any) -> DataFrame:
        return self.spark_sql(text) if arguments is None else self.spark_sql(text, arguments)

    def _view(self, place: Found, views: dict[str, DataFrame], *, follows: bool = False) -> str:
        """The name of the view that stands in for a place; made once for each version of a table.

        One that ``follows`` its table is brought to the newest version before each query.
        """
        what = place.what
        if follows and isinstance(what, TableRef) and what.version is None and what.timestamp is None:
            location = self.log(what).url
            name = self.view_name(f"latest:{location}")
            follow(self.spark, name, location)
            return name
        key, make = self.scanned(what)
        name = self.view_name(key)
        if name not in views:
            views[name] = make()
        return name

    @staticmethod
    def view_name(key: str) -> str:
        """The name of the temporary view that stands in for what ``key`` tells apart."""
        return remote_views.OWN_VIEWS + hashlib.sha256(key.encode()).hexdigest()[:16]

    def scanned(self, what: TableRef | Changes) -> tuple[str, Callable[[], DataFrame]]:
        """What tells the rows of a place from all others, and how they are scanned."""
        return self._changes(what) if isinstance(what, Changes) else self._of(self.snapshot(what))

    def latest_at(self, location: str) -> tuple[str, Callable[[], DataFrame]]:
        """``scanned`` for the newest version of the table at ``location``."""
        log = TableLog.at(location)
        if log.url not in self._latest:
            self._latest[log.url] = load(log)
        return self._of(self._latest[log.url])

    def _of(self, snapshot: Snapshot) -> tuple[str, Callable[[], DataFrame]]:
        # A table that was made anew at the same place is another one, whatever its version.
        key = f"{snapshot.url}@{snapshot.version}#{snapshot.metadata.id}"
        return key, lambda: scan(self.spark, readable(snapshot))

    def _changes(self, call: Changes) -> tuple[str, Callable[[], DataFrame]]:
        """``table_changes(name, start[, end])`` and ``table_changes_by_path(path, start[, end])``."""
        if not 2 <= len(call.arguments) <= 3:
            raise SqlSyntaxError(f"{call.function} takes a table, a start and maybe an end.")
        name = str(self.value(call.arguments[0]))
        log = TableLog.at(name) if call.function.endswith("by_path") else catalog.log_of(self.spark, name)
        start, end = (self._bound(call.arguments[i]) if i < len(call.arguments) else None for i in (1, 2))
        key = f"{log.url}#{start}#{end}"
        return key, lambda: changes_between(self.spark, log.url, start, end)

    def _bound(self, text: str) -> int | str:
        found = self.value(text)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
        return self.moment(text)
