"""Predicates bound to a table: columns by physical name, literals in the domain their column is compared in.

Spark casts one side of a comparison to the type of the other. Here that is done once, to the literal,
so that files can be judged by their bounds alone; a literal between two values of the column's
type becomes an equivalent comparison with one of them. Where the cast could round, fail or depend on
the session, the comparison is ``Unknown``: whenever in doubt, a file is kept.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa

from tidegate.files.predicate import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
)
from tidegate.files.predicate_sql import timestamp_literal
from tidegate.schema import lengths
from tidegate.schema.mapping import Mode, logical_to_physical
from tidegate.schema.paths import Path
from tidegate.schema.types import DataType, DecimalType, PrimitiveType, StructField, StructType
from tidegate.schema.widening import TYPE_CHANGES

INTEGER, FLOAT, DECIMAL, STRING, DATE, TIMESTAMP, BOOLEAN, BINARY = (
    "integer",
    "float",
    "decimal",
    "string",
    "date",
    "timestamp",
    "boolean",
    "binary",
)
_KINDS = {
    "byte": INTEGER,
    "short": INTEGER,
    "integer": INTEGER,
    "long": INTEGER,
    "float": FLOAT,
    "double": FLOAT,
    "string": STRING,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP,
    "boolean": BOOLEAN,
    "binary": BINARY,
}
_INT_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_INT_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_MAX_DIGITS = 38
_INT64 = (-(2**63), 2**63 - 1)
_MAX_UNSCALED = 10**_MAX_DIGITS - 1
# Above so many values a list is judged by its ends, not value by value.
MANY = 16
_TOO_MANY = 256
# Numbers of so few digits are the same in every form a writer may give them.
_DOUBLE_DIGITS = 15


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column, as far as comparing goes."""

    path: Path
    kind: str
    type: DataType
    is_partition: bool
    # The column was once a float: the texts of its old bounds are those of floats, not of doubles.
    was_float: bool = False
    # Compared as doubles, as Spark does when the other side is one.
    as_double: bool = False


@dataclass(frozen=True, slots=True)
class LeafTest(Predicate):
    """A leaf against a value of its domain; the operator is one of = != < <= > >=."""

    leaf: Leaf
    operator: str
    value: object


@dataclass(frozen=True, slots=True)
class NullTest(Predicate):
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class PrefixTest(Predicate):
    leaf: Leaf
    prefix: bytes


@dataclass(frozen=True, slots=True)
class OneOf(Predicate):
    """A leaf against many values, none of them null."""

    leaf: Leaf
    values: tuple[object, ...]

    @property
    def least(self) -> object:
        return min(cast(Any, self.values))

    @property
    def most(self) -> object:
        return max(cast(Any, self.values))


def bind(predicate: Predicate, schema: StructType, partition_columns: Iterable[str], mode: Mode) -> Predicate:
    """The predicate over leaves. Refuses columns that the table lacks, as ``resolve`` does."""
    return _bind(predicate, schema, tuple(partition_columns), mode)


@lru_cache(maxsize=64)
def _bind(predicate: Predicate, schema: StructType, partitions: tuple[str, ...], mode: Mode) -> Predicate:
    folded = frozenset(c.casefold() for c in partitions)
    return predicate.resolve(schema).rewrite(lambda node: _bind_leaf(node, schema, folded, mode))


def _bind_leaf(node: Predicate, schema: StructType, partitions: frozenset[str], mode: Mode) -> Predicate:
    if not isinstance(node, Compare | In | IsNull | StartsWith):
        return node
    leaf = leaf_of(node.column.path, schema, partitions, mode)
    found: Predicate | None = None
    if leaf is None:
        pass
    elif isinstance(node, IsNull):
        found = NullTest(leaf)
    elif isinstance(node, Compare):
        found = _compare(leaf, node.operator, node.literal)
    elif isinstance(node, In):
        found = _in(leaf, node)
    elif leaf.kind == STRING:
        found = PrefixTest(leaf, node.prefix.encode())
    return found or Unknown(str(node), node.own_columns)


def leaf_of(path: Path, schema: StructType, partitions: frozenset[str], mode: Mode) -> Leaf | None:
    """The leaf at a path; None where the column cannot be judged. ``partitions`` are case-folded."""
    found = schema.resolve(path)
    physical = logical_to_physical(schema, path, mode)
    if found is None or physical is None:
        return None
    field = found[1]
    kind = _kind(field)
    if kind is None:
        return None
    is_partition = len(path) == 1 and path[0].casefold() in partitions
    return Leaf(physical, kind, field.type, is_partition, was_float=_was_float(field))


def _kind(field: StructField) -> str | None:
    if isinstance(field.type, DecimalType):
        return DECIMAL
    if not isinstance(field.type, PrimitiveType):
        return None
    # A char(n) is padded when it is compared, and a collation has an order of its own.
    if "__COLLATIONS" in field.metadata:
        return None
    if str(field.metadata.get(lengths.KEY, "")).lower().startswith("char"):
        return None
    return _KINDS.get(field.type.name)


