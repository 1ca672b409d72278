"""A transaction from begin to commit: what it reads, when its metadata stands, what commitInfo says."""

from __future__ import annotations

import logging
import random
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tables import DAY, START, Clock, RawTable, add, features, metadata, seen, txn
from support.transactions import (
    FIRST,
    OPERATIONS,
    begin,
    commit_info,
    commit_lines,
    everything,
    file,
    gone,
    versions,
    with_property,
)
from tidegate import errors
from tidegate.log.actions import Cdc, Txn
from tidegate.log.snapshot import load
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol
from tidegate.transaction.conflicts import Isolation
from tidegate.transaction.pending import Changes, Operation
from tidegate.transaction.transaction import ENGINE, Transaction


def metadata_of(**more: Any) -> Metadata:
    return msgspec.convert(metadata(**more)["metaData"], Metadata)


# ---------------------------------------------------------------------------- a path without a log


def test_a_path_without_a_log_is_read_at_version_minus_one_with_the_protocol_of_empty_metadata() -> None:
    transaction = begin(RawTable())
    assert transaction.read_version == -1
    assert transaction.protocol == Protocol(1, 2)
    assert transaction.metadata.schema.fields == ()
    assert transaction.metadata.configuration == {}


def test_the_session_s_defaults_decide_the_protocol_of_empty_metadata() -> None:
    transaction = begin(RawTable(), defaults={"delta.minWriterVersion": "5", "delta.minReaderVersion": "2"})
    assert transaction.protocol == Protocol(2, 5)


def test_every_table_that_is_made_from_empty_metadata_has_an_id_of_its_own() -> None:
    ids = {begin(RawTable()).metadata.id for _ in range(3)}
    assert len(ids) == 3


def test_a_table_is_made_with_protocol_and_metadata() -> None:
    table = RawTable()
    transaction = begin(table)
    transaction.update_metadata(metadata_of(configuration={"delta.appendOnly": "true"}, createdTime=None))
    committed = transaction.commit([file("x")], Operation("CREATE TABLE"))
    assert committed.version == 0
    assert [next(iter(a)) for a in commit_lines(table, 0)] == ["commitInfo", "protocol", "metaData", "add"]
    snapshot = load(table.log)
    assert snapshot.protocol == Protocol(1, 2)
    assert snapshot.metadata.created_time == table.clock()
    assert "readVersion" not in commit_info(table, 0), "there was nothing to read"
    assert seen(snapshot) == seen(committed.snapshot)


# ---------------------------------------------------------------------------- has written (seed 003)


def test_metadata_may_change_until_files_are_written() -> None:
    transaction = begin(everything())
    assert not transaction.has_written
    transaction.update_metadata(with_property(transaction, appendOnly="true"))
    transaction.mark_written()
    assert transaction.has_written
    assert transaction.metadata.configuration["delta.appendOnly"] == "true"


def test_the_mark_is_set_before_the_job_and_stays_when_the_job_fails() -> None:
    table = everything()
    transaction = begin(table)

    def job() -> None:
        assert transaction.has_written, "set before the job starts"
        raise RuntimeError("an executor was lost")

    transaction.mark_written()
    with pytest.raises(RuntimeError):
        job()
    assert transaction.has_written
    with pytest.raises(AssertionError, match="has already written data") as raised:
        transaction.update_metadata(with_property(transaction, appendOnly="true"))
    assert isinstance(raised.value, errors.TransactionStateError)
    assert raised.value.code == "TRANSACTION_STATE"


def test_metadata_among_the_actions_is_bound_by_the_mark_too() -> None:
    table = everything()
    transaction = begin(table)
    transaction.mark_written()
    with pytest.raises(AssertionError, match="has already written data"):
        transaction.commit([with_property(transaction, appendOnly="true"), file("x", day=FIRST)])
    assert versions(table) == [0]


def test_a_transaction_that_has_written_may_still_commit() -> None:
    table = everything()
    transaction = begin(table)
    transaction.mark_written()
    transaction.commit([file("x", day=FIRST)])
    assert "x" in seen(load(table.log)).paths


