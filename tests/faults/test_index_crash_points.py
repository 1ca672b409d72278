"""A crash at every change of storage while splits are written, merged, dropped or a companion is refreshed.

Whatever was under way, and whether the last change still took effect or not: the table answers as before or
as after, never in between, and the next attempt succeeds.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.splits import append_index, write_index
from tidegate.index.companion import build, refresh
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import merge_splits
from tidegate.index.tables import Searchable
from tidegate.storage import LocalStore, StoreDied

deltalake = pytest.importorskip("deltalake")
TEXT = {"indexing.typemap.s": "text"}
_CHANGES = ("put", "put_if_absent", "delete")


def rows(start: int) -> pa.Table:
    ids = list(range(start, start + 6))
    return pa.table({"id": ids, "p": ["ab"[i % 2] for i in ids], "s": [f"word{i} common" for i in ids]})


def _append(path: Path) -> None:
    append_index(path, rows(100), TEXT, ("p",))


def _overwrite(path: Path) -> None:
    append_index(path, rows(100), TEXT, ("p",), overwrite=True)


def _merge(path: Path) -> None:
    merge_splits(IndexLog.at(path), "10M")


def _drop(path: Path) -> None:
    IndexLog.at(path).drop_partitions("p = 'a'")


def _refresh(path: Path) -> None:
    refresh(IndexLog.at(path / "_search_index"))


def seen(path: Path) -> list[int]:
    """What a search finds, by words and by values, which must agree."""
    where = path / "_search_index" if (path / "_search_index").exists() else path
    table = Searchable.open(where)
    found = sorted(table.search("common", ["id"]).table().column("id").to_pylist())
    assert table.count("id:>=0") == table.count("common") == len(found)
    return found


class Crash:
    """Dies at the n-th change, before or after it took effect, and stays dead."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, when: str) -> None:
        self.left, self.when, self.dead = number, when, False
        for name in _CHANGES:
            patch.setattr(LocalStore, name, self._wrapped(getattr(LocalStore, name)))

    def _wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def change(store: LocalStore, *args: Any, **more: Any) -> Any:
            if self.dead:
                raise StoreDied
            self.left -= 1
            if self.left < 0:
                self.dead = True
                if self.when == "after":
                    original(store, *args, **more)
                raise StoreDied
            return original(store, *args, **more)

        return change


@pytest.mark.parametrize("act", [_append, _overwrite, _merge, _drop, _refresh], ids=lambda f: f.__name__[1:])
def test_a_crash_leaves_the_table_as_it_was_or_as_it_shall_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    base = tmp_path / "base"
    if act is _refresh:
        deltalake.write_deltalake(str(base), rows(0), partition_by=["p"])
        build(str(base), None, ["id", "s"], TEXT)
        deltalake.write_deltalake(str(base), rows(100), mode="append")
    else:
        write_index(base, [rows(0), rows(10)], TEXT, ("p",))
    # The source's path is in the companion's metadata, so every attempt happens at one place.
    place, kept = tmp_path / "place", tmp_path / "kept"
    base.rename(kept)
    outcomes = set()
    before = after = None
    for number, when in itertools.product(range(20), ("before", "after")):
        where = base if act is _refresh else place
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(kept, where)
        before = before or seen(where)
        if after is None:
            act(where)
            after = seen(where)
            shutil.rmtree(where)
            shutil.copytree(kept, where)
        with monkeypatch.context() as patch:
            crash = Crash(patch, number, when)
            with contextlib.suppress(StoreDied):
                act(where)
        found = seen(where)
        assert found in (before, after)
        outcomes.add(found == after)
        if not crash.dead:
            break
        if found == before and act is not _refresh:
            act(where)
            assert seen(where) == after
    assert not crash.dead
    assert outcomes >= {True}
