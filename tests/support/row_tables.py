"""Tables with rows, in memory and without Spark: parquet files written and read by Arrow alone.

``RowTable`` commits through the product and keeps in ``expected`` what each version must hold: the values of
its one data column, sorted. ``USES`` is how it comes to use a feature, ``rewriter`` what a drop rewrites
files with. ``OldClient`` is a reader that shares no code with the product: it knows a set of features and, of
everything else, nothing at all. It looks at the protocol of the version it reads, and replays what it finds
as if no other feature existed.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from support.tables import LOG, Clock, Wire
from tidegate.files import deletion_vectors
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.log.actions import Add, DomainMetadata, Remove
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.columns import ADD_SCHEMA, from_batch, to_batch
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol.delta import DELTA
from tidegate.protocol.feature import Registry
from tidegate.schema.arrow import to_arrow_type
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.schema.types import INTEGER, LONG, StructField, StructType
from tidegate.schema.widening import with_type_change
from tidegate.storage import MemoryStore
from tidegate.transaction.transaction import Committed, Transaction

Rows = list[int]


def rewriter(transaction: Transaction, files: pa.Table) -> pa.Table:
    """Rewrite files one by one, without deleted rows, in the names and types of the new metadata."""
    snapshot = transaction.snapshot
    assert snapshot is not None
    adds = []
    for found in from_batch(files, Add):
        values = _values(snapshot, found)
        if values:
            adds.append(_write(transaction, values, change=False))
    return pa.Table.from_batches([to_batch(adds, ADD_SCHEMA)] if adds else [], ADD_SCHEMA)


def _write(transaction: Transaction, values: Rows, *, change: bool = True) -> Add:
    """A file with these values, at the place and in the form that the transaction's metadata asks for."""
    metadata = transaction.metadata
    (column,) = metadata.schema.fields
    name = physical_name(column, mapping_mode(metadata))
    sink = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(values, to_arrow_type(column.type))}), sink)
    path = f"{uuid.uuid4()}.parquet"
    transaction.log.store.put(path, sink.getvalue())
    stats = {
        "numRecords": len(values),
        "minValues": {name: min(values)},
        "maxValues": {name: max(values)},
        "nullCount": {name: 0},
    }
    return Add(
        path=path,
        partition_values={},
        size=len(sink.getvalue()),
        modification_time=transaction.log.clock(),
        data_change=change,
        stats=json.dumps(stats),
    )


def _values(snapshot: Snapshot, found: Add) -> Rows:
    (column,) = snapshot.schema.fields
    name = physical_name(column, mapping_mode(snapshot.metadata))
    store = snapshot.log.store
    stored = pq.read_table(io.BytesIO(store.get(found.path))).column(name).to_pylist()
    hidden = set()
    if found.deletion_vector is not None:
        hidden = set(deletion_vectors.read(found.deletion_vector, store.get_range))
    return [v for i, v in enumerate(stored) if i not in hidden]


