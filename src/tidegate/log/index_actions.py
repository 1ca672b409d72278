"""The actions of an index table's log: their lines, their columns and the envelope of their files.

``add`` says far more of a split than of a parquet file; ``skip`` (``mergeskip`` in logs of other writers)
is the one action that Delta does not have. A file may carry a prefix of two bytes and be compressed: its
name stays the same, and plain and compressed files stand side by side. Unknown actions and fields are
ignored, malformed lines are errors that name file and line.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CommitCorruptError
from tidegate.log.actions import Line, Long, Skip
from tidegate.log.columns import ADD_SCHEMA, REMOVE_SCHEMA, STRING_MAP
from tidegate.log.commits import CommitActions, Form, decode_commit

# Beside the required fields: what version 1 of the protocol has. All other fields need version 2.
VERSION_1_FIELDS = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "dataChange",
    "tags",
    "stats",
    "minValues",
    "maxValues",
    "numRecords",
)


class IndexAdd(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A split joins the table. Times in ``time_range_*`` are ISO 8601 texts, all others milliseconds."""

    path: str
    partition_values: dict[str, str | None]
    size: Long
    modification_time: Long
    data_change: bool
    tags: dict[str, str | None] | None = None
    stats: str | None = None
    min_values: dict[str, str | None] | None = None
    max_values: dict[str, str | None] | None = None
    num_records: Long | None = None
    footer_start_offset: Long | None = None
    footer_end_offset: Long | None = None
    has_footer_offsets: bool | None = None
    hotcache_start_offset: Long | None = None
    hotcache_length: Long | None = None
    time_range_start: str | None = None
    time_range_end: str | None = None
    split_tags: list[str] | None = None
    delete_opstamp: Long | None = None
    num_merge_ops: Long | None = None
    doc_mapping_json: str | None = None
    uncompressed_size_bytes: Long | None = None
    doc_mapping_ref: str | None = None
    companion_source_files: list[str] | None = None
    companion_delta_version: Long | None = None
    companion_fast_field_mode: str | None = None


class IndexRemove(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A split leaves the table."""

    path: str
    deletion_timestamp: Long | None = None
    data_change: bool = True
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None
    tags: dict[str, str | None] | None = None


class IndexLine(Line, frozen=True):
    """One line of a commit or a checkpoint."""

    # The same keys as in a Delta log with other fields behind them, which mypy refuses in a subclass.
    add: IndexAdd | None = None  # type: ignore[assignment]  # msgspec takes the subclass's type
    remove: IndexRemove | None = None  # type: ignore[assignment]  # msgspec takes the subclass's type
    skip: Skip | None = None
    mergeskip: Skip | None = None


_STRINGS = pa.list_(pa.string())
INDEX_ADD_SCHEMA = pa.schema(
    [
        *(ADD_SCHEMA.field(name) for name in VERSION_1_FIELDS if name in ADD_SCHEMA.names),
        ("minValues", STRING_MAP),
        ("maxValues", STRING_MAP),
        ("numRecords", pa.int64()),
        ("footerStartOffset", pa.int64()),
        ("footerEndOffset", pa.int64()),
        ("hasFooterOffsets", pa.bool_()),
        ("hotcacheStartOffset", pa.int64()),
        ("hotcacheLength", pa.int64()),
        ("timeRangeStart", pa.string()),
        ("timeRangeEnd", pa.string()),
        ("splitTags", _STRINGS),
        ("deleteOpstamp", pa.int64()),
        ("numMergeOps", pa.int64()),
        ("docMappingJson", pa.string()),
        ("uncompressedSizeBytes", pa.int64()),
        ("docMappingRef", pa.string()),
        ("companionSourceFiles", _STRINGS),
        ("companionDeltaVersion", pa.int64()),
        ("companionFastFieldMode", pa.string()),
    ]
)
# Removed splits have neither statistics nor vectors nor row ids.
INDEX_REMOVE_SCHEMA = pa.schema([f for f in REMOVE_SCHEMA if f.name in IndexRemove.__struct_encode_fields__])


def _skip_of(line: Line) -> Skip | None:
    assert isinstance(line, IndexLine)
    return line.skip if line.skip is not None else line.mergeskip


INDEX_FORM = Form(
    msgspec.json.Decoder(IndexLine).decode,
    IndexAdd,
    IndexRemove,
    INDEX_ADD_SCHEMA,
    INDEX_REMOVE_SCHEMA,
    ("path",),
    ("partitionValues", "stats", "minValues", "maxValues", "numRecords"),
    _skip_of,
)


def told_by(actions: CommitActions) -> dict[str, Any]:
    """What a commit without a commitInfo did, as far as its actions tell; for the history."""
    adds, removes = (sum(b.num_rows for b in batches) for batches in (actions.adds, actions.removes))
    files = [*actions.adds, *actions.removes]
    changes = any(pc.any(b.column("dataChange")).as_py() for b in files)
    operation, parameters = None, {}
    if files and not changes:
        operation = "MERGE SPLITS" if removes else "WRITE"
    elif adds:
        operation, parameters = "WRITE", {"mode": "Overwrite" if removes else "Append"}
    elif removes:
        operation = "DELETE"
    elif actions.skips:
        operation = "SKIP"
    elif actions.metadatas:
        operation = "CREATE TABLE" if actions.protocols else "SET METADATA"
    elif actions.protocols:
        operation = "UPGRADE PROTOCOL"
    counts = {"numAddedFiles": adds, "numRemovedFiles": removes, "numSkippedFiles": len(actions.skips)}
    metrics = {name: str(n) for name, n in counts.items() if n}
    return {"operation": operation, "operationParameters": parameters, "operationMetrics": metrics}


# ---------------------------------------------------------------------------- the envelope

_MAGIC = 0x01
_GZIP = 0x01
_LEVEL = 6


def unwrapped(data: bytes, name: str) -> bytes:
    """The text of a log file, which may be compressed behind a prefix."""
    if not data or data[0] != _MAGIC:
        return data
    if len(data) < 3 or data[1] != _GZIP:
        codec = f"the codec {data[1]:#04x}" if len(data) > 1 else "no codec"
        raise CommitCorruptError(
            f"The file is marked as compressed, with {codec}; only gzip (0x01) is known.",
            file=name,
            hint="Restore the file from a backup, or look for a newer release of Tidegate.",
        )
    try:
        return gzip.decompress(data[2:])
    except (OSError, EOFError, zlib.error) as e:
        raise CommitCorruptError(
            f"The compressed file cannot be unpacked: {e}.", file=name, hint="Restore it from a backup."
        ) from e


def wrapped(data: bytes) -> bytes:
    """The compressed form of a log file."""
    # Without a time of its own, equal texts have equal bytes.
    return bytes((_MAGIC, _GZIP)) + gzip.compress(data, _LEVEL, mtime=0)


def decode_index_commit(data: bytes, name: str) -> CommitActions:
    """Decode the bytes of a commit, or of one file of a JSON checkpoint."""
    return decode_commit(unwrapped(data, name), name, INDEX_FORM)
