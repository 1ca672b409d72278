"""A transaction: what it read, what it changes, and the commit of both.

Protocol and metadata stand in ``head``. What is to be written is checked, then handed to the commit loop
(``loop``), which publishes it or names the conflict. A commit becomes visible with one put: before it nothing
has happened, after it everything has, and whatever comes later (hooks) cannot undo it.
Specification: "Delta Log Entries", "Actions"; the conflict rules stand in ``conflicts``.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import pyarrow as pa

from tidegate.errors import (
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    FeaturesMismatchError,
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
from tidegate.protocol import negotiate
from tidegate.storage.store import FileInfo
from tidegate.transaction import hooks as after
from tidegate.transaction.commit_info import ENGINE, CommitNote
from tidegate.transaction.conflicts import Isolation, Ours, Winner, conflict
from tidegate.transaction.head import Head
from tidegate.transaction.loop import CommitLoop, Published, Rules, Sleep
from tidegate.transaction.pending import Changes, Files, Operation
from tidegate.transaction.prepared import Prepared
from tidegate.transaction.readset import ReadSet
from tidegate.transaction.state import State
from tidegate.transaction.upkeep import tracked
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


class Transaction(Head):
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
        super().__init__(log, snapshot, defaults)
        self.txn_id = str(uuid.uuid4())
        self.read_set = ReadSet()
        self._hooks = hooks
        self._sleep = sleep
        self._settings = log.settings()
        self._max_attempts = self._settings.retries + 1 if max_attempts is None else max_attempts
        self._finished = False
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
