"""Segments: which files make a version, and what exactly is missing where none can."""

from __future__ import annotations

import json

import pytest

from support.tables import DAY, FORMS, LOG, RawTable, add, features, remove, seen, small_table
from tidegate.errors import (
    CheckpointIncompleteError,
    LogTruncatedError,
    NotATableError,
    TidegateError,
    VersionNotFoundError,
    VersionsNotContiguousError,
)
from tidegate.log import segment as segments
from tidegate.log.checkpoint import hint as hints
from tidegate.log.names import Kind
from tidegate.log.segment import Segment


def commit(version: int) -> str:
    return f"{version:020d}.json"


def segment(table: RawTable, version: int | None = None, **options: int) -> Segment:
    listing = segments.list_log(table.store, LOG, 0, options.get("until", version))
    found = segments.build(listing, "here", version)
    assert found is not None
    return found


def replayed(table: RawTable, version: int | None = None) -> list[str]:
    """What is read beside the checkpoint, newest first: versions, or spans of them."""
    return [
        str(f.name.version) if f.name.kind is Kind.COMMIT else f"{f.name.version}-{f.name.end}"
        for f in segment(table, version).deltas()
    ]


def long_table(versions: int = 10) -> RawTable:
    table = RawTable().create(protocol=features("v2Checkpoint"))
    for number in range(1, versions):
        table.commit(add(f"{number}"))
    return table


# ---------------------------------------------------------------------------- which files


def test_without_a_checkpoint_all_commits_are_replayed() -> None:
    assert replayed(long_table(4)) == ["3", "2", "1", "0"]


@pytest.mark.parametrize("form", FORMS)
def test_the_newest_complete_checkpoint_is_the_base(form: str) -> None:
    table = long_table()
    table.checkpoint(3)
    table.checkpoint(6, form)
    found = segment(table)
    assert found.base_version == 6
    assert replayed(table) == ["9", "8", "7"]
    assert segment(table, 5).base_version == 3
    assert segment(table, 2).base_version == -1


def test_a_version_that_is_a_checkpoint_needs_no_commit() -> None:
    table = long_table()
    table.checkpoint(9)
    assert replayed(table) == []
    assert segment(table).version == 9


def test_of_two_checkpoints_of_one_version_the_v2_one_is_taken() -> None:
    table = long_table()
    table.checkpoint(5, "classic")
    table.checkpoint(5, "v2-json")
    assert segment(table).checkpoint is not None
    assert segment(table).checkpoint.kind is Kind.V2  # type: ignore[union-attr]


def test_of_two_multipart_checkpoints_of_one_version_the_complete_one_is_taken() -> None:
    table = long_table()
    whole = table.checkpoint(5, "multipart", parts=2)
    part = table.checkpoint(5, "multipart", parts=3)
    table.delete(part[1])
    found = segment(table).checkpoint
    assert found is not None
    assert [f.name.text for f in found.files] == whole


def test_an_incomplete_checkpoint_is_passed_over() -> None:
    table = long_table()
    table.checkpoint(3)
    table.delete(table.checkpoint(6, "multipart", parts=3)[0])
    assert segment(table).base_version == 3
    assert seen(table.load()) == table.state()


def test_files_that_are_not_the_logs_own_do_not_matter() -> None:
    table = long_table(4)
    for stray in ("readme.txt", ".00000000000000000002.json.crc", "00000000000000000003.json.tmp", "0.json"):
        table.put(stray, b"?")
    table.put("_delta_index/00000000000000000009.json", b"?")
    table.put("_staged_commits/00000000000000000004.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json", b"?")
    assert replayed(table) == ["3", "2", "1", "0"]
    assert seen(table.load()) == table.state()


def test_the_checksum_of_exactly_this_version_is_taken() -> None:
    table = long_table()
    table.checksum(7)
    assert segment(table).checksum is None
    found = segment(table, 7).checksum
    assert found is not None
    assert found.name.version == 7


# ---------------------------------------------------------------------------- compactions


@pytest.mark.parametrize(
    ("spans", "version", "expected"),
    [
        ([(2, 4)], None, ["9", "8", "7", "6", "5", "2-4", "1", "0"]),
        ([(0, 9)], None, ["0-9"]),
        ([(0, 9)], 8, ["8", "7", "6", "5", "4", "3", "2", "1", "0"]),
        ([(2, 4), (5, 9)], None, ["5-9", "2-4", "1", "0"]),
        ([(2, 6), (5, 9)], None, ["5-9", "4", "3", "2", "1", "0"]),
        ([(2, 6), (4, 6)], 6, ["2-6", "1", "0"]),
        ([(2, 9), (4, 6)], 6, ["4-6", "3", "2", "1", "0"]),
    ],
)
def test_a_compaction_stands_for_its_commits(
    spans: list[tuple[int, int]], version: int | None, expected: list[str]
) -> None:
    table = long_table()
    for start, end in spans:
        table.compact(start, end)
    assert replayed(table, version) == expected
    assert seen(table.load(version)) == table.state(version)


