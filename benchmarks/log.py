"""``python -m benchmarks.log``: measure the log engine against delta-rs.

Every figure is the median of interleaved runs, each in its own process; the JSON beside the table
holds all of them. Ratios count: absolute times belong to the machine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import report, tables
from benchmarks.report import Limit, Row

ROOT = Path(__file__).resolve().parent


@dataclass
class Runs:
    """All measurements of one run of the benchmark, by table and name."""

    repeat: int
    values: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)

    def measure(self, table: str, path: Path, *names: str, repeat: int | None = None) -> None:
        """Measure ``names`` on one table, interleaved, ``repeat`` times."""
        for _ in range(repeat or self.repeat):
            for name in names:
                done = subprocess.run(
                    [sys.executable, "-m", "benchmarks.measure", name, str(path)],
                    capture_output=True,
                    text=True,
                    check=False,
                    cwd=ROOT.parent,
                )
                if done.returncode:
                    raise SystemExit(f"{name} on {table} failed:\n{done.stderr}")
                self.values.setdefault((table, name), []).append(json.loads(done.stdout.splitlines()[-1]))

    def median(self, table: str, name: str, key: str = "seconds") -> float:
        return statistics.median(r[key] for r in self.values[table, name])

    def spread(self, table: str, name: str) -> str:
        return report.spread(r["seconds"] for r in self.values[table, name])


def _rows(runs: Runs, sizes: list[int]) -> list[Row]:
    """What is claimed and what was measured."""
    big = f"{sizes[-1]} files"
    rows: list[Row] = []
    for size in sizes:
        name = f"{size} files"
        ours, theirs = (runs.median(name, x) for x in ("load_tidegate", "load_delta_rs"))
        limit = Limit("<=", 0.2) if size == sizes[-1] else None
        spread = runs.spread(name, "load_tidegate")
        rows.append(Row(f"load {size:,} files, all columns", ours, theirs, "delta-rs", "s", limit, spread))
    peaks = [runs.median(big, x, "peak_mib") for x in ("load_tidegate", "load_delta_rs")]
    rows.append(Row(f"peak memory of that at {sizes[-1]:,}", *peaks, "delta-rs", "MiB", Limit("<=", 1)))
    for small, large in itertools.pairwise(sizes):
        a, b = (runs.median(f"{n} files", "load_tidegate") for n in (small, large))
        what = f"load grows {small:,} to {large:,}"
        rows.append(Row(what, b, a, "the smaller", limit=Limit("<=", large // small)))
    bare, parsed = (runs.median(big, x) for x in ("load_tidegate", "prune_tidegate"))
    bare_json, text = (runs.median(f"{big}, JSON statistics", x) for x in ("load_tidegate", "prune_tidegate"))
    update, checkpoint = (runs.median(big, x) for x in ("update_tidegate", "checkpoint_tidegate"))
    commit, small_commit = (runs.median(x, "commit_tidegate") for x in (big, "1000 files"))
    rate = [runs.median("loop", x, "per_second") for x in ("commits_tidegate", "commits_delta_rs")]
    peak = runs.median(big, "checkpoint_tidegate", "peak_mib")
    check, calls = (runs.median("index", "index_check", x) for x in ("seconds", "storage_calls"))
    what = f"one commit to {sizes[-1]:,} files, to 1,000"
    return [
        *rows,
        Row("selective load by stats_parsed", parsed, bare, "bare load", limit=Limit("<=", 2)),
        Row("selective load by JSON statistics", text, bare_json, "bare load", limit=Limit("<=", 3)),
        Row("update() after one commit", update, bare, "bare load", limit=Limit("<=", 0.01)),
        Row(what, commit, small_commit, "1,000 files", limit=Limit("<=", 1.2)),
        Row("commits per second, small table", *rate, "delta-rs", "/s", Limit(">=", 5)),
        Row("write a checkpoint of the largest", checkpoint, bare, "bare load", limit=Limit("<=", 3)),
        Row("peak memory of that", peak, 2048, "2 GiB", "MiB", Limit("<", 1)),
        Row(
            "protocol check of an index table, warm", check * 1e6, 1_000, "a millisecond", "us", Limit("<", 1)
        ),
        Row("storage calls of that", calls, 0, "none", "", Limit("==", 1)),
    ]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000, help="live files of the largest table")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each measurement")
    args = parser.parse_args(argv)
    sizes = [max(1, args.files // 100), max(1, args.files // 10), args.files]
    scratch = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    runs = Runs(args.repeat)
    try:
        # Before the large tables: what they leave the disk to write would be waited for here.
        print("commits per second", flush=True)
        runs.measure("loop", scratch, "commits_tidegate", "commits_delta_rs")
        for size in sizes:
            print(f"making a table of {size:,} files", flush=True)
            tables.many_files(scratch / str(size), size)
            runs.measure(f"{size} files", scratch / str(size), "load_tidegate", "load_delta_rs")
        big, name = scratch / str(sizes[-1]), f"{sizes[-1]} files"
        print("the same with JSON statistics alone", flush=True)
        tables.many_files(scratch / "json", sizes[-1], parsed=False)
        runs.measure(f"{name}, JSON statistics", scratch / "json", "load_tidegate", "prune_tidegate")
        shutil.rmtree(scratch / "json")
        print("pruning, updates, commits, checkpoints", flush=True)
        runs.measure(name, big, "prune_tidegate", "load_tidegate_paths", "checkpoint_tidegate")
        runs.measure(name, big, "update_tidegate", repeat=3)
        tables.many_files(scratch / "small", 1_000)
        for _ in range(3):
            runs.measure("1000 files", scratch / "small", "commit_tidegate", repeat=1)
            runs.measure(name, big, "commit_tidegate", repeat=1)
        runs.measure("index", scratch, "index_check", repeat=3)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    rows = _rows(runs, sizes)
    packages = ("deltalake", "pyarrow", "obstore", "msgspec")
    kept = [{"table": t, "name": n, "values": v} for (t, n), v in runs.values.items()]
    print(f"saved as {report.save('log', rows, packages=packages, runs=kept)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
