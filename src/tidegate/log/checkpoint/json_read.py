"""Reading the JSON checkpoints of index tables: one file of lines, or a manifest that names its parts.

Each file is read and checked at most once: against the checksum in ``_last_checkpoint`` for the file the
hint speaks of, against the manifest's for its parts. What does not match, is missing or cannot be decoded
is a corrupt or incomplete checkpoint, and the log is replayed without it. Part 1 holds the small state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar

import msgspec
import pyarrow as pa

from tidegate.errors import (
    CheckpointCorruptError,
    CheckpointIncompleteError,
    CommitCorruptError,
    FileMissingError,
)
from tidegate.log import names
from tidegate.log.actions import Sidecar, Skip
from tidegate.log.checkpoint.read import WORKERS, BatchFunction, ParquetPart, in_order
from tidegate.log.commits import CommitActions
from tidegate.log.index_actions import decode_index_commit, unwrapped
from tidegate.log.names import Kind
from tidegate.log.replay import SmallState, small_state
from tidegate.log.segment import Checkpoint
from tidegate.storage.store import Store

T = TypeVar("T")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What ``N.checkpoint.json`` holds where the checkpoint has parts."""

    version: int
    checkpoint_id: str
    parts: list[str]
    created_time: int | None = None
    format: str | None = None
    # Not written by others: the checksum of each part, in order.
    checksums: list[str] | None = None


def checksum(data: bytes) -> str:
    """The checksum of a checkpoint file's bytes, as they are stored."""
    return hashlib.sha256(data).hexdigest()


class JsonCheckpointReader:
    """The actions of one JSON checkpoint. ``expected`` is the hint's checksum, where it has one."""

    def __init__(self, store: Store, log_dir: str, checkpoint: Checkpoint, expected: str | None) -> None:
        self._store = store
        self._log_dir = log_dir
        self.checkpoint = checkpoint
        self._expected = expected
        self._decoded: dict[int, CommitActions] = {}
        self.has_parsed_stats = False
        self.sidecars: list[Sidecar] = []
        self.file_parts: list[ParquetPart] = []

    @cached_property
    def _text(self) -> bytes:
        found = self.checkpoint.files[0]
        data = self._store.get(found.info.name)
        _check(data, self._expected, found.name.text, "_last_checkpoint")
        return _corrupt(lambda: unwrapped(data, found.name.text), found.name.text)

    @cached_property
    def manifest(self) -> Manifest | None:
        """The manifest of a checkpoint in parts, None for one file of lines."""
        if b'"checkpointId"' not in self._text[:4096]:
            return None
        try:
            found = msgspec.json.decode(self._text, type=Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Lines of actions, one of which happens to speak of such a thing.
            return None
        name = self.checkpoint.files[0].name.text
        for part in found.parts:
            parsed = names.parse_index(part)
            if parsed is None or parsed.kind is not Kind.JSON_PART or parsed.version != found.version:
                raise CheckpointCorruptError(f"The manifest names {part!r}, which is no part.", file=name)
        if not found.parts or (found.checksums is not None and len(found.checksums) != len(found.parts)):
            raise CheckpointCorruptError("The manifest does not list its parts as it should.", file=name)
        return found

    @property
    def count(self) -> int:
        """How many files hold actions."""
        return 1 if self.manifest is None else len(self.manifest.parts)

    def part(self, index: int) -> CommitActions:
        """The actions of one file, read once."""
        found = self._decoded.get(index)
        if found is None:
            found = self._decoded[index] = self._read(index)
        return found

    def _read(self, index: int) -> CommitActions:
        manifest, top = self.manifest, self.checkpoint.files[0].name.text
        if manifest is None:
            return _corrupt(lambda: decode_index_commit(self._text, top), top)
        name = manifest.parts[index]
        try:
            data = self._store.get(f"{self._log_dir}/{name}")
        except FileMissingError as e:
            raise CheckpointIncompleteError(
                f"The checkpoint of version {manifest.version} has {len(manifest.parts)} parts, and {name} "
                "is not there.",
                file=top,
                hint="Restore the missing part, or the commits this checkpoint covers.",
            ) from e
        _check(data, manifest.checksums[index] if manifest.checksums else None, name, "the manifest")
        return _corrupt(lambda: decode_index_commit(data, name), name)

    @cached_property
    def small(self) -> SmallState:
        """Protocol, if there is one, and metadata."""
        state = small_state(self.part(0))
        for index in range(1, self.count):
            if state.metadata is not None:
                break
            state = state.over(small_state(self.part(index)))
        if state.metadata is None:
            raise CheckpointCorruptError(
                "The checkpoint holds no metaData, so it is not a whole one.",
                file=self.checkpoint.files[0].name.text,
            )
        return state

    @cached_property
    def skips(self) -> list[Skip]:
        """The skips, which stand with the small state in the first part, or wherever others put them."""
        return [skip for index in range(self.count) for skip in self.part(index).skips]

    def has_field(self, field: str) -> bool:
        """Whether the checkpoint has the field ``add.stats`` and the like: lines may have any."""
        return not field.startswith("add.stats_parsed")

    def batches(
        self, action: str, columns: Sequence[str], process: BatchFunction, *, workers: int = WORKERS
    ) -> Iterator[pa.RecordBatch]:
        """File actions as batches of ``columns``, through ``process``, in order."""
        _ = self.small

        def work(index: int) -> list[pa.RecordBatch]:
            actions = self.part(index)
            found = actions.adds if action == "add" else actions.removes
            return [
                out
                for batch in found
                for out in process(batch.select([c for c in columns if c in batch.schema.names]))
            ]

        yield from in_order(work, range(self.count), workers)


def _check(data: bytes, expected: str | None, name: str, who: str) -> None:
    if expected is not None and checksum(data) != expected:
        raise CheckpointCorruptError(
            f"The bytes of the checkpoint are not those that {who} speaks of.",
            file=name,
            hint="It was damaged, or replaced by a writer that was cut off.",
        )


def _corrupt(work: Callable[[], T], name: str) -> T:
    try:
        return work()
    except CommitCorruptError as e:
        raise CheckpointCorruptError(e.message, file=name) from e
