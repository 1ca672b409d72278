"""Checkpoints: whole, and equal to the replay of the commits up to their version.

Every column of every part is read, sidecars are there with their recorded sizes, and the hint that
points at a checkpoint is told off if it points wrongly, though no reader trusts it.
Specification: "Checkpoints", "V2 Spec", "Sidecar Files", "Last Checkpoint File".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from tidegate import properties
from tidegate.errors import FileMissingError, StorageError, TidegateError
from tidegate.log import names
from tidegate.log.checkpoint import hint as hints
from tidegate.log.checkpoint.json_read import checksum as checkpoint_checksum
from tidegate.log.checkpoint.read import CheckpointReader
from tidegate.log.dialect import Reader
from tidegate.log.segment import Checkpoint, Listing
from tidegate.log.table_log import TableLog
from tidegate.log.verify import compare
from tidegate.log.verify.report import Findings
from tidegate.log.verify.state import Contents, State

LAST_CHECKPOINT = names.LAST_CHECKPOINT


class Checkpoints:
    """Reads checkpoints and says what is wrong with them."""

    def __init__(self, log: TableLog, found: Findings) -> None:
        self._log = log
        self._found = found
        self._sidecars: dict[str, int] | None = None
        # How many live files each checkpoint that could be read has, for the hint.
        self.sizes: dict[str, int] = {}
        self._with_sidecars: set[str] = set()

    def read(self, checkpoint: Checkpoint) -> Contents | None:
        """All of a checkpoint, or None where it cannot be read, which is a finding."""
        name = checkpoint.files[0].name.text
        reader = self._log.reader(checkpoint)
        try:
            whole = self._check_sidecars(reader, checkpoint)
            contents = Contents.read(reader) if whole else None
        except FileMissingError as e:
            self._found.warning(
                "CHECKPOINT_INCOMPLETE",
                "The checkpoint was removed while it was being read; log retention may be at work.",
                checkpoint.version,
                e.file or name,
            )
            return None
        except StorageError:
            raise
        except TidegateError as e:
            self._found.raised(e, checkpoint.version, name)
            return None
        if contents is None:
            return None
        self.sizes[checkpoint.key] = sum(b.num_rows for b in contents.files)
        for message in self._incomplete(reader, contents):
            self._found.error("CHECKPOINT_CORRUPT", message, checkpoint.version, name)
        return contents

    def has_sidecars(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint that was read keeps its files in sidecars, whatever its name says."""
        return checkpoint.key in self._with_sidecars

    def _check_sidecars(self, reader: Reader, checkpoint: Checkpoint) -> bool:
        """Whether every sidecar is there; the sizes that the checkpoint records are compared too."""
        whole = True
        if reader.sidecars:
            self._with_sidecars.add(checkpoint.key)
        for sidecar in reader.sidecars:
            bare = unquote(sidecar.path).rsplit("/", 1)[-1]
            size = self._sidecar_sizes().get(bare)
            if size is None:
                whole = False
                self._found.error(
                    "SIDECAR_MISSING",
                    f"The checkpoint refers to the sidecar {bare}, which is not there.",
                    checkpoint.version,
                    checkpoint.files[0].name.text,
                )
            elif size != sidecar.size_in_bytes:
                self._found.error(
                    "SIDECAR_SIZE",
                    f"The sidecar {bare} has {size} bytes, the checkpoint says {sidecar.size_in_bytes}.",
                    checkpoint.version,
                    f"{names.SIDECAR_DIR}/{bare}",
                )
        return whole

    def _sidecar_sizes(self) -> dict[str, int]:
        if self._sidecars is None:
            listing = self._log.store.list_from(self._log.path(names.SIDECAR_DIR))
            self._sidecars = {f.name.rsplit("/", 1)[-1]: f.size for f in listing}
        return self._sidecars

    def _incomplete(self, reader: Reader, contents: Contents) -> Iterator[str]:
        first = reader.checkpoint_metadata if isinstance(reader, CheckpointReader) else None
        if first is not None and first.version != contents.version:
            yield f"The checkpoint says that it is of version {first.version}, its name says another."
        for what, value in (("protocol", contents.small.protocol), ("metadata", contents.small.metadata)):
            if value is None and not (what == "protocol" and self._log.dialect.unspoken is not None):
                yield f"The checkpoint holds no {what}, so it cannot stand for the commits before it."

    def compare(self, checkpoint: Checkpoint, contents: Contents, state: State) -> None:
        """Hold a checkpoint against the replay of the commits to its version."""
        name = checkpoint.files[0].name.text
        for difference in self._differences(contents, state):
            self._found.error(
                "CHECKPOINT_MISMATCH",
                f"The checkpoint is not what the commits make: {difference}.",
                checkpoint.version,
                name,
            )
        strange = compare.strange_tombstones(state.tombstones, state.files, contents.tombstones)
        if strange is not None:
            message = f"The checkpoint remembers too much: {strange}."
            self._found.warning("CHECKPOINT_MISMATCH", message, checkpoint.version, name)

    def _differences(self, contents: Contents, state: State) -> Iterator[str]:
        now = self._log.clock()
        yield from compare.small_differences(state.small, contents.small, now)
        partitions = compare.partition_names(state.small.metadata)
        yield from compare.file_differences(state.files, contents.files, partitions)
        if not self._log.dialect.tombstones:
            return
        # What has not expired now had not when the checkpoint was written. Retention may have been
        # another then, which is why only the version's own property counts.
        keep = properties.DELETED_FILE_RETENTION.default
        if state.small.metadata is not None:
            keep = compare.property_of(state.small.metadata, properties.DELETED_FILE_RETENTION)
        yield from compare.tombstone_differences(
            state.tombstones, contents.tombstones, contents.files, now - keep
        )


