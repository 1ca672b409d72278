"""Time travel by timestamp and the history of a table, whichever clock its commits go by."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from support.tables import (
    LOG,
    SECOND,
    START,
    RawTable,
    add,
    commit_info,
    features,
    metadata,
    seen,
    small_table,
)
from tidegate.errors import (
    CommitCorruptError,
    InvalidCommitError,
    OptionError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from tidegate.log.history import history, version_at

ICT = {"delta.enableInCommitTimestamps": "true"}
WITH_ICT = features(writers=["inCommitTimestamp"])


def commit(version: int) -> str:
    return f"{version:020d}.json"


def with_mtimes(*times: int) -> RawTable:
    """A table whose commits have these modification times, in milliseconds after ``START``."""
    table = RawTable().create()
    for number in range(1, len(times)):
        table.commit(add(f"{number}"))
    for version, moment in enumerate(times):
        table.memory.set_modified(f"{LOG}/{commit(version)}", START + moment)
    return table


def with_ict(*times: int) -> RawTable:
    """A table that keeps in-commit timestamps from version 0 on; its files' own times say otherwise."""
    table = RawTable()
    for version, moment in enumerate(times):
        info = commit_info("WRITE", inCommitTimestamp=START + moment)
        head = (WITH_ICT, metadata(configuration=ICT)) if version == 0 else ()
        table.commit(info, *head, add(f"{version}"))
        table.memory.set_modified(f"{LOG}/{commit(version)}", START + 10**9 - version)
    return table


def at(table: RawTable, moment: int) -> int:
    return version_at(table.log, START + moment)


# ---------------------------------------------------------------------------- by modification time


@pytest.mark.parametrize(("moment", "version"), [(100, 0), (101, 0), (199, 0), (200, 1), (250, 1), (300, 2)])
def test_the_version_is_the_latest_that_was_there_then(moment: int, version: int) -> None:
    assert at(with_mtimes(100, 200, 300), moment) == version


def test_a_moment_before_the_first_version_is_refused_with_the_range() -> None:
    with pytest.raises(TimestampOutOfRangeError, match="before the earliest version") as caught:
        at(with_mtimes(100, 200), 99)
    assert caught.value.errorClass == "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"
    assert "version 0" in caught.value.message
    assert "2026-01-01T00:00:00.100" in str(caught.value)


def test_a_moment_after_the_last_version_is_refused_with_the_range() -> None:
    with pytest.raises(TimestampOutOfRangeError, match="after the latest version") as caught:
        at(with_mtimes(100, 200), 201)
    assert caught.value.errorClass == "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"
    assert "version 1" in caught.value.message


@pytest.mark.parametrize(("moment", "version"), [(500, 0), (501, 1), (502, 2), (699, 2), (700, 3)])
def test_a_clock_that_went_back_hides_no_version(moment: int, version: int) -> None:
    assert at(with_mtimes(500, 100, 200, 700), moment) == version


def test_equal_times_are_told_apart_by_a_millisecond_each() -> None:
    table = with_mtimes(100, 100, 100)
    assert [at(table, m) for m in (100, 101, 102)] == [0, 1, 2]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_every_version_has_a_moment_at_which_it_was_the_latest(times: list[int]) -> None:
    table = with_mtimes(*times)
    made: list[int] = []
    for moment in times:
        made.append(moment if not made else max(moment, made[-1] + 1))
    assert [at(table, m) for m in made] == list(range(len(times)))
    entries = history(table.log, table.version)
    assert [e["timestamp"] for e in reversed(entries)] == [_moment(START + m) for m in made]


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def test_versions_that_cannot_be_read_any_more_are_not_found_by_time() -> None:
    table = with_mtimes(100, 200, 300, 400, 500)
    table.checkpoint(3)
    table.delete_commits(2)
    assert at(table, 400) == 3
    with pytest.raises(TimestampOutOfRangeError, match="version 3"):
        at(table, 399)


def test_a_log_of_a_checkpoint_alone_has_no_times() -> None:
    table = with_mtimes(100, 200)
    table.checkpoint(1)
    table.delete_commits(2)
    with pytest.raises(TimestampOutOfRangeError):
        at(table, 200)


# ---------------------------------------------------------------------------- in-commit timestamps


@pytest.mark.parametrize(("moment", "version"), [(100, 0), (150, 0), (200, 1), (299, 1), (300, 2)])
def test_with_in_commit_timestamps_the_files_times_do_not_matter(moment: int, version: int) -> None:
    assert at(with_ict(100, 200, 300), moment) == version


@pytest.mark.parametrize("moment", [99, 301])
def test_out_of_the_range_of_in_commit_timestamps_is_refused(moment: int) -> None:
    with pytest.raises(TimestampOutOfRangeError):
        at(with_ict(100, 200, 300), moment)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12, unique=True), st.integers(0, 1000))
def test_bisecting_in_commit_timestamps_is_looking_at_them_all(times: list[int], moment: int) -> None:
    times = sorted(times)
    table = with_ict(*times)
    there = [v for v, t in enumerate(times) if t <= moment]
    if not there or moment > times[-1]:
        with pytest.raises(TimestampOutOfRangeError):
            at(table, moment)
    else:
        assert at(table, moment) == there[-1]


