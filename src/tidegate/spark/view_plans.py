"""What a temporary view is made of: a Delta table under other names, or something that cannot be written to.

The view's plan is followed from its top through aliases and selections of columns until it is the very scan
that a table has. Anything else on the way (a filter, a join, rows of an older version) is named. These are
the plans of classic sessions; what is known of views on Connect stands in ``sql.remote_views``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from tidegate.opening import open as open_table
from tidegate.spark.scan.origins import Origin
from tidegate.spark.scan.scans import scan

A_FILTER = "a filter"
A_VERSION = "a version of the table"


@dataclass(frozen=True)
class Behind:
    """What stands behind a view: where the table is, and for each of the view's columns the table's.

    A column that is computed has None. ``obstacle`` says what keeps the view from being the table.
    """

    table: str
    columns: tuple[tuple[str, str | None], ...] = ()
    obstacle: str | None = None


def behind(spark: SparkSession, name: str) -> Behind | None:
    """What the temporary view ``name`` of a classic session shows; None if no Delta table is in it."""
    plan: Any = spark.table(name)._jdf.queryExecution().analyzed()
    leaves = _listed(plan.collectLeaves())
    found = [o for o in map(Origin.of, leaves) if o is not None]
    if not found:
        return None
    origin = found[0]
    if len(leaves) > 1:
        return Behind(origin.table, obstacle="more than one source")
    if not origin.newest:
        return Behind(origin.table, obstacle=A_VERSION)
    snapshot = open_table(origin.table, version=origin.version)
    table: Any = scan(spark, snapshot)._jdf.queryExecution().analyzed()
    return _followed(plan, table, origin)


def _followed(plan: Any, table: Any, origin: Origin) -> Behind:
    """The view's columns as the table's, as far as nothing but aliases and selections stands between."""
    shown = [(str(a.name()), a.exprId().id()) for a in _listed(plan.output())]
    now: dict[int, int | None] = {key: key for _, key in shown}
    node = plan
    while not node.sameResult(table):
        kind = str(node.getClass().getSimpleName())
        children = _listed(node.children())
        if kind == "Filter":
            return Behind(origin.table, obstacle=A_FILTER)
        if kind == "Project":
            made = {e.exprId().id(): _column(e) for e in _listed(node.projectList())}
            now = {key: None if at is None else made.get(at) for key, at in now.items()}
        elif not children or (kind != "SubqueryAlias" and not (kind == "View" and node.isTempView())):
            return Behind(origin.table, obstacle=f"more than a choice of columns ({kind})")
        node = children[0]
    # The same result may have other names: a selection that does nothing but rename is the scan's own then.
    same = zip(_listed(node.output()), _listed(table.output()), strict=True)
    names = {a.exprId().id(): str(column.name()) for a, column in same}
    columns = []
    for name, key in shown:
        at = now[key]
        columns.append((name, None if at is None else names.get(at)))
    return Behind(origin.table, tuple(columns))


def _column(expression: Any) -> int | None:
    """The column that an expression of a selection is, by its id; None if it is computed."""
    kind = expression.dataType()
    while str(expression.getClass().getSimpleName()) in ("Alias", "Cast"):
        expression = expression.child()
        if not expression.dataType().equals(kind):
            # A cast there and back may lose something on its way.
            return None
    is_column = str(expression.getClass().getSimpleName()) == "AttributeReference"
    return expression.exprId().id() if is_column else None


def _listed(found: Any) -> list[Any]:
    return [found.apply(i) for i in range(found.size())]
