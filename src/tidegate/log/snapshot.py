"""A table at one version: protocol, metadata, live files, application transactions, domains.

Snapshots are lazy and columnar. Protocol, metadata and counts come from the version's checksum or
the tail of the log; file rows are read only when asked for, only in the columns asked for, and
``update`` reads only what is new. A checkpoint that cannot be read falls back to an older one as
long as the commits are there. Seen from outside a snapshot never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.errors import LogError, TidegateError, VersionsNotContiguousError
from tidegate.files.derived import Derivation, derivations
from tidegate.files.predicate import Predicate
from tidegate.log import checksum as checksums
from tidegate.log import segment as segments
from tidegate.log.actions import DomainMetadata, Skip, Txn
from tidegate.log.checkpoint import hint as hints
from tidegate.log.checkpoint.hint import Hint
from tidegate.log.checksum import Checksum
from tidegate.log.commits import CommitActions
from tidegate.log.live_files import LiveFiles
from tidegate.log.moments import time_of
from tidegate.log.reading import LONG_TAIL, Commit, Ground, LogReading, read_commits
from tidegate.log.replay import SmallState
from tidegate.log.scan import FileScan
from tidegate.log.segment import Checkpoint, LogFile, Segment
from tidegate.log.small_state import SmallStateReader
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol import indextables
from tidegate.protocol.negotiate import assert_features_match
from tidegate.protocol.protocol import Protocol
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.types import StructType

__all__ = ["Snapshot", "load", "read_commits", "read_hint", "unguarded"]

T = TypeVar("T")

# The format in the hint of an index table whose state newer clients keep in Avro files.
_AVRO = "avro-state"


class Snapshot:
    """The table at ``version``. Made by ``load``; see the module's docstring."""

    def __init__(self, reading: LogReading, small: SmallStateReader, files: LiveFiles) -> None:
        self._reading = reading
        self._small = small
        self._files = files

    @classmethod
    def of(
        cls,
        log: TableLog,
        segment: Segment,
        *,
        decoded: Mapping[str, CommitActions] | None = None,
        checksum: Checksum | None = None,
        hint: Hint | None = None,
    ) -> Snapshot:
        """The snapshot of a segment; ``decoded`` and ``checksum`` are what is known of it already."""
        reading = LogReading(log, segment, decoded=decoded, hint=hint)
        return cls(reading, SmallStateReader(reading, checksum=checksum), LiveFiles(reading))

    def __repr__(self) -> str:
        return f"Snapshot({self.url!r}, version={self.version})"

    @property
    def log(self) -> TableLog:
        return self._reading.log

    @property
    def version(self) -> int:
        return self._reading.version

    @property
    def segment(self) -> Segment:
        """The log files this snapshot is made of."""
        return self._reading.segment

    @property
    def last_commit(self) -> LogFile | None:
        """The commit of this version as it was read; None where a checkpoint stands for it."""
        return self._reading.last

    @property
    def url(self) -> str:
        return self.log.url

    # ------------------------------------------------------------------ small state

    @property
    def checksum(self) -> Checksum | None:
        """What ``N.crc`` says of this version; None where it is missing or cannot be believed."""
        return self._small.checksum

    @property
    def small(self) -> SmallState:
        """Protocol, metadata, application transactions and domains in one value."""
        return self._small.all

    def replayed_small(self) -> SmallState:
        """Small state by replay alone, never from a checksum; what ``verify`` compares with."""
        return self._small.replayed()

    @property
    def spoken_protocol(self) -> Protocol | None:
        """The protocol as an action of the log says it; None where an index table's log has none."""
        return self._small.spoken[0]

    @property
    def protocol(self) -> Protocol:
        return self._small.head[0]

    @property
    def metadata(self) -> Metadata:
        return self._small.head[1]

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
        found = self._small.txns
        keep = properties.get(self.metadata.configuration, properties.SET_TRANSACTION_RETENTION)
        if keep is None:
            return MappingProxyType(found)
        oldest = self.log.clock() - keep
        return MappingProxyType({a: t for a, t in found.items() if (t.last_updated or oldest + 1) > oldest})

    @property
    def domains(self) -> Mapping[str, DomainMetadata]:
        """The live domains, by name."""
        return MappingProxyType(self._small.live_domains)

    @property
    def skips(self) -> Mapping[str, Skip]:
        """On index tables: the splits that could not be used, by path; a removed one is forgotten."""
        return self._small.skips

    def check_readable(self) -> None:
        """Refuse a version that this client may not read, before anything else is done with it."""
        protocol, metadata = self._small.head
        try:
            protocol.validate(self.log.registry.rules)
            self.log.registry.check_read(protocol, table=self.url, version=self.version)
            assert_features_match(protocol, metadata, self.log.registry)
            self.log.dialect.check_metadata(metadata)
        except TidegateError as e:
            raise e.at(table=self.url, version=self.version) from None

    # ------------------------------------------------------------------ time

    @property
    def commit_info(self) -> dict[str, Any]:
        """The commitInfo of this very version; empty where it has none or its commit is gone."""
        return self._reading.commit_info()

    @cached_property
    def in_commit_timestamp(self) -> int | None:
        """The commit's own timestamp in milliseconds, None while the table does not keep them."""
        if not properties.get(self.metadata.configuration, properties.ENABLE_IN_COMMIT_TIMESTAMPS):
            return None
        value = self.commit_info.get("inCommitTimestamp")
        if value is None and self.checksum is not None:
            value = self.checksum.in_commit_timestamp_opt
        return value if isinstance(value, int) else None

    @cached_property
    def timestamp_ms(self) -> int:
        """When this version was committed, in milliseconds."""
        own = self.in_commit_timestamp
        return self._reading.modified() if own is None else own

    @property
    def timestamp(self) -> datetime:
        return time_of(self.timestamp_ms)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """One entry per commit still in the log, newest first; the keys are DESCRIBE HISTORY's."""
        from tidegate.log.history import history

        return history(self.log, self.version, limit)

    # ------------------------------------------------------------------ files

    def files(
        self, predicate: str | Predicate | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The live files, one row each, as every field of ``add`` or as ``columns`` names them.

        ``predicate`` (SQL text) drops files that cannot hold a matching row; it may keep a file
        too many, never one too few.
        """
        return self._files.read(self._scan(predicate, columns))

    @property
    def derived(self) -> tuple[Derivation, ...]:
        """What generated partition columns tell of other columns, where writers must keep to it."""
        if not self.protocol.supports("generatedColumns"):
            return ()
        metadata = self.metadata
        return derivations(metadata.schema, tuple(metadata.partition_columns), mapping_mode(metadata))

    def _scan(
        self, predicate: str | Predicate | None = None, columns: Sequence[str] | None = None
    ) -> FileScan:
        told = () if predicate is None else self.derived
        return FileScan.plan(self.metadata, predicate, columns, self.log.dialect.form, told)

    def add_batches(self, parsed: bool, work: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Every live add through ``work``, in batches, which threads may run ahead on.

        With ``parsed`` a batch also has ``stats_parsed`` where the checkpoint carries it.
        """
        return self._files.batches(self._scan(), parsed, work)

    def live_among(self, keys: pa.Array) -> list[pa.RecordBatch]:
        """The live files that ``keys`` names, with what a checksum counts of them."""
        return self._files.among(self._scan(columns=["path", "size", "deletionVector"]), keys)

    def tombstones(self, *, expired: bool = False) -> pa.Table:
        """Removed files whose retention has not passed, or all the log still knows of."""
        table = self._files.tombstones()
        if expired:
            return table
        # One without a time counts as expired.
        times = pc.fill_null(table.column("deletionTimestamp"), 0)
        return table.filter(pc.greater(times, self.tombstone_horizon()))

    def tombstone_horizon(self) -> int:
        """Tombstones older than this (milliseconds) have expired."""
        keep = properties.get(self.metadata.configuration, properties.DELETED_FILE_RETENTION)
        return self.log.clock() - keep

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

    # ------------------------------------------------------------------ reading the log

    def actions(self, found: LogFile) -> CommitActions:
        """The decoded commit or compaction ``found``, read once."""
        return self._reading.actions(found)

    def replay(self, work: Callable[[], T]) -> T:
        """Run ``work``; where a checkpoint or compaction cannot be read, again on what is left."""
        return self._reading.replay(work)

    def still_there(self) -> bool:
        """Whether the log still goes on from this snapshot as it read it."""
        return self._reading.still_there()

    # ------------------------------------------------------------------ moving on

    def update(self) -> Snapshot:
        """The latest version; this very snapshot if nothing is new. Reads only what is new."""
        if not self.still_there():
            return load(self.log)
        new = read_commits(self.log, self.version + 1)
        if not new:
            return self
        out = self.advanced(new)
        if len(out.segment.commits) > LONG_TAIL:
            out._reading.shorten(read_hint(self.log))
            out._files.settle()
        return out

    def advanced(self, new: Sequence[Commit], *, checksum: Checksum | None = None) -> Snapshot:
        """This snapshot carried on by commits that are at hand, in ascending order."""
        reading = self._reading.carried_on(new, self._files.floor if self._small.is_whole else None)
        small = self._small.carried_on(reading, [actions for _, actions in new], checksum)
        out = Snapshot(reading, small, self._files.carried_on(reading))
        out.check_readable()
        return out

    def stand_on(
        self, checkpoint: Checkpoint, ground: Ground | None = None, *, hint: Hint | None = None
    ) -> None:
        """Take a checkpoint of this very version, just written, as the ground from here on."""
        segment = Segment(self.version, checkpoint, (), (), self.segment.checksum)
        self._reading.stand_on(segment, ground, hint)
        self._files.settle()


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
    snapshot = Snapshot.of(log, segment, hint=hint)
    snapshot.replay(snapshot.check_readable)
    return snapshot


def read_hint(log: TableLog) -> Hint | None:
    """What ``_last_checkpoint`` says, None where there is none that can be believed."""
    return hints.read(log.store, log.log_dir, log.dialect.decode_hint)


def unguarded(log: TableLog, version: int | None = None) -> Snapshot:
    """The snapshot of a version that nobody has asked yet whether this client may read it.

    For who wants to know what the table asks for, and no more.
    """
    snapshot = Snapshot.of(log, _segment(log, version, 0))
    snapshot.replay(lambda: snapshot.protocol)
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
