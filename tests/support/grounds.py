"""Where commands race: tables on disk with Spark, and tables in memory by the log alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from support import log_commands, outcomes
from support.interleaving import MUTATING, Between, Chosen, Operation
from support.race_commands import Command
from support.race_tables import FLAVOURS, copied, make, state
from support.races import attempt
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.storage.memory import MemoryStore


class SparkGround:
    """Tables in a directory, changed by ``race_commands``."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self._templates: dict[str, str] = {}
        self._numbers = count()

    def template(self, flavour: str) -> str:
        if flavour not in self._templates:
            path = self.directory / f"template-{flavour}"
            self._templates[flavour] = make(self.spark, FLAVOURS[flavour], str(path))
        return self._templates[flavour]

    def kept(self, table: str) -> str:
        return copied(table, self.directory / f"table-{next(self._numbers)}" / "table")

    @contextmanager
    def copy(self, table: str) -> Iterator[str]:
        path = self.kept(table)
        try:
            yield path
        finally:
            # Clones lie beside the table.
            shutil.rmtree(Path(path).parent)

    def run(self, command: Command, table: str, changed: set[str] | None = None) -> None:
        before = _files(table) if changed is not None else {}
        try:
            command.work(self.spark, table)
        finally:
            if changed is not None:
                changed |= {name for name, _ in before.items() ^ _files(table).items()}

    def interrupted(
        self, command: Command, table: str, work: Callable[[Operation], None], number: int, chosen: Chosen
    ) -> tuple[list[Operation], Exception | None]:
        with Between(table, work, number=number, chosen=chosen) as between:
            error = attempt(lambda: command.work(self.spark, table))
        return between.seen, error

    def repeat(self, table: str, before: str, after: str) -> None:
        old, new = _files(before), _files(after)
        for name in {name for name, _ in old.items() ^ new.items()}:
            target = Path(table, name)
            if name in new:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(Path(after, name), target)
            else:
                target.unlink()

    def look(self, table: str) -> outcomes.State:
        return state(self.spark, table)

    def problems(self, table: str) -> list[Any]:
        return outcomes.problems(TableLog.at(table))


class LogGround:
    """Tables in memory, changed by ``log_commands``, at a time that stands still."""

    def __init__(self) -> None:
        self._templates: dict[str, MemoryStore] = {}

    def template(self, flavour: str) -> MemoryStore:
        if flavour not in self._templates:
            self._templates[flavour] = log_commands.make(log_commands.FLAVOURS[flavour])
        return self._templates[flavour]

    def kept(self, table: MemoryStore) -> MemoryStore:
        return table.survivor()

    @contextmanager
    def copy(self, table: MemoryStore) -> Iterator[MemoryStore]:
        yield table.survivor()

    def run(self, command: log_commands.Command, table: MemoryStore, changed: set[str] | None = None) -> None:
        store = table.handle()
        try:
            command.work(_log(store))
        finally:
            if changed is not None:
                changed |= {o.name for o in store.journal if o.op in MUTATING}

    def interrupted(
        self,
        command: log_commands.Command,
        table: MemoryStore,
        work: Callable[[Operation], None],
        number: int,
        chosen: Chosen,
    ) -> tuple[list[Operation], Exception | None]:
        seen: list[Operation] = []

        def hook(op: str, name: str) -> None:
            operation = Operation(op, name)
            if chosen(operation):
                seen.append(operation)
                if len(seen) == number:
                    work(operation)

        log = _log(table.handle(hook=hook))
        return seen, attempt(lambda: command.work(log))

    def repeat(self, table: MemoryStore, before: MemoryStore, after: MemoryStore) -> None:
        old, new = _bytes(before), _bytes(after)
        for name in {name for name, _ in old.items() ^ new.items()}:
            if name in new:
                table.put(name, new[name])
            else:
                table.delete([name])

    def look(self, table: MemoryStore) -> outcomes.State:
        # What writes here keeps no ids of rows that move, as Spark's writers do.
        return outcomes.state_of(load(_log(table)), known=0)

    def problems(self, table: MemoryStore) -> list[Any]:
        return outcomes.problems(_log(table))


def _log(store: MemoryStore) -> TableLog:
    return TableLog(store, clock=log_commands.now)


def _files(table: str) -> dict[str, tuple[int, int]]:
    """The files of a table on disk, each with what changes when it is written."""
    root = Path(table)
    found = ((p.relative_to(root).as_posix(), p.stat()) for p in root.rglob("*") if p.is_file())
    return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in found}


def _bytes(store: MemoryStore) -> dict[str, bytes]:
    return {f.name: store.get(f.name) for f in store.list_from("", recursive=True)}
