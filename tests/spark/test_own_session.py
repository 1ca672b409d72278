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


_AGAIN = """
import json, sys, tidegate
from pyspark.sql import SparkSession
from tidegate.doors import is_enabled
first = tidegate.enable(tidegate.session(master="local[1]", **{"spark.driver.memory": "600m"}))
first.range(3).write.format("delta").save(sys.argv[1])
first.stop()
second = SparkSession.builder.master("local[1]").config("spark.log.level", "OFF").getOrCreate()
told = {"enabled": is_enabled(second)}
try:
    second.read.format("delta").load(sys.argv[1])
except Exception as e:
    told["refused"] = "DATA_SOURCE_NOT_FOUND" in str(e)
tidegate.enable(second)
told["rows"] = second.read.format("delta").load(sys.argv[1]).count()
told["sql"] = second.sql(f"SELECT count(*) FROM delta.`{sys.argv[1]}`").first()[0]
tidegate.disable(second)
told["hooked"] = "tidegate" in SparkSession.sql.__code__.co_filename
tidegate.disable(first)
second.stop()
print(json.dumps(told))
"""


def test_a_session_that_follows_a_stopped_one_is_enabled_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AGAIN, str(tmp_path / "table")],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert json.loads(done.stdout) == {
        "enabled": False,
        "refused": True,
        "rows": 3,
        "sql": 3,
        "hooked": False,
    }
