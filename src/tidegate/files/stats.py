"""Per-file statistics: a column of JSON texts, or a checkpoint's ``stats_parsed``, as typed Arrow columns.

A million texts are decoded at once by Arrow's JSON reader, which reads numbers exactly: integers
and decimals never pass through a double. A text that it refuses is decoded alone, leaf by leaf; what is
malformed, out of range or of another type becomes null, and null means *unknown*: one bad row neither
stops nor shifts the others. Specification: "Per-file Statistics".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tidegate.files.partitions import ZONE, parse_distinct
from tidegate.files.stats_text import encode, truncate_max, truncate_min
from tidegate.schema.arrow import to_arrow_type
from tidegate.schema.types import DataType, DecimalType, PrimitiveType, StructType

__all__ = [
    "conform",
    "decode",
    "encode",
    "nested_type",
    "parse_for_checkpoint",
    "stats_type",
    "truncate_max",
    "truncate_min",
]

MIN, MAX, NULLS, RECORDS, TIGHT = "minValues", "maxValues", "nullCount", "numRecords", "tightBounds"
_RECORDS = pa.struct([(RECORDS, pa.int64())])

# delta.dataSkippingNumIndexedCols
DEFAULT_INDEXED = 32

_MIN_MAX_TYPES = frozenset(
    ("byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string")
)
# Rows that go to Arrow's reader at once, then in a second try, before rows are decoded one by one.
_SLICES = (131_072, 8_192)
_SLICE_BYTES = 1 << 28
_BLOCK_BYTES = 1 << 22
# Up to this many texts one by one: Arrow's reader takes milliseconds to get going.
_FEW_TEXTS = 64


# ---------------------------------------------------------------------------- shape


def stats_type(
    physical_schema: StructType,
    partition_columns: Iterable[str] = (),
    *,
    num_indexed: int = DEFAULT_INDEXED,
    stats_columns: Iterable[Sequence[str]] | None = None,
    tight_bounds: bool = True,
) -> pa.StructType:
    """The type of ``stats_parsed`` for a table, as Spark lays it out.

    Both arguments carry physical names. Indexed are the leaves named by ``stats_columns`` (or below
    them), else the first ``num_indexed`` ones, all of them when that is negative.
    """
    partitions = set(partition_columns)
    leaves = [(p, f.type) for p, f in physical_schema.leaves() if p[0] not in partitions]
    if stats_columns is not None:
        named = [tuple(c) for c in stats_columns]
        leaves = [(p, t) for p, t in leaves if any(p[: len(n)] == n for n in named)]
    elif num_indexed >= 0:
        leaves = leaves[:num_indexed]
    bounds = nested_type([(p, to_arrow_type(t)) for p, t in leaves if has_bounds(t)])
    fields = [pa.field(RECORDS, pa.int64())]
    if bounds.num_fields:
        fields += [pa.field(MIN, bounds), pa.field(MAX, bounds)]
    if leaves:
        fields.append(pa.field(NULLS, nested_type([(p, pa.int64()) for p, _ in leaves])))
    if tight_bounds:
        fields.append(pa.field(TIGHT, pa.bool_()))
    return pa.struct(fields)


def has_bounds(type: DataType) -> bool:
    """Whether Delta keeps a minimum and a maximum for columns of this type."""
    if isinstance(type, PrimitiveType):
        return type.name in _MIN_MAX_TYPES or type.name.startswith(("char(", "varchar("))
    return isinstance(type, DecimalType)


def nested_type(leaves: Sequence[tuple[Sequence[str], pa.DataType]]) -> pa.StructType:
    """The struct that has these leaves, in order."""
    fields: dict[str, Any] = {}
    for path, type in leaves:
        here = fields
        for name in path[:-1]:
            here = here.setdefault(name, {})
        here[path[-1]] = type
    return _struct(fields)


def _struct(fields: dict[str, Any]) -> pa.StructType:
    return pa.struct([(n, _struct(t) if isinstance(t, dict) else t) for n, t in fields.items()])


# ---------------------------------------------------------------------------- JSON


def decode(stats: pa.Array | pa.ChunkedArray, wanted: pa.StructType) -> pa.StructArray:
    """The fields of ``wanted`` from JSON texts, one row per text; a null text is a null row."""
    chunks = stats.chunks if isinstance(stats, pa.ChunkedArray) else [stats]
    parts = [part for chunk in chunks for part in _decode_array(_plain_strings(chunk), wanted)]
    if not parts:
        return pa.array([], wanted)
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def num_records(stats: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The number of rows that each file's statistics state, null where they do not."""
    return pc.struct_field(decode(stats, _RECORDS), RECORDS)


def parse_for_checkpoint(stats: pa.Array | pa.ChunkedArray, type: pa.StructType) -> pa.StructArray:
    """``stats_parsed`` for a checkpoint; ``type`` is that of ``stats_type``."""
    return decode(stats, type)


