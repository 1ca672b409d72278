"""``python -m benchmarks.spark``: tables on Spark, side by side with plain parquet and with delta-spark.

Two Spark processes live for the whole run, ours and delta-spark's, with the same memory and cores; only
one works at a time, in turns. Each figure is the median of its runs, with the spread beside it. What a run
changes it changes on a copy, made of hard links before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import report
from benchmarks.report import Limit, Row, spread

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parent / "tests"))

_ROWS = (
    "spark.range({n}).selectExpr('id', 'id % 1000 AS k', 'id * 0.5D AS x', "
    "\"concat('name-', id % 100000) AS name\", 'timestamp_seconds(id) AS ts')"
)
_ALL = "agg(F.sum('id'), F.sum('k'), F.sum('x'), F.max('name'), F.max('ts')).collect()"
MEMORY = "4g"
# What is asked beside plain parquet; beside delta-spark we mean to be faster at everything.
AIMS = {("write", "parquet"): Limit("<=", 1.10), ("scan", "parquet"): Limit("<=", 1.05)}
_FASTER = Limit("<", 1)


@dataclass
class Times:
    """Seconds of every run, by what was measured and by engine."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, what: str, engine: str, seconds: float) -> None:
        self.values.setdefault(what, {}).setdefault(engine, []).append(seconds)
        print(f"  {what:34} {engine:12} {seconds:8.3f} s", flush=True)

    def rows(self) -> list[Row]:
        """Our median beside that of every other engine, and what is asked of it."""
        found = []
        for what, engines in self.values.items():
            ours = engines["tidegate"]
            for engine, times in engines.items():
                if engine != "tidegate":
                    limit = next(
                        (x for (w, e), x in AIMS.items() if what.startswith(w) and e == engine), _FASTER
                    )
                    middles = statistics.median(ours), statistics.median(times)
                    found.append(Row(what, *middles, engine, limit=limit, spread=spread(ours)))
        return found


class Ours:
    """Our session, which also runs plain parquet."""

    def __init__(self) -> None:
        from pyspark.sql import functions, types

        import tidegate

        options = {
            "spark.driver.memory": MEMORY,
            "spark.sql.shuffle.partitions": "2",
            "spark.log.level": "OFF",
        }
        spark = tidegate.session(master="local[2]", **options)
        spark.sparkContext.setLogLevel("OFF")
        tidegate.enable(spark)
        self.names: dict[str, Any] = {
            "spark": spark,
            "DeltaTable": tidegate.DeltaTable,
            "F": functions,
            "T": types,
        }

    def timed(self, code: str) -> float:
        start = time.perf_counter()
        exec(compile(code, "benchmark", "exec"), self.names)
        return time.perf_counter() - start


class Theirs:
    """delta-spark in its own process; the clock runs there."""

    def __init__(self) -> None:
        os.environ["TIDEGATE_PEER_MEMORY"] = MEMORY
        from support.delta_spark import delta_spark

        self.peer = delta_spark()

    def timed(self, code: str) -> float:
        text = (
            f"import time\n_start = time.perf_counter()\n{code}\n_took = time.perf_counter() - _start\n_took"
        )
        return float(self.peer.run(text))


