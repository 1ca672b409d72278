"""The actions of a Delta commit: their typed form, and the JSON object that each of them is written as.

Unknown fields and unknown actions are ignored. How many of them become columns says ``columns``, how a
commit is read and written says ``commits``.
Specification: "Actions".
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

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
