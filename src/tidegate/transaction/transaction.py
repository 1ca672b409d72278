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
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import msgspec
import pyarrow as pa

from tidegate import properties
from tidegate._version import __version__
from tidegate.errors import (
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MaxCommitAttemptsError,
    NameTakenError,
    NotATableError,
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
from tidegate.transaction.conflicts import Isolation, Ours, Winner, conflict
from tidegate.transaction.pending import (
    Changes,
    Files,
    Operation,
    Prepared,
    check,
    tracks_rows,
    with_row_ids,
)
from tidegate.transaction.readset import ReadSet

_log = logging.getLogger(__name__)

ENGINE = f"Tidegate/{__version__}"
MAX_ATTEMPTS = 10_000_000
_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.5

Sleep = Callable[[float], None]


@dataclass(frozen=True)
class Committed:
    """A commit that is visible: its version, the snapshot it made and how many tries it took."""

    version: int
    snapshot: Snapshot
    attempts: int
    txn_id: str


@dataclass(frozen=True)
class _State:
    """The table as the loop knows it: the version read, carried on over every winner."""

    version: int
    protocol: Protocol
    metadata: Metadata
    in_commit_timestamp: int | None
    row_mark: int | None
    checksum: Checksum | None
    small: SmallState | None


class Transaction:
    """One attempt to change one table. Use it once, from one thread."""

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
        self.log = log
        self.snapshot = snapshot
        self.txn_id = str(uuid.uuid4())
        self.read_set = ReadSet()
        self._defaults = defaults
        self._hooks = hooks
        self._sleep = sleep
        self._max_attempts = max_attempts
        self._new_metadata: Metadata | None = None
        self._new_protocol: Protocol | None = None
        self._has_written = False
        self._finished = False
        if snapshot is not None:
            log.registry.check_write(snapshot.protocol, table=log.url, version=snapshot.version)

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
        return _EMPTY if self.snapshot is None else self.snapshot.metadata

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
            return pa.table({})
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

    def _create(self, metadata: Metadata) -> None:
        protocol = negotiate.for_new_table(metadata, self._defaults, self.log.registry)
        configuration = negotiate.configuration_for_new_table(metadata.configuration, self._defaults)
        metadata = _mapped(metadata.with_configuration(properties.validate(configuration)), new=True)
        metadata.validate()
        if metadata.created_time is None:
            metadata = msgspec.structs.replace(metadata, created_time=self.log.clock())
        self._new_metadata, self._new_protocol = metadata, protocol

    def _change(self, metadata: Metadata, snapshot: Snapshot) -> None:
        registry = self.log.registry
        current = self._new_protocol or snapshot.protocol
        protocol, configuration = negotiate.apply_properties(current, metadata.configuration, registry)
        metadata = _mapped(metadata.with_configuration(configuration), new=False)
        metadata.validate()
        protocol = negotiate.check_requirements(metadata, protocol, registry) or protocol
        self._new_metadata = metadata
        if protocol != snapshot.protocol:
            self._new_protocol = protocol

    def update_protocol(self, protocol: Protocol, *, dropped: str | None = None) -> None:
        """Give the table a new protocol; it may only lose the one feature that is being dropped."""
        if self.snapshot is not None:
            negotiate.check_transition(
                self.snapshot.protocol, protocol, dropped=dropped, registry=self.log.registry
            )
        self.log.registry.check_write(protocol, table=self.log.url)
        self._new_protocol = protocol

    # ------------------------------------------------------------------ the commit

    def commit(
        self,
        actions: Iterable[Action] = (),
        operation: Operation | str = "WRITE",
        *,
        adds: Files = None,
        removes: Files = None,
        metrics: Mapping[str, Any] | None = None,
        user_metadata: str | None = None,
        tags: Mapping[str, str] | None = None,
        retry: bool = True,
    ) -> Committed:
        """Publish the actions as the next version, or raise the conflict that forbids it.

        File actions may come as structs among ``actions`` or as Arrow tables in ``adds`` and
        ``removes``. Without ``retry`` the first lost race is a ``ConcurrentWriteException``.
        """
        if self._finished:
            raise TransactionStateError("This transaction is over; begin a new one.", table=self.log.url)
        self._finished = True
        changes = Changes.of(actions, adds=adds, removes=removes)
        changes = replace(
            changes,
            protocol=changes.protocol or self._new_protocol,
            metadata=changes.metadata or self._new_metadata,
        )
        state = self._start()
        self._check(changes, state)
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

    def _start(self) -> _State:
        s = self.snapshot
        if s is None:
            return _State(-1, self.protocol, self.metadata, None, None, None, None)
        mark = s.domains.get(row_ids.DOMAIN) if s.protocol.supports("rowTracking") else None
        return _State(
            s.version,
            s.protocol,
            s.metadata,
            s.in_commit_timestamp,
            None if mark is None else row_ids.decode_mark(mark.configuration),
            after.known_checksum(s),
            None,
        )

    def _check(self, changes: Changes, state: _State) -> None:
        protocol = changes.protocol or state.protocol
        metadata = changes.metadata or state.metadata
        if changes.metadata is not None:
            negotiate.assert_no_protocol_properties(changes.metadata.configuration)
        if changes.protocol is not None:
            changes.protocol.validate()
        self.log.registry.check_write(protocol, table=self.log.url)
        if changes.metadata is not None or changes.protocol is not None:
            negotiate.assert_features_match(protocol, metadata, self.log.registry)
        check(changes, protocol, metadata, first=self.snapshot is None)

    def _isolation(self, changes: Changes) -> Isolation:
        return Isolation.SNAPSHOT if changes.only_rearranges else Isolation.SERIALIZABLE

    def _is_blind(self, changes: Changes) -> bool:
        return bool(changes.adds) and not (changes.removes or changes.cdcs) and self.read_set.empty

    def _publish(
        self, changes: Changes, state: _State, note: _CommitNote, retry: bool
    ) -> tuple[Prepared, int]:
        """The loop. Returns the attempt that became visible, and how many there were."""
        attempts = 0
        self._winners: list[tuple[LogFile, CommitActions]] = []
        while True:
            attempts += 1
            prepared = self._prepare(changes, state, note)
            _log.debug("%s: attempt %d at version %d", self.log.url, attempts, prepared.version)
            if self._put(prepared):
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
            winners = read_commits(self.log, prepared.version)
            for found, actions in winners:
                changes, state = self._after(changes, state, note, found, actions)
            self._winners += winners
            if attempts > 1:
                pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempts, 10))
                self._sleep(pause * random.random())

    def _put(self, prepared: Prepared) -> bool:
        """Put the next version if nobody has; True when it is ours, also if the answer was lost."""
        name = self.log.commit_path(prepared.version)
        try:
            self.log.store.put_if_absent(name, prepared.encode())
            return True
        except NameTakenError:
            return self._is_ours(prepared.version)
        except StorageError:
            # The bytes may have arrived although the answer did not: only the log can tell.
            if self._is_ours(prepared.version):
                return True
            raise

    def _is_ours(self, version: int) -> bool:
        found = read_commits(self.log, version, limit=1)
        return bool(found) and found[0][1].commit_info.get("txnId") == self.txn_id

    def _prepare(self, changes: Changes, state: _State, note: _CommitNote) -> Prepared:
        """The changes as they will stand in the version after ``state``."""
        version = state.version + 1
        protocol = changes.protocol or state.protocol
        metadata = changes.metadata or state.metadata
        now = self.log.clock()
        own_time: int | None = None
        if properties.get(metadata.configuration, properties.ENABLE_IN_COMMIT_TIMESTAMPS):
            before = state.in_commit_timestamp
            if before is None and self.snapshot is not None:
                before = self.snapshot.timestamp_ms
            own_time = now if before is None else max(now, before + 1)
            changes = _with_provenance(changes, state, version, own_time)
        mark = state.row_mark
        if tracks_rows(protocol, metadata):
            changes, mark = with_row_ids(changes, mark, version)
        return Prepared(version, changes, note.render(now, own_time), own_time, mark)

    def _after(
        self,
        changes: Changes,
        state: _State,
        note: _CommitNote,
        found: LogFile,
        actions: CommitActions,
    ) -> tuple[Changes, _State]:
        """Carry changes and state over one winner, or raise the conflict."""
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
        )
        problem: DeltaConcurrentModificationException | None
        if state.version < 0:
            problem = ConcurrentWriteException(
                "Another writer created the table first.", hint="Run the operation again."
            )
        else:
            problem = conflict(ours, winner)
        if problem is not None:
            raise problem.at(table=self.log.url, version=version)
        protocol = actions.protocol or state.protocol
        if actions.protocol is not None:
            self.log.registry.check_write(protocol, table=self.log.url, version=version)
        mark = next((d for d in actions.domains if d.domain == row_ids.DOMAIN), None)
        own = winner.info.get("inCommitTimestamp")
        return changes, _State(
            version,
            protocol,
            actions.metadata or state.metadata,
            own if isinstance(own, int) else found.info.modified,
            state.row_mark if mark is None else row_ids.decode_mark(mark.configuration),
            self._advance(state, actions, winner.info.get("txnId"), own),
            small_state(actions).over(self._small(state)),
        )

    def _small(self, state: _State) -> SmallState:
        if state.small is not None:
            return state.small
        return self.snapshot.small if self.snapshot is not None else SmallState()

    def _advance(
        self, state: _State, actions: CommitActions, txn_id: str | None, own_time: int | None
    ) -> Checksum | None:
        """The checksum after ``actions``, None where it does not follow from the one before."""
        small = small_state(actions).over(self._small(state))
        if state.version < 0:
            empty = checksums.of_state(checksums.count([]), small, all_files=[])
            return checksums.advance(
                empty, small, actions.adds, actions.removes, txn_id=txn_id, in_commit_timestamp=own_time
            )
        if state.checksum is None:
            return None
        return checksums.advance(
            state.checksum, small, actions.adds, actions.removes, txn_id=txn_id, in_commit_timestamp=own_time
        )

    def _committed(self, prepared: Prepared, attempts: int) -> Committed:
        """The commit stands: make its snapshot from what is at hand, then run the hooks."""
        actions = prepared.as_actions()
        checksum = None
        try:
            checksum = self._advance(
                self._after_state, actions, self.txn_id, prepared.in_commit_timestamp
            )
        except Exception:
            _log.warning("%s: the checksum of version %d is left out", self.log.url, prepared.version, exc_info=True)
        snapshot = self._next_snapshot(prepared, actions, checksum)
        _log.debug("%s: version %d is committed (%s)", self.log.url, prepared.version, self.txn_id)
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
            return Snapshot(self.log, segment, decoded=decoded, checksum=checksum)
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


