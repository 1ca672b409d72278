"""Transactions for tests: one small table with something of everything, and the operations that race on it.

``everything()`` is a table of four files in two days, with an application, a domain, and the features that
the operations need. An operation is a function of a transaction and of a tag that tells two runs of it
apart; it reads what it must, and returns what ``commit`` is to be given. ``OPERATIONS`` names them all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from support import tables as raw
from support.tables import (
    PARTITIONED,
    START,
    Clock,
    RawTable,
    add,
    domain,
    features,
    txn,
)
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.log.actions import Add, DomainMetadata, Remove, Txn
from tidegate.log.checksum import BOUNDARIES
from tidegate.log.columns import from_batch
from tidegate.metadata import Metadata
from tidegate.protocol.delta import DELTA
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed, Transaction

FIRST, SECOND = "2026-01-01", "2026-01-02"


def stats(low: int, high: int, *, rows: int | None = None, **more: Any) -> str:
    """Statistics of a file that holds the ids from ``low`` to ``high``, both included."""
    body = {
        "numRecords": high - low + 1 if rows is None else rows,
        "minValues": {"id": low},
        "maxValues": {"id": high},
        "nullCount": {"id": 0},
        **more,
    }
    return json.dumps(body, separators=(",", ":"))


def file(path: str, low: int = 0, high: int = 9, *, day: str | None = None, **more: Any) -> Add:
    """A file with the ids from ``low`` to ``high``, in the partition ``day`` if there is one."""
    fields: dict[str, Any] = {
        "partition_values": {} if day is None else {"day": day},
        "size": 100,
        "modification_time": START,
        "data_change": True,
        "stats": stats(low, high),
    }
    return Add(path=path, **{**fields, **more})


def gone(found: Add, *, change: bool = True) -> Remove:
    """What removes a file that is in the table."""
    return Remove(
        path=found.path,
        deletion_timestamp=START,
        data_change=change,
        extended_file_metadata=True,
        partition_values=found.partition_values,
        size=found.size,
        stats=found.stats,
        deletion_vector=found.deletion_vector,
        base_row_id=found.base_row_id,
        default_row_commit_version=found.default_row_commit_version,
    )


def as_adds(found: pa.Table) -> list[Add]:
    return sorted(from_batch(found, Add), key=lambda a: a.path)


def descriptor(name: str, cardinality: int = 1) -> DeletionVector:
    return msgspec.convert(raw.vector(name, cardinality=cardinality), DeletionVector)


def with_property(transaction: Transaction, **values: str) -> Metadata:
    """The transaction's metadata with properties set; ``__`` in a key stands for a dot."""
    new = {f"delta.{key.replace('__', '.')}": value for key, value in values.items()}
    return transaction.metadata.with_configuration({**transaction.metadata.configuration, **new})


def everything(clock: Clock | None = None, **configuration: str) -> RawTable:
    """The table that the operations below race on."""
    table = RawTable(clock=clock or Clock())
    table.create(
        add("f1", values={"day": FIRST}, stats=stats(0, 9)),
        add("f2", values={"day": FIRST}, stats=stats(10, 19)),
        add("g1", values={"day": SECOND}, stats=stats(20, 29)),
        add("g2", values={"day": SECOND}, stats=stats(30, 39)),
        txn("A", 1),
        domain("user.x", '{"at":0}'),
        schema=PARTITIONED,
        partitions=["day"],
        configuration=configuration,
        protocol=features(
            "deletionVectors", "v2Checkpoint", writers=["appendOnly", "domainMetadata", "invariants"]
        ),
    )
    bins = list(BOUNDARIES)
    sizes = {"fileCounts": [4] + [0] * (len(bins) - 1), "totalBytes": [400] + [0] * (len(bins) - 1)}
    table.checksum(fileSizeHistogram={"sortedBinBoundaries": bins, **sizes})
    return table


# ---------------------------------------------------------------------------- operations


@dataclass(frozen=True)
class Request:
    """What an operation wants to commit."""

    actions: list[Any] = field(default_factory=list)
    operation: str = "TEST"

    def commit(self, transaction: Transaction, **settings: Any) -> Committed:
        return transaction.commit(self.actions, Operation(self.operation), **settings)


Work = Callable[[Transaction, str], Request]


def append(t: Transaction, tag: str) -> Request:
    return Request([file(f"append-{tag}", 100, 109, day=FIRST)])


def append_with_read(t: Transaction, tag: str) -> Request:
    seen = t.files(f"day = DATE '{FIRST}'")
    return Request([file(f"derived-{tag}", 110, 110 + seen.num_rows, day=FIRST)])


def append_elsewhere(t: Transaction, tag: str) -> Request:
    return Request([file(f"elsewhere-{tag}", 200, 209, day=SECOND)])


def delete_partition(t: Transaction, tag: str) -> Request:
    return Request([gone(a) for a in as_adds(t.files(f"day = DATE '{FIRST}'"))])


def delete_ids(t: Transaction, tag: str) -> Request:
    return Request([gone(a) for a in as_adds(t.files("id BETWEEN 0 AND 9"))])


def overwrite(t: Transaction, tag: str) -> Request:
    removed = [gone(a) for a in as_adds(t.files())]
    return Request([*removed, file(f"overwrite-{tag}", 120, 129, day=FIRST)])


