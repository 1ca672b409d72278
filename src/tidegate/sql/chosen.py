"""What a query shows of the one table it reads: its columns, under their names or others.

A query is followed by its text from FROM outwards, through subqueries, aliases and lists of columns. Anything
else that it holds (a filter, a join, a limit, a clause that is not known here) is named as what keeps it from
being the table. A column that is more than a name of one is computed. What stands behind FROM is asked of a
``Source``: pure, but for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from tidegate.spark.view_plans import A_FILTER, A_VERSION, Behind
from tidegate.sql.names import tree_of

Columns = tuple[tuple[str, str | None], ...]
Source = Callable[[tuple[str, ...]], Behind | None]
# What may stand in a query, a table and a subquery that is no more than a choice of columns.
_CHOICE = frozenset({"expressions", "from", "from_", "where"})
_NAMED = frozenset({"this", "db", "catalog", "alias"})


def shown_by(text: str, source: Source) -> Behind | None:
    """What the query ``text`` shows; None if it cannot be read, or there is no Delta table in it."""
    tree = tree_of(text)
    return None if tree is None else _followed(tree, source)


def with_expression(text: str, columns: Columns, qualifiers: Sequence[str]) -> Columns:
    """What one expression of a selection (``a AS b``, ``*``) makes of the columns it sees."""
    tree = tree_of(f"SELECT {text}")
    found = tree.expressions if isinstance(tree, exp.Select) else []
    return _projected(found, columns, qualifiers) if found else (("", None),)


def looked_up(parts: Sequence[str], columns: Columns, qualifiers: Sequence[str]) -> str | None:
    """The table's column that a name means, None if it is a field, ambiguous or unknown."""
    if len(parts) == 2 and parts[0].casefold() in (q.casefold() for q in qualifiers):
        parts = parts[1:]
    found = [c for name, c in columns if name.casefold() == parts[0].casefold()] if len(parts) == 1 else []
    return found[0] if len(found) == 1 else None


def _followed(query: Any, source: Source) -> Behind | None:
    while isinstance(query, exp.Subquery) and _said(query) == {"this"}:
        query = query.this
    first = query.args.get("from_") or query.args.get("from") if isinstance(query, exp.Select) else None
    found, qualifier = (None, "") if first is None else _source(first.this, source)
    if found is not None and found.obstacle == A_VERSION:
        return found
    more = {type(query).__name__.lower()} if first is None else _said(query) - _CHOICE
    if more:
        found = found or next((b for b in map(source, _tables(query)) if b is not None), None)
        what = ", ".join(name.strip("_") for name in sorted(more))
        return found and Behind(found.table, obstacle=f"more than a choice of columns ({what})")
    if found is not None and query.args.get("where"):
        return Behind(found.table, obstacle=A_FILTER)
    if found is None or found.obstacle is not None:
        return found
    return Behind(found.table, _projected(query.expressions, found.columns, [qualifier]))


def _said(node: Any) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _tables(query: Any) -> list[tuple[str, ...]]:
    """The names of tables in a query; a function in the place of one is none."""
    tables = (table.parts for table in query.find_all(exp.Table))
    return [tuple(p.name for p in t) for t in tables if all(isinstance(p, exp.Identifier) for p in t)]


def _source(node: Any, source: Source) -> tuple[Behind | None, str]:
    """What stands behind FROM, and by what its columns go."""
    alias = node.args.get("alias")
    if isinstance(node, exp.Table) and _said(node) <= _NAMED and _tables(node):
        parts = _tables(node)[0]
        found, name = source(parts), parts[-1]
    elif isinstance(node, exp.Subquery) and _said(node) <= {"this", "alias"}:
        found, name = _followed(node.this, source), ""
    else:
        found, name = next((b for b in map(source, _tables(node)) if b is not None), None), ""
        found = found and Behind(found.table, obstacle="more than a choice of columns (from)")
    names = [c.name for c in alias.args.get("columns") or ()] if alias is not None else []
    if found is not None and names and found.obstacle is None:
        renamed = zip(names, (column for _, column in found.columns), strict=False)
        found = Behind(found.table, tuple(renamed))
    return found, node.alias or name


def _projected(expressions: Sequence[Any], columns: Columns, qualifiers: Sequence[str]) -> Columns:
    out: list[tuple[str, str | None]] = []
    for given in expressions:
        name, value = (given.alias, given.this) if isinstance(given, exp.Alias) else (given.name, given)
        value = value.unnest()
        parts = [p.name for p in value.parts] if isinstance(value, exp.Column) else []
        star = value.this if isinstance(value, exp.Column) else value
        if isinstance(star, exp.Star):
            out += _starred(star, parts[:-1], columns, qualifiers)
        else:
            out.append((name, looked_up(parts, columns, qualifiers) if parts else None))
    return tuple(out)


def _starred(star: Any, of: Sequence[str], columns: Columns, qualifiers: Sequence[str]) -> Columns:
    """All columns, but those behind EXCEPT; the fields of a struct (``s.*``) are computed."""
    whole = not of or (len(of) == 1 and looked_up([*of, "?"], (("?", "?"),), qualifiers) == "?")
    said = _said(star)
    without = star.args.get("except_") or star.args.get("except") or []
    if not whole or said - {"except", "except_"} or not all(isinstance(c, exp.Column) for c in without):
        return (("", None),)
    left_out = {c.name.casefold() for c in without}
    return tuple((name, column) for name, column in columns if name.casefold() not in left_out)
