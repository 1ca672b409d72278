"""delta-spark as a peer: one process for all tests, in its own environment, that runs what it is told."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.peers import absent
from tidegate.java import java_home_for_spark

_SERVER = Path(__file__).with_name("delta_spark_server.py")
_ROOT = Path(__file__).parents[2]


class PeerError(Exception):
    """What delta-spark refused: the exception's name, its error class and its words."""

    def __init__(self, reply: dict[str, Any]) -> None:
        super().__init__(f"{reply['error']} {reply['errorClass'] or ''}: {reply['message']}")
        self.name: str = reply["error"]
        self.error_class: str | None = reply["errorClass"]


class DeltaSpark:
    """The process, and how to talk to it."""

    def __init__(self, home: Path) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="tidegate-peer-")
        environment = {
            **os.environ,
            "JAVA_HOME": java_home_for_spark(),
            "TIDEGATE_PEER_WAREHOUSE": f"{self._scratch.name}/warehouse",
            "PYSPARK_PYTHON": str(home / "venv/bin/python"),
            "PYSPARK_DRIVER_PYTHON": str(home / "venv/bin/python"),
        }
        environment.pop("SPARK_HOME", None)
        environment.pop("PYTHONPATH", None)
        self._lock = threading.Lock()
        self._errors = (Path(self._scratch.name) / "stderr").open("wb")
        self._process = subprocess.Popen(
            [str(home / "venv/bin/python"), str(_SERVER), str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
            cwd=self._scratch.name,
        )
        self.spark_version: str = self._reply()["ready"]
        atexit.register(self.close)

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = (Path(self._scratch.name) / "stderr").read_text(errors="replace")[-4000:]
            raise RuntimeError(f"delta-spark's process ended:\n{said}")
        found: dict[str, Any] = json.loads(line)
        return found

    def _ask(self, code: str, out: str | None = None) -> Any:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"code": code, "out": out}) + "\n")
            self._process.stdin.flush()
            reply = self._reply()
        if "error" in reply:
            raise PeerError(reply)
        return reply["value"]

    def run(self, code: str) -> Any:
        """Run Python there; the value of the last expression, as far as JSON holds it."""
        return self._ask(code)

    def sql(self, *statements: str) -> None:
        """Run SQL statements there, for what they do."""
        for statement in statements:
            self._ask(f"spark.sql({statement!r}).collect()\nNone")

    def frame(self, code: str) -> pa.Table:
        """Run Python there whose last expression is a DataFrame; its rows."""
        out = f"{self._scratch.name}/answer.arrow"
        self._ask(code, out)
        with pa.OSFile(out, "rb") as source:
            return pa.ipc.open_file(source).read_all()

    def query(self, statement: str) -> pa.Table:
        """The rows of a query there."""
        return self.frame(f"spark.sql({statement!r})")

    def read(self, path: str, **options: object) -> pa.Table:
        """The rows of the table at ``path``, as the peer sees them."""
        said = "".join(f".option({k!r}, {str(v)!r})" for k, v in options.items())
        return self.frame(f"spark.read.format('delta'){said}.load({path!r})")

    def close(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()
        self._scratch.cleanup()


@lru_cache(maxsize=1)
def _started(home: Path) -> DeltaSpark:
    return DeltaSpark(home)


def delta_spark_home() -> Path:
    """Where the peer is installed; a test that cannot have it ends with a word."""
    folder = Path(os.environ.get("TIDEGATE_PEERS", ".peers"))
    home = (folder if folder.is_absolute() else _ROOT / folder) / "delta-spark"
    if not any(home.glob("ready-*")):
        absent("delta-spark", "`make peers` sets it up where Maven is at hand")
    return home


def delta_spark() -> DeltaSpark:
    """The peer, started on first use; a test that cannot have it ends with a word."""
    return _started(delta_spark_home())
