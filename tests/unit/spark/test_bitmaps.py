"""Deleted rows as bits: whatever kind of container a bitmap has, each row has its bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tidegate.files.deletion_vectors import decode, encode
from tidegate.spark.scan.bitmaps import BITS, packed


def _rows(bits: bytes) -> list[int]:
    return [BITS * i + j for i, byte in enumerate(bits) for j in range(BITS) if byte >> j & 1]


def _check(rows: BitMap64) -> None:
    bits = packed(rows)
    assert all(byte < 128 for byte in bits)
    assert _rows(bits) == list(rows)
    assert len(bits) == (rows.max() // BITS + 1 if rows else 0)


@given(
    st.sets(st.integers(0, 300_000), max_size=60),
    st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 9000)), max_size=3),
    st.booleans(),
)
def test_each_row_has_its_bit(rows: set[int], runs: list[tuple[int, int]], as_stored: bool) -> None:
    bitmap = BitMap64(rows)
    for start, length in runs:
        bitmap.add_range(start, start + length)
    # Vectors come from files run-optimized, from commands as they were made.
    _check(decode(encode(bitmap)) if as_stored else bitmap)


@pytest.mark.parametrize(
    "rows",
    [
        BitMap64(),
        BitMap64([0]),
        BitMap64([6, 7, 65_535, 65_536]),
        BitMap64(range(0, 400_000, 2)),
        BitMap64(range(400_000)),
    ],
)
def test_lists_bitmaps_and_runs(rows: BitMap64) -> None:
    _check(rows)
    rows.run_optimize()
    _check(rows)


def test_ten_million_rows_stay_small() -> None:
    bits = packed(BitMap64(np.arange(0, 20_000_000, 2, dtype=np.uint64)))
    assert len(bits) == 19_999_998 // BITS + 1
    assert np.unpackbits(np.frombuffer(bits, np.uint8)).sum() == 10_000_000
