"""Pairs of commands on Spark, interleaved at their storage operations in one process.

One command stops where it commits (with large budgets also before each of its operations), the other one runs
to its end, the first goes on. Rows, metadata, ids of rows and the change feed are those of one of
the two serial orders, or the first one ends in a conflict by name; and the table proves clean.
"""

from __future__ import annotations

import pytest

from support.grounds import SparkGround
from support.interleaving import at_commit
from support.race_commands import COMMANDS
from support.race_tables import FLAVOURS
from support.races import Arena
from support.session import shared_session

pytestmark = pytest.mark.spark

# Of each kind of rule one pair: stepped over, or a conflict.
SAMPLE = [
    ("plain", "delete", "delete elsewhere", None),
    ("plain", "update", "delete elsewhere", None),
    ("plain", "update", "update", "ConcurrentAppendException"),
    ("plain", "merge below", "delete elsewhere", None),
    ("plain", "optimize", "append", None),
    ("plain", "add a constraint", "append among the rows", "ConcurrentAppendException"),
    ("partitions", "dynamic overwrite", "dynamic overwrite elsewhere", None),
    ("partitions", "dynamic overwrite", "dynamic overwrite", "ConcurrentAppendException"),
    ("everything", "merge below", "delete elsewhere", None),
    ("everything", "delete", "rename a column", "MetadataChangedException"),
    ("everything", "delete elsewhere", "truncate", "ConcurrentDeleteReadException"),
]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena[str]:
    return Arena(SparkGround(shared_session(), tmp_path_factory.mktemp("arena")))


@pytest.mark.parametrize(("flavour", "first", "second", "conflict"), SAMPLE)
def test_a_sample_of_pairs(
    arena: Arena[str], flavour: str, first: str, second: str, conflict: str | None
) -> None:
    race = arena.race(flavour, COMMANDS[first], COMMANDS[second])
    assert race.came
    assert race.outcome.first == conflict, race.told
    assert arena.judge(flavour, COMMANDS[first], COMMANDS[second], race) == []


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.parametrize("first", COMMANDS)
def test_all_pairs_where_one_commits(arena: Arena[str], first: str) -> None:
    """Each pair meets on one kind of table, a different one for each of its neighbours.

    Those that both need no Spark meet in ``test_command_pairs_on_the_log``.
    """
    one, wrong = COMMANDS[first], []
    for place, other in enumerate(COMMANDS.values(), start=list(COMMANDS).index(first)):
        if one.by_log and other.by_log:
            continue
        flavour = list(FLAVOURS)[place % len(FLAVOURS)]
        for number in range(1, len(arena.operations(flavour, one, at_commit)) + 1):
            # A vacuum may see the files of whoever has not committed yet, and must leave them.
            if number == 1 and other.name != "vacuum":
                race = arena.race_at_first_commit(flavour, one, other)
            else:
                race = arena.race(flavour, one, other, number=number)
            found = arena.judge(flavour, one, other, race)
            wrong += [f"{flavour}, {other} before commit {number}: {line}" for line in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.parametrize(("flavour", "first", "second", "conflict"), SAMPLE)
def test_the_sample_at_every_operation(
    arena: Arena[str], flavour: str, first: str, second: str, conflict: str | None
) -> None:
    one, other = COMMANDS[first], COMMANDS[second]
    wrong = []
    for number, race in arena.at_every_operation(flavour, one, other):
        wrong += [f"before operation {number}: {line}" for line in arena.judge(flavour, one, other, race)]
    assert not wrong, "\n".join(wrong)
