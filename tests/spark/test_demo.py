"""The demonstration on Spark runs to its end, tells its story and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_story_on_spark_is_told_whole(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(_ROOT / "examples" / "spark_demo.py")],
        env={**os.environ, "PYTHONPATH": str(_ROOT / "src"), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    words = " ".join(ran.stdout.split())
    for told in (
        "Both are in: the table is at version 2.",
        "The data has columns that the table lacks: coupon.",
        "A row breaks the constraint paid",
        "still version 4",
        "2 1 0 1",
        "250 orders of nl arrived: not one of them twice",
        "5 update_preimage 1",
        "STREAMING UPDATE",
        "400 of 2000 lines",
        ">>quota<< >>exceeded<<",
    ):
        assert told in words, told
    assert list(tmp_path.glob("tidegate-demo-*")) == []
