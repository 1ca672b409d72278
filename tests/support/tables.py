"""Tables for tests: logs written by hand, byte for byte, and a replay in plain Python to compare with.

Three parts, none of which uses the code under test to make what it is compared with:

* **Actions in their wire form**: ``add("a.parquet")``, ``remove``, ``vector``, ``txn``, ``domain``,
  ``protocol``, ``metadata``, ``commit_info`` return the JSON object of one line. ``structs(...)`` turns
  them into what ``Transaction.commit`` takes.
* **RawTable**: a table in any store (a fresh ``MemoryStore`` by default) with a clock that stands still.
  ``create()`` writes version 0, ``commit(...)`` the next version, ``checkpoint(v, form)`` a checkpoint of
  every form (``FORMS``), ``compact(x, y)``, ``checksum(v)``, ``hint(v)``; ``put``, ``delete``, ``bytes`` and
  ``names`` reach any file of the log. ``transact(...)`` commits through the product instead.
* **The model**: ``replay(commits)`` is reconciliation as the specification tells it, one dict entry per
  file. ``RawTable.state(v)`` is the model's answer for a table; ``seen(snapshot)`` is a snapshot's, in the
  same form, so that ``assert seen(table.load()) == table.state()`` is a whole test.

    table = RawTable()
    table.create(configuration={"delta.checkpointInterval": "5"})
    table.commit(add("a.parquet"), add("b.parquet"))
    table.commit(remove("a.parquet"))
    table.checkpoint(2, "v2-json")
    assert seen(table.load()) == table.state()
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.log.actions import Line
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.storage import MemoryStore
from tidegate.storage.store import Store

Wire = dict[str, Any]

SECOND = 1_000
HOUR = 3_600_000
DAY = 24 * HOUR
# 2026-01-01T00:00:00Z, the first moment of every table here.
START = 1_767_225_600_000

LOG = "_delta_log"
FORMS = ("classic", "multipart", "v2-json", "v2-parquet", "v2-classic", "v2-inline")


class Clock:
    """Milliseconds that pass only when somebody says so."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def tick(self, milliseconds: int = SECOND) -> int:
        self.now += milliseconds
        return self.now


# ---------------------------------------------------------------------------- actions in wire form


def column(name: str, kind: Any = "long", nullable: bool = True, **metadata: Any) -> Wire:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def schema_string(*columns: Wire) -> str:
    return json.dumps({"type": "struct", "fields": list(columns)}, separators=(",", ":"))


SCHEMA = schema_string(column("id"), column("name", "string"))
PARTITIONED = schema_string(column("id"), column("name", "string"), column("day", "date"))


def protocol(
    reader: int = 1,
    writer: int = 2,
    *,
    readers: Iterable[str] | None = None,
    writers: Iterable[str] | None = None,
) -> Wire:
    body: Wire = {"minReaderVersion": reader, "minWriterVersion": writer}
    if readers is not None:
        body["readerFeatures"] = sorted(readers)
    if writers is not None:
        body["writerFeatures"] = sorted(writers)
    return {"protocol": body}


def features(*readers_and_writers: str, writers: Sequence[str] = ()) -> Wire:
    """A (3,7) protocol: the features of readers, which are writers' too, and those of writers alone."""
    return protocol(3, 7, readers=readers_and_writers, writers=[*readers_and_writers, *writers])


def metadata(
    schema: str = SCHEMA,
    partitions: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    **more: Any,
) -> Wire:
    return {
        "metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": list(partitions),
            "configuration": dict(configuration or {}),
            "createdTime": START,
            **more,
        }
    }


def stats(rows: int = 10, low: int = 0, high: int = 9, **more: Any) -> str:
    """Statistics of a file of the default schema whose ``id`` goes from ``low`` to ``high``."""
    body = {
        "numRecords": rows,
        "minValues": {"id": low, "name": "a"},
        "maxValues": {"id": high, "name": "z"},
        "nullCount": {"id": 0, "name": 0},
        **more,
    }
    return json.dumps(body, separators=(",", ":"))


