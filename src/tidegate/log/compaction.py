"""Log compactions: one file that stands for the commits x to y, reconciled.

Optional to read and to write. A compaction keeps everything a replay of its range would need to
reach the same state on top of any older one: tombstones of files and of domains stay in it, only
commitInfo and change files go.
Specification: "Log Compaction Files".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.errors import NameTakenError
from tidegate.log import names
from tidegate.log.actions import to_wire
from tidegate.log.columns import batch_to_wire
from tidegate.log.commits import CommitActions, encode_lines
from tidegate.log.replay import reconcile_files, reconcile_small
from tidegate.log.table_log import TableLog


def compacted(commits: Sequence[CommitActions]) -> bytes:
    """The bytes of a compaction of ``commits``, given newest first."""
    return encode_lines(_lines(commits))


def _lines(commits: Sequence[CommitActions]) -> Iterator[dict[str, Any]]:
    small = reconcile_small(commits)
    if small.protocol is not None:
        yield to_wire(small.protocol)
    if small.metadata is not None:
        yield to_wire(small.metadata)
    for txn in small.txns.values():
        yield to_wire(txn)
    for domain in small.domains.values():
        yield to_wire(domain)
    files = reconcile_files(commits)
    for batch in files.removes:
        yield from batch_to_wire("remove", batch)
    for batch in files.adds:
        yield from batch_to_wire("add", batch)


def write_compaction(log: TableLog, start: int, end: int, commits: Sequence[CommitActions]) -> str | None:
    """Write the compaction of ``start`` to ``end``; None if there is one, or nothing to put in it."""
    data = compacted(commits)
    name = names.compaction(start, end)
    if not data:
        return None
    try:
        log.store.put_if_absent(log.path(name), data)
    except NameTakenError:
        return None
    return name
