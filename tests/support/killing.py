"""The other end of ``support.nursery``: orders to a process whose children are killed on the way."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import tidegate
from support.nursery import VISIBLE
from support.victim import STOPPED

PATHS = os.pathsep.join(
    [str(Path(tidegate.__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent)]
)


@dataclass(frozen=True)
class Ended:
    """How a command ended: by SIGKILL, or by itself; its calls to the disk until then, its error by name."""

    killed: bool
    code: int | None
    calls: int
    error: str | None = None


class Nursery:
    """A process that carries out orders in forks of itself."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self._answer() == {"ready": True}

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the nursery has ended"
        return json.loads(line)

    def _order(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def run(self, command: str, path: str, *, at: int = 0, calls: Sequence[str] = VISIBLE) -> Ended:
        """Run a command, killed before the ``at``-th of its ``calls`` where it gets there."""
        self._order(do=command, path=path, at=at, calls=list(calls))
        return Ended(**self._answer())

    def interrupted(self, command: str, path: str, directory: Path, work: Callable[[], object]) -> Ended:
        """Run a command, and ``work`` in this process while the other one stands before its commit."""
        directory.mkdir()
        os.mkfifo(directory / STOPPED)
        # Held open for reading and writing, so that neither end waits for the other.
        descriptor = os.open(directory / STOPPED, os.O_RDWR)
        try:
            self._order(do=command, path=path, stop=str(directory))
            said = json.loads(os.read(descriptor, 65536))
            work()
            with open(said["gate"], "w"):
                pass
            return Ended(**self._answer())
        finally:
            os.close(descriptor)


@contextmanager
def nursery(*arguments: str) -> Iterator[Nursery]:
    """A nursery, gone when the block is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "support.nursery", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PATHS},
    )
    try:
        yield Nursery(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()


@lru_cache(maxsize=1)
def spark_nursery() -> Nursery:
    """The one nursery with a session that the tests of a process share."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(nursery("spark"))