_EMPTY = Metadata(id=str(uuid.UUID(int=0)))


def _mapped(metadata: Metadata, *, new: bool) -> Metadata:
    """Metadata with an id and a physical name on every column, where the table maps its columns."""
    if mapping_mode(metadata) == "none":
        return metadata
    highest = properties.get(metadata.configuration, properties.COLUMN_MAPPING_MAX_ID)
    if new:
        schema, highest = assign_mapping(metadata.schema, highest)
    elif highest == 0:
        # Mapping is being switched on: the files there are have the names the user sees.
        schema, highest = assign_mapping(metadata.schema, highest, new_name=lambda f: f.name)
    else:
        schema, highest = assign_mapping(metadata.schema, highest)
    configuration = {**metadata.configuration, MAX_COLUMN_ID: str(highest)}
    return metadata.with_schema(schema).with_configuration(configuration)


def _with_provenance(changes: Changes, state: _State, version: int, own_time: int) -> Changes:
    """A commit that switches in-commit timestamps on later than version 0 says when that was."""
    if changes.metadata is None or version == 0:
        return changes
    if properties.get(state.metadata.configuration, properties.ENABLE_IN_COMMIT_TIMESTAMPS):
        return changes
    configuration = {
        **changes.metadata.configuration,
        properties.IN_COMMIT_TIMESTAMP_VERSION.key: str(version),
        properties.IN_COMMIT_TIMESTAMP_TIMESTAMP.key: str(own_time),
    }
    return replace(changes, metadata=changes.metadata.with_configuration(configuration))
