"""Index tables without Spark: the very task writer that runs on executors, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from tidegate.index.local import write_table
from tidegate.index.tables import Searchable


def append_index(
    path: str | Path,
    table: pa.Table,
    options: Mapping[str, str] | None = None,
    partitions: tuple[str, ...] = (),
    *,
    overwrite: bool = False,
) -> None:
    """One more write to an index table."""
    mode = "overwrite" if overwrite else "append"
    write_table(table, path, mode=mode, partition_by=partitions, options=options)


def write_index(
    path: str | Path,
    tables: Iterable[pa.Table],
    options: Mapping[str, str] | None = None,
    partitions: tuple[str, ...] = (),
) -> Searchable:
    """A new index table; each Arrow table is what one task writes, and one commit."""
    for table in tables:
        append_index(path, table, options, partitions)
    return Searchable.open(path)