def enabled_later() -> RawTable:
    """Versions 0 to 2 go by their files, at 100, 200 and 300; 3 to 5 carry 400, 500 and 600."""
    table = with_mtimes(100, 200, 300)
    provenance = {
        **ICT,
        "delta.inCommitTimestampEnablementVersion": "3",
        "delta.inCommitTimestampEnablementTimestamp": str(START + 400),
    }
    for version, moment in ((3, 400), (4, 500), (5, 600)):
        head = (WITH_ICT, metadata(configuration=provenance)) if version == 3 else ()
        table.commit(commit_info("WRITE", inCommitTimestamp=START + moment), *head, add(f"{version}"))
        # Younger than everything, in the wrong order: a reader that looks at these goes wrong.
        table.memory.set_modified(f"{LOG}/{commit(version)}", START + 50 - version)
    return table


@pytest.mark.parametrize(
    ("moment", "version"),
    [(100, 0), (250, 1), (300, 2), (301, 2), (399, 2), (400, 3), (450, 3), (500, 4), (600, 5)],
)
def test_times_before_the_enablement_go_by_files_and_after_it_by_commits(moment: int, version: int) -> None:
    assert at(enabled_later(), moment) == version


@pytest.mark.parametrize(("moment", "said"), [(99, "version 0"), (601, "version 5")])
def test_the_range_of_a_table_with_both_kinds_of_times(moment: int, said: str) -> None:
    with pytest.raises(TimestampOutOfRangeError, match=said):
        at(enabled_later(), moment)


def test_a_moment_before_the_enablement_is_too_early_once_those_versions_are_gone() -> None:
    table = enabled_later()
    table.checkpoint(4)
    table.delete_commits(4)
    assert at(table, 500) == 4
    for moment in (499, 399, 100):
        with pytest.raises(TimestampOutOfRangeError, match="version 4"):
            at(table, moment)


def test_a_snapshots_time_is_that_of_its_commit() -> None:
    table = enabled_later()
    assert [table.load(v).timestamp_ms - START for v in range(6)] == [100, 200, 300, 400, 500, 600]
    assert table.load(5).timestamp == _moment(START + 600)


def test_the_commit_counts_where_the_checksum_says_another_time() -> None:
    table = with_ict(100, 200)
    table.checksum(1, inCommitTimestampOpt=START + 999)
    assert table.load().timestamp_ms == START + 200
    table.checkpoint(1)
    table.delete_commits(2)
    assert table.load().timestamp_ms == START + 999


def test_a_commit_that_should_carry_its_time_and_does_not_is_named() -> None:
    table = with_ict(100, 200, 300)
    table.commit(commit_info("WRITE"), add("x"))
    with pytest.raises(InvalidCommitError) as caught:
        at(table, 200)
    assert (caught.value.version, caught.value.file) == (3, commit(3))


def test_a_commit_that_a_cleanup_takes_away_meanwhile_is_a_version_not_found() -> None:
    table = with_ict(100, 200, 300)
    latest = table.load()
    table.memory.hook = lambda op, name: table.delete(commit(0)) if (op, name) == READ_FIRST else None
    with pytest.raises(VersionNotFoundError):
        version_at(table.log, START + 100, latest=latest)


READ_FIRST = ("get", f"{LOG}/{commit(0)}")


# ---------------------------------------------------------------------------- history


def test_history_has_an_entry_per_commit_newest_first() -> None:
    table = RawTable().create()
    table.commit(
        commit_info("MERGE", operationParameters={"p": "[]"}, operationMetrics={"n": "1"}, readVersion=0),
        add("a"),
    )
    table.commit(commit_info("DELETE", userMetadata="why", engineInfo="x/1", isBlindAppend=False))
    entries = table.load().history()
    assert [(e["version"], e["operation"]) for e in entries] == [
        (2, "DELETE"),
        (1, "MERGE"),
        (0, "CREATE TABLE"),
    ]
    assert entries[0]["userMetadata"] == "why"
    assert entries[1]["operationMetrics"] == {"n": "1"}
    assert list(entries[0]) == [
        "version",
        "timestamp",
        "userId",
        "userName",
        "operation",
        "operationParameters",
        "job",
        "notebook",
        "clusterId",
        "readVersion",
        "isolationLevel",
        "isBlindAppend",
        "operationMetrics",
        "userMetadata",
        "engineInfo",
    ]


@pytest.mark.parametrize(("limit", "versions"), [(0, []), (1, [4]), (3, [4, 3, 2]), (99, [4, 3, 2, 1, 0])])
def test_history_is_cut_and_reads_no_more_than_asked_for(limit: int, versions: list[int]) -> None:
    table = small_table()
    snapshot = table.load()
    table.memory.journal.clear()
    assert [e["version"] for e in snapshot.history(limit)] == versions
    read = [o.name for o in table.memory.journal if o.op == "get"]
    assert sorted(read) == sorted(f"{LOG}/{commit(v)}" for v in versions)


