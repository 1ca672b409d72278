"""A commit that is cut off at any storage operation leaves the old version or the new one, whole.

Ctrl-C and failures of the store are planted at every operation of a commit, before and after it takes
effect: of a plain commit, of one that loses a race first, and of one that checkpoints and cleans up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from support.tables import DAY, Clock, RawTable, seen
from support.transactions import FIRST, begin, everything, file, versions
from tidegate.errors import StorageError
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.history import history
from tidegate.log.snapshot import load
from tidegate.storage.memory import StoreDied
from tidegate.transaction.transaction import Transaction

PLANTED: dict[str, Callable[[], BaseException]] = {
    "cancelled": KeyboardInterrupt,
    "failed": lambda: StorageError("503"),
    "killed": lambda: StoreDied("kill -9"),
}


def plain() -> RawTable:
    return everything()


def lost_race() -> RawTable:
    return everything()


def checkpoint_and_cleanup() -> RawTable:
    """Ten days of commits, of which the next one checkpoints, compacts and cleans up."""
    clock = Clock()
    table = everything(
        clock,
        **{
            "delta.checkpointInterval": "5",
            "delta.logRetentionDuration": "interval 1 days",
            "delta.deletedFileRetentionDuration": "interval 1 days",
            "tidegate.logCompactionInterval": "11",
        },
    )
    for number in range(1, 10):
        clock.tick(DAY)
        committed = begin(table, hooks=()).commit([file(f"x{number}", day=FIRST)])
        if number == 5:
            write_checkpoint(committed.snapshot)
    clock.tick(3 * DAY)
    return table


SCENES = {"plain": plain, "lost race": lost_race, "checkpoint and cleanup": checkpoint_and_cleanup}


@cache
def made(scene: str) -> RawTable:
    return SCENES[scene]()


def enter(scene: str) -> tuple[RawTable, Transaction, int]:
    """A copy of the scene, a transaction that is about to commit, and the version it will make."""
    base = made(scene)
    table = RawTable(base.memory.survivor(), base.clock)
    transaction = begin(table)
    if scene == "lost race":
        begin(RawTable(table.memory.handle(), table.clock)).commit([file("theirs", day=FIRST)])
    return table, transaction, versions(table)[-1] + 1


def operations(scene: str) -> int:
    """How many storage operations the commit takes when nothing happens."""
    table, transaction, version = enter(scene)
    start = len(table.memory.journal)
    assert transaction.commit([file("mine", day=FIRST)]).version == version
    return len(table.memory.journal) - start


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("scene", SCENES)
def test_cut_off_at_every_operation(scene: str, what: str, when: Any) -> None:
    total = operations(scene)
    outcomes = set()
    for number in range(1, total + 1):
        table, transaction, version = enter(scene)
        planted = PLANTED[what]()
        table.memory.fail_at(number, planted, when=when)
        try:
            committed = transaction.commit([file("mine", day=FIRST)])
        except BaseException as error:
            if error is not planted:
                raise
            committed = None
        left = RawTable(table.memory.survivor(), table.clock)
        snapshot = load(left.log)
        there = "mine" in seen(snapshot).paths
        assert snapshot.version == (version if there else version - 1)
        assert committed is None or there, "a commit that was confirmed is there"
        outcomes.add((committed is not None, there))
        # Every version that is left is whole, and the table can be written on.
        first = versions(left)[0]
        assert versions(left) == list(range(first, snapshot.version + 1))
        assert len(history(left.log, snapshot.version)) == len(versions(left))
        if snapshot.checksum is not None:
            assert snapshot.checksum.num_files == snapshot.files().num_rows
        again = begin(left).commit([file("again", day=FIRST)])
        assert again.version == snapshot.version + 1
        assert seen(load(left.log)).paths == sorted([*seen(snapshot).paths, "again"])
    assert any(there for _, there in outcomes)
    assert when == "after" or any(not there for _, there in outcomes)


def test_a_failing_store_never_fails_a_commit_that_is_visible() -> None:
    """From the put on, every failure is a hook's: the commit is confirmed."""
    for scene in list(SCENES):
        total = operations(scene)
        for number in range(1, total + 1):
            table, transaction, _ = enter(scene)
            table.memory.fail_at(number, StorageError("503"), when="after")
            try:
                transaction.commit([file("mine", day=FIRST)])
            except StorageError:
                assert "mine" not in seen(load(table.log)).paths


def test_the_last_scene_does_checkpoint_and_clean_up() -> None:
    table, transaction, _ = enter("checkpoint and cleanup")
    transaction.commit([file("mine", day=FIRST)])
    assert "00000000000000000010.checkpoint.parquet" in table.names()
    assert versions(table) == [5, 6, 7, 8, 9, 10]
