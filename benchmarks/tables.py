"""Tables to measure on: logs with many live files, made once per run in a scratch directory."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from tidegate.log.checkpoint.write import write_checkpoint, write_checksum
from tidegate.log.columns import ADD_SCHEMA
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.types import parse_schema
from tidegate.transaction.transaction import Transaction

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("id", "long"), ("ts", "timestamp"), ("name", "string"), ("part", "string"))
        ],
    }
)
ROWS_PER_FILE = 1_000
_CHUNK = 50_000


def adds(start: int, count: int) -> pa.Table:
    """``count`` add actions with statistics; file number n holds the ids from 1000 n on."""
    numbers = range(start, start + count)
    part = [f"{n % 50:02d}" for n in numbers]
    columns = {
        "path": [
            f"part={p}/part-{n % 1000:05d}-{(n * 2654435761) % 2**64:016x}{n:016x}-c000.snappy.parquet"
            for n, p in zip(numbers, part, strict=True)
        ],
        "partitionValues": [[("part", p)] for p in part],
        "size": [10_000 + n % 5_000 for n in numbers],
        "modificationTime": [1_700_000_000_000 + n for n in numbers],
        "dataChange": [True] * count,
        "stats": [_stats(n) for n in numbers],
    }
    arrays = [
        pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(count, f.type)
        for f in ADD_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=ADD_SCHEMA)


def _stats(n: int) -> str:
    first = n * ROWS_PER_FILE
    return (
        f'{{"numRecords":{ROWS_PER_FILE},'
        f'"minValues":{{"id":{first},"ts":"2024-01-01T00:00:00.000Z","name":"a{n:08d}"}},'
        f'"maxValues":{{"id":{first + ROWS_PER_FILE - 1},"ts":"2024-01-02T00:00:00.000Z","name":"b{n:08d}"}},'
        f'"nullCount":{{"id":0,"ts":0,"name":3}}}}'
    )


def create(root: Path, *, parsed: bool = True, interval: int = 1_000_000) -> TableLog:
    """An empty table that checkpoints only when told to."""
    log = TableLog.at(root)
    transaction = Transaction.begin(log)
    parse_schema(SCHEMA)
    transaction.update_metadata(
        Metadata(
            id="00000000-0000-0000-0000-000000000001",
            schema_string=SCHEMA,
            partition_columns=("part",),
            configuration={
                "delta.checkpointInterval": str(interval),
                "delta.checkpoint.writeStatsAsStruct": "true" if parsed else "false",
                "delta.enableExpiredLogCleanup": "false",
            },
        )
    )
    transaction.commit(operation="CREATE TABLE")
    return log


def many_files(root: Path, files: int, commits: int = 200, *, parsed: bool = True) -> TableLog:
    """A table of ``files`` live files in a checkpoint, and ``commits`` commits of 40 adds, 2 removes each."""
    log = create(root, parsed=parsed)
    for start in range(0, files, _CHUNK):
        Transaction.begin(log).commit(adds=adds(start, min(_CHUNK, files - start)))
    snapshot = load(log)
    written = write_checkpoint(snapshot)
    write_checksum(snapshot, written.checksum)
    log.store.delete([log.commit_path(v) for v in range(1, snapshot.version)])
    for i in range(commits):
        transaction = Transaction.begin(log)
        gone = adds(i * (files // max(commits, 1)), 2)
        transaction.commit(adds=adds(files + 40 * i, 40), removes=removes(gone))
    return log


def removes(gone: pa.Table) -> pa.Table:
    """Remove actions for files that were added."""
    n = gone.num_rows
    return pa.table(
        {
            "path": gone["path"],
            "deletionTimestamp": pa.array([1_700_000_000_000] * n, pa.int64()),
            "dataChange": pa.array([True] * n),
            "extendedFileMetadata": pa.array([True] * n),
            "partitionValues": gone["partitionValues"],
            "size": gone["size"],
        }
    )
