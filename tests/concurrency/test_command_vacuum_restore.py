"""VACUUM deletes what RESTORE brings back: whichever comes into the other, no file of the table is lost."""

from __future__ import annotations

import pytest

from support import log_commands
from support.grounds import LogGround
from support.interleaving import at_any
from support.log_commands import COMMANDS, FLAVOURS, now
from support.races import Arena
from tidegate.commands.restore import restore
from tidegate.commands.vacuum import vacuum
from tidegate.errors import ConcurrentWriteException
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.storage.memory import MemoryStore, StoreDied

ARENA: Arena[MemoryStore] = Arena(LogGround())
DAY = 86_400_000


@pytest.mark.parametrize("flavour", ["plain", "vectors"])
@pytest.mark.parametrize(
    ("first", "second"), [("vacuum", "restore"), ("vacuum lite", "restore"), ("restore", "vacuum")]
)
def test_at_whichever_operation_one_comes_into_the_other(
    flavour: str, first: str, second: str, deep: bool
) -> None:
    points = len(ARENA.operations(flavour, COMMANDS[first], at_any))
    assert points > 5
    # By default another third of the operations for each flavour, and the last ones, which delete and commit.
    start = 1 + list(FLAVOURS).index(flavour)
    for number in (
        range(1, points + 1) if deep else [*range(start, points - 4, 3), *range(points - 4, points)]
    ):
        race = ARENA.race(flavour, COMMANDS[first], COMMANDS[second], number=number, chosen=at_any)
        wrong = ARENA.judge(flavour, COMMANDS[first], COMMANDS[second], race)
        assert not wrong, f"{second} before operation {number} of {first}: {wrong}"


def _killed_before_it_deletes() -> MemoryStore:
    """A table whose VACUUM has said that it starts, and died with the first delete."""
    store = log_commands.make({})

    def die(op: str, name: str) -> None:
        if op == "delete":
            raise StoreDied

    with pytest.raises(StoreDied):
        vacuum(TableLog(store.handle(hook=die), clock=now))
    # Not even the end could be written down.
    last = TableLog(store).commit_path(load(TableLog(store)).version)
    assert b"VACUUM END" in store.get(last)
    store.delete([last])
    return store


def test_files_that_a_vacuum_under_way_may_delete_do_not_come_back() -> None:
    store = _killed_before_it_deletes()
    with pytest.raises(ConcurrentWriteException, match=r"VACUUM has started .* 2 of the files") as refused:
        restore(TableLog(store, clock=now), version=4)
    assert "VACUUM END" in str(refused.value.hint)


@pytest.mark.parametrize(
    "said",
    [b'"text"', b'{"specifiedRetentionMillis":"7 days"}', b'{"specifiedRetentionMillis":null}', b"[]"],
)
def test_a_vacuum_that_does_not_tell_its_retention_counts_as_one_without_any(said: bytes) -> None:
    store = _killed_before_it_deletes()
    path = TableLog(store).commit_path(load(TableLog(store)).version)
    text = store.get(path)
    begin = text.index(b'"operationParameters":') + len(b'"operationParameters":')
    store.put(path, text[:begin] + said + text[text.index(b"}", begin) + 1 :])
    with pytest.raises(ConcurrentWriteException, match="VACUUM has started"):
        restore(TableLog(store, clock=now), version=4)


def test_a_day_after_its_start_a_vacuum_that_never_ended_counts_as_dead() -> None:
    store = _killed_before_it_deletes()
    log = TableLog(store, clock=lambda: now() + DAY + 1)
    restore(log, version=4)
    assert ARENA.ground.look(store).rows == ARENA.alone("plain", COMMANDS["restore"]).rows


def test_files_within_the_retention_come_back_while_a_vacuum_is_under_way() -> None:
    store = log_commands.make({})
    log = TableLog(store, clock=now)
    before = ARENA.ground.look(store).rows
    version = load(log).version
    COMMANDS["delete elsewhere"].work(log)
    started: list[int] = []

    def hook(op: str, name: str) -> None:
        if op == "delete" and not started:
            started.append(load(log).version)
            restore(log, version=version)

    vacuum(TableLog(store.handle(hook=hook), clock=now))
    assert started, "VACUUM had something to delete"
    assert ARENA.ground.look(store).rows == before
    assert ARENA.ground.problems(store) == []
