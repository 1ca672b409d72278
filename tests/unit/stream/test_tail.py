"""A table's log as a stream of files: what is passed on, when, and what stops it. No Spark."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tables import RawTable, add, column, features, metadata, protocol, remove, schema_string
from tidegate.errors import (
    ChangeDataMissingError,
    StreamDataLossError,
    StreamSchemaChangedError,
    StreamSourceChangedError,
    TidegateError,
    TimestampOutOfRangeError,
    UnsupportedReaderFeatureError,
    VersionNotFoundError,
)
from tidegate.spark.stream.offsets import NO_LIMITS, Limits, StreamOffset
from tidegate.spark.stream.tail import LATEST, StreamOptions, Tail

ID = metadata()["metaData"]["id"]


def _tail(table: RawTable, version: int | None = None, **options: Any) -> Tail:
    return Tail(table.log, table.load(version), StreamOptions(**options))


def _paths(tail: Tail, start: StreamOffset | None, end: StreamOffset) -> list[str]:
    found = tail.between(start, end)
    return [*found.initial.column("path").to_pylist(), *found.added.column("path").to_pylist()]


def _drain(
    tail: Tail, start: StreamOffset | None = None, limits: Limits = NO_LIMITS
) -> tuple[list[str], StreamOffset]:
    """Batches until there is nothing new: the files in the order they came, and where it ended."""
    out: list[str] = []
    while True:
        end = tail.latest(start, limits)
        if end == start:
            assert start is not None
            return out, start
        out += _paths(tail, start, end)
        start = end


def _table(*names: str) -> RawTable:
    return RawTable().create(*[add(n) for n in names])


# ---------------------------------------------------------------------------- what is passed on


def test_the_table_as_it_is_comes_first_then_what_is_added() -> None:
    table = _table("a", "b")
    table.commit(add("c"))
    tail = _tail(table)
    first, at = _drain(tail)
    assert sorted(first) == ["a", "b", "c"]
    assert at == StreamOffset(ID, 2)
    table.commit(add("d"), add("e"))
    table.commit(add("f"))
    assert _drain(tail, at)[0] == ["d", "e", "f"]


def test_files_that_were_removed_before_the_stream_began_are_not_in_it() -> None:
    table = _table("a", "b")
    table.commit(remove("a"))
    assert _drain(_tail(table))[0] == ["b"]


def test_files_that_change_no_data_are_not_passed_on() -> None:
    table = _table("a", "b")
    tail = _tail(table)
    _, at = _drain(tail)
    table.commit(remove("a", dataChange=False), remove("b", dataChange=False), add("ab", dataChange=False))
    files, at = _drain(tail, at)
    assert files == []
    assert at == StreamOffset(ID, 2)


@given(
    st.lists(st.lists(st.integers(1, 30), max_size=5), min_size=1, max_size=6),
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(1, 4), st.one_of(st.none(), st.integers(1, 60))), min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=1, max_size=7),
)
def test_every_file_comes_once_whatever_the_limits_and_the_restarts(
    commits: list[list[int]],
    present: int,
    limits: list[tuple[int, int | None]],
    restarts: list[bool],
) -> None:
    """Some commits are there at the start, the others come later; some batches are asked for twice."""
    table = RawTable().create()
    waiting = [
        [add(f"{i}-{j}", size=size) for j, size in enumerate(sizes)] for i, sizes in enumerate(commits)
    ]
    for actions in waiting[:present]:
        table.commit(*actions)
    expected = [a["add"]["path"] for actions in waiting for a in actions]
    tail = _tail(table)
    start: StreamOffset | None = None
    seen: list[str] = []
    late = waiting[present:]
    for step in range(200):
        end = tail.latest(start, Limits(*limits[step % len(limits)]))
        if end == start:
            if not late:
                break
            table.commit(*late.pop(0))
            continue
        batch = _paths(tail, start, end)
        if restarts[step % len(restarts)]:
            tail = _tail(table)
            assert _paths(tail, start, end) == batch
        seen += batch
        start = end
        tail.forget(end)
    assert sorted(seen) == sorted(expected)
    assert len(seen) == len(expected)


def test_batches_keep_to_their_limits() -> None:
    table = RawTable().create(*[add(str(i), size=10) for i in range(5)])
    tail = _tail(table)
    sizes = []
    start: StreamOffset | None = None
    while (end := tail.latest(start, Limits(2, None))) != start:
        sizes.append(len(_paths(tail, start, end)))
        start = end
    assert sizes == [2, 2, 1]
    end = _tail(table).latest(None, Limits(None, 25))
    assert len(_paths(_tail(table), None, end)) == 3


def test_available_now_ends_at_what_was_there_when_it_began() -> None:
    table = _table("a")
    tail = _tail(table)
    tail.available_now()
    table.commit(add("b"))
    at = tail.latest(None)
    table.commit(add("c"))
    files, at = _drain(tail, at)
    assert files == ["b"]
    assert _drain(_tail(table), at)[0] == ["c"]


def test_excluded_files_are_left_out_and_still_counted() -> None:
    table = _table("keep-1", "drop-1", "keep-2")
    files, at = _drain(_tail(table, exclude="^drop"), limits=Limits(1, None))
    assert files == ["keep-1", "keep-2"]
    assert at == StreamOffset(ID, 1)


# ---------------------------------------------------------------------------- where it begins


def test_a_stream_begins_at_a_version() -> None:
    table = _table("a")
    table.commit(add("b"))
    table.commit(add("c"))
    assert _drain(_tail(table, starting_version=1))[0] == ["b", "c"]
    assert _drain(_tail(table, starting_version=0))[0] == ["a", "b", "c"]
    with pytest.raises(VersionNotFoundError):
        _tail(table, starting_version=3).latest(None)


def test_a_stream_that_begins_with_the_latest_keeps_to_it_over_a_restart() -> None:
    table = _table("a")
    tail = _tail(table, starting_version=LATEST)
    at = tail.latest(None)
    assert at == StreamOffset(ID, 1)
    table.commit(add("b"))
    again = _tail(table, starting_version=LATEST)
    assert _paths(again, None, at) == []
    assert _drain(again, at)[0] == ["b"]


def test_a_stream_begins_at_the_first_version_at_or_after_a_time() -> None:
    table = _table("a")
    table.commit(add("b"))
    table.commit(add("c"))
    times = [table.load(v).timestamp_ms for v in range(3)]
    text = [_moment(t) for t in times]
    assert _drain(_tail(table, starting_timestamp=text[1]))[0] == ["b", "c"]
    assert _drain(_tail(table, starting_timestamp=_moment(times[1] - 1)))[0] == ["b", "c"]
    assert _drain(_tail(table, starting_timestamp=_moment(times[0] - 10**6)))[0] == ["a", "b", "c"]
    with pytest.raises(TimestampOutOfRangeError, match="latest"):
        _tail(table, starting_timestamp=_moment(times[2] + 1)).latest(None)


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="milliseconds")


# ---------------------------------------------------------------------------- what stops it


def _after_start(*actions: Any, **options: Any) -> tuple[list[str], Tail, StreamOffset, RawTable]:
    """A stream that has passed on the files a and b; then c is added, then ``actions`` are committed."""
    table = _table("a", "b")
    tail = _tail(table, **options)
    _, at = _drain(tail)
    table.commit(add("c"))
    table.commit(*actions)
    end = tail.latest(at)
    return _paths(tail, at, end), tail, end, table


CHANGE = (remove("a"), add("a2"))
DELETE = (remove("a"),)


@pytest.mark.parametrize(
    ("actions", "condition"),
    [(CHANGE, "DELTA_SOURCE_TABLE_IGNORE_CHANGES"), (DELETE, "DELTA_SOURCE_IGNORE_DELETE")],
)
def test_changed_or_deleted_rows_stop_the_stream_after_what_came_before(
    actions: tuple[Any, ...], condition: str
) -> None:
    files, tail, at, _ = _after_start(*actions)
    assert files == ["c"]
    with pytest.raises(StreamSourceChangedError) as caught:
        tail.latest(at)
    assert caught.value.errorClass == condition
    assert caught.value.version == 2


@pytest.mark.parametrize(
    ("option", "actions", "files"),
    [
        ("ignore_deletes", DELETE, ["c"]),
        ("ignore_changes", DELETE, ["c"]),
        ("ignore_changes", CHANGE, ["c", "a2"]),
        ("skip_change_commits", DELETE, ["c"]),
        ("skip_change_commits", CHANGE, ["c"]),
    ],
)
def test_options_say_what_becomes_of_changes(option: str, actions: tuple[Any, ...], files: list[str]) -> None:
    found, tail, at, table = _after_start(*actions, **{option: True})
    table.commit(add("z"))
    assert [*found, *_drain(tail, at)[0]] == [*files, "z"]


def test_ignoring_deletes_does_not_allow_changes() -> None:
    _, tail, at, _ = _after_start(*CHANGE, ignore_deletes=True)
    with pytest.raises(StreamSourceChangedError):
        tail.latest(at)


def _with(*more: Any, without: int = 0) -> Any:
    """The default columns but the first few, and ``more``."""
    columns = json.loads(metadata()["metaData"]["schemaString"])["fields"]
    return metadata(schema_string(*columns[without:], *more))


def test_a_new_column_stops_the_stream_and_the_next_start_goes_on() -> None:
    files, tail, at, table = _after_start(_with(column("more")), add("d"))
    assert files == ["c"]
    with pytest.raises(StreamSchemaChangedError, match="Start the query again") as caught:
        tail.latest(at)
    assert caught.value.version == 2
    assert _drain(_tail(table), at)[0] == ["d"]


def test_a_column_that_is_gone_cannot_be_streamed_over() -> None:
    _, tail, at, table = _after_start(_with(column("more"), without=1), add("d"))
    with pytest.raises(StreamSchemaChangedError):
        tail.latest(at)
    with pytest.raises(StreamSchemaChangedError, match="new checkpoint"):
        _drain(_tail(table, starting_version=1))


def test_metadata_that_leaves_the_columns_alone_does_not_stop_the_stream() -> None:
    files, tail, at, _ = _after_start(metadata(configuration={"delta.appendOnly": "true"}), add("d"))
    assert files == ["c", "d"]
    assert tail.latest(at) == at


def test_a_table_in_place_of_another_stops_the_stream() -> None:
    _, tail, at, _ = _after_start(metadata(id="another"), add("d"))
    with pytest.raises(StreamSchemaChangedError, match="replaced"):
        tail.latest(at)


def test_a_protocol_that_is_not_supported_stops_the_stream() -> None:
    _, tail, at, _ = _after_start(features("fromTheFuture"), add("d"))
    with pytest.raises(UnsupportedReaderFeatureError) as caught:
        tail.latest(at)
    assert caught.value.version == 2


def test_a_protocol_that_is_supported_does_not() -> None:
    assert _after_start(protocol(1, 4), add("d"))[0] == ["c", "d"]


def _truncated() -> tuple[RawTable, StreamOffset]:
    table = _table("a")
    at = _tail(table).latest(None)
    for name in "bcd":
        table.commit(add(name))
    table.checkpoint()
    table.delete_commits(3)
    return table, at


def test_commits_that_are_gone_stop_the_stream() -> None:
    table, at = _truncated()
    with pytest.raises(StreamDataLossError, match="failOnDataLoss") as caught:
        _tail(table).latest(at)
    assert caught.value.version == 1


def test_commits_that_are_gone_may_be_passed_over() -> None:
    table, at = _truncated()
    tail = _tail(table, fail_on_data_loss=False)
    files, end = _drain(tail, at)
    assert files == ["d"]
    assert end == StreamOffset(ID, 4)


# ---------------------------------------------------------------------------- change feed

FEED = {"delta.enableChangeDataFeed": "true"}


def test_the_feed_keeps_commits_together() -> None:
    table = RawTable().create(add("a"), configuration=FEED)
    tail = _tail(table, changes=True, starting_version=0)
    table.commit(remove("a"), add("b"), add("c"))
    table.commit(add("d"))
    at = tail.latest(None, Limits(2, None))
    assert (tail.between(None, at).first, tail.between(None, at).last) == (0, 0)
    then = tail.latest(at, Limits(2, None))
    assert (tail.between(at, then).first, tail.between(at, then).last) == (1, 1)
    assert tail.latest(then, Limits(2, None)) == StreamOffset(ID, 3)


def test_a_version_without_the_feed_stops_its_stream() -> None:
    table = RawTable().create(configuration=FEED)
    tail = _tail(table, changes=True)
    at = tail.latest(None)
    table.commit(metadata(), add("a"))
    with pytest.raises(ChangeDataMissingError):
        tail.latest(at)
    with pytest.raises(ChangeDataMissingError):
        _tail(_table("a"), changes=True).latest(None)


def test_every_failure_names_the_table() -> None:
    _, tail, at, _ = _after_start(*CHANGE)
    with pytest.raises(TidegateError) as caught:
        tail.latest(at)
    assert caught.value.table == tail.log.url
