"""Which files a compaction takes, and into which bins they go. No Spark."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from support.tables import column, schema_string
from tidegate.commands.bins import Settings, batches, bins, candidates, keys, pack
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.log.actions import Add
from tidegate.log.columns import ADD_SCHEMA, to_batch
from tidegate.metadata import Metadata

PLAIN = Metadata(id="m", schema_string=schema_string(column("id"), column("day", "timestamp")))
BY_DAY = Metadata(id="m", schema_string=PLAIN.schema_string, partition_columns=("day",))


def _file(path: str, size: int = 10, rows: int | None = 100, deleted: int = 0, day: str | None = None) -> Add:
    vector = DeletionVector(storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=deleted)
    return Add(
        path=path,
        partition_values={} if day is None else {"day": day},
        size=size,
        modification_time=0,
        data_change=True,
        stats=None if rows is None else f'{{"numRecords":{rows}}}',
        deletion_vector=vector if deleted else None,
    )


def _table(*files: Add) -> pa.Table:
    return pa.Table.from_batches([to_batch(list(files), ADD_SCHEMA)], ADD_SCHEMA)


def _paths(found: pa.Table) -> list[str]:
    return sorted(found.column("path").to_pylist())


def test_small_files_and_files_with_many_deleted_rows_are_taken() -> None:
    files = _table(
        _file("small", 9),
        _file("big", 10),
        _file("some deleted", 10, deleted=5),
        _file("many deleted", 10, deleted=6),
        _file("who knows", 10, rows=None, deleted=1),
    )
    taken = candidates(files, Settings(min_file_size=10, max_deleted_ratio=0.05))
    assert _paths(taken) == ["many deleted", "small", "who knows"]


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 40))
def test_bins_hold_everything_once_in_order_and_never_too_much(sizes: list[int], most: int) -> None:
    packed = pack(sizes, most)
    assert [i for group in packed for i in group] == list(range(len(sizes)))
    for group in packed:
        assert len(group) == 1 or sum(sizes[i] for i in group) <= most
    for one, following in itertools.pairwise(packed):
        assert sum(sizes[i] for i in one) + sizes[following[0]] > most


def test_a_bin_of_one_file_is_not_worth_it_unless_every_file_is_wanted() -> None:
    files = _table(_file("a", 6), _file("b", 6), _file("c", 3), _file("d", 3))
    assert [_paths(b.files) for b in bins(files, PLAIN, 6)] == [["c", "d"]]
    assert [_paths(b.files) for b in bins(files, PLAIN, 6, single=True)] == [["c", "d"], ["a"], ["b"]]
    assert bins(files.slice(0, 0), PLAIN, 6) == []


def test_files_of_one_partition_meet_however_its_value_is_spelt() -> None:
    files = _table(
        _file("a", day="2026-01-01 00:00:00"),
        _file("b", day="2026-01-01T00:00:00.000000Z"),
        _file("c", day="2026-01-02T00:00:00.000000Z"),
        _file("d", day=""),
    )
    one, other, third, none = keys(files, BY_DAY)
    assert one == other
    assert len({one, third, none}) == 3
    assert [_paths(b.files) for b in bins(files, BY_DAY, 100)] == [["a", "b"]]


def test_batches_are_commits_of_a_size() -> None:
    found = bins(_table(*(_file(str(i), 5) for i in range(6))), PLAIN, 10)
    assert [len(b) for b in batches(found, None)] == [3]
    assert [len(b) for b in batches(found, 20)] == [2, 1]
    assert batches([], None) == []
