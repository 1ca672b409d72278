"""``python -m benchmarks.search [--rows N]``: index tables against tantivy-py and against scans on Spark.

One run measures both sides of every ratio, interleaved, on the same log lines: the build per core on the same
fields; counts, a selective phrase and its rows against ``LIKE`` over zstd parquet, warm; sizes; and what a
companion's refresh costs after one per cent was appended. Ratios count: absolute times belong to the machine.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import report
from benchmarks.report import Limit, Row

OPTIONS = {"spark.indextables.indexing.typemap.message": "text"}
_WORDS = [
    "connection",
    "reset",
    "timeout",
    "user",
    "login",
    "failed",
    "request",
    "served",
    "cache",
    "miss",
    "hit",
    "disk",
    "full",
    "retry",
    "peer",
    "socket",
    "closed",
    "worker",
    "started",
    "stopped",
    "query",
    "slow",
    "index",
    "merge",
    "commit",
]
_BATCH = 10_000
# The parts of the rows in which a word is looked for, to find where a scan begins to be faster.
SHARES = (0.001, 0.01, 0.1, 0.5, 1.0)
CROSSING = "where the lines cross"
_CHECKS = 10_000
_CALLS = ("get", "get_range", "head", "list_from", "open_input", "put", "put_if_absent", "delete")
# Every so many lines hold the phrase that is looked for.
_RARE = 50_000


def lines(count: int, seed: int = 7) -> pa.Table:
    """Log lines that look like log lines."""
    rng, words = np.random.default_rng(seed), random.Random(seed)
    messages = []
    for i in range(count):
        head = "fatal handshake with upstream" if i % _RARE == 7 else " ".join(words.choices(_WORDS, k=8))
        messages.append(f"{head} id={words.randint(0, 10**6)} took {words.randint(1, 5000)} ms")
    levels = np.array(["INFO", "INFO", "INFO", "WARN", "ERROR", "DEBUG"])
    stamps = np.cumsum(rng.integers(0, 2000, count)) + 1_700_000_000_000_000
    return pa.table(
        {
            "ts": pa.array(stamps, pa.timestamp("us", "UTC")),
            "level": pa.array(levels[rng.integers(0, 6, count)]),
            "host": pa.array([f"host-{i:03d}" for i in rng.integers(0, 200, count)]),
            "status": pa.array(rng.integers(200, 600, count), pa.int32()),
            "latency": pa.array(rng.gamma(2, 30, count)),
            "message": pa.array(messages),
        }
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = work()
    return time.perf_counter() - start, value


def median(work: Callable[[], Any], repeat: int) -> float:
    work()
    return statistics.median(timed(work)[0] for _ in range(repeat))


# ---------------------------------------------------------------------------- building


def build_bare(table: pa.Table, folder: str) -> None:
    """The same fields by tantivy-py alone, one thread."""
    from tantivy import Document, Index

    from tidegate.index.fields import register

    mapping = _mapping(table)
    schema = mapping.schema()
    index = Index(schema, path=folder)
    register(index, mapping)
    writer = index.writer(100 << 20, 1)
    table = table.set_column(0, "ts", table.column("ts").cast(pa.int64()))
    number = 0
    for batch in table.to_batches(_BATCH):
        for row in batch.to_pylist():
            row["_rid"] = number
            number += 1
            writer.add_document(Document.from_dict(row, schema))
    writer.commit()
    writer.wait_merging_threads()


def build_split(table: pa.Table, folder: str) -> int:
    """A whole split: the index, the stored rows, statistics, the packed file."""
    from tidegate.index.build import SplitBuilder

    with SplitBuilder(_mapping(table), directory=folder) as builder:
        for batch in table.to_batches(_BATCH):
            builder.add(batch)
        return builder.finish().size


def _mapping(table: pa.Table) -> Any:
    from tidegate.index.fields import mapping_for
    from tidegate.index.settings import Settings
    from tidegate.schema.arrow import from_arrow_schema

    return mapping_for(from_arrow_schema(table.schema), (), Settings(OPTIONS))


def _cpu(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def building(table: pa.Table, folder: Path, repeat: int) -> dict[str, float]:
    """Rows for each second of a core, whatever else runs on the machine."""
    bare, ours = [], []
    for number in range(repeat):
        where = folder / f"bare{number}"
        where.mkdir()
        bare.append(_cpu(lambda where=where: build_bare(table, str(where))))
        shutil.rmtree(where)
        ours.append(_cpu(lambda: build_split(table, str(folder))))
    rows = table.num_rows
    return {"bare": rows / statistics.median(bare), "ours": rows / statistics.median(ours)}


# ---------------------------------------------------------------------------- searching


def run(rows: int, repeat: int, folder: Path) -> list[Row]:
    import tidegate
    from tidegate import IndexTable

    os.environ["TIDEGATE_CACHE_DIR"] = str(folder / "cache")
    spark = tidegate.enable(
        tidegate.session(**{"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "4"})
    )
    table = lines(rows)
    found: list[Row] = []

    def row(
        what: str,
        ours: float,
        other: float,
        beside: str,
        limit: Limit | None = None,
        unit: str = "s",
    ) -> None:
        found.append(Row(what, ours, other, beside, unit, limit))
        print(f"  {what:58} {ours:12.4f} {other:12.4f} {unit}", flush=True)

    rates = building(table.slice(0, min(rows, 200_000)), folder, 3)
    row(
        "build, rows for each second of a core",
        rates["ours"],
        rates["bare"],
        "bare tantivy-py",
        Limit(">=", 0.8),
        "/s",
    )

    lake, logs = str(folder / "parquet"), str(folder / "logs")
    os.mkdir(lake)
    step = -(-rows // 8)
    for part in range(8):
        pq.write_table(table.slice(part * step, step), f"{lake}/{part}.parquet", compression="zstd")
    spark.read.parquet(lake).write.format("indextables").options(**OPTIONS).save(logs)
    plain = spark.read.parquet(lake)
    index = IndexTable.forPath(spark, logs)
    phrase, pattern = '"fatal handshake with upstream"', "%fatal handshake with upstream%"
    wanted = plain.where(plain.message.like(pattern))

    expected = wanted.count()
    assert index.count(phrase) == expected
    assert index.search(phrase).toArrow().num_rows == expected
    row(
        "count of a phrase, driver",
        median(lambda: index.count(phrase), repeat),
        median(wanted.count, repeat),
        "LIKE on Spark",
        Limit("<=", 0.01),
    )
    common = plain.where(plain.message.rlike(r"\btimeout\b"))
    row(
        "count of a common word, driver",
        median(lambda: index.count("message:timeout"), repeat),
        median(common.count, repeat),
        "rlike on Spark",
        Limit("<=", 0.01),
    )
    row(
        f"selective phrase ({expected} rows) to Arrow",
        median(lambda: index.search(phrase).toArrow(), repeat),
        median(wanted.toArrow, repeat),
        "LIKE on Spark",
        Limit("<=", 0.02),
    )
    row(
        "selective phrase through Spark to rows",
        median(lambda: index.search(phrase).collect(), repeat),
        median(wanted.collect, repeat),
        "LIKE on Spark",
        Limit("<=", 0.25),
    )
    for share in SHARES:
        bound = int(table.column("ts").cast(pa.int64())[int((rows - 1) * share)].as_py())
        moment = np.datetime64(bound, "us").astype("datetime64[us]").item().isoformat() + "Z"
        query = f"ts:[* TO {moment}] AND message:timeout"
        where = f"ts <= timestamp'{moment}' AND message rlike '\\\\btimeout\\\\b'"
        row(
            f"{CROSSING}: a word in {share:.1%} of the rows",
            median(lambda query=query: index.search(query).toArrow(), 3),
            median(lambda where=where: plain.where(where).toArrow(), 3),
            "the same filter",
        )
    size = sum(f.stat().st_size for f in Path(logs).rglob("*.split"))
    zstd = sum(f.stat().st_size for f in Path(lake).glob("*.parquet"))
    row("size, rows included", size / 1e6, zstd / 1e6, "zstd parquet", unit="MB")
    _protocol_check(logs, row)
    _companion(spark, plain, folder, row)
    return found


def _protocol_check(logs: str, row: Callable[..., None]) -> None:
    """What the protocol costs an operation on a snapshot that is at hand: time, and calls to the storage."""
    from tidegate.index.log import IndexLog
    from tidegate.storage import LocalStore

    opening, log = timed(lambda: _opened(IndexLog.at(logs)))
    snapshot = log.snapshot()
    calls = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            return original(*args, **kwargs)

        return call

    originals = {name: getattr(LocalStore, name) for name in _CALLS}
    try:
        for name, original in originals.items():
            setattr(LocalStore, name, counted(original))
        total, _ = timed(lambda: [_checked(log, snapshot) for _ in range(_CHECKS)])
    finally:
        for name, original in originals.items():
            setattr(LocalStore, name, original)
    each = total / _CHECKS
    row(f"protocol check, read and write, warm ({each * 1e6:.1f} us)", each, opening, "opening the table")
    row("storage calls of a warm protocol check", calls, 0, "none", Limit("==", 1), "calls")


def _opened(log: Any) -> Any:
    log.snapshot()
    return log


def _checked(log: Any, snapshot: Any) -> None:
    snapshot.check_readable()
    log.check_writable(snapshot)


def crossing(rows: list[Row]) -> float | None:
    """The share of the rows from which on the scan is faster, between the two measured around it."""
    found = [r for r in rows if r.what.startswith(CROSSING)]
    ratios = [r.tidegate / r.against for r in found]
    for before, after, low, high in zip(ratios, ratios[1:], SHARES, SHARES[1:], strict=False):
        if before < 1 <= after:
            part = -math.log(before) / (math.log(after) - math.log(before))
            return float(low * (high / low) ** part)
    return None


def _companion(spark: Any, plain: Any, folder: Path, row: Callable[..., None]) -> None:
    from tidegate import IndexTable

    delta, alone = str(folder / "delta"), str(folder / "alone")
    plain.write.format("delta").save(delta)
    columns = ["message", "level"]
    whole, index = timed(lambda: IndexTable.buildFor(delta, columns=columns, options=OPTIONS, spark=spark))
    # By this process alone, so that all that it costs can be measured: the time of its cores.
    cost = _cpu(lambda: IndexTable.buildFor(delta, alone, columns, OPTIONS))
    plain.limit(plain.count() // 100).coalesce(1).write.format("delta").mode("append").save(delta)
    part, _ = timed(index.refresh)
    more = _cpu(IndexTable.forPath(None, alone).refresh)
    row("companion: refresh after 1 % more, core-seconds", more, cost, "the build", Limit("<=", 0.0149))
    # No limit: a file is indexed by one core, and the build has all of them, so the share is higher.
    row("companion: refresh after 1 % more, by the clock", part, whole, f"build, {os.cpu_count()} cores")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        found = run(given.rows, given.repeat, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    packages = ("tantivy", "pyspark", "pyarrow")
    cross = crossing(found)
    where = "nowhere up to all of the rows" if cross is None else f"where about {cross:.1%} of the rows match"
    print(f"the lines cross {where}")
    print(report.show([{"part": "search", "rows": [r.document() for r in found]}]))
    more: dict[str, Any] = {
        "crossing": cross,
        "lines": given.rows,
        "repeat": given.repeat,
        "cpus": os.cpu_count(),
    }
    print(f"saved as {report.save('search', found, packages=packages, **more)}")


if __name__ == "__main__":
    main()
