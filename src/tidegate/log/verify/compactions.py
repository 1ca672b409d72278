"""Log compactions: a file that stands for the commits x to y must leave the state that they leave.

What counts is the state after it, on top of any older one: tombstones of files and domains stay,
or what they removed would come back.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from tidegate.errors import FileMissingError, LogError
from tidegate.log import names
from tidegate.log.commits import CommitActions
from tidegate.log.replay import FileTail, SmallState, reconcile_files, reconcile_small
from tidegate.log.segment import Listing, LogFile
from tidegate.log.table_log import TableLog
from tidegate.log.verify import compare
from tidegate.log.verify.report import Checked, Findings
from tidegate.log.verify.state import FILE_SCHEMA


def check_compaction(
    log: TableLog, listing: Listing, compaction: LogFile, found: Findings, checked: Checked
) -> None:
    """Compare one compaction with the commits it stands for, as far as they are still there."""
    name = compaction.name
    try:
        theirs = log.dialect.decode(log.store.get(compaction.info.name), name.text)
    except FileMissingError:
        return  # retention is at work
    except LogError as e:
        found.raised(e, name.end, name.text)
        return
    ours = _commits(log, listing, name.version, name.end)
    if ours is None:
        checked.compactions_unproven += 1
        return
    checked.compactions += 1
    for difference in _differences(ours, theirs, log.clock()):
        found.error(
            "COMPACTION_MISMATCH",
            f"The log compaction of versions {name.version} to {name.end} is not what its commits make: "
            f"{difference}.",
            name.end,
            name.text,
        )


def _commits(log: TableLog, listing: Listing, first: int, last: int) -> list[CommitActions] | None:
    """The commits of the range, newest first; None if one of them is gone or broken."""
    out: list[CommitActions] = []
    for version in range(last, first - 1, -1):
        commit = listing.commits.get(version)
        if commit is None:
            return None
        try:
            out.append(log.dialect.decode(log.store.get(commit.info.name), names.commit(version)))
        except (FileMissingError, LogError):
            return None
    return out


def _differences(commits: list[CommitActions], compaction: CommitActions, now: int) -> Iterator[str]:
    ours, theirs = reconcile_small(commits), reconcile_small([compaction])
    yield from compare.small_differences(ours, theirs, now)
    yield from _removed_domains(ours, theirs)
    files, compacted = reconcile_files(commits), reconcile_files([compaction])
    yield from compare.file_differences(
        [b.select(FILE_SCHEMA.names) for b in files.adds],
        [b.select(FILE_SCHEMA.names) for b in compacted.adds],
        compare.partition_names(ours.metadata),
    )
    yield from _removed_files(files, compacted)


def _removed_domains(ours: SmallState, theirs: SmallState) -> Iterator[str]:
    for name, domain in ours.domains.items():
        if domain.removed and name not in theirs.domains:
            yield f"the tombstone of the domain {name} is absent"


def _removed_files(ours: FileTail, theirs: FileTail) -> Iterator[str]:
    expected, found = compare.keys_of(ours.removes), compare.keys_of(theirs.removes)
    absent = expected.filter(pc.invert(pc.is_in(expected, value_set=found)))
    if len(absent):
        yield f"the remove of {absent[0].as_py()!r} is absent ({len(absent)} in all)"
    extra = found.filter(pc.invert(pc.is_in(found, value_set=expected)))
    if len(extra):
        yield f"it removes {extra[0].as_py()!r}, which the commits do not ({len(extra)} in all)"
