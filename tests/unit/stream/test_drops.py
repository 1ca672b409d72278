"""Streams over a history in which a feature was dropped: each version they read is gated by its own protocol.

The newest protocol says nothing of the versions before it. A client that lacks the feature may stream what
came before the feature and what comes from the drop on, and is refused everything in between.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.features import TESTING, TRRW, drop, enable, log_of
from support.tables import LOG, RawTable, add, features, metadata
from tidegate.errors import LogTruncatedError, UnsupportedReaderFeatureError, VersionNotFoundError
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.snapshot import load
from tidegate.protocol.feature import Registry
from tidegate.spark.stream.offsets import BEFORE, Limits, StreamOffset
from tidegate.spark.stream.tail import StreamOptions, Tail

OLD = TESTING.without([TRRW])
FEED = {"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "100"}


class History:
    """Files a and b from before the feature, c and d with it, e and f after its drop."""

    def __init__(self) -> None:
        self.table = RawTable().create(configuration=FEED)
        self.log = log_of(self.table)
        self.table.commit(add("a"))
        self.before = self.table.commit(add("b"))
        enable(self.log, TRRW)
        self._catch_up()
        self.used = self.table.commit(add("c"))
        self.later = self.table.commit(add("d"))
        self.at = drop(self.log, TRRW).version
        self._catch_up()
        self.after = self.table.commit(add("e"))
        self.table.commit(add("f"))

    def _catch_up(self) -> None:
        """The product has written to the table too; what is added by hand comes after it."""
        self.table.commits += [[] for _ in range(load(self.log).version + 1 - len(self.table.commits))]

    def tail(self, registry: Registry = OLD, **options: Any) -> Tail:
        log = replace(self.log, registry=registry)
        return Tail(log, load(log), StreamOptions(**options))

    def moment(self, version: int) -> str:
        found = load(self.log, version).timestamp_ms
        return datetime.fromtimestamp(found / 1000, timezone.utc).isoformat(timespec="milliseconds")


@pytest.fixture
def history() -> History:
    return History()


def stream(tail: Tail, start: StreamOffset | None = None) -> list[str]:
    """Everything there is from an offset on, batch by batch; of the feed the versions in place of files."""
    out: list[str] = []
    while (end := tail.latest(start)) != start:
        found = tail.between(start, end)
        out += [*found.initial.column("path").to_pylist(), *found.added.column("path").to_pylist()]
        if tail.options.changes:
            out += [str(v) for v in range(found.first, found.last + 1)]
        start = end
    return out


def refused(tail: Tail, start: StreamOffset | None = None) -> int | None:
    with pytest.raises(UnsupportedReaderFeatureError) as e:
        stream(tail, start)
    assert e.value.errorClass == "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
    return e.value.version


def offset(tail: Tail, version: int, index: int = BEFORE, *, initial: bool = False) -> StreamOffset:
    return StreamOffset(tail.shape.metadata.id, version, index, initial)


def test_who_knows_the_feature_streams_all_of_it(history: History) -> None:
    assert stream(history.tail(TESTING, starting_version=0)) == list("abcdef")


def test_a_new_stream_of_an_old_client_reads_the_table_after_the_drop(history: History) -> None:
    assert sorted(stream(history.tail())) == list("abcdef")


def test_while_the_table_has_the_feature_no_stream_of_an_old_client_begins() -> None:
    table = RawTable().create()
    enable(log_of(table), TRRW)
    with pytest.raises(UnsupportedReaderFeatureError):
        load(replace(table.log, registry=OLD))


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("by", ["version", "timestamp"])
def test_a_start_among_versions_that_need_the_feature_is_refused(
    history: History, by: str, changes: bool
) -> None:
    """No commit from there on repeats the protocol that was set before: it is asked for itself."""
    for version in (history.used, history.later):
        said: dict[str, Any] = {"starting_version": version}
        if by == "timestamp":
            said = {"starting_timestamp": history.moment(version)}
        assert refused(history.tail(changes=changes, **said)) == version


def test_a_start_before_the_feature_is_served_up_to_it(history: History) -> None:
    tail = history.tail(starting_version=1)
    end = tail.latest(None)
    assert tail.between(None, end).added.column("path").to_pylist() == ["a", "b"]
    assert end == offset(tail, history.before + 1)
    assert refused(tail, end) == history.before + 1


@pytest.mark.parametrize("changes", [False, True])
def test_a_start_at_the_drop_or_after_it_is_served(history: History, changes: bool) -> None:
    for version in (history.at, history.after):
        expected = ["e", "f"] if not changes else [str(v) for v in range(version, history.after + 2)]
        assert stream(history.tail(starting_version=version, changes=changes)) == expected


@pytest.mark.parametrize("changes", [False, True])
def test_a_restart_among_versions_that_need_the_feature_is_refused(history: History, changes: bool) -> None:
    """The checkpoint was made by a client that knew the feature; the newest protocol looks clean."""
    for version in range(history.used, history.at):
        tail = history.tail(changes=changes)
        assert refused(tail, offset(tail, version)) == version
        again = history.tail(changes=changes)
        with pytest.raises(UnsupportedReaderFeatureError):
            again.between(offset(again, version), offset(again, version + 1))


def test_a_restart_within_the_table_as_it_was_then_is_refused(history: History) -> None:
    tail = history.tail()
    assert refused(tail, offset(tail, history.later, 0, initial=True)) == history.later
    assert stream(history.tail(TESTING), offset(tail, history.later, 0, initial=True))[-2:] == ["e", "f"]


def test_a_stream_from_before_the_drop_goes_on_after_it(history: History) -> None:
    """Restarted by who knows the feature, and by who does not from where that one has come to."""
    able = history.tail(TESTING)
    assert stream(able, offset(able, history.used)) == list("cdef")
    old = history.tail()
    assert stream(old, offset(old, history.at)) == ["e", "f"]


def test_a_running_stream_passes_the_drop() -> None:
    table = RawTable().create(configuration=FEED)
    log = log_of(table)
    enable(log, TRRW)
    tail = Tail(log, load(log), StreamOptions())
    at = tail.latest(None)
    drop(log, TRRW)
    table.commits += [[] for _ in range(load(log).version + 1 - len(table.commits))]
    table.commit(add("z"))
    assert stream(tail, at) == ["z"]


def test_commits_that_may_be_lost_may_have_changed_the_protocol(history: History) -> None:
    """With failOnDataLoss = false the stream goes on behind a gap, if it may read what is there."""
    write_checkpoint(load(history.log, history.used))
    tail = history.tail(fail_on_data_loss=False)
    start = offset(tail, history.before)
    for version in range(history.before + 1, history.used):
        history.table.store.delete([f"{LOG}/{version:020d}.json"])
    assert tail.latest(start) == start.next_version()
    assert refused(tail, start.next_version()) == history.used


@pytest.mark.parametrize("checksums", [True, False])
def test_a_version_that_cannot_be_opened_any_more_is_told_by_its_checksum(
    history: History, checksums: bool
) -> None:
    """A cleanup that died halfway: commits are left that no checkpoint leads to."""
    for version in range(history.used):
        history.table.store.delete([f"{LOG}/{version:020d}.json"])
    if checksums:
        history.table.checksum(history.later, protocol=_protocol(history, history.at - 1))
        assert refused(history.tail(starting_version=history.later)) == history.later
        able = history.tail(TESTING)
        assert stream(able, offset(able, history.later)) == ["d", "e", "f"]
    else:
        tail = history.tail()
        with pytest.raises((VersionNotFoundError, LogTruncatedError)):
            stream(tail, offset(tail, history.later))


def _protocol(history: History, version: int) -> Any:
    return load(history.log, version).protocol.to_wire()


def test_where_nothing_was_dropped_such_a_version_is_streamed_as_ever() -> None:
    """Protocols have only grown then: who supports the newest supports every one before."""
    table = RawTable().create()
    for name in "abcd":
        table.commit(add(name))
    table.checkpoint(3)
    table.delete_commits(2)
    tail = Tail(table.log, table.load(), StreamOptions(starting_version=2))
    assert stream(tail) == ["b", "c", "d"]


PLAIN = features(writers=["appendOnly", "invariants", "checkpointProtection"])
NEW = features("fromTheFuture", writers=["appendOnly", "invariants", "checkpointProtection"])


@given(st.data())
def test_a_stream_passes_on_every_version_up_to_the_first_that_it_may_not_read(data: st.DataObject) -> None:
    """Any history of a feature that comes and goes, any place to begin, restart or pass over a gap."""
    draw = data.draw
    count = draw(st.integers(2, 10))
    has = [*draw(st.lists(st.booleans(), min_size=count - 1, max_size=count - 1)), False]
    boundary = {"delta.requireCheckpointProtectionBeforeVersion": str(count - 1)}
    table = RawTable()
    for version, new in enumerate(has):
        changed = version == 0 or new != has[version - 1]
        head = [metadata(configuration=boundary)] if version == 0 else []
        table.commit(*([NEW if new else PLAIN] if changed else []), *head, add(str(version)))
        if draw(st.booleans()):
            table.checkpoint(version)
    start = draw(st.integers(0, count - 1))
    if draw(st.booleans()):
        tail, at = Tail(table.log, table.load(), StreamOptions(starting_version=start)), None
    else:
        tail = Tail(table.log, table.load(), StreamOptions())
        at = offset(tail, start)
    readable = list(itertools.takewhile(lambda v: not has[v], range(start, count)))
    passed: list[str] = []
    refused_at = None
    try:
        while (end := tail.latest(at, Limits(draw(st.integers(1, 3)), None))) != at:
            passed += tail.between(at, end).added.column("path").to_pylist()
            at = end
    except UnsupportedReaderFeatureError as e:
        refused_at = e.version
    assert passed == [str(v) for v in readable]
    assert refused_at == (None if len(readable) == count - start else start + len(readable))
