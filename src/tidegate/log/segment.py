"""Log segments: which files of the log make version N. One listing, then pure choice.

The newest complete checkpoint at or below N, the contiguous commits after it, and compactions
that stand for runs of them. ``_last_checkpoint`` only says where the listing may start; nothing
is believed of it. What is missing is named: gaps, truncated logs, incomplete checkpoints.
Specification: "Checkpoints", "Log Compaction Files", "Last Checkpoint File".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidegate.errors import (
    CheckpointIncompleteError,
    LogTruncatedError,
    NotATableError,
    VersionNotFoundError,
    VersionsNotContiguousError,
)
from tidegate.log import names
from tidegate.log.names import Kind, LogName
from tidegate.storage.store import FileInfo, Store


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log with its parsed name."""

    name: LogName
    info: FileInfo


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of one complete checkpoint; ``files`` has one entry unless it is multipart."""

    version: int
    kind: Kind
    files: tuple[LogFile, ...]

    @property
    def key(self) -> str:
        """Identifies this checkpoint among several of the same version."""
        return self.files[0].info.name


@dataclass(slots=True)
class Listing:
    """What the log directory held from ``start`` on, sorted by kind."""

    start: int
    commits: dict[int, LogFile] = field(default_factory=dict)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    incomplete: dict[int, int] = field(default_factory=dict)
    stray_parts: list[LogFile] = field(default_factory=list)
    compactions: list[LogFile] = field(default_factory=list)
    checksums: dict[int, LogFile] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.commits or self.checkpoints or self.incomplete)


@dataclass(frozen=True, slots=True)
class Segment:
    """The files that make ``version``; ``commits`` ascend and follow the checkpoint without a gap."""

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[LogFile, ...]
    compactions: tuple[LogFile, ...]
    checksum: LogFile | None

    @property
    def base_version(self) -> int:
        """The version the commits build on: the checkpoint's, or -1."""
        return -1 if self.checkpoint is None else self.checkpoint.version

    def with_commits(self, more: Iterable[LogFile]) -> Segment:
        """This segment carried on by the commits after it."""
        commits = self.commits + tuple(more)
        return Segment(commits[-1].name.version, self.checkpoint, commits, self.compactions, None)

    def deltas(self) -> list[LogFile]:
        """What to replay, newest first: a compaction where one covers a run, else the commits."""
        by_end: dict[int, LogFile] = {}
        for c in self.compactions:
            known = by_end.get(c.name.end)
            if known is None or c.name.version < known.name.version:
                by_end[c.name.end] = c
        out: list[LogFile] = []
        at = len(self.commits) - 1
        first = self.base_version + 1
        while at >= 0:
            compaction = by_end.get(self.commits[at].name.version)
            if compaction is not None and compaction.name.version >= first:
                out.append(compaction)
                at -= compaction.name.end - compaction.name.version + 1
            else:
                out.append(self.commits[at])
                at -= 1
        return out


def list_log(
    store: Store,
    log_dir: str,
    start: int,
    until: int | None = None,
    *,
    before: int | None = None,
    parse: Callable[[str], LogName | None] = names.parse,
) -> Listing:
    """List the log from version ``start`` up to and including ``until``.

    With ``before`` the listing ends at the first commit that is younger (milliseconds).
    """
    out = Listing(start)
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    for info in store.list_from(log_dir, names.prefix(start) if start else ""):
        bare = info.name.rsplit("/", 1)[-1]
        if bare[:1] == "_":
            continue
        parsed = parse(bare)
        if parsed is None:
            continue
        if until is not None and parsed.version > until:
            break
        found = LogFile(parsed, info)
        if parsed.kind is Kind.COMMIT:
            if before is not None and info.modified > before:
                # Its checkpoint is as young, and stands before it in the listing.
                out.checkpoints = [c for c in out.checkpoints if c.version < parsed.version]
                parts = {k: v for k, v in parts.items() if k[0] < parsed.version}
                break
            out.commits[parsed.version] = found
        elif parsed.kind is Kind.CHECKSUM:
            out.checksums[parsed.version] = found
        elif parsed.kind is Kind.COMPACTION:
            if until is None or parsed.end <= until:
                out.compactions.append(found)
        elif parsed.kind is Kind.PART:
            parts.setdefault((parsed.version, parsed.parts), {})[parsed.part] = found
        elif parsed.kind is Kind.JSON_PART:
            # Only a manifest says which parts belong together; to a listing each is a stray.
            out.stray_parts.append(found)
        else:
            out.checkpoints.append(Checkpoint(parsed.version, parsed.kind, (found,)))
    for (version, count), have in parts.items():
        if len(have) == count:
            files = tuple(have[i] for i in range(1, count + 1))
            out.checkpoints.append(Checkpoint(version, Kind.PART, files))
        else:
            out.incomplete[version] = count
            out.stray_parts += have.values()
    # Of several checkpoints of one version the V2 form comes last, so that it is tried first.
    order = {Kind.PART: 0, Kind.CLASSIC: 1, Kind.JSON: 1, Kind.V2: 2}
    out.checkpoints.sort(key=lambda c: (c.version, order[c.kind], c.key))
    return out


