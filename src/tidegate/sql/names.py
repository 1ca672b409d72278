"""Where a query names tables: the places, in its text, at which a table's name stands.

For sessions in which no analyser of ours resolves names, as on Spark Connect. The text is read by sqlglot;
names of common table expressions are left out where they are visible, and so is everything that is no
name in the place of a table (functions, targets of statements, hints). A text that sqlglot cannot read has
no such places: it goes to Spark as it came.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from tidegate.errors import SqlSyntaxError
from tidegate.sql.dialect import DeltaSpark, Walk, tokens_of
from tidegate.sql.nodes import TableRef

_DIALECT = DeltaSpark()
_PARENTS = (exp.From, exp.Join, exp.Subquery, exp.Table, exp.MultitableInserts)
_QUERIES = (TokenType.SELECT, TokenType.WITH, TokenType.FROM)


@dataclass(frozen=True)
class Name:
    """A table's name in a text; as the qualifier of a column it is not the place where the table stands."""

    ref: TableRef
    alias: str | None = None
    qualifies: bool = False


def table_names(text: str) -> list[Name]:
    """The names of tables in a statement, in order; ``db.t`` of a column ``db.t.c`` among them."""
    tree, offset = _tree(text)
    if tree is None:
        return []
    found = {}
    for table in tree.find_all(exp.Table):
        ref = _ref(table.parts, offset)
        if ref is not None and isinstance(table.parent, _PARENTS) and not _is_common(table, ref):
            # ``TABLE t`` takes no alias, and has no columns that would need one.
            bare = table.alias or text[: ref.start].rstrip().upper().endswith("TABLE")
            found[ref.start] = Name(ref, None if bare else ref.parts[-1])
    known = {_lower(n.ref) for n in found.values() if len(n.ref.parts) > 1}
    for ref in _qualifiers(tree, offset) if known else ():
        if _lower(ref) in known:
            found.setdefault(ref.start, Name(ref, qualifies=True))
    return [found[at] for at in sorted(found)]


def _lower(ref: TableRef) -> tuple[str, ...]:
    return tuple(p.lower() for p in ref.parts)


def makes_view(text: str) -> str | None:
    """``temporary`` or ``permanent`` if the statement makes a view; None if it does not."""
    walk = _walk(text)
    if walk is None or not walk.take("CREATE"):
        return None
    walk.take("OR", "REPLACE")
    walk.take("GLOBAL")
    is_temporary = walk.take("TEMPORARY") or walk.take("TEMP")
    return None if not walk.take("VIEW") else "temporary" if is_temporary else "permanent"


def keeps_view(text: str) -> bool:
    """Whether the statement gives a view of the catalog its text: CREATE VIEW, ALTER VIEW ... AS."""
    if makes_view(text) == "permanent":
        return True
    walk = _walk(text)
    if walk is None or not walk.take("ALTER", "VIEW"):
        return False
    try:
        walk.parts("a view")
    except SqlSyntaxError:
        return False
    return walk.take("AS") or walk.peek("SELECT") > 0 or walk.peek("WITH") > 0


def _walk(text: str) -> Walk | None:
    """A walk over a statement; None if it cannot be read word by word."""
    try:
        return Walk(text, tokens_of(text))
    except SqlSyntaxError:
        return None


def _tree(text: str) -> tuple[Any, int]:
    """The statement, or the query that it ends with; and where in the text that begins."""
    try:
        tokens = tokens_of(text)
    except SqlSyntaxError:
        return None, 0
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        return None, 0
    if tokens[0].token_type is TokenType.TABLE:
        # ``TABLE t`` is a query of its own.
        start = tokens[0].end + 1
        return _parsed("FROM" + text[start : tokens[-1].end + 1], start - len("FROM"))
    body = text[: tokens[-1].end + 1]
    tree, at = _parsed(body, 0)
    first = next((t.start for t in tokens if t.token_type in _QUERIES), None)
    if tree is None and first:
        tree, at = _parsed(body[first:], first)
    return tree, at


def _parsed(text: str, offset: int) -> tuple[Any, int]:
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True
    try:
        trees = [t for t in _DIALECT.parse(text) if t is not None]
    except (SqlglotError, RecursionError):
        return None, offset
    finally:
        log.disabled = before
    return (trees[0], offset) if len(trees) == 1 else (None, offset)


def _ref(parts: list[Any], offset: int) -> TableRef | None:
    """A name with its span; None for what is no plain name."""
    names = [p for p in parts if isinstance(p, exp.Identifier) and "start" in p.meta]
    if not names or len(names) != len(parts):
        return None
    start, end = names[0].meta["start"] + offset, names[-1].meta["end"] + offset
    return TableRef(tuple(p.name for p in names), start, end)


def _qualifiers(tree: Any, offset: int) -> Iterator[TableRef]:
    """``db.t`` of every ``db.t.column``."""
    for column in tree.find_all(exp.Column):
        ref = _ref(list(column.parts)[:-1], offset) if column.args.get("db") else None
        if ref is not None:
            yield ref


def _is_common(table: exp.Table, ref: TableRef) -> bool:
    """Whether a name is that of a common table expression that can be seen from its place."""
    if len(ref.parts) > 1:
        return False
    name = ref.parts[0].lower()
    below: Any = table
    inside: Any = None
    while below is not None:
        above = below.parent
        if isinstance(below, exp.CTE):
            inside = below
        held = above.args.get("with_") or above.args.get("with") if above is not None else None
        if held is not None:
            visible = held.expressions
            if below is held:
                # From within one of them those before it are seen, and itself where they recurse.
                visible = visible[: visible.index(inside) + bool(held.args.get("recursive"))]
            if any(c.alias.lower() == name for c in visible):
                return True
        below = above
    return False


def tree_of(text: str) -> Any:
    """The statement, or the query that it ends with, as sqlglot's tree; None if it cannot be read."""
    return _tree(text)[0]
