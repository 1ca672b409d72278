"""SQL text to predicate trees, through sqlglot's parser of Spark's dialect.

Only what is surely understood becomes a node: an expression with an argument this module does not
know, a string with an escape, a cast that could round or fail is ``Unknown``. Timestamps without
a zone are in UTC, the session zone that Tidegate's own sessions have.
"""

from __future__ import annotations

import re
import struct
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from tidegate.errors import PredicateError
from tidegate.files.predicate import (
    And,
    Column,
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
from tidegate.schema.sql_trees import tree_of

# The base class of expressions has changed its name between releases of sqlglot.
Expr: TypeAlias = Any

_COMPARISONS: dict[type[Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?\s?(Z|UTC|[+-]\d{2}:\d{2})?)?"
)
_INTEGERS = {
    exp.DataType.Type.TINYINT: 8,
    exp.DataType.Type.SMALLINT: 16,
    exp.DataType.Type.INT: 32,
    exp.DataType.Type.BIGINT: 64,
}
_INSTANTS = (
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
)


def parse_sql(text: str) -> Predicate:
    """The predicate in ``text``."""
    try:
        tree = tree_of(text)
        # Spark and sqlglot do not agree on every escape in a string: such strings are not looked at.
        return _Reader(strings="\\" not in text).predicate(tree)
    except ParseError as e:
        raise _unparsable(text, e) from e
    except RecursionError as e:
        raise PredicateError(f"The predicate {_short(text)!r} is nested too deeply.") from e
    except SqlglotError as e:
        raise _untokenizable(text, e) from e


def _unparsable(text: str, cause: ParseError) -> PredicateError:
    if not cause.errors:
        return PredicateError("The predicate is empty." if not text.strip() else f"No predicate: {text!r}.")
    first = cause.errors[0]
    return PredicateError(
        f"The predicate {_short(text)!r} cannot be read at line {first.get('line')}, "
        f"column {first.get('col')}, near {first.get('highlight')!r}.",
        hint="It must be one SQL condition; put names that are SQL words in backquotes.",
    )


def _untokenizable(text: str, cause: SqlglotError) -> PredicateError:
    opened = ""
    at = 0
    for position, char in enumerate(text):
        if not opened and char in "'\"`":
            opened, at = char, position
        elif char == opened:
            opened = ""
    where = f"a quote that is opened at column {at + 1} and not closed" if opened else str(cause)
    return PredicateError(f"The predicate {_short(text)!r} cannot be read: {where}.")


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"


class _Reader:
    def __init__(self, strings: bool) -> None:
        self._strings = strings

    # ------------------------------------------------------------------ conditions

    def predicate(self, e: Expr) -> Predicate:
        e = e.unnest()
        if isinstance(e, exp.And | exp.Or):
            parts = tuple(self.predicate(p) for p in e.flatten())
            return And(parts) if isinstance(e, exp.And) else Or(parts)
        if isinstance(e, exp.Not):
            return Not(self.predicate(e.this))
        return self._leaf(e) or _unknown(e)

    def _leaf(self, e: Expr) -> Predicate | None:
        if type(e) in _COMPARISONS:
            return self._comparison(_COMPARISONS[type(e)], e)
        if isinstance(e, exp.NullSafeNEQ):
            same = self._comparison("<=>", e)
            return Not(same) if same else None
        if isinstance(e, exp.Boolean):
            return Constant(bool(e.this))
        if isinstance(e, exp.Null):
            return Constant(None)
        if isinstance(e, exp.Is):
            return self._is(e)
        if isinstance(e, exp.In):
            return self._in(e)
        if isinstance(e, exp.Between):
            return self._between(e)
        if isinstance(e, exp.Like):
            return self._like(e)
        if isinstance(e, exp.StartsWith):
            return self._starts_with(e)
        column = _column(e)
        # A column that stands alone is a condition, and so a boolean one.
        return Compare(column, "=", Literal(True, "boolean")) if column else None

    def _comparison(self, operator: str, e: Expr) -> Predicate | None:
        left, right = e.this.unnest(), e.expression.unnest()
        if _only(e, "this", "expression"):
            if (column := _column(left)) and (literal := self._literal(right)):
                return _compare(column, operator, literal)
            if (column := _column(right)) and (literal := self._literal(left)):
                return _compare(column, _MIRRORED.get(operator, operator), literal)
        return None

    def _is(self, e: exp.Is) -> Predicate | None:
        column = _column(e.this.unnest())
        if column is None or not _only(e, "this", "expression"):
            return None
        if isinstance(e.expression, exp.Null):
            return IsNull(column)
        if isinstance(e.expression, exp.Boolean):
            return Compare(column, "<=>", Literal(bool(e.expression.this), "boolean"))
        return None

    def _in(self, e: exp.In) -> Predicate | None:
        column = _column(e.this.unnest())
        literals = [self._literal(v.unnest()) for v in e.expressions]
        if column is None or not literals or not _only(e, "this", "expressions"):
            return None
        known = tuple(v for v in literals if v is not None)
        return In(column, known) if len(known) == len(literals) else None

    def _between(self, e: exp.Between) -> Predicate | None:
        column = _column(e.this.unnest())
        if column is None or not _only(e, "this", "low", "high"):
            return None
        low, high = self._literal(e.args["low"].unnest()), self._literal(e.args["high"].unnest())
        if low is None or high is None:
            return None
        return And((_compare(column, ">=", low), _compare(column, "<=", high)))

    def _like(self, e: exp.Like) -> Predicate | None:
        column = _column(e.this.unnest())
        pattern = self._literal(e.expression.unnest())
        if column is None or pattern is None or pattern.type != "string" or not _only(e, *_LIKE):
            return None
        found = _like_pattern(column, str(pattern.value), e)
        return Not(found) if e.args.get("negate") else found

    def _starts_with(self, e: exp.StartsWith) -> Predicate | None:
        column, prefix = _column(e.this.unnest()), self._literal(e.expression.unnest())
        if column is None or prefix is None or prefix.type != "string" or not _only(e, "this", "expression"):
            return None
        return StartsWith(column, str(prefix.value))

    # ------------------------------------------------------------------ literals

    def _literal(self, e: Expr) -> Literal | None:
        if isinstance(e, exp.Null):
            return Literal(None, "void")
        if isinstance(e, exp.Boolean):
            return Literal(bool(e.this), "boolean")
        if isinstance(e, exp.HexString):
            digits = str(e.this)
            return Literal(bytes.fromhex(digits), "binary") if len(digits) % 2 == 0 else None
        if isinstance(e, exp.Neg):
            return _negated(self._literal(e.this.unnest()))
        if isinstance(e, exp.Cast):
            inner = self._literal(e.this.unnest())
            return _cast(inner, e.to) if inner is not None and not e.args.get("format") else None
        if not isinstance(e, exp.Literal):
            return None
        if e.is_string:
            return Literal(e.name, "string") if self._strings else None
        return _number(e.name)


_LIKE = ("this", "expression", "negate")


def _only(e: Expr, *known: str) -> bool:
    """Whether an expression says nothing beyond the arguments this module reads."""
    return all(name in known for name, value in e.args.items() if value not in (None, False, []))


def _unknown(e: Expr) -> Unknown:
    columns = (_column(c) for c in e.find_all(exp.Column, exp.Dot) if not isinstance(c.parent, exp.Dot))
    paths = tuple(dict.fromkeys(c.path for c in columns if c is not None))
    return Unknown(e.sql("spark"), paths, own_names=e.find(exp.Query, exp.Lambda) is None)


def _column(e: Expr) -> Column | None:
    if isinstance(e, exp.Dot):
        outer, inner = _column(e.this), e.expression
        return Column((*outer.path, inner.name)) if outer and isinstance(inner, exp.Identifier) else None
    if not isinstance(e, exp.Column) or isinstance(e.this, exp.Star):
        return None
    parts = e.parts
    return Column(tuple(p.name for p in parts)) if all(isinstance(p, exp.Identifier) for p in parts) else None


def _compare(column: Column, operator: str, literal: Literal) -> Predicate:
    if literal.type != "void":
        return Compare(column, operator, literal)
    # A comparison with null is null whatever the column holds; only <=> asks for the null itself.
    return IsNull(column) if operator == "<=>" else Constant(None)


def _like_pattern(column: Column, pattern: str, e: Expr) -> Predicate:
    fixed = re.match("[^%_]*", pattern)
    assert fixed is not None
    prefix, rest = fixed[0], pattern[fixed.end() :]
    if not rest:
        # Nothing but the pattern itself. What is no string is turned into one first, which only a prefix, and
        # no comparison, leaves to others.
        return And((StartsWith(column, prefix), Compare(column, "=", Literal(prefix, "string"))))
    if rest == "%":
        return StartsWith(column, prefix)
    # More than a prefix is asked for: what starts otherwise is false, the rest may be anything.
    return And((StartsWith(column, prefix), _unknown(e)))


def _number(text: str) -> Literal | None:
    try:
        if re.fullmatch(r"\d+", text):
            return Literal(int(text), "long")
        if re.fullmatch(r"\d*\.?\d*[eE][+-]?\d+", text):
            return Literal(float(text), "double")
        return Literal(Decimal(text), "decimal")
    except (ValueError, InvalidOperation):
        return None


def _negated(literal: Literal | None) -> Literal | None:
    if literal is None or not isinstance(literal.value, int | float | Decimal) or literal.type == "boolean":
        return None
    # Decimal's own minus rounds to the context's digits.
    value = literal.value.copy_negate() if isinstance(literal.value, Decimal) else -literal.value
    return Literal(value, literal.type)


def _cast(literal: Literal, to: exp.DataType) -> Literal | None:
    """A cast of a literal, where its result is beyond doubt."""
    value, target = literal.value, to.this
    if literal.type == "void":
        return literal
    if target in _INTEGERS:
        return _cast_integer(literal, _INTEGERS[target])
    if target == exp.DataType.Type.DOUBLE:
        return _cast_float(literal, "double")
    if target == exp.DataType.Type.FLOAT:
        return _cast_float(literal, "float")
    if target == exp.DataType.Type.DECIMAL:
        return _cast_decimal(literal, to)
    if isinstance(value, str):
        if target in (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR) and not to.expressions:
            return literal
        if target == exp.DataType.Type.DATE:
            return _date(value)
        if target in _INSTANTS:
            return timestamp_literal(value, "timestamp")
        if target == exp.DataType.Type.TIMESTAMPNTZ:
            return timestamp_literal(value, "timestamp_ntz")
    return literal if target == exp.DataType.Type.BOOLEAN and literal.type == "boolean" else None


def _cast_integer(literal: Literal, bits: int) -> Literal | None:
    text = str(literal.value) if literal.type in ("long", "string") else ""
    if not re.fullmatch(r"[+-]?\d{1,20}", text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        return None
    return Literal(int(text), "long")


def _cast_float(literal: Literal, type: str) -> Literal | None:
    if literal.type not in ("long", "decimal", "double", "float", "string"):
        return None
    text = str(literal.value)
    if literal.type == "string" and not re.fullmatch(
        r"(?i)[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|[+-]?infinity", text
    ):
        return None
    value = float(text)
    if type == "float":
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return None
    return Literal(value, type)


def _cast_decimal(literal: Literal, to: exp.DataType) -> Literal | None:
    if literal.type not in ("long", "decimal", "string"):
        return None
    try:
        precision, scale = ([int(p.name) for p in to.expressions] + [10, 0])[:2]
        value = Decimal(str(literal.value))
    except (ValueError, InvalidOperation):
        return None
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent > scale or len(digits) + exponent > precision - scale:
        return None
    return Literal(Decimal((sign, digits + (0,) * (exponent + scale), -scale)), "decimal")


def _date(text: str) -> Literal | None:
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    try:
        return Literal(date(*(int(g) for g in found.groups())), "date")
    except ValueError:
        return None


def timestamp_literal(text: str, type: str) -> Literal | None:
    """A timestamp as Spark writes it, with or without a zone; None for what is not surely one."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    if type == "timestamp_ntz" and zone:
        return None
    micros = int((fraction or "").ljust(6, "0"))
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), micros,
            timezone.utc,
        )  # fmt: skip
    except ValueError:
        return None
    value = (moment - _EPOCH) // timedelta(microseconds=1)
    if zone and zone not in ("Z", "UTC"):
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 18 or minutes > 59:
            return None
        value -= (-1 if zone[0] == "-" else 1) * (hours * 3600 + minutes * 60) * 1_000_000
    return Literal(value, type)
