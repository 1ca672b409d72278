"""The log files behind one snapshot: each read once, and replaced where it cannot be read.

What is built on it (small state, live files) asks for commits and for the checkpoint's reader and
runs inside ``replay``, which puts an older checkpoint in place of a broken one, and commits in place
of a broken compaction, as long as they are there. The version never changes by that, only the files
it is read from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from tidegate.errors import (
    CheckpointCorruptError,
    CheckpointIncompleteError,
    CommitCorruptError,
    FileMissingError,
    LogError,
    SidecarMissingError,
    TidegateError,
    VersionNotFoundError,
)
from tidegate.log import names
from tidegate.log import segment as segments
from tidegate.log.checkpoint.hint import Hint
from tidegate.log.commits import CommitActions
from tidegate.log.dialect import Reader
from tidegate.log.names import Kind
from tidegate.log.replay import FileTail, check_commit, reconcile_files
from tidegate.log.segment import LogFile, Segment
from tidegate.log.table_log import TableLog

_log = logging.getLogger(__name__)
T = TypeVar("T")
Commit = tuple[LogFile, CommitActions]

# With more commits than this, a newer checkpoint to stand on is looked for.
LONG_TAIL = 64

_CHECKPOINT_FAILURES = (
    CheckpointCorruptError,
    CheckpointIncompleteError,
    SidecarMissingError,
    FileMissingError,
)


@dataclass(frozen=True, slots=True)
class Ground:
    """The file actions of a small checkpoint that this process has written itself.

    Whoever carries on from there need not read back what it has just put down. ``adds`` have the
    columns of ``add`` and, where the checkpoint has it, ``stats_parsed``.
    """

    checkpoint: str
    adds: tuple[pa.RecordBatch, ...]
    removes: tuple[pa.RecordBatch, ...]


class LogReading:
    """A segment being read; see the module's docstring."""

    def __init__(
        self,
        log: TableLog,
        segment: Segment,
        *,
        decoded: Mapping[str, CommitActions] | None = None,
        hint: Hint | None = None,
    ) -> None:
        self.log = log
        self.segment = segment
        self.version = segment.version
        # This version's own commit, None where a checkpoint is all there is of it.
        self.last = segment.commits[-1] if segment.commits else None
        self._hint = hint
        self._decoded: dict[str, CommitActions] = dict(decoded or {})
        self._readers: dict[str, Reader] = {}
        self._unusable: frozenset[str] = frozenset()
        self._ground: Ground | None = None

    # ------------------------------------------------------------------ what the files say

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
                    raise e.at(table=self.log.url, version=found.name.version) from None
                raise _CompactionUnusable from e
            except FileMissingError as e:
                if found.name.kind is Kind.COMPACTION:
                    raise _CompactionUnusable from e
                raise self._removed(found.name.version) from e
            except LogError as e:
                raise e.at(table=self.log.url, version=found.name.version) from None
            self._decoded[found.name.text] = actions
        return actions

    def deltas(self) -> list[CommitActions]:
        """Everything after the checkpoint, newest first."""
        return [self.actions(found) for found in self.segment.deltas()]

    def tail(self) -> FileTail:
        """What everything after the checkpoint says of files."""
        return reconcile_files(self.deltas())

    def tail_bytes(self) -> int:
        """How much there is after the checkpoint, without reading it."""
        return sum(found.info.size for found in self.segment.deltas())

    def commits_after(self, version: int) -> list[CommitActions]:
        """The commits above ``version``, newest first; all of them must be in the segment."""
        since = [f for f in self.segment.commits if f.name.version > version]
        assert len(since) == self.version - version
        return [self.actions(f) for f in reversed(since)]

    def reader(self) -> Reader | None:
        """Who reads the checkpoint, None where the segment has none."""
        checkpoint = self.segment.checkpoint
        if checkpoint is None:
            return None
        reader = self._readers.get(checkpoint.key)
        if reader is None:
            hint = self._hint
            known = hint is not None and hint.version == checkpoint.version
            reader = self.log.reader(checkpoint, hint.checksum if hint is not None and known else None)
            self._readers[checkpoint.key] = reader
        return reader

    def ground(self) -> Ground | None:
        """What is in memory of the checkpoint this segment stands on."""
        checkpoint = self.segment.checkpoint
        if self._ground is None or checkpoint is None or self._ground.checkpoint != checkpoint.key:
            return None
        return self._ground

    def commit_info(self) -> dict[str, Any]:
        """The commitInfo of this very version; empty where it has none or its commit is gone."""
        try:
            if self.last is not None:
                return self.actions(self.last).commit_info
            name = names.commit(self.version)
            return self.log.dialect.decode(self.log.store.get(self.log.path(name)), name).commit_info
        except (FileMissingError, VersionNotFoundError):
            return {}
        except LogError as e:
            if self.last is not None:
                raise
            _log.info("%s: the checkpoint stands for a commit that cannot be read: %s", self.log.url, e)
            return {}

    def modified(self) -> int:
        """When the file of this version was written, in milliseconds."""
        if self.last is not None:
            return self.last.info.modified
        try:
            return self.log.store.head(self.log.commit_path(self.version)).modified
        except FileMissingError:
            checkpoint = self.segment.checkpoint
            assert checkpoint is not None
            return checkpoint.files[0].info.modified

    # ------------------------------------------------------------------ what cannot be read

    def replay(self, work: Callable[[], T]) -> T:
        """Run ``work``; where a checkpoint or compaction cannot be read, again on a segment without it."""
        first: TidegateError | None = None
        while True:
            try:
                return work()
            except _CompactionUnusable:
                _log.warning("%s: a log compaction cannot be read; its commits are used", self.log.url)
                s = self.segment
                self.segment = Segment(s.version, s.checkpoint, s.commits, (), s.checksum)
            except _CHECKPOINT_FAILURES as e:
                first = first or e.at(table=self.log.url, version=self.segment.base_version)
                if not self._fall_back():
                    raise self._vanished() or first from None
                _log.warning("%s: %s; an older checkpoint is used", self.log.url, e.message)
            except TidegateError as e:
                raise e.at(table=self.log.url, version=self.version) from None

    def _fall_back(self) -> bool:
        """Choose an older checkpoint for the same version; False if the commits do not allow it."""
        bad = self.segment.checkpoint
        if bad is None:
            return False
        self._unusable |= {bad.key}
        found = self._built(0)
        if found is None:
            return False
        self.segment = found
        if self.last is None and found.commits:
            self.last = found.commits[-1]
        return True

    def _built(self, start: int) -> Segment | None:
        """A segment of this version out of what lies from ``start`` on and can be read, if there is one."""
        listing = self.log.listing(start, self.version)
        try:
            return segments.build(listing, self.log.url, self.version, self._unusable)
        except LogError:
            return None

    def _vanished(self) -> VersionNotFoundError | None:
        """The error of a version whose checkpoint was taken away after it was listed, not damaged."""
        checkpoint = self.segment.checkpoint
        try:
            for part in checkpoint.files if checkpoint is not None else ():
                self.log.store.head(part.info.name)
        except FileMissingError:
            return self._removed(self.version)
        return None

    def _removed(self, version: int) -> VersionNotFoundError:
        return VersionNotFoundError(
            f"Version {version} was removed from the log while it was being read.",
            table=self.log.url,
            version=version,
            hint="Log retention is at work; open the table again.",
        )

    # ------------------------------------------------------------------ moving on

    def still_there(self) -> bool:
        """Whether the log still goes on from this version as it was read.

        A table that was dropped and made anew has the same names with other bytes, and a cleanup may
        have taken away what comes next: commits go in ascending order, so this version's own first.
        """
        known = self.last
        if known is None:
            # All of it is a checkpoint, whose commit may be gone: what else is there tells.
            listing = self.log.listing(self.version)
            here = [c for c in listing.checkpoints if c.version == self.version]
            follows = self.version + 1 in listing.commits or segments.latest(listing) == self.version
            return follows and self.segment.checkpoint in here
        try:
            now = self.log.store.head(known.info.name)
        except FileMissingError:
            return False
        return (now.size, now.modified) == (known.info.size, known.info.modified)

    def carried_on(self, new: Sequence[Commit], floor: int | None) -> LogReading:
        """The reading of the version after ``new``, ascending and at hand.

        What lies at or below ``floor`` is never replayed again from here on, so its commits are let go.
        """
        segment = self.segment.with_commits(f for f, _ in new)
        decoded = self._decoded
        if floor is not None:
            keep = {f.name.text for f in segment.commits if f.name.version > floor}
            decoded = {k: v for k, v in decoded.items() if k in keep}
        out = LogReading(
            self.log, segment, decoded={**decoded, **{f.name.text: a for f, a in new}}, hint=self._hint
        )
        out.last = new[-1][0]
        out._readers = self._readers
        out._unusable = self._unusable
        out._ground = self._ground
        return out

    def shorten(self, hint: Hint | None) -> None:
        """Replace a tail that has grown long by a checkpoint that others have written meanwhile."""
        if hint is None or not self.segment.base_version < hint.version <= self.version:
            return
        found = self._built(hint.version)
        if found is not None and found.checkpoint is not None:
            self.stand_on(found, self._ground, hint)

    def stand_on(self, segment: Segment, ground: Ground | None, hint: Hint | None) -> None:
        """Take another segment of this very version as the ground from here on."""
        self.segment, self._ground, self._hint = segment, ground, hint
        keep = {f.name.text for f in segment.commits}
        if self.last is not None:
            keep.add(self.last.name.text)
        self._decoded = {k: v for k, v in self._decoded.items() if k in keep}


class _CompactionUnusable(Exception):
    """A log compaction could not be read; the commits it stands for are still there."""


def read_commits(log: TableLog, start: int, *, limit: int | None = None) -> list[Commit]:
    """The commits from ``start`` on, as far as there are any, read one by one."""
    out: list[Commit] = []
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
