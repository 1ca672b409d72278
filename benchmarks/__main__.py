"""``make bench``: measure the log engine against delta-rs and print one table.

Every figure is the median of interleaved runs, each in its own process; the JSON beside the table
holds all of them. Ratios count: absolute times belong to the machine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import tables

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results"


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
        times = sorted(r["seconds"] for r in self.values[table, name])
        return f"{times[0]:.3f}-{times[-1]:.3f}"


def _report(runs: Runs, sizes: list[int]) -> list[dict[str, Any]]:
    """What is claimed, what was measured, and whether it holds."""
    big = f"{sizes[-1]} files"
    rows: list[dict[str, Any]] = []

    def row(what: str, ours: float, other: float, unit: str, limit: str, holds: bool) -> None:
        rows.append(
            {
                "what": what,
                "tidegate": ours,
                "against": other,
                "unit": unit,
                "ratio": ours / other if other else None,
                "limit": limit,
                "holds": holds,
            }
        )

    for size in sizes:
        name = f"{size} files"
        ours, theirs = runs.median(name, "load_tidegate"), runs.median(name, "load_delta_rs")
        is_largest = size == sizes[-1]
        limit = "at most 1/5 of delta-rs" if is_largest else "beside it, no limit"
        holds = not is_largest or ours <= theirs / 5
        row(f"load {size:,} files, all columns", ours, theirs, "s", limit, holds)
    peak = (runs.median(big, "load_tidegate", "peak_mib"), runs.median(big, "load_delta_rs", "peak_mib"))
    row(f"peak memory of that at {sizes[-1]:,}", *peak, "MiB", "no more than delta-rs", peak[0] <= peak[1])
    for small, large in itertools.pairwise(sizes):
        a, b = (runs.median(f"{n} files", "load_tidegate") for n in (small, large))
        times = large // small
        row(f"load grows {small:,} to {large:,}", b, a, "s", f"at most {times}x", b <= a * times)
    bare = runs.median(big, "load_tidegate")
    bare_json = runs.median(f"{big}, JSON statistics", "load_tidegate")
    parsed = runs.median(big, "prune_tidegate")
    text = runs.median(f"{big}, JSON statistics", "prune_tidegate")
    row("selective load by stats_parsed", parsed, bare, "s", "at most 2x the bare load", parsed <= 2 * bare)
    holds = text <= 3 * bare_json
    row("selective load by JSON stats", text, bare_json, "s", "at most 3x the bare load", holds)
    update = runs.median(big, "update_tidegate")
    row("update() after one commit", update, bare, "s", "at most 1/100 of the load", update <= bare / 100)
    commit, small_commit = runs.median(big, "commit_tidegate"), runs.median("1000 files", "commit_tidegate")
    row(
        f"one commit to {sizes[-1]:,} files, to 1,000",
        commit,
        small_commit,
        "s",
        "at most 1.2x",
        commit <= 1.2 * small_commit,
    )
    ours, theirs = (runs.median("loop", n, "per_second") for n in ("commits_tidegate", "commits_delta_rs"))
    row("commits per second, small table", ours, theirs, "/s", "at least 5x delta-rs", ours >= 5 * theirs)
    checkpoint = runs.median(big, "checkpoint_tidegate")
    row("write a checkpoint of it", checkpoint, bare, "s", "at most 3x the load", checkpoint <= 3 * bare)
    peak_mib = runs.median(big, "checkpoint_tidegate", "peak_mib")
    row("peak memory of that", peak_mib, 2048, "MiB", "under 2 GiB", peak_mib < 2048)
    check, calls = (runs.median("index", "index_check", key) for key in ("seconds", "storage_calls"))
    row("protocol check, index table, warm", check * 1e6, 1_000, "us", "under 1 ms", check < 0.001)
    row("storage calls of that", calls, 0, "", "none", calls == 0)
    return rows


def _show(rows: list[dict[str, Any]]) -> None:
    print(f"{'what':42} {'tidegate':>12} {'against':>12} {'ratio':>8}  {'limit':26} holds")
    for r in rows:
        form = ".4f" if r["unit"] == "s" else ",.0f"
        ours, other = (f"{r[k]:{form}} {r['unit']}" for k in ("tidegate", "against"))
        ratio = f"{r['ratio']:.3f}" if r["ratio"] is not None else ""
        holds = "yes" if r["holds"] else "NO"
        print(f"{r['what']:42} {ours:>12} {other:>12} {ratio:>8}  {r['limit']:26} {holds}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000, help="live files of the largest table")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each measurement")
    parser.add_argument("--out", type=Path, default=RESULTS / "log.json", help="where the JSON goes")
    args = parser.parse_args(argv)
    sizes = [max(1, args.files // 100), max(1, args.files // 10), args.files]
    scratch = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    runs = Runs(args.repeat)
    try:
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
        runs.measure("loop", scratch, "commits_tidegate", "commits_delta_rs", repeat=3)
        runs.measure("index", scratch, "index_check", repeat=3)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    rows = _report(runs, sizes)
    _show(rows)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": {"system": platform.system(), "python": platform.python_version()},
        "versions": {p: version(p) for p in ("deltalake", "pyarrow", "obstore", "msgspec")},
        "rows": rows,
        "runs": [{"table": t, "name": n, "values": v} for (t, n), v in runs.values.items()],
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"saved as {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
