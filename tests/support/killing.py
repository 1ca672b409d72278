"""The other end of ``support.nursery``: orders to a process whose children are killed on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tidegate
from support.nursery import VISIBLE

PATHS = os.pathsep.join(
    [str(Path(tidegate.__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent)]
)


@dataclass(frozen=True)
class Ended:
    """How a command ended: by SIGKILL, or by itself; and how many calls to the disk it had made."""

    killed: bool
    code: int | None
    calls: int


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

    def run(self, command: str, path: str, *, at: int = 0, calls: Sequence[str] = VISIBLE) -> Ended:
        """Run a command, killed before the ``at``-th of its ``calls`` where it gets there."""
        order = {"do": command, "path": path, "at": at, "calls": list(calls)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Ended(**self._answer())


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
