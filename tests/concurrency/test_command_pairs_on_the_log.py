"""All pairs of commands that need no Spark, interleaved at their storage operations in one process.

One command stops before an operation of its own, the other one runs to its end, the first goes on. What
comes of it is one of the two serial orders, or a conflict by name; and the table proves clean. By default
each command stops where it commits and meets two others, different ones for each flavour; with large budgets
it meets all of them before each of its operations that makes a difference to them: each on one of the kinds
of tables on which it can run, a different one for each neighbour, and on all on which it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.grounds import LogGround
from support.interleaving import Operation, at_any, at_commit
from support.log_commands import COMMANDS, FLAVOURS, Command
from support.races import Arena, Race
from tidegate.storage.memory import MemoryStore

ARENA: Arena[MemoryStore] = Arena(LogGround())
SHARE = 18


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("first", COMMANDS)
def test_another_command_in_the_middle_of_one_ends_as_an_order_of_them_or_in_a_conflict(
    first: str, flavour: str, deep: bool
) -> None:
    command, names = COMMANDS[first], list(COMMANDS)
    place = names.index(first) + 5 * list(FLAVOURS).index(flavour)
    partners = _partners(flavour, command) if deep else names[place % SHARE :: SHARE]
    wrong = []
    for second in partners:
        other = COMMANDS[second]
        for number, race in _races(flavour, command, other, deep):
            found = ARENA.judge(flavour, command, other, race)
            wrong += [f"{second} before operation {number}: {line}" for line in found]
    assert not wrong, "\n".join(wrong)


def _partners(flavour: str, one: Command) -> list[str]:
    """Whom a command meets on this kind of tables, so that it meets everybody on one where it can run."""
    able = [kind for kind in FLAVOURS if ARENA.failure_alone(kind, one) is None]
    names = list(COMMANDS)
    if flavour not in able:
        return names
    turn = able.index(flavour) - names.index(one.name)
    return [name for place, name in enumerate(names) if (place - turn) % len(able) == 0]


def _races(flavour: str, one: Command, other: Command, deep: bool) -> Iterator[tuple[int, Race]]:
    if deep:
        yield from ARENA.at_every_operation(flavour, one, other)
    else:
        for number in range(1, min(2, len(ARENA.operations(flavour, one, at_commit))) + 1):
            yield number, ARENA.race(flavour, one, other, number=number)


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


@pytest.mark.parametrize(("first", "second"), [("delete", "optimize"), ("merge inserts", "vacuum")])
def test_operations_that_see_nothing_of_another_command_make_no_race_of_their_own(
    first: str, second: str
) -> None:
    one, other = COMMANDS[first], COMMANDS[second]
    points = len(ARENA.operations("vectors", one, at_any))
    told = dict(ARENA.at_every_operation("vectors", one, other))
    assert 1 < len(told) < points
    race = told[1]
    for number in range(1, points + 1):
        race = told.get(number, race)
        again = ARENA.race("vectors", one, other, number=number, chosen=at_any)
        assert (again.outcome, again.problems) == (race.outcome, race.problems), f"operation {number}"
