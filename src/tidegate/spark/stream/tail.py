"""A table as a stream of files: first the table as it was found, then each commit's own files.

Everything here speaks of the log alone; no Spark is needed. The same two offsets always give the
same files, now and after a restart. A commit that a stream may not pass over (a schema that does
not fit, a protocol that is not supported, rows deleted or changed, commits that are gone) stops it
by name, and only once everything before that commit has been passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.errors import (
    ChangeDataMissingError,
    LogTruncatedError,
    StreamDataLossError,
    StreamSchemaChangedError,
    StreamSourceChangedError,
    TidegateError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from tidegate.log import protection
from tidegate.log.columns import ADD_SCHEMA
from tidegate.log.commits import CommitActions
from tidegate.log.history import version_at
from tidegate.log.segment import LogFile, list_log
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.opening import milliseconds
from tidegate.spark.stream.offsets import BEFORE, NO_LIMITS, Budget, Limits, StreamOffset, check_forward
from tidegate.spark.stream.shape import mismatch

LATEST = "latest"
COLUMNS = ["path", "partitionValues", "size", "modificationTime", "stats", "deletionVector"]
FILES = pa.schema([ADD_SCHEMA.field(c) for c in COLUMNS])


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the user has said of a stream."""

    limits: Limits = field(default_factory=Limits)
    starting_version: int | str | None = None
    starting_timestamp: str | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    fail_on_data_loss: bool = True
    exclude: str | None = None
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Slice:
    """What lies between two offsets: files of the snapshot, then files (or versions) of commits."""

    initial_version: int | None
    initial: pa.Table
    added: pa.Table
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Change:
    """One commit, as far as a stream cares."""

    version: int
    files: pa.Table
    sizes: pa.ChunkedArray | pa.Array


