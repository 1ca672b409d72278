"""Row tracking: which row ids the files of a commit own, and how they move when another writer won.

Every file owns the ids ``baseRowId .. baseRowId + numRecords - 1``; the highest id ever given out
is the high-water mark in the domain ``delta.rowTracking``. A commit that loses a race keeps the
order of its ids and moves them behind the winner's mark, so no id is ever given out twice.
Specification: "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CommitRefusedError, LogError

DOMAIN = "delta.rowTracking"

# The mark of a table whose rows have no ids yet: the first id is 0.
NO_MARK = -1
_MAX_ID = 2**63 - 1


class _Mark(msgspec.Struct, frozen=True):
    rowIdHighWaterMark: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """First row ids, one per file in the order given, and the mark that now holds."""

    base_row_ids: pa.Array
    high_water_mark: int


def assign(num_records: pa.Array | Sequence[int | None], high_water_mark: int | None = None) -> Assigned:
    """Fresh ids for files that have none, above the mark. Every file must know its number of rows."""
    counts = num_records if isinstance(num_records, pa.Array) else pa.array(num_records, pa.int64())
    counts = counts.cast(pa.int64())
    mark = NO_MARK if high_water_mark is None else high_water_mark
    if counts.null_count or (len(counts) and pc.min(counts).as_py() < 0):
        raise CommitRefusedError(
            "A file without a number of rows cannot take part in row tracking.",
            hint="Write the statistic numRecords with every file of this table.",
        )
    if len(counts) == 0:
        return Assigned(pa.array([], pa.int64()), mark)
    try:
        ends = pc.cumulative_sum_checked(counts, start=mark + 1)
    except pa.ArrowInvalid as e:
        raise CommitRefusedError("The table has no row ids left: they would go beyond 2^63 - 1.") from e
    return Assigned(pc.subtract(ends, counts), ends[-1].as_py() - 1)


def rebase(base_row_ids: pa.Array, own_read_mark: int | None, winner_mark: int | None) -> pa.Array:
    """The ids of a commit that lost, moved behind the winner's mark.

    Ids at or below the mark that the commit had read belong to files it carries along unchanged
    (a compaction, a new deletion vector): they stay. Nulls stay null.
    """
    read = NO_MARK if own_read_mark is None else own_read_mark
    won = NO_MARK if winner_mark is None else winner_mark
    if won <= read:
        return base_row_ids
    moved = pc.add_checked(base_row_ids, pa.scalar(won - read, pa.int64()))
    return pc.if_else(pc.greater(base_row_ids, read), moved, base_row_ids)


def rebase_mark(own_mark: int | None, own_read_mark: int | None, winner_mark: int | None) -> int:
    """The mark of a commit that lost, once its ids were moved by ``rebase``."""
    own = NO_MARK if own_mark is None else own_mark
    read = NO_MARK if own_read_mark is None else own_read_mark
    won = NO_MARK if winner_mark is None else winner_mark
    return own if won <= read else won + max(own - read, 0)


def fill_commit_versions(versions: pa.Array, commit_version: int) -> pa.Array:
    """``defaultRowCommitVersion``: the files' own where they have one, else the version being written."""
    return pc.fill_null(versions.cast(pa.int64()), pa.scalar(commit_version, pa.int64()))


def encode_mark(high_water_mark: int) -> str:
    """The configuration of the domain."""
    return msgspec.json.encode(_Mark(high_water_mark)).decode()


def decode_mark(configuration: str) -> int:
    """The mark in the domain's configuration."""
    try:
        mark = msgspec.json.decode(configuration, type=_Mark).rowIdHighWaterMark
    except msgspec.DecodeError as e:
        raise LogError(
            f"The domain {DOMAIN} does not say rowIdHighWaterMark: {configuration[:200]!r}.",
            hint="Rows written from here on could get ids that are taken; repair the domain first.",
        ) from e
    if mark > _MAX_ID:
        raise LogError(f"The domain {DOMAIN} has a mark beyond 2^63 - 1: {mark}.")
    return mark
