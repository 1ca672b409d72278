"""DELETE: rows leave a table, one commit.

Without a condition, or where partition values decide it, files leave by the log alone. Otherwise one scan
of the files that statistics leave finds the rows; files that lose all of them are removed whole, the
others hide them behind a deletion vector or are written anew without them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commands import rows
from tidegate.commands.auto_compact import after_write
from tidegate.commands.conditions import Condition, condition_of, shape
from tidegate.commands.once import Once
from tidegate.errors import PredicateError
from tidegate.files.predicate import conjunction
from tidegate.files.skipping import evaluate_partitions
from tidegate.log.columns import CDC_SCHEMA
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.schema.mapping import mapping_mode
from tidegate.spark.expressions import quote
from tidegate.spark.scan.positions import NUMBER, Positioned, places, rows_by_file, tracks
from tidegate.spark.skipping import narrowing
from tidegate.spark.write.files import write_files
from tidegate.spark.write.layout import ROW_COMMIT_VERSION, ROW_ID
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Transaction


def delete(
    spark: SparkSession,
    log: TableLog,
    condition: str | Column | None = None,
    *,
    alias: str | None = None,
    truncates: bool = False,
) -> int | None:
    """Delete the rows for which ``condition`` is true, all without one; how many, None if not known.

    ``truncates`` is for the history: all rows were meant to go.
    """
    watch = rows.Watch()
    once = Once.of(spark)
    transaction, snapshot = rows.begin(log)
    if condition is None:
        if once.is_done(transaction):
            return 0
        operation = Operation("TRUNCATE") if truncates else _operation(None)
        return _whole_files(once, transaction, transaction.files(), operation, watch)
    frame = shape(spark, snapshot.schema, alias)
    found = condition_of(frame, condition, snapshot.schema, "The condition of DELETE", alias)
    if once.is_done(transaction):
        return 0
    candidates = snapshot.files(narrowing(spark, found.predicate, snapshot.partition_columns))
    decided = _decided(snapshot, candidates, found)
    if decided is not None:
        transaction.read_set = transaction.read_set.with_predicate(found.predicate)
        transaction.read_files(decided)
        return _whole_files(once, transaction, decided, _operation(found), watch)
    return _rows(once, transaction, snapshot, candidates, found, alias, watch)


def _decided(snapshot: Snapshot, files: pa.Table, condition: Condition) -> pa.Table | None:
    """The files whose every row the condition takes, where partition values decide; None where not."""
    if not condition.is_decided_by(snapshot.partition_columns):
        return None
    try:
        mask = evaluate_partitions(
            files,
            condition.predicate,
            snapshot.schema,
            snapshot.partition_columns,
            mapping_mode(snapshot.metadata),
        )
    except PredicateError:
        return None
    return files.filter(mask)


def _operation(condition: Condition | None) -> Operation:
    return Operation("DELETE", {"predicate": [] if condition is None else [condition.text]})


def _whole_files(
    once: Once,
    transaction: Transaction,
    files: pa.Table,
    operation: Operation,
    watch: rows.Watch,
) -> int | None:
    """Remove files by the log alone."""
    watch.lap("scanTimeMs")
    count = rows.total(rows.live_rows(files))
    changes = rows.removed(transaction, files)
    metrics = {
        "numRemovedFiles": changes.files,
        "numRemovedBytes": changes.size,
        "numDeletedRows": count,
        "numCopiedRows": 0,
        "numAddedFiles": 0,
        "numAddedBytes": 0,
        "numAddedChangeFiles": 0,
        **changes.vector_metrics(),
        "rewriteTimeMs": 0,
        **watch.metrics(),
    }
    _commit(once, transaction, operation, metrics, removes=changes.removes)
    return count


def _commit(
    once: Once,
    transaction: Transaction,
    operation: Operation,
    metrics: dict[str, Any],
    *,
    removes: pa.Table,
    adds: pa.Table | None = None,
    cdcs: pa.Table | None = None,
) -> None:
    """Commit what goes; where nothing goes, an application's number does not move either."""
    committed = transaction.commit_if_needed(
        once.actions(transaction) if removes.num_rows else (),
        operation,
        adds=adds,
        removes=removes,
        cdcs=cdcs,
        metrics=rows.as_texts(metrics),
    )
    if removes.num_rows:
        once.settle()
    after_write(once.spark, transaction.log, committed)


