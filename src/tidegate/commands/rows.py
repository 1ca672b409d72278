"""What DELETE, UPDATE and MERGE share: how rows leave files, and what is said of it afterwards.

Rows leave a file by a new deletion vector where the table has them enabled, otherwise the file is
written anew without them. Either way the commit names every file it touched as read, so two commands
that touch different files never stand in each other's way.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import properties
from tidegate.commands.removes import as_removes
from tidegate.errors import AppendOnlyError, NotATableError
from tidegate.files.vector_files import count_rows, delete_rows
from tidegate.log.columns import ADD_SCHEMA, DV_TYPE, REMOVE_SCHEMA
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.columns import generated_columns
from tidegate.spark.confs import conf
from tidegate.spark.expressions import quote
from tidegate.spark.scan.projection import spark_type
from tidegate.spark.write.layout import CHANGE_TYPE
from tidegate.storage.store import Store
from tidegate.transaction.pending import num_records
from tidegate.transaction.transaction import Transaction

_THREADS = 8


@dataclass
class Watch:
    """Times of the parts of a command, in milliseconds, under the names of Delta's metrics."""

    start: float = field(default_factory=time.perf_counter)
    marks: dict[str, int] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        """What ran since the last lap is called ``name``."""
        now = time.perf_counter()
        self.marks[name] = self.marks.get(name, 0) + int((now - self._last) * 1000)
        self._last = now

    def metrics(self) -> dict[str, int]:
        total = int((time.perf_counter() - self.start) * 1000)
        return {"executionTimeMs": total, **self.marks}


def begin(
    log: TableLog, *, removes: bool = True, base: Snapshot | None = None
) -> tuple[Transaction, Snapshot]:
    """A transaction on a table that is there and whose rows may be changed, ``base`` or as it is now."""
    transaction = Transaction.begin(log) if base is None else Transaction(log, base)
    snapshot = transaction.snapshot
    if snapshot is None:
        raise NotATableError("There is no table here.", table=log.url)
    if removes and snapshot.metadata.property(properties.APPEND_ONLY):
        raise AppendOnlyError(
            "The table is append-only: rows can be added, never changed or deleted.",
            table=log.url,
            hint="Set delta.appendOnly = false to allow it.",
        )
    return transaction, snapshot


def uses_vectors(spark: SparkSession, metadata: Metadata, command: str) -> bool:
    """Whether rows leave files of the table by deletion vectors."""
    enabled = metadata.property(properties.ENABLE_DELETION_VECTORS)
    return enabled and conf(spark, f"{command}.deletionVectors.persistent", True)


def feeds_changes(metadata: Metadata) -> bool:
    return metadata.property(properties.ENABLE_CHANGE_DATA_FEED)


# ---------------------------------------------------------------------------- files


def live_rows(files: pa.Table) -> list[int | None]:
    """The rows that each file shows, None where its statistics do not say."""
    out: list[int | None] = []
    for batch in files.select(["stats", "deletionVector"]).to_batches():
        hidden = pc.struct_field(batch.column("deletionVector"), "cardinality")
        out += pc.subtract(num_records(batch.column("stats")), pc.fill_null(hidden, 0)).to_pylist()
    return out


def emptied(files: pa.Table, going: Sequence[int]) -> list[bool]:
    """Which files lose every row they show, where so many of each go.

    One whose statistics do not count its rows may have others.
    """
    return [count == n for count, n in zip(live_rows(files), going, strict=True)]


def total(counts: Sequence[int | None]) -> int | None:
    """Their sum, None if one is not known."""
    known = [c for c in counts if c is not None]
    return sum(known) if len(known) == len(counts) else None


def shown(store: Store, files: pa.Table) -> int:
    """The rows that some files show together; footers tell where statistics do not."""
    live = live_rows(files)
    silent = files.filter(pa.array([n is None for n in live], pa.bool_()))
    hidden = pc.sum(pc.struct_field(silent.column("deletionVector").combine_chunks(), "cardinality")).as_py()
    with ThreadPoolExecutor(_THREADS) as pool:
        counted = pool.map(lambda path: count_rows(store, path), silent.column("path").to_pylist())
        return sum(n for n in live if n is not None) + sum(counted) - (hidden or 0)


