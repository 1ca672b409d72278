"""Splits as files: their footer, damage, the local cache, merging, and what a task leaves behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from support.splits import write_index
from tidegate.errors import (
    DataFileCorruptError,
    DataFileMissingError,
    DeltaConcurrentModificationException,
    OptionError,
    ValueNotIndexableError,
)
from tidegate.index.cache import SplitCache, SplitFile, shared_cache
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import Limits, merge_splits
from tidegate.index.rows import ROWS
from tidegate.index.search import targets_of
from tidegate.index.split import read_footer
from tidegate.index.tables import Searchable
from tidegate.storage import open_store

OPTIONS = {"indexing.typemap.s": "text"}


def rows(start: int, count: int, part: str = "a") -> pa.Table:
    ids = list(range(start, start + count))
    return pa.table({"id": ids, "s": [f"word{i} common" for i in ids], "p": [part] * count})


def splits(table: Searchable) -> list[SplitFile]:
    return [t.split for t in targets_of(table.scope, table.files()) if t.split is not None]


def test_the_add_says_where_the_footer_is(tmp_path: Path) -> None:
    table = write_index(tmp_path / "t", [rows(0, 3000)], OPTIONS)
    (split,) = splits(table)
    store = open_store(tmp_path / "t")
    direct = read_footer(store, split.path, split.size, split.footer_start, split.footer_end)
    assert direct == read_footer(store, split.path)
    assert direct.rows == 3000
    assert ROWS in direct.members
    assert split.footer_end == split.size == (tmp_path / "t" / split.path).stat().st_size


def test_rows_are_read_by_blocks_wherever_hits_lie(tmp_path: Path) -> None:
    table = write_index(tmp_path / "t", [rows(0, 5000)], OPTIONS)
    wanted = [0, 1023, 1024, 2500, 4999]
    found = table.search(f"id:IN [{' '.join(map(str, wanted))}]").table()
    assert found.column("id").to_pylist() == wanted
    assert found.column("s").to_pylist() == [f"word{i} common" for i in wanted]
    assert table.search("common", limit=7).table().num_rows == 7


@pytest.mark.parametrize("at", ["front", "middle", "tail", "cut"])
def test_a_damaged_split_is_an_error_and_never_a_wrong_result(tmp_path: Path, at: str) -> None:
    table = write_index(tmp_path / "t", [rows(0, 2000)], OPTIONS)
    file = tmp_path / "t" / splits(table)[0].path
    data = bytearray(file.read_bytes())
    if at == "cut":
        data = data[:-100]
    else:
        place = {"front": 10, "middle": len(data) // 2, "tail": len(data) - 40}[at]
        data[place] ^= 0xFF
    file.write_bytes(bytes(data))
    with pytest.raises(DataFileCorruptError):
        table.search("word5").table()


def test_a_missing_split_is_an_error(tmp_path: Path) -> None:
    table = write_index(tmp_path / "t", [rows(0, 10)], OPTIONS)
    (tmp_path / "t" / splits(table)[0].path).unlink()
    with pytest.raises(DataFileMissingError):
        table.count("word5")


def test_an_unpacked_split_is_used_again_and_the_oldest_go_first(tmp_path: Path) -> None:
    table = write_index(tmp_path / "t", [rows(0, 500), rows(500, 500)], OPTIONS)
    first, second = splits(table)
    store = open_store(tmp_path / "t")
    cache = SplitCache(tmp_path / "small", budget=first.size + 1000)
    cache.open(first, store)
    assert cache.has(first)
    assert SplitCache(tmp_path / "small").has(first)
    cache.forget()
    cache.open(second, store)
    cache.forget()
    assert (cache.has(first), cache.has(second)) == (False, True)


def test_statistics_leave_splits_out(tmp_path: Path) -> None:
    table = write_index(tmp_path / "t", [rows(0, 100), rows(100, 100)], OPTIONS)
    assert len(table.targets(table.node("id:150"))) == 1
    assert len(table.targets(table.node("common"))) == 2
    assert len(table.targets(table.node("id:900"))) == 0
    assert table.count("id:150") == 1


def test_merged_splits_answer_as_their_sources_did(tmp_path: Path) -> None:
    parts = [rows(i * 700, 700, "ab"[i % 2]) for i in range(10)]
    before = write_index(tmp_path / "t", parts, OPTIONS, ("p",))
    expected = before.search().table().sort_by("id")
    done = merge_splits(IndexLog.at(tmp_path / "t"), "100M")
    after = Searchable.open(tmp_path / "t")
    assert (done.merged, done.created) == (10, 2)
    assert after.files().num_rows == 2
    assert after.search().table().sort_by("id").equals(expected)
    assert after.count("common") == 7000
    assert after.search("word1401", ["id"]).table().column("id").to_pylist() == [1401]
    assert after.search("common AND id:[690 TO 710]", ["id"]).table().sort_by("id").column(
        "id"
    ).to_pylist() == list(range(690, 711))
    assert after.search("common", ["id"], 3).table().num_rows == 3
    assert len(after.targets(after.node("id:7000"))) == 0
    assert before.count("word1401") == 1
    again = merge_splits(IndexLog.at(tmp_path / "t"), "100M")
    assert (again.version, again.merged) == (done.version, 0)


def test_a_merge_keeps_to_partitions_sizes_and_dry_runs(tmp_path: Path) -> None:
    parts = [rows(i * 10, 10, "ab"[i % 2]) for i in range(6)]
    write_index(tmp_path / "t", parts, OPTIONS, ("p",))
    log = IndexLog.at(tmp_path / "t")
    planned = merge_splits(log, "100M", dry_run=True)
    assert (planned.merged, planned.created, planned.version) == (6, 0, 5)
    assert merge_splits(log, "100M", "p = 'a'").merged == 3
    with pytest.raises(OptionError, match="partition columns"):
        merge_splits(log, "100M", "id < 5")
    with pytest.raises(OptionError, match="1M at least"):
        merge_splits(log, "10")


def test_an_unreadable_source_is_skipped_and_stays_in_the_table(tmp_path: Path) -> None:
    table = write_index(tmp_path / "t", [rows(i * 10, 10) for i in range(3)], OPTIONS)
    bad = splits(table)[0].path
    (tmp_path / "t" / bad).write_bytes(b"nothing")
    log = IndexLog.at(tmp_path / "t")
    done = merge_splits(log, "100M")
    assert (done.merged, done.skipped) == (2, (bad,))
    after = log.snapshot()
    assert after.skips[bad].operation == "merge"
    assert bad in after.files(columns=["path"]).column("path").to_pylist()
    with pytest.raises(DataFileCorruptError):
        Searchable.open(tmp_path / "t").count("common")


def test_a_merge_loses_to_whoever_removed_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_index(tmp_path / "t", [rows(i * 10, 10) for i in range(3)], OPTIONS)
    log, other = IndexLog.at(tmp_path / "t"), IndexLog.at(tmp_path / "t")
    replace = log.replace

    def late(*args: object, **more: object) -> object:
        other.overwrite(other.snapshot().files().slice(0, 0))
        return replace(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(log, "replace", late)
    with pytest.raises(DeltaConcurrentModificationException):
        merge_splits(log, "100M")
    assert other.snapshot().num_files == 0


def test_a_task_that_fails_leaves_nothing_in_the_log(tmp_path: Path) -> None:
    good, bad = pa.table({"a": ["10.0.0.1"]}), pa.table({"a": ["10.0.0.2", "x"]})
    with pytest.raises(ValueNotIndexableError):
        write_index(tmp_path / "t", [good, bad], {"indexing.typemap.a": "ip"})
    assert IndexLog.at(tmp_path / "t").snapshot().version == 0
    assert Searchable.open(tmp_path / "t").count() == 1


def test_aggregates_are_exact_beyond_doubles_and_name_what_does_not_fit(tmp_path: Path) -> None:
    big = 2**53
    table = write_index(
        tmp_path / "t",
        [pa.table({"k": ["a", "a", None], "n": [big, 1, 5]}), pa.table({"k": ["a", "b"], "n": [None, -7]})],
    )
    found = table.aggregate(None, ["k"], ["count", "count(n)", "sum(n)", "min(n)", "max(n)"]).to_pylist()
    assert found == [
        {"k": "a", "count": 3, "count(n)": 2, "sum(n)": big + 1, "min(n)": 1, "max(n)": big},
        {"k": "b", "count": 1, "count(n)": 1, "sum(n)": -7, "min(n)": -7, "max(n)": -7},
        {"k": None, "count": 1, "count(n)": 1, "sum(n)": 5, "min(n)": 5, "max(n)": 5},
    ]
    assert table.aggregate("k:a AND n:1", (), {"rows": "count", "mean": "avg(n)"}).to_pylist() == [
        {"rows": 1, "mean": 1.0}
    ]
    assert table.aggregate("k:none", (), ["count", "sum(n)"]).to_pylist() == [{"count": 0, "sum(n)": None}]


def test_the_cache_may_vanish_while_splits_are_open(tmp_path: Path, cache_dir: Path) -> None:
    table = write_index(tmp_path / "t", [rows(0, 100)], OPTIONS)
    assert table.count("common") == 100
    shutil.rmtree(cache_dir)
    assert table.count("word7") == 1
    shared_cache().forget()
    assert pc.sum(table.search("common", ["id"]).table().column("id")).as_py() == sum(range(100))


def test_the_cache_is_its_owner_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "mine"))
    write_index(tmp_path / "t", [pa.table({"id": [1]})]).search("id:1").table()
    assert (tmp_path / "mine").stat().st_mode & 0o077 == 0


def test_a_merge_keeps_to_its_limits(tmp_path: Path) -> None:
    parts = [rows(i * 10, 10, "aab"[i % 3]) for i in range(9)]
    write_index(tmp_path / "t", parts, OPTIONS, ("p",))
    log = IndexLog.at(tmp_path / "t")
    for limits in (Limits(most_made=0), Limits(most_sources=1)):
        with pytest.raises(OptionError, match="at least"):
            merge_splits(log, limits=limits)
    planned = merge_splits(log, limits=Limits(most_sources=2), dry_run=True)
    assert (planned.groups, planned.merged) == (4, 8)
    largest = merge_splits(log, limits=Limits(most_made=1))
    assert (largest.created, largest.merged) == (1, 6)
    assert Searchable.open(tmp_path / "t").count("common") == 90
