"""The table as the commit loop knows it: the version read, carried on over every winner.

Nothing here reads the log. A winner that has been stepped over moves the state on by one version:
protocol, metadata, times, the highest row id, and the checksum where it follows from the one before.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.files import row_ids
from tidegate.log import checksum as checksums
from tidegate.log.checksum import Checksum
from tidegate.log.commits import CommitActions
from tidegate.log.reading import Commit
from tidegate.log.replay import SmallState, small_state
from tidegate.log.segment import LogFile
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol
from tidegate.transaction import hooks
from tidegate.transaction.upkeep import keeps_rows, keeps_time

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class State:
    """One version of the table, as the next commit would follow it.

    ``timestamp`` is the last commit's, its own or its file's; ``winners`` are the commits since the
    version read, ``since`` what they wrote beside files; ``rows_tracked_since`` says that one of them
    switched row tracking on.
    """

    log: TableLog
    read: Snapshot | None
    version: int
    protocol: Protocol
    metadata: Metadata
    timestamp: int | None = None
    row_mark: int | None = None
    checksum: Checksum | None = None
    winners: tuple[Commit, ...] = ()
    since: SmallState = field(default_factory=SmallState)
    rows_tracked_since: bool = False

    @classmethod
    def of_new_table(cls, log: TableLog, protocol: Protocol, metadata: Metadata) -> State:
        """The state of a path without a log: version -1."""
        return cls(log, None, -1, protocol, metadata)

    @classmethod
    def of(cls, read: Snapshot) -> State:
        """The state of the version that was read."""
        return cls(
            read.log,
            read,
            read.version,
            read.protocol,
            read.metadata,
            read.timestamp_ms if keeps_time(read.metadata) else None,
            _row_mark(read, read.protocol, SmallState()),
            hooks.known_checksum(read) if read.log.dialect.checksums else None,
        )

    def after(self, found: LogFile, actions: CommitActions) -> State:
        """The state after a commit of somebody else."""
        protocol = actions.protocol or self.protocol
        metadata = actions.metadata or self.metadata
        since = small_state(actions).over(self.since)
        info = actions.commit_info
        own = info.get("inCommitTimestamp")
        own = own if isinstance(own, int) else None
        return State(
            self.log,
            self.read,
            found.name.version,
            protocol,
            metadata,
            own if own is not None else found.info.modified,
            _row_mark(self.read, protocol, since),
            self.checksum_after(actions, info.get("txnId"), own),
            (*self.winners, (found, actions)),
            since,
            self.rows_tracked_since or (keeps_rows(metadata) and not keeps_rows(self.metadata)),
        )

    @property
    def last_time(self) -> int | None:
        """When this version was committed, None where there is none."""
        if self.timestamp is None and self.read is not None:
            return self.read.timestamp_ms
        return self.timestamp

    def checksum_after(
        self, actions: CommitActions, txn_id: str | None, own_time: int | None
    ) -> Checksum | None:
        """The checksum after ``actions``, None where it does not follow from the one before.

        No commit fails for the sake of a checksum, which anybody may leave out.
        """
        previous = self.checksum
        if not self.log.dialect.checksums or (previous is None and self.version >= 0):
            return None
        try:
            small = self.since if self.read is None else self.since.over(self.read.small)
            small = small_state(actions).over(small)
            if previous is None:
                previous = checksums.of_state(checksums.count([]), small, all_files=[])
            return checksums.advance(
                previous,
                small,
                actions.adds,
                actions.removes,
                txn_id=txn_id,
                in_commit_timestamp=own_time,
                live=self._live_among,
            )
        except Exception:
            at = self.version + 1
            _log.warning("%s: the checksum of version %d is left out", self.log.url, at, exc_info=True)
            return None

    def _live_among(self, keys: pa.Array) -> list[pa.RecordBatch]:
        if self.read is None:
            return []
        now = self.read.advanced(self.winners) if self.winners else self.read
        return now.live_among(keys)


def _row_mark(read: Snapshot | None, protocol: Protocol, since: SmallState) -> int | None:
    """The highest row id given out, None while there is none."""
    if not protocol.supports("rowTracking"):
        return None
    found = since.domains.get(row_ids.DOMAIN)
    if found is None and read is not None:
        found = read.domains.get(row_ids.DOMAIN)
    return None if found is None or found.removed else row_ids.decode_mark(found.configuration)