class Tail:
    """The stream of one query; ``shape`` is the table at the start, whose schema holds throughout."""

    def __init__(self, log: TableLog, shape: Snapshot, options: StreamOptions) -> None:
        self.log = log
        self.shape = shape
        self.options = options
        self._exclude = None if options.exclude is None else re.compile(options.exclude)
        self._known: dict[int, _Change] = {}
        self._snapshot: tuple[int, pa.Table] | None = None
        self._bound: int | None = None
        self._bounded = False
        self._began: StreamOffset | None = None
        self._entered = False

    # ------------------------------------------------------------------ offsets

    def offset(self, text: str | None) -> StreamOffset | None:
        """An offset from its JSON."""
        if text is None:
            return None
        return StreamOffset.from_json(text, self.shape.metadata.id, table=self.log.url)

    def beginning(self) -> StreamOffset:
        """Where a new query starts."""
        if self._began is None:
            version = self._starting_version()
            table_id = self.shape.metadata.id
            if version is None:
                self._began = StreamOffset(table_id, self.shape.version, BEFORE, True)
            else:
                self._began = StreamOffset(table_id, version)
            self._check_beginning(self._began)
        return self._began

    def _starting_version(self) -> int | None:
        wanted = self.options.starting_version
        if wanted == LATEST:
            return load(self.log).version + 1
        if isinstance(wanted, int):
            listing = list_log(self.log.store, self.log.log_dir, wanted)
            if wanted not in listing.commits:
                raise VersionNotFoundError(
                    f"The stream is to begin at version {wanted}, which the log does not hold.",
                    table=self.log.url,
                    version=wanted,
                    hint=f"The table is at version {self.shape.version}.",
                )
            return wanted
        if self.options.starting_timestamp is not None:
            return self._version_from(milliseconds(self.options.starting_timestamp))
        return None

    def _version_from(self, moment: int) -> int:
        """The first version at or after a moment that is still in the log."""
        latest = load(self.log)
        if moment > latest.timestamp_ms:
            raise TimestampOutOfRangeError(
                f"startingTimestamp is after the latest version, {latest.version} of {latest.timestamp}.",
                table=self.log.url,
                hint="Use startingVersion = latest to begin with what is yet to come.",
            )
        try:
            found = version_at(self.log, moment, latest=latest)
        except TimestampOutOfRangeError:
            return min(list_log(self.log.store, self.log.log_dir, 0).commits)
        return found if load(self.log, found).timestamp_ms >= moment else found + 1

    def _check_beginning(self, at: StreamOffset) -> None:
        """The protocol and the metadata in force at the beginning, which no commit after it repeats."""
        found = self._enter(at.version)
        if found is not None:
            self._check_metadata(found.metadata, at.version)

    def _enter(self, version: int) -> Snapshot | None:
        """Refuse a version to go on from whose protocol is not supported; the version, if it can be opened.

        Once a feature was dropped, protocols do not only grow: that the newest one is supported says
        nothing of those before it. Where commits are gone the checksum still knows, and without it the
        stream goes on only if no feature was dropped after that version.
        """
        self._entered = True
        if version > self.shape.version:
            return None
        try:
            return self.shape if version == self.shape.version else load(self.log, version)
        except (VersionNotFoundError, LogTruncatedError):
            listing = list_log(self.log.store, self.log.log_dir, max(version - 1, 0), version)
            ((_, protocol),) = protection.protocols(self.log, listing, version, version)
            if protocol is not None:
                self.log.registry.check_read(protocol, table=self.log.url, version=version)
            elif version < protection.boundary(self.shape):
                raise
            return None

    def available_now(self) -> None:
        """From here on the stream ends at what the table holds at the next question."""
        self._bounded, self._bound = True, None

    def latest(self, start: StreamOffset | None, limits: Limits = NO_LIMITS) -> StreamOffset:
        """How far the next batch goes; ``start`` itself if there is nothing new."""
        budget = Budget(limits)
        at = start or self.beginning()
        if not self._entered:
            self._enter(at.version)
        if self._bounded and self._bound is None:
            self._bound = max(load(self.log).version, at.version - 1)
        if start is None and self.options.starting_version == LATEST:
            # An empty batch, so that the checkpoint holds what "latest" came to.
            return at
        if at.initial:
            at = self._through_snapshot(at, budget)
            if at.initial or start is None:
                # Were the first batch to go on, its beginning could not be told from its end.
                return at
        return self._through_commits(at, budget, start)

    def _through_snapshot(self, at: StreamOffset, budget: Budget) -> StreamOffset:
        files = self._snapshot_files(at.version)
        rest = files.slice(at.index + 1)
        taken = budget.admit(rest.column("size"))
        return at.next_version() if taken == rest.num_rows else at.at(at.index + taken)

    def _through_commits(self, at: StreamOffset, budget: Budget, start: StreamOffset | None) -> StreamOffset:
        begun = at if start is None else start
        commits = self._commits(at.version, self._bound)
        while not budget.spent:
            try:
                version, found = next(commits, (None, None))
                if version is None:
                    break
                change = self._change(version, found)
            except TidegateError:
                if at != begun:
                    break
                raise
            if at.version < version:
                at = StreamOffset(at.table_id, version)
            at = self._admitted(change, at, budget)
            if at.version == version:
                break
        return at

    def _admitted(self, change: _Change, at: StreamOffset, budget: Budget) -> StreamOffset:
        if self.options.changes:
            return at.next_version() if budget.admit_whole(change.sizes) else at
        rest = change.sizes.slice(at.index + 1)
        taken = budget.admit(rest)
        return at.next_version() if taken == len(rest) else at.at(at.index + taken)

    # ------------------------------------------------------------------ what lies between

    def between(self, start: StreamOffset | None, end: StreamOffset) -> Slice:
        """The files that a batch from ``start`` (None: the beginning) to ``end`` consists of."""
        at = start if start is not None else self._beginning_of(end)
        check_forward(at, end)
        if not self._entered:
            self._enter(at.version)
        initial, version = FILES.empty_table(), None
        if at.initial:
            version = at.version
            upto = end.index + 1 if end.initial else None
            files = self._snapshot_files(version)
            initial = files.slice(at.index + 1, None if upto is None else upto - at.index - 1)
            if end.initial:
                return Slice(version, self._kept(initial), FILES.empty_table(), end.version, end.version - 1)
            at = at.next_version()
        last = end.version - 1 if end.index == BEFORE else end.version
        added = FILES.empty_table() if self.options.changes else self._added(at, end, last)
        return Slice(version, self._kept(initial), self._kept(added), at.version, last)

    def _beginning_of(self, end: StreamOffset) -> StreamOffset:
        """Where the first batch of a query began, given where it ended."""
        if self.options.starting_version == LATEST:
            return end
        if self._starting_by_option():
            return self.beginning()
        version = end.version if end.initial else max(end.version - 1, 0)
        at = StreamOffset(end.table_id, version, BEFORE, True)
        self._check_beginning(at)
        return at

    def _starting_by_option(self) -> bool:
        return self.options.starting_version is not None or self.options.starting_timestamp is not None

    def _added(self, at: StreamOffset, end: StreamOffset, last: int) -> pa.Table:
        if last < at.version:
            return FILES.empty_table()
        parts = []
        commits: Iterator[tuple[int, LogFile | None]] = ((v, None) for v in range(at.version, last + 1))
        if any(v not in self._known for v in range(at.version, last + 1)):
            commits = self._commits(at.version, last)
        for version, found in commits:
            files = self._change(version, found).files
            low = at.index + 1 if version == at.version else 0
            high = end.index + 1 if version == end.version else files.num_rows
            parts.append(files.slice(low, max(high - low, 0)))
        return pa.concat_tables(parts) if parts else FILES.empty_table()

    def _kept(self, files: pa.Table) -> pa.Table:
        if self._exclude is None or not files.num_rows:
            return files
        pattern = self._exclude
        mask = [pattern.search(p) is None for p in files.column("path").to_pylist()]
        return files.filter(pa.array(mask, pa.bool_()))

    def forget(self, end: StreamOffset) -> None:
        """Everything up to ``end`` is done with."""
        for version in [v for v in self._known if v < end.version]:
            del self._known[version]
        if not end.initial:
            self._snapshot = None

    # ------------------------------------------------------------------ the log

    def _snapshot_files(self, version: int) -> pa.Table:
        """The files of the table as the stream found it, in an order that never changes."""
        if self._snapshot is None or self._snapshot[0] != version:
            found = self.shape if version == self.shape.version else load(self.log, version)
            files = found.files(columns=COLUMNS)
            files = files.sort_by([("modificationTime", "ascending"), ("path", "ascending")])
            self._snapshot = version, files.combine_chunks()
        return self._snapshot[1]

    def _commits(self, first: int, last: int | None) -> Iterator[tuple[int, LogFile | None]]:
        """The commits from ``first`` on; what is gone from the log is named, or passed over if allowed."""
        listing = list_log(self.log.store, self.log.log_dir, first, last)
        expected = first
        for version in sorted(listing.commits):
            if version < first:
                continue
            if version > expected:
                # A listing may miss what another writer has just put; a second one does not.
                again = list_log(self.log.store, self.log.log_dir, expected, version - 1).commits
                for between in range(expected, version):
                    if between in again:
                        yield between, again[between]
                    elif self.options.fail_on_data_loss:
                        raise self._lost(between)
                # What was lost may have changed the protocol.
                self._enter(version)
            yield version, listing.commits[version]
            expected = version + 1
        known = self.shape.version if last is None else min(last, self.shape.version)
        if expected <= known and self.options.fail_on_data_loss:
            raise self._lost(expected)

    def _lost(self, version: int) -> StreamDataLossError:
        return StreamDataLossError(
            f"The stream stands at version {version}, whose commit is gone from the log.",
            table=self.log.url,
            version=version,
            hint="Log retention has removed it before the stream came there. With failOnDataLoss = false the "
            "stream goes on with the next commit there is, without the rows in between.",
        )

    def _change(self, version: int, found: LogFile | None) -> _Change:
        known = self._known.get(version)
        if known is None:
            assert found is not None
            actions = self.log.dialect.decode(self.log.store.get(found.info.name), found.name.text)
            try:
                known = self._known[version] = self._checked(version, actions)
            except TidegateError as e:
                raise e.at(table=self.log.url, version=version) from None
        return known

    def _checked(self, version: int, actions: CommitActions) -> _Change:
        if actions.protocol is not None:
            self.log.registry.check_read(actions.protocol, table=self.log.url, version=version)
        if actions.metadata is not None:
            self._check_metadata(actions.metadata, version)
        adds, removes = _data(actions.adds), _data(actions.removes)
        if self.options.changes:
            kinds = actions.cdcs or [*adds, *removes]
            sizes = [pc.fill_null(b.column("size"), 0) for b in kinds]
            return _Change(version, FILES.empty_table(), pa.chunked_array(sizes, pa.int64()))
        if removes:
            self._check_removes(version, bool(adds), removes[0].column("path")[0].as_py())
            if self.options.skip_change_commits:
                adds = []
        files = pa.Table.from_batches([b.select(COLUMNS) for b in adds], FILES)
        return _Change(version, files, files.column("size"))

    def _check_metadata(self, metadata: Metadata, version: int) -> None:
        if metadata.id != self.shape.metadata.id:
            raise StreamSchemaChangedError(
                "The table was replaced by another one while the stream was running.",
                table=self.log.url,
                version=version,
                hint="Start the query with a new checkpoint.",
                errorClass="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
            )
        reason = mismatch(metadata, self.shape.metadata)
        if reason is not None:
            again = version > self.shape.version and mismatch(self.shape.metadata, metadata) is None
            raise StreamSchemaChangedError(
                f"The table's schema has changed: {reason}.",
                table=self.log.url,
                version=version,
                hint="Start the query again: it goes on with the new schema, nothing is lost."
                if again
                else "Rows from before and after the change do not fit into one schema. Start a new query "
                "with a new checkpoint, from a startingVersion after the change.",
            )
        if self.options.changes and not properties.get(
            metadata.configuration, properties.ENABLE_CHANGE_DATA_FEED
        ):
            raise ChangeDataMissingError(
                f"Version {version} was written while the change data feed was off.",
                table=self.log.url,
                version=version,
                hint="Stream the feed from the version on that set delta.enableChangeDataFeed = true.",
            )

    def _check_removes(self, version: int, has_adds: bool, path: str) -> None:
        given = self.options
        if given.ignore_changes or given.skip_change_commits:
            return
        if has_adds:
            raise StreamSourceChangedError(
                f"Rows were changed: {path} was replaced by other files.",
                table=self.log.url,
                version=version,
                hint="A stream passes on rows that are added. Set skipChangeCommits = true to leave such "
                "commits out, ignoreChanges = true to get the rewritten files anew (with rows seen before), "
                "or stream the change feed (readChangeFeed = true).",
            )
        if not given.ignore_deletes:
            raise StreamSourceChangedError(
                f"Rows were deleted: {path} was removed.",
                table=self.log.url,
                version=version,
                hint="A stream passes on rows that are added. Set ignoreDeletes = true or "
                "skipChangeCommits = true to leave deletes out, or stream the change feed "
                "(readChangeFeed = true).",
                errorClass="DELTA_SOURCE_IGNORE_DELETE",
            )


def _data(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Of file actions those that change data."""
    kept = [b.filter(b.column("dataChange")) for b in batches]
    return [b for b in kept if b.num_rows]