def _was_float(field: StructField) -> bool:
    changes = field.metadata.get(TYPE_CHANGES)
    return isinstance(changes, list) and any(
        isinstance(c, dict) and c.get("fromType") == "float" for c in changes
    )


# ---------------------------------------------------------------------------- comparisons


def _compare(leaf: Leaf, operator: str, literal: Literal) -> Predicate | None:
    if operator == "<=>":
        same = _compare(leaf, "=", literal)
        return And((Not(NullTest(leaf)), same)) if same else None
    if leaf.kind == INTEGER:
        return _compare_integer(leaf, operator, literal)
    if leaf.kind == DECIMAL:
        return _compare_exact(leaf, operator, literal)
    value = _domain_value(leaf, literal)
    return None if value is None else LeafTest(leaf, operator, value)


def _compare_integer(leaf: Leaf, operator: str, literal: Literal) -> Predicate | None:
    if literal.type == "string":
        # '7' is cast to a number. ' 7', '7.0' and '07' depend on the mode of the session, and so do numbers
        # that the column's own type has no room for.
        text = str(literal.value)
        if re.fullmatch(r"0|-?[1-9]\d{0,17}", text) and _fits(leaf, int(text)):
            literal = Literal(int(text), "long")
    if literal.type == "double":
        value = literal.value
        return None if value != value else LeafTest(replace(leaf, as_double=True), operator, value)
    return _compare_exact(leaf, operator, literal)


def _fits(leaf: Leaf, number: int) -> bool:
    """Whether a number is one of the column's integer type."""
    assert isinstance(leaf.type, PrimitiveType)
    most = 1 << _INT_BITS[leaf.type.name]
    return -most <= number < most


def _compare_exact(leaf: Leaf, operator: str, literal: Literal) -> Predicate | None:
    """Integers and decimals against either: exact, as long as Spark's common type has room for both."""
    if literal.type not in ("long", "decimal") or not isinstance(literal.value, int | Decimal):
        return None
    if (
        max(_digits(leaf)[0], _literal_digits(literal)[0])
        + max(_digits(leaf)[1], _literal_digits(literal)[1])
        > _MAX_DIGITS
    ):
        return None
    return _on_lattice(leaf, operator, Fraction(literal.value))


def _on_lattice(leaf: Leaf, operator: str, value: Fraction) -> Predicate:
    """A comparison with any number as one with a number that the column's type has."""
    scale = leaf.type.scale if isinstance(leaf.type, DecimalType) else 0
    least, most = (-_MAX_UNSCALED, _MAX_UNSCALED) if leaf.kind == DECIMAL else _INT64
    scaled = value * 10**scale
    below = scaled.numerator // scaled.denominator

    def test(op: str, unscaled: int) -> Predicate:
        number = Decimal((unscaled < 0, _digit_tuple(unscaled), -scale)) if leaf.kind == DECIMAL else unscaled
        return LeafTest(leaf, op, number)

    if operator == "!=":
        return Not(_on_lattice(leaf, "=", value))
    if scaled > most:
        return test("<=", most) if operator in ("<", "<=") else test(">", most)
    if scaled < least:
        return test(">=", least) if operator in (">", ">=") else test("<", least)
    if scaled.denominator == 1:
        return test(operator, below)
    if operator == "=":
        return And((test(">", below), test("<=", below)))
    return test(">" if operator in (">", ">=") else "<=", below)


def _digit_tuple(number: int) -> tuple[int, ...]:
    return tuple(int(d) for d in str(abs(number)))


def _digits(leaf: Leaf) -> tuple[int, int]:
    """Digits before and after the point that Spark reckons with for a column."""
    if isinstance(leaf.type, DecimalType):
        return leaf.type.precision - leaf.type.scale, leaf.type.scale
    assert isinstance(leaf.type, PrimitiveType)
    return _INT_DIGITS[leaf.type.name], 0


def _literal_digits(literal: Literal) -> tuple[int, int]:
    if isinstance(literal.value, Decimal):
        exponent = literal.value.as_tuple().exponent
        digits = len(literal.value.as_tuple().digits)
        assert isinstance(exponent, int)
        return max(digits + exponent, 0), max(-exponent, 0)
    assert isinstance(literal.value, int)
    return (10 if -(2**31) <= literal.value < 2**31 else max(20, len(str(abs(literal.value))))), 0


def _domain_value(leaf: Leaf, literal: Literal) -> object | None:
    """The literal as a value of the leaf's domain, None where it is not sure to be one."""
    value = literal.value
    if leaf.kind == FLOAT:
        return _float_value(leaf, literal)
    if leaf.kind == TIMESTAMP:
        return _micros(leaf, literal)
    if leaf.kind == DATE:
        if literal.type == "string" and re.fullmatch(r"\d{4}-\d{2}-\d{2}", str(value)):
            try:
                return date.fromisoformat(str(value))
            except ValueError:
                return None
        return value if literal.type == "date" else None
    if leaf.kind == STRING:
        return str(value).encode() if literal.type == "string" else None
    same = {BOOLEAN: "boolean", BINARY: "binary"}[leaf.kind]
    return value if literal.type == same else None


