"""The one loop that publishes a commit, or names the conflict that forbids it.

Prepare for the next version, put it; on loss hold every winner against what was read, in order, carry
the state on over those that do not matter, pause, try again. What the kind of table decides comes in
as ``Rules``.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.errors import (
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MaxCommitAttemptsError,
    ProtocolChangedException,
)
from tidegate.log.commits import CommitActions
from tidegate.log.segment import LogFile
from tidegate.log.table_log import TableLog
from tidegate.transaction import publish
from tidegate.transaction.commit_info import CommitNote
from tidegate.transaction.conflicts import Ours, Winner
from tidegate.transaction.pending import Changes
from tidegate.transaction.prepared import Prepared, tracks_rows, with_deletion_times, with_row_ids
from tidegate.transaction.readset import ReadSet
from tidegate.transaction.state import State
from tidegate.transaction.upkeep import keeps_time, names_rows, with_boundary, with_provenance

_log = logging.getLogger(__name__)

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.5

Sleep = Callable[[float], None]


@dataclass(frozen=True)
class Rules:
    """What the kind of table decides.

    ``check`` refuses changes that do not fit a state; ``rebased`` is the changes as they are to follow
    a winner, where they take over some of what it did; ``conflict`` names what forbids to follow it;
    ``published`` looks at a commit that was just put, with the winner before it, if there was one.
    """

    check: Callable[[Changes, State], None]
    rebased: Callable[[Changes, State, CommitActions], Changes]
    conflict: Callable[[Ours, Winner], DeltaConcurrentModificationException | None]
    published: Callable[[Prepared, LogFile | None], None]


@dataclass(frozen=True)
class Published:
    """The attempt that became visible, and ``before``, the state that it follows."""

    prepared: Prepared
    before: State
    attempts: int


@dataclass(frozen=True)
class CommitLoop:
    """One transaction's way into the log."""

    log: TableLog
    read_set: ReadSet
    note: CommitNote
    rules: Rules
    sleep: Sleep
    max_attempts: int
    # Whether the versions before this commit are to be protected.
    protects: bool = False

    def run(self, changes: Changes, state: State, *, retry: bool) -> Published:
        """Publish ``changes`` as the version after ``state``, or after whoever comes first."""
        attempts = 0
        while True:
            attempts += 1
            prepared = self._prepare(changes, state)
            _log.debug("%s: attempt %d at version %d", self.log.url, attempts, prepared.version)
            lost_to = publish.put(self.log, prepared, self.note.txn_id)
            if lost_to is None:
                self.rules.published(prepared, state.winners[-1][0] if state.winners else None)
                return Published(prepared, state, attempts)
            self._check_patience(prepared.version, attempts, retry)
            for found, actions in lost_to:
                changes = self.rules.rebased(changes, state, actions)
                state = self._follow(changes, state, found, actions)
            if attempts > 1:
                pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempts, 10))
                self.sleep(pause * random.random())

    def _check_patience(self, version: int, attempts: int, retry: bool) -> None:
        if not retry:
            raise ConcurrentWriteException(
                f"Another writer committed version {version} first.",
                table=self.log.url,
                version=version,
                hint="Run the operation again on the table as it is now.",
            )
        if attempts >= self.max_attempts:
            raise MaxCommitAttemptsError(
                f"The commit lost {attempts} races for a version and gives up.",
                table=self.log.url,
                version=version,
            )

    def _prepare(self, changes: Changes, state: State) -> Prepared:
        """The changes as they will stand in the version after ``state``."""
        version = state.version + 1
        protocol = changes.protocol or state.protocol
        metadata = changes.metadata or state.metadata
        now = self.log.clock()
        own_time: int | None = None
        if keeps_time(metadata):
            before = state.last_time
            own_time = now if before is None else max(now, before + 1)
            changes = with_provenance(changes, state.metadata, version, own_time)
        if self.protects:
            changes = with_boundary(changes, metadata, version)
        mark = state.row_mark
        if tracks_rows(protocol, metadata):
            changes, mark = with_row_ids(changes, mark, version)
        changes = with_deletion_times(changes, now if own_time is None else own_time)
        note = self.note
        if state.rows_tracked_since:
            note = note.without_row_ids()
        elif state.version >= 0 and names_rows(state.metadata):
            note = note.with_row_ids()
        return Prepared(version, changes, note.render(now, own_time), own_time, mark)

    def _follow(self, changes: Changes, state: State, found: LogFile, actions: CommitActions) -> State:
        """Carry the state over one winner, or raise the conflict."""
        winner = Winner(found.name.version, actions, actions.commit_info)
        _log.debug("%s: %s came first", self.log.url, winner.described)
        problem = self._problem(changes, state, winner)
        if problem is not None:
            _log.debug("%s: in conflict with it: %s", self.log.url, type(problem).__name__)
            raise problem.at(table=self.log.url, version=winner.version)
        if actions.protocol is not None:
            self.log.registry.check_write(actions.protocol, table=self.log.url, version=winner.version)
        new = state.after(found, actions)
        if actions.protocol is not None or actions.metadata is not None:
            # What we commit was checked against a table that is no more.
            self.rules.check(changes, new)
        _log.debug("%s: no conflict; rebased onto version %d", self.log.url, winner.version)
        return new

    def _problem(
        self, changes: Changes, state: State, winner: Winner
    ) -> DeltaConcurrentModificationException | None:
        if state.version < 0:
            return ProtocolChangedException(
                "Another writer created the table first.",
                hint="Run the operation again on the table as it is now.",
            )
        ours = Ours(
            read=self.read_set,
            protocol=state.protocol,
            metadata=state.metadata,
            adds=changes.adds,
            removes=changes.removes,
            new_protocol=changes.protocol,
            new_metadata=changes.metadata,
            domains=changes.domains,
            isolation=self.note.isolation,
            blind_append=self.note.is_blind,
            registry=self.log.registry,
        )
        return self.rules.conflict(ours, winner)
