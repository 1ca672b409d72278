"""A companion that several refresh, merge and search at once: each file is found once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.index.companion import build, refresh
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import merge_splits
from tidegate.index.tables import Searchable
from tidegate.log.verify import verify

deltalake = pytest.importorskip("deltalake")
TEXT = {"indexing.typemap.s": "text"}


def rows(start: int) -> pa.Table:
    ids = list(range(start, start + 5))
    return pa.table({"id": ids, "s": [f"word{i} common" for i in ids]})


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    path = str(tmp_path / "delta")
    deltalake.write_deltalake(path, rows(0))
    return path


def beaten(monkeypatch: pytest.MonkeyPatch, winner: Callable[[], Any]) -> None:
    """Before the next replacement of splits is committed, ``winner`` commits."""
    original = IndexLog.replace

    def replace(log: IndexLog, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(IndexLog, "replace", original)
        winner()
        return original(log, *args, **kwargs)

    monkeypatch.setattr(IndexLog, "replace", replace)


def assert_exact(index: str, count: int) -> None:
    found = Searchable.open(index)
    assert sorted(found.search("common", ["id"]).table().column("id").to_pylist()) == list(range(count))
    assert (found.count("common"), found.count()) == (count, count)
    assert verify(IndexLog.at(index).log, data=False).ok


@pytest.mark.parametrize("compacted", [False, True])
def test_two_refreshes_at_once_index_each_file_once(
    source: str, monkeypatch: pytest.MonkeyPatch, compacted: bool
) -> None:
    index = build(source, None, ["id", "s"], TEXT)
    deltalake.write_deltalake(source, rows(5), mode="append")
    if compacted:
        deltalake.DeltaTable(source).optimize.compact()
    beaten(monkeypatch, lambda: refresh(IndexLog.at(index)))
    done = refresh(IndexLog.at(index))
    assert (done.splits_created, done.splits_removed) == (0, 0), "the other one had done it all"
    covered = [
        f
        for files in IndexLog.at(index).snapshot().files().column("companionSourceFiles").to_pylist()
        for f in files
    ]
    assert len(covered) == len(set(covered)) == (1 if compacted else 2)
    assert_exact(index, 10)


def test_a_refresh_goes_on_after_a_merge_of_the_splits_that_it_was_to_remove(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build(source, None, ["id", "s"], TEXT)
    deltalake.write_deltalake(source, rows(5), mode="append")
    refresh(IndexLog.at(index))
    deltalake.DeltaTable(source).optimize.compact()
    beaten(monkeypatch, lambda: merge_splits(IndexLog.at(index), "10M"))
    done = refresh(IndexLog.at(index))
    assert (done.splits_created, done.splits_removed) == (1, 1)
    assert_exact(index, 10)
