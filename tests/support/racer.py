"""A writer as a process of its own: ``python -m support.racer URL WHO COMMITS MODE``.

It says ``ready`` and waits until its input closes, so that all start at one moment. Modes:

* ``race``: append, and now and then remove a file of its own; one line per commit: its number, its version.
* ``lossy``: the same on a store that loses every third answer after the put has succeeded.
* ``once``: commit its numbers as an application, from where the table says it has come to, and announce
  every storage operation, so that whoever kills it can choose when.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from support.transactions import file, gone
from tidegate.errors import StorageError
from tidegate.log.actions import Txn
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.storage.store import Buffer, FileInfo, Store
from tidegate.transaction.transaction import Transaction

ROWS = 3
STATS = f'{{"numRecords":{ROWS}}}'


@dataclass
class Wrapped:
    """A store that does something around every put of another one."""

    inner: Store

    @property
    def url(self) -> str:
        return self.inner.url

    def around(self, op: str, name: str) -> None:
        """Before an operation."""

    def after_put(self, name: str) -> None:
        """After a put-if-absent that succeeded."""

    def list_from(self, directory: str, start: str = "", *, recursive: bool = False) -> Iterator[FileInfo]:
        self.around("list", directory)
        return self.inner.list_from(directory, start, recursive=recursive)

    def get(self, name: str) -> bytes:
        self.around("get", name)
        return self.inner.get(name)

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        return self.inner.get_range(name, offset, length)

    def open_input(self, name: str) -> pa.NativeFile:
        self.around("open", name)
        return self.inner.open_input(name)

    def put(self, name: str, data: Buffer) -> None:
        self.around("put", name)
        self.inner.put(name, data)

    def put_if_absent(self, name: str, data: Buffer, *, durable: bool = True) -> None:
        self.around("put", name)
        self.inner.put_if_absent(name, data, durable=durable)
        self.after_put(name)

    def delete(self, names: Iterable[str]) -> None:
        self.around("delete", "")
        self.inner.delete(names)

    def head(self, name: str) -> FileInfo:
        self.around("head", name)
        return self.inner.head(name)


@dataclass
class Lossy(Wrapped):
    """Every third answer to a put-if-absent is lost."""

    puts: int = 0

    def after_put(self, name: str) -> None:
        self.puts += 1
        if self.puts % 3 == 0:
            raise StorageError("the answer was lost", table=self.url, file=name)


class Announcing(Wrapped):
    """Every operation is said before it is done, and every put-if-absent after it was."""

    def around(self, op: str, name: str) -> None:
        say("op", op, name)

    def after_put(self, name: str) -> None:
        say("op", "done", name)


def say(*words: Any) -> None:
    print(*words, flush=True)


def own_file(who: str, number: int) -> str:
    return f"{who}-{number:04d}"


def actions_of(who: str, number: int) -> list[Any]:
    """What the ``number``-th commit of a writer holds: a file, and every fourth time one file less."""
    out: list[Any] = [file(own_file(who, number), stats=STATS)]
    if number % 4 == 3:
        out.append(gone(file(own_file(who, number - 1), stats=STATS)))
    return out


def live_files(who: str, commits: int) -> list[str]:
    """The files of a writer that are in the table after so many of its commits."""
    removed = {n - 1 for n in range(commits) if n % 4 == 3}
    return [own_file(who, n) for n in range(commits) if n not in removed]


def race(log: TableLog, who: str, commits: int) -> Iterator[tuple[int, int, int]]:
    """Commit again and again; yields number, version and attempts of each commit.

    Mostly the next transaction starts from the snapshot that the last commit made, as a streaming
    writer does; sometimes from the table as it is.
    """
    snapshot: Snapshot = load(log)
    for number in range(commits):
        if number % 5 == 4:
            snapshot = load(log)
        elif number % 5 == 2:
            snapshot = snapshot.update()
        committed = Transaction(log, snapshot).commit(actions_of(who, number))
        snapshot = committed.snapshot
        yield number, committed.version, committed.attempts


def once(log: TableLog, who: str, commits: int) -> None:
    """Bring the application ``who`` to ``commits``, one commit per number, wherever it was left."""
    while True:
        transaction = Transaction.begin(log)
        number = (transaction.app_version(who) or 0) + 1
        if number > commits:
            return
        transaction.commit([Txn(app_id=who, version=number), file(own_file(who, number), stats=STATS)])
        say("committed", number)


def main() -> None:
    url, who, commits, mode = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    random.seed(f"{who}-{os.environ.get('TIDEGATE_SEED', '0')}")
    log = TableLog.at(url)
    wrappers = {"lossy": Lossy, "once": Announcing}
    if mode in wrappers:
        log = TableLog(wrappers[mode](log.store))
    say("ready")
    sys.stdin.read()
    if mode == "once":
        once(log, who, commits)
    else:
        for line in race(log, who, commits):
            say("committed", *line)
    say("end")


if __name__ == "__main__":
    main()
