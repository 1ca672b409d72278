"""An S3 server for tests: moto as a process of its own, on a free port of the loopback.

``s3_server()`` starts it, waits until it answers and ends it by its pid. Tests share one server and
keep apart by bucket: ``server.bucket()`` makes a fresh one.
"""

from __future__ import annotations

import http.client
import itertools
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.peers import require_peer

ACCESS_KEY = "AKIATIDEGATETEST0001"
SECRET_KEY = "tidegate/test/secret/key/0123456789abcdef"
REGION = "us-east-1"

_PATIENCE = 30.0


@dataclass(frozen=True)
class S3Server:
    """A server that runs; credentials are checked for their form only."""

    port: int
    pid: int
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """What ``open_store`` is given to reach it."""
        return {
            "endpoint_url": self.endpoint,
            "region": REGION,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "allow_http": "true",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same as environment variables, for processes of their own."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ALLOW_HTTP": "true",
        }

    def bucket(self, name: str | None = None) -> str:
        """A new bucket's name."""
        name = name or f"bucket-{next(self._numbers):04d}"
        status = _answer(self.port, "PUT", f"/{name}")
        assert status == 200, f"the server answered {status} to a new bucket"
        return name


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A running server; ended, by its pid, when the block is left."""
    require_peer("moto")
    port = _free_port()
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("s3_process.py")), str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(process, port)
        yield S3Server(port, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the S3 server ended with {process.returncode} before it answered")
        try:
            _answer(port, "GET", "/moto-api/")
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the S3 server did not answer within {_PATIENCE} s")


def _answer(port: int, method: str, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()