def optimize(t: Transaction, tag: str) -> Request:
    """Bring the files with low ids together; only files are read, no predicate is."""
    assert t.snapshot is not None
    small = t.snapshot.files(f"day = DATE '{FIRST}' AND id < 20")
    t.read_files(small)
    found = as_adds(small)
    if not found:
        return Request()
    rows = sum(json.loads(a.stats or "{}")["numRecords"] for a in found)
    together = file(f"optimized-{tag}", day=FIRST, stats=stats(0, 19, rows=rows), data_change=False)
    return Request([*(gone(a, change=False) for a in found), together], "OPTIMIZE")


def change_metadata(t: Transaction, tag: str) -> Request:
    t.update_metadata(with_property(t, dataSkippingNumIndexedCols="7"))
    return Request()


def enable_vectors(t: Transaction, tag: str) -> Request:
    t.update_metadata(with_property(t, enableDeletionVectors="true"))
    return Request()


def enable_rows(t: Transaction, tag: str) -> Request:
    t.update_metadata(with_property(t, enableRowTracking="true"))
    return Request()


def enable_time(t: Transaction, tag: str) -> Request:
    t.update_metadata(with_property(t, enableInCommitTimestamps="true"))
    return Request()


def enable_mapping(t: Transaction, tag: str) -> Request:
    t.update_metadata(with_property(t, columnMapping__mode="name"))
    return Request()


def upgrade(t: Transaction, tag: str) -> Request:
    t.update_protocol(t.protocol.with_feature(DELTA["vacuumProtocolCheck"]))
    return Request()


def drop_checkpoints(t: Transaction, tag: str) -> Request:
    t.update_protocol(t.protocol.without_feature("v2Checkpoint"), dropped="v2Checkpoint")
    return Request()


def drop_vectors(t: Transaction, tag: str) -> Request:
    """Drop deletion vectors, if no file has one: what is in use is not dropped."""
    assert t.snapshot is not None
    vectors = t.snapshot.files(columns=["deletionVector"]).column(0)
    if vectors.null_count < len(vectors):
        return Request()
    t.update_protocol(t.protocol.without_feature("deletionVectors"), dropped="deletionVectors")
    return Request()


def same_application(t: Transaction, tag: str) -> Request:
    seen = t.app_version("A") or 0
    return Request([Txn(app_id="A", version=seen + 1), file(f"batch-{tag}", 130, 139, day=FIRST)])


def other_application(t: Transaction, tag: str) -> Request:
    t.app_version(tag)
    return Request([Txn(app_id=tag, version=1), file(f"batch-{tag}", 130, 139, day=FIRST)])


def same_domain(t: Transaction, tag: str) -> Request:
    return Request([DomainMetadata(domain="user.x", configuration=f'{{"at":"{tag}"}}')])


def other_domain(t: Transaction, tag: str) -> Request:
    return Request([DomainMetadata(domain=f"user.{tag}", configuration="{}")])


def nothing(t: Transaction, tag: str) -> Request:
    return Request()


def delete_by_vector(t: Transaction, tag: str) -> Request:
    """Delete one row more of each file with low ids."""
    out: list[Any] = []
    for found in as_adds(t.files("id BETWEEN 0 AND 9")):
        rows = json.loads(found.stats or "{}")["numRecords"]
        cardinality = 1 + (found.deletion_vector.cardinality if found.deletion_vector else 0)
        loose = stats(0, 9, rows=rows, tightBounds=False)
        new = msgspec.structs.replace(
            found,
            stats=loose,
            deletion_vector=descriptor(f"{tag}{cardinality}", cardinality),
            data_change=True,
        )
        out += [gone(found), new]
    return Request(out, "DELETE")


OPERATIONS: Mapping[str, Work] = {
    "append": append,
    "append with read": append_with_read,
    "append elsewhere": append_elsewhere,
    "delete partition": delete_partition,
    "delete ids": delete_ids,
    "overwrite": overwrite,
    "optimize": optimize,
    "metadata": change_metadata,
    "enable vectors": enable_vectors,
    "enable rows": enable_rows,
    "enable time": enable_time,
    "enable mapping": enable_mapping,
    "upgrade": upgrade,
    "drop checkpoints": drop_checkpoints,
    "drop vectors": drop_vectors,
    "same application": same_application,
    "other application": other_application,
    "same domain": same_domain,
    "other domain": other_domain,
    "nothing": nothing,
    "delete by vector": delete_by_vector,
}


def no_sleep(_: float) -> None:
    """Pauses are for real races; here the order is given."""


def begin(table: RawTable, **settings: Any) -> Transaction:
    """A transaction on the table as it is now, which never waits."""
    return Transaction.begin(table.log, sleep=no_sleep, **settings)


def commit_lines(table: RawTable, version: int) -> list[dict[str, Any]]:
    """The actions of a commit as they stand in its file."""
    return [json.loads(line) for line in table.bytes(f"{version:020d}.json").splitlines()]


def commit_info(table: RawTable, version: int) -> dict[str, Any]:
    """commitInfo, which must be the first line."""
    first = commit_lines(table, version)[0]
    assert list(first) == ["commitInfo"]
    info: dict[str, Any] = first["commitInfo"]
    return info


def versions(table: RawTable) -> list[int]:
    """The versions that are in the log."""
    return [int(n[:20]) for n in table.names() if n.endswith(".json") and len(n) == 25]