def _rows(
    once: Once,
    transaction: Transaction,
    snapshot: Snapshot,
    candidates: pa.Table,
    condition: Condition,
    alias: str | None,
    watch: rows.Watch,
) -> int | None:
    """Find the rows and take them out of their files."""
    spark = once.spark
    found = places(spark, snapshot, candidates)
    matching = condition.moment.at_once(aliased(found.frame, alias).where(condition.column))
    with_vectors = rows.uses_vectors(spark, snapshot.metadata, "delete")
    if with_vectors:
        positions = rows_by_file(matching, rows.total(rows.live_rows(candidates)))
        touched = sorted(positions)
    else:
        counts = matched_by_file(matching)
        touched = sorted(counts)
    watch.lap("scanTimeMs")
    files = candidates.take(pa.array(touched, pa.int64()))
    note_read(transaction, found, condition, files)
    if with_vectors:
        renumbered = {i: positions[number] for i, number in enumerate(touched)}
        changes = rows.hidden(transaction, files, renumbered)
        adds, cdcs, deleted, copied = changes.adds, CDC_SCHEMA.empty_table(), changes.deleted, 0
    else:
        changes = rows.removed(transaction, files)
        deleted = sum(counts.values())
        emptied = rows.emptied(files, [counts[n] for n in touched])
        adds, cdcs = _rewrite(spark, transaction, snapshot, files, emptied, condition, alias)
        copied = rows.total(rows.live_rows(adds)) or 0
    watch.lap("rewriteTimeMs")
    metrics: dict[str, Any] = {
        "numRemovedFiles": changes.files,
        "numRemovedBytes": changes.size,
        "numDeletedRows": deleted,
        "numCopiedRows": copied,
        "numAddedFiles": 0 if with_vectors else adds.num_rows,
        "numAddedBytes": 0 if with_vectors else rows.size_of(adds),
        "numAddedChangeFiles": cdcs.num_rows,
        **changes.vector_metrics(),
        **watch.metrics(),
    }
    _commit(once, transaction, _operation(condition), metrics, removes=changes.removes, adds=adds, cdcs=cdcs)
    return deleted


def _rewrite(
    spark: SparkSession,
    transaction: Transaction,
    snapshot: Snapshot,
    files: pa.Table,
    emptied: list[bool],
    condition: Condition,
    alias: str | None,
) -> tuple[pa.Table, pa.Table]:
    """Write the rows that stay, and with a change feed those that go; nothing where no row stays."""
    if all(emptied):
        # A feed takes the rows of removed files as deleted by itself.
        return rows.no_files(), CDC_SCHEMA.empty_table()
    changes = rows.feeds_changes(snapshot.metadata)
    if not changes:
        files = files.filter(pa.array([not e for e in emptied], pa.bool_()))
    frame = aliased(places(spark, snapshot, files).frame, alias)
    goes = F.coalesce(condition.column, F.lit(False))
    names = carried(snapshot)
    if changes:
        kind = F.when(goes, F.lit("delete")).alias("_change_type")
        frame = frame.select(*[F.col(quote(n)) for n in names], kind)
    else:
        frame = frame.where(~goes).select(*[F.col(quote(n)) for n in names])
    written = write_files(transaction, condition.moment.at_once(frame), operation="DELETE")
    return written.adds, written.cdcs


# ---------------------------------------------------------------------------- shared with UPDATE


def aliased(frame: DataFrame, alias: str | None) -> DataFrame:
    return frame if alias is None else frame.alias(alias)


def carried(snapshot: Snapshot) -> list[str]:
    """The columns that a row takes along when it moves to another file."""
    tracking = [ROW_ID, ROW_COMMIT_VERSION] if tracks(snapshot.metadata) else []
    return [*snapshot.schema.names, *tracking]


def matched_by_file(matching: DataFrame) -> dict[int, int]:
    """How many rows of each file match, by the file's number."""
    found = matching.groupBy(NUMBER).agg(F.count(F.lit(1)).alias("n")).toArrow()
    return dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))


def note_read(transaction: Transaction, found: Positioned, condition: Condition, files: pa.Table) -> None:
    """Record what was asked for, as narrowly as it is known, and the files that answered.

    A file that was looked at in vain counts as not read: whoever changes it adds files, and those
    are held against the predicate.
    """
    predicate = conjunction([condition.predicate, found.pushed()])
    transaction.read_set = transaction.read_set.with_predicate(predicate)
    transaction.read_files(files)
