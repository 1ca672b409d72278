"""Two commands on one table: what each order of them comes to, and what came of them together.

An ``Arena`` keeps templates and what it has learned of serial orders, so that a race costs its two
commands and one look. ``race`` runs one command and, in the middle of it, the other; ``judge`` says
what is wrong with the outcome: it must be that of one of the two serial orders, errors included, or the
first command gave up with a conflict by name and the table is as the other alone leaves it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from support.interleaving import Between, Chosen, Operation, at_commit
from support.race_commands import Command
from support.race_tables import Flavour, State, copied, make, problems, state
from tidegate.errors import DeltaConcurrentModificationException

Failure = str | None


@dataclass(frozen=True)
class Outcome:
    """What a command and another one came to: their errors by name, and the table afterwards."""

    first: Failure
    second: Failure
    state: State


@dataclass(frozen=True)
class Race:
    """What happened when ``second`` came in the middle of ``first``; None where it never came."""

    came: bool
    outcome: Outcome
    conflict: bool
    problems: list[Any]
    told: str


def _name(error: Exception | None) -> Failure:
    return None if error is None else type(error).__name__


def attempt(work: Callable[[], object]) -> Exception | None:
    try:
        work()
    except Exception as error:
        return error
    return None


class Arena:
    """Where commands race on copies of tables."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self._templates: dict[str, str] = {}
        self._alone: dict[tuple[str, str], tuple[str, Failure]] = {}
        self._states: dict[tuple[str, str], State] = {}
        self._serial: dict[tuple[str, str, str], Outcome] = {}
        self._numbers = count()

    def template(self, flavour: Flavour) -> str:
        if flavour.name not in self._templates:
            path = self.directory / f"template-{flavour}"
            self._templates[flavour.name] = make(self.spark, flavour, str(path))
        return self._templates[flavour.name]

    @contextmanager
    def copy(self, template: str) -> Iterator[str]:
        """A table like ``template``, gone when the block is left, with all that was cloned from it."""
        place = self.directory / f"race-{next(self._numbers)}"
        try:
            yield copied(template, place / "table")
        finally:
            shutil.rmtree(place)

    def _after(self, flavour: Flavour, command: Command) -> tuple[str, Failure]:
        """The table after one command alone, kept, and its error."""
        key = (flavour.name, command.name)
        if key not in self._alone:
            place = self.directory / f"after-{next(self._numbers)}"
            path = copied(self.template(flavour), place / "table")
            self._alone[key] = (path, _name(attempt(lambda: command.work(self.spark, path))))
        return self._alone[key]

    def alone(self, flavour: Flavour, command: Command) -> State:
        key = (flavour.name, command.name)
        if key not in self._states:
            self._states[key] = state(self.spark, self._after(flavour, command)[0])
        return self._states[key]

    def serial(self, flavour: Flavour, first: Command, second: Command) -> Outcome:
        """``first`` and then ``second``."""
        key = (flavour.name, first.name, second.name)
        if key not in self._serial:
            template, failure = self._after(flavour, first)
            with self.copy(template) as path:
                error = attempt(lambda: second.work(self.spark, path))
                self._serial[key] = Outcome(failure, _name(error), state(self.spark, path))
        return self._serial[key]

    def operations(self, flavour: Flavour, command: Command, chosen: Chosen) -> list[Operation]:
        """The operations on its table that ``command`` consists of when nobody else is there."""
        with self.copy(self.template(flavour)) as path, Between(path, chosen=chosen) as watched:
            attempt(lambda: command.work(self.spark, path))
            return watched.seen

    def race(
        self,
        flavour: Flavour,
        first: Command,
        second: Command,
        *,
        number: int = 1,
        chosen: Chosen = at_commit,
    ) -> Race:
        """Run ``first``, and ``second`` before the ``number``-th chosen operation of it."""
        with self.copy(self.template(flavour)) as path:
            errors: list[Exception | None] = []

            def other(operation: Operation) -> None:
                errors.append(attempt(lambda: second.work(self.spark, path)))

            with Between(path, other, number=number, chosen=chosen) as between:
                error = attempt(lambda: first.work(self.spark, path))
            if not between.came:
                errors.append(None)
            outcome = Outcome(_name(error), _name(errors[0]), state(self.spark, path))
            is_conflict = isinstance(error, DeltaConcurrentModificationException)
            told = f"{error!r:.300}; {errors[0]!r:.300}"
            return Race(between.came, outcome, is_conflict, problems(path), told)

    def judge(self, flavour: Flavour, first: Command, second: Command, race: Race) -> list[str]:
        """What is wrong with a race; nothing is as it should be."""
        wrong = [f"verify: {p}" for p in race.problems]
        if not race.came:
            return wrong
        outcome = race.outcome
        if race.conflict:
            alone = self.alone(flavour, second)
            if first.steps:
                same = outcome.state.rows == alone.rows
            else:
                same = outcome.state == alone
            if not same:
                wrong += ["after the conflict:", *outcome.state.difference(alone)]
            return wrong
        one = self.serial(flavour, first, second)
        two = self.serial(flavour, second, first)
        two = Outcome(two.second, two.first, two.state)
        if outcome in (one, two):
            return wrong
        for order, expected in (("first", one), ("second", two)):
            errors = (outcome.first, outcome.second), (expected.first, expected.second)
            wrong.append(f"not as with the {order} one before: errors {errors[0]} != {errors[1]}")
            wrong += outcome.state.difference(expected.state)
        return [*wrong, race.told]
