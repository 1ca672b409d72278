"""Multi-part checkpoints: a session's part size, rows by their paths, and what two writers leave together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tables import RawTable, add, features, remove, seen, stats, txn
from tidegate.log.checkpoint.parts import number_of_parts, part_of, split
from tidegate.log.checkpoint.write import Written, write_checkpoint
from tidegate.log.names import Kind
from tidegate.log.settings import Settings
from tidegate.log.snapshot import Snapshot, load

FILES = 23


def made(protocol: Any = None) -> RawTable:
    table = RawTable()
    adds = [add(f"part-{n:03}-of-this.parquet", n, stats=stats(n + 1, n, n)) for n in range(FILES)]
    table.create(*adds, **({} if protocol is None else {"protocol": protocol}))
    gone = [remove(f"part-{n:03}-of-this.parquet", n, time=table.clock()) for n in range(0, FILES, 5)]
    table.commit(*gone, txn("app", 1))
    return table


def told(table: RawTable, said: Settings) -> Snapshot:
    """The table as a session opens it that says these settings."""
    return load(replace(table.log, settings=lambda: said))


def checkpoint(table: RawTable, size: int | None) -> Written:
    return write_checkpoint(told(table, Settings(part_size=size)), policy="classic")


def without_commits(table: RawTable) -> RawTable:
    table.delete_commits(table.load().version + 1)
    table.delete(*(n for n in table.names() if n.endswith(".crc")))
    return table


@pytest.mark.parametrize("size", [1, 3, 10, FILES - 1])
def test_a_part_size_makes_parts_that_hold_the_whole_table(size: int) -> None:
    table = made()
    expected = table.state()
    written = checkpoint(table, size)
    parts = -(-FILES // size)
    assert written.checkpoint.kind is Kind.PART
    assert [f.name.part for f in written.checkpoint.files] == list(range(1, parts + 1))
    assert written.hint.parts == parts
    assert seen(without_commits(table).load()) == expected


def test_few_actions_make_one_file_and_so_does_a_session_that_says_nothing() -> None:
    for size in (FILES, None):
        assert checkpoint(made(), size).checkpoint.kind is Kind.CLASSIC


def test_a_table_with_the_feature_of_sidecars_gets_no_parts() -> None:
    table = made(features("v2Checkpoint"))
    assert checkpoint(table, 3).checkpoint.kind is Kind.CLASSIC


def test_the_next_commits_and_checkpoints_stand_on_the_parts() -> None:
    table = made()
    snapshot = told(table, Settings(part_size=4))
    write_checkpoint(snapshot, policy="classic")
    table.commit(add("late.parquet", 1, stats=stats(1, 1, 1)))
    assert seen(snapshot.update()) == table.state()
    checkpoint(table, 7)
    assert seen(without_commits(table).load()) == table.state()


def test_parts_of_two_writers_of_one_version_make_one_whole() -> None:
    """One has read every commit, the other stands on a checkpoint: they meet the files in another order."""
    first, second = made(), made()
    checkpoint(second, None)
    for table in (first, second):
        table.commit(*(add(f"more-{n}.parquet", n, stats=stats(1, n, n)) for n in range(9)))
        checkpoint(table, 6)
    expected = first.state()
    names = sorted(n for n in first.names() if ".checkpoint.00000" in n and n.startswith(f"{2:020}"))
    assert len(names) > 2
    for name in names[::2]:
        first.put(name, second.bytes(name))
    assert seen(without_commits(first).load()) == expected


@given(st.lists(st.text(max_size=12), max_size=40), st.integers(1, 9), st.integers(0, 5))
def test_a_path_has_one_part_wherever_it_stands(paths: list[str], parts: int, skipped: int) -> None:
    together = part_of(pa.array(paths, pa.string())[skipped:], parts)
    alone = [int(part_of(pa.array([p], pa.string()), parts)[0]) for p in paths[skipped:]]
    assert together.tolist() == alone
    assert all(0 <= p < parts for p in alone)
    rows = pa.StructArray.from_arrays([pa.array(paths, pa.string())], ["path"])
    back = [r["path"] for _, own in split(rows, parts) for r in own.to_pylist()]
    assert sorted(back) == sorted(paths)


def test_names_that_differ_in_little_spread_over_the_parts() -> None:
    paths = [f"p=1/part-{n:05}-0d6e7a52-c000.snappy.parquet" for n in range(8_000)]
    counts = [0] * 8
    for part in part_of(pa.array(paths), 8).tolist():
        counts[part] += 1
    assert all(700 < count < 1_300 for count in counts)


@pytest.mark.parametrize(
    ("actions", "size", "parts"), [(0, 5, 1), (5, 5, 1), (6, 5, 2), (11, 5, 3), (10**9, None, 1)]
)
def test_how_many_parts(actions: int, size: int | None, parts: int) -> None:
    assert number_of_parts(actions, size) == parts


def test_sidecars_and_the_top_level_follow_the_session() -> None:
    table = made(features("v2Checkpoint"))
    expected = table.state()
    written = write_checkpoint(told(table, Settings(part_size=5, top_level="parquet")), policy="v2")
    assert written.checkpoint.files[0].name.extension == "parquet"
    assert len([n for n in table.names() if "_sidecars/" in n]) == -(-FILES // 5)
    assert seen(without_commits(table).load()) == expected


def test_the_hint_goes_without_its_checksum_where_the_session_wants_none() -> None:
    table = made()
    write_checkpoint(told(table, Settings(hint_checksum=False)))
    assert b"checksum" not in table.bytes("_last_checkpoint")
    assert load(table.log).segment.base_version == 1
