"""Index tables without Spark: the very task writer that runs on executors, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from tidegate.index.build import HEAP
from tidegate.index.fields import DocMapping, mapping_for
from tidegate.index.log import IndexLog
from tidegate.index.settings import Settings
from tidegate.index.tables import Searchable
from tidegate.index.write import COMMIT, MAPPING, Layout, TaskWriter, with_constants
from tidegate.schema.arrow import from_arrow_schema
from tidegate.schema.types import StructType


def _adds(
    log: IndexLog, table: pa.Table, options: Mapping[str, str] | None, partitions: tuple[str, ...]
) -> tuple[pa.Table, StructType, DocMapping]:
    schema = from_arrow_schema(table.schema)
    mapping = mapping_for(schema, partitions, Settings(options))
    layout = Layout(log.url, schema.to_json(), partitions, mapping.to_json(), (), HEAP, 1 << 30, 32, None)
    if partitions:
        table = table.sort_by([(p, "ascending") for p in partitions])
    batches = list(TaskWriter(layout).run(iter(table.to_batches(1000))))
    return with_constants(pa.Table.from_batches(batches, COMMIT), mapping), schema, mapping


def append_index(
    path: str | Path,
    table: pa.Table,
    options: Mapping[str, str] | None = None,
    partitions: tuple[str, ...] = (),
    *,
    overwrite: bool = False,
) -> None:
    """One more write to an index table."""
    log = IndexLog.at(path)
    adds, _, _ = _adds(log, table, options, partitions)
    if overwrite:
        log.overwrite(adds)
    else:
        log.append(adds)


def write_index(
    path: str | Path,
    tables: Iterable[pa.Table],
    options: Mapping[str, str] | None = None,
    partitions: tuple[str, ...] = (),
) -> Searchable:
    """A new index table; each Arrow table is what one task writes, and one commit."""
    log = IndexLog.at(path)
    for number, table in enumerate(tables):
        adds, schema, mapping = _adds(log, table, options, partitions)
        if number == 0:
            log.create(schema.to_json(), partitions, {MAPPING: mapping.to_json()}, adds=adds)
        else:
            log.append(adds)
    return Searchable.open(path)
