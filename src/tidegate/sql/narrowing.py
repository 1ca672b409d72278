"""What the searches of a WHERE ask of every row, and how the columns of the others stay out of sight.

A WHERE keeps a row only if it is true. So what stands in it by itself or joined by AND must hold for the row,
and of an OR one side must: these narrow a table before it is read. Everything else is decided row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidegate.sql.dialect import tokens_of
from tidegate.sql.names import tree_of
from tidegate.sql.searches import Search, opens_query

_BEHIND_STAR = (TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, TokenType.EXCEPT)
Needed = dict[int, str]


@dataclass
class Narrowed:
    """The searches that hold for every row of their WHERE, and by the place of a table the query for it."""

    always: set[str] = field(default_factory=set)
    needed: Needed = field(default_factory=dict)


def narrowing(text: str, found: Sequence[Search], owners: Mapping[str, int]) -> Narrowed:
    """Go through the conditions of a text in which each search is its mark."""
    out = Narrowed()
    tree = tree_of(text)
    plain = {s.mark: s for s in found if s.plain}
    for where in tree.find_all(exp.Where) if tree is not None and plain else ():
        for at, query in _needed(where.this, plain, owners, out.always).items():
            out.needed[at] = f"{out.needed[at]} AND {query}" if at in out.needed else query
    return out


def _needed(
    node: Any, searches: Mapping[str, Search], owners: Mapping[str, int], always: set[str] | None
) -> Needed:
    """What every row must match for ``node`` to be true; ``always`` takes the searches that AND joins."""
    if isinstance(node, exp.Paren):
        return _needed(node.this, searches, owners, always)
    if isinstance(node, exp.And):
        left, right = (_needed(n, searches, owners, always) for n in (node.left, node.right))
        both = {k: f"{left[k]} AND {right[k]}" for k in left.keys() & right.keys()}
        return {**left, **right, **both}
    if isinstance(node, exp.Or):
        left, right = (_needed(n, searches, owners, None) for n in (node.left, node.right))
        return {k: f"({left[k]} OR {right[k]})" for k in left.keys() & right.keys()}
    negated = isinstance(node, exp.Not)
    inner = node.this if negated else node
    while negated and isinstance(inner, exp.Paren):
        inner = inner.this
    search = searches.get(inner.name) if isinstance(inner, exp.Column) and not inner.table else None
    if search is None:
        return {}
    if always is not None and not negated:
        always.add(search.mark)
    query = f"({search.query})"
    return {owners[search.mark]: f"(NOT {query})" if negated else query}


def stars(text: str, columns: Sequence[tuple[Search, str]]) -> list[tuple[int, int, str]]:
    """What keeps the columns of searches out of every ``*`` that would show them.

    With each search comes what its table is called. Answered are places, as ``(start, start - 1, new)``.
    """
    tokens = tokens_of(text) if columns else []
    out = []
    for scope in sorted({s.scope for s, _ in columns}):
        mine = [(s.mark, name) for s, name in columns if s.scope == scope]
        for at in _stars(tokens, scope):
            before = tokens[at - 1].token_type is TokenType.DOT
            shown = [m for m, name in mine if not before or tokens[at - 2].text.lower() == name.lower()]
            if shown:
                out.append(_left_out(tokens, at, ", ".join(shown)))
    return out


def _stars(tokens: Sequence[Token], scope: tuple[int, int]) -> list[int]:
    """The stars of one query, not of those within it; ``count(*)`` shows nothing."""
    out = []
    nested = 0
    for at, token in enumerate(tokens):
        if not scope[0] <= token.start <= scope[1]:
            continue
        if token.token_type is TokenType.L_PAREN and (nested or opens_query(tokens, at)):
            nested += 1
        elif token.token_type is TokenType.R_PAREN and nested:
            nested -= 1
        elif token.token_type is TokenType.STAR and not nested and _is_star(tokens, at):
            out.append(at)
    return out


def _is_star(tokens: Sequence[Token], at: int) -> bool:
    """Whether this is no multiplication, which something follows, nor that of ``count(*)``."""
    if at + 1 < len(tokens) and tokens[at + 1].token_type not in _BEHIND_STAR:
        return False
    return not (tokens[at - 1].token_type is TokenType.L_PAREN and tokens[at - 2].text.lower() == "count")


def _left_out(tokens: Sequence[Token], at: int, names: str) -> tuple[int, int, str]:
    if at + 2 < len(tokens) and tokens[at + 1].token_type is TokenType.EXCEPT:
        start = tokens[at + 2].end + 1
        return start, start - 1, f"{names}, "
    start = tokens[at].end + 1
    return start, start - 1, f" EXCEPT ({names})"
