"""``DEFAULT`` as a value: in VALUES and SELECT of an INSERT, in the assignments of UPDATE and MERGE.

The word stands for the column's default, NULL where it has none, and only by itself: within an expression
it is refused, as Spark refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from tidegate.commands.names import split_name
from tidegate.errors import PredicateError
from tidegate.schema.columns import default_columns
from tidegate.schema.types import StructType
from tidegate.spark.scan.projection import spark_type
from tidegate.sql.dialect import tokens_of

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def in_query(text: str, names: Sequence[str], schema: StructType) -> str:
    """A query of INSERT with each DEFAULT replaced by what it means for the column it goes to."""
    if "default" not in text.lower():
        return text
    tokens = tokens_of(text)
    out, at = [], 0
    for position, item in _items(tokens):
        words = [t for t in item if _is_default(tokens, t)]
        if not words or any(t.token_type in (TokenType.SELECT, TokenType.FROM) for t in item):
            continue
        if len(item) > 1 and item[1].token_type is not TokenType.ALIAS:
            raise _misplaced()
        if position >= len(names):
            continue
        out += [text[at : item[0].start], _value(schema, names[position])]
        at = item[0].end + 1
    return "".join([*out, text[at:]])


def in_assignments(values: Sequence[tuple[str, str]] | None, schema: StructType) -> dict[str, str] | None:
    """The assignments of UPDATE or MERGE with each DEFAULT replaced; None stays None."""
    if values is None:
        return None
    return {column: _assigned(column, text, schema) for column, text in values}


def _assigned(column: str, text: str, schema: StructType) -> str:
    if "default" not in text.lower():
        return text
    tokens = tokens_of(text)
    words = [t for t in tokens if _is_default(tokens, t)]
    if not words:
        return text
    if len(tokens) > 1:
        raise _misplaced()
    parts = split_name(column)
    top = next((p for p in parts if schema.field(p) is not None), parts[-1])
    return _value(schema, top) if top == parts[-1] else "NULL"


def _items(tokens: Sequence[Token]) -> Iterator[tuple[int, list[Token]]]:
    """The values of VALUES or of the list of SELECT: which column of its row each is, and its tokens."""
    if not tokens or tokens[0].token_type not in (TokenType.VALUES, TokenType.SELECT):
        return
    rows = tokens[0].token_type is TokenType.VALUES
    level = 1 if rows else 0
    depth, position = 0, 0
    item: list[Token] = []
    for token in tokens[1:]:
        if token.token_type in _CLOSE:
            depth -= 1
        if depth < level or (not rows and depth == 0 and token.token_type is TokenType.FROM):
            if item:
                yield position, item
            item, position = [], 0
            if not rows:
                return
        elif depth == level and token.token_type is TokenType.COMMA:
            yield position, item
            item, position = [], position + 1
        else:
            item.append(token)
        if token.token_type in _OPEN:
            if depth == 0 and rows:
                item = []
            depth += 1
    if item:
        yield position, item


def _is_default(tokens: Sequence[Token], token: Token) -> bool:
    """Whether a token is the keyword, not a part of a name, a function or an alias."""
    if token.text.upper() != "DEFAULT" or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return False
    at = next(i for i, t in enumerate(tokens) if t is token)
    before = tokens[at - 1].token_type if at else None
    after = tokens[at + 1].token_type if at + 1 < len(tokens) else None
    return before not in (TokenType.DOT, TokenType.ALIAS) and after not in (TokenType.DOT, TokenType.L_PAREN)


def _value(schema: StructType, name: str) -> str:
    field = schema.field(name)
    if field is None:
        return "NULL"
    found: Mapping[str, str] = {d.name: d.current for d in default_columns(schema)}
    kind = spark_type(field.type).simpleString()
    return f"CAST(({found.get(field.name, 'NULL')}) AS {kind})"


def _misplaced() -> PredicateError:
    return PredicateError(
        "DEFAULT stands for a column's default by itself, not within an expression.",
        hint="Write the value in its place.",
        errorClass="DEFAULT_PLACEMENT_INVALID",
    )