def vector(name: str = "x", offset: int | None = 1, cardinality: int = 1) -> Wire:
    """A deletion vector's descriptor; ``name`` tells one from another. There is no file behind it."""
    place = hashlib.sha256(name.encode()).hexdigest()[:20]
    body: Wire = {
        "storageType": "u",
        "pathOrInlineDv": place,
        "sizeInBytes": 40,
        "cardinality": cardinality,
    }
    if offset is not None:
        body["offset"] = offset
    return body


def add(
    path: str,
    size: int = 100,
    *,
    values: Mapping[str, str | None] | None = None,
    dv: Wire | None = None,
    change: bool = True,
    time: int = START,
    **more: Any,
) -> Wire:
    body: Wire = {
        "path": path,
        "partitionValues": dict(values or {}),
        "size": size,
        "modificationTime": time,
        "dataChange": change,
    }
    if dv is not None:
        body["deletionVector"] = dv
    return {"add": {**body, **more}}


def remove(
    path: str,
    size: int | None = 100,
    *,
    values: Mapping[str, str | None] | None = None,
    dv: Wire | None = None,
    change: bool = True,
    time: int | None = START,
    **more: Any,
) -> Wire:
    body: Wire = {"path": path, "dataChange": change}
    if time is not None:
        body["deletionTimestamp"] = time
    if size is not None:
        body |= {"extendedFileMetadata": True, "partitionValues": dict(values or {}), "size": size}
    if dv is not None:
        body["deletionVector"] = dv
    return {"remove": {**body, **more}}


def txn(app: str, version: int, updated: int | None = None) -> Wire:
    body: Wire = {"appId": app, "version": version}
    if updated is not None:
        body["lastUpdated"] = updated
    return {"txn": body}


def domain(name: str, configuration: str = "{}", *, removed: bool = False) -> Wire:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


def commit_info(operation: str = "WRITE", **more: Any) -> Wire:
    return {"commitInfo": {"timestamp": START, "operation": operation, **more}}


def lines(actions: Iterable[Wire]) -> bytes:
    return b"".join(json.dumps(a, separators=(",", ":")).encode() + b"\n" for a in actions)


def structs(*actions: Wire) -> list[Any]:
    """Wire actions as the product's own values, in the order given."""
    out = []
    for action in actions:
        line = msgspec.convert(action, Line)
        out += [v for v in (getattr(line, f) for f in line.__struct_fields__) if v]
    return out


# ---------------------------------------------------------------------------- the model

Key = tuple[str, str | None]


def vector_id(dv: Wire | None) -> str | None:
    if dv is None:
        return None
    base = dv["storageType"] + dv["pathOrInlineDv"]
    return base if dv.get("offset") is None else f"{base}@{dv['offset']}"


def key(body: Wire) -> Key:
    return body["path"], vector_id(body.get("deletionVector"))


@dataclass(frozen=True)
class State:
    """A table at one version, as the model has it. Two states compare by what readers must agree on:

    not by ``dataChange``, which checkpoints reset, and not by what checkpoints leave out of tombstones.
    """

    protocol: Wire | None
    metadata: Wire | None
    files: dict[Key, Wire]
    tombstones: dict[Key, Wire]
    txns: dict[str, Wire]
    domains: dict[str, Wire]

    def without_tombstones(self) -> State:
        return State(self.protocol, self.metadata, self.files, {}, self.txns, self.domains)

    @property
    def paths(self) -> list[str]:
        return sorted(path for path, _ in self.files)

    @property
    def size(self) -> int:
        return sum(int(f["size"]) for f in self.files.values())


def replay(commits: Iterable[Iterable[Wire]]) -> State:
    """Action reconciliation, oldest commit first, the way the specification reads."""
    state = State(None, None, {}, {}, {}, {})
    head: dict[str, Wire | None] = {"protocol": None, "metaData": None}
    for commit in commits:
        for action in commit:
            for kind, body in action.items():
                if kind in head:
                    head[kind] = body
                elif kind == "add":
                    state.files[key(body)] = body
                    state.tombstones.pop(key(body), None)
                elif kind == "remove":
                    state.tombstones[key(body)] = body
                    state.files.pop(key(body), None)
                elif kind == "txn":
                    state.txns[body["appId"]] = body
                elif kind == "domainMetadata":
                    state.domains[body["domain"]] = body
    live = {name: d for name, d in state.domains.items() if not d.get("removed")}
    return State(
        _features_sorted(head["protocol"]),
        head["metaData"],
        {k: _plain(v, "dataChange") for k, v in state.files.items()},
        {k: _plain(v, "dataChange", "stats", "tags") for k, v in state.tombstones.items()},
        {app: _plain(t) for app, t in state.txns.items()},
        live,
    )


