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
from tidegate.commands.subqueries import as_columns
from tidegate.errors import NotATableError, SchemaInvalidError, TidegateError
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.schema.paths import join_path, split_path
from tidegate.schema.types import StructType
from tidegate.spark.catalog import is_made_of_frame
from tidegate.spark.expressions import analyse, analysed, quote
from tidegate.spark.jvm import is_connect
from tidegate.spark.view_plans import A_FILTER, A_VERSION, Behind, behind
from tidegate.sql import nodes, remote_views
from tidegate.sql.context import Context
from tidegate.sql.references import with_columns

Changing = nodes.Update | nodes.Delete | nodes.Merge
_OBSTACLES = {
    A_FILTER: "DELTA_UNEXPECTED_PARTIAL_SCAN",
    A_VERSION: "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION",
}


@dataclass(frozen=True)
class ViewTarget:
    """A statement on a view as one on the table behind it, and what the view calls columns.

    ``view`` is None of a global one, which others may look at too; ``columns`` are None of one that shows the
    table as it is.
    """

    view: str | None
    location: str
    node: Changing
    columns: tuple[tuple[str, str], ...] | None

    def shown_again(self, context: Context) -> None:
        """Bring a view that holds the plan of a DataFrame to the version that the statement made."""
        spark = context.spark
        if self.view is None or not is_made_of_frame(spark, self.view):
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
    if is_connect(context.spark):
        found = remote_views.behind(context.spark, ref.parts[0])
    else:
        found = behind(context.spark, ref.name)
    if found is None:
        return None
    schema = load(TableLog.at(found.table)).schema
    columns = _columns(found, node, schema)
    on = _on(node, found.table)
    if not _is_whole(columns, schema):
        on = _in_words_of_table(context, node, on, columns)
    as_it_is = columns == tuple((name, name) for name in schema.names)
    return ViewTarget(name, found.table, on, None if as_it_is else columns)


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


def _columns(found: Behind, node: Changing, schema: StructType) -> tuple[tuple[str, str], ...]:
    """What the view calls the columns that it shows; refused where the statement cannot go through it."""
    what = type(node).__name__.upper()
    if found.obstacle is not None:
        raise _refused(node, what, f"it holds {found.obstacle}", _OBSTACLES.get(found.obstacle))
    computed = [name for name, column in found.columns if column is None]
    if computed:
        new = any(schema.field(name) is None for name in computed)
        named = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS" if what == "MERGE" else "DELTA_CANNOT_RESOLVE_COLUMN"
        raise _refused(node, what, f"{', '.join(computed)} is computed", named if new else None)
    columns = tuple((name, column) for name, column in found.columns if column is not None)
    if what == "MERGE" and not _is_whole(columns, schema):
        raise _refused(node, what, "it does not show every column under its own name", None)
    if len({column for _, column in columns}) < len(columns):
        raise _refused(node, what, "it shows a column twice", None)
    return columns


def _is_whole(columns: tuple[tuple[str, str], ...], schema: StructType) -> bool:
    """Whether every column of the table is shown under its own name, in whatever order."""
    own = all(name.casefold() == column.casefold() for name, column in columns)
    return own and len(columns) == len(schema.fields)


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
    others = {name: column for name, column in names.items() if name != column.casefold()}
    where = node.where
    if where is not None:
        analysed(frame, where, type(node).__name__.upper())
        where = with_columns(where, others, alias)
    if isinstance(node, nodes.Delete):
        return replace(node, where=where)
    values = []
    for target, value in node.set:
        if value.strip().upper() != "DEFAULT":
            # A value names no more than the view shows either.
            analyse(frame.select(*as_columns(context.spark, [value])))
        values.append((_target(target, names, alias), with_columns(value, others, alias)))
    return replace(node, where=where, set=tuple(values))


def _target(name: str, names: Mapping[str, str], alias: str) -> str:
    """What UPDATE sets, in the table's words."""
    path = split_path(name)
    if len(path) > 1 and path[0].casefold() == alias.casefold() and path[1].casefold() in names:
        path = path[1:]
    column = names.get(path[0].casefold())
    if column is None:
        raise SchemaInvalidError(
            f"UPDATE sets the column {name}, which the view lacks; it has {', '.join(names)}.",
            errorClass="UNRESOLVED_COLUMN.WITH_SUGGESTION",
        )
    return join_path((column, *path[1:]))
