"""A column of Spark Connect as SQL text.

A Connect column is an unresolved expression that the client holds itself, and how it is shown is for people
only: a string has no quotes there. What is read here is the expression: references, literals, operators,
calls and casts. For anything else there is no text, and whoever asks does without.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import Any

from pyspark.sql import types as T

_INFIX = frozenset({"<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "and", "or"})
_SUFFIXES: dict[type, str] = {T.LongType: "L", T.ShortType: "S", T.ByteType: "Y", T.IntegerType: ""}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def sql_of(column: Any) -> str | None:
    """The SQL of a Connect column; None where it has none."""
    try:
        return _sql(column._expr)
    except (AttributeError, _NoText):
        # What PySpark calls its expressions may change; then they have no text here.
        return None


class _NoText(Exception):
    """An expression that cannot be written down."""


def _sql(expression: Any) -> str:
    kind = type(expression).__name__
    if kind == "ColumnReference" and expression._plan_id is None:
        return str(expression._unparsed_identifier)
    if kind == "SQLExpression":
        return f"({expression._expr})"
    if kind == "LiteralExpression":
        return _literal(expression._value, expression._dataType)
    if kind == "CastExpression" and expression._eval_mode is None:
        wanted = expression._data_type
        text = wanted if isinstance(wanted, str) else wanted.simpleString()
        return f"CAST({_sql(expression._expr)} AS {text})"
    if kind == "UnresolvedFunction" and not expression._is_distinct:
        return _call(expression._name, [_sql(a) for a in expression._args])
    raise _NoText(kind)


def _call(name: str, given: list[str]) -> str:
    if name == "==":
        return f"({given[0]} = {given[1]})"
    if name in _INFIX and len(given) == 2:
        return f"({given[0]} {name.upper()} {given[1]})"
    if name == "not":
        return f"(NOT {given[0]})"
    if name in ("isNull", "isNotNull"):
        return f"({given[0]} IS {'NOT ' if name == 'isNotNull' else ''}NULL)"
    if name == "in" and len(given) > 1:
        return f"({given[0]} IN ({', '.join(given[1:])}))"
    if re.fullmatch(r"\w+", name) and name != "in":
        return f"{name}({', '.join(given)})"
    raise _NoText(name)


def _literal(value: Any, kind: T.DataType) -> str:
    if value is None:
        return "NULL"
    if isinstance(kind, T.BooleanType):
        return "TRUE" if value else "FALSE"
    if isinstance(kind, T.StringType):
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if type(kind) in _SUFFIXES:
        return f"{value}{_SUFFIXES[type(kind)]}"
    if isinstance(kind, T.DoubleType) and value == value and abs(value) != float("inf"):
        return f"{value!r}D"
    if isinstance(kind, T.DateType):
        return f"DATE'{date(1970, 1, 1) + timedelta(days=value)}'"
    if isinstance(kind, T.TimestampType):
        return f"TIMESTAMP'{(_EPOCH + timedelta(microseconds=value)).isoformat(sep=' ')}'"
    raise _NoText(str(kind))
