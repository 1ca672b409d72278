"""Rows deleted by vectors: what files hide already and what they hide from now on, put into vector files.

Given live files and the rows that each is to lose, this gives the adds that renew them: the old vector
and the new rows united, packed into few files, statistics marked as wide. A file that loses its last row
gets no vector: it is to be removed. The files are written before anything refers to them.
Specification: "Deletion Vectors", "Per-file Statistics" (``tightBounds``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tidegate.errors import DVInvalidError
from tidegate.files import deletion_vectors
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.files.locating import locate
from tidegate.storage.store import Store

_THREADS = 8
# Vectors are packed until a file has about this many bytes.
_PACKED = 2 << 20


@dataclass(frozen=True, slots=True)
class Vectored:
    """What deleting rows came to, file by file in the order given.

    ``renewed`` are the files that live on, by index, with their new vector and statistics;
    ``emptied`` those that lost their last row. ``deleted`` counts the rows that went.
    """

    renewed: dict[int, tuple[DeletionVector, str]]
    emptied: list[int]
    deleted: int


def delete_rows(store: Store, files: pa.Table, rows: Mapping[int, BitMap64], *, prefix: str = "") -> Vectored:
    """Write vectors for ``files`` (path, stats and deletionVector) that hide ``rows`` too, by index."""
    at = sorted(rows)
    some = files.take(pa.array(at, pa.int64()))
    paths = some.column("path").to_pylist()
    texts = some.column("stats").to_pylist()
    old = [vector_of(v) for v in some.column("deletionVector").to_pylist()]

    def one(i: int) -> tuple[BitMap64, int, _Stats, int]:
        stats = _stats(texts[i])
        count = stats.numRecords if stats.numRecords is not None else count_rows(store, paths[i])
        before = read_bitmap(store, vector) if (vector := old[i]) is not None else BitMap64()
        both = before | rows[at[i]]
        if both and both.max() >= count:
            raise DVInvalidError(
                f"Row {both.max()} is to be deleted, but the file has {count} rows.", file=paths[i]
            )
        return both, count, stats, len(before)

    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(one, range(len(at))))
    kept = [i for i, (both, count, _, _) in enumerate(found) if len(both) < count]
    vectors = write_vectors(store, [found[i][0] for i in kept], prefix=prefix)
    renewed = {}
    for i, vector in zip(kept, vectors, strict=True):
        _, count, stats, before = found[i]
        renewed[at[i]] = (vector, _widened(stats, count, count - before))
    emptied = [at[i] for i in range(len(at)) if at[i] not in renewed]
    return Vectored(renewed, emptied, sum(len(both) - before for both, _, _, before in found))


def vector_of(value: Mapping[str, Any] | None) -> DeletionVector | None:
    """The descriptor in a row of the column ``deletionVector``."""
    return None if value is None else msgspec.convert(value, DeletionVector)


def write_vectors(store: Store, bitmaps: Sequence[BitMap64], *, prefix: str = "") -> list[DeletionVector]:
    """Write bitmaps into as few files as is sensible; their descriptors in the same order."""
    groups: list[list[BitMap64]] = []
    room = 0
    for bitmap in bitmaps:
        # About what the portable form takes: at most eight bytes a row, far less where rows are many.
        size = min(len(bitmap) * 8, 1 << 20) + 64
        if room < size or not groups:
            groups.append([])
            room = max(_PACKED, size)
        groups[-1].append(bitmap)
        room -= size

    def put(group: list[BitMap64]) -> tuple[DeletionVector, ...]:
        packed = deletion_vectors.write_file(group, prefix=prefix)
        store.put_if_absent(packed.name, packed.data)
        return packed.vectors

    with ThreadPoolExecutor(_THREADS) as pool:
        return [vector for vectors in pool.map(put, groups) for vector in vectors]


def read_bitmap(store: Store, vector: DeletionVector) -> BitMap64:
    """The rows that a vector hides, checked, wherever it is kept."""

    def get_range(name: str, offset: int, length: int) -> bytes:
        if vector.storage_type != deletion_vectors.ABSOLUTE:
            return store.get_range(name, offset, length)
        where, leaf = locate(store, name)
        return where.get_range(leaf, offset, length)

    return deletion_vectors.read(vector, get_range)


# ---------------------------------------------------------------------------- statistics


class _Stats(msgspec.Struct):
    """Statistics with their bounds as they stand: a decimal keeps every digit."""

    numRecords: int | None = None
    minValues: msgspec.Raw = msgspec.Raw()
    maxValues: msgspec.Raw = msgspec.Raw()
    nullCount: dict[str, Any] | None = None
    tightBounds: bool | None = None


def _stats(text: str | None) -> _Stats:
    """What a text says; one that makes no sense says nothing."""
    try:
        return msgspec.json.decode(text, type=_Stats) if text else _Stats()
    except msgspec.DecodeError:
        return _Stats()


def _widened(stats: _Stats, count: int, live: int) -> str:
    """Statistics of a file that hides rows: bounds may be wider than what is left.

    A column that was null in every live row says so from now on by the number of all rows.
    """
    out: dict[str, Any] = {"numRecords": count}
    if bytes(stats.minValues):
        out["minValues"] = stats.minValues
    if bytes(stats.maxValues):
        out["maxValues"] = stats.maxValues
    if stats.nullCount is not None:
        tight = stats.tightBounds is not False
        out["nullCount"] = _lifted(stats.nullCount, live, count) if tight else stats.nullCount
    out["tightBounds"] = False
    return msgspec.json.encode(out).decode()


def _lifted(counts: dict[str, Any], live: int, count: int) -> dict[str, Any]:
    return {
        name: _lifted(n, live, count) if isinstance(n, dict) else (count if n == live else n)
        for name, n in counts.items()
    }


def count_rows(store: Store, path: str) -> int:
    """The number of rows that a file's footer states."""
    where, name = locate(store, path)
    return int(pq.read_metadata(where.open_input(name)).num_rows)
