"""Which columns an SQL expression speaks of, as data: what generated columns and constraints depend on.

Asked before a column is renamed, dropped or given another type. In doubt a column counts as spoken
of: an expression that does not parse here refers to every name among its words.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidegate.schema.paths import Path
from tidegate.schema.sql_trees import tree_of


def references(sql: str) -> frozenset[Path]:
    """The paths of the columns in ``sql``, in lower case, as far as the text tells them."""
    try:
        tree = tree_of(sql)
    except SqlglotError:
        return frozenset((w.lower(),) for w in re.findall(r"[\w$]+", sql))
    found: set[Path] = set()
    for column in tree.find_all(exp.Column):
        path = [part.name for part in column.parts]
        above = column.parent
        while isinstance(above, exp.Dot) and isinstance(above.expression, exp.Identifier):
            path.append(above.expression.name)
            above = above.parent
        found.add(tuple(p.lower() for p in path))
    return frozenset(found)


def speaks_of(sql: str, path: Path) -> bool:
    """Whether ``sql`` depends on the column at ``path``, on something inside it or on what holds it."""
    wanted = tuple(p.lower() for p in path)
    return any(found[: len(wanted)] == wanted[: len(found)] for found in references(sql))


def functions(sql: str) -> tuple[frozenset[str], frozenset[str]]:
    """The functions that ``sql`` calls, in lower case: those that every Spark has, and all others."""
    try:
        tree = tree_of(sql)
    except SqlglotError:
        return frozenset(), frozenset(w.lower() for w in re.findall(r"(\w+)\s*\(", sql))
    known, others = set(), set()
    for call in tree.find_all(exp.Func):
        if isinstance(call, exp.Anonymous):
            others.add(call.name.lower())
        else:
            known.add(call.sql_name().lower())
    return frozenset(known), frozenset(others)
