"""One walk over the log, oldest version first, each commit read once.

At each version the commit is checked and laid over the state, then whatever else speaks of that
version (checksum, checkpoints, compactions) is held against it. Where a commit is broken or missing
the state is lost, and the next checkpoint becomes the ground to stand on, unproven.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import FileMissingError, StorageError, TidegateError
from tidegate.log import checksum as checksums
from tidegate.log import names
from tidegate.log.checksum import BOUNDARIES, Checksum
from tidegate.log.commits import CommitActions
from tidegate.log.segment import Checkpoint, Listing, LogFile
from tidegate.log.table_log import TableLog
from tidegate.log.verify import commits, compare
from tidegate.log.verify.barriers import Barriers
from tidegate.log.verify.checkpoints import Checkpoints
from tidegate.log.verify.compactions import check_compaction
from tidegate.log.verify.report import Checked, Findings, Progress
from tidegate.log.verify.state import Bins, State, Step, Window
from tidegate.storage.store import Store

# A window is laid over the state when it has this many file actions, and as many as files are live.
_WINDOW_ROWS = 65_536
# Tables have one set of histogram bins, two when a newer writer came along.
_MAX_BINS = 8
_AHEAD, _READERS = 32, 8

# What a damaged file may make of the code that compares it, beside the errors that have a name.
UNREADABLE = (pa.ArrowException, ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


class Walk:
    """The state of the table, moved on version by version up to ``target``."""

    def __init__(
        self, log: TableLog, listing: Listing, target: int, found: Findings, checked: Checked
    ) -> None:
        self._log = log
        self._listing = listing
        self._target = target
        self._found = found
        self._checked = checked
        self.checkpoints = Checkpoints(log, found)
        self.barriers = Barriers(log, found, checked)
        self.state: State | None = State() if 0 in listing.commits else None
        self._head = -1
        self._steps: list[Step] = []
        self._rows = 0
        self._waiting: list[tuple[int, Checksum]] = []
        self._bins: set[Bins] = {BOUNDARIES}
        self._time: int | None = None
        self._twice: set[str] = set()
        self._poor: list[int] = []

    def run(self, progress: Progress | None) -> None:
        listing = self._listing
        at: dict[int, list[Checkpoint]] = {}
        for checkpoint in listing.checkpoints:
            at.setdefault(checkpoint.version, []).append(checkpoint)
        ends: dict[int, list[LogFile]] = {}
        for compaction in listing.compactions:
            ends.setdefault(compaction.name.end, []).append(compaction)
        versions = sorted(v for v in {*listing.commits, *at, *listing.checksums, *ends} if v <= self._target)
        with _reading_ahead(self._log.store, self._names(versions)) as read:
            for done, version in enumerate(versions):
                if progress is not None:
                    progress("replaying the log", done, len(versions))
                self._version(version, at.get(version, []), read)
                for compaction in ends.get(version, ()):
                    with self._unreadable(version, compaction.name.text):
                        check_compaction(self._log, listing, compaction, self._found, self._checked)
        self._flush()
        if self._poor:
            # Old writers leave them out everywhere: that is one finding, not one for each version.
            which = f"{len(self._poor)} checksums lack" if len(self._poor) > 1 else "The checksum lacks"
            self._found.warning(
                "CHECKSUM_INCOMPLETE",
                f"{which} protocol or metadata, which the specification requires.",
                self._poor[0],
                names.checksum(self._poor[0]),
            )

    def _names(self, versions: list[int]) -> Iterator[str]:
        for version in versions:
            for files in (self._listing.commits, self._listing.checksums):
                if version in files:
                    yield files[version].info.name

    @contextmanager
    def _unreadable(self, version: int, file: str) -> Iterator[None]:
        """What a damaged file makes of the code that reads it is a finding; a store that fails is not."""
        try:
            yield
        except TidegateError as e:
            if isinstance(e, StorageError) and not isinstance(e, FileMissingError):
                raise
            self._found.raised(e, version, file)
        except UNREADABLE as e:
            said = (str(e).splitlines() or [type(e).__name__])[0]
            self._found.error("UNREADABLE", f"The file makes no sense: {said}", version, file)

    # ------------------------------------------------------------------ one version

    def _version(self, version: int, checkpoints: list[Checkpoint], read: _Reader) -> None:
        info: dict[str, Any] = {}
        commit = self._listing.commits.get(version)
        if commit is not None:
            actions = self._decode(commit, read)
            if actions is not None:
                info = _commit_info(actions)
            moved = False
            if actions is not None:
                with self._unreadable(version, commit.name.text):
                    moved = self._move(version, actions, info)
            if moved and actions is not None and self.state is not None:
                self.barriers.commit(version, actions, info.get("operation"), self.state.small.protocol)
            elif not moved:
                self._lose()
        compared: list[Checkpoint] = checkpoints
        if checkpoints and not self._at(version):
            compared = self._adopt(checkpoints)
        self._check_checksum(version, info, read)
        for checkpoint in compared:
            self._compare(checkpoint)
        if self._at(version) and self.state is not None:
            self.barriers.check(version, self.state.small.protocol)
        if self._rows > _WINDOW_ROWS and self.state is not None and self._rows > self.state.rows:
            self._flush()

    def _at(self, version: int) -> bool:
        return self.state is not None and self._head == version

    def _decode(self, commit: LogFile, read: _Reader) -> CommitActions | None:
        version, name = commit.name.version, commit.name.text
        try:
            data = read(commit.info.name)
        except FileMissingError:
            self._found.warning(
                "COMMIT_MISSING",
                "The commit was removed while the log was being read; log retention may be at work.",
                version,
                name,
            )
            return None
        try:
            actions = self._log.dialect.decode(data, name)
        except TidegateError as e:
            self._found.raised(e, version, name)
            return None
        self._checked.commits += 1
        self._checked.file_actions += sum(b.num_rows for b in (*actions.adds, *actions.removes))
        for problem in commits.own_problems(actions, name, self._log.registry):
            self._found.raised(problem, version, name)
        return actions

    def _move(self, version: int, actions: CommitActions, info: dict[str, Any]) -> bool:
        """Carry the state over a commit; False where there is no state to carry."""
        if self.state is None or self._head != version - 1:
            return False
        name = names.commit(version)
        step = Step.of(version, actions)
        self.state.move_small(actions)
        small = self.state.small
        for problem in (
            commits.time_problem(info, small, self._time),
            *commits.problems_in_place(actions, small, self._log),
        ):
            if problem is not None:
                self._found.raised(problem, version, name)
        for code, what, value in (
            ("NO_PROTOCOL", "protocol", small.protocol),
            ("NO_METADATA", "metaData", small.metadata),
        ):
            silent = what == "protocol" and self._log.dialect.unspoken is not None
            if value is None and version == 0 and not silent:
                message = f"The first commit holds no {what} action, so the table cannot be read."
                self._found.error(code, message, version, name)
        own = info.get("inCommitTimestamp")
        self._time = own if isinstance(own, int) and commits.keeps_time(small) else None
        self._steps.append(step)
        self._rows += step.rows
        self._head = version
        return True

    def _lose(self) -> None:
        self._flush()
        self.state, self._time = None, None
        self.barriers.lost()

    # ------------------------------------------------------------------ checkpoints

    def _adopt(self, checkpoints: list[Checkpoint]) -> list[Checkpoint]:
        """Stand on the first checkpoint that can be read; returns those left to compare with it."""
        self._lose()
        for n, checkpoint in enumerate(checkpoints):
            contents = None
            with self._unreadable(checkpoint.version, checkpoint.files[0].name.text):
                contents = self.checkpoints.read(checkpoint)
            if contents is not None:
                self._checked.checkpoints_unproven += 1
                self.state = State.from_checkpoint(contents)
                self._head = checkpoint.version
                self.barriers.checkpoint(checkpoint, self.checkpoints.has_sidecars(checkpoint), self.state)
                return checkpoints[n + 1 :]
        return []

    def _compare(self, checkpoint: Checkpoint) -> None:
        self._flush()
        with self._unreadable(checkpoint.version, checkpoint.files[0].name.text):
            contents = self.checkpoints.read(checkpoint)
            if contents is not None and self.state is not None:
                self._checked.checkpoints += 1
                self.checkpoints.compare(checkpoint, contents, self.state)
                self.barriers.checkpoint(checkpoint, self.checkpoints.has_sidecars(checkpoint), self.state)

    # ------------------------------------------------------------------ checksums

    def _check_checksum(self, version: int, info: dict[str, Any], read: _Reader) -> None:
        file = self._listing.checksums.get(version)
        if file is None:
            return
        name = file.name.text
        try:
            crc = checksums.decode(read(file.info.name))
        except FileMissingError:
            return
        if crc is None:
            self._found.error(
                "CHECKSUM_CORRUPT",
                "The checksum cannot be read: it is torn or malformed. Readers ignore it.",
                version,
                name,
            )
            return
        if crc.protocol is None or crc.metadata is None:
            self._poor.append(version)
        if not self._at(version) or self.state is None:
            self._checked.checksums_unproven += 1
            return
        self._checked.checksums += 1
        with self._unreadable(version, name):
            now = self._log.clock()
            for difference in compare.checksum_differences(crc, self.state.small, info, now):
                self._mismatch(version, difference)
        self._waiting.append((version, crc))
        if crc.all_files is not None:
            self._flush()
            with self._unreadable(version, name):
                partitions = compare.partition_names(self.state.small.metadata)
                for difference in compare.listed_differences(self.state.files, crc.all_files, partitions):
                    self._mismatch(version, difference)

    def _mismatch(self, version: int, difference: str) -> None:
        self._found.error(
            "CHECKSUM_MISMATCH",
            f"The checksum of version {version} is not what the commits make: {difference}.",
            version,
            names.checksum(version),
        )

    def _bins_of(self, crc: Checksum) -> Bins:
        """The bins to count a checksum's files in: its own, where they are any."""
        histogram = compare.histogram_of(crc)
        if histogram is None or not compare.well_formed(histogram):
            return BOUNDARIES
        bins = histogram.sorted_bin_boundaries
        if len(self._bins) < _MAX_BINS:
            self._bins.add(bins)
        return bins if bins in self._bins else BOUNDARIES

    # ------------------------------------------------------------------ the window

    def _flush(self) -> None:
        """Lay the window over the state, and compare the counts that waited for it."""
        state, steps, waiting = self.state, self._steps, self._waiting
        self._steps, self._rows, self._waiting = [], 0, []
        if state is None:
            return
        self.state = None
        with self._unreadable(self._head, names.commit(self._head)):
            self._lay(Window(state, steps), waiting)
            self._check_twice(state, steps)
            self.state = state

    def _lay(self, window: Window, waiting: list[tuple[int, Checksum]]) -> None:
        by_bins: dict[Bins, list[tuple[int, Checksum]]] = {}
        for version, crc in waiting:
            by_bins.setdefault(self._bins_of(crc), []).append((version, crc))
        ends: dict[Bins, checksums.Counts] = {}
        for bins, group in by_bins.items():
            counts = window.counts({*(v for v, _ in group), window.version}, bins)
            ends[bins] = counts[window.version]
            for version, crc in group:
                with self._unreadable(version, names.checksum(version)):
                    for difference in compare.count_differences(crc, counts[version]):
                        self._mismatch(version, difference)
        window.state.lay(window, ends)

    def _check_twice(self, state: State, steps: list[Step]) -> None:
        """No path may be live with two deletion vectors: its rows would be read twice."""
        if not any(step.adds for step in steps):
            return
        for path in compare.live_twice(state.files).to_pylist():
            if path in self._twice:
                continue
            self._twice.add(path)
            at = [s.version for s in steps for b in s.adds if pc.index(b.column("path"), path).as_py() >= 0]
            version = at[-1] if at else state.version
            self._found.error(
                "INVALID_COMMIT",
                f"The file {path} is live with two deletion vectors: it was added again without removing "
                "the entry it had.",
                version,
                names.commit(version),
            )


def _commit_info(actions: CommitActions) -> dict[str, Any]:
    try:
        return actions.commit_info
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


class _Reader:
    """Files in a known order, fetched a little ahead on a few threads."""

    def __init__(self, store: Store, wanted: Iterator[str], pool: ThreadPoolExecutor) -> None:
        self._store = store
        self._wanted = wanted
        self._pool = pool
        self._fetched: deque[tuple[str, Future[bytes]]] = deque()

    def __call__(self, name: str) -> bytes:
        while len(self._fetched) < _AHEAD and (following := next(self._wanted, None)) is not None:
            self._fetched.append((following, self._pool.submit(self._store.get, following)))
        fetched, future = self._fetched.popleft()
        assert fetched == name, "files are read in the order in which they were announced"
        return future.result()


@contextmanager
def _reading_ahead(store: Store, wanted: Iterator[str]) -> Iterator[_Reader]:
    pool = ThreadPoolExecutor(_READERS, thread_name_prefix="tidegate-verify")
    try:
        yield _Reader(store, wanted, pool)
    finally:
        pool.shutdown(cancel_futures=True)