# ---------------------------------------------------------------------------- once only


def test_a_transaction_is_used_once() -> None:
    table = everything()
    transaction = begin(table)
    transaction.commit([file("x", day=FIRST)])
    with pytest.raises(errors.TransactionStateError, match="begin a new one"):
        transaction.commit([file("y", day=FIRST)])
    assert versions(table) == [0, 1]


def test_a_transaction_that_was_refused_is_over_too() -> None:
    transaction = begin(everything())
    with pytest.raises(errors.CommitRefusedError):
        transaction.commit([file("x")])
    with pytest.raises(errors.TransactionStateError):
        transaction.commit([file("x", day=FIRST)])


def test_the_snapshot_of_a_commit_is_the_start_of_the_next_transaction() -> None:
    table = everything()
    snapshot = load(table.log)
    for number in range(1, 25):
        committed = Transaction(table.log, snapshot).commit([file(f"x{number:02d}", day=FIRST)])
        snapshot = committed.snapshot
        assert committed.version == number == snapshot.version
        assert seen(snapshot) == seen(load(table.log))


# ---------------------------------------------------------------------------- reading


def test_reads_are_recorded_as_they_were_asked_for() -> None:
    transaction = begin(everything())
    assert transaction.read_set.empty
    transaction.files(f"day = DATE '{FIRST}'")
    assert [str(p) for p in transaction.read_set.predicates]
    assert [sorted(p.to_pylist()) for p in transaction.read_set.files] == [["f1", "f2"]]
    assert not transaction.read_set.whole_table
    transaction.files()
    assert transaction.read_set.whole_table


def test_the_version_of_an_application_counts_as_read() -> None:
    transaction = begin(everything())
    assert transaction.app_version("A") == 1
    assert transaction.app_version("nobody") is None
    assert transaction.read_set.apps == {"A", "nobody"}


def test_of_two_that_write_for_one_application_without_reading_one_is_stopped() -> None:
    table = everything()
    one, other = begin(table), begin(table)
    one.commit([Txn(app_id="stream", version=7), file("one", day=FIRST)])
    with pytest.raises(errors.ConcurrentTransactionException):
        other.commit([Txn(app_id="stream", version=7), file("other", day=FIRST)])
    assert "other" not in seen(load(table.log)).paths


def test_application_versions_may_go_down() -> None:
    table = RawTable().create(txn("A", 9))
    begin(table).commit([Txn(app_id="A", version=2, last_updated=5)])
    assert load(table.log).transactions["A"] == Txn(app_id="A", version=2, last_updated=5)


# ---------------------------------------------------------------------------- isolation and blindness


@pytest.mark.parametrize(
    ("name", "isolation", "blind"),
    [
        ("append", "Serializable", True),
        ("append with read", "Serializable", False),
        ("delete partition", "Serializable", False),
        ("overwrite", "Serializable", False),
        ("optimize", "SnapshotIsolation", False),
        ("metadata", "Serializable", True),
        ("same application", "Serializable", True),
        ("other domain", "Serializable", True),
        ("nothing", "SnapshotIsolation", True),
        ("delete by vector", "Serializable", False),
    ],
)
def test_commit_info_says_how_isolated_and_how_blind(name: str, isolation: str, blind: bool) -> None:
    table = everything()
    transaction = begin(table)
    OPERATIONS[name](transaction, "x").commit(transaction)
    info = commit_info(table, 1)
    assert (info["isolationLevel"], info["isBlindAppend"]) == (isolation, blind)


def test_an_append_that_read_only_a_file_is_not_blind() -> None:
    table = everything()
    transaction = begin(table)
    assert transaction.snapshot is not None
    transaction.read_files(transaction.snapshot.files(columns=["path"]).slice(0, 1))
    transaction.commit([file("x", day=FIRST)])
    assert commit_info(table, 1)["isBlindAppend"] is False


MOVED = [gone(file("f1", day=FIRST), change=False), file("f9", day=FIRST, data_change=False)]


