"""What the commands on rows do to a log, without Spark: tables of one column of numbers, by Arrow alone.

Each function is one attempt in one transaction, which has begun: it reads as the command of its name reads,
notes that as the command does, writes its files and returns what is to be committed.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from support import transactions
from support.arrow_rows import hidden_rows
from tidegate.files import deletion_vectors
from tidegate.files.predicate import parse
from tidegate.log.actions import Add, Remove, Txn
from tidegate.log.columns import ADD_SCHEMA, from_batch, to_batch
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.schema.types import LONG, StructField, StructType
from tidegate.transaction.transaction import Committed, Transaction

Rows = list[int]
SCHEMA = StructType((StructField("id", LONG),)).to_json()


@dataclass
class Request:
    """What an operation commits."""

    actions: list[Any] = field(default_factory=list)
    operation: str = "WRITE"
    alters: bool = False

    def commit(self, transaction: Transaction) -> Committed | None:
        if self.actions or self.alters:
            return transaction.commit(self.actions, self.operation)
        return None


Work = Callable[[Transaction], Request]


def create(log: TableLog, **properties: str) -> None:
    """An empty table; ``__`` in a property stands for a dot."""
    transaction = Transaction.begin(log)
    configuration = {k.replace("__", "."): v for k, v in properties.items()}
    transaction.update_metadata(Metadata(id="t", schema_string=SCHEMA, configuration=configuration))
    transaction.commit(operation="CREATE TABLE")


def run(log: TableLog, work: Work) -> Committed | None:
    """One operation by itself."""
    transaction = Transaction.begin(log)
    return work(transaction).commit(transaction)


# ---------------------------------------------------------------------------- files


def _column(metadata: Metadata) -> str:
    """The first column as files name it; others stay null."""
    return physical_name(metadata.schema.fields[0], mapping_mode(metadata))


def written(transaction: Transaction, values: Iterable[int], *, change: bool = True) -> list[Add]:
    """A file with these values; none where there are none."""
    ordered = sorted(values)
    if not ordered:
        return []
    name = _column(transaction.metadata)
    sink = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(ordered, pa.int64())}), sink)
    path = f"{uuid.uuid4()}.parquet"
    transaction.mark_written()
    transaction.log.store.put(path, sink.getvalue())
    stats = {
        "numRecords": len(ordered),
        "minValues": {name: ordered[0]},
        "maxValues": {name: ordered[-1]},
        "nullCount": {name: 0},
    }
    return [
        Add(
            path=path,
            partition_values={},
            size=len(sink.getvalue()),
            modification_time=transaction.log.clock(),
            data_change=change,
            stats=json.dumps(stats),
        )
    ]


def _stored(snapshot: Snapshot, found: Add) -> list[tuple[int, int]]:
    """The live rows of a file: their indexes and values."""
    name = _column(snapshot.metadata)
    values = pq.read_table(io.BytesIO(snapshot.log.store.get(found.path))).column(name).to_pylist()
    hidden = hidden_rows(snapshot, found)
    return [(i, v) for i, v in enumerate(values) if i not in hidden]


def gone(found: Add, *, change: bool = True) -> Remove:
    """What removes a file; when, the commit says."""
    return msgspec.structs.replace(transactions.gone(found, change=change), deletion_timestamp=None)


def _hiding(transaction: Transaction, found: Add, rows: Iterable[int]) -> Add:
    """A file's entry with some more of its rows hidden."""
    assert transaction.snapshot is not None
    hidden = BitMap64([*hidden_rows(transaction.snapshot, found), *rows])
    made = deletion_vectors.write_file([hidden])
    transaction.log.store.put(made.name, made.data)
    stats = json.dumps({**json.loads(found.stats or "{}"), "tightBounds": False})
    return msgspec.structs.replace(found, deletion_vector=made.vectors[0], stats=stats, data_change=True)


def _between(transaction: Transaction, low: int, high: int) -> list[tuple[Add, list[tuple[int, int]]]]:
    """The files with rows from ``low`` to ``high``, and those rows; only these files count as read."""
    snapshot = transaction.snapshot
    assert snapshot is not None
    asked = parse(f"{_shown(snapshot)} BETWEEN {low} AND {high}").resolve(snapshot.schema)
    transaction.read_set = transaction.read_set.with_predicate(asked)
    out = []
    for found in from_batch(snapshot.files(asked), Add):
        rows = [(i, v) for i, v in _stored(snapshot, found) if low <= v <= high]
        if rows:
            out.append((found, rows))
    if out:
        paths = pa.table({"path": pa.array([found.path for found, _ in out], pa.string())})
        transaction.read_files(paths)
    return out