def test_a_compaction_that_reaches_below_the_checkpoint_is_not_used() -> None:
    table = long_table()
    table.checkpoint(5)
    table.compact(4, 7)
    table.compact(6, 8)
    assert replayed(table) == ["9", "6-8"]


def test_a_compaction_that_begins_where_the_checkpoint_ends_is_used() -> None:
    table = long_table()
    table.checkpoint(5)
    table.compact(6, 9)
    assert replayed(table) == ["6-9"]


def test_a_compaction_beyond_the_latest_version_does_not_make_versions() -> None:
    table = long_table(5)
    table.put(f"{3:020d}.{9:020d}.compacted.json", b"{}")
    assert segment(table).version == 4
    assert replayed(table) == ["4", "3", "2", "1", "0"]


# ---------------------------------------------------------------------------- what is missing


def test_an_empty_directory_is_not_a_table() -> None:
    with pytest.raises(NotATableError):
        RawTable().load()


def test_a_log_of_strays_is_not_a_table() -> None:
    table = RawTable()
    table.put("readme.txt", b"?")
    table.checksum(0) if table.commits else table.put(f"{0:020d}.crc", b"{}")
    with pytest.raises(NotATableError):
        table.load()


def test_a_gap_is_named() -> None:
    table = long_table()
    table.delete(commit(4), commit(5))
    with pytest.raises(VersionsNotContiguousError, match="4 to 5 is missing, but 6 is there") as caught:
        table.load()
    assert caught.value.version == 4
    assert seen(table.load(3)) == table.state(3)


@pytest.mark.parametrize("version", [6, 9])
def test_a_version_above_a_gap_is_not_readable_by_time_travel_either(version: int) -> None:
    table = long_table()
    table.delete(commit(4))
    with pytest.raises(VersionsNotContiguousError):
        table.load(version)


def test_a_missing_version_itself_is_not_found() -> None:
    table = long_table()
    table.delete(commit(4))
    with pytest.raises(TidegateError) as caught:
        table.load(4)
    assert caught.value.code in ("VERSION_NOT_FOUND", "VERSIONS_NOT_CONTIGUOUS")


def test_a_gap_right_after_the_checkpoint_is_a_gap() -> None:
    table = long_table()
    table.checkpoint(5)
    table.hint(5)
    table.delete_commits(7)
    with pytest.raises(VersionsNotContiguousError):
        table.load()
    with pytest.raises(VersionsNotContiguousError):
        table.load(8)
    assert seen(table.load(5)) == table.state(5)


def test_a_gap_between_two_checkpoints_with_commits_before_it_stays_a_gap() -> None:
    """There are commits below the hole, so no cleanup made it."""
    table = long_table()
    table.checkpoint(3)
    table.checkpoint(8)
    table.delete(commit(5))
    with pytest.raises(VersionsNotContiguousError):
        table.load(6)
    assert seen(table.load()) == table.state()


@pytest.mark.parametrize("deleted", range(1, 9))
def test_while_a_cleanup_takes_commits_away_an_old_version_is_readable_or_not_found(deleted: int) -> None:
    """Old checkpoints are still there while the commits after them are gone already."""
    table = long_table()
    table.checkpoint(3)
    table.checkpoint(8)
    table.delete_commits(deleted)
    for version in range(10):
        # 3 and 8 stand on their checkpoints, the others need the commits after one of them, or all.
        needed = 0 if version < 3 else 4
        if version >= 8 or version == 3 or deleted <= needed:
            assert seen(table.load(version)) == table.state(version)
            continue
        with pytest.raises(VersionNotFoundError) as caught:
            table.load(version)
        first = 3 if deleted <= 4 else 8
        assert f"versions {first} to 9 can be read" in caught.value.message


def test_a_log_that_begins_late_without_a_checkpoint_is_truncated() -> None:
    table = long_table()
    table.delete_commits(3)
    with pytest.raises(LogTruncatedError, match="begins at version 3"):
        table.load()


def test_a_log_whose_only_checkpoint_lacks_a_part_says_so() -> None:
    table = long_table()
    table.delete(table.checkpoint(5, "multipart", parts=3)[2])
    table.delete_commits(5)
    with pytest.raises(CheckpointIncompleteError, match="of version 5 lacks some of its 3 parts"):
        table.load()


@pytest.mark.parametrize("version", [10, 11, 10**19])
def test_a_version_not_written_yet_is_not_found(version: int) -> None:
    with pytest.raises(VersionNotFoundError, match="versions 0 to 9 can be read") as caught:
        long_table().load(version)
    assert caught.value.errorClass == "DELTA_VERSION_NOT_FOUND"


@pytest.mark.parametrize("hinted", [True, False])
def test_a_version_not_written_yet_after_a_checkpoint_is_not_found(hinted: bool) -> None:
    table = long_table()
    table.checkpoint(5)
    table.delete_commits(5)
    if hinted:
        table.hint(5)
    with pytest.raises(VersionNotFoundError, match="versions 5 to 9 can be read"):
        table.load(12)