@pytest.mark.parametrize("limit", ["x", -1, True, 1.5])
def test_a_limit_that_is_no_number_of_commits_is_refused_before_anything_is_read(limit: Any) -> None:
    table = small_table()
    snapshot = table.load()
    table.memory.journal.clear()
    with pytest.raises(OptionError, match="number of commits"):
        snapshot.history(limit)
    assert table.memory.journal == []


def test_history_of_an_old_version_ends_there() -> None:
    assert [e["version"] for e in small_table().load(2).history()] == [2, 1, 0]


def test_history_begins_where_the_log_does() -> None:
    table = small_table()
    table.checkpoint(3)
    table.delete_commits(3)
    assert [e["version"] for e in table.load().history()] == [4, 3]


def test_a_commit_without_commit_info_has_an_entry_of_its_version_and_time() -> None:
    table = RawTable().create()
    table.put(commit(1), b'{"txn":{"appId":"a","version":1}}\n')
    entry = table.load().history(1)[0]
    assert entry["version"] == 1
    assert entry["operation"] is None
    assert isinstance(entry["timestamp"], datetime)


@pytest.mark.parametrize(
    ("said", "version"), [("3", 3), (3.0, 3), (2**70, None), ("x", None), ({}, None), (None, None)]
)
def test_a_version_that_was_read_is_a_number_however_it_was_written(said: Any, version: int | None) -> None:
    table = RawTable().create()
    table.commit(commit_info("WRITE", readVersion=said))
    assert table.load().history(1)[0]["readVersion"] == version


@pytest.mark.parametrize(("said", "blind"), [("true", True), (False, False), (1, None), ("so", None)])
def test_whether_an_append_was_blind_is_true_or_false_or_not_known(said: Any, blind: bool | None) -> None:
    table = RawTable().create()
    table.commit(commit_info("WRITE", isBlindAppend=said))
    assert table.load().history(1)[0]["isBlindAppend"] is blind


def test_a_corrupt_commit_in_the_history_is_named() -> None:
    table = small_table()
    table.checkpoint(3)
    table.edit(commit(1), lambda _: b"garbage")
    with pytest.raises(CommitCorruptError) as caught:
        table.load().history()
    assert (caught.value.file, caught.value.version, caught.value.table) == (
        commit(1),
        1,
        table.store.url,
    )
    assert [e["version"] for e in table.load().history(3)] == [4, 3, 2]


# ---------------------------------------------------------------------------- the front door


@pytest.fixture
def on_disk(tmp_path: Path) -> tuple[Path, RawTable]:
    table = RawTable.on_disk(tmp_path / "t").create(add("a"))
    table.commit(add("b"))
    table.commit(add("c"))
    for version in range(3):
        moment = (START + version * 10 * SECOND) / 1000
        os.utime(tmp_path / "t" / LOG / commit(version), (moment, moment))
    return tmp_path / "t", table


def test_open_takes_a_moment_in_every_form(on_disk: tuple[Path, RawTable]) -> None:
    path, table = on_disk
    at_ten = datetime(2026, 1, 1, 0, 0, 10, tzinfo=timezone.utc)
    forms: list[Any] = [
        at_ten,
        at_ten.replace(tzinfo=None),
        at_ten.astimezone(timezone(timedelta(hours=5))),
        "2026-01-01T00:00:10Z",
        "2026-01-01 00:00:10",
        "2026-01-01T02:00:10+02:00",
        START + 10 * SECOND,
        START + 15 * SECOND,
    ]
    for form in forms:
        found = tidegate.open(path, timestamp=form)
        assert found.version == 1
        assert seen(found) == table.state(1)
    assert tidegate.open(path, timestamp="2026-01-01T00:00:20Z").version == 2


@pytest.mark.parametrize(
    "bad", ["yesterday", "", "2026-13-01", "2025-12-31T23:59:59Z", "2026-01-01T00:00:21Z"]
)
def test_open_refuses_what_is_no_moment_of_the_table(on_disk: tuple[Path, RawTable], bad: str) -> None:
    with pytest.raises(TimestampOutOfRangeError):
        tidegate.open(on_disk[0], timestamp=bad)


@pytest.mark.parametrize("bad", [1.5, True, b"2026-01-01", [0]])
def test_open_refuses_what_is_no_moment_at_all(on_disk: tuple[Path, RawTable], bad: Any) -> None:
    with pytest.raises(TimestampOutOfRangeError, match="cannot be converted to a valid timestamp"):
        tidegate.open(on_disk[0], timestamp=bad)


@pytest.mark.parametrize("bad", ["1", 1.0, True, [1]])
def test_open_refuses_what_is_no_version(on_disk: tuple[Path, RawTable], bad: Any) -> None:
    with pytest.raises(OptionError, match="is no version"):
        tidegate.open(on_disk[0], version=bad)


def test_open_takes_a_version_or_a_moment_not_both(on_disk: tuple[Path, RawTable]) -> None:
    with pytest.raises(TimestampOutOfRangeError):
        tidegate.open(on_disk[0], version=1, timestamp=START)
