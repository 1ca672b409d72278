"""A transaction: what it read, what it writes, and the one loop that publishes it or names the conflict.

Prepare and validate, put-if-absent of the next version; on loss check every winner in order,
rebase, try again. A commit becomes visible with that one put: before it nothing has happened, after
it everything has, and whatever comes later (hooks) cannot undo it. A put whose answer was lost is
recognised by the transaction's id.
Specification: "Delta Log Entries", "Actions"; the conflict rules stand in ``conflicts``.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import msgspec
import pyarrow as pa

from tidegate import properties
from tidegate._version import __version__
from tidegate.errors import (
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    FeaturesMismatchError,
    InvalidCommitError,
    MaxCommitAttemptsError,
    NameTakenError,
    NotATableError,
    ProtocolChangedException,
    StorageError,
    TransactionStateError,
)
from tidegate.files import predicate as predicates
from tidegate.files import row_ids
from tidegate.files.predicate import Predicate
from tidegate.log import checksum as checksums
from tidegate.log import names
from tidegate.log.actions import Action, CommitActions
from tidegate.log.checksum import Checksum
from tidegate.log.replay import SmallState, small_state
from tidegate.log.segment import LogFile, Segment
from tidegate.log.snapshot import Snapshot, load, read_commits
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol import negotiate
from tidegate.protocol.protocol import Protocol
from tidegate.schema.mapping import MAX_COLUMN_ID, assign_mapping, mapping_mode
from tidegate.storage.store import FileInfo
from tidegate.transaction import hooks as after
from tidegate.transaction.conflicts import Isolation, Ours, Winner, conflict, only_identity_moved
from tidegate.transaction.pending import (
    Changes,
    Files,
    Operation,
    Prepared,
    check,
    tracks_rows,
    with_deletion_times,
    with_row_ids,
)
from tidegate.transaction.readset import ReadSet

_log = logging.getLogger(__name__)

ENGINE = f"Tidegate/{__version__}"
MAX_ATTEMPTS = 10_000_000
_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.5
_DAY = 86_400_000
# In the commitInfo of a commit that could not keep the ids of the rows it moved or changed.
_ROWS_PRESERVED = "delta.rowTracking.preserved"

Sleep = Callable[[float], None]
Commit = tuple[LogFile, CommitActions]


@dataclass(frozen=True)
class Committed:
    """A commit that is visible: its version, the snapshot it made and how many tries it took."""

    version: int
    snapshot: Snapshot
    attempts: int
    txn_id: str


@dataclass(frozen=True)
class _State:
    """The table as the loop knows it: the version read, carried on over every winner.

    ``timestamp`` is the last commit's, its own or its file's; ``since`` is what winners wrote
    beside files; ``rows_tracked_since`` says that one of them switched row tracking on.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    timestamp: int | None = None
    row_mark: int | None = None
    checksum: Checksum | None = None
    since: SmallState = field(default_factory=SmallState)
    rows_tracked_since: bool = False


