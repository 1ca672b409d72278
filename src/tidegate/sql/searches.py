"""Searches in a query's WHERE: where they stand, and which table of the query each is about.

A search is ``column TEXTSEARCH 'words'`` (or FIELDMATCH, INDEXQUERY; ``*`` for the column means all), the
same as a function ``textsearch(column, 'words')``, or ``indexqueryall('words')``. It narrows a table before
its rows are read, so it stands by itself in WHERE or is joined to the rest by AND; OR and NOT belong into
the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from tidegate.errors import QueryError
from tidegate.sql.dialect import at_offset, tokens_of

KINDS = ("textsearch", "fieldmatch", "indexquery")
_PREFIXES = ("tantivy4spark_", "indextables_")
_ENDS = (
    "GROUP BY",
    "ORDER BY",
    "SORT BY",
    "HAVING",
    "LIMIT",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "WINDOW",
    "QUALIFY",
)


@dataclass(frozen=True)
class Search:
    """One search: its kind, its column (None for all), its words, its span, and the FROM it belongs to."""

    kind: str
    column: tuple[str, ...] | None
    words: str
    start: int
    end: int
    tables: tuple[int, int]

    @property
    def query(self) -> str:
        """The search in the query language."""
        if self.column is None:
            return f"({self.words})"
        name = self.column[-1]
        field = name if name.replace("_", "a").isalnum() else "`" + name + "`"
        return f"{field}:({self.words})"


def searches(text: str) -> list[Search]:
    """The searches of a query, in order; an error for one that stands where it cannot narrow."""
    if not any(kind in text.lower() for kind in KINDS):
        return []
    tokens = tokens_of(text)
    out, at = [], 0
    while at < len(tokens):
        found = _operator(tokens, at) or _function(tokens, at)
        if found is None:
            at += 1
            continue
        kind, column, words, first, last = found
        tables = _from(text, tokens, first, last)
        out.append(Search(kind, column, words, tokens[first].start, tokens[last].end, tables))
        at = last + 1
    return out


def blanked(text: str, found: Sequence[Search]) -> str:
    """The text with TRUE in the place of each search; every other place stays where it is."""
    for one in found:
        length = one.end + 1 - one.start
        text = text[: one.start] + "TRUE".ljust(length) + text[one.end + 1 :]
    return text


_Found = tuple[str, tuple[str, ...] | None, str, int, int]


def _kind(token: Token) -> str | None:
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return None
    name = token.text.lower()
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name if name in (*KINDS, "indexqueryall") else None


def _operator(tokens: Sequence[Token], at: int) -> _Found | None:
    """``column TEXTSEARCH 'words'``, seen from the operator."""
    kind = _kind(tokens[at])
    if kind not in KINDS or at == 0 or at + 1 >= len(tokens):
        return None
    if tokens[at + 1].token_type is not TokenType.STRING:
        return None
    words, before = tokens[at + 1].text, tokens[at - 1]
    if before.token_type is TokenType.STAR or before.text.lower() == "_indexall":
        return kind, None, words, at - 1, at + 1
    first = at - 1
    while first >= 2 and tokens[first - 1].token_type is TokenType.DOT:
        first -= 2
    return kind, tuple(t.text for t in tokens[first:at:2]), words, first, at + 1


def _function(tokens: Sequence[Token], at: int) -> _Found | None:
    """``textsearch(column, 'words')`` and ``indexqueryall('words')``."""
    kind = _kind(tokens[at])
    if kind is None or at + 1 >= len(tokens) or tokens[at + 1].token_type is not TokenType.L_PAREN:
        return None
    close = next((i for i in range(at, len(tokens)) if tokens[i].token_type is TokenType.R_PAREN), None)
    if close is None or tokens[close - 1].token_type is not TokenType.STRING:
        return None
    words, inner = tokens[close - 1].text, tokens[at + 2 : close - 1]
    if kind == "indexqueryall" and not inner:
        return "indexquery", None, words, at, close
    if len(inner) < 2 or inner[-1].token_type is not TokenType.COMMA:
        return None
    column = None if inner[0].token_type is TokenType.STAR else tuple(t.text for t in inner[:-1:2])
    return kind, column, words, at, close


def _from(text: str, tokens: Sequence[Token], first: int, last: int) -> tuple[int, int]:
    """The span of the FROM whose rows a search narrows; an error where no AND of a WHERE holds it."""
    where = _back(tokens, first, ("WHERE",), refused=("OR", "NOT"))
    source = None if where is None else _back(tokens, where, ("FROM",))
    if where is None or source is None or _or_follows(tokens, last):
        raise at_offset(
            QueryError(
                "A search narrows the rows of its table: it stands in WHERE by itself, or is joined by AND.",
                hint="Write OR and NOT inside the words, as in: message TEXTSEARCH 'reset OR peer'.",
            ),
            text,
            tokens[first].start,
        )
    return tokens[source].end, tokens[where].start


def _back(
    tokens: Sequence[Token], at: int, words: tuple[str, ...], refused: tuple[str, ...] = ()
) -> int | None:
    """The nearest of some words before ``at``, outside of parentheses that are closed between."""
    depth = 0
    for i in range(at - 1, -1, -1):
        kind, text = tokens[i].token_type, tokens[i].text.upper()
        if kind is TokenType.R_PAREN:
            depth += 1
        elif kind is TokenType.L_PAREN:
            depth -= 1
            # A parenthesis around conditions alone is left; one around a query ends the search.
            if depth < 0 and i and tokens[i - 1].text.upper() not in ("WHERE", "AND", "("):
                return None
            depth = max(depth, 0)
        elif depth == 0 and kind not in (TokenType.STRING, TokenType.IDENTIFIER):
            if text in words:
                return i
            if text in refused:
                return None
    return None


def _or_follows(tokens: Sequence[Token], last: int) -> bool:
    """Whether an OR stands behind a search in the same WHERE."""
    depth = 0
    for i in range(last + 1, len(tokens)):
        kind, text = tokens[i].token_type, tokens[i].text.upper()
        if kind is TokenType.L_PAREN:
            depth += 1
        elif kind is TokenType.R_PAREN:
            if depth == 0 and _closes_query(tokens, i):
                return False
            depth = max(depth - 1, 0)
        elif depth == 0 and kind not in (TokenType.STRING, TokenType.IDENTIFIER):
            if text == "OR":
                return True
            if text in _ENDS or kind is TokenType.SELECT:
                return False
    return False


def _closes_query(tokens: Sequence[Token], close: int) -> bool:
    """Whether the parenthesis that closes here holds a query, not conditions."""
    depth = 0
    for i in range(close, -1, -1):
        depth += {TokenType.R_PAREN: 1, TokenType.L_PAREN: -1}.get(tokens[i].token_type, 0)
        if depth == 0:
            return tokens[i + 1].token_type in (TokenType.SELECT, TokenType.WITH, TokenType.FROM)
    return False
