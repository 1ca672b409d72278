"""Local disks: what a crash leaves, file systems that lack something, and Hadoop's checksum files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import FileMissingError, NameTakenError, StorageError
from tidegate.storage import LocalStore, local, rename
from tidegate.storage.disk import TEMP_PREFIX

linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks at descriptors in /proc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture(params=["nameless", "named"])
def store(request: pytest.FixtureRequest, root: Path) -> LocalStore:
    made = LocalStore(root)
    made._nameless = made._nameless and request.param == "nameless"
    return made


def on_disk(root: Path) -> list[str]:
    """Every file below, hidden and temporary ones too."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def refusing(code: int) -> Callable[..., None]:
    def call(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    return call


# ---------------------------------------------------------------------------- durability


def test_bytes_are_synced_before_their_name_and_the_name_before_the_return(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("log/first", b"")
    steps: list[str] = []

    def spy(name: str, describe: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            steps.append(describe(*args))
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    spy("write", lambda *_: "write")
    spy("fsync", lambda fd: "sync directory" if os.path.isdir(fd) else "sync file")
    spy("link", lambda *_: "publish")
    spy("replace", lambda *_: "publish")
    expected = ["write", "sync file", "publish", "sync directory"]
    store.put_if_absent("log/created", b"x")
    assert steps == expected
    steps.clear()
    store.put("log/replaced", b"x")
    assert steps == expected


@linux
def test_directories_are_made_and_each_parent_is_synced(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    LocalStore(root).put_if_absent("a/b/file", b"x")
    assert [path for path in synced if os.path.isdir(path)] == [
        str(tmp_path), str(root), str(root / "a"), str(root / "a" / "b"),
    ]  # fmt: skip


@pytest.mark.parametrize("step", ["write", "fsync", "link", "replace"])
def test_a_step_that_fails_leaves_no_name_and_no_litter(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store.put("old", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, step, refusing(errno.ENOSPC))
        if step != "replace":
            with pytest.raises(StorageError, match="No space left"):
                store.put_if_absent("new", b"new")
        if step != "link":
            with pytest.raises(StorageError, match="No space left"):
                store.put("old", b"newer")
    assert on_disk(root) == ["old"]
    assert store.get("old") == b"old"
    store.put_if_absent("new", b"new")


def test_a_write_that_takes_part_of_the_bytes_is_continued(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data[:3])))
    store.put_if_absent("a", b"0123456789")
    store.put("b", b"0123456789")
    assert store.get("a") == store.get("b") == b"0123456789"


def test_a_directory_sync_that_fails_says_that_the_file_is_there(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("first", b"")
    with monkeypatch.context() as patch:
        patch.setattr(local, "sync_directory", refusing(errno.EIO))
        with pytest.raises(StorageError, match="is written, but"):
            store.put_if_absent("a", b"x")
    assert store.get("a") == b"x"


def test_a_file_system_that_syncs_no_directories_is_served(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(fd: int) -> None:
        if os.path.isdir(fd):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    store.put_if_absent("a/b", b"x")
    assert store.get("a/b") == b"x"


@linux
def test_no_descriptor_stays_open(store: LocalStore) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    store.put_if_absent("log/a", b"x")
    before = descriptors()
    for number in range(20):
        store.put("log/b", b"x")
        store.put_if_absent(f"log/{number}", b"x")
        with pytest.raises(NameTakenError):
            store.put_if_absent("log/a", b"x")
        with pytest.raises(FileMissingError):
            store.open_input("log/missing")
        next(store.list_from("log"))
        store.open_input("log/a").close()
    store.delete(f"log/{number}" for number in range(20))
    assert descriptors() == before


# ---------------------------------------------------------------------------- what a file system may lack


@pytest.mark.parametrize(
    "code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.ENOSYS]
)
def test_without_hard_links_a_rename_keeps_put_if_absent_exclusive(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "link", refusing(code))
    store.put_if_absent("log/a", b"first")
    with pytest.raises(NameTakenError):
        store.put_if_absent("log/a", b"second")
    assert store.get("log/a") == b"first"
    assert on_disk(root) == ["log/a"]


def test_without_hard_links_and_exclusive_rename_nothing_is_written(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    monkeypatch.setattr(rename, "_kernel_call", lambda: None)
    with pytest.raises(StorageError, match="neither hard links nor a rename") as refused:
        store.put_if_absent("a", b"x")
    assert "object store" in str(refused.value)
    assert on_disk(root) == []
    store.put("a", b"needs neither")
    assert store.get("a") == b"needs neither"


def test_a_file_system_that_does_not_know_the_rename_flag_is_told_apart(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    monkeypatch.setattr(local, "rename_exclusive", refusing(errno.EINVAL))
    with pytest.raises(StorageError, match="neither hard links nor a rename"):
        store.put_if_absent("a", b"x")
    assert on_disk(root) == []


def test_a_platform_without_the_rename_call_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    rename._kernel_call.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(rename.sys, "platform", "plan9")
            assert rename._kernel_call() is None
    finally:
        rename._kernel_call.cache_clear()


def test_without_nameless_files_a_named_one_serves(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(root)
    if not store._nameless:
        pytest.skip("this platform has no nameless files")
    real = os.open

    def no_nameless(path: str, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", no_nameless)
    store.put_if_absent("a", b"first")
    with pytest.raises(NameTakenError):
        store.put_if_absent("a", b"second")
    assert store.get("a") == b"first"
    assert on_disk(root) == ["a"]


def test_a_link_whose_answer_was_lost_is_recognised(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As over NFS: the server made the link, the answer was lost, the client asked again.
    store = LocalStore(root)
    store._nameless = False
    real = os.link

    def twice(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        real(*args, **kwargs)

    monkeypatch.setattr(os, "link", twice)
    store.put_if_absent("a", b"ours")
    assert store.get("a") == b"ours"
    assert on_disk(root) == ["a"]


# ---------------------------------------------------------------------------- listings


def test_leftover_temporary_files_are_not_listed(store: LocalStore, root: Path) -> None:
    store.put("log/0.json", b"{}")
    (root / "log" / f"{TEMP_PREFIX}0123").write_bytes(b"half")
    (root / f"{TEMP_PREFIX}4567").write_bytes(b"half")
    assert [info.name for info in store.list_from("log")] == ["log/0.json"]
    assert [info.name for info in store.list_from("", recursive=True)] == ["log/0.json"]


def test_a_file_that_vanishes_while_listing_is_passed_over(store: LocalStore) -> None:
    for name in "abcd":
        store.put(f"log/{name}", b"x")
    listing = store.list_from("log")
    assert next(listing).name == "log/a"
    store.delete(["log/b", "log/d"])
    assert [info.name for info in listing] == ["log/c"]


def test_only_files_are_listed(store: LocalStore, root: Path) -> None:
    store.put("file", b"x")
    os.mkfifo(root / "pipe")
    (root / "dangling").symlink_to("nowhere")
    (root / "alias").symlink_to("file")
    assert [info.name for info in store.list_from("")] == ["alias", "file"]
    with pytest.raises(FileMissingError):
        store.head("pipe")


def test_a_directory_that_cannot_be_read_is_an_error_not_an_empty_one(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("log/a", b"x")
    monkeypatch.setattr(os, "scandir", refusing(errno.EACCES))
    with pytest.raises(StorageError, match="Permission denied"):
        list(store.list_from("log"))


def test_a_file_that_cannot_be_read_is_not_called_missing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a", b"x")
    monkeypatch.setattr(os, "stat", refusing(errno.EACCES))
    with pytest.raises(StorageError, match="Permission denied") as refused:
        store.head("a")
    assert not isinstance(refused.value, FileMissingError)


# ---------------------------------------------------------------------------- Hadoop's checksum files


def test_put_removes_the_checksum_of_what_it_replaces(store: LocalStore, root: Path) -> None:
    store.put("log/_last_checkpoint", b"{}")
    (root / "log" / "._last_checkpoint.crc").write_bytes(b"crc\0")
    (root / "log" / ".other.crc").write_bytes(b"crc\0")
    store.put("log/_last_checkpoint", b"{1}")
    assert on_disk(root) == ["log/.other.crc", "log/_last_checkpoint"]


def test_the_checksum_goes_before_the_new_bytes_come(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A death between the two must leave a file that Hadoop can read: the old one, unchecked.
    store.put("a", b"old")
    (root / ".a.crc").write_bytes(b"crc\0")
    monkeypatch.setattr(os, "replace", refusing(errno.EIO))
    with pytest.raises(StorageError):
        store.put("a", b"new")
    assert on_disk(root) == ["a"]
    assert store.get("a") == b"old"


def test_put_if_absent_removes_a_stale_checksum(store: LocalStore, root: Path) -> None:
    root.mkdir()
    (root / ".a.crc").write_bytes(b"of a file that is gone")
    store.put_if_absent("a", b"x")
    assert on_disk(root) == ["a"]


def test_put_if_absent_that_loses_leaves_the_winners_checksum(store: LocalStore, root: Path) -> None:
    store.put("a", b"x")
    (root / ".a.crc").write_bytes(b"crc\0")
    with pytest.raises(NameTakenError):
        store.put_if_absent("a", b"y")
    assert on_disk(root) == [".a.crc", "a"]


def test_delete_removes_the_checksum_too(store: LocalStore, root: Path) -> None:
    for name in ("d/a", "d/b"):
        store.put(name, b"x")
        (root / "d" / f".{name[-1]}.crc").write_bytes(b"crc\0")
    (root / "d" / ".gone.crc").write_bytes(b"crc\0")
    store.delete(["d/a", "d/gone"])
    assert on_disk(root) == ["d/.b.crc", "d/b"]


def test_a_name_as_long_as_the_file_system_takes(store: LocalStore, root: Path) -> None:
    name = "n" * 255  # its checksum's name would be longer than that
    store.put(name, b"1")
    store.put(name, b"2")
    store.delete([name])
    store.put_if_absent(name, b"3")
    assert on_disk(root) == [name]


# ---------------------------------------------------------------------------- the root


def test_the_root_is_shown_as_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert LocalStore("a table/").url == str(tmp_path / "a table")
    assert LocalStore(tmp_path / "x").url == str(tmp_path / "x")
    store = LocalStore("later")
    monkeypatch.chdir("/")
    store.put("f", b"x")
    assert (tmp_path / "later" / "f").read_bytes() == b"x"


def test_a_root_that_climbs_over_a_symlink_is_where_the_system_says(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/inner")
    LocalStore(f"{tmp_path}/link/../table").put("f", b"x")
    assert (tmp_path / "real" / "table" / "f").exists()


def test_a_root_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    store = LocalStore(tmp_path / "file")
    with pytest.raises(StorageError, match="Not a directory"):
        store.put("log/a", b"x")
    assert list(store.list_from("")) == []


def test_a_directory_is_not_deleted_as_a_file(store: LocalStore) -> None:
    store.put("d/a", b"x")
    with pytest.raises(StorageError, match="could not be deleted"):
        store.delete(["d"])
    assert store.get("d/a") == b"x"


# ---------------------------------------------------------------------------- what the dead leave


def test_what_a_dead_writer_left_is_swept_away_and_what_a_living_one_has_begun_is_not(root: Path) -> None:
    store = LocalStore(root)
    store.put("log/a", b"1")
    for name, seconds in (("old", 1_000), ("young", 3_000)):
        begun = root / "log" / f"{TEMP_PREFIX}{name}"
        begun.write_bytes(b"half")
        os.utime(begun, (seconds, seconds))
    os.utime(root / "log" / "a", (1, 1))
    assert store.sweep("log", 2_000_000) == 1
    assert on_disk(root) == [f"log/{TEMP_PREFIX}young", "log/a"]
    assert store.sweep("nowhere", 2_000_000) == 0


def test_only_empty_directories_are_removed_and_links_are_no_folders(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "f").write_bytes(b"")
    (tmp_path / "d").symlink_to(tmp_path / "a")
    store = LocalStore(tmp_path)
    assert [f.name for f in store.folders("")] == ["a", "c"]
    assert store.remove_folders(["a/b", "a", "c", "missing"]) == ["a/b", "a"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "d"]


def test_what_lies_in_a_directory_is_told_apart_at_one_look(tmp_path: Path) -> None:
    for name in ("a/b", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("x", "a/y", f"{TEMP_PREFIX}draft"):
        (tmp_path / name).write_bytes(b"123")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    store = LocalStore(tmp_path)
    found = store.entries("")
    assert [(f.name, f.size) for f in found.files] == [("x", 3)]
    assert sorted(f.name for f in found.folders) == ["a", "elsewhere"]
    assert found.linked == ["link"]
    below = store.entries("a")
    assert ([f.name for f in below.files], [f.name for f in below.folders]) == (["a/y"], ["a/b"])
    assert store.entries("missing") == store.entries("x") == ([], [], [])


def test_a_link_that_leads_nowhere_does_not_keep_its_directory_from_being_looked_at(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"123")
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    found = LocalStore(tmp_path).entries("")
    assert ([f.name for f in found.files], found.folders, found.linked) == (["x"], [], [])


def test_directories_behind_links_are_told_by_the_names_they_have_without(tmp_path: Path) -> None:
    root = tmp_path / "table"
    (root / "data" / "p=1").mkdir(parents=True)
    (tmp_path / "outside" / "q").mkdir(parents=True)
    (root / "latest").symlink_to("data")
    (root / "data" / "top").symlink_to("..")
    (root / "away").symlink_to(tmp_path / "outside")
    (tmp_path / "alias").symlink_to(root)
    where_they_say = ["", "data", "data/p=1", "missing/p", ".p=1", "data/.h"]
    elsewhere = {
        "latest": "data",
        "latest/p=1": "data/p=1",
        "latest/top": "",
        "away/q": None,
        "../table/data": "data",
        f"{tmp_path}/alias/data": "data",
        f"{root}/latest": "data",
        f"{tmp_path}/outside": None,
    }
    for place in (root, tmp_path / "alias"):
        assert LocalStore(place).moved([*where_they_say, *elsewhere]) == elsewhere


def test_directories_with_impossible_names_are_nowhere(tmp_path: Path) -> None:
    long, null = "/" + "a/" * 3000, "/a\0b"
    assert LocalStore(tmp_path).moved(["a\0b", long[1:], null, long]) == {null: None, long: None}