def _plain_strings(stats: pa.Array) -> pa.Array:
    return stats if pa.types.is_string(stats.type) else pc.cast(stats, pa.string())


def _decode_array(strings: pa.Array, wanted: pa.StructType) -> Iterator[pa.StructArray]:
    if 0 < len(strings) <= _FEW_TEXTS:
        yield _decode_rows(strings, wanted)
        return
    at = 0
    per_row = strings.nbytes // max(len(strings), 1) + 1
    step = max(1, min(_SLICES[0], _SLICE_BYTES // per_row))
    while at < len(strings):
        yield from _decode_slice(strings.slice(at, step), wanted, 0)
        at += step


def _decode_slice(strings: pa.Array, wanted: pa.StructType, attempt: int) -> Iterator[pa.StructArray]:
    if strings.null_count == len(strings):
        yield pa.nulls(len(strings), wanted)
        return
    try:
        yield _decode_at_once(strings, wanted)
        return
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowCapacityError):
        pass
    if attempt + 1 == len(_SLICES) or len(strings) == 1:
        yield _decode_rows(strings, wanted)
        return
    step = _SLICES[attempt + 1]
    for at in range(0, len(strings), step):
        yield from _decode_slice(strings.slice(at, step), wanted, attempt + 1)


def _decode_at_once(strings: pa.Array, wanted: pa.StructType) -> pa.StructArray:
    """All texts through Arrow's reader, one on a line.

    Each must begin with a brace and end with one. After a closing brace no JSON goes on with an opening
    one, so a text either makes at least one row or stops the reader; as many rows as texts then prove
    that each made exactly one: a malformed text cannot shift the others.
    """
    missing = None
    if strings.null_count or pc.any(pc.equal(strings, "")).as_py():
        missing = pc.equal(pc.fill_null(strings, ""), "")
        strings = pc.if_else(missing, "{}", strings)
    if not (pc.all(pc.starts_with(strings, "{")).as_py() and pc.all(pc.ends_with(strings, "}")).as_py()):
        raise pa.ArrowInvalid("a text is no JSON object")
    one = pa.ListArray.from_arrays(pa.array([0, len(strings)], pa.int32()), strings)
    lines = pc.binary_join(one, "\n")
    read = pj.read_json(
        pa.BufferReader(lines.buffers()[2]),
        read_options=pj.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(list(_readable(wanted))), unexpected_field_behavior="ignore"
        ),
    )
    if read.num_rows != len(strings):
        raise pa.ArrowInvalid(f"{len(strings)} texts made {read.num_rows} rows")
    columns = [_from_readable(pa.concat_arrays(read.column(f.name).chunks), f.type) for f in wanted]
    return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=missing)


def _readable(type: pa.DataType) -> pa.DataType:
    """The type in which Arrow's reader takes a field. It has no dates, and pays no heed to zones."""
    if pa.types.is_struct(type):
        return pa.struct([(f.name, _readable(f.type)) for f in type])
    return pa.string() if pa.types.is_temporal(type) else type


def _from_readable(array: pa.Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_struct(type):
        # ``field`` does not hand the struct's nulls on, but they stay where they are: in the struct.
        found = [array.field(i) for i in range(type.num_fields)]
        children = [_from_readable(c, f.type) for c, f in zip(found, type, strict=True)]
        if all(c is f for c, f in zip(children, found, strict=True)):
            return array
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(type), mask=mask)
    if pa.types.is_timestamp(type):
        return pc.cast(_zoned_as(array, type), type)
    if pa.types.is_decimal(type):
        return _within_precision(array, type)
    return array if array.type == type else pc.cast(array, type)


def _zoned_as(texts: pa.Array, type: pa.TimestampType) -> pa.Array:
    """An instant needs its zone, a local time must have none: otherwise it is not known what is meant."""
    if type.tz and pc.all(pc.ends_with(texts, "Z")).as_py() is not False:
        return texts
    zoned = pc.match_substring_regex(texts, ZONE)
    fits = zoned if type.tz else pc.invert(zoned)
    return pc.if_else(fits, texts, pa.scalar(None, pa.string()))


def _within_precision(values: pa.Array, type: pa.Decimal128Type) -> pa.Array:
    """Arrow's reader lets a decimal have more digits than its type."""
    most = Decimal((0, (9,) * type.precision, -type.scale))
    if pc.all(pc.less_equal(pc.abs(values), pa.scalar(most, type))).as_py() is not False:
        return values
    return pc.if_else(pc.less_equal(pc.abs(values), pa.scalar(most, type)), values, pa.scalar(None, type))


# ---------------------------------------------------------------------------- rows one by one

_DECODER = msgspec.json.Decoder(float_hook=Decimal)


def _decode_rows(strings: pa.Array, wanted: pa.StructType) -> pa.StructArray:
    rows = [_decode_row(text) for text in strings.to_pylist()]
    return _build(rows, wanted)