def linked(source: Path, target: Path) -> Path:
    """A copy of a table that shares its files' bytes."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-al", str(source), str(target)], check=True)
    # The log is written to, so it is a copy of its own.
    shutil.rmtree(target / "_delta_log")
    shutil.copytree(source / "_delta_log", target / "_delta_log")
    return target


def many_files(path: Path, files: int, rows: int) -> None:
    """A real table of many small files, each with its own range of ids."""
    import tidegate
    from tidegate.log.actions import Add
    from tidegate.log.checkpoint.write import write_checkpoint
    from tidegate.metadata import Metadata

    path.mkdir(parents=True)
    adds = []
    for i in range(files):
        ids = pa.array(range(i * rows, (i + 1) * rows), pa.int64())
        name = f"part-{i:05d}-{uuid.uuid4()}-c000.snappy.parquet"
        pq.write_table(pa.table({"id": ids, "name": ids.cast(pa.string())}), path / name)
        stats = {
            "numRecords": rows,
            "minValues": {"id": i * rows},
            "maxValues": {"id": (i + 1) * rows - 1},
            "nullCount": {"id": 0},
        }
        size = (path / name).stat().st_size
        adds.append(
            Add(
                path=name,
                partition_values={},
                size=size,
                modification_time=time.time_ns() // 1_000_000,
                data_change=True,
                stats=json.dumps(stats),
            )
        )
    fields = [
        {"name": n, "type": t, "nullable": True, "metadata": {}}
        for n, t in (("id", "long"), ("name", "string"))
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    transaction = tidegate.Transaction.begin(path)
    transaction.update_metadata(Metadata(id=str(uuid.uuid4()), schema_string=schema))
    write_checkpoint(transaction.commit(adds).snapshot)


def planned_table(path: Path, files: int, partitions: int) -> None:
    """A table whose log names so many files in so many partitions; none are there, planning asks for none."""
    import tidegate
    from support.named_files import named_files
    from tidegate.log.checkpoint.write import write_checkpoint
    from tidegate.metadata import Metadata

    path.mkdir(parents=True)
    fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in ("id", "p")]
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=json.dumps({"type": "struct", "fields": fields}),
        partition_columns=("p",) if partitions else (),
    )
    transaction = tidegate.Transaction.begin(path)
    transaction.update_metadata(metadata)
    write_checkpoint(transaction.commit(named_files(files, partitions)).snapshot)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=9, help="runs of writing and scanning")
    parser.add_argument("--changes", type=int, default=3, help="runs of MERGE, DELETE, OPTIMIZE, VACUUM")
    parser.add_argument("--orphans", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--named", type=int, default=100_000, help="files of a scan that is planned alone")
    args = parser.parse_args(argv)
    times = Times()
    ours, theirs = Ours(), Theirs()
    scratch = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        _write_and_scan(times, ours, theirs, scratch, args)
        _selective(times, ours, theirs, scratch, args)
        _planning(times, ours, theirs, scratch, args)
        _changes(times, ours, theirs, scratch, args)
        _services(times, ours, theirs, scratch, args)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    packages = ("pyspark", "pyarrow")
    print(f"saved as {report.save('spark', times.rows(), packages=packages, seconds=times.values)}")
    return 0


def _engines(ours: Ours, theirs: Theirs) -> list[tuple[str, Callable[[str], float]]]:
    return [("tidegate", ours.timed), ("delta-spark", theirs.timed)]


def _write_and_scan(
    times: Times, ours: Ours, theirs: Theirs, scratch: Path, args: argparse.Namespace
) -> None:
    data = _ROWS.format(n=args.rows)
    ways = [("parquet", "parquet", ours.timed), *((n, "delta", t) for n, t in _engines(ours, theirs))]
    for turn in range(args.repeat + 1):
        for name, kind, timed in ways:
            target = scratch / f"written-{name}"
            shutil.rmtree(target, ignore_errors=True)
            seconds = timed(f"{data}.write.format({kind!r}).save({str(target)!r})")
            scan = timed(f"spark.read.format({kind!r}).load({str(target)!r}).{_ALL}")
            if turn:
                # The first turn warms both processes up.
                times.add(f"write {args.rows:,} rows", name, seconds)
                times.add(f"scan {args.rows:,} rows", name, scan)


def _selective(times: Times, ours: Ours, theirs: Theirs, scratch: Path, args: Namespace) -> None:
    table = scratch / "many"
    many_files(table, args.files, 100)
    for turn in range(args.repeat + 1):
        for name, timed in _engines(ours, theirs):
            wanted = (turn * 7919) % (args.files * 100)
            code = f"spark.read.format('delta').load({str(table)!r}).where('id = {wanted}').collect()"
            seconds = timed(code)
            if turn:
                times.add(f"selective read, {args.files:,} files", name, seconds)


def _planning(times: Times, ours: Ours, theirs: Theirs, scratch: Path, args: Namespace) -> None:
    """A scan of a whole table up to its tasks; none of them runs."""
    for partitions in (0, args.named // 10):
        table = scratch / f"named-{partitions}"
        planned_table(table, args.named, partitions)
        code = (
            f"spark.read.format('delta').load({str(table)!r})"
            "._jdf.queryExecution().toRdd().getNumPartitions()"
        )
        what = f"plan {args.named:,} files" + (f", {partitions:,} partitions" if partitions else "")
        for turn in range(args.repeat + 1):
            for name, timed in _engines(ours, theirs):
                seconds = timed(code)
                if turn:
                    times.add(what, name, seconds)


def _changes(times: Times, ours: Ours, theirs: Theirs, scratch: Path, args: Namespace) -> None:
    base = scratch / "written-delta-spark"
    n = args.rows
    source = (
        f"spark.range({n // 50}).selectExpr('IF(id < {n // 100}, id * 100, {n} + id) AS id', '1L AS k', "
        "'0.0D AS x', \"'merged' AS name\", 'timestamp_seconds(0) AS ts')"
    )
    merge = (
        "(DeltaTable.forPath(spark, {path!r}).alias('t').merge(" + source + ".alias('s'), 't.id = s.id')"
        ".whenMatchedUpdateAll().whenNotMatchedInsertAll().execute())"
    )
    delete = "DeltaTable.forPath(spark, {path!r}).delete('id % 1000 = 7')"
    for _ in range(args.changes):
        for what, code in (("MERGE 1 % + 1 %", merge), ("DELETE 0.1 %", delete)):
            for name, timed in _engines(ours, theirs):
                copy = linked(base, scratch / f"copy-{name}")
                times.add(f"{what} of {n:,} rows", name, timed(code.format(path=str(copy))))


def _services(times: Times, ours: Ours, theirs: Theirs, scratch: Path, args: Namespace) -> None:
    small = scratch / "small"
    many_files(small, 1_000, 1_000)
    for _ in range(args.changes):
        for name, timed in _engines(ours, theirs):
            copy = linked(small, scratch / f"copy-{name}")
            code = f"DeltaTable.forPath(spark, {str(copy)!r}).optimize().executeCompaction()"
            times.add("OPTIMIZE of 1,000 files", name, timed(code))
    long_ago = time.time() - 30 * 86_400
    for _ in range(max(1, args.changes - 2)):
        for name, timed in _engines(ours, theirs):
            copy = linked(small, scratch / f"copy-{name}")
            for i in range(args.orphans):
                orphan = copy / f"orphan-{i}.parquet"
                orphan.touch()
                os.utime(orphan, (long_ago, long_ago))
            code = f"DeltaTable.forPath(spark, {str(copy)!r}).vacuum()"
            times.add(f"VACUUM of {args.orphans:,} orphans", name, timed(code))


if __name__ == "__main__":
    sys.exit(main())
