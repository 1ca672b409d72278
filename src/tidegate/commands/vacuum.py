"""VACUUM: delete the files that no version within the retention needs. No Spark is needed.

Kept are: live files, files removed within the retention, the deletion vectors and change files of
both, and whatever is younger than the retention, which a writer may be about to commit. What is
kept is decided first, from the log; everything else below the table may go. ``full`` lists the
storage, ``lite`` takes its candidates from the commits since the last VACUUM. On a disk, folders that
stood empty for the retention go too: those that an earlier VACUUM emptied.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.commands.table_names import below, vector_names
from tidegate.commands.vacuum_listing import (
    FILES,
    THREADS,
    Found,
    Lister,
    from_inventory,
    idle_folders,
    listed,
    real_names,
    without_linked,
)
from tidegate.errors import (
    CatalogManagedError,
    FileMissingError,
    MaintenanceRefusedError,
    OptionError,
    RetentionTooShortError,
    TidegateError,
)
from tidegate.log.commits import CommitActions
from tidegate.log.history import in_commit_era, in_commit_timestamp, modification_times
from tidegate.log.segment import LogFile, list_log
from tidegate.log.snapshot import Snapshot, load, read_commits
from tidegate.log.table_log import TableLog
from tidegate.storage.local import LocalStore
from tidegate.storage.store import Store
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Transaction

_log = logging.getLogger(__name__)
LAST_VACUUM = "_last_vacuum_info"
_HOUR = 3_600_000
_DAY = 24 * _HOUR
_CHUNK = 1_000
# Beyond all times, and with room for a time and some slack in 64 bits: nothing is as old.
_LONGEST = 2**62

Hours = float | Real | Decimal
Mode = Literal["full", "lite"]
Progress = Callable[[str, int, int | None], None]
# Deletes names below a table's root, and tells how far it came.
Deleter = Callable[[TableLog, pa.Array, Progress], None]


@dataclass(frozen=True)
class Vacuumed:
    """What a VACUUM deleted, or would delete: names below the table, in order, and their bytes."""

    names: pa.Array
    size: int
    retention_ms: int
    dry_run: bool
    versions: tuple[int, ...] = ()
    # On a disk: folders that were empty before, and are not counted among the files.
    folders: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.names)


class _LastVacuum(msgspec.Struct, rename="camel"):
    latest_commit_version_outside_of_retention_window: int | None = None


@dataclass
class _Guard:
    """What may not go: names below the table, gathered from actions as they come."""

    root: str
    store: Store
    names: list[pa.Array] = field(default_factory=list)
    vectors: set[str] = field(default_factory=set)

    def keep(self, files: pa.Table | pa.RecordBatch) -> None:
        """The data files and the deletion vectors of some actions."""
        batches = files.to_batches() if isinstance(files, pa.Table) else [files]
        for batch in batches:
            self.names.append(below(self.root, batch.column("path")))
            if "deletionVector" in batch.schema.names:
                self.vectors |= vector_names(self.root, batch.column("deletionVector"))

    def array(self) -> pa.Array:
        parts = [*self.names, pa.array(sorted(self.vectors), pa.string())]
        names = pa.concat_arrays([p.cast(pa.string()) for p in parts])
        return pa.concat_arrays([names, real_names(self.store, names)])


# ---------------------------------------------------------------------------- the command


def vacuum(
    log: TableLog,
    retention_hours: Hours | None = None,
    *,
    mode: Mode = "full",
    dry_run: bool = False,
    inventory: pa.Table | None = None,
    check_retention: bool = True,
    log_commits: bool = True,
    lister: Lister | None = None,
    delete: Deleter | None = None,
    progress: Progress | None = None,
) -> Vacuumed:
    """Delete what no version of the last ``retention_hours`` needs; by default the table's own retention.

    ``inventory`` replaces the listing: columns ``path``, ``length``, ``isDir``, ``modificationTime``
    (milliseconds). ``lister`` and ``delete`` list and delete where something else than threads of this
    process is to.
    """
    snapshot = load(log)
    _check_protocol(snapshot)
    retention = _retention(snapshot, retention_hours, check_retention)
    if mode not in ("full", "lite"):
        raise OptionError(f"There is no VACUUM mode {mode!r}; the modes are full and lite.")
    if mode == "lite" and inventory is not None:
        raise OptionError("VACUUM LITE takes its candidates from the log; an inventory goes with full.")
    report = progress or _nothing
    cutoff = log.clock() - retention
    guard = protected(snapshot, cutoff)
    report("listing", 0, None)
    if mode == "lite":
        files, last = _from_log(snapshot, cutoff)
        found = Found(files)
    else:
        found = listed(snapshot, lister) if inventory is None else from_inventory(snapshot, inventory)
        last = _latest_outside(snapshot, cutoff)
    going = found.files.filter(pc.less(found.files.column("modified"), cutoff))
    going = going.filter(pc.invert(pc.is_in(going.column("name"), value_set=guard.array())))
    going = _without_recent_changes(snapshot, going, cutoff, min(retention, _DAY))
    size = int(pc.sum(going.column("size")).as_py() or 0)
    names = going.column("name").combine_chunks() if going.num_rows else pa.array([], pa.string())
    folders = idle_folders(found, cutoff)
    if dry_run:
        return Vacuumed(names, size, retention, True, folders=tuple(folders))
    versions = []
    if log_commits:
        metrics = {"numFilesToDelete": len(names) + len(folders), "sizeOfDataToDelete": size}
        versions.append(_note_start(snapshot, metrics, retention, retention_hours, check_retention))
    names = _still_unneeded(snapshot, names, cutoff, own=len(versions))
    try:
        (delete or delete_here)(log, names, report)
        folders = _without(log, folders)
    except BaseException:
        # What went wrong is the answer, also where not even this can be written down.
        with suppress(TidegateError):
            if log_commits:
                _note_end(log, "FAILED", {})
        raise
    if log_commits:
        metrics = {"numDeletedFiles": len(names) + len(folders), "numVacuumedDirectories": found.folders}
        versions.append(_note_end(log, "COMPLETED", metrics))
    if last is not None:
        text = msgspec.json.encode(_LastVacuum(last))
        log.store.put(log.path(LAST_VACUUM), text)
    _log.info("%s: VACUUM deleted %d files, %d bytes", log.url, len(names), size)
    return Vacuumed(names, size, retention, False, tuple(versions), tuple(folders))


def _nothing(what: str, done: int, total: int | None) -> None:
    return None


def _check_protocol(snapshot: Snapshot) -> None:
    """Who may not write a table may not delete its files either."""
    for name in ("catalogManaged", "catalogOwned-preview"):
        if snapshot.protocol.supports(name):
            raise CatalogManagedError(
                "The table's catalog decides which versions there are; it is not vacuumed from outside.",
                table=snapshot.url,
                errorClass="DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION",
            )
    snapshot.log.registry.check_write(snapshot.protocol, table=snapshot.url, version=snapshot.version)


def _retention(snapshot: Snapshot, asked: Hours | None, check: bool) -> int:
    configured = snapshot.metadata.property(properties.DELETED_FILE_RETENTION)
    if asked is None:
        return configured
    hours = _hours(asked)
    if hours is None:
        raise RetentionTooShortError(
            f"The retention is {asked!r} hours; it is a number from 0 on.", table=snapshot.url
        )
    retention = int(min(hours * _HOUR, _LONGEST))
    if check and retention < configured:
        raise RetentionTooShortError(
            f"{hours:g} hours are shorter than the table's own retention of {configured / _HOUR:g} hours: "
            "readers of older versions and writers at work could lose their files.",
            table=snapshot.url,
            hint="If you are certain that there are none, switch the check off: "
            "spark.databricks.delta.retentionDurationCheck.enabled = false, or --no-check.",
        )
    return retention


def _hours(asked: Any) -> float | None:
    """A number of hours from 0 on, however it is given; None if it is none."""
    if isinstance(asked, bool) or not isinstance(asked, Real | Decimal):
        return None
    try:
        hours = float(asked)
    except OverflowError:
        hours = math.inf
    except ValueError:
        return None  # a NaN that may not be asked for
    return None if math.isnan(hours) or asked < 0 else hours


# ---------------------------------------------------------------------------- what is kept


def protected(snapshot: Snapshot, cutoff: int) -> _Guard:
    """What versions younger than ``cutoff`` need, and the one that was current then."""
    guard = _Guard(snapshot.url, snapshot.log.store)
    guard.keep(snapshot.files(columns=["path", "deletionVector"]))
    tombstones = snapshot.tombstones(expired=True)
    times = pc.fill_null(tombstones.column("deletionTimestamp"), 0)
    guard.keep(tombstones.filter(pc.greater_equal(times, cutoff)).select(["path", "deletionVector"]))
    if cutoff < snapshot.tombstone_horizon():
        # A longer retention than the table's: checkpoints have dropped tombstones that still count.
        for _, actions in _commits_since(snapshot, cutoff):
            for batch in actions.removes:
                times = pc.fill_null(batch.column("deletionTimestamp"), 0)
                young = batch.filter(pc.greater_equal(times, cutoff))
                guard.keep(young.select(["path", "deletionVector"]))
    return guard


def _still_unneeded(snapshot: Snapshot, names: pa.Array, cutoff: int, *, own: int) -> pa.Array:
    """Without what a RESTORE has brought back since ``snapshot``; ``own`` commits since are this VACUUM's.

    A RESTORE from here on sees the START (``under_way``).
    """
    latest = snapshot.update()
    if latest.version == snapshot.version + own:
        return names
    return names.filter(pc.invert(pc.is_in(names, value_set=protected(latest, cutoff).array())))


def _without_recent_changes(snapshot: Snapshot, going: pa.Table, cutoff: int, slack: int) -> pa.Table:
    """Change files are in no snapshot: those of commits within the retention are kept by name."""
    changes = pc.match_substring_regex(going.column("name"), r"(?:^|/)cdc-|^_change_data/")
    if not pc.any(changes).as_py():
        return going
    kept: list[pa.Array] = []
    for _, actions in _commits_since(snapshot, cutoff, slack):
        kept += [below(snapshot.url, b.column("path")) for b in actions.cdcs]
    if not kept:
        return going
    names = pa.concat_arrays(kept)
    names = pa.concat_arrays([names, real_names(snapshot.log.store, names)])
    return going.filter(pc.invert(pc.is_in(going.column("name"), value_set=names)))


def _commits_since(
    snapshot: Snapshot, moment: int, slack: int = _DAY
) -> Iterator[tuple[LogFile, CommitActions]]:
    """The commits of a time and later, with some slack, since clocks differ."""
    log = snapshot.log
    listing = list_log(log.store, log.log_dir, 0, snapshot.version)
    for version in sorted(listing.commits):
        if listing.commits[version].info.modified >= moment - slack:
            yield from read_commits(log, version, limit=1)


# ---------------------------------------------------------------------------- candidates


def _latest_outside(snapshot: Snapshot, cutoff: int) -> int | None:
    """The newest version that was committed before ``cutoff``."""
    log = snapshot.log
    listing = list_log(log.store, log.log_dir, 0, snapshot.version)
    commits = [listing.commits[v] for v in sorted(listing.commits)]
    times = modification_times(commits)
    era = in_commit_era(snapshot)
    last = None
    for found in commits:
        version = found.name.version
        moment = times[version]
        if era is not None and version >= era.version:
            moment = in_commit_timestamp(log, found)
        if moment >= cutoff:
            break
        last = version
    return last


def _from_log(snapshot: Snapshot, cutoff: int) -> tuple[pa.Table, int | None]:
    """What the commits since the last VACUUM took out of the table, and how far that goes."""
    log = snapshot.log
    start = _last_vacuum(log)
    last = _latest_outside(snapshot, cutoff)
    listing = list_log(log.store, log.log_dir, 0, snapshot.version)
    first = min(listing.commits, default=0)
    begin = 0 if start is None else start + 1
    if last is None or begin > last:
        return FILES.empty_table(), last if last is not None else start
    if first > begin:
        raise MaintenanceRefusedError(
            f"VACUUM LITE needs the commits from version {begin} on, and the log begins at {first}.",
            table=snapshot.url,
            hint="Run a full VACUUM once; LITE goes on from there.",
            errorClass="DELTA_CANNOT_VACUUM_LITE",
        )
    names: set[str] = set()
    for version in range(begin, last + 1):
        for _, actions in read_commits(log, version, limit=1):
            for batch in actions.removes:
                names.update(below(log.url, batch.column("path")).to_pylist())
                names |= vector_names(log.url, batch.column("deletionVector"))
            for batch in actions.cdcs:
                names.update(below(log.url, batch.column("path")).to_pylist())
    inside = sorted(n for n in names if not n.startswith("/") and "://" not in n)
    return without_linked(log.store, _headed(log, inside)), last


def _headed(log: TableLog, names: Sequence[str]) -> pa.Table:
    """The names that are there, with their sizes and times."""

    def head(name: str) -> tuple[str, int, int] | None:
        try:
            info = log.store.head(name)
        except FileMissingError:
            return None
        return name, info.size, info.modified

    with ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-vacuum") as pool:
        rows = [r for r in pool.map(head, names) if r is not None]
    columns: list[Any] = [list(c) for c in zip(*rows, strict=True)] if rows else [[], [], []]
    return pa.table(columns, schema=FILES)


def _last_vacuum(log: TableLog) -> int | None:
    try:
        text = log.store.get(log.path(LAST_VACUUM))
        said = msgspec.json.decode(text, type=_LastVacuum)
        return said.latest_commit_version_outside_of_retention_window
    except (FileMissingError, msgspec.DecodeError):
        return None


# ---------------------------------------------------------------------------- deleting


def delete_here(log: TableLog, names: pa.Array, report: Progress) -> None:
    """Delete in chunks, side by side in threads; the store takes Hadoop's checksum files along."""
    total = len(names)
    chunks = [names.slice(at, _CHUNK) for at in range(0, total, _CHUNK)]
    done = 0

    def one(chunk: pa.Array) -> int:
        log.store.delete(chunk.to_pylist())
        return len(chunk)

    with ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-vacuum") as pool:
        for count in pool.map(one, chunks):
            done += count
            report("deleting", done, total)


def _without(log: TableLog, folders: Sequence[str]) -> list[str]:
    """Remove folders of a disk; those that were empty still."""
    return log.store.remove_folders(folders) if isinstance(log.store, LocalStore) else []


def _note_start(
    snapshot: Snapshot, metrics: Mapping[str, int], retention: int, hours: Hours | None, check: bool
) -> int:
    parameters: dict[str, Any] = {"retentionCheckEnabled": check}
    if hours is not None:
        parameters["specifiedRetentionMillis"] = retention
    parameters["defaultRetentionMillis"] = snapshot.metadata.property(properties.DELETED_FILE_RETENTION)
    transaction = Transaction(snapshot.log, snapshot)
    return transaction.commit(operation=Operation("VACUUM START", parameters), metrics=metrics).version


def _note_end(log: TableLog, status: str, metrics: Mapping[str, int]) -> int:
    transaction = Transaction.begin(log)
    operation = Operation("VACUUM END", {"status": status})
    return transaction.commit(operation=operation, metrics=metrics).version
