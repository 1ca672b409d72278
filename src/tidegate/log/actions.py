"""The actions of a Delta commit: their typed form, their wire form and their columns.

One line of a commit is decoded into frozen structs; unknown fields and unknown actions are ignored,
malformed ones are an error that names file and line. File actions leave this module as Arrow
batches: no Python object per file outlives the decoding of one commit.
Specification: "Actions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec
import pyarrow as pa
from msgspec.structs import astuple

from tidegate.errors import CommitCorruptError
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol

# What a signed 64-bit column holds; JSON itself has no bound.
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Add(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file joins the table, or its entry is replaced."""

    path: str
    partition_values: dict[str, str | None] | None = None
    size: Long
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    clustering_provider: str | None = None


class Remove(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file leaves the table; kept as a tombstone until its retention has passed."""

    path: str
    deletion_timestamp: Long | None = None
    data_change: bool = True
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None


class Cdc(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file of change rows, for readers of the change data feed only."""

    path: str
    partition_values: dict[str, str | None] | None = None
    size: Long
    data_change: bool = False
    tags: dict[str, str | None] | None = None


class Txn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far the application ``app_id`` has come; the newest one wins, even if it is lower."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class DomainMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configuration of one domain; ``removed`` makes it a tombstone."""

    domain: str
    configuration: str
    removed: bool = False


class CheckpointMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """First line of a V2 checkpoint."""

    version: Long
    tags: dict[str, str | None] | None = None


class Sidecar(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file of file actions that a V2 checkpoint refers to."""

    path: str
    size_in_bytes: Long
    modification_time: Long
    tags: dict[str, str | None] | None = None


class Skip(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """On index tables: a split that could not be used. It stays in the table and is left alone a while."""

    path: str
    skip_timestamp: Long
    reason: str = ""
    operation: str = ""
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    retry_after: Long | None = None
    skip_count: Long = 1


Action = Add | Remove | Cdc | Txn | DomainMetadata | CheckpointMetadata | Sidecar | Skip | Protocol | Metadata


class Line(msgspec.Struct, frozen=True):
    """One line of a commit or of a JSON checkpoint: at most one of these in a well-made log."""

    add: Add | None = None
    remove: Remove | None = None
    cdc: Cdc | None = None
    txn: Txn | None = None
    protocol: Protocol | None = None
    metaData: Metadata | None = None
    domainMetadata: DomainMetadata | None = None
    commitInfo: msgspec.Raw = msgspec.Raw()
    checkpointMetadata: CheckpointMetadata | None = None
    sidecar: Sidecar | None = None


# ---------------------------------------------------------------------------- columns

STRING_MAP = pa.map_(pa.string(), pa.string())
DV_TYPE = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
ADD_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DV_TYPE),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
REMOVE_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DV_TYPE),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
CDC_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", STRING_MAP),
    ]
)


@lru_cache(maxsize=64)
def _attribute(wire: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in wire)


def _as_maps(values: Iterable[Mapping[str, str | None] | None]) -> pa.MapArray:
    """Mappings as one column: keys and values laid end to end, which is several times faster than pairs."""
    offsets: list[int | None] = []
    keys: list[str] = []
    items: list[str | None] = []
    for value in values:
        if value is None:
            offsets.append(None)
            continue
        offsets.append(len(keys))
        if value:
            keys.extend(value)
            items.extend(value.values())
    offsets.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), pa.array(items, pa.string())
    )


def _from_maps(column: pa.MapArray) -> list[dict[str, str | None] | None]:
    """The way back."""
    offsets = column.offsets.to_pylist()
    first, length = offsets[0], offsets[-1] - offsets[0]
    keys = column.keys.slice(first, length).to_pylist()
    items = column.items.slice(first, length).to_pylist()
    spans = zip(offsets, offsets[1:], column.is_valid().to_pylist(), strict=False)
    return [
        dict(zip(keys[start - first : end - first], items[start - first : end - first], strict=True))
        if there
        else None
        for start, end, there in spans
    ]


def _as_dv(value: DeletionVector | None) -> tuple[Any, ...] | None:
    if value is None:
        return None
    return (
        value.storage_type,
        value.path_or_inline_dv,
        value.offset,
        value.size_in_bytes,
        value.cardinality,
    )


def to_batch(actions: Sequence[msgspec.Struct], schema: pa.Schema) -> pa.RecordBatch:
    """File actions of one kind as columns, in the order given."""
    if not actions:
        return _empty(schema)
    # All rows at once as tuples, then turned on their side: a getattr per value costs twice as much.
    names = _attributes(type(actions[0]))
    by_name = dict(zip(names, zip(*map(astuple, actions), strict=True), strict=True))
    columns = []
    for column in schema:
        values = by_name[_attribute(column.name)]
        if values.count(None) == len(values):
            columns.append(_nulls(column.type, len(values)))
            continue
        if column.type == STRING_MAP:
            columns.append(_as_maps(values))
        elif column.type == DV_TYPE:
            columns.append(pa.array(list(map(_as_dv, values)), column.type))
        else:
            columns.append(pa.array(values, column.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@lru_cache(maxsize=32)
def _null_block(kind: pa.DataType) -> pa.Array:
    return pa.nulls(_NULL_BLOCK, kind)


def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    """Nulls of a type; a slice of ready ones where they are few, as in most commits."""
    return _null_block(kind).slice(0, count) if count <= _NULL_BLOCK else pa.nulls(count, kind)


@lru_cache(maxsize=16)
def _attributes(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(f.name for f in msgspec.structs.fields(kind))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


_ActionT = TypeVar("_ActionT", bound=msgspec.Struct)


@lru_cache(maxsize=16)
def _wire_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(f.encode_name for f in msgspec.structs.fields(kind))


def from_batch(batch: pa.RecordBatch | pa.Table, kind: type[_ActionT]) -> Iterator[_ActionT]:
    """Columns back to file actions, one at a time; fields the type does not know are dropped."""
    batch = batch.select([n for n in batch.schema.names if n in _wire_fields(kind)])
    maps = [f.name for f in batch.schema if pa.types.is_map(f.type)]
    for piece in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
        for row in piece.to_pylist():
            for name in maps:
                if row[name] is not None:
                    row[name] = dict(row[name])
            yield msgspec.convert({k: v for k, v in row.items() if v is not None}, kind)


# ---------------------------------------------------------------------------- wire form

_encode = msgspec.json.Encoder().encode
_NO_COLUMNS = '{"type":"struct","fields":[]}'
_REQUIRED_MAPS = {Add: "partitionValues", Cdc: "partitionValues"}
_WIRE_NAME = {
    Add: "add",
    Remove: "remove",
    Cdc: "cdc",
    Txn: "txn",
    DomainMetadata: "domainMetadata",
    CheckpointMetadata: "checkpointMetadata",
    Sidecar: "sidecar",
    Skip: "skip",
}


def to_wire(action: Action) -> dict[str, Any]:
    """The JSON object of one action, absent fields left out, wrapped in its name."""
    if isinstance(action, Protocol):
        return {"protocol": action.to_wire()}
    if isinstance(action, Metadata):
        body = msgspec.to_builtins(action)
        return {"metaData": {**body, "schemaString": body.get("schemaString") or _NO_COLUMNS}}
    body = {k: v for k, v in msgspec.to_builtins(action).items() if v is not None}
    if isinstance(body.get("deletionVector"), dict):
        body["deletionVector"] = {k: v for k, v in body["deletionVector"].items() if v is not None}
    required = _REQUIRED_MAPS.get(type(action))
    if required is not None:
        body.setdefault(required, {})
    return {_WIRE_NAME[type(action)]: body}


def batch_to_wire(name: str, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """File actions in columns as JSON objects, one row at a time, absent fields left out."""
    names: list[str] = []
    columns: list[list[Any]] = []
    for kind, column in zip(batch.schema, batch.columns, strict=True):
        if column.null_count < len(column):
            names.append(kind.name)
            columns.append(_from_maps(column) if pa.types.is_map(kind.type) else column.to_pylist())
    for row in zip(*columns, strict=True):
        body = {k: v for k, v in zip(names, row, strict=True) if v is not None}
        if "deletionVector" in body:
            body["deletionVector"] = {k: v for k, v in body["deletionVector"].items() if v is not None}
        if name != "remove":
            body.setdefault("partitionValues", {})
        yield {name: body}


def encode_lines(values: Iterable[Mapping[str, Any]]) -> bytes:
    """A commit's bytes: one line per action, each with its newline."""
    return b"".join(_encode(v) + b"\n" for v in values)


# ---------------------------------------------------------------------------- decoding

BATCH_ROWS = 16_384
_NULL_BLOCK = 1_024


@dataclass(frozen=True)
class Form:
    """The lines of one family of logs, and the columns that its file actions become."""

    decode_line: Callable[[bytes], Line]
    add: type[msgspec.Struct]
    remove: type[msgspec.Struct]
    adds: pa.Schema
    removes: pa.Schema
    # What tells one logical file from another.
    key: tuple[str, ...]
    # What a predicate looks at to leave files out.
    prune: tuple[str, ...]
    # The action that a line carries beside those of Delta, if any.
    skip: Callable[[Line], Skip | None] | None = None


DELTA_FORM = Form(
    msgspec.json.Decoder(Line).decode,
    Add,
    Remove,
    ADD_SCHEMA,
    REMOVE_SCHEMA,
    ("path", "deletionVector"),
    ("partitionValues", "stats"),
)


@dataclass(slots=True)
class CommitActions:
    """One commit, decoded: the few actions as structs, file actions as columns."""

    adds: list[pa.RecordBatch] = field(default_factory=list)
    removes: list[pa.RecordBatch] = field(default_factory=list)
    # The line each add and remove stood on, where they come from a file that was decoded.
    add_lines: list[pa.Array] = field(default_factory=list)
    remove_lines: list[pa.Array] = field(default_factory=list)
    cdcs: list[pa.RecordBatch] = field(default_factory=list)
    protocols: list[Protocol] = field(default_factory=list)
    metadatas: list[Metadata] = field(default_factory=list)
    txns: list[Txn] = field(default_factory=list)
    domains: list[DomainMetadata] = field(default_factory=list)
    sidecars: list[Sidecar] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    checkpoint_metadata: CheckpointMetadata | None = None
    raw_commit_info: bytes | None = None
    # Set once it is proven that no two actions speak of the same thing.
    consistent: bool = False

    @property
    def protocol(self) -> Protocol | None:
        return self.protocols[-1] if self.protocols else None

    @property
    def metadata(self) -> Metadata | None:
        return self.metadatas[-1] if self.metadatas else None

    @property
    def commit_info(self) -> dict[str, Any]:
        """The free-form commitInfo; empty where the commit has none."""
        if self.raw_commit_info is None:
            return {}
        value = msgspec.json.decode(self.raw_commit_info)
        return value if isinstance(value, dict) else {}


def decode_commit(data: bytes, name: str, form: Form = DELTA_FORM) -> CommitActions:
    """Decode the bytes of the commit (or JSON checkpoint) ``name``.

    ``CommitCorruptError`` names the file and the line: a line that is cut, is no JSON object, or
    has an action with a required field missing or of the wrong kind.
    """
    out = CommitActions()
    adds: list[tuple[int, msgspec.Struct]] = []
    removes: list[tuple[int, msgspec.Struct]] = []
    cdcs: list[Cdc] = []
    decode_line, skip_of = form.decode_line, form.skip

    def flush() -> None:
        for found, batches, lines, schema in (
            (adds, out.adds, out.add_lines, form.adds),
            (removes, out.removes, out.remove_lines, form.removes),
        ):
            if found:
                batches.append(to_batch([action for _, action in found], schema))
                lines.append(pa.array([line for line, _ in found], pa.int32()))
        adds.clear()
        removes.clear()

    if not data.strip():
        raise CommitCorruptError(
            "The commit is empty: it holds not even a commitInfo.",
            file=name,
            hint="A writer that is not atomic may have been cut off; restore the file from a backup.",
        )
    for number, text in enumerate(data.split(b"\n"), 1):
        if not text or text.isspace():
            continue
        try:
            line = decode_line(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise _corrupt(name, number, text, e) from e
        if line.add is not None:
            adds.append((number, line.add))
        if line.remove is not None:
            removes.append((number, line.remove))
        if len(adds) + len(removes) >= BATCH_ROWS:
            flush()
        if line.commitInfo:
            out.raw_commit_info = bytes(line.commitInfo)
        if line.cdc is not None:
            cdcs.append(line.cdc)
        if line.txn is not None:
            out.txns.append(line.txn)
        if line.protocol is not None:
            out.protocols.append(line.protocol)
        if line.metaData is not None:
            out.metadatas.append(line.metaData)
        if line.domainMetadata is not None:
            out.domains.append(line.domainMetadata)
        if line.sidecar is not None:
            out.sidecars.append(line.sidecar)
        if line.checkpointMetadata is not None:
            out.checkpoint_metadata = line.checkpointMetadata
        if skip_of is not None and (skip := skip_of(line)) is not None:
            out.skips.append(skip)
    flush()
    if cdcs:
        out.cdcs.append(to_batch(cdcs, CDC_SCHEMA))
    return out


def _corrupt(name: str, number: int, text: bytes, cause: Exception) -> CommitCorruptError:
    shown = text[:80].decode("utf-8", "replace")
    return CommitCorruptError(
        f"Line {number} is not a well-formed action ({cause}): {shown}{'…' if len(text) > 80 else ''}",
        file=name,
        hint="Restore the file from a backup; what comes before this version can still be read by "
        "time travel.",
    )
