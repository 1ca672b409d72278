"""The log of an index table: everything that is done to it, without Spark and without a search engine.

Each operation checks the protocol first, is one commit or none, and returns the snapshot that it made::

    log = IndexLog.at("/data/logs", options={"spark.indextables.checkpoint.interval": "20"})
    log.create(schema_json, ["day"], {"owner": "ops"})          # writes nothing where there is a table
    log.append(adds)                                            # adds: an Arrow table of any add columns
    log.overwrite(adds); log.replace(old, new); log.remove(paths); log.drop_partitions("day < '2026-01-01'")
    log.skip(path, "Corrupted footer")                          # unreadable: leave it alone for a while
    snap = log.snapshot(); snap.files("level = 'ERROR'"); snap.schema; snap.protocol; snap.configuration
    log.checkpoint(); log.truncate_history(); log.purge(); log.describe(); log.upgrade_protocol(2, 2)

The columns of ``adds`` are ``INDEX_ADD_SCHEMA`` (required: path, partitionValues, size, modificationTime,
dataChange; partition values as text). Conflicts are the engine's: two merges of one split conflict, and a
merge does not bring back what was dropped. ``transaction()`` gives full control over what counts as read.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from typing import Any, TypeVar

import pyarrow as pa

from tidegate.errors import (
    DeltaConcurrentModificationException,
    NotATableError,
    ProtocolChangedException,
    VersionNotFoundError,
)
from tidegate.files.predicate import parse as parse_predicate
from tidegate.index import describe as describing
from tidegate.index import hooks, maintenance, partition_filters
from tidegate.index.file_actions import REMOVED, Adds, add_table, as_table, live, rearranged, removes_of
from tidegate.index.log_settings import LogSettings
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.transaction import IndexTransaction, skip_of
from tidegate.log.dialect import INDEX, compressed
from tidegate.log.history import version_at
from tidegate.log.index_actions import INDEX_ADD_SCHEMA
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import Clock, TableLog, system_clock
from tidegate.metadata import Format, Metadata
from tidegate.opening import milliseconds
from tidegate.protocol import indextables
from tidegate.protocol.indextables import IndexRegistry
from tidegate.protocol.protocol import Protocol
from tidegate.transaction.pending import Operation

__all__ = ["IndexLog", "add_table"]

_log = logging.getLogger(__name__)
T = TypeVar("T")

PROVIDER = "indextables"
# How often an operation that only says "whatever is there now" begins anew after a lost race.
_TRIES = 50


class IndexLog:
    """The log of one index table, and the settings of whoever holds it."""

    def __init__(self, log: TableLog, settings: LogSettings | None = None) -> None:
        self.settings = settings or LogSettings()
        registry = log.registry
        if not self.settings.check_enabled and isinstance(registry, IndexRegistry):
            registry = registry.relaxed()
        dialect = compressed(log.dialect) if self.settings.compression else log.dialect
        self.log = replace(log, dialect=dialect, registry=registry)
        self._latest: Snapshot | None = None

    @classmethod
    def at(
        cls,
        url: str | PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        *,
        clock: Clock = system_clock,
    ) -> IndexLog:
        """The log of the index table at ``url``; ``options`` are ``spark.indextables.*`` settings."""
        log = TableLog.at(url, storage_options, dialect=INDEX, clock=clock)
        return cls(log, LogSettings.of(options))

    @property
    def url(self) -> str:
        return self.log.url

    # ------------------------------------------------------------------ reading

    def exists(self) -> bool:
        """Whether there is a table; one that this client may not read is an error."""
        try:
            self._current()
        except NotATableError:
            return False
        return True

    def snapshot(
        self, version: int | None = None, timestamp: datetime | str | int | None = None
    ) -> IndexSnapshot:
        """The table as it is now, at ``version`` or as of ``timestamp``."""
        if version is not None:
            return self._seen(load(self.log, version))
        latest = self._current()
        if timestamp is None:
            return self._seen(latest)
        found = version_at(self.log, milliseconds(timestamp), latest=latest)
        return self._seen(latest if found == latest.version else load(self.log, found))

    def _seen(self, base: Snapshot) -> IndexSnapshot:
        return IndexSnapshot(base, self.settings.track_skips)

    def _current(self) -> Snapshot:
        for _ in range(_TRIES):
            try:
                self._latest = load(self.log) if self._latest is None else self._latest.update()
            except VersionNotFoundError:
                # Truncated while it was read: what is there now is another version.
                self._latest = None
            else:
                return self._latest
        return load(self.log)

    # ------------------------------------------------------------------ creating

    def create(
        self,
        schema_json: str,
        partition_columns: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        adds: Adds | None = None,
    ) -> IndexSnapshot:
        """Version 0: protocol, then metadata, then ``adds``. Where there is a table, it is left as it is."""
        try:
            return self.snapshot()
        except NotATableError:
            pass
        txn = self.transaction(None)
        txn.update_metadata(
            Metadata(
                id=str(uuid.uuid4()),
                name=name,
                description=description,
                format=Format(PROVIDER),
                schema_string=schema_json,
                partition_columns=tuple(partition_columns),
                configuration=dict(configuration or {}),
            )
        )
        try:
            return self._commit(txn, Operation("CREATE TABLE"), adds=adds)
        except ProtocolChangedException:
            # Somebody else created it a moment ago.
            return self.snapshot()

    # ------------------------------------------------------------------ writing

    def transaction(self, read: IndexSnapshot | None = None) -> IndexTransaction:
        """A transaction on ``read``; None: there is no table yet.

        What it reads (``files``, ``read_table``, ``read_files``) decides its conflicts; ``commit`` takes
        ``adds``, ``removes`` and, among the actions, ``Skip``.
        """
        base = None if read is None else read.base
        return IndexTransaction(
            self.log, base, rules=self.settings.rules, hooks=hooks.after_commit(self.settings)
        )

    def append(self, adds: Adds, *, configuration: Mapping[str, str] | None = None) -> IndexSnapshot:
        """Add splits; no commit where there are none."""
        current = self.snapshot()
        if len(adds) == 0 and not configuration:
            self.check_writable(current)
            return current
        txn = self.transaction(current)
        self._configure(txn, configuration)
        return self._commit(txn, Operation("WRITE", {"mode": "Append"}), adds=adds)

    def overwrite(
        self, adds: Adds, *, metadata: Metadata | None = None, where: str | None = None
    ) -> IndexSnapshot:
        """Remove every split there is and add these, in one commit, whatever others add meanwhile.

        With ``where``, only those of the partitions for which it is true; the new ones must be theirs too.
        """

        def attempt() -> IndexSnapshot:
            current = self.snapshot()
            txn = self.transaction(current)
            if metadata is not None:
                txn.update_metadata(metadata)
            if where is None:
                gone = txn.files(columns=REMOVED)
            else:
                partition_filters.check_within(as_table(adds), where, current)
                gone = self._of_partitions(txn, current, where)
            removes = removes_of(gone, self.log.clock(), data_change=True)
            more = {} if where is None else {"predicate": where}
            operation = Operation("WRITE", {"mode": "Overwrite", **more})
            return self._commit(txn, operation, adds=adds, removes=removes)

        return self._again(attempt)

    def replace(
        self,
        removes: pa.Table | Iterable[str],
        adds: Adds,
        *,
        read: IndexSnapshot | None = None,
        data_change: bool = False,
        configuration: Mapping[str, str] | None = None,
        operation: str = "MERGE SPLITS",
    ) -> IndexSnapshot:
        """Put ``adds`` in the place of ``removes`` (rows of ``files()``, or paths), in one commit.

        The splits must be live in ``read``, the snapshot they were planned with (None: the latest), and
        must not be removed by anybody else meanwhile: a conflict is raised, not overwritten.
        """
        current = read or self.snapshot()
        txn = self.transaction(current)
        self._configure(txn, configuration)
        gone = live(current, removes)
        if gone.num_rows:
            txn.read_files(gone)
        tombstones = removes_of(gone, self.log.clock(), data_change=data_change)
        new = as_table(adds) if data_change else rearranged(adds)
        if gone.num_rows == 0 and new.num_rows == 0 and not configuration:
            self.check_writable(current)
            return current
        return self._commit(txn, Operation(operation), adds=new, removes=tombstones)

    def remove(self, paths: pa.Table | Iterable[str], *, operation: str = "DELETE") -> IndexSnapshot:
        """Take splits out of the table; no commit where there are none."""
        return self.replace(paths, INDEX_ADD_SCHEMA.empty_table(), data_change=True, operation=operation)

    def drop_partitions(self, where: str) -> IndexSnapshot:
        """Remove the splits of the partitions for which ``where`` is true: partition columns only."""

        def attempt() -> IndexSnapshot:
            current = self.snapshot()
            txn = self.transaction(current)
            gone = self._of_partitions(txn, current, where)
            if gone.num_rows == 0:
                return current
            operation = Operation("DROP PARTITIONS", {"predicate": where})
            return self._commit(txn, operation, removes=removes_of(gone, self.log.clock(), data_change=True))

        return self._again(attempt)

    def _of_partitions(self, txn: IndexTransaction, current: IndexSnapshot, where: str) -> pa.Table:
        """The splits of the partitions for which ``where`` is true, as they go into removes."""
        predicate = parse_predicate(where).resolve(current.schema)
        found = txn.files(predicate, [*REMOVED, "stats", "minValues", "maxValues", "numRecords"])
        return partition_filters.within(found, predicate, current).select(REMOVED)

    def skip(self, paths: str | Iterable[str], reason: str, *, operation: str = "merge") -> IndexSnapshot:
        """Record that splits could not be used: they stay in the table, and are tried again later.

        One commit for all of them. Nothing is recorded where ``skippedFiles.trackingEnabled`` is false.
        """
        wanted = [paths] if isinstance(paths, str) else list(paths)
        current = self.snapshot()
        txn = self.transaction(current)
        if not wanted or not self.settings.track_skips:
            return current
        if not self.settings.rules.auto_upgrade and not indextables.records_skips(current.protocol):
            _log.warning(
                "%s: %d skipped splits are not recorded: that needs version 2, and autoUpgrade is off",
                self.url,
                len(wanted),
            )
            return current
        files = live(current, wanted, strict=False).to_pylist()
        known = {f["path"]: f for f in files}
        skips = []
        for path in wanted:
            file = known.get(path, {})
            values = file.get("partitionValues")
            skips.append(
                skip_of(
                    path,
                    current.skips,
                    now=self.log.clock(),
                    cooldown=self.settings.cooldown,
                    reason=reason,
                    operation=operation,
                    partition_values=None if values is None else dict(values),
                    size=file.get("size"),
                )
            )
        return self._commit(txn, Operation("SKIP"), actions=skips)

    def update_metadata(self, change: Callable[[Metadata], Metadata]) -> IndexSnapshot:
        """Apply ``change`` to the metadata as it is; it is applied anew after a lost race."""

        def attempt() -> IndexSnapshot:
            current = self.snapshot()
            txn = self.transaction(current)
            metadata = change(current.metadata)
            if metadata == current.metadata:
                return current
            txn.update_metadata(metadata)
            return self._commit(txn, Operation("SET METADATA"))

        return self._again(attempt)

    # ------------------------------------------------------------------ protocol

    def check_writable(self, snapshot: IndexSnapshot | None = None) -> None:
        """Refuse a table that this client may not write; both gates are passed. No storage is touched."""
        found = snapshot or self.snapshot()
        self.log.registry.check_write(found.protocol, table=self.url, version=found.version)

    def upgrade_protocol(self, reader: int, writer: int) -> IndexSnapshot:
        """Raise the protocol to at least these versions; it never comes down, and lists are kept."""
        asked = Protocol(reader, writer)
        asked.validate(self.log.registry.rules)
        current = self.snapshot()
        self.check_writable(current)
        if not self.settings.rules.auto_upgrade:
            _log.info("%s: the protocol is not upgraded: autoUpgrade is off", self.url)
            return current
        new = indextables.raised(current.protocol, asked)
        if new == current.protocol:
            return current
        self.log.registry.check_write(new, table=self.url)
        txn = self.transaction(current)
        txn.update_protocol(new)
        done = self._commit(txn, Operation("UPGRADE PROTOCOL"))
        _log.info(
            "%s: upgraded protocol to reader=%d, writer=%d",
            self.url,
            done.protocol.min_reader_version,
            done.protocol.min_writer_version,
        )
        return done

    # ------------------------------------------------------------------ maintenance

    def checkpoint(self) -> maintenance.CheckpointDone:
        """Write a checkpoint of the latest version."""
        return maintenance.checkpoint(self)

    def truncate_history(self, *, dry_run: bool = False) -> maintenance.Truncated:
        """Checkpoint, then remove all that only older versions need."""
        return maintenance.truncate_history(self, dry_run=dry_run)

    def purge(
        self,
        *,
        retention_hours: float | None = None,
        log_retention_hours: float | None = None,
        dry_run: bool = False,
    ) -> maintenance.Purged:
        """Delete splits that no retained version needs, and log files whose retention has passed."""
        return maintenance.purge(
            self, retention_hours=retention_hours, log_retention_hours=log_retention_hours, dry_run=dry_run
        )

    def describe(self, *, include_all: bool = False) -> pa.Table:
        """The actions of the log, one row each: of what makes the latest version, or of every file."""
        return describing.describe(self.snapshot().base, include_all=include_all)

    def repair(self, target: IndexLog) -> maintenance.Repaired:
        """Write a log at ``target`` with the splits of this one that are there; this one is not touched."""
        return maintenance.repair(self, target)

    # ------------------------------------------------------------------ inside

    def _commit(
        self,
        txn: IndexTransaction,
        operation: Operation,
        *,
        actions: Iterable[Any] = (),
        adds: Adds | None = None,
        removes: pa.Table | None = None,
    ) -> IndexSnapshot:
        self._latest = txn.commit(actions, operation, adds=adds, removes=removes).snapshot
        return self._seen(self._latest)

    def _configure(self, txn: IndexTransaction, configuration: Mapping[str, str] | None) -> None:
        if configuration:
            metadata = txn.metadata
            txn.update_metadata(metadata.with_configuration({**metadata.configuration, **configuration}))

    def _again(self, attempt: Callable[[], T]) -> T:
        """Run an operation on whatever the table holds; after a conflict, on the table as it is then."""
        for _ in range(_TRIES - 1):
            try:
                return attempt()
            except DeltaConcurrentModificationException as e:
                _log.debug("%s: begun anew after %s", self.url, type(e).__name__)
        return attempt()