def _shown(snapshot: Snapshot) -> str:
    return str(snapshot.schema.fields[0].name)


def _without(transaction: Transaction, found: Add, rows: list[tuple[int, int]]) -> list[Any]:
    """The actions by which some rows leave their file."""
    snapshot = transaction.snapshot
    assert snapshot is not None
    indexes = {i for i, _ in rows}
    left = [v for i, v in _stored(snapshot, found) if i not in indexes]
    if not left:
        return [gone(found)]
    if snapshot.metadata.configuration.get("delta.enableDeletionVectors") == "true":
        return [gone(found), _hiding(transaction, found, indexes)]
    return [gone(found), *written(transaction, left)]


# ---------------------------------------------------------------------------- operations


def append(values: Rows) -> Work:
    return lambda t: Request([*written(t, values)])


def batch(app: str, version: int, values: Rows) -> Work:
    """A batch of a stream: written unless the table has seen it."""

    def work(t: Transaction) -> Request:
        seen = t.app_version(app)
        if seen is not None and seen >= version:
            return Request()
        return Request([Txn(app_id=app, version=version), *written(t, values)], "STREAMING UPDATE")

    return work


def delete(low: int, high: int) -> Work:
    def work(t: Transaction) -> Request:
        found = _between(t, low, high)
        return Request([a for add, rows in found for a in _without(t, add, rows)], "DELETE")

    return work


def update(low: int, high: int, by: int) -> Work:
    def work(t: Transaction) -> Request:
        found = _between(t, low, high)
        actions = [a for add, rows in found for a in _without(t, add, rows)]
        return Request([*actions, *written(t, [v + by for _, rows in found for _, v in rows])], "UPDATE")

    return work


def insert_absent(values: Rows) -> Work:
    """A MERGE that only inserts: what it looked for is what it read."""

    def work(t: Transaction) -> Request:
        there = {v for _, rows in _between(t, min(values), max(values)) for _, v in rows}
        return Request([*written(t, [v for v in values if v not in there])], "MERGE")

    return work


def replace(low: int, high: int, values: Rows) -> Work:
    """replaceWhere: the rows of a range make place for others of it."""

    def work(t: Transaction) -> Request:
        found = _between(t, low, high)
        return Request([*(a for add, rows in found for a in _without(t, add, rows)), *written(t, values)])

    return work


def overwrite(values: Rows) -> Work:
    return lambda t: Request([*(gone(a) for a in from_batch(t.files(), Add)), *written(t, values)])


def compact(low: int, high: int) -> Work:
    """OPTIMIZE of the files in a range: no row changes, and only files are read."""

    def work(t: Transaction) -> Request:
        snapshot = t.snapshot
        assert snapshot is not None
        found = list(from_batch(snapshot.files(f"{_shown(snapshot)} BETWEEN {low} AND {high}"), Add))
        if len(found) < 2:
            return Request()
        t.read_files(pa.table({"path": pa.array([a.path for a in found], pa.string())}))
        rows = [v for a in found for _, v in _stored(snapshot, a)]
        return Request([*(gone(a, change=False) for a in found), *written(t, rows, change=False)], "OPTIMIZE")

    return work


def set_property(key: str, value: str) -> Work:
    def work(t: Transaction) -> Request:
        t.update_metadata(t.metadata.with_configuration({**t.metadata.configuration, key: value}))
        return Request([], "SET TBLPROPERTIES", alters=True)

    return work


def rewriter(transaction: Transaction, files: pa.Table) -> pa.Table:
    """What drops of features rewrite files with: one by one, as the transaction's metadata wants them."""
    snapshot = transaction.snapshot
    assert snapshot is not None
    adds = []
    for found in from_batch(files, Add):
        adds += written(transaction, [v for _, v in _stored(snapshot, found)], change=False)
    return pa.Table.from_batches([to_batch(adds, ADD_SCHEMA)] if adds else [], ADD_SCHEMA)