@pytest.mark.parametrize(
    ("more", "rearranges"),
    [
        ([], True),
        ([Txn(app_id="a", version=1)], False),
        ([metadata_of()], False),
        ([Protocol(1, 2)], False),
        ([file("x", day=FIRST)], False),
        ([gone(file("f2", day=FIRST))], False),
        ([Cdc(path="c", size=1)], True),
    ],
    ids=lambda v: type(v[0]).__name__ if isinstance(v, list) and v else str(v),
)
def test_only_what_moves_rows_and_says_nothing_new_is_isolated_less(
    more: list[Any], rearranges: bool
) -> None:
    assert Changes.of([*MOVED, *more]).only_rearranges is rearranges


def test_a_commit_of_nothing_is_isolated_less() -> None:
    assert Changes.of([]).only_rearranges


def test_there_are_two_levels_of_isolation() -> None:
    assert [i.value for i in Isolation] == ["Serializable", "SnapshotIsolation"]


# ---------------------------------------------------------------------------- commitInfo


def test_commit_info_is_complete() -> None:
    table = everything()
    table.clock.tick()
    transaction = begin(table)
    transaction.commit(
        [file("x", day=FIRST)],
        Operation("WRITE", {"mode": "Append", "partitionBy": ["day"], "flag": True}),
        metrics={"numFiles": 1, "numOutputRows": "10"},
        user_metadata="by hand",
        tags={"k": "v"},
    )
    assert commit_info(table, 1) == {
        "timestamp": table.clock(),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": '["day"]', "flag": True},
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1", "numOutputRows": "10"},
        "userMetadata": "by hand",
        "tags": {"k": "v"},
        "engineInfo": ENGINE,
        "txnId": transaction.txn_id,
    }


def test_history_reads_it_back() -> None:
    table = everything()
    begin(table).commit([file("x", day=FIRST)], "STREAMING UPDATE", user_metadata="u")
    newest = load(table.log).history(1)[0]
    assert (newest["version"], newest["operation"], newest["userMetadata"]) == (1, "STREAMING UPDATE", "u")
    assert newest["engineInfo"] == ENGINE


def test_every_transaction_has_an_id_of_its_own() -> None:
    table = everything()
    assert len({begin(table).txn_id for _ in range(100)}) == 100


# ---------------------------------------------------------------------------- in-commit timestamps


def with_times(clock: Clock) -> RawTable:
    table = RawTable(clock=clock)
    transaction = begin(table)
    transaction.update_metadata(metadata_of(configuration={"delta.enableInCommitTimestamps": "true"}))
    transaction.commit()
    return table


def own_times(table: RawTable) -> list[int]:
    return [commit_info(table, v)["inCommitTimestamp"] for v in versions(table)]


def test_in_commit_timestamps_stand_first_in_commit_info() -> None:
    table = with_times(Clock())
    info = commit_info(table, 0)
    assert next(iter(info)) == "inCommitTimestamp"
    assert info["inCommitTimestamp"] == info["timestamp"] == START


def test_a_table_that_has_always_had_them_needs_no_provenance() -> None:
    properties = load(with_times(Clock()).log).properties
    assert not [k for k in properties if "Enablement" in k]


def test_a_clock_that_goes_back_does_not_take_the_table_with_it() -> None:
    clock = Clock()
    table = with_times(clock)
    for step in (1000, -5000, 0, 0, 3000, -DAY):
        clock.tick(step)
        begin(table).commit([file(f"x{clock()}{len(versions(table))}")])
    times = own_times(table)
    assert times == sorted(set(times))
    assert load(table.log).timestamp_ms == times[-1]