class Transaction:
    """One attempt to change one table. Use it once, from one thread.

    This is the transaction of Delta tables; what index tables do otherwise stands in a subclass.
    """

    dialect_name = "delta"

    def __init__(
        self,
        log: TableLog,
        snapshot: Snapshot | None,
        *,
        defaults: Mapping[str, str] | None = None,
        hooks: tuple[after.Hook, ...] = after.HOOKS,
        sleep: Sleep = time.sleep,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        if log.dialect.name != self.dialect_name:
            raise TransactionStateError(
                f"The log in {log.log_dir} is written by transactions of another kind.",
                table=log.url,
                hint="Use tidegate.index.IndexLog for index tables.",
            )
        self.log = log
        self.snapshot = snapshot
        self.txn_id = str(uuid.uuid4())
        self.read_set = ReadSet()
        self._defaults = defaults
        self._hooks = hooks
        self._sleep = sleep
        self._max_attempts = max_attempts
        self._empty = Metadata(id=str(uuid.uuid4()))
        self._new_metadata: Metadata | None = None
        self._new_protocol: Protocol | None = None
        self._has_written = False
        self._protects = False
        self._finished = False
        if snapshot is not None:
            log.registry.check_write(snapshot.protocol, table=log.url, version=snapshot.version)
        _log.debug("%s: transaction %s begins at version %d", log.url, self.txn_id, self.read_version)

    @classmethod
    def begin(
        cls,
        url: str | PathLike[str] | TableLog,
        storage_options: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Transaction:
        """A transaction on the table at ``url`` as it is now; read version -1 where there is none."""
        log = url if isinstance(url, TableLog) else TableLog.at(url, storage_options)
        snapshot: Snapshot | None
        try:
            snapshot = load(log)
        except NotATableError:
            snapshot = None
        return cls(log, snapshot, **settings)

    # ------------------------------------------------------------------ the table as it would be

    @property
    def read_version(self) -> int:
        """The version this transaction reads; -1 on a path without a log."""
        return -1 if self.snapshot is None else self.snapshot.version

    @property
    def metadata(self) -> Metadata:
        """The metadata as this transaction will leave it."""
        if self._new_metadata is not None:
            return self._new_metadata
        return self._empty if self.snapshot is None else self.snapshot.metadata

    @property
    def protocol(self) -> Protocol:
        """The protocol as this transaction will leave it."""
        if self._new_protocol is not None:
            return self._new_protocol
        if self.snapshot is None:
            return negotiate.for_new_table(self.metadata, self._defaults, self.log.registry)
        return self.snapshot.protocol

    # ------------------------------------------------------------------ reading

    def files(
        self, predicate: str | Predicate | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The live files that may match; both the predicate and the files count as read."""
        if self.snapshot is None:
            schema = self.log.dialect.form.adds
            return schema.empty_table().select(list(columns or schema.names))
        if isinstance(predicate, str):
            predicate = predicates.parse(predicate)
        if predicate is not None:
            predicate = predicate.resolve(self.snapshot.schema)
        found = self.snapshot.files(predicate, columns)
        if predicate is None:
            self.read_table()
        else:
            self.read_set = self.read_set.with_predicate(predicate)
            self.read_files(found)
        return found

    def read_table(self) -> None:
        """Record that the whole table was read."""
        self.read_set = self.read_set.with_table()

    def read_files(self, files: pa.Table | pa.RecordBatch) -> None:
        """Record that these files were read."""
        paths = files.column("path")
        if isinstance(paths, pa.ChunkedArray):
            paths = paths.combine_chunks()
        self.read_set = self.read_set.with_files(paths)

    def app_version(self, app_id: str) -> int | None:
        """How far an application has come; from here on its ``txn`` counts as read."""
        self.read_set = self.read_set.with_app(app_id)
        found = self.snapshot.transactions.get(app_id) if self.snapshot is not None else None
        return None if found is None else found.version

    # ------------------------------------------------------------------ changing

    @property
    def has_written(self) -> bool:
        """Whether files have been written in this transaction."""
        return self._has_written

    def mark_written(self) -> None:
        """Data files are about to be written: from here on the metadata stands.

        Set before the job starts, and it stays set when the job fails.
        """
        self._has_written = True

    def update_metadata(self, metadata: Metadata) -> None:
        """Give the table new metadata, and the protocol whatever the metadata needs."""
        if self._has_written:
            raise TransactionStateError(
                "Cannot update the metadata in a transaction that has already written data.",
                table=self.log.url,
                hint="Change the metadata before the first file is written.",
            )
        if self._new_metadata is not None:
            raise TransactionStateError(
                "The metadata has been changed in this transaction already.",
                table=self.log.url,
                hint="Put both changes into one.",
            )
        if self.snapshot is None:
            self._create(metadata)
        else:
            self._change(metadata, self.snapshot)

    def move_identity(self, metadata: Metadata) -> None:
        """Move the marks of identity columns; also after data was written, which is when they are known."""
        if not only_identity_moved(self.metadata, metadata):
            raise TransactionStateError(
                "Only the marks of identity columns may move here.",
                table=self.log.url,
                hint="Change other metadata before the first file is written.",
            )
        if metadata != self.metadata:
            self._new_metadata = metadata

    def _create(self, metadata: Metadata) -> None:
        protocol = self._protocol_to_create(metadata)
        configuration = negotiate.configuration_for_new_table(metadata.configuration, self._defaults)
        metadata = _mapped(metadata.with_configuration(properties.validate(configuration)), None)
        metadata = tracked(metadata)
        metadata.validate()
        if metadata.created_time is None:
            metadata = msgspec.structs.replace(metadata, created_time=self.log.clock())
        self._new_metadata, self._new_protocol = metadata, protocol

    def _protocol_to_create(self, metadata: Metadata) -> Protocol:
        protocol = negotiate.for_new_table(metadata, self._defaults, self.log.registry)
        asked = self._new_protocol
        return protocol if asked is None else asked.merge(protocol, rules=self.log.registry.rules)

    def _change(self, metadata: Metadata, snapshot: Snapshot) -> None:
        registry = self.log.registry
        current = self._new_protocol or snapshot.protocol
        before = snapshot.metadata.configuration
        # Only what is being set now speaks to the protocol; what some writer once stored does not.
        asked = {k: v for k, v in metadata.configuration.items() if before.get(k) != v}
        protocol, stored = negotiate.apply_properties(current, asked, registry)
        kept = {k: v for k, v in metadata.configuration.items() if k not in asked}
        configuration = {**negotiate.strip_protocol_properties(kept), **stored}
        metadata = tracked(_mapped(metadata.with_configuration(configuration), snapshot.metadata))
        metadata.validate()
        protocol = negotiate.check_requirements(metadata, protocol, registry) or protocol
        self._new_metadata = metadata
        if protocol != snapshot.protocol:
            self._new_protocol = protocol

    def update_protocol(
        self,
        protocol: Protocol,
        *,
        dropped: str | None = None,
        protect: bool = False,
        lowers: bool = False,
    ) -> None:
        """Give the table a new protocol; it may only lose the one feature that is being dropped.

        With ``protect`` the versions before this commit are protected from it on, whichever it becomes.
        With ``lowers`` it may lose others too: the caller answers for it that nothing of them is left.
        """
        if lowers:
            self.log.registry.check_write(protocol, table=self.log.url)
        else:
            self._check_transition(protocol, dropped)
        self._new_protocol = protocol
        self._protects = protect

    def _check_transition(self, protocol: Protocol, dropped: str | None = None) -> None:
        if self.snapshot is not None:
            negotiate.check_transition(
                self.snapshot.protocol, protocol, dropped=dropped, registry=self.log.registry
            )
        self.log.registry.check_write(protocol, table=self.log.url)

    # ------------------------------------------------------------------ the commit

    def commit(
        self,
        actions: Iterable[Action] = (),
        operation: Operation | str = "WRITE",
        *,
        adds: Files = None,
        removes: Files = None,
        cdcs: Files = None,
        metrics: Mapping[str, Any] | None = None,
        user_metadata: str | None = None,
        tags: Mapping[str, str] | None = None,
        retry: bool = True,
    ) -> Committed:
        """Publish the actions as the next version, or raise the conflict that forbids it.

        File actions may come as structs among ``actions`` or as Arrow tables in ``adds``,
        ``removes`` and ``cdcs``. Without ``retry`` the first lost race is a ``ConcurrentWriteException``.
        """
        if self._finished:
            raise TransactionStateError("This transaction is over; begin a new one.", table=self.log.url)
        self._finished = True
        form = self.log.dialect.form
        changes = self._with_head(Changes.of(actions, adds=adds, removes=removes, cdcs=cdcs, form=form))
        # Who moves an application on must not move it twice: its ``txn`` counts as read.
        for txn in changes.txns:
            self.read_set = self.read_set.with_app(txn.app_id)
        state = self._start()
        self._check(changes, state)
        _log.debug("%s: %s; checked against version %d", self.log.url, changes.described, state.version)
        note = _CommitNote(
            Operation(operation) if isinstance(operation, str) else operation,
            metrics,
            user_metadata,
            tags,
            self._isolation(changes),
            self._is_blind(changes),
            self.read_version,
            self.txn_id,
        )
        prepared, attempts = self._publish(changes, state, note, retry)
        return self._committed(prepared, attempts)

    def _with_head(self, changes: Changes) -> Changes:
        """``changes`` with the protocol and the metadata of this transaction, each checked on its way."""
        protocol, metadata = changes.protocol, changes.metadata
        if metadata is not None and self._new_metadata is not None:
            raise _twice("metaData").at(table=self.log.url)
        if protocol is not None:
            known = self._new_protocol
            if known is not None and not known.can_upgrade_to(protocol, self.log.registry.rules):
                raise _twice("protocol").at(table=self.log.url)
            self._check_transition(protocol)
        elif metadata is not None:
            protocol = self._protocol_for(metadata)
        return replace(
            changes, protocol=protocol or self._new_protocol, metadata=metadata or self._new_metadata
        )

    def _protocol_for(self, metadata: Metadata) -> Protocol | None:
        """What metadata that comes among the actions needs beyond the protocol there is."""
        negotiate.assert_no_protocol_properties(metadata.configuration)
        if self._has_written and not only_identity_moved(self.metadata, metadata):
            raise TransactionStateError(
                "Cannot update the metadata in a transaction that has already written data.",
                table=self.log.url,
                hint="Only the marks of identity columns may still move.",
            )
        if self.snapshot is None:
            return self._protocol_to_create(metadata)
        return negotiate.check_requirements(
            metadata, self._new_protocol or self.snapshot.protocol, self.log.registry
        )

    def _start(self) -> _State:
        s = self.snapshot
        if s is None:
            return _State(-1, self.protocol, self.metadata)
        return _State(
            s.version,
            s.protocol,
            s.metadata,
            s.timestamp_ms if _keeps_time(s.metadata) else None,
            self._row_mark(s.protocol, SmallState()),
            after.known_checksum(s) if self.log.dialect.checksums else None,
        )

    def _row_mark(self, protocol: Protocol, since: SmallState) -> int | None:
        """The highest row id given out, None while there is none."""
        if not protocol.supports("rowTracking"):
            return None
        found = since.domains.get(row_ids.DOMAIN)
        if found is None and self.snapshot is not None:
            found = self.snapshot.domains.get(row_ids.DOMAIN)
        return None if found is None or found.removed else row_ids.decode_mark(found.configuration)

    def _check(self, changes: Changes, state: _State) -> None:
        registry = self.log.registry
        protocol = changes.protocol or state.protocol
        metadata = changes.metadata or state.metadata
        if changes.metadata is not None:
            negotiate.assert_no_protocol_properties(changes.metadata.configuration)
            changes.metadata.validate()
        if changes.protocol is not None:
            changes.protocol.validate(registry.rules)
        registry.check_write(protocol, table=self.log.url)
        if changes.metadata is not None or changes.protocol is not None:
            negotiate.assert_features_match(protocol, metadata, registry)
        # A legacy protocol that the table had already is left alone, one that we write is not.
        if changes.metadata is not None or not state.protocol.can_upgrade_to(protocol, registry.rules):
            needed = negotiate.upgrade_for_metadata(protocol, metadata, registry)
            if needed is not None:
                lacking = sorted(needed.features(registry.rules) - protocol.features(registry.rules))
                raise FeaturesMismatchError(
                    f"the metadata uses features that the {protocol} lacks: {', '.join(lacking)}",
                    table=self.log.url,
                )
        before = None if self.snapshot is None else state.metadata
        check(changes, protocol, metadata, before=before)

    def _isolation(self, changes: Changes) -> Isolation:
        return Isolation.SNAPSHOT if changes.only_rearranges else Isolation.SERIALIZABLE

    def _is_blind(self, changes: Changes) -> bool:
        """Whether this commit would be the same whatever the table held."""
        return not (changes.removes or changes.cdcs) and self.read_set.empty

    def _publish(
        self, changes: Changes, state: _State, note: _CommitNote, retry: bool
    ) -> tuple[Prepared, int]:
        """The loop. Returns the attempt that became visible, and how many there were."""
        attempts = 0
        self._winners: list[Commit] = []
        self._check_reachable()
        while True:
            attempts += 1
            prepared = self._prepare(changes, state, note)
            _log.debug("%s: attempt %d at version %d", self.log.url, attempts, prepared.version)
            winners = self._put(prepared)
            if winners is None:
                self._after_state = state
                return prepared, attempts
            if not retry:
                raise ConcurrentWriteException(
                    f"Another writer committed version {prepared.version} first.",
                    table=self.log.url,
                    version=prepared.version,
                    hint="Run the operation again on the table as it is now.",
                )
            if attempts >= self._max_attempts:
                raise MaxCommitAttemptsError(
                    f"The commit lost {attempts} races for a version and gives up.",
                    table=self.log.url,
                    version=prepared.version,
                )
            for found, actions in winners:
                changes = self._rebased(changes, state, actions)
                state = self._after(changes, state, note, found, actions)
            self._winners += winners
            if attempts > 1:
                pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempts, 10))
                self._sleep(pause * random.random())

    def _check_reachable(self) -> None:
        """Refuse a version read so long ago that a cleanup may have taken away what came after it.

        The next version would look free, and what is put there nobody would ever see. Cleanup only
        takes what is older than a day's beginning, so most commits need not ask.
        """
        s = self.snapshot
        if s is None or s.timestamp_ms // _DAY >= self.log.clock() // _DAY or s.still_there():
            return
        raise ConcurrentWriteException(
            f"The log no longer goes on from version {s.version}, which this transaction has read.",
            table=self.log.url,
            version=s.version,
            hint="Log retention was at work; run the operation again on the table as it is now.",
        )

    def _rebased(self, changes: Changes, state: _State, winner: CommitActions) -> Changes:
        """The changes as they are to follow ``winner``, where they take over some of what it did."""
        return changes

    def _conflict(self, ours: Ours, winner: Winner) -> DeltaConcurrentModificationException | None:
        return conflict(ours, winner)

    def _put(self, prepared: Prepared) -> list[Commit] | None:
        """Put the next version: None when it is ours, also if the answer was lost, else the winners."""
        name = self.log.commit_path(prepared.version)
        dialect = self.log.dialect
        data = dialect.encode(prepared.encode(commit_info=dialect.commit_info))
        try:
            self.log.store.put_if_absent(name, data)
            return None
        except NameTakenError:
            found = read_commits(self.log, prepared.version)
        except StorageError as e:
            # The bytes may have arrived although the answer did not: only the log can tell.
            if not self._arrived(prepared.version, data, e):
                raise
            return None
        return None if self._is_ours(found, data) else found

    def _is_ours(self, found: list[Commit], data: bytes) -> bool:
        if not found or self.log.dialect.commit_info:
            return bool(found) and found[0][1].commit_info.get("txnId") == self.txn_id
        # Commits without an id are known by their bytes: the files they add have names that nobody repeats.
        return self.log.store.get(found[0][0].info.name) == data

    def _arrived(self, version: int, data: bytes, error: StorageError) -> bool:
        """Whether the commit is there after all; where that cannot be known, ``error`` says so."""
        try:
            found = read_commits(self.log, version, limit=1)
        except StorageError:
            found = []
        if not found:
            # The store cannot be reached, or the put is still on its way.
            error.at(table=self.log.url, version=version)
            sign = f"its txnId is {self.txn_id}" if self.log.dialect.commit_info else "it holds your files"
            error.hint = (
                f"Whether version {version} is written is not known: look whether {sign} before you run the "
                "operation again."
            )
        return self._is_ours(found, data)

    def _prepare(self, changes: Changes, state: _State, note: _CommitNote) -> Prepared:
        """The changes as they will stand in the version after ``state``."""
        version = state.version + 1
        protocol = changes.protocol or state.protocol
        metadata = changes.metadata or state.metadata
        now = self.log.clock()
        own_time: int | None = None
        if _keeps_time(metadata):
            before = state.timestamp
            if before is None and self.snapshot is not None:
                before = self.snapshot.timestamp_ms
            own_time = now if before is None else max(now, before + 1)
            changes = _with_provenance(changes, state.metadata, version, own_time)
        if self._protects:
            changes = _with_boundary(changes, metadata, version)
        mark = state.row_mark
        if tracks_rows(protocol, metadata):
            changes, mark = with_row_ids(changes, mark, version)
        changes = with_deletion_times(changes, now if own_time is None else own_time)
        if state.rows_tracked_since:
            note = replace(note, tags={**(note.tags or {}), _ROWS_PRESERVED: "false"})
        return Prepared(version, changes, note.render(now, own_time), own_time, mark)

    def _after(
        self,
        changes: Changes,
        state: _State,
        note: _CommitNote,
        found: LogFile,
        actions: CommitActions,
    ) -> _State:
        """Carry the state over one winner, or raise the conflict."""
        version = found.name.version
        winner = Winner(version, actions, actions.commit_info)
        ours = Ours(
            read=self.read_set,
            protocol=state.protocol,
            metadata=state.metadata,
            adds=changes.adds,
            removes=changes.removes,
            new_protocol=changes.protocol,
            new_metadata=changes.metadata,
            domains=changes.domains,
            isolation=note.isolation,
            blind_append=note.is_blind,
            registry=self.log.registry,
        )
        _log.debug("%s: %s came first", self.log.url, winner.described)
        problem: DeltaConcurrentModificationException | None
        if state.version < 0:
            problem = ProtocolChangedException(
                "Another writer created the table first.",
                hint="Run the operation again on the table as it is now.",
            )
        else:
            problem = self._conflict(ours, winner)
        if problem is not None:
            _log.debug("%s: in conflict with it: %s", self.log.url, type(problem).__name__)
            raise problem.at(table=self.log.url, version=version)
        protocol = actions.protocol or state.protocol
        metadata = actions.metadata or state.metadata
        if actions.protocol is not None:
            self.log.registry.check_write(protocol, table=self.log.url, version=version)
        since = small_state(actions).over(state.since)
        own = winner.info.get("inCommitTimestamp")
        own = own if isinstance(own, int) else None
        new = _State(
            version,
            protocol,
            metadata,
            own if own is not None else found.info.modified,
            self._row_mark(protocol, since),
            self._advance(state, actions, winner.info.get("txnId"), own),
            since,
            state.rows_tracked_since or (_keeps_rows(metadata) and not _keeps_rows(state.metadata)),
        )
        if actions.protocol is not None or actions.metadata is not None:
            # What we commit was checked against a table that is no more.
            self._check(changes, new)
        _log.debug("%s: no conflict; rebased onto version %d", self.log.url, version)
        return new

    def _small(self, state: _State) -> SmallState:
        return state.since if self.snapshot is None else state.since.over(self.snapshot.small)

    def _advance(
        self, state: _State, actions: CommitActions, txn_id: str | None, own_time: int | None
    ) -> Checksum | None:
        """The checksum after ``actions``, None where it does not follow from the one before.

        No commit fails for the sake of a checksum, which anybody may leave out.
        """
        previous = state.checksum
        if not self.log.dialect.checksums or (previous is None and state.version >= 0):
            return None
        try:
            small = small_state(actions).over(self._small(state))
            if previous is None:
                previous = checksums.of_state(checksums.count([]), small, all_files=[])
            return checksums.advance(
                previous, small, actions.adds, actions.removes, txn_id=txn_id, in_commit_timestamp=own_time
            )
        except Exception:
            at = state.version + 1
            _log.warning("%s: the checksum of version %d is left out", self.log.url, at, exc_info=True)
            return None

    def _committed(self, prepared: Prepared, attempts: int) -> Committed:
        """The commit stands: make its snapshot from what is at hand, then run the hooks."""
        _log.debug("%s: version %d is committed (%s)", self.log.url, prepared.version, self.txn_id)
        actions = prepared.as_actions()
        checksum = self._advance(self._after_state, actions, self.txn_id, prepared.in_commit_timestamp)
        snapshot = self._next_snapshot(prepared, actions, checksum)
        after.run(self._hooks, after.AfterCommit(snapshot, prepared, checksum))
        return Committed(prepared.version, snapshot, attempts, self.txn_id)

    def _next_snapshot(
        self, prepared: Prepared, actions: CommitActions, checksum: Checksum | None
    ) -> Snapshot:
        name = names.parse(names.commit(prepared.version))
        assert name is not None
        path = self.log.commit_path(prepared.version)
        try:
            info = self.log.store.head(path)
        except StorageError:
            info = FileInfo(path, -1, self.log.clock())
        new = [*self._winners, (LogFile(name, info), actions)]
        if self.snapshot is None:
            segment = Segment(prepared.version, None, tuple(f for f, _ in new), (), None)
            decoded = {f.name.text: a for f, a in new}
            return Snapshot.of(self.log, segment, decoded=decoded, checksum=checksum)
        return self.snapshot.advanced(new, checksum=checksum)


@dataclass(frozen=True)
class _CommitNote:
    """What commitInfo says of this commit in every attempt."""

    operation: Operation
    metrics: Mapping[str, Any] | None
    user_metadata: str | None
    tags: Mapping[str, str] | None
    isolation: Isolation
    is_blind: bool
    read_version: int
    txn_id: str

    def render(self, now: int, own_time: int | None) -> dict[str, Any]:
        info: dict[str, Any] = {}
        if own_time is not None:
            info["inCommitTimestamp"] = own_time
        info["timestamp"] = now if own_time is None else own_time
        info["operation"] = self.operation.name
        info["operationParameters"] = {k: _text(v) for k, v in self.operation.parameters.items()}
        if self.read_version >= 0:
            info["readVersion"] = self.read_version
        info["isolationLevel"] = self.isolation.value
        info["isBlindAppend"] = self.is_blind
        info["operationMetrics"] = {k: _text(v) for k, v in (self.metrics or {}).items()}
        if self.user_metadata is not None:
            info["userMetadata"] = self.user_metadata
        if self.tags:
            info["tags"] = dict(self.tags)
        info["engineInfo"] = ENGINE
        info["txnId"] = self.txn_id
        return info


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _twice(name: str) -> InvalidCommitError:
    return InvalidCommitError(
        f"A commit holds at most one {name} action.",
        hint="It was changed in the transaction already; leave it out of the actions.",
    )


def _keeps_time(metadata: Metadata) -> bool:
    return metadata.property(properties.ENABLE_IN_COMMIT_TIMESTAMPS)


def _keeps_rows(metadata: Metadata) -> bool:
    return metadata.property(properties.ENABLE_ROW_TRACKING)


def _mapped(metadata: Metadata, before: Metadata | None) -> Metadata:
    """Metadata with an id and a physical name on every column, where the table maps its columns."""
    if mapping_mode(metadata) == "none":
        return metadata
    highest = properties.get(metadata.configuration, properties.COLUMN_MAPPING_MAX_ID)
    if before is not None and mapping_mode(before) == "none":
        # Mapping is being switched on: the files there are have the names the user sees.
        schema, highest = assign_mapping(metadata.schema, highest, new_name=lambda f: f.name)
    else:
        schema, highest = assign_mapping(metadata.schema, highest)
    configuration = {**metadata.configuration, MAX_COLUMN_ID: str(highest)}
    return metadata.with_schema(schema).with_configuration(configuration)


def _with_boundary(changes: Changes, metadata: Metadata, version: int) -> Changes:
    """New metadata that protects every version before the commit's own, wherever a race has put it."""
    base = changes.metadata or metadata
    boundary = {properties.REQUIRE_CHECKPOINT_PROTECTION_BEFORE.key: str(version)}
    return replace(changes, metadata=base.with_configuration({**base.configuration, **boundary}))


def tracked(metadata: Metadata) -> Metadata:
    """Metadata that names the hidden columns for ids of rows that move, where the table tracks its rows."""
    if not _keeps_rows(metadata):
        return metadata
    names = {
        properties.ROW_ID_COLUMN_NAME.key: f"_row-id-col-{uuid.uuid4()}",
        properties.ROW_COMMIT_VERSION_COLUMN_NAME.key: f"_row-commit-version-col-{uuid.uuid4()}",
    }
    return metadata.with_configuration({**names, **metadata.configuration})


def _with_provenance(changes: Changes, before: Metadata, version: int, own_time: int) -> Changes:
    """New metadata that says since when the table keeps in-commit timestamps.

    The commit that switches them on later than version 0 says so itself; those after it hand it on.
    """
    if changes.metadata is None or version == 0:
        return changes
    at, when = properties.IN_COMMIT_TIMESTAMP_VERSION.key, properties.IN_COMMIT_TIMESTAMP_TIMESTAMP.key
    if _keeps_time(before):
        provenance = {k: before.configuration[k] for k in (at, when) if k in before.configuration}
    else:
        provenance = {at: str(version), when: str(own_time)}
    rest = {k: v for k, v in changes.metadata.configuration.items() if k not in (at, when)}
    return replace(changes, metadata=changes.metadata.with_configuration({**rest, **provenance}))
