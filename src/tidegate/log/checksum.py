"""Version checksums: what ``N.crc`` says of version N, and how it follows from N-1 and a commit.

A checksum answers for protocol, metadata and counts without a replay, and it convicts a replay
that came out different. It is optional everywhere: one that is missing, torn or malformed is as
good as none. ``advance`` returns None whenever the next counts cannot be known for certain.
Specification: "Version Checksum File".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.actions import Add, DomainMetadata, Txn, to_wire
from tidegate.log.columns import ADD_SCHEMA, from_batch, to_batch
from tidegate.log.replay import SmallState, file_key, file_keys
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol

# The files among these keys that are live, with their sizes and deletion vectors.
LiveAmong = Callable[[pa.Array], list[pa.RecordBatch]]

MAX_TRANSACTIONS = 100
MAX_DOMAINS = 10
MAX_FILES = 50

_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
# Delta's own bins: delta-spark refuses to checkpoint a version whose checksum has others.
_MIB_STEPS = (
    *(range(12, 41, 4), range(48, 121, 8), range(124, 145, 4), range(160, 577, 16)),
    *(range(640, 1409, 64), range(1536, 2049, 128), range(2304, 4097, 256)),
)
BOUNDARIES = (
    0,
    *(8 * _KIB * 2**i for i in range(11)),
    *(n * _MIB for steps in _MIB_STEPS for n in steps),
    *(n * _GIB for n in (8, 16, 32, 64, 128, 256)),
)
# 0 | 1-9 | 10-99 | ... | 10 000 000 to 2^31-2 | from 2^31-1
_DELETED_BOUNDARIES = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 2**31 - 1)


class SizeHistogram(msgspec.Struct, frozen=True, rename="camel"):
    """File sizes in bins: ``sorted_bin_boundaries[i]`` is where bin i begins."""

    sorted_bin_boundaries: tuple[int, ...]
    file_counts: tuple[int, ...]
    total_bytes: tuple[int, ...]


class DeletedHistogram(msgspec.Struct, frozen=True, rename="camel"):
    """Files by the number of rows deleted from them."""

    deleted_record_counts: tuple[int, ...]


class Checksum(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The content of one ``.crc`` file."""

    txn_id: str | None = None
    table_size_bytes: int
    num_files: int
    num_metadata: int = 1
    num_protocol: int = 1
    in_commit_timestamp_opt: int | None = None
    set_transactions: list[Txn] | None = None
    domain_metadata: list[DomainMetadata] | None = None
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    file_size_histogram: SizeHistogram | None = None
    histogram_opt: SizeHistogram | None = None
    all_files: list[Add] | None = None
    num_deleted_records_opt: int | None = None
    num_deletion_vectors_opt: int | None = None
    deleted_record_counts_histogram_opt: DeletedHistogram | None = None


_decode = msgspec.json.Decoder(Checksum).decode
_FIELDS = tuple((f.name, f.encode_name) for f in msgspec.structs.fields(Checksum))


def decode(data: bytes) -> Checksum | None:
    """The checksum in ``data``, or None if it cannot be believed."""
    try:
        found = _decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return None
    if found.num_files < 0 or found.table_size_bytes < 0:
        return None
    return found


def encode(checksum: Checksum) -> bytes:
    """The text of the file; every list is written, also an empty one, so that none means unknown."""
    body: dict[str, Any] = {}
    for attribute, wire in _FIELDS:
        value = getattr(checksum, attribute)
        if value is None:
            continue
        if isinstance(value, list):
            value = [next(iter(to_wire(v).values())) for v in value]
        elif isinstance(value, Protocol | Metadata):
            value = next(iter(to_wire(value).values()))
        body[wire] = value
    return msgspec.json.encode(body)


class Counts(msgspec.Struct, frozen=True):
    """Sums over the live files of a table, or over those that a commit adds or removes."""

    files: int
    size: int
    bins: tuple[tuple[int, int], ...]
    deleted: int
    vectors: int
    deleted_bins: tuple[int, ...]

    def plus(self, other: Counts, sign: int = 1) -> Counts:
        if other.files == 0:
            return self
        if self.files == 0 and sign > 0:
            return other
        return Counts(
            self.files + sign * other.files,
            self.size + sign * other.size,
            tuple((a + sign * c, b + sign * d) for (a, b), (c, d) in zip(self.bins, other.bins, strict=True)),
            self.deleted + sign * other.deleted,
            self.vectors + sign * other.vectors,
            tuple(a + sign * b for a, b in zip(self.deleted_bins, other.deleted_bins, strict=True)),
        )


