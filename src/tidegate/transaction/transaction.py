"""A transaction: what it read, what it changes, and the commit of both.

What is to be written is checked, then handed to the commit loop (``loop``), which publishes it or names
the conflict. A commit becomes visible with one put: before it nothing has happened, after it everything
has, and whatever comes later (hooks) cannot undo it.
Specification: "Delta Log Entries", "Actions"; the conflict rules stand in ``conflicts``.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import msgspec
import pyarrow as pa

from tidegate import properties
from tidegate.errors import (
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    FeaturesMismatchError,
    InvalidCommitError,
    NotATableError,
    StorageError,
    TransactionStateError,
)
from tidegate.files import predicate as predicates
from tidegate.files.predicate import Predicate
from tidegate.log import names
from tidegate.log.actions import Action
from tidegate.log.checksum import Checksum
from tidegate.log.commits import CommitActions
from tidegate.log.segment import LogFile, Segment
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol import negotiate
from tidegate.protocol.protocol import Protocol
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.names import check_names, check_partition_types
from tidegate.storage.store import FileInfo
from tidegate.transaction import hooks as after
from tidegate.transaction.commit_info import ENGINE, CommitNote
from tidegate.transaction.conflicts import Isolation, Ours, Winner, conflict, only_identity_moved
from tidegate.transaction.loop import CommitLoop, Published, Rules, Sleep
from tidegate.transaction.pending import Changes, Files, Operation
from tidegate.transaction.prepared import Prepared
from tidegate.transaction.readset import ReadSet
from tidegate.transaction.state import State
from tidegate.transaction.upkeep import mapped, tracked
from tidegate.transaction.validate import check

__all__ = ["ENGINE", "Committed", "Transaction", "tracked"]

_log = logging.getLogger(__name__)

_DAY = 86_400_000


@dataclass(frozen=True)
class Committed:
    """A commit that is visible: its version, the snapshot it made and how many tries it took."""

    version: int
    snapshot: Snapshot
    attempts: int
    txn_id: str


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
        max_attempts: int | None = None,
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
        self._settings = log.settings()
        self._max_attempts = self._settings.retries + 1 if max_attempts is None else max_attempts
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
        metadata = mapped(metadata.with_configuration(properties.validate(configuration)), None)
        metadata = tracked(metadata)
        metadata.validate()
        self._check_names(metadata)
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
        metadata = tracked(mapped(metadata.with_configuration(configuration), snapshot.metadata))
        metadata.validate()
        self._check_names(metadata)
        protocol = negotiate.check_requirements(metadata, protocol, registry) or protocol
        self._new_metadata = metadata
        if protocol != snapshot.protocol:
            self._new_protocol = protocol

    def _check_names(self, metadata: Metadata) -> None:
        """Refuse new columns that no data file, or no directory, could carry."""
        if mapping_mode(metadata) == "none":
            before = None if self.snapshot is None else self.snapshot.schema
            check_names(metadata.schema, metadata.partition_columns, before)
        known = () if self.snapshot is None else self.snapshot.partition_columns
        check_partition_types(metadata.partition_schema, known)

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
        state = self._state()
        self._check(changes, state)
        _log.debug("%s: %s; checked against version %d", self.log.url, changes.described, state.version)
        note = CommitNote(
            Operation(operation) if isinstance(operation, str) else operation,
            metrics,
            self.log.remark() if user_metadata is None else user_metadata,
            tags,
            self._isolation(changes),
            self._is_blind(changes),
            self.read_version,
            self.txn_id,
        )
        rules = Rules(self._check, self._rebased, self._conflict, self._published)
        loop = CommitLoop(
            self.log, self.read_set, note, rules, self._sleep, self._max_attempts, self._protects
        )
        self._check_reachable()
        return self._committed(loop.run(changes, state, retry=retry))

    def commit_if_needed(
        self,
        actions: Iterable[Action] = (),
        operation: Operation | str = "WRITE",
        *,
        adds: Files = None,
        removes: Files = None,
        cdcs: Files = None,
        metrics: Mapping[str, Any] | None = None,
        user_metadata: str | None = None,
    ) -> Committed | None:
        """``commit``, or None where nothing changes and the session keeps no versions that say nothing."""
        actions = list(actions)
        head = self._new_metadata is not None or self._new_protocol is not None
        files = any(f is not None and len(f) for f in (adds, removes, cdcs))
        if self._settings.skips_empty and not (actions or head or files):
            self._finished = True
            _log.debug("%s: nothing to commit (%s)", self.log.url, self.txn_id)
            return None
        return self.commit(
            actions,
            operation,
            adds=adds,
            removes=removes,
            cdcs=cdcs,
            metrics=metrics,
            user_metadata=user_metadata,
        )

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

    def _state(self) -> State:
        if self.snapshot is None:
            return State.of_new_table(self.log, self.protocol, self.metadata)
        return State.of(self.snapshot)

    def _check(self, changes: Changes, state: State) -> None:
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

    def _rebased(self, changes: Changes, state: State, winner: CommitActions) -> Changes:
        """The changes as they are to follow ``winner``, where they take over some of what it did."""
        return changes

    def _conflict(self, ours: Ours, winner: Winner) -> DeltaConcurrentModificationException | None:
        return conflict(ours, winner)

    def _published(self, prepared: Prepared, winner: LogFile | None) -> None:
        """Look once more at a commit that was just put; ``winner`` came last before it, if one did."""

    def _committed(self, done: Published) -> Committed:
        """The commit stands: make its snapshot from what is at hand, then run the hooks."""
        prepared = done.prepared
        _log.debug("%s: version %d is committed (%s)", self.log.url, prepared.version, self.txn_id)
        actions = prepared.as_actions()
        checksum = done.before.checksum_after(actions, self.txn_id, prepared.in_commit_timestamp)
        snapshot = self._next_snapshot(done, actions, checksum)
        after.run(self._hooks, after.AfterCommit(snapshot, prepared, checksum, self._settings))
        return Committed(prepared.version, snapshot, done.attempts, self.txn_id)

    def _next_snapshot(self, done: Published, actions: CommitActions, checksum: Checksum | None) -> Snapshot:
        version = done.prepared.version
        name = names.parse(names.commit(version))
        assert name is not None
        path = self.log.commit_path(version)
        try:
            info = self.log.store.head(path)
        except StorageError:
            info = FileInfo(path, -1, self.log.clock())
        new = [*done.before.winners, (LogFile(name, info), actions)]
        if self.snapshot is None:
            segment = Segment(version, None, tuple(f for f, _ in new), (), None)
            decoded = {f.name.text: a for f, a in new}
            return Snapshot.of(self.log, segment, decoded=decoded, checksum=checksum)
        return self.snapshot.advanced(new, checksum=checksum)


def _twice(name: str) -> InvalidCommitError:
    return InvalidCommitError(
        f"A commit holds at most one {name} action.",
        hint="It was changed in the transaction already; leave it out of the actions.",
    )
