"""A temporary view where a statement changes rows: the table it shows is changed in its place.

A view that shows a table's columns, in any order, is the table for UPDATE, DELETE and MERGE. One that shows
some of them, or under other names, is for DELETE and UPDATE, in the view's words. A filter, a join or a
computed column cannot be written through, and is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import functions as F

from tidegate.commands import catalog, views
from tidegate.errors import NotATableError, SchemaInvalidError, TidegateError
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.spark.catalog import is_made_of_frame
from tidegate.spark.expressions import analysed, quote
from tidegate.spark.jvm import is_connect
from tidegate.spark.view_plans import Behind, behind
from tidegate.sql import nodes
from tidegate.sql.context import Context
from tidegate.sql.references import with_columns

Changing = nodes.Update | nodes.Delete | nodes.Merge
_OBSTACLES = {
    "a filter": "DELTA_UNEXPECTED_PARTIAL_SCAN",
    "a version of the table": "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION",
}


@dataclass(frozen=True)
class ViewTarget:
    """A statement on a view as one on the table behind it, and what the view calls columns.

    ``view`` is None of a global one, which others may look at too.
    """

    view: str | None
    location: str
    node: Changing
    columns: tuple[tuple[str, str], ...] | None

    def shown_again(self, context: Context) -> None:
        """Bring a view that holds the plan of a DataFrame to the version that the statement made."""
        spark = context.spark
        if self.view is None or is_connect(spark) or not is_made_of_frame(spark, self.view):
            return
        if self.columns is None:
            views.view(spark, self.view, self.location)
            return
        frame = catalog.current(spark, self.location)
        chosen = [F.col(quote(column)).alias(name) for name, column in self.columns]
        frame.select(*chosen).createOrReplaceTempView(self.view)


def view_target(context: Context, node: nodes.Statement) -> ViewTarget | None:
    """The table to change where a statement names a temporary view of one; None if it names no such view."""
    if not isinstance(node, Changing):
        return None
    ref = node.table
    if ref.path is not None or not _is_view(context, ref):
        return None
    name = ref.parts[0] if len(ref.parts) == 1 else None
    # A view of ours that somebody has replaced is let go of.
    views.refresh(context.spark)
    followed = None if name is None else views.held(context.spark, name)
    if followed is not None:
        return ViewTarget(name, followed[0], _on(node, followed[0]), None)
    found = behind(context.spark, ref.name)
    if found is None:
        return None
    columns = _columns(found, node)
    on = _on(node, found.table)
    if columns is not None:
        on = _in_words_of_table(context, node, on, columns)
    return ViewTarget(name, found.table, on, columns)


def _is_view(context: Context, ref: nodes.TableRef) -> bool:
    if len(ref.parts) > 2:
        return False
    if len(ref.parts) == 2:
        everybody = context.spark.conf.get("spark.sql.globalTempDatabase", "global_temp") or ""
        return ref.parts[0].casefold() == everybody.casefold() and not is_connect(context.spark)
    return catalog.is_temporary_view(context.spark, ref.name)


def _on(node: Changing, location: str) -> Changing:
    """The statement on the table itself, whose columns go by the view's name where no alias is given."""
    ref = replace(node.table, parts=("delta", TableLog.at(location).url))
    return replace(node, table=ref, alias=node.alias or node.table.parts[-1])


def _columns(found: Behind, node: Changing) -> tuple[tuple[str, str], ...] | None:
    """What the view calls the columns that it shows; None where it is the whole table under its own names."""
    what = type(node).__name__.upper()
    if found.obstacle is not None:
        raise _refused(node, what, f"it holds {found.obstacle}", _OBSTACLES.get(found.obstacle))
    schema = load(TableLog.at(found.table)).schema
    computed = [name for name, column in found.columns if column is None]
    if computed:
        new = any(schema.field(name) is None for name in computed)
        named = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS" if what == "MERGE" else "DELTA_CANNOT_RESOLVE_COLUMN"
        raise _refused(node, what, f"{', '.join(computed)} is computed", named if new else None)
    columns = tuple((name, column) for name, column in found.columns if column is not None)
    own = all(name.casefold() == column.casefold() for name, column in columns)
    if own and len(columns) == len(schema.fields):
        return None
    if what == "MERGE":
        raise _refused(node, what, "it does not show every column under its own name", None)
    if len({column for _, column in columns}) < len(columns):
        raise _refused(node, what, "it shows a column twice", None)
    return columns


def _refused(node: Changing, what: str, why: str, error_class: str | None) -> TidegateError:
    kind = SchemaInvalidError if error_class == "DELTA_CANNOT_RESOLVE_COLUMN" else NotATableError
    return kind(
        f"{what} cannot change {node.table}, a temporary view that is not a Delta table as it is: {why}.",
        hint="Name the table itself, and say in the condition which rows are meant.",
        errorClass=error_class or "DELTA_UNSUPPORTED_SOURCE",
    )


def _in_words_of_table(
    context: Context, given: Changing, node: Changing, columns: tuple[tuple[str, str], ...]
) -> Changing:
    """The statement with the table's names for columns; what the view does not show is not there."""
    assert not isinstance(node, nodes.Merge)
    alias = node.alias or ""
    frame = context.spark.table(given.table.name).alias(alias)
    names = {name.casefold(): column for name, column in columns}
    where = node.where
    if where is not None:
        analysed(frame, where, type(node).__name__.upper())
        where = with_columns(where, names, alias)
    if isinstance(node, nodes.Delete):
        return replace(node, where=where)
    return replace(node, where=where, set=_assignments(node, names, alias))


def _assignments(node: nodes.Update, names: Mapping[str, str], alias: str) -> tuple[tuple[str, str], ...]:
    out = []
    for target, value in node.set:
        renamed = with_columns(target, names, alias)
        if renamed == target and not _is_shown(target, names, alias):
            raise SchemaInvalidError(
                f"UPDATE sets the column {target}, which the view lacks; it has {', '.join(names)}.",
                errorClass="UNRESOLVED_COLUMN.WITH_SUGGESTION",
            )
        out.append((renamed, with_columns(value, names, alias)))
    return tuple(out)


def _is_shown(target: str, names: Mapping[str, str], alias: str) -> bool:
    bare = target.split(".")
    first = bare[1] if len(bare) > 1 and bare[0].casefold() == alias.casefold() else bare[0]
    return first.strip("`").casefold() in names