def count(batches: Iterable[pa.RecordBatch], boundaries: tuple[int, ...] = BOUNDARIES) -> Counts:
    """Counts over file actions with the columns size and deletionVector."""
    total = Counts(0, 0, ((0, 0),) * len(boundaries), 0, 0, (0,) * len(_DELETED_BOUNDARIES))
    for batch in batches:
        if batch.num_rows:
            total = total.plus(_count_batch(batch, boundaries))
    return total


def _count_batch(batch: pa.RecordBatch, boundaries: tuple[int, ...]) -> Counts:
    sizes = batch.column("size")
    vectors = batch.column("deletionVector")
    if batch.num_rows <= 32:
        bins = [[0, 0] for _ in boundaries]
        for size in sizes.to_pylist():
            slot = bins[bisect_right(boundaries, size) - 1]
            slot[0] += 1
            slot[1] += size
        pairs = tuple((a, b) for a, b in bins)
    else:
        pairs = _bin(sizes, boundaries)
    present = len(vectors) - vectors.null_count
    if present == 0:
        deleted, per_bin = 0, (batch.num_rows, *(0,) * (len(_DELETED_BOUNDARIES) - 1))
    else:
        cardinality = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0)
        deleted = pc.sum(cardinality).as_py() or 0
        per_bin = tuple(n for n, _ in _bin(cardinality, _DELETED_BOUNDARIES))
    return Counts(batch.num_rows, pc.sum(sizes).as_py() or 0, pairs, deleted, present, per_bin)


