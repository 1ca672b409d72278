"""A table at one version: protocol, metadata, live files, application transactions, domains.

Snapshots are lazy and columnar. Protocol, metadata and counts come from the version's checksum or
the tail of the log; file rows are read only when asked for, only in the columns asked for, and
``update`` reads only what is new. A checkpoint that cannot be read falls back to an older one as
long as the commits are there. Seen from outside a snapshot never changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.errors import (
    CheckpointCorruptError,
    CheckpointIncompleteError,
    CommitCorruptError,
    FileMissingError,
    LogError,
    NoMetadataError,
    NoProtocolError,
    SidecarMissingError,
    TidegateError,
    VersionNotFoundError,
    VersionsNotContiguousError,
)
from tidegate.files.paths import refuse_outside
from tidegate.files.predicate import Predicate
from tidegate.log import checksum as checksums
from tidegate.log import names
from tidegate.log import segment as segments
from tidegate.log.actions import ADD_SCHEMA, CommitActions, DomainMetadata, Skip, Txn
from tidegate.log.checkpoint import hint as hints
from tidegate.log.checkpoint.hint import Hint
from tidegate.log.checkpoint.json_read import JsonCheckpointReader
from tidegate.log.checkpoint.read import conform
from tidegate.log.checksum import Checksum
from tidegate.log.dialect import Reader
from tidegate.log.memory import steady_memory
from tidegate.log.names import Kind
from tidegate.log.replay import (
    FileTail,
    SmallState,
    check_commit,
    hide,
    reconcile_files,
    reconcile_skips,
    reconcile_small,
    small_state,
)
from tidegate.log.scan import FileScan
from tidegate.log.segment import Checkpoint, LogFile, Segment
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol import indextables
from tidegate.protocol.negotiate import assert_features_match
from tidegate.protocol.protocol import Protocol
from tidegate.schema.types import StructType

_log = logging.getLogger(__name__)
T = TypeVar("T")

# An updated snapshot with more commits than this looks for a newer checkpoint to stand on.
_LONG_TAIL = 64
# The format in the hint of an index table whose state newer clients keep in Avro files.
_AVRO = "avro-state"

_CHECKPOINT_FAILURES = (
    CheckpointCorruptError,
    CheckpointIncompleteError,
    SidecarMissingError,
    FileMissingError,
)


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """Live files of ``version`` as they were last read, in some columns."""

    version: int
    table: pa.Table


@dataclass(frozen=True, slots=True)
class Ground:
    """The file actions of a small checkpoint that this process has written itself.

    Whoever carries on from there need not read back what it has just put down. ``adds`` have the
    columns of ``add`` and, where the checkpoint has it, ``stats_parsed``.
    """

    checkpoint: str
    adds: tuple[pa.RecordBatch, ...]
    removes: tuple[pa.RecordBatch, ...]


class Snapshot:
    """The table at ``version``. Made by ``load``; see the module's docstring."""

    def __init__(
        self,
        log: TableLog,
        segment: Segment,
        *,
        decoded: Mapping[str, CommitActions] | None = None,
        loaded: LoadedFiles | None = None,
        small: SmallState | None = None,
        checksum: Checksum | None = None,
    ) -> None:
        self.log = log
        self.version = segment.version
        self._segment = segment
        self._last = segment.commits[-1] if segment.commits else None
        self._unusable: frozenset[str] = frozenset()
        self._decoded: dict[str, CommitActions] = dict(decoded or {})
        self._loaded = loaded
        self._known_small = small
        self._known_checksum = checksum
        self._readers: dict[str, Reader] = {}
        self._ground: Ground | None = None
        self._hint: Hint | None = None

    def __repr__(self) -> str:
        return f"Snapshot({self.log.url!r}, version={self.version})"

    # ------------------------------------------------------------------ small state

    @property
    def segment(self) -> Segment:
        """The log files this snapshot is made of."""
        return self._segment

    @property
    def url(self) -> str:
        return self.log.url

    @cached_property
    def checksum(self) -> Checksum | None:
        """What ``N.crc`` says of this version; None where it is missing or cannot be believed."""
        if self._known_checksum is not None:
            return self._known_checksum
        if self._segment.checksum is None:
            return None
        try:
            found = checksums.decode(self.log.store.get(self._segment.checksum.info.name))
        except FileMissingError:
            return None
        if found is None:
            _log.info("%s: the checksum of version %d is ignored", self.url, self.version)
        return found

    @cached_property
    def _head(self) -> tuple[Protocol, Metadata]:
        protocol, metadata = self._spoken
        if protocol is None:
            unspoken = self.log.dialect.unspoken
            if unspoken is None:
                raise NoProtocolError(
                    "No protocol action is found up to this version, so nobody can say who may read it.",
                    table=self.url,
                    version=self.version,
                )
            protocol = unspoken(self.url)
        return protocol, metadata

    @property
    def spoken_protocol(self) -> Protocol | None:
        """The protocol as an action of the log says it; None where an index table's log has none."""
        return self._spoken[0]

    @cached_property
    def _spoken(self) -> tuple[Protocol | None, Metadata]:
        crc = self.checksum
        if crc is not None and crc.protocol is not None and crc.metadata is not None:
            return crc.protocol, crc.metadata
        if self._known_small is not None:
            state = self._known_small
        else:
            state = SmallState()
            for found in self._segment.deltas():
                state = state.over(small_state(self.actions(found)))
                if state.protocol is not None and state.metadata is not None:
                    break
            else:
                state = self._small
        if state.metadata is None:
            raise NoMetadataError(
                "No metaData action is found up to this version, so the table has no schema.",
                table=self.url,
                version=self.version,
            )
        return state.protocol, state.metadata

    @cached_property
    def _small(self) -> SmallState:
        if self._known_small is not None:
            return self._known_small
        crc = self.checksum
        if (
            crc is not None
            and crc.set_transactions is not None
            and crc.domain_metadata is not None
            and crc.protocol is not None
            and crc.metadata is not None
        ):
            return SmallState(
                crc.protocol,
                crc.metadata,
                {t.app_id: t for t in crc.set_transactions},
                {d.domain: d for d in crc.domain_metadata},
            )
        return self.replayed_small()

    def replayed_small(self) -> SmallState:
        """Small state by replay alone, never from a checksum; what ``verify`` compares with."""
        return self._replay(self._replay_small)

    def _replay_small(self) -> SmallState:
        tail = reconcile_small(self.actions(d) for d in self._segment.deltas())
        reader = self._reader()
        return tail if reader is None else tail.over(reader.small)

    @property
    def small(self) -> SmallState:
        """Protocol, metadata, application transactions and domains in one value."""
        protocol, metadata = self._spoken
        return SmallState(protocol, metadata, self._small.txns, self._small.domains)

    @property
    def protocol(self) -> Protocol:
        return self._head[0]

    @property
    def metadata(self) -> Metadata:
        return self._head[1]

    @property
    def schema(self) -> StructType:
        return self.metadata.schema

    @property
    def properties(self) -> Mapping[str, str]:
        return MappingProxyType(self.metadata.configuration)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @property
    def transactions(self) -> Mapping[str, Txn]:
        """The last ``txn`` of every application, unexpired ones only."""
        keep = properties.get(self.metadata.configuration, properties.SET_TRANSACTION_RETENTION)
        if keep is None:
            return MappingProxyType(self._small.txns)
        oldest = self.log.clock() - keep
        return MappingProxyType(
            {a: t for a, t in self._small.txns.items() if (t.last_updated or oldest + 1) > oldest}
        )

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The live domains, by name."""
        return MappingProxyType(self._small.live_domains())

    @cached_property
    def skips(self) -> Mapping[str, Skip]:
        """On index tables: the splits that could not be used, by path; a removed one is forgotten."""
        return MappingProxyType(self._replay(self._replay_skips))

    def _replay_skips(self) -> dict[str, Skip]:
        reader = self._reader()
        known = reader.skips if isinstance(reader, JsonCheckpointReader) else ()
        # Newest first is how a segment comes, and oldest first how skips add up.
        commits = [self.actions(d) for d in reversed(self._segment.deltas())]
        return reconcile_skips({s.path: s for s in known}, commits)

    # ------------------------------------------------------------------ time

    @cached_property
    def in_commit_timestamp(self) -> int | None:
        """The commit's own timestamp in milliseconds, None while the table does not keep them."""
        if not properties.get(self.metadata.configuration, properties.ENABLE_IN_COMMIT_TIMESTAMPS):
            return None
        value = self.commit_info.get("inCommitTimestamp")
        if value is None and self.checksum is not None:
            value = self.checksum.in_commit_timestamp_opt
        return value if isinstance(value, int) else None

    @property
    def commit_info(self) -> dict[str, Any]:
        """The commitInfo of this very version; empty where it has none or its commit is gone."""
        try:
            if self._last is not None:
                return self.actions(self._last).commit_info
            name = names.commit(self.version)
            return self.log.dialect.decode(self.log.store.get(self.log.path(name)), name).commit_info
        except (FileMissingError, VersionNotFoundError):
            return {}
        except LogError as e:
            if self._last is not None:
                raise
            _log.info("%s: the checkpoint stands for a commit that cannot be read: %s", self.url, e)
            return {}

    @cached_property
    def timestamp_ms(self) -> int:
        """When this version was committed, in milliseconds."""
        own = self.in_commit_timestamp
        if own is not None:
            return own
        if self._last is not None:
            return self._last.info.modified
        try:
            return self.log.store.head(self.log.commit_path(self.version)).modified
        except FileMissingError:
            checkpoint = self._segment.checkpoint
            assert checkpoint is not None
            return checkpoint.files[0].info.modified

    @property
    def timestamp(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp_ms / 1000, timezone.utc)

    # ------------------------------------------------------------------ files

    def files(
        self, predicate: str | Predicate | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The live files, one row each, as every field of ``add`` or as ``columns`` names them.

        ``predicate`` (SQL text) drops files that cannot hold a matching row; it may keep a file
        too many, never one too few.
        """
        scan = FileScan.plan(self.metadata, predicate, columns, self.log.dialect.form)
        if scan.covered_by(self._loaded_names()):
            loaded = self._replay(self._overlay)
            return loaded.select(scan.columns) if scan.predicate is None else scan.apply(loaded)
        table = self._replay(lambda: self._read_files(scan))
        if scan.predicate is None:
            self._loaded = LoadedFiles(self.version, table)
        return table

    def _loaded_names(self) -> Sequence[str]:
        return self._loaded.table.column_names if self._loaded is not None else ()

    def _overlay(self) -> pa.Table:
        """The files read last, brought up to this version by the commits since."""
        loaded = self._loaded
        assert loaded is not None
        if loaded.version == self.version:
            return loaded.table
        since = [f for f in self._segment.commits if f.name.version > loaded.version]
        assert len(since) == self.version - loaded.version
        tail = reconcile_files([self.actions(f) for f in reversed(since)])
        schema = loaded.table.schema
        for batch in tail.adds:
            refuse_outside(batch.column("path"))
        batches = [b.select(schema.names) for b in tail.adds]
        for batch in loaded.table.to_batches():
            batches += hide(batch, tail.keys)
        self._loaded = LoadedFiles(self.version, pa.Table.from_batches(batches, schema))
        return self._loaded.table

    def _read_files(self, scan: FileScan) -> pa.Table:
        reader = self._reader()
        if reader is None:
            tail = self._tail()
            return pa.Table.from_batches(self._scanned(scan, tail), scan.output_schema)
        # Commits are decoded here in Python, the checkpoint is read by threads in C++: side by side.
        with steady_memory(), ThreadPoolExecutor(1, thread_name_prefix="tidegate-tail") as beside:
            coming = beside.submit(self._tail)
            process = scan.processor(reader, lambda: coming.result().keys)
            older = list(reader.batches("add", scan.checkpoint_columns(reader), process))
            tail = coming.result()
        return pa.Table.from_batches([*self._scanned(scan, tail), *older], scan.output_schema)

    def _scanned(self, scan: FileScan, tail: FileTail) -> list[pa.RecordBatch]:
        return [b for batch in tail.adds for b in scan.tail(batch)]

    def add_batches(self, parsed: bool, work: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Every live add through ``work``, in batches, which threads may run ahead on.

        With ``parsed`` a batch also has ``stats_parsed`` where the checkpoint carries it.
        """
        tail = self._tail()
        for batch in tail.adds:
            yield work(batch)
        ground = self._standing()
        if ground is not None:
            for batch in ground.adds:
                for live in hide(batch, tail.keys):
                    yield work(live)
            return
        reader = self._reader()
        if reader is None:
            return
        form = self.log.dialect.form
        scan = FileScan(self.metadata, tuple(form.adds.names), None, form)
        columns = scan.checkpoint_columns(reader)
        if parsed and "stats_parsed" not in columns and reader.has_parsed_stats:
            columns.append("stats_parsed")
        process = scan.processor(reader, lambda: tail.keys, keep_parsed=parsed)
        yield from reader.batches("add", columns, lambda b: [work(p) for p in process(b)])

    def _tail(self) -> FileTail:
        return reconcile_files([self.actions(d) for d in self._segment.deltas()])

    def tombstones(self, *, expired: bool = False) -> pa.Table:
        """Removed files whose retention has not passed, or all the log still knows of."""
        table = self._replay(self._read_tombstones)
        if expired:
            return table
        return drop_expired(table, self.tombstone_horizon())

    def tombstone_horizon(self) -> int:
        """Tombstones older than this (milliseconds) have expired."""
        keep = properties.get(self.metadata.configuration, properties.DELETED_FILE_RETENTION)
        return self.log.clock() - keep

    def _read_tombstones(self) -> pa.Table:
        schema = self.log.dialect.form.removes
        tail = self._tail()
        out = list(tail.removes)
        ground = self._standing()
        reader = self._reader()
        if ground is not None:
            out += [live for batch in ground.removes for live in hide(batch, tail.keys)]
        elif reader is not None:

            def process(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
                return hide(conform(batch, schema), tail.keys)

            out += reader.batches("remove", schema.names, process)
        for batch in out:
            refuse_outside(batch.column("path"))
        return pa.Table.from_batches(out, schema)

    @cached_property
    def _counts(self) -> tuple[int, int]:
        crc = self.checksum
        if crc is not None:
            return crc.num_files, crc.table_size_bytes
        table = self.files(columns=["size", *self.log.dialect.form.key])
        if not self.log.dialect.checksums:
            return table.num_rows, pc.sum(table.column("size")).as_py() or 0
        counts = checksums.count(table.to_batches())
        return counts.files, counts.size

    @property
    def num_files(self) -> int:
        return self._counts[0]

    @property
    def size_in_bytes(self) -> int:
        return self._counts[1]

    # ------------------------------------------------------------------ history

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """One entry per commit still in the log, newest first; the keys are DESCRIBE HISTORY's."""
        from tidegate.log.history import history

        return history(self.log, self.version, limit)

    # ------------------------------------------------------------------ moving on

    def update(self) -> Snapshot:
        """The latest version; this very snapshot if nothing is new. Reads only what is new."""
        if not self.still_there():
            return load(self.log)
        new = read_commits(self.log, self.version + 1)
        if not new:
            return self
        out = self.advanced(new)
        if len(out._segment.commits) > _LONG_TAIL:
            out._shorten()
        return out

    def _shorten(self) -> None:
        """Replace a tail that has grown long by a checkpoint that others have written meanwhile."""
        hint = read_hint(self.log)
        if hint is None or not self._segment.base_version < hint.version <= self.version:
            return
        listing = self.log.listing(hint.version, self.version)
        try:
            found = segments.build(listing, self.url, self.version, self._unusable)
        except LogError:
            return
        if found is not None and found.checkpoint is not None:
            self._stand_on(found)
            self._hint = hint

    def stand_on(
        self, checkpoint: Checkpoint, ground: Ground | None = None, *, hint: Hint | None = None
    ) -> None:
        """Take a checkpoint of this very version, just written, as the ground from here on."""
        self._stand_on(Segment(self.version, checkpoint, (), (), self._segment.checksum))
        self._ground = ground
        self._hint = hint

    def _standing(self) -> Ground | None:
        """What is in memory of the checkpoint this snapshot stands on."""
        checkpoint = self._segment.checkpoint
        if self._ground is None or checkpoint is None or self._ground.checkpoint != checkpoint.key:
            return None
        return self._ground

    def _stand_on(self, segment: Segment) -> None:
        self._segment = segment
        keep = {f.name.text for f in segment.commits}
        if self._loaded is not None and self._loaded.version < segment.base_version:
            self._loaded = None
        if self._last is not None:
            keep.add(self._last.name.text)
        self._decoded = {k: v for k, v in self._decoded.items() if k in keep}

    @property
    def last_commit(self) -> LogFile | None:
        """The commit of this version as it was read; None where a checkpoint stands for it."""
        return self._last

    def still_there(self) -> bool:
        """Whether the log still goes on from this snapshot as it read it.

        A table that was dropped and made anew has the same names with other bytes, and a cleanup may
        have taken away what comes next: commits go in ascending order, so this version's own first.
        """
        known = self._last
        if known is None:
            # All of it is a checkpoint, whose commit may be gone: what else is there tells.
            listing = self.log.listing(self.version)
            here = [c for c in listing.checkpoints if c.version == self.version]
            follows = self.version + 1 in listing.commits or segments.latest(listing) == self.version
            return follows and self._segment.checkpoint in here
        try:
            now = self.log.store.head(known.info.name)
        except FileMissingError:
            return False
        return (now.size, now.modified) == (known.info.size, known.info.modified)

    def advanced(
        self, new: Sequence[tuple[LogFile, CommitActions]], *, checksum: Checksum | None = None
    ) -> Snapshot:
        """This snapshot carried on by commits that are at hand, in ascending order."""
        small: SmallState | None = self._known_small or self.__dict__.get("_small")
        segment = self._segment.with_commits(f for f, _ in new)
        decoded = self._decoded
        if self._loaded is not None and small is not None:
            # What lies below the loaded files is never replayed again from here on.
            floor = self._loaded.version
            keep = {f.name.text for f in segment.commits if f.name.version > floor}
            decoded = {k: v for k, v in decoded.items() if k in keep}
        decoded = {**decoded, **{f.name.text: a for f, a in new}}
        if small is not None:
            small = SmallState(*self._spoken, small.txns, small.domains)
            for _, actions in new:
                small = small_state(actions).over(small)
        out = Snapshot(
            self.log, segment, decoded=decoded, loaded=self._loaded, small=small, checksum=checksum
        )
        out._last = new[-1][0]
        out._unusable = self._unusable
        out._readers = self._readers
        out._ground = self._ground
        out._hint = self._hint
        if small is None and checksum is None and "_spoken" in self.__dict__:
            out._inherit_head(self._spoken, [a for _, a in new])
        if "skips" in self.__dict__:
            skips = reconcile_skips(self.skips, [a for _, a in new])
            out.__dict__["skips"] = MappingProxyType(skips)
        out.check_readable()
        return out

    def _inherit_head(self, head: tuple[Protocol | None, Metadata], new: list[CommitActions]) -> None:
        protocol, metadata = head
        for actions in new:
            protocol = actions.protocol or protocol
            metadata = actions.metadata or metadata
        self.__dict__["_spoken"] = (protocol, metadata)

    def check_readable(self) -> None:
        """Refuse a version that this client may not read, before anything else is done with it."""
        protocol, metadata = self._head
        try:
            protocol.validate(self.log.registry.rules)
            self.log.registry.check_read(protocol, table=self.url, version=self.version)
            assert_features_match(protocol, metadata, self.log.registry)
            self.log.dialect.check_metadata(metadata)
        except TidegateError as e:
            raise e.at(table=self.url, version=self.version) from None

    # ------------------------------------------------------------------ reading the log

    def actions(self, found: LogFile) -> CommitActions:
        """The decoded commit or compaction ``found``, read once."""
        actions = self._decoded.get(found.name.text)
        if actions is None:
            try:
                actions = self.log.dialect.decode(self.log.store.get(found.info.name), found.name.text)
                if found.name.kind is Kind.COMMIT:
                    check_commit(actions, found.name.text)
            except CommitCorruptError as e:
                if found.name.kind is not Kind.COMPACTION:
                    raise e.at(table=self.url, version=found.name.version) from None
                raise _CompactionUnusable from e
            except FileMissingError as e:
                if found.name.kind is Kind.COMPACTION:
                    raise _CompactionUnusable from e
                raise self._removed(found.name.version) from e
            except LogError as e:
                raise e.at(table=self.url, version=found.name.version) from None
            self._decoded[found.name.text] = actions
        return actions

    def _reader(self) -> Reader | None:
        checkpoint = self._segment.checkpoint
        if checkpoint is None:
            return None
        reader = self._readers.get(checkpoint.key)
        if reader is None:
            hint = self._hint
            known = hint is not None and hint.version == checkpoint.version
            reader = self.log.reader(checkpoint, hint.checksum if hint is not None and known else None)
            self._readers[checkpoint.key] = reader
        return reader

    def _replay(self, work: Callable[[], T]) -> T:
        """Run ``work``; where a checkpoint or compaction cannot be read, again on a segment without it."""
        first: TidegateError | None = None
        while True:
            try:
                return work()
            except _CompactionUnusable:
                _log.warning("%s: a log compaction cannot be read; its commits are used", self.url)
                s = self._segment
                self._segment = Segment(s.version, s.checkpoint, s.commits, (), s.checksum)
            except _CHECKPOINT_FAILURES as e:
                first = first or e.at(table=self.url, version=self._segment.base_version)
                if not self._fall_back():
                    raise self._vanished() or first from None
                _log.warning("%s: %s; an older checkpoint is used", self.url, e.message)
            except TidegateError as e:
                raise e.at(table=self.url, version=self.version) from None

    def _fall_back(self) -> bool:
        """Choose an older checkpoint for the same version; False if the commits do not allow it."""
        bad = self._segment.checkpoint
        if bad is None:
            return False
        self._unusable |= {bad.key}
        listing = self.log.listing(0, self.version)
        try:
            found = segments.build(listing, self.url, self.version, self._unusable)
        except LogError:
            return False
        if found is None:
            return False
        self._segment = found
        if self._last is None and found.commits:
            self._last = found.commits[-1]
        return True

    def _vanished(self) -> VersionNotFoundError | None:
        """The error of a version whose checkpoint was taken away after it was listed, not damaged."""
        checkpoint = self._segment.checkpoint
        try:
            for part in checkpoint.files if checkpoint is not None else ():
                self.log.store.head(part.info.name)
        except FileMissingError:
            return self._removed(self.version)
        return None

    def _removed(self, version: int) -> VersionNotFoundError:
        return VersionNotFoundError(
            f"Version {version} was removed from the log while it was being read.",
            table=self.url,
            version=version,
            hint="Log retention is at work; open the table again.",
        )


class _CompactionUnusable(Exception):
    """A log compaction could not be read; the commits it stands for are still there."""


def read_commits(
    log: TableLog, start: int, *, limit: int | None = None
) -> list[tuple[LogFile, CommitActions]]:
    """The commits from ``start`` on, as far as there are any, read one by one."""
    out: list[tuple[LogFile, CommitActions]] = []
    version = start
    while limit is None or len(out) < limit:
        name = names.commit(version)
        try:
            data = log.store.get(log.path(name))
            info = log.store.head(log.path(name))
        except FileMissingError:
            break
        parsed = names.parse(name)
        assert parsed is not None
        try:
            actions = log.dialect.decode(data, name)
            check_commit(actions, name)
        except LogError as e:
            raise e.at(table=log.url, version=version) from None
        out.append((LogFile(parsed, info), actions))
        version += 1
    return out


def load(log: TableLog, version: int | None = None) -> Snapshot:
    """The snapshot of ``version``, of the latest one when None; the client's right to read is checked."""
    hint = read_hint(log)
    start = 0
    if hint is not None and (version is None or hint.version <= version):
        start = hint.version
    try:
        segment = _segment(log, version, start)
    except LogError:
        if hint is not None and hint.format == _AVRO:
            # The commits are gone, and what stands for them only newer clients can read.
            log.registry.check_read(indextables.AVRO_STATE, table=log.url, version=hint.version)
        raise
    snapshot = Snapshot(log, segment)
    snapshot._hint = hint
    snapshot._replay(snapshot.check_readable)
    return snapshot


def read_hint(log: TableLog) -> Hint | None:
    """What ``_last_checkpoint`` says, None where there is none that can be believed."""
    return hints.read(log.store, log.log_dir, log.dialect.decode_hint)


def unguarded(log: TableLog, version: int | None = None) -> Snapshot:
    """The snapshot of a version that nobody has asked yet whether this client may read it.

    For who wants to know what the table asks for, and no more.
    """
    snapshot = Snapshot(log, _segment(log, version, 0))
    snapshot._replay(lambda: snapshot.protocol)
    return snapshot


def _segment(log: TableLog, version: int | None, start: int) -> Segment:
    """The segment of a version, from the shortest listing that tells.

    Whether a version is missing because of damage or of a cleanup shows only in the whole log, which
    is listed, again if need be, before an error is raised. A directory that is written to while it is
    listed may show a commit and not the one before it, so a gap must be seen twice.
    """
    spans = [(start, version), (0, version)] if start else [(0, version)]
    if version is not None:
        spans.append((0, None))
    spans.append(spans[-1])
    for at, (first, until) in enumerate(spans):
        listing = log.listing(first, until)
        try:
            found = segments.build(listing, log.url, version)
        except VersionsNotContiguousError:
            if at == len(spans) - 1:
                raise
            continue
        except LogError:
            if at >= len(spans) - 2:
                raise
            continue
        if found is not None:
            return found
    raise AssertionError("a listing from 0 makes a segment or an error")


def drop_expired(table: pa.Table, horizon: int) -> pa.Table:
    """Tombstones that are younger than ``horizon``; one without a time counts as expired."""
    times = pc.fill_null(table.column("deletionTimestamp"), 0)
    return table.filter(pc.greater(times, horizon))


ADD_COLUMNS: tuple[str, ...] = tuple(ADD_SCHEMA.names)
