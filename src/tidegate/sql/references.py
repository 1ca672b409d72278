"""Where a query speaks of Delta tables in a way that Spark alone cannot follow.

Found are paths (``delta.`/p` ``), versions (``t VERSION AS OF 3``, ``t@v3``) and ``table_changes(...)``. Only
the spans of these are replaced; the rest of the text, comments and all, stays as it was written. Names
without a version need nothing: the session's catalog plans them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from tidegate.commands.marks import marked
from tidegate.errors import SqlSyntaxError
from tidegate.sql.dialect import DeltaSpark, Walk, tokens_of
from tidegate.sql.nodes import TableRef
from tidegate.sql.positions import Rewritten, rewritten

_FUNCTIONS = ("TABLE_CHANGES", "TABLE_CHANGES_BY_PATH")
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_OPEN, _CLOSE = TokenType.L_PAREN, TokenType.R_PAREN
# What begins a query behind a parenthesis.
_QUERIES = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.TABLE)
_WORDS = ("SELECT", "FROM", "TABLE")
# A function has a parenthesis behind it, the type of a literal its text.
_BEHIND_OTHERS = (_OPEN, TokenType.STRING)
# Before types and aliases, and before the unit of an interval.
_BEFORE_OTHERS = (TokenType.ALIAS, TokenType.DCOLON, TokenType.STRING, TokenType.NUMBER)


@dataclass(frozen=True)
class Changes:
    """A call of ``table_changes``: the texts of its arguments."""

    function: str
    arguments: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Found:
    """One place in a text: what stands there, and the alias it needs to keep its own name."""

    what: TableRef | Changes
    alias: str | None = None

    @property
    def start(self) -> int:
        return self.what.start

    @property
    def end(self) -> int:
        return self.what.end


def references(text: str) -> list[Found]:
    """The places of ``text`` that need us, in order."""
    tokens = tokens_of(text)
    out: list[Found] = []
    at = 0
    while at < len(tokens):
        walk = Walk(text, tokens)
        walk.at = at
        found = _changes(walk) or _table(walk)
        if found is None:
            at += 1
            continue
        out.append(found)
        at = walk.at
    return out


def keeps_text(text: str) -> bool:
    """Whether a statement keeps a query as text for later: a temporary view, or CACHE TABLE ... AS."""
    walk = Walk(text, tokens_of(text))
    if walk.take("CACHE"):
        return True
    if not walk.take("CREATE"):
        return False
    walk.take("OR", "REPLACE")
    walk.take("GLOBAL")
    return walk.take("TEMPORARY") or walk.take("TEMP")


def _changes(walk: Walk) -> Found | None:
    """``table_changes('t', 1, 2)`` as it stands behind FROM or JOIN."""
    token = walk.here
    if token is None or token.text.upper() not in _FUNCTIONS or token.token_type is TokenType.STRING:
        return None
    start = walk.at
    walk.at += 1
    if walk.here is None or walk.here.token_type is not TokenType.L_PAREN:
        walk.at = start
        return None
    arguments = tuple(walk.listed(walk.expression))
    return Found(Changes(token.text.lower(), arguments, token.start, walk.tokens[walk.at - 1].end))


def _table(walk: Walk) -> Found | None:
    """A path, or a name with a version; the walk ends behind it."""
    token = walk.here
    before = walk.tokens[walk.at - 1].token_type if walk.at else None
    if token is None or before is TokenType.DOT or not _is_name(token):
        return None
    start = walk.at
    ref = _named(walk)
    travelled = walk.travelled(ref) if _may_travel(walk, before) else ref
    if ref.path is None and travelled is ref:
        walk.at = start
        return None
    return Found(travelled, _alias_needed(walk, travelled))


def _is_name(token: Token) -> bool:
    return token.token_type in _NAMES or (
        token.text[:1].isalpha()
        and token.token_type not in (TokenType.STRING, TokenType.FROM, TokenType.SELECT, TokenType.JOIN)
        and token.token_type in DeltaSpark.Parser.TABLE_ALIAS_TOKENS
    )


def _named(walk: Walk) -> TableRef:
    """The longest name here, but no longer than a path: what follows one is a column of it."""
    first = walk.here
    assert first is not None
    parts = [walk.identifier()]
    while walk.here is not None and walk.here.token_type is TokenType.DOT:
        ref = TableRef(tuple(parts), first.start, walk.tokens[walk.at - 1].end)
        if ref.path is not None or walk.at + 1 >= len(walk.tokens) or not _is_part(walk.tokens[walk.at + 1]):
            return ref
        walk.at += 1
        parts.append(walk.identifier())
    return TableRef(tuple(parts), first.start, walk.tokens[walk.at - 1].end)


def _is_part(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or token.text[:1].isalpha() or token.text[:1] == "_"


def _may_travel(walk: Walk, before: TokenType | None) -> bool:
    """Whether a version may follow: not in a list of columns, where ``version AS of`` is an alias."""
    if walk.here is not None and walk.here.token_type is TokenType.PARAMETER:
        follows = walk.tokens[walk.at + 1].text if walk.at + 1 < len(walk.tokens) else ""
        return follows[1:].isdecimal()
    if before in (TokenType.SELECT, TokenType.DISTINCT):
        return False
    words = (("VERSION", "AS", "OF"), ("TIMESTAMP", "AS", "OF"), ("FOR",))
    ahead = next((n for n in (walk.peek(*w) for w in words) if n), 0)
    if not ahead:
        return False
    behind = walk.at + ahead
    return behind < len(walk.tokens) and walk.tokens[behind].token_type not in (
        TokenType.COMMA,
        TokenType.FROM,
        TokenType.R_PAREN,
    )


def _alias_needed(walk: Walk, ref: TableRef) -> str | None:
    """The table's own name, where the text gives it no other."""
    token = walk.here
    if ref.path is not None:
        return None
    if token is not None and (
        token.token_type is TokenType.ALIAS or token.token_type in DeltaSpark.Parser.TABLE_ALIAS_TOKENS
    ):
        return None
    return ref.parts[-1]


