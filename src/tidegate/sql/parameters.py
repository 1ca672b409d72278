"""The parameters of ``spark.sql(text, args)`` in a statement of ours: put in as literals, token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from sqlglot.tokenizer_core import TokenType

from tidegate.errors import OptionError
from tidegate.sql.dialect import tokens_of

Parameters = Mapping[str, Any] | Sequence[Any]


def literal(value: Any) -> str:
    """A Python value as a literal of Spark's SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value) if abs(value) < 2**31 else f"{value}L"
    if isinstance(value, float):
        return (
            f"double('{value}')"
            if value != value or value in (float("inf"), -float("inf"))
            else f"{value!r}D"
        )
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes | bytearray):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        return f"TIMESTAMP '{value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(sep=' ')}Z'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    raise OptionError(f"A parameter of the type {type(value).__name__} cannot stand in this statement.")


def bound(text: str, parameters: Parameters | None) -> str:
    """``text`` with ``:name`` and ``?`` replaced by the parameters' values."""
    if not parameters:
        return text
    tokens = tokens_of(text)
    out, at, used = [], 0, 0
    for i, token in enumerate(tokens):
        if isinstance(parameters, Mapping):
            follows = tokens[i + 1] if i + 1 < len(tokens) else None
            marked = token.token_type is TokenType.COLON and follows is not None
            if not marked or follows is None or follows.start != token.end + 1:
                continue
            if follows.text not in parameters:
                continue
            start, end, value = token.start, follows.end, parameters[follows.text]
        else:
            if token.token_type is not TokenType.PLACEHOLDER:
                continue
            if used >= len(parameters):
                raise OptionError(f"The statement has more than the {len(parameters)} parameters given.")
            start, end, value = token.start, token.end, parameters[used]
            used += 1
        out += [text[at:start], literal(value)]
        at = end + 1
    return "".join([*out, text[at:]])