def _bin(values: pa.Array, boundaries: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """How many values fall into each bin, and their sum: by the tails above each boundary."""
    tails = []
    for boundary in boundaries:
        above = pc.greater_equal(values, boundary)
        n = above.true_count
        tails.append((n, (pc.sum(pc.if_else(above, values, 0)).as_py() or 0) if n else 0))
        if n == 0:
            tails += [(0, 0)] * (len(boundaries) - len(tails))
            break
    tails.append((0, 0))
    return tuple(
        (tails[i][0] - tails[i + 1][0], tails[i][1] - tails[i + 1][1]) for i in range(len(boundaries))
    )


def of_state(
    counts: Counts,
    small: SmallState,
    *,
    boundaries: tuple[int, ...] = BOUNDARIES,
    txn_id: str | None = None,
    in_commit_timestamp: int | None = None,
    all_files: list[Add] | None = None,
) -> Checksum:
    """The checksum of a state whose counts are known."""
    assert small.protocol is not None
    domains = list(small.live_domains().values())
    with_vectors = small.protocol.supports("deletionVectors")
    return Checksum(
        txn_id=txn_id,
        table_size_bytes=counts.size,
        num_files=counts.files,
        in_commit_timestamp_opt=in_commit_timestamp,
        set_transactions=list(small.txns.values()) if len(small.txns) <= MAX_TRANSACTIONS else None,
        domain_metadata=domains if len(domains) <= MAX_DOMAINS else None,
        metadata=small.metadata,
        protocol=small.protocol,
        file_size_histogram=SizeHistogram(
            boundaries, tuple(n for n, _ in counts.bins), tuple(b for _, b in counts.bins)
        ),
        all_files=all_files if all_files is not None and len(all_files) <= MAX_FILES else None,
        num_deleted_records_opt=counts.deleted if with_vectors else None,
        num_deletion_vectors_opt=counts.vectors if with_vectors else None,
        deleted_record_counts_histogram_opt=DeletedHistogram(counts.deleted_bins) if with_vectors else None,
    )


def counts_of(checksum: Checksum) -> tuple[Counts, tuple[int, ...]] | None:
    """The counts a checksum carries with its bin boundaries, None if it has no histogram."""
    histogram = checksum.file_size_histogram or checksum.histogram_opt
    if (
        histogram is None
        or histogram.sorted_bin_boundaries[:1] != (0,)
        or not len(histogram.sorted_bin_boundaries)
        == len(histogram.file_counts)
        == len(histogram.total_bytes)
    ):
        return None
    deleted = checksum.deleted_record_counts_histogram_opt
    if deleted is not None and len(deleted.deleted_record_counts) == len(_DELETED_BOUNDARIES):
        bins = deleted.deleted_record_counts
    elif checksum.num_deletion_vectors_opt in (None, 0):
        bins = (checksum.num_files, *(0,) * (len(_DELETED_BOUNDARIES) - 1))
    else:
        return None
    counts = Counts(
        checksum.num_files,
        checksum.table_size_bytes,
        tuple(zip(histogram.file_counts, histogram.total_bytes, strict=True)),
        checksum.num_deleted_records_opt or 0,
        checksum.num_deletion_vectors_opt or 0,
        bins,
    )
    return counts, histogram.sorted_bin_boundaries


def advance(
    previous: Checksum,
    small: SmallState,
    adds: list[pa.RecordBatch],
    removes: list[pa.RecordBatch],
    *,
    txn_id: str | None,
    in_commit_timestamp: int | None,
    live: LiveAmong | None = None,
) -> Checksum | None:
    """The next version's checksum from the previous one and the commit between them.

    Exact where the previous one lists its files. Where it does not, a commit is taken at its word:
    what it removes was live, and what it adds was not. Adds that change no data are not: they may
    renew the entries of files that are live already, so ``live`` is asked which of them do. None where
    nobody can be asked, or a remove does not tell its size.
    """
    known = counts_of(previous)
    if known is None:
        return None
    counts, boundaries = known
    files = _listed_files(previous)
    if files is not None:
        touched = _named_in(files, [*adds, *removes])
        renewed = [a for a, named in zip(files, touched, strict=True) if named]
        gone = [to_batch(renewed, ADD_SCHEMA)] if renewed else []
    else:
        gone = [b for b in (_without_dv_tombstones(r) for r in removes) if b.num_rows]
        if any(b.column("size").null_count for b in gone):
            return None
        doubtful = [b for b in map(_changing_nothing, adds) if b.num_rows]
        if doubtful:
            if live is None:
                return None
            gone += live(pa.concat_arrays([file_keys(b) for b in doubtful]))
    counts = counts.plus(count(adds, boundaries)).plus(count(gone, boundaries), -1)
    if counts.files < 0 or counts.size < 0 or any(n < 0 for n, _ in counts.bins):
        return None
    listed: list[Add] | None = None
    if files is not None and counts.files <= MAX_FILES:
        listed = [a for a, named in zip(files, touched, strict=True) if not named]
        listed += [a for batch in adds for a in from_batch(batch, Add)]
    return of_state(
        counts,
        small,
        boundaries=boundaries,
        txn_id=txn_id,
        in_commit_timestamp=in_commit_timestamp,
        all_files=listed,
    )


def _listed_files(checksum: Checksum) -> list[Add] | None:
    """The files that a checksum lists, None if it does not or if they are not those it counts."""
    files = checksum.all_files
    if files is None or len(files) != checksum.num_files:
        return None
    return files if sum(a.size for a in files) == checksum.table_size_bytes else None


def _named_in(files: list[Add], batches: list[pa.RecordBatch]) -> list[bool]:
    """Which of a few files the actions in ``batches`` speak of."""
    if not files or not batches:
        return [False] * len(files)
    named = pa.concat_arrays([file_keys(b) for b in batches])
    found: list[bool] = pc.is_in(pa.array([file_key(a) for a in files]), value_set=named).to_pylist()
    return found


def _changing_nothing(adds: pa.RecordBatch) -> pa.RecordBatch:
    """The adds that change no data."""
    changes = adds.column("dataChange")
    return adds.slice(0, 0) if changes.true_count == len(changes) else adds.filter(pc.invert(changes))


def _without_dv_tombstones(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Removes of files, without the bare ones that only keep a deletion vector's file from VACUUM."""
    if not batch.column("size").null_count:
        return batch
    bare = pc.and_(pc.is_null(batch.column("size")), pc.ends_with(batch.column("path"), ".bin"))
    return batch.filter(pc.invert(bare))