def is_marked(text: str, found: Found) -> bool:
    """Whether the version stands behind the name as a mark (``t@v3``), which Spark cannot read."""
    _, sign, behind = text[found.start : found.end + 1].rpartition("@")
    return bool(sign) and marked(behind) is not None


def replaced(text: str, found: Sequence[Found], name_of: Callable[[Found], str]) -> Rewritten:
    """``text`` with each place replaced by what ``name_of`` calls it."""
    changes = []
    for place in found:
        alias = "" if place.alias is None else " AS `" + place.alias.replace("`", "``") + "`"
        changes.append((place.start, place.end, name_of(place) + alias))
    return rewritten(text, changes)


def without_qualifiers(text: str, names: Sequence[tuple[str, ...]]) -> str:
    """``text`` with each of the names, where something of it follows, cut down to its last part."""
    if not names or "." not in text:
        return text
    tokens = tokens_of(text)
    folded = [tuple(p.lower() for p in n) for n in names]
    out, at, i = [], 0, 0
    while i < len(tokens):
        length = _qualifier(tokens, i, folded)
        if length:
            out.append(text[at : tokens[i].start])
            at = tokens[i + length - 1].start
            i += length
        else:
            i += 1
    return "".join([*out, text[at:]])


def with_columns(text: str, names: Mapping[str, str], alias: str) -> str:
    """``text`` with columns of the row called otherwise, bare or behind the alias, under which they are put.

    Fields, functions, types, names behind AS and variables of lambdas stay, and so do subqueries: those that
    know of the row are not served.
    """
    tokens = tokens_of(text)
    others = _bound(tokens)
    out, at = [], 0
    for i, token in enumerate(tokens):
        new = names.get(token.text.casefold())
        if new is None or i in others or not _is_name(token) or not _begins_column(tokens, i, alias):
            continue
        # A variable of a lambda may have the new name, which is no column's then unless it is qualified.
        behind = i > 0 and tokens[i - 1].token_type is TokenType.DOT
        parts = (new,) if behind else (alias, new)
        out.append(text[at : token.start] + ".".join("`" + p.replace("`", "``") + "`" for p in parts))
        at = token.end + 1
    return "".join([*out, text[at:]])


def queries_in(text: str) -> list[tuple[int, int]]:
    """Where subqueries stand in the text of a value: the first and the last character of each."""
    if not any(word in text.upper() for word in _WORDS):
        return []
    try:
        tokens = tokens_of(text)
    except SqlSyntaxError:
        # Spark may know better.
        return []
    out: list[tuple[int, int]] = []
    for i in range(1, len(tokens)):
        behind = not out or tokens[i].start > out[-1][1]
        if behind and tokens[i].token_type in _QUERIES and tokens[i - 1].token_type is _OPEN:
            out.append((tokens[i].start, tokens[_end(tokens, i) - 1].end))
    return out


def _begins_column(tokens: Sequence[Token], i: int, alias: str) -> bool:
    """Whether the name here is a column's own, and no field, function, qualifier, type, alias or unit."""
    before = tokens[i - 1].token_type if i else None
    behind = tokens[i + 1].token_type if i + 1 < len(tokens) else None
    if behind in _BEHIND_OTHERS or before in _BEFORE_OTHERS:
        return False
    if before is not TokenType.DOT:
        return True
    deeper = i >= 3 and tokens[i - 3].token_type is TokenType.DOT
    return not deeper and tokens[i - 2].text.casefold() == alias.casefold()


def _bound(tokens: Sequence[Token]) -> set[int]:
    """Where names are not the row's: in subqueries, and variables of lambdas in their bodies."""
    out: set[int] = set()
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.ARROW:
            start = i - 1
            while tokens[i - 1].token_type is TokenType.R_PAREN and tokens[start].token_type is not _OPEN:
                start -= 1
            variables = {t.text.casefold() for t in tokens[start:i]}
            body = range(start, _end(tokens, i + 1, TokenType.COMMA))
            out.update(j for j in body if tokens[j].text.casefold() in variables)
        elif token.token_type in _QUERIES and i and tokens[i - 1].token_type is _OPEN:
            out.update(range(i, _end(tokens, i)))
    return out


def _end(tokens: Sequence[Token], i: int, or_at: TokenType | None = None) -> int:
    """Where what begins here ends: at the parenthesis that closes it, or sooner at a token like ``or_at``."""
    depth = 0
    while i < len(tokens):
        kind = tokens[i].token_type
        if depth == 0 and kind in (_CLOSE, or_at):
            break
        depth += {_OPEN: 1, _CLOSE: -1}.get(kind, 0)
        i += 1
    return i


def _qualifier(tokens: Sequence[Token], i: int, names: Sequence[tuple[str, ...]]) -> int:
    """How many tokens one of the names is that begins here and is followed by a dot; 0 if none is."""
    if i and tokens[i - 1].token_type is TokenType.DOT:
        return 0
    for name in names:
        length = 2 * len(name) - 1
        here = tokens[i : i + length + 1]
        dots = [t.token_type is TokenType.DOT for t in here[1::2]]
        parts = tuple(t.text.lower() for t in here[:length:2])
        strings = any(t.token_type is TokenType.STRING for t in here)
        if len(here) == length + 1 and all(dots) and parts == name and not strings:
            return length
    return 0
