"""The values of a query: text read in the type of its column, and bounds in the encoding of the index.

Text that is no value of a column's type is refused by name; a bound between two values of the encoding is
moved to the next one that counts, so that a range is exact whatever its bounds are written in.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

from tidegate.errors import QueryError
from tidegate.index.encode import encode_number
from tidegate.index.fields import Field
from tidegate.index.query import Typed, Value
from tidegate.schema.types import DecimalType, PrimitiveType

_BINARY = PrimitiveType("binary")
_BARE = re.compile(r"[-+]?\d+")


def integer_bounds(
    low: Any, high: Any, lowest: bool, highest: bool, field: Field
) -> tuple[int | None, int | None] | None:
    """Bounds as whole numbers of the field's encoding, both inclusive; None where nothing lies between."""
    first = None if low is None else _whole(low, field, up=True, inclusive=lowest)
    last = None if high is None else _whole(high, field, up=False, inclusive=highest)
    least, most = (-(10**38), 10**38) if field.kind == "string" else (-(1 << 63), (1 << 63) - 1)
    if (first is not None and first > most) or (last is not None and last < least):
        return None
    if first is not None and last is not None and first > last:
        return None
    return (None if first is None else max(first, least)), (None if last is None else min(last, most))


def _whole(value: Any, field: Field, *, up: bool, inclusive: bool) -> int:
    if isinstance(value, datetime | date):
        number = Decimal(int(encode_number(value, field)))
    else:
        number = Decimal(value) if not isinstance(value, float) else Decimal(repr(value))
        if number.is_nan():
            # Spark sorts NaN above every number.
            return 1 << 200 if up else 1 << 199
        if number.is_infinite():
            return (1 << 200) * (1 if number > 0 else -1)
        if isinstance(field.type, DecimalType):
            number = number.scaleb(field.type.scale)
    floor = int(number.to_integral_value(rounding="ROUND_FLOOR"))
    exact = number == floor
    if up:
        return floor + (0 if exact and inclusive else 1)
    return floor - (1 if exact and not inclusive else 0)


def as_text(value: Value, field: Field) -> str:
    raw = value.value if isinstance(value, Typed) else value
    if isinstance(raw, bytes):
        return raw.hex()
    if field.type == _BINARY and not isinstance(value, Typed):
        return str(raw).lower().removeprefix("0x")
    return str(raw)


def as_value(value: Value, field: Field) -> Any:
    """A value in the type of the column; text is read as that type is written."""
    if isinstance(value, Typed):
        return value.value
    text = value.strip()
    kind = field.type.name if isinstance(field.type, PrimitiveType) else "decimal"
    try:
        if kind == "boolean":
            return {"true": True, "false": False}[text.lower()]
        if kind == "date":
            return date.fromisoformat(text)
        if kind in ("timestamp", "timestamp_ntz"):
            return moment(text)
        if kind in ("float", "double"):
            return float(text)
        return int(text) if _BARE.fullmatch(text) else Decimal(text)
    except (KeyError, ValueError, InvalidOperation):
        raise QueryError(
            f"{text!r} is no value of the column {field.column}, which is {field.type}.",
            hint="Quote it if it has spaces." if " " in text else None,
        ) from None


def moment(text: str) -> datetime:
    """A time in ISO 8601, UTC where it names no zone."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def folded(parts: tuple[tuple[str, str], ...], field: Field) -> tuple[tuple[str, str], ...]:
    if field.tokenizer in ("whitespace", "raw"):
        return parts
    return tuple((kind, text.lower()) for kind, text in parts)


def address(text: str, field: Field) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise QueryError(
            f"{text!r} is no IP address, and {field.column} is a field of addresses.",
            hint="Write an address, 10.0.0.0/8, or 10.0.*.*; quote IPv6.",
        ) from None


def networks(text: str, field: Field) -> tuple[str, str]:
    """The first and the last address that a text stands for: one, a network, or octets with stars."""
    text = text.strip()
    if "/" in text:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise QueryError(f"{text!r} is no network.", hint="Write it like 10.0.0.0/8.") from None
        return str(network[0]), str(network[-1])
    if "*" in text:
        octets = text.split(".")
        fixed = [o for o in octets if o != "*"]
        if octets[: len(fixed)] != fixed or len(octets) > 4 or not all(o.isdecimal() for o in fixed):
            raise QueryError(
                f"{text!r} is no pattern of addresses.", hint="Stars stand for the last octets: 10.0.*.*"
            )
        rest = 4 - len(fixed)
        return (
            address(".".join([*fixed, *["0"] * rest]), field),
            address(".".join([*fixed, *["255"] * rest]), field),
        )
    one = address(text, field)
    return one, one


def readings(value: Value) -> list[Any]:
    """What a word may be in JSON besides a text."""
    if isinstance(value, Typed):
        return [] if isinstance(value.value, str) else [value.value]
    text = value.strip()
    if text in ("true", "false"):
        return [text == "true"]
    if _BARE.fullmatch(text) and -(1 << 63) <= int(text) < 1 << 63:
        return [int(text)]
    try:
        return [float(text)] if re.fullmatch(r"[-+]?\d+\.\d+([eE][-+]?\d+)?", text) else [moment(text)]
    except ValueError:
        return []


def json_bound(value: Value, field: Field) -> Any:
    raw = value.value if isinstance(value, Typed) else value
    if not isinstance(raw, str):
        return raw
    if _BARE.fullmatch(raw):
        return int(raw)
    try:
        return float(raw)
    except ValueError:
        pass
    try:
        return moment(raw).astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    except ValueError:
        raise QueryError(
            f"{raw!r} is no bound for a path of {field.column}: ranges inside JSON are of numbers and times."
        ) from None