def _features_sorted(body: Wire | None) -> Wire | None:
    if body is None:
        return None
    return {k: sorted(v) if isinstance(v, list) else v for k, v in body.items()}


def _plain(body: Mapping[str, Any], *without: str) -> Wire:
    """A row or a line without its nulls, maps as dicts, all the way down; empty tags count as none."""
    out: Wire = {}
    for name, value in body.items():
        if value is None or name in without:
            continue
        if isinstance(value, list) and all(isinstance(v, tuple) for v in value):
            value = dict(value)
        elif name == "deletionVector":
            value = _plain(value)
        if name != "tags" or value:
            out[name] = value
    return out


def rows(table: pa.Table) -> Iterator[Wire]:
    """The rows of ``Snapshot.files()`` or ``tombstones()`` in wire form, nulls left out."""
    for row in table.to_pylist():
        yield _plain(row)


def seen(snapshot: Snapshot, *, tombstones: bool = True, twice: bool = False) -> State:
    """What a snapshot says, in the model's form. No file may come ``twice``."""
    files = [_plain(r, "dataChange") for r in snapshot.files().to_pylist()]
    by_key = {key(f): f for f in files}
    assert twice or len(by_key) == len(files), "a logical file came twice"
    gone: dict[Key, Wire] = {}
    if tombstones:
        removed = [
            _plain(r, "dataChange", "stats", "tags") for r in snapshot.tombstones(expired=True).to_pylist()
        ]
        gone = {key(f): f for f in removed}
        assert len(gone) == len(removed), "a tombstone came twice"
        assert not gone.keys() & by_key.keys(), "a file is both live and removed"
    meta = msgspec.to_builtins(snapshot.metadata)
    return State(
        _features_sorted(snapshot.protocol.to_wire()),
        {**meta, "partitionColumns": list(meta["partitionColumns"])},
        by_key,
        gone,
        {app: _plain(msgspec.to_builtins(t)) for app, t in snapshot.transactions.items()},
        {name: msgspec.to_builtins(d) for name, d in snapshot.domains.items()},
    )


# ---------------------------------------------------------------------------- checkpoints by hand

