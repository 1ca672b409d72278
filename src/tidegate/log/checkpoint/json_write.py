"""Writing the checkpoints of index tables: lines of JSON in one file, or in parts behind a manifest.

Protocol (if the table has one: absent stays absent), metadata, skips, live adds; removes are left out. A
name is written once, and the first writer of a manifest wins: what a hint's checksum was taken of never
changes under a reader. Parts are whole before the manifest names them. Nothing is published before the
bytes have been decoded again and hold as many files as were written.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from tidegate.errors import CheckpointCorruptError, NameTakenError, TidegateError
from tidegate.log import names
from tidegate.log.actions import to_wire
from tidegate.log.checkpoint.hint import Hint
from tidegate.log.checkpoint.json_read import JsonCheckpointReader, Manifest, checksum
from tidegate.log.columns import batch_to_wire
from tidegate.log.commits import decode_commit, encode_lines
from tidegate.log.segment import Checkpoint, LogFile
from tidegate.log.snapshot import Snapshot
from tidegate.protocol.indextables import MULTIPART, has_feature
from tidegate.storage.store import FileInfo

_log = logging.getLogger(__name__)

ACTIONS_PER_PART = 100_000
_SOME_LINES = 8_192


@dataclass(frozen=True)
class WrittenJson:
    """A JSON checkpoint in its place, and the hint that points to it."""

    hint: Hint
    checkpoint: Checkpoint


def write_json(snapshot: Snapshot, *, per_part: int | None = None) -> WrittenJson:
    """Checkpoint ``snapshot``; in parts of ``per_part`` actions where the protocol allows it.

    ``per_part`` of 0 forbids parts. A checkpoint of this version that is there already is left as it is,
    if it can be read.
    """
    allowed = has_feature(snapshot.protocol, MULTIPART)
    limit = (ACTIONS_PER_PART if per_part is None else per_part) if allowed else 0
    actions = snapshot.num_files + len(snapshot.skips) + (1 if snapshot.spoken_protocol is None else 2)
    if limit and actions > limit:
        return _write_parts(snapshot, limit)
    data, written = _encoded(snapshot, _lines(snapshot))
    return _publish(snapshot, data, Hint(version=snapshot.version, format="json"), written, len(data))


def _lines(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    spoken = snapshot.spoken_protocol
    if spoken is not None:
        yield to_wire(spoken)
    yield to_wire(snapshot.metadata)
    for skip in snapshot.skips.values():
        yield to_wire(skip)
    for batch in snapshot.add_batches(False, lambda b: b):
        yield from batch_to_wire("add", batch)


def _write_parts(snapshot: Snapshot, limit: int) -> WrittenJson:
    log, unique, lines = snapshot.log, uuid.uuid4().hex[:12], _lines(snapshot)
    parts: list[str] = []
    sums: list[str] = []
    actions = size = 0
    while True:
        data, written = _encoded(snapshot, islice(lines, limit))
        if not written:
            break
        parts.append(names.json_part(snapshot.version, unique, len(parts) + 1))
        sums.append(checksum(data))
        log.store.put_if_absent(log.path(parts[-1]), data)
        actions, size = actions + written, size + len(data)
    manifest = Manifest(
        version=snapshot.version,
        checkpoint_id=unique,
        parts=parts,
        created_time=log.clock(),
        format="json",
        checksums=sums,
    )
    hint = Hint(version=snapshot.version, parts=len(parts), checkpoint_id=unique, format="json-multipart")
    data = log.dialect.encode(msgspec.json.encode(manifest))
    return _publish(snapshot, data, hint, actions, size + len(data))


def _encoded(snapshot: Snapshot, lines: Iterator[dict[str, Any]]) -> tuple[bytes, int]:
    """The bytes of one file, proven to say what they were made of, and its number of actions."""
    pieces: list[bytes] = []
    adds = written = 0
    while some := list(islice(lines, _SOME_LINES)):
        pieces.append(encode_lines(some))
        written += len(some)
        adds += sum(1 for line in some if "add" in line)
    if not written:
        return b"", 0
    text = b"".join(pieces)
    found = decode_commit(text, "the checkpoint being made", snapshot.log.dialect.form)
    if sum(b.num_rows for b in found.adds) != adds:
        raise CheckpointCorruptError(f"The checkpoint holds other than {adds} files; it is not published.")
    return snapshot.log.dialect.encode(text), written


def _publish(snapshot: Snapshot, data: bytes, hint: Hint, actions: int, size: int) -> WrittenJson:
    log, name = snapshot.log, names.json_checkpoint(snapshot.version)
    hint = msgspec.structs.replace(
        hint,
        size=actions,
        size_in_bytes=size,
        num_files=snapshot.num_files,
        created_time=log.clock(),
        checksum=checksum(data),
    )
    try:
        log.store.put_if_absent(log.path(name), data)
    except NameTakenError:
        standing = _standing(snapshot, name)
        if standing is not None:
            return standing
        _log.warning("%s: the checkpoint of version %d cannot be read; renewed", log.url, snapshot.version)
        log.store.put(log.path(name), data)
    return WrittenJson(hint, _placed(snapshot, name, len(data)))


def _standing(snapshot: Snapshot, name: str) -> WrittenJson | None:
    """The checkpoint of this version that another writer has put there, None if it is of no use."""
    log = snapshot.log
    placed = _placed(snapshot, name, -1)
    try:
        data = log.store.get(log.path(name))
        reader = JsonCheckpointReader(log.store, log.log_dir, placed, None)
        parts = [reader.part(i) for i in range(reader.count)]
        files = sum(b.num_rows for p in parts for b in p.adds)
        others = sum(len(p.skips) + len(p.protocols) + len(p.metadatas) for p in parts)
        if reader.small.metadata is None or files != snapshot.num_files:
            return None
    except TidegateError:
        return None
    manifest = reader.manifest
    hint = Hint(
        version=snapshot.version,
        size=files + others,
        size_in_bytes=len(data),
        num_files=files,
        created_time=log.clock(),
        parts=None if manifest is None else len(manifest.parts),
        checkpoint_id=None if manifest is None else manifest.checkpoint_id,
        format="json" if manifest is None else "json-multipart",
        checksum=checksum(data),
    )
    return WrittenJson(hint, _placed(snapshot, name, len(data)))


def _placed(snapshot: Snapshot, name: str, size: int) -> Checkpoint:
    parsed = names.parse_index(name)
    assert parsed is not None
    info = FileInfo(snapshot.log.path(name), size, snapshot.log.clock())
    return Checkpoint(snapshot.version, parsed.kind, (LogFile(parsed, info),))
