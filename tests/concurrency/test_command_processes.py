"""The same races between two processes, each with a Spark of its own.

The other process stands before its commit while this one runs a command to its end; then it goes on. What
comes of it is what comes of the same two in one process: one of the serial orders, or the conflict by name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.grounds import SparkGround
from support.killing import spark_nursery
from support.outcomes import problems
from support.race_commands import COMMANDS
from support.races import Arena, Outcome, Race
from support.session import shared_session
from tidegate import errors
from tidegate.log.table_log import TableLog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DUELS = [
    ("plain", "delete", "delete elsewhere", None),
    ("plain", "update", "delete", "ConcurrentAppendException"),
    pytest.param("plain", "merge below", "append", None, marks=pytest.mark.deep),
    pytest.param("plain", "optimize", "delete", "ConcurrentDeleteReadException", marks=pytest.mark.deep),
    pytest.param("plain", "overwrite", "append", "ConcurrentAppendException", marks=pytest.mark.deep),
    pytest.param("everything", "update", "delete elsewhere", None, marks=pytest.mark.deep),
    pytest.param("everything", "append", "add a column", "MetadataChangedException", marks=pytest.mark.deep),
    pytest.param("everything", "merge inserts", "vacuum", None, marks=pytest.mark.deep),
    pytest.param("everything", "restore", "append", "ConcurrentWriteException", marks=pytest.mark.deep),
]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> SparkGround:
    return SparkGround(shared_session(), tmp_path_factory.mktemp("ground"))


@pytest.mark.parametrize(("flavour", "first", "second", "conflict"), DUELS)
def test_a_command_in_one_process_in_the_middle_of_one_in_another(
    ground: SparkGround, tmp_path: Path, flavour: str, first: str, second: str, conflict: str | None
) -> None:
    path = ground.kept(ground.template(flavour))
    ended = spark_nursery().interrupted(
        first, path, tmp_path / "gates", lambda: COMMANDS[second].work(ground.spark, path)
    )
    assert ended.error == conflict
    outcome = Outcome(ended.error, None, ground.look(path))
    is_conflict = conflict is not None
    assert not is_conflict or issubclass(
        getattr(errors, str(conflict)), errors.DeltaConcurrentModificationException
    )
    race = Race(True, outcome, (is_conflict, False), problems(TableLog.at(path)), "")
    assert Arena(ground).judge(flavour, COMMANDS[first], COMMANDS[second], race) == []