def size_of(files: pa.Table) -> int:
    """The bytes of some files together."""
    return int(pc.sum(files.column("size")).as_py() or 0)


def no_files() -> pa.Table:
    return ADD_SCHEMA.empty_table()


@dataclass(frozen=True)
class FileChanges:
    """The file actions of a command that changes rows, and what they come to.

    ``files`` and ``size`` count the files that leave the table for good. Vectors are counted as Delta
    does: one that changes has gone, has come and was updated.
    """

    adds: pa.Table = field(default_factory=no_files)
    removes: pa.Table = field(default_factory=REMOVE_SCHEMA.empty_table)
    files: int = 0
    size: int = 0
    deleted: int = 0
    vectors_added: int = 0
    vectors_removed: int = 0
    vectors_updated: int = 0

    def vector_metrics(self, prefix: str = "num") -> dict[str, int]:
        return {
            f"{prefix}DeletionVectorsAdded": self.vectors_added,
            f"{prefix}DeletionVectorsRemoved": self.vectors_removed,
            f"{prefix}DeletionVectorsUpdated": self.vectors_updated,
        }


def removed(transaction: Transaction, files: pa.Table) -> FileChanges:
    """The files as removed whole."""
    with_vector = files.num_rows - files.column("deletionVector").null_count
    removes = as_removes(files, transaction.log.clock())
    return FileChanges(
        removes=removes, files=files.num_rows, size=size_of(files), vectors_removed=with_vector
    )


def hidden(transaction: Transaction, files: pa.Table, rows: Mapping[int, BitMap64]) -> FileChanges:
    """The files with ``rows`` (by index) hidden by new vectors; emptied files are removed whole."""
    out = delete_rows(transaction.log.store, files, rows)
    at = sorted(out.renewed)
    renewed = files.take(pa.array(at, pa.int64()))
    had = renewed.num_rows - renewed.column("deletionVector").null_count
    vectors = [msgspec.to_builtins(out.renewed[i][0]) for i in at]
    changed = {
        "deletionVector": pa.array(vectors, DV_TYPE),
        "stats": pa.array([out.renewed[i][1] for i in at], pa.string()),
        "dataChange": pa.array([True] * len(at), pa.bool_()),
    }
    adds = renewed.select([n for n in ADD_SCHEMA.names if n in renewed.column_names])
    for name, column in changed.items():
        index = adds.schema.get_field_index(name)
        adds = adds.set_column(index, ADD_SCHEMA.field(name), column)
    emptied = files.take(pa.array(out.emptied, pa.int64()))
    gone = emptied.num_rows - emptied.column("deletionVector").null_count
    removes = as_removes(files.take(pa.array(sorted(rows), pa.int64())), transaction.log.clock())
    return FileChanges(
        adds,
        removes,
        emptied.num_rows,
        size_of(emptied),
        out.deleted,
        vectors_added=len(at),
        vectors_removed=gone + had,
        vectors_updated=had,
    )


# ---------------------------------------------------------------------------- frames


def with_generated(frame: DataFrame, metadata: Metadata, given: Sequence[str], changed: Column) -> DataFrame:
    """The generated columns that nobody set computed anew in the rows that are ``changed``."""
    named = {n.casefold() for n in given}
    schema = metadata.schema
    for column in generated_columns(schema):
        found = schema.field(column.name)
        if column.name.casefold() in named or found is None:
            continue
        value = F.expr(column.expression).cast(spark_type(found.type))
        frame = frame.withColumn(found.name, F.when(changed, value).otherwise(F.col(quote(found.name))))
    return frame


def change_rows(frame: DataFrame, variants: Column) -> DataFrame:
    """One row for each struct in the array ``variants``; they have the columns and ``CHANGE_TYPE``."""
    return frame.select(F.explode(variants).alias("__tidegate_row")).select("__tidegate_row.*")


def variant(columns: Sequence[tuple[str, Column]], kind: str | None) -> Column:
    """A row as a struct: data where ``kind`` is None, otherwise a change row of that kind."""
    mark = F.lit(kind).cast("string").alias(CHANGE_TYPE)
    return F.struct(*(c.alias(n) for n, c in columns), mark)


def as_texts(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Metrics as the history keeps them, without those that are not known."""
    return {k: str(v) for k, v in metrics.items() if v is not None}