def build(
    listing: Listing, table: str, version: int | None = None, unusable: frozenset[str] = frozenset()
) -> Segment | None:
    """The segment of ``version`` (the latest when None) out of a listing.

    ``unusable`` names checkpoints that turned out to be corrupt. None means: this listing does not
    reach back far enough; list from the beginning. With a listing from 0, a typed error instead.
    """
    if listing.empty:
        if listing.start > 0:
            return None
        raise NotATableError(
            "There is no table here: the log directory is missing or holds no commit.",
            table=table,
            hint="Check the path: a Delta table has a directory _delta_log with JSON commits in it, an index "
            "table a directory _transaction_log.",
        )
    usable = [
        c for c in listing.checkpoints if c.key not in unusable and (version is None or c.version <= version)
    ]
    checkpoint = usable[-1] if usable else None
    if checkpoint is None and listing.start > 0:
        return None
    base = -1 if checkpoint is None else checkpoint.version
    wanted = sorted(v for v in listing.commits if v > base and (version is None or v <= version))
    last = wanted[-1] if wanted else base
    if checkpoint is None:
        _check_start(listing, table, wanted, version)
    expected = base + 1
    for v in wanted:
        if v != expected:
            if version is not None and _being_cleaned(listing, version, v):
                raise out_of_range(listing, table, version)
            missing = f"{expected}" if v == expected + 1 else f"{expected} to {v - 1}"
            raise VersionsNotContiguousError(
                f"The log has a gap: version {missing} is missing, but {v} is there.",
                table=table,
                version=expected,
                hint="Restore the missing commit; versions before the gap can be read by time travel.",
            )
        expected += 1
    if version is not None and last < version:
        raise out_of_range(listing, table, version)
    commits = tuple(listing.commits[v] for v in wanted)
    compactions = tuple(c for c in listing.compactions if c.name.version > base and c.name.end <= last)
    return Segment(last, checkpoint, commits, compactions, listing.checksums.get(last))


def _being_cleaned(listing: Listing, version: int, first: int) -> bool:
    """Whether a gap before the commit ``first`` is what a cleanup leaves behind, and not damage.

    Cleanup takes commits away in ascending order, below a checkpoint that it keeps: so no commit is
    left before the gap, and a complete checkpoint stands above ``version``.
    """
    return min(listing.commits) == first and any(c.version > version for c in listing.checkpoints)


def _check_start(listing: Listing, table: str, wanted: list[int], version: int | None) -> None:
    """Without a checkpoint the commits must begin at 0."""
    if wanted and wanted[0] == 0:
        return
    if version is not None and (reach := earliest(listing)) is not None and version < reach:
        raise out_of_range(listing, table, version)
    if listing.incomplete:
        at = max(listing.incomplete)
        raise CheckpointIncompleteError(
            f"The checkpoint of version {at} lacks some of its {listing.incomplete[at]} parts, and the "
            "commits before it are gone.",
            table=table,
            version=at,
            hint="Restore the missing parts.",
        )
    if not wanted:
        at = max((c.version for c in listing.checkpoints), default=-1)
        if version is not None and at < 0:
            raise out_of_range(listing, table, version)
        raise LogTruncatedError(
            "No checkpoint can be used and there are no commits to replay.", table=table, version=at
        )
    raise LogTruncatedError(
        f"The log begins at version {wanted[0]} and no complete checkpoint covers what came before.",
        table=table,
        version=wanted[0],
        hint="Restore a checkpoint or the commits from 0 on.",
    )


def earliest(listing: Listing) -> int | None:
    """The first version from which on a listing from 0 can reconstruct all, None if there is none.

    Checkpoints below a run of missing commits, as a cleanup leaves them for a while, do not count.
    """
    first = latest(listing) + 1
    while first - 1 in listing.commits:
        first -= 1
    starts = [c.version for c in listing.checkpoints]
    if 0 in listing.commits:
        starts.append(0)
    return min((v for v in starts if v >= first - 1), default=min(starts, default=None))


def latest(listing: Listing) -> int:
    """The last version there is."""
    ends = [c.version for c in listing.checkpoints]
    return max([*ends, *listing.commits], default=-1)


def out_of_range(listing: Listing, table: str, version: int) -> VersionNotFoundError:
    first = earliest(listing)
    span = (
        "no version can be read"
        if first is None
        else f"versions {first} to {latest(listing)} can be read"
        if listing.start == 0
        else f"the latest version is {latest(listing)}"
    )
    return VersionNotFoundError(
        f"Version {version} is not there: {span}.",
        table=table,
        version=version,
        hint="It may not have been written yet, or log retention has removed it.",
    )
