"""Keeping the log of an index table: checkpoints, truncation, purging, repair.

What goes is what no version that can still be read needs: a split is kept as long as any log file that is
kept names it, and as long as it is younger than the retention, for it may belong to a write under way.
Deletion is in the engine's order, so that a purge that is cut off leaves a table that can be read, and
the next one finishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import FileMissingError, OptionError, TableExistsError, TidegateError
from tidegate.files.paths import decode_path, encode_path, resolve_path
from tidegate.index import hooks
from tidegate.index.transaction import IndexTransaction
from tidegate.log.checkpoint.json_read import JsonCheckpointReader
from tidegate.log.names import Kind
from tidegate.log.retention import clean_up, plan_cleanup
from tidegate.log.segment import Checkpoint
from tidegate.log.table_log import TableLog
from tidegate.protocol import indextables
from tidegate.storage.store import FileInfo
from tidegate.transaction.pending import Operation

if TYPE_CHECKING:
    from tidegate.index.log import IndexLog

_log = logging.getLogger(__name__)
_HOUR = 3_600_000
_LEAST_HOURS = 24
_FOREVER = 2**62
_SUFFIXES = (".split", ".crc")


def _milliseconds(hours: float) -> int:
    """A retention in hours, not longer than clocks can count."""
    return int(min(hours * _HOUR, _FOREVER))


@dataclass(frozen=True)
class CheckpointDone:
    """A checkpoint that was written."""

    version: int
    num_actions: int
    num_files: int
    protocol_version: int
    is_multi_part: bool
    files: tuple[str, ...]


@dataclass(frozen=True)
class Truncated:
    """What truncation took away, or would."""

    version: int
    versions_deleted: int
    checkpoints_deleted: int
    files_preserved: int
    dry_run: bool


@dataclass(frozen=True)
class Purged:
    """What a purge took away, or would. ``paths`` are below the table."""

    paths: tuple[str, ...]
    size_in_bytes: int
    log_files: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True)
class Repaired:
    """A log that was written anew from what is there of another."""

    source_version: int
    total_splits: int
    valid_splits: int
    missing: tuple[str, ...]


# ---------------------------------------------------------------------------- checkpoints and history


def checkpoint(table: IndexLog) -> CheckpointDone:
    """Write a checkpoint of the latest version."""
    current = table.snapshot()
    table.check_writable(current)
    snapshot, written = hooks.write(current.base, table.settings)
    hint = written.hint
    return CheckpointDone(
        snapshot.version,
        hint.size,
        hint.num_files or 0,
        snapshot.protocol.min_reader_version,
        hint.checkpoint_id is not None,
        tuple(f.name.text for f in written.checkpoint.files),
    )


def truncate_history(table: IndexLog, *, dry_run: bool) -> Truncated:
    """Begin the log at the latest version: whatever only older versions need goes."""
    current = table.snapshot()
    table.check_writable(current)
    snapshot = current.base
    if dry_run:
        listing = table.log.listing(0, snapshot.version)
        start = snapshot.version
        old = [c for c in listing.checkpoints if c.version < start]
        commits = sum(1 for v in listing.commits if v < start)
        return Truncated(start, commits, len(old), current.num_files, True)
    if snapshot.segment.base_version != snapshot.version:
        snapshot, _ = hooks.write(snapshot, table.settings)
    before = [c.version for c in table.log.listing(0, snapshot.version).checkpoints]
    gone = clean_up(snapshot, before=_FOREVER)
    commits = 0 if gone is None else len(gone.commits)
    checkpoints = 0 if gone is None else sum(1 for v in before if v < gone.start)
    return Truncated(snapshot.version, commits, checkpoints, snapshot.num_files, False)


# ---------------------------------------------------------------------------- purging


def purge(
    table: IndexLog, *, retention_hours: float | None, log_retention_hours: float | None, dry_run: bool
) -> Purged:
    """Delete expired log files, then splits that nothing names and that are older than the retention."""
    settings = table.settings
    keep = settings.split_retention if retention_hours is None else _milliseconds(retention_hours)
    keep_log = settings.log_retention if log_retention_hours is None else _milliseconds(log_retention_hours)
    if settings.retention_check and keep < _LEAST_HOURS * _HOUR:
        raise OptionError(
            f"A retention of {keep / _HOUR:g} hours is below {_LEAST_HOURS}: splits that are being written "
            "or read could be deleted.",
            hint="Set spark.indextables.purge.retentionCheckEnabled to false if you are sure.",
        )
    current = table.snapshot()
    table.check_writable(current)
    log, now = table.log, table.log.clock()
    planned = plan_cleanup(current.base, now - keep_log)
    expired = set() if planned is None else set(planned.names)
    kept = referenced(log, ignoring=frozenset(expired), gone_since=now - keep)
    orphans = [f for f in _candidates(log) if f.modified <= now - keep and f.name not in kept]
    log_files = [*sorted(expired), *_orphan_parts(log, now - max(keep, _HOUR))]
    size = sum(f.size for f in orphans)
    if not dry_run:
        # The log goes first: no version that can be opened ever names a split that a purge took.
        clean_up(current.base, before=now - keep_log)
        log.store.delete([f.name for f in orphans])
        log.store.delete([name for name in log_files if name not in expired])
    _log.info("%s: purge %s %d splits", log.url, "would delete" if dry_run else "deleted", len(orphans))
    return Purged(tuple(f.name for f in orphans), size, tuple(log_files), dry_run)


def referenced(log: TableLog, *, ignoring: frozenset[str] = frozenset(), gone_since: int = 0) -> set[str]:
    """The names below the table that any file of the log speaks of, other than those in ``ignoring``.

    Removed splits count while their tombstone is younger than ``gone_since``: somebody may be reading them.
    """
    names: set[str] = set()
    listing = log.listing()
    for version in sorted(listing.commits):
        info = listing.commits[version].info
        if info.name in ignoring:
            continue
        try:
            actions = log.dialect.decode(log.store.get(info.name), info.name.rsplit("/", 1)[-1])
        except FileMissingError:
            continue
        for batch in actions.adds:
            names |= _names(batch.column("path"), log.url)
        for batch in actions.removes:
            recent = pc.greater_equal(pc.fill_null(batch.column("deletionTimestamp"), 0), gone_since)
            names |= _names(batch.column("path").filter(recent), log.url)
    for checkpoint in listing.checkpoints:
        if checkpoint.key not in ignoring:
            names |= _checkpoint_names(log, checkpoint)
    return names


def _checkpoint_names(log: TableLog, checkpoint: Checkpoint) -> set[str]:
    reader = log.reader(checkpoint)
    out: set[str] = set()
    try:
        for batch in reader.batches("add", ["path"], lambda b: [b]):
            out |= _names(batch.column("path"), log.url)
    except FileMissingError:
        return out
    return out


def _names(paths: pa.Array, url: str) -> set[str]:
    """Paths as names below the table, in every spelling that could mean one."""
    out: set[str] = set()
    for path in paths.to_pylist():
        for text in (path, decode_path(path)):
            if text.startswith(f"{url.rstrip('/')}/"):
                text = text[len(url.rstrip("/")) + 1 :]
            out.add(text.removeprefix("file://").removeprefix("./"))
            try:
                out.add(resolve_path(text).name)
            except TidegateError:
                continue
    return out


def _candidates(log: TableLog) -> Iterator[FileInfo]:
    """Files below the table that a purge may look at: splits, not the log, nothing hidden."""
    for info in log.store.list_from("", recursive=True):
        if info.name.startswith(f"{log.log_dir}/") or not info.name.endswith(_SUFFIXES):
            continue
        if not any(part.startswith((".", "_delta_log")) for part in info.name.split("/")):
            yield info


def _orphan_parts(log: TableLog, before: int) -> list[str]:
    """Parts that no manifest names: their writer lost the race, or was cut off."""
    listing = log.listing()
    strays = [f for f in listing.stray_parts if f.info.modified <= before]
    if not strays:
        return []
    named: set[str] = set()
    for checkpoint in listing.checkpoints:
        reader = log.reader(checkpoint)
        if checkpoint.kind is not Kind.JSON or not isinstance(reader, JsonCheckpointReader):
            continue
        try:
            manifest = reader.manifest
        except TidegateError:
            # What cannot be read may name any of them.
            return []
        named |= set(manifest.parts if manifest is not None else ())
    return [f.info.name for f in strays if f.name.text not in named]


# ---------------------------------------------------------------------------- repair


def repair(source: IndexLog, target: IndexLog) -> Repaired:
    """Write version 0 of ``target``'s log: the metadata of ``source``, and its splits that are there."""
    snapshot = source.snapshot().base
    if next(iter(target.log.store.list_from(target.log.log_dir)), None) is not None:
        raise TableExistsError(
            "A log is repaired into an empty place, and there is one already.", table=target.url
        )
    files = snapshot.files()
    there = {i.name for i in _candidates(source.log)}
    mask = pa.array([_is_there(path, source.url, there) for path in files.column("path").to_pylist()])
    valid = files.filter(mask) if files.num_rows else files
    missing = files.filter(pc.invert(mask)).column("path").to_pylist() if files.num_rows else []
    if target.url != source.url and valid.num_rows:
        # The splits stay where they are: a log elsewhere must say where that is.
        at = valid.schema.get_field_index("path")
        whole = [_whole(path, source.url) for path in valid.column("path").to_pylist()]
        valid = valid.set_column(at, valid.schema.field(at), pa.array(whole, pa.string()))
    txn = IndexTransaction(target.log, None, rules=target.settings.rules)
    txn.update_protocol(indextables.raised(indextables.NEW_TABLE, snapshot.protocol))
    txn.update_metadata(snapshot.metadata)
    txn.commit((), Operation("REPAIR"), adds=valid)
    return Repaired(snapshot.version, files.num_rows, valid.num_rows, tuple(missing))


def _whole(path: str, url: str) -> str:
    """A path of the log as one that means the same in any log."""
    if path.startswith("/") or "://" in path:
        return path
    scheme, mark, rest = url.rpartition("://")
    return f"{scheme}{mark}{encode_path(rest.rstrip('/'))}/{path}"


def _is_there(path: str, url: str, names: set[str]) -> bool:
    """Whether a split is below the table; one elsewhere is taken at the log's word."""
    found = _names(pa.array([path]), url)
    return bool(found & names) or ("://" in path and not path.startswith(url))
