"""``write_files``: the one way data gets out of Spark into a table.

The transaction is marked as having written before the job starts. What comes back are the adds, as
an Arrow table ready to be committed; nothing is visible before the commit, and a job that fails
leaves at most orphan files for VACUUM.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate import properties
from tidegate.files.partitions import serialize
from tidegate.files.paths import encode_path
from tidegate.log.actions import ADD_SCHEMA, CDC_SCHEMA, Add, to_batch
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode, physical_name, to_physical
from tidegate.schema.types import TIMESTAMP, DataType, StructType
from tidegate.spark import failures
from tidegate.spark.scan.native import hadoop_root
from tidegate.spark.write import footers, native
from tidegate.spark.write.constraints import enforced
from tidegate.spark.write.fit import fitted, physical
from tidegate.spark.write.layout import Placed
from tidegate.transaction.transaction import Transaction

_log = logging.getLogger("tidegate.spark.write")
_PASSED_ON = ("maxRecordsPerFile", "compression", "parquet.writer.version")


class Written(NamedTuple):
    """The files of one write: data files as add actions, change files as cdc actions."""

    adds: pa.Table
    cdcs: pa.Table


def write_files(
    transaction: Transaction,
    frame: DataFrame,
    options: Mapping[str, str] | None = None,
    *,
    is_optimize: bool = False,
    operation: str = "WRITE",
) -> Written:
    """Write ``frame`` into the table of ``transaction``; the files as actions."""
    metadata = transaction.metadata
    provided = frozenset(c.lower() for c in frame.columns)
    data = physical(enforced(fitted(frame, metadata), metadata, provided), metadata)
    failures.watch(hadoop_root(transaction.log.url), transaction.log.url)
    transaction.mark_written()
    mode = mapping_mode(metadata)
    names = [physical_name(f, mode) for f in metadata.partition_schema.fields]
    given = {k.lower(): v for k, v in (options or {}).items()}
    passed = {k: given[k.lower()] for k in _PASSED_ON if k.lower() in given}
    written = native.write(
        frame.sparkSession, data, hadoop_root(transaction.log.url), names, operation=operation, options=passed
    )
    adds = adds_of(transaction, metadata, written, data_change=not is_optimize)
    return Written(adds, CDC_SCHEMA.empty_table())


def adds_of(
    transaction: Transaction,
    metadata: Metadata,
    written: list[tuple[Placed, int, int]],
    *,
    data_change: bool = True,
) -> pa.Table:
    """Task commits as add actions, with the statistics of their footers; empty files are left out."""
    mode = mapping_mode(metadata)
    partitions = {physical_name(f, mode): f for f in metadata.partition_schema.fields}
    stored = to_physical(metadata.schema, mode)
    data = StructType(tuple(f for f in stored.fields if f.name not in partitions))
    count = properties.get(metadata.configuration, properties.DATA_SKIPPING_NUM_INDEXED_COLS)
    leaves = footers.indexed_leaves(data, count)
    tight = transaction.protocol.supports("deletionVectors")
    texts = footers.of_files(transaction.log.store, [p.path for p, _, _ in written], leaves, tight=tight)
    adds = []
    for (place, size, modified), text in zip(written, texts, strict=True):
        if text.startswith('{"numRecords":0,'):
            continue
        values = {name: _normal(place.partition_values.get(name), f.type) for name, f in partitions.items()}
        adds.append(
            Add(
                path=encode_path(place.path),
                partition_values=values,
                size=size,
                modification_time=modified,
                data_change=data_change,
                stats=text,
            )
        )
    _log.debug("%s: %d files written", transaction.log.url, len(adds))
    return pa.Table.from_batches([to_batch(adds, ADD_SCHEMA)] if adds else [], ADD_SCHEMA)


def _normal(text: str | None, kind: DataType) -> str | None:
    """A partition value as the log spells it: timestamps in UTC, in the ISO form."""
    if text is None or kind != TIMESTAMP:
        return text
    return serialize(datetime.fromisoformat(text).replace(tzinfo=timezone.utc), kind)
