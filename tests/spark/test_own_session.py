"""``tidegate.session``: a local Spark that just works, and says nothing that nobody asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

_PROGRAM = """
import json, os, sys, tidegate
before = os.environ.get("JAVA_HOME")
spark = tidegate.enable(tidegate.session(master="local[1]", **{"spark.driver.memory": "600m"}))
table = sys.argv[1]
spark.range(3).write.format("delta").save(table)
print(json.dumps({
    "rows": spark.read.format("delta").load(table).count(),
    "tasks": spark.range(1).mapInArrow(lambda batches: batches, "id long").count(),
    "zone": spark.conf.get("spark.sql.session.timeZone"),
    "arrow": spark.conf.get("spark.sql.execution.arrow.pyspark.enabled"),
    "home_kept": before is None or os.environ["JAVA_HOME"] == before,
}))
spark.stop()
"""


def test_a_session_starts_works_and_stays_quiet(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "table")],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "rows": 3,
        "tasks": 1,
        "zone": "UTC",
        "arrow": "true",
        "home_kept": True,
    }
