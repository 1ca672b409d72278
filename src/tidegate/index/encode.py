"""Values on their way into an index and into a query: one encoding for both, and it is exact.

``encoded`` turns an Arrow column into the values that tantivy takes; ``encode_number`` does the same for
one value of a query or a predicate. Times are integers, decimals are integers of their last
digit (or digits that sort, beyond 18), minus zero is zero, bytes are hexadecimal text.
"""

from __future__ import annotations

import base64
import ipaddress
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ValueNotIndexableError
from tidegate.index.fields import LONG_DIGITS, MAX_TERM, Field
from tidegate.schema.types import ArrayType, DecimalType, MapType, PrimitiveType, StructType

# The key under which a value that is no object stands in a JSON field.
ELEMENT = "element"
_EPOCH_DAYS = date(1970, 1, 1).toordinal()
_LONG_OFFSET = 10**38


def encoded(column: pa.Array, field: Field) -> pa.Array | list[Any]:
    """The values of a column as tantivy takes them, null where they are: Arrow, or a list of JSON objects."""
    if field.kind == "json":
        return _json(column, field)
    if field.kind == "float":
        return _floats(column)
    if field.kind == "integer":
        return _integers(column, field)
    if field.kind == "boolean":
        return column
    if isinstance(field.type, DecimalType):
        texts = [None if v is None else long_decimal(v, field.type) for v in column.to_pylist()]
        return pa.array(texts, pa.string())
    if field.type == PrimitiveType("binary"):
        hexadecimal = [None if v is None else v.hex() for v in column.to_pylist()]
        return _checked(pa.array(hexadecimal, pa.string()), field)
    if field.kind == "ip":
        addresses = [None if v is None else _address(v, field) for v in column.to_pylist()]
        return pa.array(addresses, pa.string())
    return _checked(column, field) if field.kind == "string" else column


def _checked(values: pa.Array, field: Field) -> pa.Array:
    longest = pc.max(pc.binary_length(values)).as_py()
    if longest is not None and longest > MAX_TERM:
        raise _too_long(field, longest)
    return values


def _too_long(field: Field, length: int) -> ValueNotIndexableError:
    return ValueNotIndexableError(
        f"The column {field.column} holds a value of {length} bytes; an exact term holds {MAX_TERM}.",
        hint=f"Make it text (indexing.typemap.{field.column} = text) or only stored "
        f"(indexing.storeonlyfields = {field.column}).",
    )


def _integers(column: pa.Array, field: Field) -> pa.Array:
    if isinstance(field.type, DecimalType):
        return _unscaled(column)
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column


def _unscaled(column: pa.Array) -> pa.Array:
    """Decimals of at most 18 digits: the low half of each 128-bit integer is all of it."""
    column = pa.concat_arrays([column.cast(pa.decimal128(38, column.type.scale))])
    low = np.frombuffer(column.buffers()[1], np.int64)
    values = low[2 * column.offset : 2 * (column.offset + len(column)) : 2]
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(values, pa.int64(), mask=nulls)


def long_decimal(value: Decimal, type: DecimalType) -> str:
    """Forty digits that sort as the numbers do."""
    return f"{_scaled(value, type.scale) + _LONG_OFFSET:040d}"


def _scaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits)) or "0")
    by = exponent + scale
    shifted = whole * int(10**by) if by >= 0 else whole // int(10**-by)
    return -shifted if sign else shifted


def _floats(column: pa.Array) -> pa.Array:
    column = column.cast(pa.float64())
    # Minus zero equals zero to everybody but a dictionary of terms, and there are many kinds of NaN.
    column = pc.if_else(pc.equal(column, 0.0), pa.scalar(0.0), column)
    return pc.if_else(pc.is_nan(column), pa.scalar(math.nan), column)


def _address(text: str, field: Field) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueNotIndexableError(
            f"The column {field.column} holds {text[:80]!r}, which is no IP address.",
            hint=f"Make it an exact string: indexing.typemap.{field.column} = string.",
        ) from None


# ---------------------------------------------------------------------------- JSON


def _json(column: pa.Array, field: Field) -> list[Any]:
    values = column.to_pylist()
    if isinstance(field.type, PrimitiveType):
        return [None if v is None else _parsed(v, field) for v in values]
    return [None if v is None else _object(_plain(v, field.type)) for v in values]


def _parsed(text: str, field: Field) -> dict[str, Any]:
    try:
        return _object(_finite(msgspec.json.decode(text)))
    except msgspec.DecodeError as e:
        raise ValueNotIndexableError(
            f"The column {field.column} holds {text[:80]!r}, which is not JSON: {e}.",
            hint=f"Make it text or string: indexing.typemap.{field.column} = text.",
        ) from e


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {ELEMENT: value}


def _finite(value: Any) -> Any:
    """Integers beyond 64 bits as doubles, which is what JSON makes of them elsewhere too."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_finite(v) for v in value if v is not None]
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 63:
        return float(value)
    return value


def _plain(value: Any, type: Any) -> Any:
    """A nested value of Arrow in the types of JSON; nulls are left out."""
    if isinstance(type, StructType):
        pairs = ((f.name, value.get(f.name), f.type) for f in type.fields)
        return {n: _plain(v, t) for n, v, t in pairs if v is not None}
    if isinstance(type, ArrayType):
        return [_plain(v, type.element) for v in value if v is not None]
    if isinstance(type, MapType):
        items = list(value.items()) if isinstance(value, dict) else list(value)
        return {str(_plain(k, type.key)): _plain(v, type.value) for k, v in items if v is not None}
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


# ---------------------------------------------------------------------------- literals


def days(value: date) -> int:
    return value.toordinal() - _EPOCH_DAYS


def micros(value: datetime) -> int:
    """Microseconds since 1970; without a zone a time is UTC."""
    at = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    delta = at - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def encode_number(value: Any, field: Field) -> Any:
    """A Python value as the field holds it, or None if no row can hold exactly that value."""
    if field.kind == "float":
        number = float(value)
        return math.nan if math.isnan(number) else number + 0.0
    if isinstance(field.type, DecimalType):
        exact = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
        if not exact.is_finite():
            return None
        if _scaled_back(_scaled(exact, field.type.scale), field.type.scale) != exact:
            return None
        if field.kind == "string":
            return long_decimal(exact, field.type) if abs(_scaled(exact, field.type.scale)) < 10**38 else None
        scaled = _scaled(exact, field.type.scale)
        return scaled if abs(scaled) < 10**LONG_DIGITS else None
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime):
        return micros(value)
    if isinstance(value, date):
        return days(value)
    if isinstance(value, float | Decimal):
        if value != value or value in (math.inf, -math.inf) or value != int(value):
            return None
        value = int(value)
    return value if -(1 << 63) <= value < 1 << 63 else None


def _scaled_back(unscaled: int, scale: int) -> Decimal:
    return Decimal((1 if unscaled < 0 else 0, tuple(map(int, str(abs(unscaled)))), -scale))
