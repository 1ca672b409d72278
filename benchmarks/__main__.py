"""``python -m benchmarks [PART ...]``: measure beside delta-rs, delta-spark, parquet and tantivy; one table.

Each part runs in a process of its own and keeps its JSON in ``benchmarks/results``; the table at the end
shows all of them. ``--quick`` is for trying it out: small tables, few runs, figures that prove nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import report

# What each part is told for a quick try.
QUICK = {
    "log": ["--files", "20000", "--repeat", "1"],
    "drop": ["--files", "20000", "--repeat", "1"],
    "spark": ["--rows=200000", "--repeat=1", "--changes=1", "--orphans=500", "--files=200", "--named=2000"],
    "search": ["--rows", "50000", "--repeat", "1"],
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(QUICK)}; all of them if none is named")
    parser.add_argument("--quick", action="store_true", help="small tables and few runs")
    args = parser.parse_args(argv)
    parts: list[str] = args.parts or list(QUICK)
    if unknown := [part for part in parts if part not in QUICK]:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(QUICK)}")
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-quick-") as elsewhere:
        return _run(parts, Path(elsewhere) if args.quick else None)


def _run(parts: list[str], elsewhere: Path | None) -> int:
    """Run the parts, show what they found; a quick try keeps its figures ``elsewhere``."""
    environment = {**os.environ, **({"TIDEGATE_BENCH_RESULTS": str(elsewhere)} if elsewhere else {})}
    failed = []
    for part in parts:
        print(f"== {part}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{part}", *(QUICK[part] if elsewhere else [])]
        if subprocess.run(command, env=environment, check=False).returncode:
            failed.append(part)
    results = elsewhere or report.RESULTS
    found = [json.loads((results / f"{part}.json").read_text()) for part in parts if part not in failed]
    print()
    print(report.show(found))
    if failed:
        print(f"did not come to an end: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
