"""Z-order as arithmetic: the ranges of a sample, and the interleaving of bits. No Spark session."""

from __future__ import annotations

import bisect

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from tidegate.commands.zorder import bits_for, boundaries, interleave


@pytest.mark.parametrize(
    ("ids", "bits", "z"),
    [((0b11, 0b00), 2, 0b1010), ((0b00, 0b11), 2, 0b0101), ((0b10, 0b01), 2, 0b1001), ((5,), 3, 5)],
)
def test_bits_come_from_one_column_after_the_other(ids: tuple[int, ...], bits: int, z: int) -> None:
    assert interleave(ids, bits) == z


@given(st.lists(st.integers(0, 1023), min_size=1, max_size=6))
def test_no_bit_is_lost(ids: list[int]) -> None:
    z = interleave(ids, 10)
    back = [
        sum(((z >> (bit * len(ids) + len(ids) - 1 - at)) & 1) << bit for bit in range(10))
        for at in range(len(ids))
    ]
    assert back == ids


@given(st.lists(st.integers(0, 1023), min_size=2, max_size=2), st.integers(1, 1023))
def test_the_curve_never_falls_along_a_column(ids: list[int], more: int) -> None:
    further = min(1023, ids[0] + more)
    assert interleave([further, ids[1]], 10) >= interleave(ids, 10)


@pytest.mark.parametrize("columns", [1, 2, 4, 6, 7, 20, 62])
def test_all_bits_fit_into_a_long(columns: int) -> None:
    assert 1 <= bits_for(columns) <= 10
    assert bits_for(columns) * columns <= 62


@given(st.lists(st.one_of(st.none(), st.integers(-50, 50)), max_size=200), st.sampled_from([2, 8, 64]))
def test_boundaries_ascend_and_are_values_of_the_sample(values: list[int | None], ranges: int) -> None:
    cuts = boundaries(pa.array(values, pa.int64()), ranges)
    assert cuts == sorted(set(cuts))
    assert len(cuts) < ranges
    assert set(cuts) <= set(values)


def test_ranges_have_equal_weight() -> None:
    cuts = boundaries(pa.array(range(1000)), 8)
    counts = [0] * 8
    for value in range(1000):
        counts[bisect.bisect_right(cuts, value)] += 1
    assert max(counts) - min(counts) <= 1


def test_what_has_no_place_in_an_order_is_left_out() -> None:
    assert boundaries(pa.array([None, float("nan"), 1.0, 2.0]), 2) == [2.0]
    assert boundaries(pa.array([], pa.string()), 8) == []
