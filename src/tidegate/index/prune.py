"""What a query says to the log: a predicate that every matching row fulfils, for leaving splits out.

It may be weaker than the query, never stronger: words, patterns and JSON paths say nothing here, and a
negation says nothing at all. Exact values and ranges of columns with statistics say what they mean.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tidegate.errors import QueryError
from tidegate.files.predicate import And, Column, Compare, Constant, In, Literal, Or, Predicate, StartsWith
from tidegate.index.constants import literal
from tidegate.index.encode import micros
from tidegate.index.names import Names
from tidegate.index.query import (
    All,
    Bool,
    Boost,
    Node,
    Nothing,
    OneOf,
    Range,
    Term,
    Value,
    Wildcard,
)
from tidegate.schema.types import DataType, DecimalType, PrimitiveType, StructField

_TRUE = Constant(True)
_KINDS = frozenset({"string", "integer", "float", "boolean"})


def implied(node: Node, names: Names) -> Predicate:
    """A predicate that holds for every row that matches ``node``."""
    if isinstance(node, Nothing):
        return Constant(False)
    if isinstance(node, Boost):
        return implied(node.node, names)
    if isinstance(node, Bool):
        if node.must:
            return _every([implied(n, names) for n in node.must])
        if node.should:
            return _any([implied(n, names) for n in node.should])
        return _TRUE
    if isinstance(node, All) or getattr(node, "field", None) is None:
        return _TRUE
    return _leaf(node, names)


def _every(parts: list[Predicate]) -> Predicate:
    known = tuple(p for p in parts if p != _TRUE)
    return known[0] if len(known) == 1 else And(known) if known else _TRUE


def _any(parts: list[Predicate]) -> Predicate:
    return _TRUE if _TRUE in parts else parts[0] if len(parts) == 1 else Or(tuple(parts))


def _leaf(node: Node, names: Names) -> Predicate:
    column = _column(str(getattr(node, "field", "")), names)
    if column is None:
        return _TRUE
    at = Column((column.name,))
    if isinstance(node, Term) and node.fuzzy is None and not node.prefix:
        value = _literal(node.value, column)
        return _TRUE if value is None else Compare(at, "=", value)
    if isinstance(node, OneOf):
        values = [_literal(v, column) for v in node.values]
        return In(at, tuple(v for v in values if v is not None)) if values and None not in values else _TRUE
    if isinstance(node, Range):
        return _range(node, at, column)
    if isinstance(node, Wildcard) and node.parts[0][0] == "text" and column.type == PrimitiveType("string"):
        return StartsWith(at, node.parts[0][1])
    return _TRUE


def _column(name: str, names: Names) -> StructField | None:
    field, partition, path = names.find(name)
    if field is None:
        return names.partitions.field(partition)
    if path or field.kind not in _KINDS or field.type == PrimitiveType("binary"):
        return None
    return StructField(field.column, field.type)


def _range(node: Range, at: Column, column: StructField) -> Predicate:
    parts: list[Predicate] = []
    if node.low is not None and (low := _literal(node.low, column)) is not None:
        parts.append(Compare(at, ">=" if node.include_low else ">", low))
    if node.high is not None and (high := _literal(node.high, column)) is not None:
        parts.append(Compare(at, "<=" if node.include_high else "<", high))
    return _every(parts)


def _literal(value: Value, column: StructField) -> Literal | None:
    try:
        return typed_literal(literal(value, column), column.type)
    except QueryError:
        # It will be said where it is compiled, with the same words on every split.
        return None


def typed_literal(value: Any, kind: DataType) -> Literal | None:
    """A value as a literal of predicates; None for one that they have no form for."""
    if isinstance(value, bool):
        return Literal(value, "boolean")
    if isinstance(value, int):
        return Literal(value, "long")
    if isinstance(value, float):
        return Literal(value, "double") if value == value else None
    if isinstance(value, Decimal):
        if not value.is_finite():
            return None
        return Literal(value, "decimal") if isinstance(kind, DecimalType) else None
    if isinstance(value, datetime):
        name = "timestamp_ntz" if kind == PrimitiveType("timestamp_ntz") else "timestamp"
        return Literal(micros(value), name)
    if isinstance(value, date):
        return Literal(value, "date")
    return Literal(value, "string") if isinstance(value, str) else None
