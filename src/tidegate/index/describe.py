"""The log of an index table as a table: one row for each action of each file.

Every line is shown, also those that this client does not know, which the log itself ignores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from tidegate.errors import CommitCorruptError
from tidegate.log.actions import Skip
from tidegate.log.checkpoint.json_read import JsonCheckpointReader
from tidegate.log.index_actions import IndexAdd, IndexRemove, unwrapped
from tidegate.log.segment import LogFile
from tidegate.log.snapshot import Snapshot
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol

_KINDS: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "add": ("add", IndexAdd),
    "remove": ("remove", IndexRemove),
    "skip": ("skip", Skip),
    "mergeskip": ("skip", Skip),
    "protocol": ("protocol", Protocol),
    "metaData": ("metadata", Metadata),
}


def _fields() -> dict[str, str]:
    """Wire names of every field of every action, and the columns they become."""
    out: dict[str, str] = {}
    for _, kind in _KINDS.values():
        for field in msgspec.structs.fields(kind):
            out.setdefault(field.encode_name, field.name)
    return out


FIELDS = _fields()
_TEXT = {"format"}
_TRUTH = {"dataChange", "hasFooterOffsets", "extendedFileMetadata"}
_MAPS = {"partitionValues", "tags", "minValues", "maxValues", "configuration"}
_LISTS = {
    "splitTags",
    "companionSourceFiles",
    "readerFeatures",
    "writerFeatures",
    "partitionColumns",
}
_NUMBERS = {
    "size", "modificationTime", "numRecords", "footerStartOffset", "footerEndOffset",
    "hotcacheStartOffset", "hotcacheLength", "deleteOpstamp", "numMergeOps", "uncompressedSizeBytes",
    "companionDeltaVersion", "deletionTimestamp", "skipTimestamp", "retryAfter", "skipCount",
    "minReaderVersion", "minWriterVersion", "createdTime",
}  # fmt: skip


def _type(name: str) -> pa.DataType:
    if name in _NUMBERS:
        return pa.int64()
    if name in _TRUTH:
        return pa.bool_()
    if name in _MAPS:
        return pa.map_(pa.string(), pa.string())
    return pa.list_(pa.string()) if name in _LISTS else pa.string()


SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("log_file_path", pa.string()),
        ("action_type", pa.string()),
        ("is_checkpoint", pa.bool_()),
        *((column, _type(wire)) for wire, column in FIELDS.items()),
    ]
)


def describe(snapshot: Snapshot, *, include_all: bool = False) -> pa.Table:
    """The actions of the files that make ``snapshot``, or of every file of the log."""
    rows = [
        row
        for version, name, whole in _files(snapshot, include_all)
        for row in _rows(snapshot, version, name, whole)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def _files(snapshot: Snapshot, include_all: bool) -> Iterator[tuple[int, str, bool]]:
    if include_all:
        listing = snapshot.log.listing(0, snapshot.version)
        checkpoints, commits = listing.checkpoints, [listing.commits[v] for v in sorted(listing.commits)]
    else:
        segment = snapshot.segment
        checkpoints = [segment.checkpoint] if segment.checkpoint is not None else []
        commits = list(segment.commits)
    found: list[tuple[int, str, bool]] = []
    for checkpoint in checkpoints:
        reader = snapshot.log.reader(checkpoint)
        assert isinstance(reader, JsonCheckpointReader)
        names = reader.manifest.parts if reader.manifest is not None else [_bare(checkpoint.files[0])]
        found += [(checkpoint.version, name, True) for name in names]
    found += [(c.name.version, _bare(c), False) for c in commits]
    yield from sorted(found, key=lambda f: (f[0], not f[2], f[1]))


def _bare(file: LogFile) -> str:
    return file.name.text


def _rows(snapshot: Snapshot, version: int, name: str, whole: bool) -> Iterator[dict[str, Any]]:
    path = snapshot.log.path(name)
    for number, line in enumerate(unwrapped(snapshot.log.store.get(path), name).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line)
        except msgspec.DecodeError as e:
            raise CommitCorruptError(
                f"Line {number} is not a well-formed action ({e}).", table=snapshot.url, file=name
            ) from e
        for key, body in value.items() if isinstance(value, dict) else ():
            kind, _ = _KINDS.get(key, ("unknown", None))
            row: dict[str, Any] = {
                "version": version,
                "log_file_path": path,
                "action_type": kind,
                "is_checkpoint": whole,
            }
            if kind != "unknown" and isinstance(body, dict):
                row.update((FIELDS[k], _shown(k, v)) for k, v in body.items() if k in FIELDS)
            yield row


def _shown(name: str, value: Any) -> Any:
    if name in _MAPS and isinstance(value, dict):
        return list(value.items())
    return msgspec.json.encode(value).decode() if name in _TEXT and value is not None else value
