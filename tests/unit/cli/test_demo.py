"""The demonstration runs to its end, tells its story and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_demo_tells_its_whole_story(root: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(root / "examples" / "demo.py")],
        env={**os.environ, "PYTHONPATH": str(root / "src"), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    words = " ".join(ran.stdout.split())
    for told in (
        "20 commits",
        "versions 1 to 20",
        "checkpoint.parquet",
        "[VERSION_NOT_FOUND]",
        "ConcurrentDeleteReadException",
        "before: protocol (1,2)",
        "[UNSUPPORTED_READER_FEATURE]",
        "SET TBLPROPERTIES",
        "The table is sound.",
        "»Connection« »reset« by peer",
    ):
        assert told in words, told
    assert list(tmp_path.glob("tidegate-demo-*")) == []


def test_the_demo_runs_without_rich(root: Path, tmp_path: Path) -> None:
    script = "import sys; sys.modules['rich'] = sys.modules['rich.console'] = None\n"
    script += "import runpy; demo = runpy.run_path(sys.argv[1]); screen = demo['Screen']()\n"
    script += "screen.chapter('One'); screen.say('two'); screen.table(['a', 'b'], [(1, 2)])"
    ran = subprocess.run(
        [sys.executable, "-c", script, str(root / "examples" / "demo.py")],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == ["1.", "One", "------", "two", "a", "b", "1", "2"]
