"""Filters of Spark as queries: as much of each as the index can answer.

A filter becomes a query that every row fulfilling it matches. Where the two are the same, the filter is
*exact* and may be negated; otherwise the index only narrows down what Spark then filters. Words of a text
column narrow down an equality; nothing that is in doubt is pushed.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tidegate.index.fields import DocMapping, Field, analyzer, is_string
from tidegate.index.query import (
    Bool,
    Exists,
    Node,
    OneOf,
    Range,
    Term,
    Typed,
    Wildcard,
    conjunction,
    negation,
)
from tidegate.index.ranges import MAX_BOUND
from tidegate.schema.types import DecimalType, PrimitiveType


@dataclass(frozen=True, slots=True)
class Pushed:
    """A query for a filter, and whether it is the filter itself."""

    node: Node
    exact: bool


def pushed(filters: Iterable[Any], mapping: DocMapping, partitions: Iterable[str] = ()) -> Node | None:
    """One query for all filters of PySpark's data source interface; None where none can be pushed."""
    aside = {p.casefold() for p in partitions}
    found = [one for f in filters if (one := push(f, mapping, aside)) is not None]
    return conjunction([p.node for p in found]) if found else None


def push(filter: Any, mapping: DocMapping, partitions: set[str]) -> Pushed | None:
    kind = type(filter).__name__
    if kind == "Not":
        inner = push(filter.child, mapping, partitions)
        return Pushed(negation(inner.node), False) if inner is not None and inner.exact else None
    if kind in ("And", "Or"):
        return _joined(kind, push(filter.left, mapping, partitions), push(filter.right, mapping, partitions))
    path = tuple(getattr(filter, "attribute", ()))
    if len(path) != 1:
        return None
    field = mapping.find(path[0])
    if field is None:
        return _on_partition(kind, filter, path[0]) if path[0].casefold() in partitions else None
    if not field.indexed:
        return None
    return _on_field(kind, filter, field)


def _joined(kind: str, left: Pushed | None, right: Pushed | None) -> Pushed | None:
    if kind == "And":
        if left is None or right is None:
            one = left or right
            return None if one is None else Pushed(one.node, False)
        return Pushed(Bool(must=(left.node, right.node)), left.exact and right.exact)
    if left is None or right is None:
        return None
    return Pushed(Bool(should=(left.node, right.node)), left.exact and right.exact)


def _on_partition(kind: str, filter: Any, name: str) -> Pushed | None:
    """The same answer for a whole split; only what is compared by value, never by text."""
    name = name.replace(".", "\\.")
    if kind == "EqualTo" and filter.value is not None and not isinstance(filter.value, float):
        return Pushed(Term(name, Typed(filter.value), quoted=True), False)
    if kind == "In" and not any(isinstance(v, float) for v in filter.value):
        return Pushed(OneOf(name, tuple(Typed(v) for v in filter.value if v is not None)), False)
    return None


def _on_field(kind: str, filter: Any, field: Field) -> Pushed | None:
    name = field.column.replace(".", "\\.")
    if kind == "IsNull":
        return Pushed(negation(Exists(name)), True)
    if kind == "IsNotNull":
        return Pushed(Exists(name), True)
    if kind in ("EqualTo", "EqualNullSafe"):
        if filter.value is None:
            return Pushed(negation(Exists(name)), True) if kind == "EqualNullSafe" else None
        return _equal(filter.value, field, name)
    if kind == "In":
        found = [_equal(v, field, name) for v in filter.value if v is not None]
        if not found or any(p is None for p in found):
            return None
        known = [p for p in found if p is not None]
        return Pushed(Bool(should=tuple(p.node for p in known)), all(p.exact for p in known))
    if kind in ("GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"):
        return _compared(kind, filter.value, field, name)
    if kind.startswith("String") and field.kind == "string" and is_string(field.type):
        return _pattern(kind, filter.value, name)
    return None


def _equal(value: Any, field: Field, name: str) -> Pushed | None:
    if not _fits(value, field):
        return None
    if field.kind == "text":
        return _words(str(value), field, name)
    if field.kind == "ip":
        try:
            ipaddress.ip_address(str(value).strip())
        except ValueError:
            return None
        return Pushed(Term(name, str(value), quoted=True), False)
    if field.kind == "json":
        return None
    return Pushed(Term(name, Typed(value), quoted=True), True)


def _words(text: str, field: Field, name: str) -> Pushed | None:
    """Who equals a text has its words, one after the other."""
    if not analyzer(field.tokenizer, field.max_token).analyze(text):
        return None
    return Pushed(Term(name, Typed(text)), False)


def _compared(kind: str, value: Any, field: Field, name: str) -> Pushed | None:
    if value is None or field.kind in ("text", "ip", "json") or not _fits(value, field):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    inclusive = kind.endswith("OrEqual")
    exact = True
    if field.kind == "string" and not isinstance(field.type, DecimalType):
        limit = MAX_BOUND // 2 if isinstance(value, bytes) else MAX_BOUND
        if len(value) > limit:
            # A bound that is cut lies lower: as a lower one it lets more through, as an upper one it may not.
            if not kind.startswith("Greater"):
                return None
            value, inclusive, exact = value[:limit], True, False
    bound = Typed(value)
    if kind.startswith("Greater"):
        return Pushed(Range(name, bound, None, include_low=inclusive), exact)
    return Pushed(Range(name, None, bound, include_high=inclusive), exact)


def _pattern(kind: str, value: str, name: str) -> Pushed | None:
    if len(value) > MAX_BOUND or not value:
        return None
    many, text = ("many", ""), ("text", value)
    parts = {
        "StringStartsWith": (text, many),
        "StringEndsWith": (many, text),
        "StringContains": (many, text, many),
    }.get(kind)
    return None if parts is None else Pushed(Wildcard(name, parts), True)


def _fits(value: Any, field: Field) -> bool:
    """Whether a value is of the column's own type, so that nobody would cast before comparing."""
    kind = field.type
    if isinstance(kind, DecimalType):
        return isinstance(value, Decimal) or (isinstance(value, int) and not isinstance(value, bool))
    if not isinstance(kind, PrimitiveType):
        return False
    if is_string(kind):
        return isinstance(value, str)
    if kind.name == "binary":
        return isinstance(value, bytes | bytearray)
    if kind.name == "boolean":
        return isinstance(value, bool)
    if kind.name == "date":
        return isinstance(value, date) and not isinstance(value, datetime)
    if kind.name == "timestamp":
        # Without a zone it would be read in the session's, which is not known here.
        return isinstance(value, datetime) and value.tzinfo is not None
    if kind.name == "timestamp_ntz":
        return isinstance(value, datetime) and value.tzinfo is None
    if kind.name in ("float", "double"):
        return isinstance(value, float) and (kind.name == "double" or not math.isnan(value))
    return isinstance(value, int) and not isinstance(value, bool)
