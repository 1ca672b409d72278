"""``python -m benchmarks.drop``: drop a feature that a large table does not use, against four checkpoints.

The claim: at most twice as long as four checkpoints, and no Spark at all. Each figure is the median of some
runs on the same machine; the drop of each run begins from the same table.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import report, tables
from benchmarks.measure import peak_mib
from benchmarks.report import Limit, Row
from tidegate.commands.drop_feature import drop_feature
from tidegate.commands.upgrade import add_feature_support
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog

FEATURES = ("deletionVectors", "v2Checkpoint", "vacuumProtocolCheck")


def _fresh(made: Path, scratch: Path) -> Path:
    """A copy of the table, so that every run begins with the same log."""
    target = scratch / f"run-{time.time_ns()}"
    shutil.copytree(made, target)
    return target


def four_checkpoints(path: Path) -> float:
    """Four checkpoints of the newest version, each from a fresh look at the table."""
    total = 0.0
    for _ in range(4):
        snapshot = load(TableLog.at(path))
        start = time.perf_counter()
        write_checkpoint(snapshot)
        total += time.perf_counter() - start
    return total


def one_drop(path: Path, feature: str) -> float:
    log = TableLog.at(path)
    start = time.perf_counter()
    drop_feature(log, feature)
    return time.perf_counter() - start


def run(files: int, repeat: int) -> dict[str, Any]:
    scratch = Path(tempfile.mkdtemp(prefix="tidegate-bench-drop-"))
    try:
        made = scratch / "made"
        tables.many_files(made, files)
        for feature in FEATURES:
            add_feature_support(TableLog.at(made), feature)
        times: dict[str, list[float]] = {"four checkpoints": []}
        for _ in range(repeat):
            copy = _fresh(made, scratch)
            times["four checkpoints"].append(four_checkpoints(copy))
            shutil.rmtree(copy)
            for feature in FEATURES:
                copy = _fresh(made, scratch)
                times.setdefault(feature, []).append(one_drop(copy, feature))
                shutil.rmtree(copy)
        spark = any(name.partition(".")[0] in ("pyspark", "py4j") for name in sys.modules)
        medians = {name: statistics.median(values) for name, values in times.items()}
        return {"files": files, "medians": medians, "runs": times, "spark": spark, "peak_mib": peak_mib()}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drop", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args(argv)
    found = run(args.files, args.repeat)
    if found["spark"]:
        raise SystemExit("Spark was loaded: dropping an unused feature must do without it")
    medians = found["medians"]
    base = medians["four checkpoints"]
    rows = [
        Row(f"drop {f} at {args.files:,} files", medians[f], base, "four checkpoints", limit=Limit("<=", 2))
        for f in FEATURES
    ]
    kept = {"runs": found["runs"], "peak_mib": found["peak_mib"]}
    print(f"saved as {report.save('drop', rows, packages=('pyarrow', 'obstore'), **kept)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
