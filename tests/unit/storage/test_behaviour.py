"""What every store promises, asked of each: local disk, memory, object store, S3 over HTTP."""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.commands.vacuum_listing import marks, ranges, within
from tidegate.errors import FileMissingError, NameTakenError, PathOutsideTableError, StorageError
from tidegate.storage import FileInfo, Store
from tidegate.storage.store import Foldered

ODD_NAMES = [
    "plain",
    "with space",
    "percent%20encoded",
    "percent%",
    "plus+and&equals=",
    "day=2024-01-01/hour=00%3A00/part-0.parquet",
    "hash#question?star*",
    "colon:semi;comma,",
    "quote'and\"double",
    "back\\slash",
    "[brackets]{braces}(parens)",
    "tilde~dollar$at@bang!",
    ".hidden",
    "_delta_log/_last_checkpoint",
    "trailing.",
    "...",
    "..dots",
    "umlaut-ü",
    "kanji-表",
    "emoji-🌊",
    "private-\ue000",
    "e\u0301-decomposed",
    "\u00e9-composed",
    "UPPER",
    "upper",
    "n" * 200,
    "deep/" * 12 + "leaf",
]


def names(store: Store, directory: str = "", start: str = "", **how: bool) -> list[str]:
    return [info.name for info in store.list_from(directory, start, **how)]


def fill(store: Store, *given: str) -> None:
    for name in given:
        store.put(name, name.encode())


def test_every_backend_is_a_store(store: Store) -> None:
    assert isinstance(store, Store)
    assert store.url in repr(store)


@pytest.mark.parametrize(
    "wrap", [bytes, bytearray, memoryview, pa.py_buffer], ids=["bytes", "bytearray", "memoryview", "arrow"]
)
@pytest.mark.parametrize("content", [b"", b"\x00\xff{}\n"], ids=["empty", "binary"])
def test_what_is_put_is_got(store: Store, wrap: Callable[[bytes], bytes], content: bytes) -> None:
    store.put("put", wrap(content))
    store.put_if_absent("created", wrap(content))
    assert store.get("put") == content
    assert store.get("created") == content
    assert isinstance(store.get("put"), bytes)


def test_put_replaces(store: Store) -> None:
    store.put("a", b"a longer old content")
    store.put("a", b"new")
    assert store.get("a") == b"new"
    assert store.head("a").size == 3
    assert names(store) == ["a"]


def test_put_if_absent_is_refused_when_the_name_is_taken(store: Store) -> None:
    store.put_if_absent("_delta_log/0.json", b"first")
    with pytest.raises(NameTakenError) as refused:
        store.put_if_absent("_delta_log/0.json", b"second")
    assert store.get("_delta_log/0.json") == b"first"
    assert refused.value.file == "_delta_log/0.json"
    assert refused.value.table == store.url
    assert names(store, recursive=True) == ["_delta_log/0.json"]


def test_put_if_absent_is_refused_even_for_the_same_bytes(store: Store) -> None:
    store.put_if_absent("a", b"same")
    with pytest.raises(NameTakenError):
        store.put_if_absent("a", b"same")


def test_put_if_absent_after_put_and_after_delete(store: Store) -> None:
    store.put("a", b"1")
    with pytest.raises(NameTakenError):
        store.put_if_absent("a", b"2")
    store.delete(["a"])
    store.put_if_absent("a", b"3")
    assert store.get("a") == b"3"


def test_a_large_put_if_absent_is_exclusive_too(store: Store) -> None:
    # Above the size from which object store clients upload in parts, which is not conditional.
    large = bytes(range(256)) * (6 * 1024 * 4)
    store.put_if_absent("large", large)
    with pytest.raises(NameTakenError):
        store.put_if_absent("large", large[::-1])
    assert store.get("large") == large


@pytest.mark.parametrize("name", ["missing", "no/such/directory/file", "file/below"])
def test_a_missing_file_is_named(store: Store, name: str) -> None:
    store.put("file", b"a file, not a directory")
    asked: list[Callable[[], object]] = [
        lambda: store.get(name),
        lambda: store.get_range(name, 0, 1),
        lambda: store.get_range(name, 0, 0),
        lambda: store.open_input(name),
        lambda: store.head(name),
    ]
    for ask in asked:
        with pytest.raises(FileMissingError) as missing:
            ask()
        assert missing.value.file == name
        assert missing.value.table == store.url
        assert name in str(missing.value)


