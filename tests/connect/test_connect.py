"""Tables through Spark Connect: a real server, started for these tests, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.peers import require_peer

pytestmark = pytest.mark.spark

PROGRAM = Path(__file__).with_name("scenarios.py")
SCENARIOS = re.findall(r"^def (can_\w+)", PROGRAM.read_text(), re.M)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What came of each scenario."""
    require_peer("grpc")
    folder = tmp_path_factory.mktemp("connect")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
    # A port of its own for the server, as PySpark does it in its own tests.
    environment["SPARK_TESTING"] = "1"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    line = next((x for x in done.stdout.splitlines() if x.startswith("REPORT ")), None)
    assert line is not None, done.stderr[-3000:]
    found: dict[str, str] = json.loads(line.removeprefix("REPORT "))
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_connect_client(report: dict[str, str], scenario: str) -> None:
    assert report[scenario] == "ok"
