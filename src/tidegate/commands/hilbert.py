"""The Hilbert curve, along which the rows of clustered tables come to lie.

It goes through every cell of a grid in single steps and never jumps, as the Z-order curve does between its
quarters; so a stretch of it covers a smaller box, and filters skip more files. The curve is a machine: from
the highest bits of the range numbers down, each level's bits and the state give the next digit of the place
on the curve and the next state. The machine is one array, and walking it an ordinary expression of Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.commands import zorder
from tidegate.schema.paths import Path

# With more columns than that the machine has tens of thousands of entries.
MOST_COLUMNS = 5


def curve(columns: Sequence[Path]) -> str:
    """The name of the curve that goes through so many columns."""
    return "hilbert" if len(columns) <= MOST_COLUMNS else "zorder"


def ordered(frame: DataFrame, columns: Sequence[Path], files: int, rows: int | None) -> DataFrame:
    """``frame`` cut into about ``files`` partitions along the curve; one column is its own curve."""
    along = placed if 1 < len(columns) <= MOST_COLUMNS else zorder.interleaved
    return zorder.ordered(frame, columns, files, rows, along=along)


@dataclass(frozen=True)
class Machine:
    """What a state makes of a cell: ``entries[state << columns | cell]`` is ``digit << width | state``."""

    columns: int
    width: int
    entries: tuple[int, ...]


@lru_cache
def machine(columns: int) -> Machine:
    """The curve through so many columns; a state is the corner it enters by and the way it leaves."""
    cells = 1 << columns
    width = (columns * cells - 1).bit_length()
    entries = []
    for state in range(1 << width):
        corner, way = state % cells, state // cells % columns
        for cell in range(cells):
            digit = _ungray(_rotated(cell ^ corner, -way - 1, columns))
            entry = 0 if digit == 0 else _gray((digit - 1) // 2 * 2)
            turn = 0 if digit == 0 else _trailing_ones(digit - 1 if digit % 2 == 0 else digit) % columns
            corner_then = corner ^ _rotated(entry, way + 1, columns)
            way_then = (way + turn + 1) % columns
            entries.append(digit << width | way_then * cells + corner_then)
    return Machine(columns, width, tuple(entries))


def place(ids: Sequence[int], bits: int) -> int:
    """Where on the curve the cell with these range numbers lies."""
    found = machine(len(ids))
    state = out = 0
    for bit in reversed(range(bits)):
        cell = sum((value >> bit & 1) << at for at, value in enumerate(reversed(ids)))
        entry = found.entries[state << found.columns | cell]
        out = out << found.columns | entry >> found.width
        state = entry & (1 << found.width) - 1
    return out


def placed(ids: Sequence[str], bits: int) -> Column:
    """``place`` as a column, of columns by their names."""
    found = machine(len(ids))
    cells = [
        " | ".join(
            f"shiftleft(shiftright({value}, {bit}) & 1L, {at})" for at, value in enumerate(reversed(ids))
        )
        for bit in reversed(range(bits))
    ]
    # What has been found so far, above the state.
    entry = f"array({', '.join(f'{e}L' for e in found.entries)})"
    state = f"shiftleft(seen & {(1 << found.width) - 1}L, {found.columns})"
    step = (
        f"shiftleft(shiftright(seen, {found.width}), {found.columns + found.width}) "
        f"| {entry}[cast({state} | cell as int)]"
    )
    walk = f"aggregate(array({', '.join(cells)}), 0L, (seen, cell) -> {step})"
    return F.expr(f"shiftright({walk}, {found.width})")


def _gray(value: int) -> int:
    return value ^ value >> 1


def _ungray(value: int) -> int:
    out = 0
    while value:
        out ^= value
        value >>= 1
    return out


def _rotated(value: int, by: int, bits: int) -> int:
    """The lowest ``bits`` turned to the left."""
    by %= bits
    return (value << by | value >> bits - by) & (1 << bits) - 1


def _trailing_ones(value: int) -> int:
    return (~value & value + 1).bit_length() - 1