def test_a_version_before_the_start_of_the_log_is_not_found() -> None:
    table = long_table()
    table.checkpoint(5)
    table.hint(5)
    table.delete_commits(5)
    for version in range(5):
        with pytest.raises(VersionNotFoundError, match="versions 5 to 9 can be read"):
            table.load(version)


def test_a_negative_version_is_not_found() -> None:
    with pytest.raises(VersionNotFoundError):
        long_table().load(-1)


# ---------------------------------------------------------------------------- the hint

GARBAGE = {
    "empty": b"",
    "torn": b'{"version":5,"si',
    "not JSON": b"\x00\xff\xfe",
    "not an object": b"[5]",
    "no version": b'{"size":3}',
    "a version that is text": b'{"version":"5"}',
    "a negative version": b'{"version":-1}',
    "deep nesting": b"[" * 100_000,
    "huge version": b'{"version":100000000000000000000000000}',
    "a wrong checksum": b'{"version":5,"size":1,"checksum":"00000000000000000000000000000000"}',
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_a_hint_that_cannot_be_believed_is_ignored(data: bytes) -> None:
    table = long_table()
    table.checkpoint(5)
    table.put("_last_checkpoint", data)
    assert hints.decode(data) is None
    assert seen(table.load()) == table.state()


@pytest.mark.parametrize("version", [3, 5, 7, 9, 50])
def test_a_hint_that_is_stale_or_points_nowhere_changes_nothing(version: int) -> None:
    table = long_table()
    table.checkpoint(3)
    table.checkpoint(5)
    table.hint(version)
    assert seen(table.load()) == table.state()
    for older in range(10):
        assert seen(table.load(older)) == table.state(older)


def test_a_stale_hint_still_finds_the_newer_checkpoint() -> None:
    table = long_table()
    table.checkpoint(3)
    table.checkpoint(7)
    table.hint(3)
    assert table.load().segment.base_version == 7


def test_a_good_hint_spares_the_listing_of_what_came_before() -> None:
    table = long_table()
    table.checkpoint(7)
    table.hint(7)
    listing = segments.list_log(table.store, LOG, 7)
    assert sorted(listing.commits) == [7, 8, 9]
    table.memory.journal.clear()
    table.load()
    assert [o for o in table.memory.journal if o.op == "list_from"] == [("list_from", LOG)]


def test_a_hint_above_the_wanted_version_is_not_used() -> None:
    table = long_table()
    table.checkpoint(3)
    table.checkpoint(8)
    table.hint(8)
    assert seen(table.load(6)) == table.state(6)
    assert table.load(6).segment.base_version == 3


def test_a_hint_of_a_multipart_checkpoint_that_is_incomplete_falls_back() -> None:
    table = long_table()
    table.delete(table.checkpoint(6, "multipart", parts=2)[0])
    table.hint(6, parts=2)
    assert seen(table.load()) == table.state()


# ---------------------------------------------------------------------------- listings


def test_a_listing_ends_at_the_wanted_version() -> None:
    table = long_table()
    table.checkpoint(3)
    table.checkpoint(8)
    table.compact(2, 5)
    listing = segments.list_log(table.store, LOG, 0, 4)
    assert sorted(listing.commits) == [0, 1, 2, 3, 4]
    assert [c.version for c in listing.checkpoints] == [3]
    assert listing.compactions == []


def test_a_listing_for_retention_ends_at_the_first_younger_commit() -> None:
    table = RawTable().create()
    for number in range(1, 5):
        table.commit(add(f"{number}"), tick=DAY)
    listing = segments.list_log(table.store, LOG, 0, before=table.clock() - 2 * DAY)
    assert sorted(listing.commits) == [0, 1, 2]


def test_the_range_that_can_be_read_is_what_errors_say() -> None:
    table = small_table()
    listing = segments.list_log(table.store, LOG, 0)
    assert (segments.earliest(listing), segments.latest(listing)) == (0, 4)
    table.checkpoint(2)
    table.delete_commits(1)
    listing = segments.list_log(table.store, LOG, 0)
    assert (segments.earliest(listing), segments.latest(listing)) == (2, 4)


def test_a_segment_carried_on_keeps_its_base() -> None:
    table = small_table()
    table.checkpoint(2)
    found = segment(table, 3)
    last = segment(table).commits[-1]
    more = found.with_commits([last])
    assert (more.version, more.base_version, more.checksum) == (4, 2, None)


def test_v2_checkpoint_names_are_found_through_their_sidecars() -> None:
    table = long_table()
    names = table.checkpoint(5, "v2-json", parts=3)
    top = [json.loads(line) for line in table.bytes(names[-1]).splitlines()]
    assert len([a for a in top if "sidecar" in a]) == 3
    table.delete_commits(6)
    table.commit(remove("1"))
    assert seen(table.load()) == table.state()
