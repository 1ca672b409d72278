"""Two commands on one table: what each order of them comes to, and what came of them together.

An ``Arena`` stands on a ``Ground``, which knows how tables are copied, changed and looked at. It keeps what
it has learned of serial orders, so that a race costs its two commands and one look. ``race`` runs one command
and, in the middle of it, the other; ``judge`` says what is wrong with the outcome: it must be that of one of
the two serial orders, errors included, or the first command gave up with a conflict by name and the table is
as the other alone leaves it. ``at_every_operation`` races before each operation that matters: where one only
reads what the other command leaves alone, coming before it and coming after it are the same race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from py4j.protocol import Py4JNetworkError

from support.interleaving import Chosen, Operation, at_any, at_commit
from support.outcomes import State
from tidegate.errors import (
    BarrierCheckpointError,
    DeltaConcurrentModificationException,
    DropConflictError,
    VersionNotFoundError,
)

Failure = str | None
T = TypeVar("T")


class Command(Protocol):
    """``steps``: it makes several commits, so that a conflict may leave the first of them behind."""

    name: str
    steps: bool


class Ground(Protocol[T]):
    """Where tables of one kind live."""

    def template(self, flavour: str) -> T: ...

    def copy(self, table: T) -> AbstractContextManager[T]:
        """A table like another one, gone when the block is left."""
        ...

    def kept(self, table: T) -> T:
        """A copy that stays."""
        ...

    def run(self, command: Any, table: T, changed: set[str] | None = None) -> None:
        """Run a command; ``changed`` gets the names that it has written or deleted, also where it fails."""
        ...

    def interrupted(
        self, command: Any, table: T, work: Callable[[Operation], None], number: int, chosen: Chosen
    ) -> tuple[list[Operation], Exception | None]:
        """Run a command with ``work`` before its ``number``-th chosen operation; those it came to."""
        ...

    def repeat(self, table: T, before: T, after: T) -> None:
        """Do to a table what made ``after`` of ``before``, file by file."""
        ...

    def look(self, table: T) -> State: ...

    def problems(self, table: T) -> list[Any]: ...


@dataclass(frozen=True)
class Outcome:
    """What a command and another one came to: their errors by name, and the table afterwards."""

    first: Failure
    second: Failure
    state: State | None


@dataclass(frozen=True)
class Race:
    """What happened when another command came in the middle of one, if it ever came."""

    came: bool
    outcome: Outcome
    conflicts: tuple[bool, bool]
    problems: list[Any]
    told: str
    changed: set[str] = field(default_factory=set)


def _name(error: Exception | None) -> Failure:
    return None if error is None else type(error).__name__


# A drop whose feature was put to use meanwhile says so by a name of its own, and so does whoever reads
# commits that a cleanup without any retention takes away.
_CONFLICTS = (
    DeltaConcurrentModificationException,
    DropConflictError,
    BarrierCheckpointError,
    VersionNotFoundError,
)


def _is_conflict(error: Exception | None) -> bool:
    return isinstance(error, _CONFLICTS)


def attempt(work: Callable[[], object]) -> Exception | None:
    try:
        work()
    except (ConnectionError, Py4JNetworkError):
        # Spark itself is gone: two commands that both fail so would look alike in every order.
        raise
    except Exception as error:
        return error
    return None


class Arena(Generic[T]):
    """Where commands race on copies of tables."""

    def __init__(self, ground: Ground[T]) -> None:
        self.ground = ground
        self._alone: dict[tuple[str, str], tuple[T, Exception | None]] = {}
        self._states: dict[tuple[str, str], State] = {}
        self._tracked: dict[str, bool] = {}
        self._serial: dict[tuple[str, str, str], Outcome] = {}
        self._operations: dict[tuple[str, str, Chosen], list[Operation]] = {}

    def _after(self, flavour: str, command: Command) -> tuple[T, Exception | None]:
        """The table after one command alone, kept, and its error."""
        key = (flavour, command.name)
        if key not in self._alone:
            table = self.ground.kept(self.ground.template(flavour))
            self._alone[key] = (table, attempt(lambda: self.ground.run(command, table)))
        return self._alone[key]

    def failure_alone(self, flavour: str, command: Command) -> Exception | None:
        """What a command ends in when nobody else is there."""
        return self._after(flavour, command)[1]

    def alone(self, flavour: str, command: Command) -> State:
        key = (flavour, command.name)
        if key not in self._states:
            self._states[key] = self.ground.look(self._after(flavour, command)[0])
        return self._states[key]

    def serial(self, flavour: str, first: Command, second: Command) -> Outcome:
        """``first`` and then ``second``."""
        key = (flavour, first.name, second.name)
        if key not in self._serial:
            template, failure = self._after(flavour, first)
            with self.ground.copy(template) as table:
                error = attempt(lambda: self.ground.run(second, table))
                self._serial[key] = Outcome(_name(failure), _name(error), self.ground.look(table))
        return self._serial[key]

    def _differences(self, flavour: str, found: State, expected: State) -> list[str]:
        """What differs; ids of rows count where the template has them and no commit says it lost them."""
        if flavour not in self._tracked:
            self._tracked[flavour] = bool(self.ground.look(self.ground.template(flavour)).row_ids)
        out = found.difference(expected)
        if self._tracked[flavour] and found.row_ids is not None:
            return out
        return [line for line in out if not line.startswith("row_ids")]

    def operations(self, flavour: str, command: Command, chosen: Chosen) -> list[Operation]:
        """The operations on its table that ``command`` consists of when nobody else is there."""
        key = (flavour, command.name, chosen)
        if key not in self._operations:
            with self.ground.copy(self.ground.template(flavour)) as table:
                found = self.ground.interrupted(command, table, lambda operation: None, 0, chosen)[0]
            self._operations[key] = found
        return self._operations[key]

    def race(
        self,
        flavour: str,
        first: Command,
        second: Command,
        *,
        number: int = 1,
        chosen: Chosen = at_commit,
    ) -> Race:
        """Run ``first``, and ``second`` before the ``number``-th chosen operation of it."""
        with self.ground.copy(self.ground.template(flavour)) as table:
            others: list[Exception | None] = []
            changed: set[str] = set()

            def other(operation: Operation) -> None:
                others.append(attempt(lambda: self.ground.run(second, table, changed)))

            _, error = self.ground.interrupted(first, table, other, number, chosen)
            return self._race(table, error, others, changed)

    def race_at_first_commit(self, flavour: str, first: Command, second: Command) -> Race:
        """As ``race`` does it, with what ``second`` has done alone in the place of running it once more.

        Nobody sees anything of a command before its first commit, so the other one would do just that.
        """
        template = self.ground.template(flavour)
        after, failure = self._after(flavour, second)
        with self.ground.copy(template) as table:
            others: list[Exception | None] = []

            def other(operation: Operation) -> None:
                self.ground.repeat(table, template, after)
                others.append(failure)

            _, error = self.ground.interrupted(first, table, other, 1, at_commit)
            return self._race(table, error, others, set())

    def _race(
        self, table: T, error: Exception | None, others: list[Exception | None], changed: set[str]
    ) -> Race:
        came = bool(others)
        found = self.ground.problems(table)
        # What is broken need not be readable.
        state = None if found else self.ground.look(table)
        outcome = Outcome(_name(error), _name(others[0]) if came else None, state)
        conflicts = (_is_conflict(error), came and _is_conflict(others[0]))
        told = f"{error!r:.500}; {others[0] if came else None!r:.500}"
        return Race(came, outcome, conflicts, found, told, changed)

    def at_every_operation(self, flavour: str, first: Command, second: Command) -> Iterator[tuple[int, Race]]:
        """The races of two commands, the second one before each operation of the first that matters."""
        race = None
        for number, operation in enumerate(self.operations(flavour, first, at_any), start=1):
            if race is None:
                race = self.race(flavour, first, second, number=number, chosen=at_any)
                yield number, race
            # Coming after an operation that sees nothing of the other is coming before it.
            if not operation.is_apart_from(race.changed):
                race = None

    def judge(self, flavour: str, first: Command, second: Command, race: Race) -> list[str]:
        """What is wrong with a race; nothing is as it should be."""
        outcome = race.outcome
        if outcome.state is None:
            return [f"verify: {p}" for p in race.problems]
        if not race.came:
            return []
        if any(race.conflicts):
            gave_up, other = (first, second) if race.conflicts[0] else (second, first)
            alone = self.alone(flavour, other)
            differs = self._differences(flavour, outcome.state, alone)
            if gave_up.steps:
                differs = [line for line in differs if line.startswith("rows")]
            return differs and ["after the conflict:", *differs]
        wrong = []
        # The second one committed before the first in most races, so that order is looked at first.
        for order in ("second", "first"):
            if order == "second":
                two = self.serial(flavour, second, first)
                expected = Outcome(two.second, two.first, two.state)
            else:
                expected = self.serial(flavour, first, second)
            assert expected.state is not None
            errors = (outcome.first, outcome.second), (expected.first, expected.second)
            differs = self._differences(flavour, outcome.state, expected.state)
            if not differs and errors[0] == errors[1]:
                return []
            wrong += [f"not as with the {order} one before: errors {errors[0]} != {errors[1]}", *differs]
        return [*wrong, race.told]
