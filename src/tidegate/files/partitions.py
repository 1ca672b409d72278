"""Partition values: the strings of the log as typed columns, and back.

``partitionValues`` maps physical column names to strings. A null or an empty string is a null of
every type. Decoding is columnar: one map lookup for all files, then a cast of the distinct values;
what does not parse is an error that names it, or, in skipping, unknown.
Specification: "Partition Value Serialization".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import LogError, SchemaInvalidError
from tidegate.files.days import split_date
from tidegate.files.paths import (
    HIVE_DEFAULT_PARTITION,
    decode_path,
    encode_path,
    escape_path_name,
    partition_directory,
    resolve_path,
    unescape_path_name,
)
from tidegate.schema.arrow import to_arrow_type
from tidegate.schema.types import VARIANT, VOID, DataType, DecimalType, PrimitiveType

__all__ = [
    "Decoded",
    "HIVE_DEFAULT_PARTITION",
    "arrow_type",
    "decode_path",
    "encode_path",
    "escape_path_name",
    "parse",
    "partition_directory",
    "raw",
    "resolve_path",
    "serialize",
    "typed",
    "unescape_path_name",
]

TIMESTAMP_UTC = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
_MICROS_PER_DAY = 86_400_000_000

# What ends the text of an instant.
ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})$"


def arrow_type(type: DataType) -> pa.DataType | None:
    """The Arrow type of a primitive column; None for types that cannot be a partition column's."""
    if type in (VOID, VARIANT) or not isinstance(type, DecimalType | PrimitiveType):
        return None
    try:
        return to_arrow_type(type)
    except SchemaInvalidError:
        return None


# ---------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class Decoded:
    """Typed values, null where the value is null or unknown; ``unknown`` where it did not parse."""

    values: pa.Array
    unknown: pa.Array | None


def raw(partition_values: pa.MapArray, physical_name: str) -> pa.Array:
    """The strings of one partition column, null where it is null, empty or absent."""
    values = lookup(partition_values, physical_name)
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)


def typed(partition_values: pa.MapArray, physical_name: str, type: DataType) -> pa.Array:
    """The values of one partition column in its own type. ``LogError`` names one that does not parse."""
    strings = raw(partition_values, physical_name)
    decoded = parse(strings, type)
    if decoded.unknown is not None:
        bad = strings.filter(decoded.unknown)
        raise LogError(
            f"The partition value {bad[0].as_py()!r} of column {physical_name} is no {type} "
            f"({len(bad)} of {len(strings)} files).",
            hint="The writer of these files broke the protocol; rewrite their partition values.",
        )
    return decoded.values


def parse(strings: pa.Array, type: DataType) -> Decoded:
    """Strings as values of ``type``; each distinct string is parsed once."""
    target = arrow_type(type)
    if target is None:
        return Decoded(pa.nulls(len(strings)), pc.is_valid(strings) if len(strings) else None)
    if pa.types.is_string(target):
        return Decoded(strings, None)
    encoded = strings.dictionary_encode()
    distinct = parse_distinct(encoded.dictionary, target)
    if distinct.null_count and pa.types.is_temporal(target):
        distinct = pa.concat_arrays(
            [
                distinct.slice(i, 1) if value.is_valid else _far(text.as_py().strip(), target)
                for i, (text, value) in enumerate(zip(encoded.dictionary, distinct, strict=True))
            ]
        )
    values = distinct.take(encoded.indices)
    if distinct.null_count == 0:
        return Decoded(values, None)
    return Decoded(values, pc.and_(pc.is_null(values), pc.is_valid(strings)))


def parse_distinct(strings: pa.Array, target: pa.DataType) -> pa.Array:
    """Non-null strings as ``target``, null where one does not parse."""
    try:
        return _cast(strings, target)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_cast_one(strings.slice(i, 1), target) for i in range(len(strings))])


