"""One comparison against what is known of each file: may it be true for some row?

Two kinds of knowledge answer. A partition value is exact: the answer is Spark's own, null values
aside, which are neither true nor false. Bounds only enclose: the answer is no where the enclosed
range rules a match out, and yes in every other case, unknown bounds included.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.files import comparisons as cmp

# A column of answers, or one answer for all files.
Mask: TypeAlias = pa.Array | bool

_KERNELS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class Values:
    """The exact value of each file, null where it is null; ``unknown`` where it could not be read."""

    array: pa.Array
    unknown: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Ends between which all values of each file lie, null where unknown, None where all are."""

    low: pa.Array | None
    high: pa.Array | None
    may_be_null: Mask = True
    may_have_value: Mask = True


# ---------------------------------------------------------------------------- exact values


def value_null(want: bool, values: Values) -> Mask:
    """Whether the value is null, or is not."""
    return _or_unknown(values.array.is_null() if want else values.array.is_valid(), values)


def value_compared(node: cmp.LeafTest, operator: str, values: Values) -> Mask:
    """Whether a comparison holds."""
    array = values.array
    value = pa.scalar(node.value, cmp.domain_type(node.leaf))
    if node.leaf.kind != cmp.FLOAT:
        return _or_unknown(_KERNELS[operator](array, value), values)
    # Spark's order: NaN equals itself and is above everything else.
    nan = pc.is_nan(array)
    if node.value != node.value:
        answer = {
            "=": nan,
            ">=": nan,
            "!=": pc.invert(nan),
            "<": pc.invert(nan),
            "<=": array.is_valid(),
            ">": pc.and_(nan, False),
        }[operator]
    else:
        answer = _KERNELS[operator](array, value)
        answer = pc.or_(answer, nan) if operator in (">", ">=") else answer
    return _or_unknown(answer, values)


def value_prefixed(node: cmp.PrefixTest, want: bool, values: Values) -> Mask:
    """Whether a string starts with a prefix, or does not."""
    answer = pc.starts_with(values.array, node.prefix)
    return _or_unknown(answer if want else pc.invert(answer), values)


def value_listed(node: cmp.OneOf, want: bool, values: Values) -> Mask:
    """Whether a value is one of many, or is none of them."""
    listed = pc.is_in(values.array, value_set=pa.array(node.values, cmp.domain_type(node.leaf)))
    # ``is_in`` calls a null no member, but it is neither.
    answer = pc.and_(values.array.is_valid(), listed if want else pc.invert(listed))
    return _or_unknown(answer, values)


def _or_unknown(answer: pa.Array, values: Values) -> pa.Array:
    answer = pc.fill_null(answer, False)
    return answer if values.unknown is None else pc.or_(answer, values.unknown)


# ---------------------------------------------------------------------------- bounds


def bounds_compared(node: cmp.LeafTest, operator: str, bounds: Bounds) -> Mask:
    """Whether a comparison may hold for some value."""
    if node.leaf.kind == cmp.FLOAT and (node.value != node.value or operator in (">", ">=", "!=")):
        # NaN is above everything, and few writers put it into the maximum.
        return bounds.may_have_value
    domain = cmp.domain_type(node.leaf)
    least = most = pa.scalar(node.value, domain)
    slack = cmp.slack(node.leaf, node.value)
    if slack:
        ends = _around(node.value, slack, domain)
        if ends is None or operator == "!=":
            return bounds.may_have_value
        least, most = ends
    low, high = bounds.low, bounds.high
    if operator == "=":
        return _possible(_both(_test("<=", low, most), _test(">=", high, least)), bounds)
    if operator == "!=":
        if low is None or high is None:
            return bounds.may_have_value
        return _possible(pc.or_kleene(pc.not_equal(low, least), pc.not_equal(high, least)), bounds)
    if operator in ("<", "<="):
        return _possible(_test(operator, low, most), bounds)
    return _possible(_test(operator, high, least), bounds)


def bounds_prefixed(node: cmp.PrefixTest, want: bool, bounds: Bounds) -> Mask:
    """Whether some string may start with a prefix, or may not."""
    if not node.prefix:
        return bounds.may_have_value if want else False
    # Strings that start with it lie from the prefix itself up to what follows all of them; UTF-8
    # has no byte 0xFF, so its last byte can always be raised.
    first = pa.scalar(node.prefix, pa.binary())
    after = pa.scalar(node.prefix[:-1] + bytes([node.prefix[-1] + 1]), pa.binary())
    low, high = bounds.low, bounds.high
    if want:
        return _possible(_both(_test("<", low, after), _test(">=", high, first)), bounds)
    if low is None or high is None:
        return bounds.may_have_value
    return _possible(pc.or_kleene(pc.less(low, first), pc.greater_equal(high, after)), bounds)


def bounds_listed(node: cmp.OneOf, want: bool, bounds: Bounds) -> Mask:
    """Whether some value may be one of many, or none of them. Judged by the ends of the list."""
    domain = cmp.domain_type(node.leaf)
    if want:
        low = cmp.LeafTest(node.leaf, "<=", node.most)
        high = cmp.LeafTest(node.leaf, ">=", node.least)
        ends = [bounds_compared(low, "<=", bounds), bounds_compared(high, ">=", bounds)]
        return _both(*ends)
    if bounds.low is None or bounds.high is None or isinstance(node.least, Decimal):
        return bounds.may_have_value
    listed = pc.is_in(bounds.low, value_set=pa.array(node.values, domain))
    return _possible(pc.invert(pc.and_kleene(pc.equal(bounds.low, bounds.high), listed)), bounds)


def _around(value: object, slack: Decimal, domain: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
    assert isinstance(value, Decimal)
    try:
        return (
            pa.scalar(cmp.add_exactly(value, slack.copy_negate()), domain),
            pa.scalar(cmp.add_exactly(value, slack), domain),
        )
    except pa.ArrowInvalid:
        return None


def _test(operator: str, end: pa.Array | None, value: pa.Scalar) -> Mask:
    return True if end is None else _KERNELS[operator](end, value)


def _both(a: Mask, b: Mask) -> Mask:
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return pc.and_kleene(a, b)


def _possible(answer: Mask, bounds: Bounds) -> Mask:
    """Unknown answers are yes; without any value in the file nothing is."""
    if not isinstance(answer, bool):
        answer = pc.fill_null(answer, True)
    return _both(answer, bounds.may_have_value)
