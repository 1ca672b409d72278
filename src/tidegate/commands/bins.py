"""Which files a compaction takes, and into which bins: rules on columns, without Spark.

A file is taken if it is small, if too many of its rows are deleted, or if it cannot say how many are.
Files of one partition (by the value, not by its spelling) fill bins up to a size, in order; a bin is
worth rewriting if it holds more than one file, or if the caller wants every file rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.files import partitions
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.transaction.pending import num_records

GIB = 1 << 30


@dataclass(frozen=True)
class Settings:
    """The sizes that steer a compaction, with Delta's defaults."""

    min_file_size: int = GIB
    max_file_size: int = GIB
    max_deleted_ratio: float = 0.05
    max_threads: int = 15
    batch_size: int | None = None
    repartition: bool = False
    # A cube of clustered files that has reached the first is whole; a new one takes files up to the second.
    min_cube_size: int = 100 * GIB
    target_cube_size: int = 150 * GIB


@dataclass(frozen=True)
class Bin:
    """Files of one partition that are rewritten together."""

    partition: str
    files: pa.Table

    @property
    def size(self) -> int:
        return int(pc.sum(self.files.column("size")).as_py() or 0)


def deleted_ratio(files: pa.Table) -> pa.ChunkedArray:
    """The share of each file's rows that its deletion vector hides; null where nobody knows."""
    vectors = files.column("deletionVector").combine_chunks()
    deleted = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0)
    texts = files.column("stats").combine_chunks()
    rows = num_records(texts)
    known = pc.if_else(pc.greater(rows, 0), pc.divide(deleted.cast(pa.float64()), rows), None)
    return pc.if_else(vectors.is_valid(), known, pa.scalar(0.0))


def candidates(files: pa.Table, settings: Settings) -> pa.Table:
    """The files that a compaction takes."""
    if files.num_rows == 0:
        return files
    small = pc.less(files.column("size"), settings.min_file_size)
    ratio = deleted_ratio(files)
    deleted = pc.fill_null(pc.greater(ratio, settings.max_deleted_ratio), True)
    return files.filter(pc.or_(small, deleted))


def keys(files: pa.Table, metadata: Metadata) -> list[str]:
    """The partition of each file, equal for files whose values are equal however they are spelt."""
    mode = mapping_mode(metadata)
    values = files.column("partitionValues").combine_chunks()
    columns = []
    for f in metadata.partition_schema.fields:
        column = partitions.typed(values, physical_name(f, mode), f.type)
        if pa.types.is_temporal(column.type):
            # Python's dates and times end with the year 9999.
            column = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
        columns.append(column.to_pylist())
    if not columns:
        return [""] * files.num_rows
    return [repr(row) for row in zip(*columns, strict=True)]


def pack(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Indexes of ``sizes`` in bins of at most ``most`` together, in the order given."""
    out: list[list[int]] = []
    full = most + 1
    for index, size in enumerate(sizes):
        if full + size > most:
            out.append([])
            full = 0
        out[-1].append(index)
        full += size
    return out


def bins(files: pa.Table, metadata: Metadata, most: int, *, single: bool = False) -> list[Bin]:
    """The bins to rewrite; bins of one file only if ``single``. Small files come first in each partition."""
    if files.num_rows == 0:
        return []
    files = files.sort_by([("size", "ascending")])
    groups: dict[str, list[int]] = {}
    for index, key in enumerate(keys(files, metadata)):
        groups.setdefault(key, []).append(index)
    sizes = files.column("size").to_pylist()
    out = []
    for key, members in groups.items():
        for packed in pack([sizes[i] for i in members], most):
            if len(packed) > 1 or single:
                out.append(Bin(key, files.take([members[i] for i in packed])))
    return out


def batches(found: Sequence[Bin], size: int | None) -> list[list[Bin]]:
    """The bins that are committed together: all of them, or up to ``size`` bytes a commit."""
    if size is None:
        return [list(found)] if found else []
    return [[found[i] for i in group] for group in pack([b.size for b in found], size)]
