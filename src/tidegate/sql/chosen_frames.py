"""What a DataFrame of a Connect client shows of the one table it reads: ``chosen`` for plans.

A client's plan is the calls that made the frame. It is followed through those that name, choose, drop and
rename columns down to a scan of a table, a query or a view. What any other call makes of the rows is named.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tidegate.schema.paths import split_path
from tidegate.spark.scan.origins import Scan, parts_of, scan_of, text_of
from tidegate.spark.view_plans import A_FILTER, A_VERSION, Behind
from tidegate.sql.chosen import Columns, Source, looked_up, shown_by, with_expression

_CHOOSING = ("Project", "Drop", "ToDF", "WithColumns", "WithColumnsRenamed")


def as_shown(scan: Scan, newest: Container[str]) -> Behind:
    """A scan itself: the table, or a version of it."""
    if scan.table not in newest:
        return Behind(scan.table, obstacle=A_VERSION)
    return Behind(scan.table, tuple((name, name) for name in scan.columns))


def shown_by_plan(plan: Any, newest: Container[str], source: Source) -> Behind | None:
    """What a client's plan shows, with the tables of which it has rows as they are now."""
    return _Plan(newest, source).shown(plan)


class _Plan:
    """One plan on its way from its scan to its top."""

    def __init__(self, newest: Container[str], source: Source) -> None:
        self.newest = newest
        self.source = source
        # By what columns may be taken: from the frames along the way, and by the last alias.
        self.seen: dict[int, Columns] = {}
        self.alias: list[str] = []

    def shown(self, plan: Any) -> Behind | None:
        found = self._shown(plan)
        if found is not None:
            self.seen[plan._plan_id] = found.columns
        return found

    def _shown(self, plan: Any) -> Behind | None:
        kind = type(plan).__name__
        scan = scan_of(plan)
        if scan is not None:
            return as_shown(scan, self.newest)
        text = text_of(plan)
        if text is not None:
            return shown_by(text, self.source)
        if kind == "Read":
            parts = split_path(plan.table_name)
            self.alias = [parts[-1]]
            return self.source(parts)
        if kind not in (*_CHOOSING, "SubqueryAlias", "Filter"):
            return self._other(plan, kind)
        found = self.shown(plan._child)
        if found is None or found.obstacle == A_VERSION:
            return found
        if kind == "Filter":
            return Behind(found.table, obstacle=A_FILTER)
        if kind == "SubqueryAlias":
            self.alias = [plan._alias]
        if found.obstacle is not None or kind == "SubqueryAlias":
            return found
        columns: Columns = getattr(self, "_" + kind.lower())(plan, found.columns)
        return Behind(found.table, columns)

    def _other(self, plan: Any, kind: str) -> Behind | None:
        scans = (scan_of(part) for part in parts_of(plan))
        found = next((scan for scan in scans if scan is not None), None)
        if found is None:
            return None
        return Behind(found.table, obstacle=f"more than a choice of columns ({kind})")

    def _project(self, plan: Any, columns: Columns) -> Columns:
        return tuple(made for c in plan._columns for made in self._expression(c._expr, columns))

    def _expression(self, expression: Any, columns: Columns) -> Columns:
        """What one expression of a selection makes of the columns."""
        kind = type(expression).__name__
        if kind == "ColumnAlias" and len(expression._alias) == 1:
            made = self._expression(expression._child, columns)
            return ((expression._alias[0], made[0][1] if len(made) == 1 else None),)
        if kind == "SQLExpression":
            return with_expression(expression._expr, columns, self.alias)
        if kind == "UnresolvedStar" and expression._plan_id is None:
            target = expression._unparsed_target
            return columns if target is None else with_expression(target, columns, self.alias)
        if kind != "ColumnReference" or expression._is_metadata_column:
            return (("", None),)
        seen = columns if expression._plan_id is None else self.seen.get(expression._plan_id, ())
        parts = split_path(expression._unparsed_identifier)
        return ((parts[-1], looked_up(parts, seen, self.alias)),)

    def _drop(self, plan: Any, columns: Columns) -> Columns:
        """Without the columns that are named; of one that was given as a column it is not asked which."""
        if not all(isinstance(name, str) for name in plan._columns):
            return tuple((name, None) for name, _ in columns)
        gone = {name.casefold() for name in plan._columns}
        return tuple((name, column) for name, column in columns if name.casefold() not in gone)

    def _todf(self, plan: Any, columns: Columns) -> Columns:
        return tuple((new, column) for new, (_, column) in zip(plan._cols, columns, strict=False))

    def _withcolumns(self, plan: Any, columns: Columns) -> Columns:
        """With columns that are computed, beside the others or in the place of those of their names."""
        new = {name.casefold(): name for name in plan._columnNames}
        kept = [(name, None if new.pop(name.casefold(), None) else column) for name, column in columns]
        return (*kept, *((name, None) for name in new.values()))

    def _withcolumnsrenamed(self, plan: Any, columns: Columns) -> Columns:
        new = {name.casefold(): other for name, other in plan._colsMap.items()}
        return tuple((new.get(name.casefold(), name), column) for name, column in columns)
