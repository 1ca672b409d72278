"""The changes of a transaction made concrete for one version: one attempt of the commit loop.

Row ids are given out, times set and commitInfo rendered anew for each attempt, since all of them
follow from the version before. Pure but for the ids of hidden columns.
Specification: "Row Tracking", "In-Commit Timestamps".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.files import row_ids
from tidegate.log.actions import Action, DomainMetadata, to_wire
from tidegate.log.columns import batch_to_wire
from tidegate.log.commits import CommitActions, encode_lines
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol
from tidegate.transaction.pending import Changes, num_records, with_column


@dataclass(frozen=True)
class Prepared:
    """One attempt: the changes as they will stand in ``version``, and the bytes to publish."""

    version: int
    changes: Changes
    commit_info: dict[str, Any]
    in_commit_timestamp: int | None
    high_water_mark: int | None

    def encode(self, *, commit_info: bool = True) -> bytes:
        """The commit: commitInfo first, then protocol and metadata, then everything else."""
        c = self.changes
        few: list[Mapping[str, Any]] = [{"commitInfo": self.commit_info}] if commit_info else []
        rare: list[Action | None] = [c.protocol, c.metadata, *c.txns, *c.domains, *c.skips]
        few += [to_wire(a) for a in rare if a is not None]
        files = (("remove", c.removes), ("add", c.adds), ("cdc", c.cdcs))
        return b"".join(
            [
                encode_lines(few),
                *(encode_lines(batch_to_wire(name, b)) for name, batches in files for b in batches),
            ]
        )

    def as_actions(self) -> CommitActions:
        actions = self.changes.as_actions()
        actions.raw_commit_info = msgspec.json.encode(self.commit_info)
        return actions


def tracks_rows(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether new files must be given row ids."""
    return protocol.supports("rowTracking") and not properties.get(
        metadata.configuration, properties.ROW_TRACKING_SUSPENDED
    )


def with_row_ids(changes: Changes, mark: int | None, version: int) -> tuple[Changes, int | None]:
    """``changes`` with ids on every add that has none, above the mark, and the mark that now holds.

    The mark comes above all ids that files bring along before the first one is given out.
    """
    fresh = [batch.column("baseRowId").is_null() for batch in changes.adds]
    high = mark
    for batch, has_none in zip(changes.adds, fresh, strict=True):
        high = _above_given(batch.filter(pc.invert(has_none)), high)
    out: list[pa.RecordBatch] = []
    for batch, has_none in zip(changes.adds, fresh, strict=True):
        if has_none.true_count:
            counts = num_records(batch.filter(has_none).column("stats"))
            assigned = row_ids.assign(counts, high)
            high = assigned.high_water_mark
            ids = pc.replace_with_mask(batch.column("baseRowId"), has_none, assigned.base_row_ids)
            batch = with_column(batch, "baseRowId", ids)
        versions = row_ids.fill_commit_versions(batch.column("defaultRowCommitVersion"), version)
        out.append(with_column(batch, "defaultRowCommitVersion", versions))
    changes = replace(changes, adds=tuple(out))
    if high is not None and high != (row_ids.NO_MARK if mark is None else mark):
        domain = DomainMetadata(domain=row_ids.DOMAIN, configuration=row_ids.encode_mark(high))
        others = tuple(d for d in changes.domains if d.domain != row_ids.DOMAIN)
        changes = replace(changes, domains=(*others, domain))
    return changes, high


def _above_given(batch: pa.RecordBatch, high: int | None) -> int | None:
    """The mark above the ids of files that bring theirs, as those of a clone and of an older version do.

    No two files share an id, so the highest one is in a file that begins last; one without rows may begin
    at the same id.
    """
    if batch.num_rows == 0:
        return high
    ids = batch.column("baseRowId")
    first = pc.max(ids)
    counts = num_records(batch.filter(pc.equal(ids, first)).column("stats"))
    end: int = first.as_py() + (pc.max(counts).as_py() or 0) - 1
    return end if high is None or end > high else high


def with_deletion_times(changes: Changes, now: int) -> Changes:
    """``changes`` whose removes say when, as tombstones are kept from then on, and what they carry."""
    out: list[pa.RecordBatch] = []
    for batch in changes.removes:
        times = batch.column("deletionTimestamp")
        if times.null_count:
            batch = with_column(batch, "deletionTimestamp", pc.fill_null(times, pa.scalar(now, pa.int64())))
        extended = batch.column("extendedFileMetadata")
        if extended.null_count:
            whole = pc.and_(batch.column("size").is_valid(), batch.column("partitionValues").is_valid())
            known = pc.if_else(whole, True, pa.scalar(None, pa.bool_()))
            batch = with_column(batch, "extendedFileMetadata", pc.coalesce(extended, known))
        out.append(batch)
    return replace(changes, removes=tuple(out))
