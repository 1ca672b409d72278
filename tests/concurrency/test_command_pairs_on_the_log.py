"""All pairs of commands that need no Spark, interleaved at their storage operations in one process.

One command stops before an operation of its own, the other one runs to its end, the first goes on. What
comes of it is one of the two serial orders, or a conflict by name; and the table proves clean. By default
each command stops where it commits and meets two others, different ones for each flavour; with large budgets
it meets all of them before each of its operations.
"""

from __future__ import annotations

import pytest

from support.grounds import LogGround
from support.interleaving import Operation, at_any, at_commit
from support.log_commands import COMMANDS, FLAVOURS
from support.races import Arena
from tidegate.storage.memory import MemoryStore

ARENA: Arena[MemoryStore] = Arena(LogGround())
SHARE = 18


def _others(first: str, flavour: str, deep: bool) -> list[str]:
    names = list(COMMANDS)
    if deep:
        return names
    return names[(names.index(first) + 5 * list(FLAVOURS).index(flavour)) % SHARE :: SHARE]


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("first", COMMANDS)
def test_another_command_in_the_middle_of_one_ends_as_an_order_of_them_or_in_a_conflict(
    first: str, flavour: str, deep: bool
) -> None:
    command = COMMANDS[first]
    chosen = at_any if deep else at_commit
    points = len(ARENA.operations(flavour, command, chosen))
    wrong = []
    for second in _others(first, flavour, deep):
        for number in range(1, points + 1 if deep else min(points, 2) + 1):
            race = ARENA.race(flavour, command, COMMANDS[second], number=number, chosen=chosen)
            found = ARENA.judge(flavour, command, COMMANDS[second], race)
            wrong += [f"{second} before operation {number}: {line}" for line in found]
    assert not wrong, "\n".join(wrong)


# What the second of two gets where both would change the same: by Delta's names.
NAMED = {
    ("append", "append"): None,
    ("append", "delete"): None,
    ("append", "set a property"): "MetadataChangedException",
    ("append", "enable vectors"): None,
    ("append", "upgrade"): None,
    ("batch of a stream", "batch of a stream"): "ConcurrentTransactionException",
    ("delete", "append"): None,
    ("delete", "append among the rows"): "ConcurrentAppendException",
    ("delete", "delete elsewhere"): None,
    ("delete", "update elsewhere"): None,
    ("update", "delete elsewhere"): None,
    ("update", "update elsewhere"): None,
    ("delete elsewhere", "update"): None,
    ("delete elsewhere", "delete elsewhere"): "ConcurrentAppendException",
    ("delete", "truncate"): "ConcurrentDeleteReadException",
    ("merge inserts", "append"): None,
    ("merge inserts", "append among the rows"): "ConcurrentAppendException",
    ("merge inserts", "delete elsewhere"): None,
    ("optimize", "append"): None,
    ("optimize", "delete elsewhere"): "ConcurrentDeleteReadException",
    ("overwrite", "append"): "ConcurrentAppendException",
    ("restore", "append"): "ConcurrentWriteException",
    ("set a property", "append"): None,
    ("set a property", "set a property"): "MetadataChangedException",
    ("vacuum", "delete"): None,
    ("drop deletion vectors", "upgrade"): None,
}


@pytest.mark.parametrize(("first", "second"), NAMED)
def test_conflicts_have_deltas_names_and_others_do_not_conflict(first: str, second: str) -> None:
    race = ARENA.race("vectors", COMMANDS[first], COMMANDS[second])
    assert race.came
    assert race.outcome.first == NAMED[(first, second)]


def _begins(operation: Operation) -> bool:
    return operation.name.endswith("_last_checkpoint")


@pytest.mark.parametrize("number", [3, 4])
def test_rows_that_lose_their_ids_while_they_are_numbered_do_not_count_as_numbered(number: int) -> None:
    first, second = COMMANDS["track rows"], COMMANDS["drop row tracking"]
    race = ARENA.race("plain", first, second, number=number, chosen=_begins)
    assert race.came
    assert race.outcome.first == "ProtocolChangedException", race.told
    assert ARENA.judge("plain", first, second, race) == []
