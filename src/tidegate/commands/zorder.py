"""Z-order: rows that are near in several columns at once come to lie in the same files.

Each column's values are cut into ranges of equal weight, by boundaries from a sample; the bits of
the range numbers are interleaved into one number, and the rows are range-partitioned by it. Public
functions of Spark only, so that it runs over Connect as well. Null is below everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.schema.paths import Path

# A long has room for 62 bits that need no care for signs; ten bits, a thousand ranges, are plenty.
MOST_BITS = 10
_ROOM = 62
_SAMPLES_PER_RANGE = 20
_NOISE = "__tidegate_noise"
_Z = "__tidegate_z"
_RANGE = "__tidegate_range"


def bits_for(columns: int) -> int:
    """How many bits of each range number fit."""
    return max(1, min(MOST_BITS, _ROOM // columns))


def interleave(ids: Sequence[int], bits: int) -> int:
    """The bits of several numbers, highest first, taken from one after the other."""
    out = 0
    for bit in range(bits):
        for at, value in enumerate(reversed(ids)):
            out |= (value >> bit & 1) << (bit * len(ids) + at)
    return out


def interleaved(ids: Sequence[str], bits: int) -> Column:
    """``interleave`` as a column, of columns by their names."""
    terms = [
        f"shiftleft(shiftright({value}, {bit}) & 1L, {bit * len(ids) + at})"
        for bit in range(bits)
        for at, value in enumerate(reversed(ids))
    ]
    return F.expr(" | ".join(terms))


def boundaries(values: pa.Array | pa.ChunkedArray, ranges: int) -> list[Any]:
    """At most ``ranges - 1`` values that cut a sample into ranges of equal weight, ascending."""
    values = values.drop_null()
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    n = len(values)
    if n == 0:
        return []
    order = pc.sort_indices(values)
    picks = sorted({min(n - 1, i * n // ranges) for i in range(1, ranges)})
    cut = values.take(order.take(pa.array(picks, pa.int64())))
    if isinstance(cut, pa.ChunkedArray):
        cut = cut.combine_chunks()
    out: list[Any] = []
    for value in cut.to_pylist():
        if not out or value != out[-1]:
            out.append(value)
    return out


def range_id(column: str, cuts: Sequence[Any], kind: str, bits: int) -> Column:
    """How many of ``cuts`` lie at or below the value of an SQL expression, by bisection; 0 for null."""
    if not cuts:
        return F.lit(0).cast("long")
    # As text, which Spark parses in one go: a literal of its own for each cut is a call for each.
    cut = f"cast(array({', '.join(_quoted(c) for c in cuts)}) as array<{kind}>)"
    steps = ", ".join(str(1 << b) for b in reversed(range(bits)))
    n = len(cuts)
    deeper = f"at + step <= {n} AND {cut}[least(at + step, {n}) - 1] <= {column}"
    return F.expr(f"cast(aggregate(array({steps}), 0, (at, step) -> if({deeper}, at + step, at)) as bigint)")


def _quoted(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def ordered(
    frame: DataFrame,
    columns: Sequence[Path],
    files: int,
    rows: int | None,
    *,
    along: Callable[[Sequence[str], int], Column] = interleaved,
) -> DataFrame:
    """``frame`` cut into about ``files`` partitions along the curve through ``columns``."""
    names = [_quoted_path(c) for c in columns]
    bits = bits_for(len(columns))
    ranges = 1 << bits
    wanted = ranges * _SAMPLES_PER_RANGE
    part = 1.0 if not rows else min(1.0, 1.2 * wanted / rows)
    kinds = [f.dataType.simpleString() for f in frame.select(*[F.expr(n) for n in names]).schema.fields]
    # Times go as numbers: what comes back as text must be exactly what was seen.
    plain = [_plain(n, k) for n, k in zip(names, kinds, strict=True)]
    seen = frame.select(*[F.expr(text).alias(f"c{i}") for i, (text, _) in enumerate(plain)])
    sample = (seen if part >= 1.0 else seen.sample(False, part, 17)).limit(4 * wanted).toArrow()
    ids = {
        f"{_RANGE}{i}": range_id(text, boundaries(sample.column(i), ranges), kind, bits)
        for i, (text, kind) in enumerate(plain)
    }
    # Columns of their own, since every bit asks for them again. Rows that agree in all of the columns
    # may fill more than one file: the noise tells them apart.
    keyed = frame.withColumns(ids).withColumns({_Z: along(list(ids), bits), _NOISE: F.rand(7)})
    cut = keyed.drop(*ids).repartitionByRange(files, F.col(_Z), F.col(_NOISE))
    return cut.drop(_Z, _NOISE)


def _quoted_path(path: Path) -> str:
    """A column as SQL, whatever is in its name."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in path)


def _plain(name: str, kind: str) -> tuple[str, str]:
    """A column as SQL whose values order as the column's do and are exact as text, and its type."""
    if kind in ("timestamp", "timestamp_ntz"):
        return f"unix_micros(cast({name} as timestamp))", "bigint"
    if kind == "date":
        return f"unix_date({name})", "int"
    if kind == "float":
        return f"cast({name} as double)", "double"
    return name, kind
