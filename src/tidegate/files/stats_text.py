"""Writing statistics: how long strings are cut, and structs back to the JSON text of ``add.stats``.

A minimum may be cut anywhere. A maximum that is cut must still be above every value, so a character
that sorts above what was cut off is put in its place, counted as Java does: in UTF-16 units, never
in the middle of a surrogate pair. Specification: "Per-file Statistics"; the cuts are delta-spark's.
"""

from __future__ import annotations

from functools import reduce

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

# spark.databricks.io.skipping.stringPrefixLength
PREFIX_LENGTH = 32

_ASCII_MAX = "\x7f"
_HIGHEST = "\U0010ffff"
# Arrow spells years up to 32767.
_SPELLED_DAYS = 10_900_000
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
# Everything that JSON wants escaped, and the other characters that some readers cannot take.
_ESCAPED = '["\\\\\\x00-\\x1f\\x7f\\x{2028}\\x{2029}]'


# ---------------------------------------------------------------------------- truncation


def _units(text: str) -> int:
    """How long Java says that a string is."""
    return len(text) + sum(char > "\uffff" for char in text)


def _prefix(value: str, units: int) -> int:
    """How many characters make so many units; a pair that lies across the cut is kept whole."""
    used = 0
    for at, char in enumerate(value):
        if used >= units:
            return at
        used += 2 if char > "\uffff" else 1
    return len(value)


def truncate_min(value: str, length: int = PREFIX_LENGTH) -> str:
    """A string that is not above ``value``, of at most ``length`` UTF-16 units, or one more."""
    return value if len(value) * 2 <= length else value[: _prefix(value, length)]


def truncate_max(value: str, length: int = PREFIX_LENGTH) -> str | None:
    """A string that is not below ``value``, None where there is none of about twice the length."""
    if len(value) * 2 <= length or _units(value) <= length:
        return value
    cut = _prefix(value, length)
    used = _units(value[:cut])
    while used <= 2 * length:
        if cut == len(value):
            return value
        if value[cut] != _HIGHEST:
            return value[:cut] + (_ASCII_MAX if value[cut] < _ASCII_MAX else _HIGHEST)
        # A character that nothing sorts above cannot be replaced by a higher one: it stays.
        cut, used = cut + 1, used + 2
    return None


# ---------------------------------------------------------------------------- text


def encode(stats: pa.StructArray) -> pa.Array:
    """``stats_parsed`` as JSON texts, null where the row is null; fields without a value are left out."""
    texts = _object(stats)
    if stats.null_count == 0:
        return texts
    return pc.if_else(stats.is_valid(), texts, pa.scalar(None, pa.string()))


def _object(struct: pa.StructArray) -> pa.Array:
    rows = len(struct)
    members: list[pa.Array] = []
    for at, field in enumerate(struct.type):
        key = msgspec.json.encode(field.name).decode() + ":"
        values = struct.field(at)
        text = _object(values) if pa.types.is_struct(field.type) else _scalar(values)
        if pa.types.is_struct(field.type) and values.null_count:
            text = pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))
        members.append(pc.binary_join_element_wise(key, text, ""))
    if not members:
        return pa.repeat(pa.scalar("{}"), rows)
    # Arrow's join drops a row whose members are all null; with an empty text it has something to join.
    nothing = reduce(pc.and_, [m.is_null() for m in members])
    members[0] = pc.if_else(nothing, "", members[0])
    inner = pc.binary_join_element_wise(*members, ",", null_handling="skip")
    return pc.binary_join_element_wise("{", inner, "}", "")


def _scalar(values: pa.Array) -> pa.Array:
    type = values.type
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return _quoted(_escaped(pc.cast(values, pa.string())))
    if pa.types.is_timestamp(type):
        return _timestamps(_spelled(values, _PER_DAY[type.unit]))
    if pa.types.is_date(type):
        return _quoted(pc.cast(_spelled(values.cast(pa.date32()), 1), pa.string()))
    if pa.types.is_floating(type):
        return _floats(values)
    if pa.types.is_integer(type) or pa.types.is_decimal(type) or pa.types.is_boolean(type):
        return pc.cast(values, pa.string())
    # Binary, variant and the like have no form in JSON statistics.
    return pa.nulls(len(values), pa.string())


def _spelled(values: pa.Array, per_day: int) -> pa.Array:
    """Dates and times without those of years that Arrow cannot spell: a bound that is not said is unknown."""
    most = _SPELLED_DAYS * per_day
    if most >= 2**63:
        return values
    counted = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64()).cast(pa.int64())
    far = pc.fill_null(pc.or_(pc.greater(counted, most), pc.less(counted, -most)), False)
    return pc.if_else(far, pa.scalar(None, values.type), values) if far.true_count else values


def _quoted(values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', values, '"', "")


def _escaped(values: pa.Array) -> pa.Array:
    odd = pc.fill_null(pc.match_substring_regex(values, _ESCAPED), False)
    if odd.true_count == 0:
        return values
    texts = [msgspec.json.encode(v).decode()[1:-1] for v in values.filter(odd).to_pylist()]
    return pc.replace_with_mask(values, odd, pa.array(texts, pa.string()))


def _floats(values: pa.Array) -> pa.Array:
    text = pc.cast(values, pa.string())
    odd = pc.fill_null(pc.invert(pc.is_finite(values)), False)
    if odd.true_count == 0:
        return text
    named = pc.case_when(
        pc.make_struct(pc.is_nan(values), pc.greater(values, 0.0)), '"NaN"', '"Infinity"', '"-Infinity"'
    )
    return pc.if_else(odd, named, text)


def _timestamps(values: pa.Array) -> pa.Array:
    """ISO 8601 to the millisecond, rounded down as Delta does: readers allow for it in the maximum."""
    local = pc.cast(values, pa.timestamp(values.type.unit))
    if values.type.unit in ("us", "ns"):
        local = pc.floor_temporal(local, unit="millisecond")
    text = pc.cast(pc.cast(local, pa.timestamp("ms")), pa.string())
    text = pc.replace_substring(text, " ", "T", max_replacements=1)
    return pc.binary_join_element_wise('"', text, 'Z"' if values.type.tz else '"', "")
