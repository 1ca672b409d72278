"""Drafts: nothing is seen before the file is whole, nothing is left where it never becomes so."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tidegate.errors import StorageError
from tidegate.storage import LocalStore, MemoryStore, Store
from tidegate.storage.drafts import drafting


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path / "table") if request.param == "local" else MemoryStore()


def names(store: Store) -> list[str]:
    return [info.name for info in store.list_from("", recursive=True)]


def on_disk(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def written(store: Store) -> None:
    with drafting(store, "log/a") as draft:
        draft.sink.write(b"new")


def failing(store: Store) -> None:
    """A draft that is given up after its first bytes."""
    with drafting(store, "log/a") as draft:
        draft.sink.write(b"new")
        draft.nudge()
        raise ValueError("no good")


def test_a_draft_is_seen_only_when_its_block_has_ended(store: Store) -> None:
    with drafting(store, "log/a") as draft:
        draft.sink.write(b"one ")
        draft.nudge()
        draft.sink.write(b"two")
        assert names(store) == []
        with draft.written() as data:
            assert data.read() == b"one two"
    assert names(store) == ["log/a"]
    assert store.get("log/a") == b"one two"


def test_a_draft_whose_block_fails_leaves_what_was_there(store: Store) -> None:
    store.put("log/a", b"old")
    with pytest.raises(ValueError, match="no good"):
        failing(store)
    assert (names(store), store.get("log/a")) == (["log/a"], b"old")


def test_a_draft_that_fails_leaves_no_file_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no good"):
        failing(LocalStore(tmp_path))
    assert on_disk(tmp_path) == []


def test_a_draft_that_takes_a_name_removes_the_checksum_of_the_old_bytes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"old")
    (tmp_path / ".a.crc").write_bytes(b"crc\0")
    with drafting(store, "a") as draft:
        draft.sink.write(b"new")
    assert on_disk(tmp_path) == ["a"]
    assert store.get("a") == b"new"


def test_the_bytes_of_a_draft_are_synced_before_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda *a, **k: (steps.append("name"), replace(*a, **k)))
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append("sync"), fsync(fd)))
    with drafting(LocalStore(tmp_path), "a") as draft:
        draft.sink.write(b"new")
    assert steps == ["sync", "name", "sync"]


def test_a_full_disk_is_a_storage_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = LocalStore(tmp_path)
    (tmp_path / "log").mkdir()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"'log/a' could not be written: No space left"):
        written(store)
    assert on_disk(tmp_path) == []