def test_a_directory_is_not_a_file(store: Store) -> None:
    store.put("directory/file", b"x")
    for ask in (store.get, store.head, store.open_input):
        with pytest.raises(FileMissingError):
            ask("directory")


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (0, 10, b"0123456789"),
        (0, 3, b"012"),
        (4, 3, b"456"),
        (7, 100, b"789"),
        (0, 0, b""),
        (10, 5, b""),
        (1000, 5, b""),
    ],
)
def test_a_range_ends_with_the_file(store: Store, offset: int, length: int, expected: bytes) -> None:
    store.put("digits", b"0123456789")
    assert store.get_range("digits", offset, length) == expected


def test_a_range_of_an_empty_file_is_empty(store: Store) -> None:
    store.put("empty", b"")
    assert store.get_range("empty", 0, 10) == b""


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, -1)])
def test_a_range_that_is_none_is_refused(store: Store, offset: int, length: int) -> None:
    store.put("a", b"abc")
    with pytest.raises(StorageError, match="no part of a file"):
        store.get_range("a", offset, length)


def test_a_listing_comes_in_the_order_of_bytes(store: Store) -> None:
    given = ["b", "a", "a.json", "a-b", "B", "10", "9", "_x", "ü", "z", "\ue000", "🌊", "~"]
    fill(store, *given)
    assert names(store) == sorted(given, key=lambda name: name.encode())


def test_a_recursive_listing_sorts_whole_paths(store: Store) -> None:
    # '-' and '.' come before '/', '0' after it: a directory's files stand between its neighbours.
    given = ["a/x", "a-b", "a.b", "a0", "a/b/c", "a/b-c", "a/b0", "b/x"]
    fill(store, *given)
    assert names(store, recursive=True) == ["a-b", "a.b", "a/b-c", "a/b/c", "a/b0", "a/x", "a0", "b/x"]
    assert names(store, "a", recursive=True) == ["a/b-c", "a/b/c", "a/b0", "a/x"]


def test_a_listing_holds_only_the_files_directly_in_the_directory(store: Store) -> None:
    fill(store, "top", "log/1", "log/2", "log/sub/3", "log-old/4", "lo", "log2")
    assert names(store, "log") == ["log/1", "log/2"]
    assert names(store, "log/") == ["log/1", "log/2"]
    assert names(store, "log/sub") == ["log/sub/3"]
    assert names(store) == ["lo", "log2", "top"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("", ["00", "01", "02", "_last"]),
        ("01", ["01", "02", "_last"]),
        ("010", ["02", "_last"]),
        ("00x", ["01", "02", "_last"]),
        ("0", ["00", "01", "02", "_last"]),
        ("_", ["_last"]),
        ("_last", ["_last"]),
        ("z", []),
        ("\x01", ["00", "01", "02", "_last"]),
        ("../..", ["00", "01", "02", "_last"]),
        ("a//b", []),
    ],
)
def test_a_listing_begins_at_the_start_asked_for(store: Store, start: str, expected: list[str]) -> None:
    fill(store, "log/00", "log/01", "log/02", "log/_last", "log/_sub/x", "lof", "loh")
    assert names(store, "log", start) == [f"log/{name}" for name in expected]


def test_a_recursive_listing_begins_inside_a_subdirectory(store: Store) -> None:
    fill(store, "t/a/1", "t/a/2", "t/a/b/1", "t/a/c", "t/b/1", "t/a-z", "t/z")
    everything = ["a-z", "a/1", "a/2", "a/b/1", "a/c", "b/1", "z"]
    for start in ["", "a", "a-", "a/", "a/1", "a/15", "a/2", "a/b", "a/b/1", "a/b/2", "a0", "b/", "zz"]:
        expected = [f"t/{name}" for name in everything if name >= start]
        assert names(store, "t", start, recursive=True) == expected, start


def test_a_directory_that_is_not_there_is_empty(store: Store) -> None:
    store.put("file", b"")
    assert names(store, "nowhere") == []
    assert names(store, "nowhere/deep", "0", recursive=True) == []
    assert names(store, "file") == []


def test_an_empty_store_lists_nothing(store: Store) -> None:
    assert names(store) == []
    assert names(store, recursive=True) == []


def test_a_listing_can_be_left_early(store: Store) -> None:
    fill(store, *(f"log/{number:020d}.json" for number in range(12)))
    listing = store.list_from("log", "00000000000000000003")
    assert next(listing).name == "log/00000000000000000003.json"
    assert next(listing).name == "log/00000000000000000004.json"


