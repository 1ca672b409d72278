"""From the text of a statement to its node: the first words choose the reader.

The answer is None for every statement that cannot be ours, which then goes to Spark as it came. One
that is of our kind but about another's table is found out later, when its table is looked up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from sqlglot.tokenizer_core import TokenType

from tidegate.errors import SqlSyntaxError
from tidegate.sql.alter import alter, comment
from tidegate.sql.define import create, insert, show
from tidegate.sql.dialect import Walk, tokens_of
from tidegate.sql.index_statements import index_statement
from tidegate.sql.maintain import convert, describe, generate, optimize, reorg, restore, vacuum
from tidegate.sql.modify import delete, drop, merge, refresh, truncate, update
from tidegate.sql.nodes import Statement, TableRef

Reader = Callable[[Walk], Statement | None]


def _behind_with(walk: Walk) -> Statement | None:
    """``WITH ... INSERT`` or ``WITH ... MERGE``; a WITH without them is a plain query."""
    depth = 0
    for at, token in enumerate(walk.tokens):
        word = token.text.upper()
        # A common table expression that is called so stands behind WITH or a comma.
        if depth == 0 and at > 0 and walk.tokens[at - 1].token_type is TokenType.R_PAREN:
            if word in ("SELECT", "FROM", "VALUES", "TABLE"):
                return None
            if word in ("INSERT", "MERGE"):
                walk.at = at
                common = walk.text[walk.tokens[0].start : token.start]
                return insert(walk, common) if word == "INSERT" else merge(walk, common)
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
    return None


# Delta's alone: what is wrong in one of these is our error, whatever table it speaks of.
DELTA_ONLY: dict[tuple[str, ...], Reader] = {
    ("VACUUM",): vacuum,
    ("OPTIMIZE",): optimize,
    ("REORG",): reorg,
    ("RESTORE",): restore,
    ("CONVERT", "TO", "DELTA"): convert,
    ("GENERATE",): generate,
    ("DESCRIBE", "DETAIL"): describe,
    ("DESC", "DETAIL"): describe,
    ("DESCRIBE", "HISTORY"): describe,
    ("DESC", "HISTORY"): describe,
}
# Of any table: what we cannot read may still be something that Spark can.
SHARED: dict[tuple[str, ...], Reader] = {
    ("DESCRIBE",): describe,
    ("DESC",): describe,
    ("SHOW",): show,
    ("CREATE",): create,
    ("REPLACE",): create,
    ("INSERT",): insert,
    ("WITH",): _behind_with,
    ("UPDATE",): update,
    ("DELETE", "FROM"): delete,
    ("MERGE",): merge,
    ("TRUNCATE",): truncate,
    ("DROP",): drop,
    ("REFRESH", "TABLE"): refresh,
    ("ALTER", "TABLE"): alter,
    ("COMMENT", "ON", "TABLE"): comment,
}


class Unreadable(Exception):
    """A statement of a shared kind that we cannot read; the cause says where and why.

    ``table`` is the table that it speaks of, if it was read that far.
    """

    def __init__(self, cause: SqlSyntaxError, table: TableRef | None = None) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.table = table


def parse(text: str) -> Statement | None:
    """The statement that ``text`` is, if it is of a kind that may be ours."""
    tokens = tokens_of(text)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens or any(t.token_type is TokenType.SEMICOLON for t in tokens):
        return None
    found = index_statement(Walk(text, tokens))
    if found is not None:
        return found
    for words, read in DELTA_ONLY.items():
        if Walk(text, tokens).peek(*words):
            return read(Walk(text, tokens))
    for words, read in SHARED.items():
        if Walk(text, tokens).peek(*words):
            walk = Walk(text, tokens)
            try:
                return read(walk)
            except SqlSyntaxError as e:
                raise Unreadable(e, walk.first_table) from e
    return None


def says_delta(text: str) -> bool:
    """Whether a statement says ``USING delta``, whatever else may be wrong with it."""
    tokens = tokens_of(text)
    return any(
        one.text.upper() == "USING" and other.text.lower() == "delta"
        for one, other in itertools.pairwise(tokens)
    )
