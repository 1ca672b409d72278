"""The Hilbert curve as arithmetic: every cell once, in single steps. No Spark session."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from tidegate.commands.hilbert import MOST_COLUMNS, curve, machine, place
from tidegate.commands.zorder import bits_for, interleave

GRIDS = [(2, 1), (2, 2), (2, 5), (3, 1), (3, 3), (4, 2), (5, 2)]


@pytest.mark.parametrize(("columns", "bits"), GRIDS)
def test_the_curve_goes_through_every_cell_and_never_jumps(columns: int, bits: int) -> None:
    cells = list(product(range(1 << bits), repeat=columns))
    way = sorted(cells, key=lambda cell: place(cell, bits))
    assert [place(cell, bits) for cell in way] == list(range(len(cells)))
    assert all(sum(abs(a - b) for a, b in zip(one, next_, strict=True)) == 1 for one, next_ in pairwise(way))


@given(st.integers(2, MOST_COLUMNS).flatmap(lambda n: st.lists(st.integers(0, 1023), min_size=n, max_size=n)))
def test_cells_of_a_coarser_grid_are_stretches_of_the_finer_one(ids: list[int]) -> None:
    assert place(ids, 10) >> len(ids) == place([i >> 1 for i in ids], 9)
    assert place(ids, 10) < 1 << 10 * len(ids)


@pytest.mark.parametrize("columns", range(2, MOST_COLUMNS + 1))
def test_what_the_walk_carries_fits_into_a_long(columns: int) -> None:
    assert bits_for(columns) * columns + machine(columns).width < 63


def test_a_stretch_of_the_curve_covers_a_smaller_box_than_one_of_z_order() -> None:
    cells = list(product(range(32), repeat=2))

    def extent(by: Callable[[tuple[int, ...]], int]) -> int:
        way = sorted(cells, key=by)
        boxes = [way[at : at + 100] for at in range(0, len(way), 100)]
        return sum(max(c) - min(c) + 1 for box in boxes for c in zip(*box, strict=True))

    assert extent(lambda cell: place(cell, 5)) < 0.85 * extent(lambda cell: interleave(cell, 5))


def test_many_columns_are_left_to_z_order() -> None:
    assert curve([("a",)] * MOST_COLUMNS) == "hilbert"
    assert curve([("a",)] * (MOST_COLUMNS + 1)) == "zorder"