# ---------------------------------------------------------------------------- the listing and the hint


def check_parts(listing: Listing, target: int, found: Findings) -> None:
    """Multipart checkpoints with parts missing. Readers pass them by, as they do a writer's that died."""
    complete = {c.version for c in listing.checkpoints}
    for version, parts in sorted(listing.incomplete.items()):
        if version <= target:
            found.warning(
                "CHECKPOINT_INCOMPLETE",
                f"The checkpoint of version {version} lacks some of its {parts} parts; readers pass it by"
                + (" and have another one of this version." if version in complete else "."),
                version,
                f"{names.prefix(version)}.checkpoint.*.{parts:010d}.parquet",
            )


def check_hint(log: TableLog, listing: Listing, sizes: Mapping[str, int], found: Findings) -> None:
    """``_last_checkpoint``: torn, stale or pointing nowhere is a warning, for it is only a hint."""
    try:
        data = log.store.get(log.path(LAST_CHECKPOINT))
    except FileMissingError:
        return
    for message in _hint_problems(log, data, listing, sizes):
        found.warning("LAST_CHECKPOINT", message, None, LAST_CHECKPOINT)


def _hint_problems(log: TableLog, data: bytes, listing: Listing, sizes: Mapping[str, int]) -> Iterator[str]:
    try:
        value: Any = msgspec.json.decode(data)
        hint = msgspec.convert(value, hints.Hint)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        yield f"The hint cannot be read and is ignored: {e}."
        return
    named = [c for c in listing.checkpoints if c.version == hint.version]
    if log.dialect.form.skip is not None:
        if hint.checksum is not None and named and _checksum_of(log, named[0]) != hint.checksum:
            yield "The checkpoint's bytes do not match the hint's checksum; the log is replayed without it."
    elif hint.checksum is not None and hint.checksum != hints.checksum(value):
        yield "The hint does not match its own checksum and is ignored."
        return
    if not named:
        yield f"The hint points at version {hint.version}, which has no complete checkpoint."
        return
    newest = max(c.version for c in listing.checkpoints)
    if hint.version < newest:
        yield f"The hint is stale: it points at version {hint.version}, a checkpoint of {newest} is there."
    path = (hint.v2_checkpoint or {}).get("path")
    if isinstance(path, str):
        bare = path.rsplit("/", 1)[-1]
        if bare not in {c.files[0].name.text for c in named}:
            yield f"The hint names the checkpoint {bare}, which is not there."
    if (
        log.dialect.form.skip is None
        and hint.parts is not None
        and hint.parts not in {len(c.files) for c in named}
    ):
        yield f"The hint speaks of {hint.parts} parts, no checkpoint of version {hint.version} has as many."
    counted = {sizes[c.key] for c in named if c.key in sizes}
    if hint.num_of_add_files is not None and counted and hint.num_of_add_files not in counted:
        yield f"The hint speaks of {hint.num_of_add_files} files, the checkpoint has {min(counted)}."


def _checksum_of(log: TableLog, checkpoint: Checkpoint) -> str | None:
    try:
        return checkpoint_checksum(log.store.get(checkpoint.key))
    except FileMissingError:
        return None