def _cast_one(string: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return _cast(string, target)
    except pa.ArrowInvalid:
        try:
            return _cast(pa.array([_plain(string[0].as_py(), target)]), target)
        except pa.ArrowInvalid:
            return pa.nulls(1, target)


def _plain(text: str, target: pa.DataType) -> str:
    """A spelling that Spark reads and Arrow does not, in Arrow's spelling: ``2024-1-5``, `` +7``."""
    text = text.strip()
    if pa.types.is_date(target) or pa.types.is_timestamp(target):
        head = re.match(r"(\d{4})-(\d{1,2})-(\d{1,2})(?=\D|$)", text)
        if head:
            return f"{head[1]}-{int(head[2]):02}-{int(head[3]):02}{text[head.end() :]}"
    return text.removeprefix("+") if pa.types.is_integer(target) else text


def _far(text: str, target: pa.DataType) -> pa.Array:
    """A date or a time of a year that Arrow does not read; null for anything else."""
    found = split_date(text)
    if found is None:
        return pa.nulls(1, target)
    days, rest = found
    try:
        if pa.types.is_date(target):
            return pa.array([days] if not rest else [None], pa.int32()).cast(target)
        # The time of day, on a day that Arrow reads.
        time = _cast(pa.array([f"1970-01-01{rest}"]), target).cast(pa.int64())
        return pa.array([time[0].as_py() + days * _MICROS_PER_DAY], pa.int64()).cast(target)
    except (pa.ArrowInvalid, OverflowError):
        return pa.nulls(1, target)


def _cast(strings: pa.Array, target: pa.DataType) -> pa.Array:
    if not pa.types.is_timestamp(target):
        return pc.cast(strings, target)
    # A value without a zone is in the zone of whoever wrote it, which nobody recorded: UTC here.
    none = pa.scalar(None, pa.string())
    zoned = pc.match_substring_regex(strings, ZONE)
    instants = pc.cast(pc.if_else(zoned, strings, none), TIMESTAMP_UTC)
    local = pc.cast(pc.if_else(zoned, none, strings), TIMESTAMP_NTZ)
    return pc.coalesce(pc.cast(instants, target), pc.cast(local, target))


def lookup(partition_values: pa.MapArray, physical_name: str) -> pa.Array:
    """What each map says of one key, null where it has none."""
    uniform = _uniform_lookup(partition_values, physical_name)
    if uniform is not None:
        return uniform
    found = pc.map_lookup(partition_values, pa.scalar(physical_name), "first")
    return found.cast(pa.string())


def _uniform_lookup(maps: pa.MapArray, name: str) -> pa.Array | None:
    """Where every map has the same keys in the same order, its values lie at a fixed stride.

    Nearly every table is like that, and a stride is ten times faster than a lookup.
    """
    rows = len(maps)
    if rows == 0 or maps.null_count:
        return None
    offsets = maps.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    width, rest = divmod(end - start, rows)
    if rest or width == 0 or width > 64:
        return None
    if width > 1:
        steps = pc.subtract(offsets.slice(1), offsets.slice(0, rows))
        if pc.min_max(steps).as_py() != {"min": width, "max": width}:
            return None
    elif pc.max(pc.subtract(offsets.slice(1), offsets.slice(0, rows))).as_py() != 1:
        return None
    keys, values = maps.keys.slice(start, end - start), maps.items.slice(start, end - start)
    first = keys.slice(0, width).to_pylist()
    if name not in first:
        return None
    at = first.index(name)
    if width > 1:
        keys = pc.list_element(pa.FixedSizeListArray.from_arrays(keys, width), at)
        values = pc.list_element(pa.FixedSizeListArray.from_arrays(values, width), at)
    if pc.all(pc.equal(keys, name)).as_py() is not True:
        return None
    return values.cast(pa.string())


# ---------------------------------------------------------------------------- writing


def serialize(value: object, type: DataType) -> str | None:
    """One partition value as the log keeps it: timestamps as instants in UTC, nothing for null."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _serialize_bytes(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return ("-Infinity" if value < 0 else "Infinity") if math.isinf(value) else repr(value)
    if isinstance(value, Decimal):
        scale = type.scale if isinstance(type, DecimalType) else max(-int(value.as_tuple().exponent), 0)
        return f"{value:.{scale}f}"
    if isinstance(value, datetime):
        return _serialize_datetime(value, type)
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def _serialize_datetime(value: datetime, type: DataType) -> str:
    if isinstance(type, PrimitiveType) and type.name == "timestamp_ntz":
        return value.replace(tzinfo=None).isoformat(" ")
    utc = value.astimezone(timezone.utc) if value.tzinfo else value
    return utc.replace(tzinfo=None).isoformat("T", "microseconds") + "Z"


def _serialize_bytes(value: bytes) -> str | None:
    try:
        return value.decode("utf-8") or None
    except UnicodeDecodeError as e:
        raise LogError(
            f"The binary partition value {value[:20].hex()} cannot be written: the log keeps partition "
            "values as text, and these bytes are not UTF-8.",
            hint="Partition by another column, or by an encoding of this one such as hex.",
        ) from e
