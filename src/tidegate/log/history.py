"""Commits in time: the history of a table, and which version was the latest at a given moment.

With in-commit timestamps a commit's time is the one it carries, from the version on that enabled
them. Without, it is the modification time of its file, made strictly increasing, so that a clock
that once went back does not hide a version.
Specification: "In-Commit Timestamps", "Writer Requirements for In-Commit Timestamps".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate import properties
from tidegate.errors import (
    FileMissingError,
    InvalidCommitError,
    LogError,
    LogTruncatedError,
    OptionError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from tidegate.log import segment as segments
from tidegate.log.commits import CommitActions
from tidegate.log.index_actions import told_by
from tidegate.log.moments import text_of, time_of
from tidegate.log.segment import Listing, LogFile
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog

_FIELDS = (
    "userId",
    "userName",
    "operation",
    "operationParameters",
    "job",
    "notebook",
    "clusterId",
    "readVersion",
    "isolationLevel",
    "isBlindAppend",
    "operationMetrics",
    "userMetadata",
    "engineInfo",
)


@dataclass(frozen=True, slots=True)
class InCommitEra:
    """From which version on commits carry their own time, and that version's time."""

    version: int
    timestamp: int


def in_commit_era(snapshot: Snapshot) -> InCommitEra | None:
    """When the table began to keep in-commit timestamps; None if it does not now."""
    configuration = snapshot.metadata.configuration
    if not properties.get(configuration, properties.ENABLE_IN_COMMIT_TIMESTAMPS):
        return None
    version = properties.get(configuration, properties.IN_COMMIT_TIMESTAMP_VERSION)
    timestamp = properties.get(configuration, properties.IN_COMMIT_TIMESTAMP_TIMESTAMP)
    return InCommitEra(version or 0, timestamp or 0)


def modification_times(commits: list[LogFile]) -> dict[int, int]:
    """Commit times by file, ascending versions in, each at least a millisecond after the last."""
    out: dict[int, int] = {}
    last: int | None = None
    for found in commits:
        last = found.info.modified if last is None else max(found.info.modified, last + 1)
        out[found.name.version] = last
    return out


def _sorted_commits(listing: Listing, low: int, high: int) -> list[LogFile]:
    return [listing.commits[v] for v in sorted(listing.commits) if low <= v <= high]


def _read(log: TableLog, found: LogFile) -> CommitActions:
    try:
        return log.dialect.decode(log.store.get(found.info.name), found.name.text)
    except LogError as e:
        raise e.at(table=log.url, version=found.name.version) from None


def in_commit_timestamp(log: TableLog, found: LogFile) -> int:
    """The time that the commit ``found`` carries."""
    try:
        value = _read(log, found).commit_info.get("inCommitTimestamp")
    except FileMissingError as e:
        raise VersionNotFoundError(
            f"Version {found.name.version} was removed from the log while its time was looked up.",
            table=log.url,
            version=found.name.version,
            hint="Log retention is at work; try again.",
        ) from e
    if not isinstance(value, int):
        raise InvalidCommitError(
            "The table keeps in-commit timestamps, but this commit carries none.",
            table=log.url,
            version=found.name.version,
            file=found.name.text,
        )
    return value


def history(log: TableLog, version: int, limit: int | None = None) -> list[dict[str, Any]]:
    """One entry per commit up to ``version`` that is still in the log, newest first."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise OptionError(f"The limit of a history is a number of commits from 0 on, not {limit!r}.")
    listing = log.listing(0, version)
    commits = _sorted_commits(listing, 0, version)
    times = modification_times(commits)
    out = []
    for found in reversed(commits if limit is None else commits[max(0, len(commits) - limit) :]):
        try:
            actions = _read(log, found)
        except FileMissingError:
            continue
        info = actions.commit_info
        if not info and not log.dialect.commit_info:
            info = told_by(actions)
        own = info.get("inCommitTimestamp")
        moment = own if isinstance(own, int) else times[found.name.version]
        entry: dict[str, Any] = {
            "version": found.name.version,
            "timestamp": time_of(moment),
        }
        entry.update((name, info.get(name)) for name in _FIELDS)
        entry["readVersion"] = _long(entry["readVersion"])
        entry["isBlindAppend"] = _boolean(entry["isBlindAppend"])
        out.append(entry)
    return out


def _long(value: Any) -> int | None:
    """A number as a writer may have put it, None for what is none."""
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if -(2**63) <= found < 2**63 else None


def _boolean(value: Any) -> bool | None:
    """True or false as a writer may have put it, None for what is neither."""
    return {"true": True, "false": False}.get(str(value).lower())


def version_at(log: TableLog, moment: int, *, latest: Snapshot | None = None) -> int:
    """The version that was the latest at ``moment`` (milliseconds).

    ``TimestampOutOfRangeError`` before the first version that can be read and after the last.
    """
    latest = latest or load(log)
    listing = log.listing(0, latest.version)
    first = segments.earliest(listing)
    if first is None:
        raise LogTruncatedError("No version of this table can be read.", table=log.url)
    commits = _sorted_commits(listing, 0, latest.version)
    readable = [c for c in commits if c.name.version >= first]
    if not readable:
        raise TimestampOutOfRangeError(
            "The log holds a checkpoint but no commits, so no version has a time.", table=log.url
        )
    era = in_commit_era(latest)
    if era is not None and moment >= era.timestamp:
        own = [c for c in readable if c.name.version >= era.version]
        if own:
            return _search_in_commit(log, own, moment)
    if era is not None:
        readable = [c for c in readable if c.name.version < era.version]
        if not readable:
            own = [c for c in commits if c.name.version >= max(first, era.version)]
            raise _too_early(log, moment, in_commit_timestamp(log, own[0]), own[0].name.version)
    times = modification_times([c for c in commits if c.name.version <= readable[-1].name.version])
    earliest = times[readable[0].name.version]
    if moment < earliest:
        raise _too_early(log, moment, earliest, readable[0].name.version)
    last = readable[-1].name.version
    if moment > times[last] and era is None:
        raise _too_late(log, moment, times[last], last)
    return max(c.name.version for c in readable if times[c.name.version] <= moment)


def _search_in_commit(log: TableLog, commits: list[LogFile], moment: int) -> int:
    """Bisect over commits that carry their own, strictly increasing, time."""
    first = in_commit_timestamp(log, commits[0])
    if moment < first:
        raise _too_early(log, moment, first, commits[0].name.version)
    last = in_commit_timestamp(log, commits[-1])
    if moment > last:
        raise _too_late(log, moment, last, commits[-1].name.version)
    low, high = 0, len(commits) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if in_commit_timestamp(log, commits[middle]) <= moment:
            low = middle
        else:
            high = middle - 1
    return commits[low].name.version


def _too_early(log: TableLog, moment: int, first: int, version: int) -> TimestampOutOfRangeError:
    return TimestampOutOfRangeError(
        f"{text_of(moment)} is before the earliest version that can be read: version {version} of "
        f"{text_of(first)}.",
        table=log.url,
        hint=f"Use a timestamp from {text_of(first)} on.",
        errorClass="DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
    )


def _too_late(log: TableLog, moment: int, last: int, version: int) -> TimestampOutOfRangeError:
    return TimestampOutOfRangeError(
        f"{text_of(moment)} is after the latest version: version {version} of {text_of(last)}.",
        table=log.url,
        hint=f"Use a timestamp up to {text_of(last)}, or no timestamp for the latest version.",
        errorClass="DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
    )
