"""What the log says of a column in each file: its exact value, or between which bounds its values lie.

Partition columns have one value per file. Other columns have a minimum, a maximum and a number of
nulls, each of which may be unknown. Bounds come out of here *safe*: whatever writers cut off, round or
leave out (milliseconds, long strings, zone offsets with seconds, NaN, floats written as floats) has
been allowed for, so that every value of the file lies between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.files import comparisons as cmp
from tidegate.files import partitions, stats
from tidegate.files.answers import Bounds, Mask, Values
from tidegate.files.comparisons import Leaf
from tidegate.schema.paths import Path

# Maxima are written to the millisecond, rounded down.
_CUT_OFF_MICROS = 999
# Up to here zones had offsets with seconds, which the texts of statistics round to minutes.
_ODD_OFFSETS_UNTIL = 94_694_400_000_000  # 1973-01-01
_ODD_OFFSET_MICROS = 60_000_000
_FARTHEST = 2**63 - 1 - _ODD_OFFSET_MICROS - _CUT_OFF_MICROS

# A maximum of so many bytes may have been cut at 32 UTF-16 units, the last pair left whole or out,
# whatever was put in place of what was cut off.
_MAYBE_CUT = 31
# Sorts above whatever could have been cut off.
_HIGHEST = b"\xff"
# Old writers put U+FFFD there, after half of a surrogate pair as the case may be; yet U+10000 sorts above it.
_OLD_TIE_BREAKER = "\ufffd"
_OLD_CUT = "\\??\ufffd$"


@dataclass(frozen=True, slots=True)
class Need:
    """One field of the statistics: ``minValues`` of a leaf, and so on."""

    kind: str
    leaf: Leaf

    @property
    def path(self) -> Path:
        return (self.kind, *self.leaf.path)

    @property
    def type(self) -> pa.DataType | None:
        return pa.int64() if self.kind == stats.NULLS else cmp.bounds_type(self.leaf)


class FileColumns:
    """The columns of one batch of files, each decoded when it is first asked for."""

    def __init__(self, batch: pa.RecordBatch, needs: Iterable[Need] = (), *, strict: bool = False) -> None:
        self._batch = batch
        self._needs = tuple(dict.fromkeys(needs))
        self._strict = strict
        self._fields: dict[Path, pa.Array] | None = None
        self._values: dict[Leaf, Values] = {}
        self._bounds: dict[Leaf, Bounds] = {}

    def values(self, leaf: Leaf) -> Values:
        """The values of a partition column."""
        found = self._values.get(leaf)
        if found is None:
            found = self._values[leaf] = self._read_values(leaf)
        return found

    def bounds(self, leaf: Leaf) -> Bounds:
        """The bounds of any other column, as far as they were named as needed."""
        found = self._bounds.get(leaf)
        if found is None:
            found = self._bounds[leaf] = self._read_bounds(leaf)
        return found

    # ------------------------------------------------------------------ partition values

    def _read_values(self, leaf: Leaf) -> Values:
        rows = self._batch.num_rows
        if "partitionValues" not in self._batch.schema.names:
            return Values(pa.nulls(rows, cmp.domain_type(leaf)), pa.repeat(pa.scalar(True), rows))
        maps = self._batch.column("partitionValues")
        if self._strict:
            decoded = partitions.Decoded(partitions.typed(maps, leaf.path[0], leaf.type), None)
        else:
            decoded = partitions.parse(partitions.raw(maps, leaf.path[0]), leaf.type)
        return Values(pc.cast(decoded.values, cmp.domain_type(leaf), safe=False), decoded.unknown)

    # ------------------------------------------------------------------ statistics

    def _read_bounds(self, leaf: Leaf) -> Bounds:
        if self._fields is None:
            self._fields = _read_stats(self._batch, self._needs)
        nulls = self._fields.get((stats.NULLS, *leaf.path))
        records = self._fields.get((stats.RECORDS,))
        low = self._fields.get((stats.MIN, *leaf.path))
        high = self._fields.get((stats.MAX, *leaf.path))
        return Bounds(
            low=None if low is None else _safe_low(low, leaf),
            high=None if high is None else _safe_high(high, leaf),
            may_be_null=_unless_equal(nulls, pa.scalar(0, pa.int64())),
            may_have_value=_unless_equal(nulls, records),
        )


def _unless_equal(nulls: pa.Array | None, other: pa.Array | pa.Scalar | None) -> Mask:
    """These two hold for tight and for wide bounds alike: no null if there are 0, no value if all are."""
    if nulls is None or other is None:
        return True
    return pc.fill_null(pc.not_equal(nulls, other), True)


def _read_stats(batch: pa.RecordBatch, needs: Iterable[Need]) -> dict[Path, pa.Array]:
    """The needed fields, from ``stats_parsed`` where a row has it, else from the JSON text."""
    paths: dict[Path, pa.DataType] = {(stats.RECORDS,): pa.int64()}
    for need in needs:
        if need.type is not None:
            paths[need.path] = need.type
    wanted = stats.nested_type(list(paths.items()))
    names = batch.schema.names
    parsed = batch.column("stats_parsed") if "stats_parsed" in names else None
    texts = batch.column("stats") if "stats" in names else None
    if parsed is None or parsed.null_count == len(parsed):
        return {} if texts is None else _fields(stats.decode(texts, wanted), paths)
    fields = _fields(stats.conform(parsed, wanted), paths)
    if texts is None or parsed.null_count == 0:
        return fields
    missing = parsed.is_null()
    decoded = _fields(stats.decode(texts.filter(missing), wanted), paths)
    return {path: pc.replace_with_mask(fields[path], missing, decoded[path]) for path in paths}


def _fields(struct: pa.StructArray, paths: Iterable[Path]) -> dict[Path, pa.Array]:
    return {path: pc.struct_field(struct, list(path)) for path in paths}


# ---------------------------------------------------------------------------- safe bounds


def _safe_low(low: pa.Array, leaf: Leaf) -> pa.Array:
    if leaf.kind == cmp.TIMESTAMP:
        micros = low.cast(pa.int64())
        odd = pc.subtract(micros, pa.scalar(_ODD_OFFSET_MICROS, pa.int64()))
        # Nothing is written so early that the subtraction could wrap: such a bound says nothing.
        near = pc.greater(micros, pa.scalar(-_FARTHEST, pa.int64()))
        odd = pc.if_else(near, odd, pa.scalar(None, pa.int64()))
        return pc.if_else(pc.less(micros, pa.scalar(_ODD_OFFSETS_UNTIL, pa.int64())), odd, micros)
    if leaf.kind == cmp.FLOAT:
        low = _meaningful(low, math.inf)
        return pc.min_element_wise(low, _as_single(low), skip_nulls=False) if leaf.was_float else low
    return low.cast(cmp.domain_type(leaf), safe=False)


def _safe_high(high: pa.Array, leaf: Leaf) -> pa.Array:
    if leaf.kind == cmp.TIMESTAMP:
        micros = high.cast(pa.int64())
        near = pc.less(micros, pa.scalar(_FARTHEST, pa.int64()))
        micros = pc.if_else(near, micros, pa.scalar(None, pa.int64()))
        early = pc.less(micros, pa.scalar(_ODD_OFFSETS_UNTIL, pa.int64()))
        more = pc.if_else(early, _ODD_OFFSET_MICROS + _CUT_OFF_MICROS, _CUT_OFF_MICROS)
        return pc.add(micros, pc.cast(more, pa.int64()))
    if leaf.kind == cmp.FLOAT:
        high = _meaningful(high, -math.inf)
        return pc.max_element_wise(high, _as_single(high), skip_nulls=False) if leaf.was_float else high
    if leaf.kind == cmp.STRING:
        return _safe_high_string(high)
    return high.cast(cmp.domain_type(leaf), safe=False)


def _meaningful(values: pa.Array, nothing: float) -> pa.Array:
    """As doubles, unknown where NaN, or where the text was a number that no float can hold."""
    values = values.cast(pa.float64())
    odd = pc.or_(pc.is_nan(values), pc.equal(values, nothing))
    return pc.if_else(odd, pa.scalar(None, pa.float64()), values) if pc.any(odd).as_py() else values


def _as_single(values: pa.Array) -> pa.Array:
    return values.cast(pa.float32(), safe=False).cast(pa.float64())


def _safe_high_string(high: pa.Array) -> pa.Array:
    cut = pc.greater_equal(pc.binary_length(high), _MAYBE_CUT)
    old = pc.ends_with(high, _OLD_TIE_BREAKER)
    if pc.any(old).as_py():
        # Some cut earlier than others; this is what tells it at any length.
        stem, cut = pc.replace_substring_regex(high, _OLD_CUT, ""), pc.or_(cut, old)
    elif pc.any(cut).as_py():
        stem = high
    else:
        return high.cast(pa.binary())
    longer = pc.binary_join_element_wise(stem.cast(pa.binary()), _HIGHEST, b"")
    return pc.if_else(cut, longer, high.cast(pa.binary()))
