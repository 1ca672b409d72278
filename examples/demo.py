"""A table's life in a dozen seconds: what `make demo` shows. No Spark, nothing but a temporary directory.

Several processes write one table at once; the log keeps their order. Then the table is checkpointed,
looked at in the past, searched by its statistics, fought over, upgraded and proven sound. A table of
log messages is searched at the end.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tidegate
from tidegate.errors import TidegateError
from tidegate.log.actions import Add, Remove, Txn
from tidegate.log.checkpoint.write import write_checkpoint, write_checksum
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.metadata import Metadata
from tidegate.transaction.transaction import Transaction

WRITERS = 4
BATCHES = 5
ROWS = 200
DAYS = ("2026-03-01", "2026-03-02", "2026-03-03")

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("id", "long"), ("amount", "double"), ("day", "date"))
        ],
    }
)


# ---------------------------------------------------------------------------- the screen


class Screen:
    """Rich where it is installed, plain lines where it is not."""

    def __init__(self) -> None:
        try:
            from rich.console import Console
        except ImportError:
            self._console: Any = None
        else:
            width = None if sys.stdout.isatty() else 110
            self._console = Console(highlight=False, markup=False, width=width)
        self._chapter = 0

    def chapter(self, title: str) -> None:
        self._chapter += 1
        title = f"{self._chapter}. {title}"
        if self._console is None:
            print(f"\n{title}\n{'-' * len(title)}")
        else:
            self._console.print()
            self._console.rule(title, align="left", style="dim")

    def say(self, text: str, style: str = "") -> None:
        if self._console is None:
            print(text)
        else:
            self._console.print(text, style=style)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        texts = [[str(v) for v in row] for row in rows]
        if self._console is None:
            print("  ".join(columns))
            for row in texts:
                print("  ".join(row))
            return
        from rich import box
        from rich.table import Table

        table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in texts:
            table.add_row(*row)
        self._console.print(table)


# ---------------------------------------------------------------------------- writing


def write_file(table: str, first_id: int, day: str) -> Add:
    """A small parquet file in its partition's directory, and the log's entry for it."""
    rows = pa.table(
        {
            "id": pa.array(range(first_id, first_id + ROWS), pa.int64()),
            "amount": pa.array([(first_id + n) % 97 / 4 for n in range(ROWS)]),
        }
    )
    path = f"day={day}/part-{first_id:08d}.parquet"
    target = Path(table) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target)
    bounds = {name: pc.min_max(rows.column(name)).as_py() for name in rows.column_names}
    stats = {
        "numRecords": ROWS,
        "minValues": {name: b["min"] for name, b in bounds.items()},
        "maxValues": {name: b["max"] for name, b in bounds.items()},
        "nullCount": dict.fromkeys(bounds, 0),
    }
    return Add(
        path=path,
        partition_values={"day": day},
        size=target.stat().st_size,
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=json.dumps(stats),
    )


@dataclass(frozen=True)
class Work:
    """What one writer process did."""

    writer: str
    versions: list[int]
    lost_races: int
    skipped: int


def append_batches(table: str, number: int) -> Work:
    """One writer, in a process of its own: it commits its batches, each exactly once.

    Its application id and the number of the batch go into the commit. At the end it forgets that the last
    batch went well and sends it again, as a job does that was restarted: the log remembers.
    """
    writer = f"writer-{number}"
    versions: list[int] = []
    lost = skipped = 0
    for batch in [*range(BATCHES), BATCHES - 1]:
        transaction = Transaction.begin(table)
        done = transaction.app_version(writer)
        if done is not None and done >= batch:
            skipped += 1
            continue
        first_id = (number * BATCHES + batch) * ROWS
        add = write_file(table, first_id, DAYS[batch % len(DAYS)])
        committed = transaction.commit(
            [add, Txn(app_id=writer, version=batch)],
            tidegate.Operation("WRITE", {"mode": "Append"}),
            metrics={"numFiles": 1, "numOutputRows": ROWS},
        )
        versions.append(committed.version)
        lost += committed.attempts - 1
    return Work(writer, versions, lost, skipped)


# ---------------------------------------------------------------------------- the story


def create(screen: Screen, table: str) -> None:
    screen.chapter("A table is born")
    transaction = Transaction.begin(table)
    transaction.update_metadata(
        Metadata(
            id="7d9f1a52-5f0c-4f6e-9a43-0d1e7b0a5c11",
            name="payments",
            schema_string=SCHEMA,
            partition_columns=("day",),
            configuration={"delta.checkpointInterval": "1000"},
        )
    )
    committed = transaction.commit(operation="CREATE TABLE")
    screen.say(f"{table}: version {committed.version}, three columns, partitioned by day, no rows.")
    screen.say(f"Its {committed.snapshot.protocol}: every Delta client may read and write it.")


def write_concurrently(screen: Screen, table: str) -> None:
    screen.chapter(f"{WRITERS} processes write it at once")
    began = time.monotonic()
    with ProcessPoolExecutor(WRITERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        works = list(pool.map(append_batches, [table] * WRITERS, range(WRITERS)))
    screen.table(
        ["writer", "its versions", "races lost and won later", "sent twice, taken once"],
        [(w.writer, ", ".join(map(str, w.versions)), w.lost_races, w.skipped) for w in works],
    )
    versions = sorted(v for w in works for v in w.versions)
    assert versions == list(range(1, WRITERS * BATCHES + 1)), versions
    screen.say(
        f"{len(versions)} commits in {time.monotonic() - began:.1f} s, versions {versions[0]} to "
        f"{versions[-1]}: no gap, none twice, and no lock anywhere. Each version was one put-if-absent."
    )


def checkpoint(screen: Screen, table: str) -> None:
    screen.chapter("A checkpoint")
    before = tidegate.open(table)
    replayed = len(before.segment.commits)
    written = write_checkpoint(before)
    if before.checksum is None:
        write_checksum(before, written.checksum)
    after = tidegate.open(table)
    screen.say(f"Before: a reader replays {replayed} commits.")
    screen.say(
        f"After: it reads {written.checkpoint.files[0].name.text} with {written.hint.size} actions, and "
        f"{len(after.segment.commits)} commits. The table is the same: "
        f"{before.num_files} files, then {after.num_files}."
    )


def travel(screen: Screen, table: str) -> None:
    screen.chapter("Travelling in time")
    latest = tidegate.open(table)
    moment = latest.history()[len(latest.history()) // 2]["timestamp"]
    rows = []
    for asked, found in (
        ("the latest", latest),
        ("version 5", tidegate.open(table, version=5)),
        (f"at {moment:%H:%M:%S.%f}"[:-3], tidegate.open(table, timestamp=moment)),
    ):
        rows.append((asked, found.version, found.num_files, f"{found.size_in_bytes:,} bytes"))
    screen.table(["asked for", "version", "files", "size"], rows)
    try:
        tidegate.open(table, version=999)
    except TidegateError as e:
        screen.say(f"And beyond the end: [{e.code}] {e.message}")


def skip(screen: Screen, table: str) -> None:
    screen.chapter("Skipping data")
    snapshot = tidegate.open(table)
    rows = []
    for predicate in ("day = '2026-03-02'", "id < 500", "day = '2026-03-02' AND id < 500", "id = 123456789"):
        rows.append((predicate, snapshot.files(predicate).num_rows, snapshot.num_files))
    screen.table(["where", "files to read", "of"], rows)
    screen.say("By partition values and by the minima and maxima in the log; no data file was opened.")


def fight(screen: Screen, table: str) -> None:
    screen.chapter("A conflict, and one that is none")
    ours, theirs = Transaction.begin(table), Transaction.begin(table)
    found = ours.files("id < 200", ["path", "size"])
    appended = theirs.commit([write_file(table, 900_000, DAYS[0])], "WRITE")
    removes = [_remove(row) for row in found.to_pylist()]
    done = ours.commit(removes, tidegate.Operation("DELETE", {"predicate": "id < 200"}))
    screen.say(
        f"A delete of id < 200 began, an append of ids from 900000 on won (version {appended.version})."
        f"\nIts statistics say that they do not meet: the delete is version {done.version}."
    )
    ours, theirs = Transaction.begin(table), Transaction.begin(table)
    mine = [_remove(r) for r in ours.files("id = 300", ["path", "size"]).to_pylist()]
    other = [_remove(r) for r in theirs.files("id = 301", ["path", "size"]).to_pylist()]
    theirs.commit(other, tidegate.Operation("DELETE", {"predicate": "id = 301"}))
    screen.say("Then two deletes meet in one file:")
    try:
        ours.commit(mine, tidegate.Operation("DELETE", {"predicate": "id = 300"}))
    except TidegateError as e:
        screen.say(f"{type(e).__name__}\n{e}", "yellow")


def _remove(row: dict[str, Any]) -> Remove:
    return Remove(path=row["path"], size=row["size"], deletion_timestamp=time.time_ns() // 1_000_000)


def upgrade(screen: Screen, table: str) -> None:
    screen.chapter("The protocol, upgraded by asking for what it brings")
    transaction = Transaction.begin(table)
    before, metadata = transaction.protocol, transaction.metadata
    wanted = {"delta.enableDeletionVectors": "true", "delta.enableInCommitTimestamps": "true"}
    transaction.update_metadata(metadata.with_configuration({**metadata.configuration, **wanted}))
    operation = tidegate.Operation("SET TBLPROPERTIES", {"properties": wanted})
    committed = transaction.commit(operation=operation)
    screen.say(f"SET TBLPROPERTIES {', '.join(f'{k} = {v}' for k, v in wanted.items())}")
    screen.say(f"before: {before}\nafter:  {committed.snapshot.protocol}")
    screen.say("Clients that know neither are now told so by name, before they read a row wrongly.")


def refuse(screen: Screen, directory: str) -> None:
    screen.chapter("A table from the future")
    log = Path(directory) / "future" / "_delta_log"
    log.mkdir(parents=True)
    features = ["deletionVectors", "timeMachine"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    metadata = {"id": "f", "format": {"provider": "parquet"}, "schemaString": SCHEMA, "partitionColumns": []}
    lines = [{"protocol": protocol}, {"metaData": {**metadata, "configuration": {}}}]
    (log / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    try:
        tidegate.open(log.parent)
    except TidegateError as e:
        screen.say(f"[{e.code}] {e.message}\n{e.hint}", "yellow")


def look_back(screen: Screen, table: str) -> None:
    screen.chapter("History")
    snapshot = tidegate.open(table)
    entries = snapshot.history()
    shown = [*entries[:6], entries[-1]]
    screen.table(
        ["version", "committed (UTC)", "operation", "parameters"],
        [
            (
                e["version"],
                f"{e['timestamp']:%H:%M:%S.%f}"[:-3],
                e["operation"],
                ", ".join(f"{k}={v}" for k, v in e["operationParameters"].items()),
            )
            for e in shown
        ],
    )
    applications = ", ".join(f"{app} at {txn.version}" for app, txn in sorted(snapshot.transactions.items()))
    screen.say(f"{len(entries)} commits in all. Applications: {applications}.")


def prove(screen: Screen, table: str) -> None:
    screen.chapter("The proof")
    report = verify(TableLog.at(table), deep=True)
    c = report.checked
    screen.say(
        f"{c.commits} commits contiguous and legal, {c.checkpoints} checkpoint and {c.checksums} checksums "
        f"equal to replay,\n{c.data_files} data files there, {c.footers} of them opened and counted."
    )
    for finding in report.findings:
        screen.say(f"{finding.severity} {finding.code} {finding.file}: {finding.message}", "red")
    if not report.ok:
        raise SystemExit(1)
    screen.say("The table is sound.", "bold green")


MESSAGES = (
    ("ERROR", "gateway", "Connection reset by peer while charging card"),
    ("INFO", "ledger", "Payment booked"),
    ("WARN", "gateway", "Retrying the charge: connection timed out"),
    ("ERROR", "ledger", "Disk full, booking refused"),
    ("INFO", "gateway", "Charge accepted"),
)


def search(screen: Screen, directory: str) -> None:
    """The log messages of the demo in a table of the other kind: full-text search, one file, one log."""
    screen.chapter("The search")
    try:
        import tantivy  # noqa: F401
    except ImportError:
        screen.say("Full-text search needs tidegate[search]; it is not installed here.")
        return
    from tidegate.index.local import write_table
    from tidegate.index.tables import Searchable

    os.environ["TIDEGATE_CACHE_DIR"] = str(Path(directory) / "cache")
    messages = str(Path(directory) / "messages")
    count = 20_000
    rows = [(n, *MESSAGES[n % 5 if n % 997 else 0]) for n in range(count)]
    columns = dict(
        zip(("id", "level", "service", "message"), map(list, zip(*rows, strict=True)), strict=True)
    )
    write_table(pa.table(columns), messages, options={"indexing.typemap.message": "text"})
    table = Searchable.open(messages)
    query = 'message:"connection reset" AND level:ERROR AND id:[10000 TO *]'
    table.count(query)
    began = time.perf_counter()
    found = table.count(query)
    spent = (time.perf_counter() - began) * 1000
    hits = table.search(query, ["id", "service"], 3, highlight=["message"], marks=("»", "«")).table()
    screen.say(f"{query}\n{found} of {count} log messages match, found in {spent:.0f} ms; the first three:")
    screen.table(["id", "service", "message"], [tuple(row.values()) for row in hits.to_pylist()])


def main() -> None:
    screen = Screen()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as directory:
        table = str(Path(directory) / "payments")
        create(screen, table)
        write_concurrently(screen, table)
        checkpoint(screen, table)
        travel(screen, table)
        skip(screen, table)
        fight(screen, table)
        upgrade(screen, table)
        refuse(screen, directory)
        look_back(screen, table)
        prove(screen, table)
        search(screen, directory)
    screen.say(
        f"\nAll of it took {time.monotonic() - began:.1f} s and left nothing behind. On a table of yours: "
        "tidegate describe TABLE, tidegate verify TABLE; tidegate --help says the rest."
    )


if __name__ == "__main__":
    main()