@dataclass
class RowTable:
    """A table of one column of numbers, with everything a drop may have to deal with."""

    clock: Clock = field(default_factory=Clock)
    store: MemoryStore = None  # type: ignore[assignment]
    expected: dict[int, Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.store is None:
            self.store = MemoryStore(clock=self.clock)

    @property
    def log(self) -> TableLog:
        return TableLog(self.store, clock=self.clock)

    def client(self, registry: Registry) -> TableLog:
        return replace(self.log, registry=registry)

    def load(self, version: int | None = None) -> Snapshot:
        return load(self.log, version)

    # ------------------------------------------------------------------ what users do

    def create(self, **configuration: str) -> RowTable:
        transaction = Transaction.begin(self.log)
        schema = StructType((StructField("id", INTEGER),))
        transaction.update_metadata(
            Metadata(id="t", schema_string=schema.to_json(), configuration=_dotted(configuration))
        )
        self._note(transaction.commit(operation="CREATE TABLE"), [])
        return self

    def append(self, values: Rows) -> int:
        transaction = self._begin()
        add = _write(transaction, values)
        return self._note(transaction.commit([add]), sorted([*self.now(), *values]))

    def delete(self, values: Rows, *, inline: bool = False) -> int:
        """Delete some values: by vectors where the table allows them, else by rewriting."""
        transaction = self._begin()
        snapshot = transaction.snapshot
        assert snapshot is not None
        by_vector = snapshot.properties.get("delta.enableDeletionVectors") == "true"
        actions: list[Any] = []
        for found in from_batch(transaction.files(), Add):
            live = _values(snapshot, found)
            left = [v for v in live if v not in values]
            if left == live:
                continue
            actions.append(self._gone(found))
            if by_vector and left:
                actions.append(self._with_vector(snapshot, found, values, inline=inline))
            elif left:
                actions.append(_write(transaction, left))
        kept = [v for v in self.now() if v not in values]
        return self._note(transaction.commit(actions, "DELETE"), kept)

    def set(self, **configuration: str) -> int:
        """Set properties, ``__`` for dots."""
        transaction = self._begin()
        old = transaction.metadata
        transaction.update_metadata(old.with_configuration({**old.configuration, **_dotted(configuration)}))
        return self._note(transaction.commit(operation="SET TBLPROPERTIES"), self.now())

    def number(self) -> int:
        """Enable row tracking; files get their ids in the same commit."""
        transaction = self._begin()
        old = transaction.metadata
        kept = {k: v for k, v in old.configuration.items() if k != "delta.rowTrackingSuspended"}
        transaction.update_metadata(old.with_configuration({**kept, "delta.enableRowTracking": "true"}))
        files = [msgspec.structs.replace(f, data_change=False) for f in from_batch(self.load().files(), Add)]
        fresh = [f for f in files if f.base_row_id is None]
        return self._note(transaction.commit(fresh, "SET TBLPROPERTIES"), self.now())

    def rename(self, name: str) -> int:
        """Call the column by another name; needs column mapping."""
        transaction = self._begin()
        (column,) = transaction.metadata.schema.fields
        schema = StructType((column.with_name(name),))
        transaction.update_metadata(transaction.metadata.with_schema(schema))
        return self._note(transaction.commit(operation="RENAME COLUMN"), self.now())

    def widen(self) -> int:
        """Make the column long; needs type widening."""
        transaction = self._begin()
        (column,) = transaction.metadata.schema.fields
        schema = StructType((with_type_change(column, LONG),))
        transaction.update_metadata(transaction.metadata.with_schema(schema))
        return self._note(transaction.commit(operation="CHANGE COLUMN"), self.now())

    def drop(self, name: str, truncate: bool | None = None) -> Snapshot:
        from tidegate.commands.drop_feature import drop_feature

        self.clock.tick()
        try:
            return drop_feature(self.log, name, truncate_history=truncate, rewriter=rewriter).snapshot
        finally:
            # No commit of a drop changes a row; others may have committed in between.
            for version in range(1, self.load().version + 1):
                self.expected.setdefault(version, self.expected[version - 1])

    # ------------------------------------------------------------------ what is there

    def now(self) -> Rows:
        return self.expected[max(self.expected)]

    def rows(self, version: int | None = None, registry: Registry = DELTA) -> Rows:
        """What the product finds, by its snapshot and Arrow."""
        snapshot = load(self.client(registry), version)
        return sorted(v for found in from_batch(snapshot.files(), Add) for v in _values(snapshot, found))

    def names(self) -> list[str]:
        return [i.name for i in self.store.list_from("", recursive=True)]

    def survivor(self) -> RowTable:
        return RowTable(self.clock, self.store.survivor(), dict(self.expected))

    def _begin(self) -> Transaction:
        self.clock.tick()
        return Transaction.begin(self.log)

    def _note(self, done: Committed, values: Rows) -> int:
        self.expected[done.version] = values
        return done.version

    def _gone(self, found: Add) -> Remove:
        return Remove(
            path=found.path,
            deletion_timestamp=self.clock(),
            extended_file_metadata=True,
            partition_values={},
            size=found.size,
            deletion_vector=found.deletion_vector,
        )

    def _with_vector(self, snapshot: Snapshot, found: Add, values: Rows, *, inline: bool) -> Add:
        (column,) = snapshot.schema.fields
        name = physical_name(column, mapping_mode(snapshot.metadata))
        stored = pq.read_table(io.BytesIO(self.store.get(found.path))).column(name).to_pylist()
        hidden = BitMap64(i for i, v in enumerate(stored) if v in values)
        if found.deletion_vector is not None:
            hidden |= deletion_vectors.read(found.deletion_vector, self.store.get_range)
        if inline:
            vector = deletion_vectors.inline(hidden)
        else:
            made = deletion_vectors.write_file([hidden])
            self.store.put(made.name, made.data)
            vector = made.vectors[0]
        stats = json.dumps({**json.loads(found.stats or "{}"), "tightBounds": False})
        return msgspec.structs.replace(found, deletion_vector=vector, stats=stats, data_change=True)


def _dotted(configuration: dict[str, str]) -> dict[str, str]:
    return {k.replace("__", "."): v for k, v in configuration.items()}


# ---------------------------------------------------------------------------- another reader


class Refused(Exception):
    """The client says that it cannot, or may not, read the version."""


@dataclass
class OldClient:
    """A reader that knows some features and nothing of the others; see the module's docstring.

    A ``strict`` one refuses as soon as it meets a protocol on its way that it does not support.
    """

    store: MemoryStore
    known: frozenset[str]
    strict: bool = False

    def rows(self, version: int) -> Rows:
        actions = self._actions(version)
        protocol, metadata, files = None, None, {}
        for action in actions:
            if "protocol" in action:
                protocol = action["protocol"]
                if self.strict:
                    self._check(protocol)
            elif "metaData" in action:
                metadata = action["metaData"]
            elif "add" in action:
                files[self._key(action["add"])] = action["add"]
            elif "remove" in action:
                files.pop(self._key(action["remove"]), None)
        if protocol is None or metadata is None:
            raise Refused("there is no protocol, or no metadata")
        self._check(protocol)
        return sorted(v for add in files.values() for v in self._read(add, metadata))

    def _check(self, protocol: Wire) -> None:
        reader = protocol["minReaderVersion"]
        needed = set(protocol.get("readerFeatures") or ())
        if reader == 2:
            needed = {"columnMapping"}
        if reader > 3 or needed - self.known:
            raise Refused(f"needs {sorted(needed - self.known)}")

    def _key(self, body: Wire) -> tuple[str, str | None]:
        dv = body.get("deletionVector") if "deletionVectors" in self.known else None
        return body["path"], None if dv is None else f"{dv['pathOrInlineDv']}@{dv.get('offset')}"

    def _actions(self, version: int) -> list[Wire]:
        """Newest checkpoint this client can see, then the commits after it."""
        names = [i.name.removeprefix(f"{LOG}/") for i in self.store.list_from(LOG)]
        # Hadoop keeps a hidden checksum beside every file that Spark writes.
        names = [n for n in names if not n.startswith(".")]
        commits = {int(n[:20]) for n in names if n.endswith(".json") and len(n) == 25}
        found = sorted(n for n in names if ".checkpoint." in n and int(n[:20]) <= version)
        if "v2Checkpoint" not in self.known:
            found = [n for n in found if n.endswith(".checkpoint.parquet")]
        base, out = -1, []
        if found:
            base = int(found[-1][:20])
            out = self._checkpoint(found[-1])
        for number in range(base + 1, version + 1):
            if number not in commits:
                raise Refused(f"version {number} is not there")
            text = self.store.get(f"{LOG}/{number:020d}.json")
            out += [json.loads(line) for line in text.splitlines()]
        return out

    def _checkpoint(self, name: str) -> list[Wire]:
        data = self.store.get(f"{LOG}/{name}")
        if name.endswith(".json"):
            rows = [json.loads(line) for line in data.splitlines()]
        else:
            rows = _parquet_rows(data)
        side = [r["sidecar"]["path"] for r in rows if "sidecar" in r]
        for path in side:
            rows += _parquet_rows(self.store.get(f"{LOG}/_sidecars/{path}"))
        return rows

    def _read(self, add: Wire, metadata: Wire) -> Rows:
        (column,) = json.loads(metadata["schemaString"])["fields"]
        name = column["name"]
        configuration = dict(metadata["configuration"])
        mapped = configuration.get("delta.columnMapping.mode", "none") != "none"
        if mapped and "columnMapping" in self.known:
            name = column["metadata"]["delta.columnMapping.physicalName"]
        table = pq.read_table(io.BytesIO(self.store.get(add["path"])))
        if name not in table.column_names:
            return [-1] * table.num_rows  # nulls, where values should be
        narrow = str(table.schema.field(name).type) != {"integer": "int32", "long": "int64"}[column["type"]]
        if narrow and "typeWidening" not in self.known:
            return [-2] * table.num_rows  # a reader that expects 64 bits fails, or reads nonsense
        values = table.column(name).to_pylist()
        hidden = set()
        dv = add.get("deletionVector")
        if dv is not None and "deletionVectors" in self.known:
            descriptor = msgspec.convert({k: v for k, v in dv.items() if v is not None}, DeletionVector)
            hidden = set(deletion_vectors.read(descriptor, self.store.get_range))
        return [v for i, v in enumerate(values) if i not in hidden]


def _parquet_rows(data: bytes) -> list[Wire]:
    out = []
    for row in pq.read_table(io.BytesIO(data)).to_pylist():
        out += [{k: v} for k, v in row.items() if v is not None]
    return out


# ---------------------------------------------------------------------------- features in use


def _with_domain(table: RowTable) -> None:
    table.set(delta__feature__domainMetadata="supported")
    transaction = table._begin()
    table._note(transaction.commit([DomainMetadata(domain="user.one", configuration="{}")]), table.now())


# What sets a feature to work, where a property does.
ENABLING: dict[str, dict[str, str]] = {
    "deletionVectors": {"delta__enableDeletionVectors": "true"},
    "columnMapping": {"delta__columnMapping__mode": "name"},
    "typeWidening": {"delta__enableTypeWidening": "true"},
    "typeWidening-preview": {"delta__enableTypeWidening": "true"},
    "v2Checkpoint": {"delta__checkpointPolicy": "v2"},
    "rowTracking": {"delta__enableRowTracking": "true"},
    "inCommitTimestamp": {"delta__enableInCommitTimestamps": "true"},
    "materializePartitionColumns": {"delta__enableMaterializePartitionColumnsFeature": "true"},
    "checkConstraints": {"delta__constraints__positive": "id > 0"},
}

# Features that a drop can take from a table, and how a table of rows comes to use each.
USES: dict[str, Callable[[RowTable], object]] = {
    "deletionVectors": lambda t: (enable(t, "deletionVectors"), t.delete([1, 2])),
    "columnMapping": lambda t: (enable(t, "columnMapping"), t.rename("number")),
    "typeWidening": lambda t: (enable(t, "typeWidening"), t.widen()),
    "typeWidening-preview": lambda t: (
        t.set(**{"delta__feature__typeWidening-preview": "supported"}, **ENABLING["typeWidening"]),
        t.widen(),
    ),
    "v2Checkpoint": lambda t: (enable(t, "v2Checkpoint"), write_checkpoint(t.load())),
    "vacuumProtocolCheck": lambda t: t.set(delta__feature__vacuumProtocolCheck="supported"),
    "rowTracking": lambda t: (enable(t, "rowTracking"), t.append([4])),
    "domainMetadata": _with_domain,
    "inCommitTimestamp": lambda t: enable(t, "inCommitTimestamp"),
    "checkConstraints": lambda t: t.set(delta__feature__checkConstraints="supported"),
    "materializePartitionColumns": lambda t: enable(t, "materializePartitionColumns"),
}


def enable(table: RowTable, feature: str) -> int:
    return table.number() if feature == "rowTracking" else table.set(**ENABLING[feature])


def using(*features: str, **properties: str) -> RowTable:
    """A table with some rows from before it used these features, and some from after."""
    table = RowTable().create(**properties)
    return use(table, *features)


def use(table: RowTable, *features: str) -> RowTable:
    table.append([1, 2, 3])
    for feature in features:
        USES[feature](table)
    table.append([10, 11])
    return table
