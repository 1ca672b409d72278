"""What happens after a commit: checksums, checkpoints, compactions, cleanup. None of it can undo it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tables import DAY, Clock, RawTable, add, seen
from support.transactions import (
    FIRST,
    OPERATIONS,
    begin,
    everything,
    file,
    gone,
    no_sleep,
    versions,
    with_property,
)
from tidegate.errors import DeltaConcurrentModificationException, StorageError, TidegateError
from tidegate.log import checksum as checksums
from tidegate.log import names as log_names
from tidegate.log.checksum import Checksum
from tidegate.log.snapshot import load
from tidegate.transaction.hooks import HOOKS, AfterCommit
from tidegate.transaction.transaction import Transaction


def checksum_of(table: RawTable, version: int) -> Checksum | None:
    name = log_names.checksum(version)
    return checksums.decode(table.bytes(name)) if name in table.names() else None


def agrees(table: RawTable, version: int) -> bool:
    """Whether a version has a checksum; if it does, it must be what a replay from the start counts."""
    found = checksum_of(table, version)
    if found is None:
        return False
    snapshot = load(table.log, version)
    small = snapshot.replayed_small()
    files = snapshot.files()
    counts = checksums.count(files.to_batches())
    assert checksums.counts_of(found) == (counts, checksums.BOUNDARIES)
    assert found.protocol == small.protocol
    assert found.metadata == small.metadata
    assert {t.app_id: t for t in found.set_transactions or ()} == small.txns
    assert {d.domain: d for d in found.domain_metadata or ()} == small.live_domains()
    assert found.txn_id == snapshot.commit_info.get("txnId")
    assert found.in_commit_timestamp_opt == snapshot.commit_info.get("inCommitTimestamp")
    if found.all_files is not None:
        assert {a.path for a in found.all_files} == set(files.column("path").to_pylist())
    return True


# ---------------------------------------------------------------------------- failures


def failing(_: AfterCommit) -> None:
    raise RuntimeError("this hook is broken")


@pytest.mark.parametrize("at", range(len(HOOKS) + 1))
def test_a_hook_that_fails_is_logged_and_the_others_run(at: int, caplog: pytest.LogCaptureFixture) -> None:
    table = everything(**{"delta.checkpointInterval": "1", "tidegate.logCompactionInterval": "2"})
    broken = (*HOOKS[:at], failing, *HOOKS[at:])
    with caplog.at_level(logging.WARNING, logger="tidegate.transaction"):
        committed = begin(table, hooks=broken).commit([file("x", day=FIRST)])
    assert committed.version == 1
    [said] = [r for r in caplog.records if r.name == "tidegate.transaction.hooks"]
    assert "failing failed after version 1; the commit stands" in said.getMessage()
    assert said.exc_info is not None
    assert {
        "00000000000000000001.crc",
        "00000000000000000001.checkpoint.parquet",
        "00000000000000000000.00000000000000000001.compacted.json",
    } <= set(table.names())


@pytest.mark.parametrize("hook", HOOKS, ids=lambda h: h.__name__)
def test_each_hook_may_be_the_one_that_fails(
    hook: Callable[[AfterCommit], None], caplog: pytest.LogCaptureFixture
) -> None:
    asked = {"delta.checkpointInterval": "1", "tidegate.logCompactionInterval": "2"}
    table = everything(**asked, **{"delta.compatibility.symlinkFormatManifest.enabled": "true"})

    def on_a_broken_store(done: AfterCommit) -> None:
        table.memory.fail_at(1, StorageError("disk full"), mutating=True)
        hook(done)

    on_a_broken_store.__name__ = hook.__name__
    broken = tuple(on_a_broken_store if h is hook else h for h in HOOKS)
    with caplog.at_level(logging.WARNING, logger="tidegate.transaction"):
        committed = begin(table, hooks=broken).commit([file("x", day=FIRST)])
    assert [f"{hook.__name__} failed" in r.getMessage() for r in caplog.records] == [True]
    assert seen(load(table.log)) == seen(committed.snapshot)
    assert begin(table).commit([file("y", day=FIRST)]).version == 2


def test_a_hook_gets_the_commit_and_its_snapshot() -> None:
    table = everything()
    got: list[AfterCommit] = []
    committed = begin(table, hooks=(got.append,)).commit([file("x", day=FIRST)])
    [done] = got
    assert done.snapshot is committed.snapshot
    assert done.prepared.version == 1
    assert done.checksum is not None
    assert done.checksum.num_files == 5
    assert "00000000000000000001.crc" not in table.names(), "only the hooks that were given run"


# ---------------------------------------------------------------------------- checksums


def test_the_checksum_of_a_new_table_is_written_from_the_start() -> None:
    table = RawTable()
    transaction = begin(table)
    transaction.update_metadata(everything().load().metadata)
    transaction.commit([file("x", day=FIRST)])
    assert agrees(table, 0)


def test_checksums_follow_each_other_through_every_operation() -> None:
    for name, work in OPERATIONS.items():
        table = everything()
        transaction = begin(table)
        work(transaction, "x").commit(transaction)
        assert agrees(table, 1), name


@pytest.mark.parametrize("loser", ["append", "optimize", "same application", "other domain", "upgrade"])
@pytest.mark.parametrize("winner", ["append elsewhere", "enable time", "enable vectors", "other application"])
def test_checksums_follow_each_other_through_a_race(winner: str, loser: str) -> None:
    table = everything()
    transaction = begin(table)
    request = OPERATIONS[loser](transaction, "ours")
    theirs = begin(table, hooks=())  # the winner has not written its own yet
    OPERATIONS[winner](theirs, "theirs").commit(theirs)
    try:
        request.commit(transaction)
    except DeltaConcurrentModificationException:
        return
    assert checksum_of(table, 1) is None
    assert agrees(table, 2)


@given(st.lists(st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 3)), min_size=1, max_size=8))
def test_every_checksum_agrees_with_a_replay(steps: list[tuple[str, int]]) -> None:
    table = everything()
    at_work = [begin(table) for _ in range(4)]
    for number, (name, who) in enumerate(steps):
        transaction = at_work[who]
        with suppress(TidegateError):  # conflicts, and drops of what is dropped already
            OPERATIONS[name](transaction, f"w{number}").commit(transaction)
        at_work[who] = begin(table)
    assert all(agrees(table, v) for v in versions(table))


def test_without_a_checksum_before_it_the_next_checkpoint_starts_the_chain() -> None:
    table = RawTable().create(add("f0"), configuration={"delta.checkpointInterval": "3"})
    for number in range(1, 6):
        begin(table).commit([file(f"f{number}")])
    have = [v for v in versions(table) if agrees(table, v)]
    assert have == [3, 4, 5]


def test_a_checksum_that_came_after_the_snapshot_is_found() -> None:
    table = RawTable().create(add("f0"))
    transaction = begin(table)
    table.checksum(0, fileSizeHistogram=_histogram())
    transaction.commit([file("f1")])
    assert agrees(table, 1)


def _histogram() -> dict[str, list[int]]:
    bounds = list(checksums.BOUNDARIES)
    return {
        "sortedBinBoundaries": bounds,
        "fileCounts": [1] + [0] * (len(bounds) - 1),
        "totalBytes": [100] + [0] * (len(bounds) - 1),
    }


@pytest.mark.parametrize("torn", [b"", b"{", b'{"numFiles":-1,"tableSizeBytes":0}', b"[]"])
def test_a_checksum_that_cannot_be_believed_is_not_carried_on(torn: bytes) -> None:
    table = RawTable().create(add("f0"))
    table.put("00000000000000000000.crc", torn)
    begin(table).commit([file("f1")])
    assert checksum_of(table, 1) is None


def test_a_remove_without_its_size_ends_the_chain_until_the_next_checkpoint() -> None:
    table = everything(**{"delta.checkpointInterval": "2"})
    from tidegate.log.actions import Remove

    begin(table).commit([Remove(path="f1", data_change=True)])
    assert checksum_of(table, 1) is None
    begin(table).commit([file("x", day=FIRST)])
    assert agrees(table, 2)


# ---------------------------------------------------------------------------- checkpoints and cleanup


def checkpoints(table: RawTable) -> list[int]:
    return [int(n[:20]) for n in table.names() if ".checkpoint." in n]


@pytest.mark.parametrize(("interval", "expected"), [("1", [1, 2, 3, 4, 5, 6, 7]), ("3", [3, 6]), ("100", [])])
def test_checkpoints_come_at_the_table_s_interval(interval: str, expected: list[int]) -> None:
    table = everything(**{"delta.checkpointInterval": interval})
    for number in range(1, 8):
        committed = begin(table).commit([file(f"x{number}", day=FIRST)])
        assert seen(committed.snapshot) == seen(load(table.log))
    assert checkpoints(table) == expected
    if expected:
        assert json.loads(table.bytes("_last_checkpoint"))["version"] == expected[-1]


def test_the_default_interval_is_ten() -> None:
    table = everything()
    for number in range(1, 21):
        begin(table).commit([file(f"x{number:02d}", day=FIRST)])
    assert checkpoints(table) == [10, 20]
    table.delete_commits(20)
    assert len(seen(load(table.log)).files) == 24


def test_the_policy_that_a_winner_chose_is_that_of_the_checkpoint() -> None:
    table = everything(**{"delta.checkpointInterval": "2"})
    loser = begin(table)
    winner = begin(table)
    winner.update_metadata(with_property(winner, checkpointPolicy="v2"))
    winner.commit()
    loser.commit([file("x", day=FIRST)])
    [name] = [n for n in table.names() if ".checkpoint." in n]
    assert name.endswith(".json")
    table.delete_commits(2)
    assert "x" in seen(load(table.log)).paths


def old_table(**more: str) -> RawTable:
    """Nine commits, a day apart, with a checkpoint at 5, long after their retention."""
    clock = Clock()
    table = everything(
        clock,
        **{
            "delta.checkpointInterval": "5",
            "delta.logRetentionDuration": "interval 1 days",
            "delta.deletedFileRetentionDuration": "interval 1 days",
            **more,
        },
    )
    for number in range(1, 10):
        clock.tick(DAY // 24)
        begin(table).commit([file(f"x{number}", day=FIRST)])
    clock.tick(5 * DAY)
    return table


def test_cleanup_follows_the_checkpoint() -> None:
    table = old_table()
    assert versions(table)[0] == 0
    begin(table).commit([file("last", day=FIRST)])
    assert versions(table) == [5, 6, 7, 8, 9, 10]
    assert len(seen(load(table.log)).files) == 14


def test_cleanup_can_be_switched_off() -> None:
    table = old_table(**{"delta.enableExpiredLogCleanup": "false"})
    begin(table).commit([file("last", day=FIRST)])
    assert versions(table) == list(range(11))


# ---------------------------------------------------------------------------- compactions


def compactions(table: RawTable) -> list[tuple[int, int]]:
    return [(int(n[:20]), int(n[21:41])) for n in table.names() if n.endswith(".compacted.json")]


def test_compactions_come_where_the_table_asks_for_them() -> None:
    table = everything(**{"tidegate.logCompactionInterval": "4", "delta.checkpointInterval": "1000"})
    for number in range(1, 12):
        work = [file(f"x{number:02d}", day=FIRST)]
        if number % 3 == 0:
            work.append(gone(file(f"x{number - 1:02d}", day=FIRST)))  # type: ignore[arg-type]
        begin(table).commit(work)
    assert compactions(table) == [(0, 3), (4, 7), (8, 11)]
    assert seen(load(table.log)) == seen(_without_compactions(table))


def _without_compactions(table: RawTable) -> object:
    bare = table.survivor()
    bare.delete(*(n for n in bare.names() if n.endswith(".compacted.json")))
    return load(bare.log)


@pytest.mark.parametrize("text", ["0", "1", "-3", "many", ""])
def test_other_values_ask_for_none(text: str) -> None:
    table = everything(**{"tidegate.logCompactionInterval": text})
    for number in range(1, 6):
        begin(table).commit([file(f"x{number}", day=FIRST)])
    assert compactions(table) == []


def test_no_compaction_reaches_below_a_checkpoint() -> None:
    table = everything(**{"tidegate.logCompactionInterval": "4", "delta.checkpointInterval": "6"})
    for number in range(1, 16):
        begin(table).commit([file(f"x{number:02d}", day=FIRST)])
    assert compactions(table) == [(0, 3), (8, 11)]
    assert len(seen(load(table.log)).files) == 19


def test_races_write_each_compaction_once_and_right() -> None:
    table = everything(**{"tidegate.logCompactionInterval": "3", "delta.checkpointInterval": "1000"})
    sleeping = [begin(table) for _ in range(8)]
    for number, transaction in enumerate(sleeping):
        transaction.commit([file(f"x{number}", day=FIRST)])
    assert compactions(table) == [(0, 2), (3, 5), (6, 8)]
    assert len(seen(load(table.log)).files) == 12


# ---------------------------------------------------------------------------- helpers of the module


def test_the_registered_hooks_are_those_in_that_order() -> None:
    # The checkpoint takes the ground from under the commits that a compaction needs: it comes after it.
    names = ["checksum_hook", "compaction_hook", "checkpoint_hook", "manifest_hook"]
    assert [h.__name__ for h in HOOKS] == names


def test_a_checksum_that_the_store_cannot_give_is_done_without() -> None:
    table = everything()
    table.delete("00000000000000000000.crc")
    transaction = Transaction.begin(table.log, sleep=no_sleep)

    def unreadable(op: str, name: str) -> None:
        if name.endswith("00000000000000000000.crc"):
            raise StorageError("403")

    table.memory.hook = unreadable
    assert transaction.commit([file("x", day=FIRST)]).version == 1
    assert checksum_of(table, 1) is None
