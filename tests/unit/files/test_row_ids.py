"""Row tracking: fresh ids above the mark, and ids that move when another writer won."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import CommitRefusedError, LogError
from tidegate.files import row_ids

COUNTS = st.lists(st.integers(0, 10**9), max_size=30)
MARKS = st.none() | st.integers(-1, 10**12)


@given(COUNTS, MARKS)
def test_fresh_ids_are_above_the_mark_and_never_shared(counts: list[int], mark: int | None) -> None:
    out = row_ids.assign(counts, mark)
    taken = -1 if mark is None else mark
    for base, count in zip(out.base_row_ids.to_pylist(), counts, strict=True):
        assert base == taken + 1
        taken += count
    assert out.high_water_mark == taken


def test_a_new_table_counts_from_zero() -> None:
    out = row_ids.assign(pa.array([3, 2]), None)
    assert out.base_row_ids.to_pylist() == [0, 3]
    assert out.high_water_mark == 4


def test_no_files_leave_the_mark_where_it_is() -> None:
    assert row_ids.assign([], 41).high_water_mark == 41


def test_a_file_without_its_number_of_rows_is_refused() -> None:
    with pytest.raises(CommitRefusedError, match="number of rows"):
        row_ids.assign([3, None], 0)


def test_ids_that_would_overflow_are_refused() -> None:
    with pytest.raises(CommitRefusedError, match="no row ids left"):
        row_ids.assign([2**62, 2**62], 2**62)


@given(COUNTS, COUNTS, MARKS)
def test_a_loser_moves_behind_the_winner(ours: list[int], theirs: list[int], read: int | None) -> None:
    mine = row_ids.assign(ours, read)
    winner = row_ids.assign(theirs, read)
    moved = row_ids.rebase(mine.base_row_ids, read, winner.high_water_mark)
    mark = row_ids.rebase_mark(mine.high_water_mark, read, winner.high_water_mark)
    again = row_ids.assign(ours, winner.high_water_mark)
    assert moved.equals(again.base_row_ids)
    assert mark == again.high_water_mark


def test_ids_of_files_that_are_carried_along_stay() -> None:
    moved = row_ids.rebase(pa.array([4, 10, None]), own_read_mark=9, winner_mark=19)
    assert moved.to_pylist() == [4, 20, None]


def test_a_winner_that_gave_out_no_ids_moves_nothing() -> None:
    ids = pa.array([10, 12])
    assert row_ids.rebase(ids, 9, 9) is ids
    assert row_ids.rebase_mark(13, 9, None) == 13


def test_commit_versions_are_kept_where_a_file_has_one() -> None:
    assert row_ids.fill_commit_versions(pa.array([3, None]), 7).to_pylist() == [3, 7]


@given(st.integers(-1, 2**63 - 1))
def test_the_mark_comes_back_from_its_domain(mark: int) -> None:
    assert row_ids.decode_mark(row_ids.encode_mark(mark)) == mark


@pytest.mark.parametrize("text", ["", "{}", '{"rowIdHighWaterMark":"x"}', '{"rowIdHighWaterMark":1e30}'])
def test_a_domain_without_a_mark_is_refused(text: str) -> None:
    with pytest.raises(LogError, match=r"delta\.rowTracking"):
        row_ids.decode_mark(text)
