"""A leaf of a query against one value: how a partition column, the same in all rows of a split, answers.

The same meaning as in the index: a null matches nothing, an exact string is compared by code points, text
in the query is read in the column's type.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from tidegate.errors import QueryError
from tidegate.index.fields import Field
from tidegate.index.query import Exists, Node, OneOf, Range, Regex, Term, Typed, Value, Wildcard
from tidegate.index.values import as_value
from tidegate.schema.types import PrimitiveType, StructField


def holds(node: Node, column: StructField, value: Any) -> bool:
    """Whether a row whose ``column`` has ``value`` matches the leaf."""
    if value is None:
        return False
    if isinstance(node, Exists):
        return True
    if isinstance(node, Term):
        return _term(node, column, value)
    if isinstance(node, OneOf):
        return any(_same(value, literal(v, column)) for v in node.values)
    if isinstance(node, Range):
        return _between(node, column, value)
    if isinstance(node, Wildcard):
        expression = "".join(
            ".*" if kind == "many" else "." if kind == "one" else re.escape(text) for kind, text in node.parts
        )
        return re.fullmatch(expression, _string(column, value), re.DOTALL) is not None
    assert isinstance(node, Regex)
    return re.fullmatch(node.pattern, _string(column, value), re.DOTALL) is not None


def check(node: Node, column: StructField) -> None:
    """Refuse a leaf that makes no sense for the column, whatever its value is."""
    if isinstance(node, Term):
        if node.fuzzy is not None:
            raise QueryError(f"{column.name} is a partition column, which is not searched fuzzily.")
        if not node.prefix:
            literal(node.value, column)
    elif isinstance(node, OneOf):
        for value in node.values:
            literal(value, column)
    elif isinstance(node, Range):
        for bound in (node.low, node.high):
            if bound is not None:
                literal(bound, column)
    elif isinstance(node, Wildcard | Regex) and column.type != PrimitiveType("string"):
        raise QueryError(f"{column.name} is a {column.type} column: it has values and ranges, not patterns.")


def _term(node: Term, column: StructField, value: Any) -> bool:
    if node.prefix:
        text = node.value.value if isinstance(node.value, Typed) else node.value
        return _string(column, value).startswith(str(text))
    return _same(value, literal(node.value, column))


def _between(node: Range, column: StructField, value: Any) -> bool:
    value = _comparable(value)
    if node.low is not None:
        low = _comparable(literal(node.low, column))
        if not (value > low or (node.include_low and value == low)):
            return False
    if node.high is not None:
        high = _comparable(literal(node.high, column))
        if not (value < high or (node.include_high and value == high)):
            return False
    return True


def literal(value: Value, column: StructField) -> Any:
    """Text of a query in the type of a column."""
    if isinstance(column.type, PrimitiveType) and column.type.name in ("string", "binary"):
        return value.value if isinstance(value, Typed) else value
    return as_value(value, Field(column.name, column.type, "integer"))


def _same(value: Any, wanted: Any) -> bool:
    return bool(_comparable(value) == _comparable(wanted))


def _comparable(value: Any) -> Any:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    if isinstance(value, float):
        return Decimal(repr(value)) if value == value and abs(value) != float("inf") else value
    return value


def _string(column: StructField, value: Any) -> str:
    if not isinstance(value, str):
        kind = "date" if isinstance(value, date) else str(column.type)
        raise QueryError(f"{column.name} is a {kind} column: it has values and ranges, not patterns.")
    return value