def test_head_and_listing_tell_the_same_of_a_file(store: Store) -> None:
    before = time.time_ns() // 1_000_000
    store.put("log/a", b"12345")
    info = store.head("log/a")
    assert info == FileInfo("log/a", 5, info.modified)
    assert list(store.list_from("log")) == [info]
    # S3 tells whole seconds.
    assert before - 1000 <= info.modified <= time.time_ns() // 1_000_000 + 1000


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_is_taken_literally(store: Store, name: str) -> None:
    store.put_if_absent(name, name.encode())
    assert store.get(name) == name.encode()
    assert store.get_range(name, 0, 1) == name.encode()[:1]
    assert store.head(name).name == name
    assert names(store, recursive=True) == [name]
    directory, _, leaf = name.rpartition("/")
    assert names(store, directory, leaf) == [name]
    with pytest.raises(NameTakenError):
        store.put_if_absent(name, b"")
    store.delete([name])
    assert names(store, recursive=True) == []


def test_names_that_differ_a_little_are_different_files(store: Store) -> None:
    given = [name for name in ODD_NAMES if "/" not in name]
    fill(store, *given)
    assert {name: store.get(name) for name in given} == {name: name.encode() for name in given}
    assert names(store) == sorted(given, key=lambda name: name.encode())


@pytest.mark.parametrize("name", ["../x", "a/../../x", "a/..", "..", "/etc/passwd", "/", "a/../b"])
def test_a_name_that_climbs_out_is_refused(store: Store, name: str) -> None:
    asked: list[Callable[[], object]] = [
        lambda: store.get(name),
        lambda: store.get_range(name, 0, 1),
        lambda: store.open_input(name),
        lambda: store.head(name),
        lambda: store.put(name, b""),
        lambda: store.put_if_absent(name, b""),
        lambda: store.delete([name]),
    ]
    if name != "/":
        asked.append(lambda: store.list_from(name))
    for ask in asked:
        with pytest.raises(PathOutsideTableError):
            ask()


@pytest.mark.parametrize("name", ["", "a//b", "./a", "a/./b", "a/", "a/.", "nul\0"])
def test_what_cannot_be_a_name_is_refused(store: Store, name: str) -> None:
    for ask in (store.get, store.head, lambda name: store.put(name, b""), lambda name: store.delete([name])):
        with pytest.raises(StorageError, match="cannot name a file"):
            ask(name)


def test_delete_takes_many_and_passes_over_what_is_not_there(store: Store) -> None:
    fill(store, "a", "b", "c/d", "keep")
    store.delete(name for name in ["a", "missing", "c/d", "no/such/file", "b", "a"])
    assert names(store, recursive=True) == ["keep"]
    store.delete([])
    store.delete(["missing"])
    assert names(store, recursive=True) == ["keep"]


def test_a_file_opens_for_arrow(store: Store) -> None:
    table = pa.table({"id": list(range(1000)), "text": [f"row {number}" for number in range(1000)]})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    store.put("data/part-0.parquet", sink.getvalue())
    with store.open_input("data/part-0.parquet") as file:
        assert file.seekable()
        assert file.size() == len(sink.getvalue())
        assert pq.read_table(file, columns=["text"]) == table.select(["text"])


def test_an_empty_file_opens(store: Store) -> None:
    store.put("empty", b"")
    with store.open_input("empty") as file:
        assert file.read() == b""


def test_what_is_open_does_not_change_when_the_name_does(store: Store) -> None:
    store.put("hint", b"old" * 1000)
    with store.open_input("hint") as file:
        store.put("hint", b"new")
        assert file.read() == b"old" * 1000
    with store.open_input("hint") as file:
        store.delete(["hint"])
        assert file.read() == b"new"


# ---------------------------------------------------------------------------- folders


def test_folders_are_those_directly_below_a_directory(store: Store) -> None:
    for name in ("a%20b=1/f", "a%20b=1/é c/f", "ab/f", "b/c/d/f", "f"):
        store.put(name, b"x")
    if not isinstance(store, Foldered):
        return
    assert [f.name for f in store.folders("")] == ["a%20b=1", "ab", "b"]
    assert [f.name for f in store.folders("a%20b=1")] == ["a%20b=1/é c"]
    assert [f.name for f in store.folders("b/c")] == ["b/c/d"]
    assert (store.folders("b/c/d"), store.folders("missing")) == ([], [])
    names = [info.name for info in store.list_from("", recursive=True)]
    parts = [[i.name for i in within(store, part)] for part in ranges(marks(store), 4)]
    assert [name for part in parts for name in part] == names