def _float_value(leaf: Leaf, literal: Literal) -> float | None:
    single = leaf.type == PrimitiveType("float")
    value = literal.value
    if literal.type == "string" and not single:
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", str(value)):
            return None
        value = Decimal(str(value))
    elif literal.type not in ("long", "decimal", "float", "double"):
        return None
    assert isinstance(value, int | float | Decimal)
    try:
        number = float(value)
        # Whether an integer meets a float as a float or as a double depends on the session.
        if single and literal.type == "long" and struct.unpack("f", struct.pack("f", number))[0] != value:
            return None
    except OverflowError:
        return None
    return number


def _micros(leaf: Leaf, literal: Literal) -> int | None:
    ntz = leaf.type == PrimitiveType("timestamp_ntz")
    if literal.type == "string":
        found = timestamp_literal(str(literal.value), "timestamp_ntz" if ntz else "timestamp")
        return None if found is None or not isinstance(found.value, int) else found.value
    if literal.type == "date" and isinstance(literal.value, date):
        day = literal.value
        return int(datetime(day.year, day.month, day.day, tzinfo=timezone.utc).timestamp()) * 1_000_000
    if literal.type in ("timestamp", "timestamp_ntz") and isinstance(literal.value, int):
        return literal.value
    return None


# ---------------------------------------------------------------------------- lists

_FAMILIES = {"long": "exact", "decimal": "exact"}


def _in(leaf: Leaf, node: In) -> Predicate | None:
    values = [v for v in node.values if v.type != "void"]
    families = {_FAMILIES.get(v.type, v.type) for v in values}
    if len(families) > 1:
        return None
    if families == {"string"} and leaf.kind not in (STRING, DATE, INTEGER):
        # In a list it is the column that may be cast, to a string: not what a comparison does.
        return None
    if families == {"exact"} and leaf.kind in (INTEGER, DECIMAL):
        digits = [_digits(leaf), *(_literal_digits(v) for v in values)]
        if max(d[0] for d in digits) + max(d[1] for d in digits) > _MAX_DIGITS:
            return None
    parts: list[Predicate] = []
    for value in values:
        part = _compare(leaf, "=", value)
        if part is None:
            return None
        parts.append(part)
    plain = [p for p in parts if isinstance(p, LeafTest) and p.operator == "=" and p.leaf == leaf]
    if len(plain) > MANY:
        if leaf.kind == FLOAT:
            return None
        others = [p for p in parts if not isinstance(p, LeafTest) or p.operator != "="]
        parts = [OneOf(leaf, tuple(dict.fromkeys(p.value for p in plain))), *others]
    if len(parts) > _TOO_MANY:
        return None
    if len(values) < len(node.values):
        parts.append(Constant(None))
    return Or(tuple(parts))


# ---------------------------------------------------------------------------- domains


def domain_type(leaf: Leaf) -> pa.DataType:
    """The Arrow type in which a leaf's values and bounds are compared."""
    if leaf.as_double or leaf.kind == FLOAT:
        return pa.float64()
    if leaf.kind == DECIMAL:
        assert isinstance(leaf.type, DecimalType)
        return pa.decimal128(_MAX_DIGITS, leaf.type.scale)
    return {
        INTEGER: pa.int64(),
        # By their bytes, and a byte that no string has is then an end above all strings.
        STRING: pa.binary(),
        DATE: pa.date32(),
        TIMESTAMP: pa.int64(),
        BOOLEAN: pa.bool_(),
        BINARY: pa.binary(),
    }[leaf.kind]


def bounds_type(leaf: Leaf) -> pa.DataType | None:
    """The type in which a leaf's bounds are read from statistics; None where there are none to trust."""
    if leaf.kind in (BOOLEAN, BINARY):
        return None
    if leaf.type == PrimitiveType("float"):
        return pa.float32()
    if leaf.type == PrimitiveType("timestamp"):
        return pa.timestamp("us", "UTC")
    if leaf.type == PrimitiveType("timestamp_ntz"):
        return pa.timestamp("us")
    return pa.string() if leaf.kind == STRING else domain_type(replace(leaf, as_double=False))


def slack(leaf: Leaf, value: object) -> Decimal:
    """How far off a decimal bound near ``value`` may be: some writers pass decimals through a double."""
    if not isinstance(value, Decimal) or not isinstance(leaf.type, DecimalType):
        return Decimal(0)
    unscaled = abs(int(Fraction(value) * 10**leaf.type.scale))
    if len(str(unscaled)) <= _DOUBLE_DIGITS:
        return Decimal(0)
    return Decimal((0, _digit_tuple((unscaled >> 48) + 1), -leaf.type.scale))


def add_exactly(a: Decimal, b: Decimal) -> Decimal:
    """A sum with all of its digits: Decimal's own is rounded to those of the context."""
    scale = max(-int(a.as_tuple().exponent), -int(b.as_tuple().exponent), 0)
    total = int((Fraction(a) + Fraction(b)) * 10**scale)
    return Decimal((total < 0, _digit_tuple(total), -scale))
