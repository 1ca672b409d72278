"""One measurement in a process of its own: ``python -m benchmarks.measure NAME PATH`` prints JSON.

A fresh process per measurement keeps caches, allocators and peak memory apart. Imports are not part
of the time; the files are in the page cache.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

Result = dict[str, Any]

# Commits before the clock starts, for either engine: what is loaded once is no part of a rate.
WARM = 10


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = work()
    return time.perf_counter() - start, value


def load_tidegate(path: str) -> Result:
    """Open and list every live file with all columns."""
    import tidegate

    seconds, table = _timed(lambda: tidegate.open(path).files())
    return {"seconds": seconds, "files": table.num_rows}


def load_tidegate_paths(path: str) -> Result:
    """Open and list every live file, path and size alone."""
    import tidegate

    seconds, table = _timed(lambda: tidegate.open(path).files(columns=["path", "size"]))
    return {"seconds": seconds, "files": table.num_rows}


def load_delta_rs(path: str) -> Result:
    """delta-rs: open and list every live file's address."""
    from deltalake import DeltaTable

    seconds, files = _timed(lambda: DeltaTable(path).file_uris())
    return {"seconds": seconds, "files": len(files)}


def prune_tidegate(path: str) -> Result:
    """Open and list the files that may hold one range of ids."""
    import tidegate

    predicate = "id BETWEEN 5000000 AND 5009999"
    seconds, table = _timed(lambda: tidegate.open(path).files(predicate))
    return {"seconds": seconds, "files": table.num_rows}


def update_tidegate(path: str) -> Result:
    """Bring a loaded snapshot up to one new commit; the file list after it is timed apart."""
    import tidegate
    from benchmarks.tables import adds
    from tidegate.log.snapshot import load
    from tidegate.log.table_log import TableLog

    snapshot = load(TableLog.at(path))
    files = snapshot.files().num_rows
    tidegate.Transaction.begin(path).commit(adds=adds(10_000_000 + files, 40))
    seconds, updated = _timed(snapshot.update)
    listing, table = _timed(updated.files)
    return {"seconds": seconds, "files_seconds": listing, "files": table.num_rows - files}


def commit_tidegate(path: str) -> Result:
    """The median of 50 commits of one file each, every one from a fresh look at the table."""
    import tidegate
    from benchmarks.tables import adds

    times = []
    for i in range(50):
        new = adds(20_000_000 + time.time_ns() % 1_000_000_000 + i, 1)
        times.append(_timed(lambda new=new: tidegate.Transaction.begin(path).commit(adds=new))[0])
    return {"seconds": statistics.median(times)}


def commits_tidegate(path: str) -> Result:
    """Commits per second on a small table: each transaction begins where the last one ended."""
    import tidegate
    from benchmarks.tables import SCHEMA
    from tidegate.log.actions import Add
    from tidegate.metadata import Metadata

    root = Path(path) / f"tidegate-{time.time_ns()}"
    first = tidegate.Transaction.begin(root)
    first.update_metadata(Metadata(id="1", schema_string=SCHEMA))
    snapshot = first.commit(operation="CREATE TABLE").snapshot
    n = 200

    def loop(begin: int, end: int) -> None:
        nonlocal snapshot
        for i in range(begin, end):
            add = Add(
                path=f"f{i}.parquet",
                partition_values={},
                size=10,
                modification_time=1,
                data_change=True,
                stats='{"numRecords":1}',
            )
            snapshot = tidegate.Transaction(snapshot.log, snapshot.update()).commit([add]).snapshot

    loop(0, WARM)
    seconds, _ = _timed(lambda: loop(WARM, WARM + n))
    return {"seconds": seconds / n, "per_second": n / seconds}


def commits_delta_rs(path: str) -> Result:
    """delta-rs: the same loop, adds without data."""
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

    root = str(Path(path) / f"delta-rs-{time.time_ns()}")
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = DeltaTable.create(root, schema=schema)
    n = 100

    def loop(begin: int, end: int) -> None:
        for i in range(begin, end):
            add = AddAction(
                path=f"f{i}.parquet",
                size=10,
                partition_values={},
                modification_time=1,
                data_change=True,
                stats='{"numRecords":1}',
            )
            table.create_write_transaction([add], mode="append", schema=table.schema())
            table.update_incremental()

    loop(0, WARM)
    seconds, _ = _timed(lambda: loop(WARM, WARM + n))
    return {"seconds": seconds / n, "per_second": n / seconds}


def checkpoint_tidegate(path: str) -> Result:
    """Write a checkpoint of the latest version."""
    from tidegate.log.checkpoint.write import write_checkpoint
    from tidegate.log.names import LAST_CHECKPOINT
    from tidegate.log.snapshot import load
    from tidegate.log.table_log import TableLog

    snapshot = load(TableLog.at(path))
    hint_name = snapshot.log.path(LAST_CHECKPOINT)
    hint = snapshot.log.store.get(hint_name)
    seconds, written = _timed(lambda: write_checkpoint(snapshot))
    # The table goes back to what it was, for the measurements that follow.
    snapshot.log.store.delete([written.checkpoint.files[0].info.name])
    snapshot.log.store.put(hint_name, hint)
    return {"seconds": seconds, "files": written.hint.num_of_add_files, "bytes": written.hint.size_in_bytes}


def index_check(path: str) -> Result:
    """The protocol check of an index table on a snapshot in hand: seconds for one, and what storage saw."""
    from tidegate.index.log import IndexLog, add_table
    from tidegate.log.dialect import INDEX
    from tidegate.log.table_log import TableLog
    from tidegate.storage import MemoryStore

    store = MemoryStore(url="memory://check")
    log = IndexLog(TableLog(store, INDEX))
    log.create('{"type":"struct","fields":[]}')
    split = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    log.append(add_table([{"path": f"{n}.split", **split} for n in range(1_000)]))
    snapshot = log.snapshot()
    store.journal.clear()
    rounds = 20_000

    def check() -> None:
        for _ in range(rounds):
            snapshot.check_readable()
            log.check_writable(snapshot)

    seconds, _ = _timed(check)
    return {"seconds": seconds / rounds, "storage_calls": len(store.journal)}


def peak_mib() -> float:
    """The peak resident memory of this process, not of the one that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(t for t in status.read_text().splitlines() if t.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * 1024)


def main() -> None:
    name, path = sys.argv[1:3]
    # The first array of a process makes pyarrow import pandas, where it is installed.
    pa.array([""])
    result = globals()[name](path)
    result["peak_mib"] = peak_mib()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
