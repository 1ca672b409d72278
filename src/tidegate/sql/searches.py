"""Searches in a query's WHERE: where they stand, and which table of the query each is about.

A search is ``column TEXTSEARCH 'words'`` (or FIELDMATCH, INDEXQUERY; ``*`` for the column means all), the
same as a function ``textsearch(column, 'words')``, or ``indexqueryall('words')``. It stands anywhere in a
WHERE, also below OR and NOT. Each is marked by a name of its own in the text, as long as it was, so that
every other place stays where it is; ``narrowing`` says which of them narrow their table before it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from tidegate.errors import QueryError
from tidegate.sql.dialect import at_offset, tokens_of

KINDS = ("textsearch", "fieldmatch", "indexquery")
_PREFIXES = ("tantivy4spark_", "indextables_")
_MARK = "__tg"
_QUERIES = (TokenType.SELECT, TokenType.WITH, TokenType.FROM)
_SETS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
_CLAUSES = {
    TokenType.SELECT,
    TokenType.FROM,
    TokenType.JOIN,
    TokenType.ON,
    TokenType.HAVING,
    TokenType.GROUP_BY,
    TokenType.ORDER_BY,
    TokenType.SORT_BY,
    TokenType.QUALIFY,
    *_SETS,
}
_RESHAPED = {TokenType.PIVOT, TokenType.UNPIVOT}
# Where rows that are left out beforehand would show: as partners that are missing, or in what is sampled.
_OUTER = {
    TokenType.LEFT,
    TokenType.RIGHT,
    TokenType.FULL,
    TokenType.ANTI,
    TokenType.SEMI,
    TokenType.TABLE_SAMPLE,
}


@dataclass(frozen=True)
class Search:
    """One search: its kind, its column (None for all), its words, its span, and the query it belongs to.

    ``tables`` is the span of that query's FROM, ``scope`` that of the query. In a ``plain`` FROM rows may be
    left out before anything else happens to them.
    """

    kind: str
    column: tuple[str, ...] | None
    words: str
    start: int
    end: int
    tables: tuple[int, int]
    scope: tuple[int, int]
    mark: str
    plain: bool = True

    @property
    def query(self) -> str:
        """The search in the query language."""
        if self.column is None:
            return f"({self.words})"
        name = self.column[-1]
        field = name if name.replace("_", "a").isalnum() else "`" + name + "`"
        return f"{field}:({self.words})"


def searches(text: str) -> list[Search]:
    """The searches of a query, in order; an error for one that stands outside of a WHERE."""
    if not any(kind in text.lower() for kind in KINDS):
        return []
    tokens = tokens_of(text)
    out: list[Search] = []
    at = 0
    while at < len(tokens):
        found = _operator(tokens, at) or _function(tokens, at)
        if found is None:
            at += 1
            continue
        kind, column, words, first, last = found
        tables, scope, plain = _place(text, tokens, first, last)
        span = tokens[first].start, tokens[last].end
        out.append(Search(kind, column, words, *span, tables, scope, f"{_MARK}{len(out)}", plain))
        at = last + 1
    return out


def marked(text: str, found: Sequence[Search]) -> str:
    """The text with its mark in the place of each search; every other place stays where it is."""
    for one in found:
        length = one.end + 1 - one.start
        text = text[: one.start] + one.mark.ljust(length) + text[one.end + 1 :]
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


_Place = tuple[tuple[int, int], tuple[int, int], bool]


def _place(text: str, tokens: Sequence[Token], first: int, last: int) -> _Place:
    """The FROM and the query that a search belongs to; an error where it stands in no WHERE."""
    where = _back(tokens, first, TokenType.WHERE, _CLAUSES)
    source = None if where is None else _back(tokens, where, TokenType.FROM, (TokenType.SELECT,))
    select = None if source is None else _back(tokens, source, TokenType.SELECT, ())
    if where is None or source is None or select is None:
        raise at_offset(
            QueryError(
                "A search stands in the WHERE of a SELECT, and nowhere else.",
                hint="Search in a subquery: (SELECT ... FROM t WHERE message TEXTSEARCH 'words').",
            ),
            text,
            tokens[first].start,
        )
    kinds = {t.token_type for t in tokens[source:where]}
    if kinds & _RESHAPED:
        raise at_offset(
            QueryError(
                "A search is about the rows of its table, and PIVOT and UNPIVOT make others of them.",
                hint="Search in a subquery: FROM (SELECT ... WHERE message TEXTSEARCH 'words') PIVOT (...).",
            ),
            text,
            tokens[first].start,
        )
    end = _end(tokens, last)
    within = tokens[source].end, tokens[where].start
    return within, (tokens[select].start, tokens[end].end), not kinds & _OUTER


def opens_query(tokens: Sequence[Token], at: int) -> bool:
    """Whether the parenthesis at ``at`` holds a query."""
    return at + 1 < len(tokens) and tokens[at + 1].token_type in _QUERIES


def _back(
    tokens: Sequence[Token], at: int, wanted: TokenType, refused: Sequence[TokenType] | set[TokenType]
) -> int | None:
    """The nearest clause ``wanted`` before ``at``, in the same query; None behind one of ``refused``."""
    depth = 0
    for i in range(at - 1, -1, -1):
        kind = tokens[i].token_type
        if kind is TokenType.R_PAREN:
            depth += 1
        elif kind is TokenType.L_PAREN:
            if depth == 0 and opens_query(tokens, i):
                return None
            depth = max(depth - 1, 0)
        elif depth == 0 and not _compares(tokens, i):
            if kind is wanted:
                return i
            if kind in refused:
                return None
    return None


def _compares(tokens: Sequence[Token], at: int) -> bool:
    """Whether this is the FROM of ``IS [NOT] DISTINCT FROM``."""
    return (
        tokens[at].token_type is TokenType.FROM
        and at > 1
        and tokens[at - 1].token_type is TokenType.DISTINCT
        and tokens[at - 2].token_type in (TokenType.IS, TokenType.NOT)
    )


def _end(tokens: Sequence[Token], at: int) -> int:
    """The last token of the query that ``at`` belongs to."""
    depth = 0
    for i in range(at + 1, len(tokens)):
        kind = tokens[i].token_type
        if kind is TokenType.L_PAREN:
            depth += 1
        elif kind is TokenType.R_PAREN:
            if depth == 0 and _closes_query(tokens, i):
                return i - 1
            depth = max(depth - 1, 0)
        elif depth == 0 and kind in _SETS:
            return i - 1
    return len(tokens) - 1


def _closes_query(tokens: Sequence[Token], close: int) -> bool:
    """Whether the parenthesis that closes here holds a query, not conditions."""
    depth = 0
    for i in range(close, -1, -1):
        depth += {TokenType.R_PAREN: 1, TokenType.L_PAREN: -1}.get(tokens[i].token_type, 0)
        if depth == 0:
            return opens_query(tokens, i)
    return False
