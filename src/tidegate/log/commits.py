"""One commit: its lines decoded, or the lines that it will be.

A line is decoded into frozen structs, the file actions of all lines into columns. A malformed line is an
error that names file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from tidegate.errors import CommitCorruptError
from tidegate.log.actions import (
    Add,
    Cdc,
    CheckpointMetadata,
    DomainMetadata,
    Line,
    Remove,
    Sidecar,
    Skip,
    Txn,
)
from tidegate.log.columns import ADD_SCHEMA, CDC_SCHEMA, REMOVE_SCHEMA, to_batch
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol

BATCH_ROWS = 16_384
_encode = msgspec.json.Encoder().encode


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


def encode_lines(values: Iterable[Mapping[str, Any]]) -> bytes:
    """A commit's bytes: one line per action, each with its newline."""
    return b"".join(_encode(v) + b"\n" for v in values)
