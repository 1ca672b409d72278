"""Real processes killed in the middle of a write: the driver, an executor, a Python worker, a stream.

Each is stopped at a known point by the process itself and then killed with SIGKILL. Whatever it was, the
table stays at its version with nothing of the write in it, proves clean, and the write that is tried
again succeeds; a stream that is started again writes each of its batches once.
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
from support.session import shared_session
from support.streams import into, source
from support.victim import STOPPED
from tidegate.log.history import history
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for processes by pidfd: Linux alone"),
]

PATIENCE = 240
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


def _children(pid: int) -> list[int]:
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


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table with the numbers 0 to 3, at version 0."""
    path = str(tmp_path / "table")
    shared_session().range(4).write.format("delta").save(path)
    return path


def _rows(path: str) -> list[int]:
    return sorted(r.id for r in shared_session().read.format("delta").load(path).collect())


def _assert_untouched(path: str, version: int, rows: range) -> None:
    assert tidegate.open(path).version == version
    assert [f for f in verify(TableLog.at(path), deep=True).findings if f.severity == "error"] == []
    assert _rows(path) == list(rows)


def _data_files(path: str) -> int:
    return len(list(Path(path).glob("*.parquet")))


def test_the_driver_is_killed_in_the_middle_of_a_write(table: str, tmp_path: Path) -> None:
    before = _data_files(table)
    with victim(tmp_path / "victim") as running:
        running.order("write", table=table, first=4, last=11, row=11, attempts=1, portable=False)
        running.stopped()
        assert _data_files(table) > before, "some tasks have written their files by now"
        running.kill_driver()
    _assert_untouched(table, 0, range(4))
    shared_session().range(4, 12).write.format("delta").mode("append").save(table)
    _assert_untouched(table, 1, range(12))


def test_a_python_worker_and_an_executor_are_killed_in_the_middle_of_a_write(
    table: str, tmp_path: Path
) -> None:
    """A task has two tries: the second one after the worker's death succeeds, both of the executor's die."""
    confs = {"spark.task.maxFailures": "2", "spark.executor.memory": "1g"}
    with victim(tmp_path / "victim", "local-cluster[2,1,1024]", **confs) as running:
        running.order("write", table=table, first=4, last=11, row=11, attempts=1, portable=True)
        stopped = running.stopped()
        writers = [pid for pid in _children(stopped["parent"]) if pid != stopped["pid"]]
        assert writers, "the worker that writes is another one than the one that stopped"
        for pid in writers:
            kill(pid)
        _assert_untouched(table, 0, range(4))
        running.go_on(stopped)
        assert running.answer() == {"ok": "written"}
        _assert_untouched(table, 1, range(12))

        running.order("write", table=table, first=12, last=19, row=19, attempts=2, portable=True)
        for _ in range(2):
            kill(running.stopped()["grandparent"])
        assert "error" in running.answer()
        _assert_untouched(table, 1, range(12))
        running.order("write", table=table, first=12, last=19, row=-1, attempts=0, portable=True)
        assert running.answer() == {"ok": "written"}
        running.kill_driver()
    _assert_untouched(table, 2, range(20))


def test_a_stream_is_killed_at_every_point_of_a_batch_and_writes_each_once(tmp_path: Path) -> None:
    spark = shared_session()
    numbers, table, checkpoint = (str(tmp_path / name) for name in ("numbers", "table", "checkpoint"))
    spark.range(4).coalesce(1).write.format("delta").save(numbers)
    for first in (4, 8, 12):
        spark.range(first, first + 4).coalesce(1).write.format("delta").mode("append").save(numbers)

    def killed_at(point: str, number: int, versions: int) -> None:
        with victim(tmp_path / point.replace(" ", "-")) as running:
            running.order(
                "stream", source=numbers, table=table, checkpoint=checkpoint, point=point, number=number
            )
            running.stopped()
            running.kill_driver()
        if versions:
            _assert_untouched(table, versions - 1, range(4 * versions))
        else:
            assert not (Path(table) / "_delta_log").exists()

    killed_at("rows", 2, versions=0)
    killed_at("before commit", 1, versions=1)
    killed_at("after commit", 1, versions=2)
    into(source(spark, numbers, maxFilesPerTrigger=1), table, checkpoint)
    _assert_untouched(table, 3, range(16))
    entries = history(TableLog.at(table), 3)[::-1]
    assert [e["operationParameters"]["epochId"] for e in entries] == ["0", "1", "2", "3"]