def _decode_row(text: str | None) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        row = _DECODER.decode(text)
    except (msgspec.DecodeError, ArithmeticError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _build(rows: list[Any], type: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(type):
        return _build_leaf(rows, type)
    structs = [row if isinstance(row, dict) else None for row in rows]
    children = [_build([s.get(f.name) if s else None for s in structs], f.type) for f in type]
    mask = pa.array([s is None for s in structs], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(type), mask=mask)


def _build_leaf(values: list[Any], type: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(type):
        texts = pa.array([v if isinstance(v, str) else None for v in values], pa.string())
        encoded = texts.dictionary_encode()
        return _parse_temporal(encoded.dictionary, type).take(encoded.indices)
    return pa.array([_value(v, type) for v in values], type)


def _parse_temporal(texts: pa.Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(type):
        texts = pc.fill_null(_zoned_as(texts, type), "")
    return parse_distinct(texts, type)


def _value(value: Any, type: pa.DataType) -> Any:
    """A decoded JSON value as ``type`` has it, None where it is not exactly that."""
    if pa.types.is_boolean(type):
        return value if isinstance(value, bool) else None
    if pa.types.is_string(type):
        return value if isinstance(value, str) else None
    if isinstance(value, bool) or value is None:
        return None
    if pa.types.is_integer(type):
        return _integer(value, type.bit_width)
    if pa.types.is_floating(type):
        return _float(value, type)
    return _decimal(value, type) if pa.types.is_decimal(type) else None


def _integer(value: Any, bits: int) -> int | None:
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < 20 and value == int(value):
        value = int(value)
    if not isinstance(value, int):
        return None
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def _float(value: Any, type: pa.DataType) -> float | None:
    if isinstance(value, str):
        return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value)
    if not isinstance(value, int | Decimal):
        return None
    try:
        found = float(value)
        rounded: float = pa.scalar(found).cast(type).as_py()
    except (OverflowError, pa.ArrowInvalid):
        return None
    # A finite number that overflows says nothing of where the values end.
    return rounded if math.isfinite(rounded) else None


def _decimal(value: Any, type: pa.Decimal128Type) -> Decimal | None:
    try:
        number = Decimal(value)
    except (ArithmeticError, TypeError, ValueError):
        return None
    if not number.is_finite() or number.adjusted() > type.precision:
        return None
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    shift = exponent + type.scale
    if shift < 0:
        if any(digits[shift:]):
            return None
        digits = digits[:shift] or (0,)
    else:
        digits += (0,) * shift
    fits = len("".join(map(str, digits)).lstrip("0")) <= type.precision
    return Decimal((sign, digits, -type.scale)) if fits else None


# ---------------------------------------------------------------------------- stats_parsed


def conform(parsed: pa.StructArray, wanted: pa.StructType) -> pa.StructArray:
    """A checkpoint's ``stats_parsed`` in the shape of ``wanted``, whatever types its writer chose.

    Fields that are missing, or whose type cannot be read without loss, are null: unknown.
    """
    return _conform(parsed, wanted, len(parsed))


def _conform(found: pa.Array | None, wanted: pa.DataType, rows: int) -> pa.Array:
    if found is None:
        return pa.nulls(rows, wanted)
    if found.type == wanted:
        return found
    if not pa.types.is_struct(wanted):
        return _conform_leaf(found, wanted)
    if not pa.types.is_struct(found.type):
        return pa.nulls(rows, wanted)
    children = []
    for field in wanted:
        at = found.type.get_field_index(field.name)
        children.append(_conform(found.field(at) if at >= 0 else None, field.type, rows))
    mask = found.is_null() if found.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def _conform_leaf(found: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(found.type):
        found = found.dictionary_decode()
    if not _lossless(found.type, wanted):
        return pa.nulls(len(found), wanted)
    try:
        return pc.cast(found, wanted)
    except pa.ArrowInvalid:
        return pa.nulls(len(found), wanted)


def _lossless(found: pa.DataType, wanted: pa.DataType) -> bool:
    is_integer: bool = pa.types.is_integer(found)
    is_timestamp: bool = pa.types.is_timestamp(found)
    if pa.types.is_integer(wanted):
        return is_integer
    if pa.types.is_decimal(wanted):
        return is_integer or bool(pa.types.is_decimal(found))
    if pa.types.is_floating(wanted):
        bits = 32 if is_integer else wanted.bit_width if pa.types.is_floating(found) else 0
        return bits > 0 and bool(found.bit_width <= bits)
    if pa.types.is_timestamp(wanted):
        # INT96 comes as nanoseconds, and far dates have wrapped around by then.
        return (is_timestamp and found.unit != "ns") or (bool(pa.types.is_date(found)) and wanted.tz is None)
    if pa.types.is_string(wanted):
        return bool(pa.types.is_large_string(found) or pa.types.is_string_view(found))
    return False