@given(st.lists(st.integers(-5000, 5000), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_times_increase_through_races_and_clocks_that_jump(steps: list[int], order: random.Random) -> None:
    clock = Clock()
    table = with_times(clock)
    waiting: list[Transaction] = []
    for number, step in enumerate(steps):
        clock.tick(step)
        waiting.append(begin(table))
        if order.random() < 0.6:
            waiting.pop(order.randrange(len(waiting))).commit([file(f"x{number}")])
    for number, transaction in enumerate(waiting):
        transaction.commit([file(f"y{number}")])
    times = own_times(table)
    assert len(times) == len(steps) + 1
    assert all(later > earlier for earlier, later in pairwise(times))


def test_the_commit_that_switches_times_on_says_when_and_is_later_than_the_one_before() -> None:
    clock = Clock()
    table = everything(clock)
    clock.now -= DAY
    transaction = begin(table)
    transaction.update_metadata(with_property(transaction, enableInCommitTimestamps="true"))
    transaction.commit()
    snapshot = load(table.log)
    before = table.store.head("_delta_log/00000000000000000000.json").modified
    assert snapshot.timestamp_ms == before + 1
    assert snapshot.properties["delta.inCommitTimestampEnablementVersion"] == "1"
    assert snapshot.properties["delta.inCommitTimestampEnablementTimestamp"] == str(before + 1)


def test_the_provenance_is_that_of_the_version_it_really_became() -> None:
    table = everything()
    loser = begin(table)
    loser.update_metadata(with_property(loser, enableInCommitTimestamps="true"))
    for number in range(3):
        table.clock.tick()
        begin(table).commit([file(f"w{number}", day=FIRST)])
    loser.commit()
    snapshot = load(table.log)
    assert snapshot.version == 4
    assert snapshot.properties["delta.inCommitTimestampEnablementVersion"] == "4"
    assert int(snapshot.properties["delta.inCommitTimestampEnablementTimestamp"]) == snapshot.timestamp_ms
    last = table.store.head("_delta_log/00000000000000000003.json").modified
    assert snapshot.timestamp_ms > last


def test_later_metadata_hands_the_provenance_on() -> None:
    table = everything()
    enable = begin(table)
    enable.update_metadata(with_property(enable, enableInCommitTimestamps="true"))
    enable.commit()
    provenance = {k: v for k, v in load(table.log).properties.items() if "Enablement" in k}
    later = begin(table)
    configuration = {"delta.enableInCommitTimestamps": "true", "delta.checkpointInterval": "20"}
    later.update_metadata(later.metadata.with_configuration(configuration))
    later.commit()
    assert load(table.log).properties == {**configuration, **provenance}


def test_times_that_were_switched_off_and_on_again_start_anew() -> None:
    table = everything()
    for value in ("true", "false", "true"):
        table.clock.tick()
        transaction = begin(table)
        transaction.update_metadata(with_property(transaction, enableInCommitTimestamps=value))
        transaction.commit()
        assert ("inCommitTimestamp" in commit_info(table, transaction.read_version + 1)) is (value == "true")
    assert load(table.log).properties["delta.inCommitTimestampEnablementVersion"] == "3"


def test_a_winner_s_time_counts_even_if_it_is_in_the_future() -> None:
    clock = Clock()
    table = with_times(clock)
    loser = begin(table)
    clock.tick(DAY)
    begin(table).commit([file("w")])
    clock.tick(-DAY)
    loser.commit([file("x")])
    assert own_times(table) == [START, START + DAY, START + DAY + 1]


# ---------------------------------------------------------------------------- the trace


def test_debug_traces_each_step_of_a_commit(caplog: pytest.LogCaptureFixture) -> None:
    table = everything()
    loser = begin(table)
    begin(table, hooks=()).commit([file("w", day=FIRST)], "MERGE")
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="tidegate.transaction"):
        loser.commit([file("x", day=FIRST), Txn(app_id="a", version=1)])
    said = [r.getMessage().removeprefix("memory://: ") for r in caplog.records]
    assert said == [
        "1 adds, 1 txns; checked against version 0",
        "attempt 1 at version 1",
        "version 1 (MERGE) came first",
        "no conflict; rebased onto version 1",
        "attempt 2 at version 2",
        f"version 2 is committed ({loser.txn_id})",
        "checksum_hook ran after version 2",
        "compaction_hook ran after version 2",
        "checkpoint_hook ran after version 2",
        "manifest_hook ran after version 2",
    ]


def test_the_trace_names_the_conflict(caplog: pytest.LogCaptureFixture) -> None:
    table = everything()
    with caplog.at_level(logging.DEBUG, logger="tidegate.transaction"):
        loser = begin(table)
        assert caplog.records[-1].getMessage().endswith("begins at version 0")
        loser.read_table()
        begin(table).commit([file("w", day=FIRST)])
        with pytest.raises(errors.ConcurrentAppendException):
            loser.commit([file("x", day=FIRST)])
    assert caplog.records[-1].getMessage().endswith("in conflict with it: ConcurrentAppendException")


# ---------------------------------------------------------------------------- row tracking and attempts


def test_files_that_carry_ids_keep_them() -> None:
    table = RawTable().create(
        add("old", stats='{"numRecords":5}', baseRowId=0, defaultRowCommitVersion=0),
        {
            "domainMetadata": {
                "domain": "delta.rowTracking",
                "configuration": '{"rowIdHighWaterMark":4}',
                "removed": False,
            }
        },
        protocol=features(writers=["domainMetadata", "rowTracking"]),
    )
    kept = file(
        "old",
        stats='{"numRecords":5}',
        base_row_id=0,
        default_row_commit_version=0,
        data_change=False,
        tags={"t": "1"},
    )
    begin(table).commit([kept])
    [line] = [a["add"] for a in commit_lines(table, 1) if "add" in a]
    assert (line["baseRowId"], line["defaultRowCommitVersion"]) == (0, 0)
    assert not [a for a in commit_lines(table, 1) if "domainMetadata" in a], "no new id was given out"


def test_suspended_row_tracking_gives_out_no_ids() -> None:
    table = RawTable().create(
        configuration={"delta.rowTrackingSuspended": "true"},
        protocol=features(writers=["domainMetadata", "rowTracking"]),
    )
    begin(table).commit([file("x")])
    assert "baseRowId" not in commit_lines(table, 1)[1]["add"]


def test_an_empty_file_owns_no_ids() -> None:
    table = RawTable().create(protocol=features(writers=["domainMetadata", "rowTracking"]))
    begin(table).commit([file("x", stats='{"numRecords":0}')])
    assert commit_lines(table, 1)[1]["add"]["baseRowId"] == 0
    assert "delta.rowTracking" not in load(table.log).domains
    begin(table).commit([file("y", stats='{"numRecords":3}')])
    assert load(table.log).domains["delta.rowTracking"].configuration == '{"rowIdHighWaterMark":2}'


def test_a_commit_gives_up_after_so_many_attempts() -> None:
    table = everything()
    pauses: list[float] = []
    loser = Transaction.begin(table.log, max_attempts=4, sleep=pauses.append)
    others = table.memory.handle()

    def rival(op: str, name: str) -> None:
        if op == "put_if_absent" and name.endswith(".json"):
            others.put_if_absent(name, b'{"commitInfo":{"operation":"RIVAL"}}\n')

    table.memory.hook = rival
    with pytest.raises(errors.MaxCommitAttemptsError, match="lost 4 races") as raised:
        loser.commit([file("x", day=FIRST)])
    assert raised.value.errorClass == "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
    assert versions(table) == [0, 1, 2, 3, 4]
    assert len(pauses) == 2, "the first retry is made at once, the last is not made"
    assert all(0 <= p <= 0.5 for p in pauses)


def test_a_commit_that_loses_again_and_again_gets_there() -> None:
    table = everything()
    others, left = table.memory.handle(), [20]

    def rival(op: str, name: str) -> None:
        if op == "put_if_absent" and name.endswith(".json") and left[0]:
            left[0] -= 1
            others.put_if_absent(name, b'{"commitInfo":{"operation":"RIVAL"}}\n')

    loser = begin(table)
    table.memory.hook = rival
    committed = loser.commit([file("x", day=FIRST)])
    assert (committed.version, committed.attempts) == (21, 21)
    assert seen(committed.snapshot) == seen(load(table.log))