_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = [
    ("path", pa.string()),
    ("partitionValues", _MAP),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("stats", pa.string()),
    ("tags", _MAP),
    ("deletionVector", _VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
    ("clusteringProvider", pa.string()),
]
_REMOVE = [
    ("path", pa.string()),
    ("deletionTimestamp", pa.int64()),
    ("dataChange", pa.bool_()),
    ("extendedFileMetadata", pa.bool_()),
    ("partitionValues", _MAP),
    ("size", pa.int64()),
    ("deletionVector", _VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
]
CHECKPOINT_COLUMNS: dict[str, pa.DataType] = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "add": pa.struct(_ADD),
    "remove": pa.struct(_REMOVE),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", _MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    ),
    "domainMetadata": pa.struct(
        [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
    ),
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", _MAP)]),
    "sidecar": pa.struct(
        [
            ("path", pa.string()),
            ("sizeInBytes", pa.int64()),
            ("modificationTime", pa.int64()),
            ("tags", _MAP),
        ]
    ),
}


def _shaped(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return list(value.items())
    if pa.types.is_struct(kind):
        return {f.name: _shaped(value.get(f.name), f.type) for f in kind}
    return value


def checkpoint_bytes(actions: Sequence[Wire], *, row_group_size: int = 1024) -> bytes:
    """A parquet file with these actions, one row each, in columns as delta-spark lays them out."""
    schema = pa.schema(list(CHECKPOINT_COLUMNS.items()))
    table = pa.Table.from_pylist(
        [{k: _shaped(v, CHECKPOINT_COLUMNS[k]) for k, v in a.items()} for a in actions], schema
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=row_group_size, compression="snappy")
    return bytes(sink.getvalue())


def state_actions(state: State) -> tuple[list[Wire], list[Wire]]:
    """A state as the actions of a checkpoint: the small ones, and those of files."""
    small: list[Wire] = []
    if state.protocol is not None:
        small.append({"protocol": state.protocol})
    if state.metadata is not None:
        small.append({"metaData": state.metadata})
    small += [{"txn": t} for t in state.txns.values()]
    small += [{"domainMetadata": d} for d in state.domains.values()]
    files = [{"remove": {**r, "dataChange": False}} for r in state.tombstones.values()]
    files += [{"add": {**f, "dataChange": False}} for f in state.files.values()]
    return small, files


# ---------------------------------------------------------------------------- tables


def _commit_name(version: int) -> str:
    return f"{version:020d}.json"


@dataclass
class RawTable:
    """A table whose log is written by hand. ``commits`` is everything ``commit`` was ever given."""

    store: Store = None  # type: ignore[assignment]
    clock: Clock = field(default_factory=Clock)
    commits: list[list[Wire]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.store is None:
            self.store = MemoryStore(clock=self.clock)

    @classmethod
    def on_disk(cls, path: str | Path, clock: Clock | None = None) -> RawTable:
        """A table in a directory; the names of files have the real clock's times there."""
        clock = clock or Clock()
        return cls(TableLog.at(path, clock=clock).store, clock)

    @property
    def memory(self) -> MemoryStore:
        assert isinstance(self.store, MemoryStore)
        return self.store

    @property
    def log(self) -> TableLog:
        return TableLog(self.store, clock=self.clock)

    @property
    def version(self) -> int:
        return len(self.commits) - 1

    def load(self, version: int | None = None) -> Snapshot:
        return load(self.log, version)

    def state(self, version: int | None = None) -> State:
        """The model's answer."""
        return replay(self.commits[: (self.version if version is None else version) + 1])

    # ------------------------------------------------------------------ commits

    def create(
        self,
        *more: Wire,
        schema: str = SCHEMA,
        partitions: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        protocol: Wire | None = None,
    ) -> RawTable:
        """Version 0: protocol, metadata and whatever ``more`` there is."""
        head = protocol or globals()["protocol"]()
        self.commit(commit_info("CREATE TABLE"), head, metadata(schema, partitions, configuration), *more)
        return self

    def commit(self, *actions: Wire, tick: int = SECOND) -> int:
        """Write the next version, one second after the last one."""
        self.clock.tick(tick)
        if not any("commitInfo" in a for a in actions):
            actions = (commit_info(), *actions)
        self.commits.append(list(actions))
        self.store.put_if_absent(f"{LOG}/{_commit_name(self.version)}", lines(actions))
        return self.version

    def transact(self, *actions: Wire, **settings: Any) -> Any:
        """Commit through the product; ``metaData`` goes through ``update_metadata``."""
        from tidegate.transaction.transaction import Transaction

        self.clock.tick()
        made = structs(*actions)
        transaction = Transaction.begin(self.log, **settings)
        for action in list(made):
            if type(action).__name__ == "Metadata":
                transaction.update_metadata(action)
                made.remove(action)
        committed = transaction.commit(made)
        written = self.bytes(_commit_name(committed.version))
        self.commits[committed.version :] = [[json.loads(line) for line in written.splitlines()]]
        return committed

    # ------------------------------------------------------------------ checkpoints and the rest

    def checkpoint(self, version: int | None = None, form: str = "classic", *, parts: int = 2) -> list[str]:
        """Write a checkpoint of ``version`` in one of ``FORMS``; the names written, sidecars first."""
        version = self.version if version is None else version
        small, files = state_actions(self.state(version))
        stem = f"{version:020d}.checkpoint"
        if form == "classic":
            return [self.put(f"{stem}.parquet", checkpoint_bytes([*small, *files]))]
        if form == "multipart":
            return [
                self.put(
                    f"{stem}.{part:010d}.{parts:010d}.parquet",
                    checkpoint_bytes([*(small if part == 1 else ()), *files[part - 1 :: parts]]),
                )
                for part in range(1, parts + 1)
            ]
        first: Wire = {"checkpointMetadata": {"version": version, "tags": {}}}
        if form == "v2-inline":
            return [self.put(f"{stem}.{uuid.uuid4()}.json", lines([first, *small, *files]))]
        names: list[str] = []
        sidecars: list[Wire] = []
        for part in range(parts):
            name, data = f"{uuid.uuid4()}.parquet", checkpoint_bytes(files[part::parts])
            names.append(self.put(f"_sidecars/{name}", data))
            body = {"path": name, "sizeInBytes": len(data), "modificationTime": self.clock()}
            sidecars.append({"sidecar": body})
        top = [first, *small, *sidecars]
        if form == "v2-json":
            return [*names, self.put(f"{stem}.{uuid.uuid4()}.json", lines(top))]
        if form == "v2-parquet":
            return [*names, self.put(f"{stem}.{uuid.uuid4()}.parquet", checkpoint_bytes(top))]
        assert form == "v2-classic", form
        return [*names, self.put(f"{stem}.parquet", checkpoint_bytes(top))]

    def hint(self, version: int, **more: Any) -> str:
        """A ``_last_checkpoint`` that names ``version``, without a checksum unless one is given."""
        return self.put("_last_checkpoint", json.dumps({"version": version, "size": 1, **more}).encode())

    def compact(self, start: int, end: int) -> str:
        """A log compaction: the reconciled actions of the range, tombstones of domains included."""
        span = self.commits[start : end + 1]
        state = replay(span)
        small, files = state_actions(state)
        last = {a["domainMetadata"]["domain"]: a for commit in span for a in commit if "domainMetadata" in a}
        gone = [a for name, a in last.items() if name not in state.domains]
        return self.put(f"{start:020d}.{end:020d}.compacted.json", lines([*small, *gone, *files]))

    def checksum(self, version: int | None = None, **other: Any) -> str:
        """``N.crc`` with every required field and the lists; ``other`` overrides or adds fields."""
        version = self.version if version is None else version
        state = self.state(version)
        body = {
            "tableSizeBytes": state.size,
            "numFiles": len(state.files),
            "numMetadata": 1,
            "numProtocol": 1,
            "setTransactions": list(state.txns.values()),
            "domainMetadata": list(state.domains.values()),
            "metadata": state.metadata,
            "protocol": state.protocol,
            **other,
        }
        return self.put(f"{version:020d}.crc", json.dumps(body).encode())

    # ------------------------------------------------------------------ files of the log

    def put(self, name: str, data: bytes) -> str:
        self.store.put(f"{LOG}/{name}", data)
        return name

    def bytes(self, name: str) -> bytes:
        return self.store.get(f"{LOG}/{name}")

    def delete(self, *names: str) -> None:
        self.store.delete([f"{LOG}/{n}" for n in names])

    def delete_commits(self, below: int) -> None:
        """Take the commits before ``below`` away, as a finished cleanup does."""
        self.delete(*(_commit_name(v) for v in range(below)))

    def edit(self, name: str, change: Callable[[bytes], bytes]) -> None:
        """Replace a file of the log by what ``change`` makes of it; its time stays."""
        info = self.store.head(f"{LOG}/{name}")
        self.put(name, change(self.bytes(name)))
        if isinstance(self.store, MemoryStore):
            self.store.set_modified(f"{LOG}/{name}", info.modified)

    def names(self) -> list[str]:
        """Every file of the log, sidecars as ``_sidecars/...``, in order."""
        return [i.name.removeprefix(f"{LOG}/") for i in self.store.list_from(LOG, recursive=True)]

    def survivor(self) -> RawTable:
        """The same table on a copy of the bytes, with the same clock and no planned faults."""
        return RawTable(self.memory.survivor(), self.clock, [list(c) for c in self.commits])


def small_table(**options: Any) -> RawTable:
    """A table of five versions with a file more in each, and one removed at the end."""
    table = RawTable().create(**options)
    for number in range(1, 4):
        table.commit(add(f"f{number}.parquet", 100 * number, stats=stats(10, 10 * number, 10 * number + 9)))
    table.commit(remove("f1.parquet", 100, time=table.clock()))
    return table
