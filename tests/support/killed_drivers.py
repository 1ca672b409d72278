"""Spark drivers in processes of their own that stand still where they are told to, and are killed there.

The parent's end of ``support.victim``: orders go in, answers come out, and who stands still says so.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.victim import STOPPED

PATIENCE = 240
LINUX_ALONE = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="waits for processes by pidfd: Linux alone"
)
PATHS = os.pathsep.join(
    [str(Path(tidegate.__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent)]
)
SMALL = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF"}


def _wait(descriptor: int, what: str) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(PATIENCE * 1000), f"{what}: nothing came of it in {PATIENCE} s"


def kill(pid: int) -> None:
    """SIGKILL, and wait until the process is gone."""
    descriptor = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        _wait(descriptor, f"process {pid} was killed")
    finally:
        os.close(descriptor)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.append(int(entry.name))
    return found


class Victim:
    """The parent's end of ``support.victim``."""

    def __init__(self, process: subprocess.Popen[str], pipe: int) -> None:
        self.process = process
        self._pipe = pipe
        self._rest = ""
        self.gates: list[str] = []
        self.jvm = int(self.answer()["jvm"])

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        _wait(self.process.stdout.fileno(), "an answer of the victim")
        line = self.process.stdout.readline()
        assert line, "the victim has ended"
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def order(self, do: str, **what: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **what}) + "\n")
        self.process.stdin.flush()

    def stopped(self) -> dict[str, Any]:
        """Who stands still, once somebody does."""
        while "\n" not in self._rest:
            _wait(self._pipe, "a process that stops")
            self._rest += os.read(self._pipe, 65536).decode()
        line, self._rest = self._rest.split("\n", 1)
        found = json.loads(line)
        assert isinstance(found, dict)
        self.gates.append(found["gate"])
        return found

    def go_on(self, stopped: dict[str, Any]) -> None:
        with open(stopped["gate"], "w"):
            self.gates.remove(stopped["gate"])

    def kill_driver(self) -> None:
        kill(self.jvm)
        self.process.kill()
        self.process.wait(PATIENCE)


@contextmanager
def victim(directory: Path, master: str = "local[2]", **confs: str) -> Iterator[Victim]:
    """A driver that waits for orders, and is gone when the block is left."""
    directory.mkdir()
    pipe = directory / STOPPED
    os.mkfifo(pipe)
    # Held open for reading and writing, so that it never comes to an end.
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    process = subprocess.Popen(
        [sys.executable, "-m", "support.victim", str(directory), master, json.dumps({**SMALL, **confs})],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": PATHS},
    )
    started: Victim | None = None
    try:
        started = Victim(process, descriptor)
        yield started
    finally:
        process.kill()
        process.wait(PATIENCE)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        if started is not None:
            # Whoever still stands still is let go, finds everybody gone, and ends.
            for gate in started.gates:
                os.close(os.open(gate, os.O_RDWR | os.O_NONBLOCK))
        os.close(descriptor)
