"""Selective overwrite: rows that a condition or the new rows pick leave, the new ones come, one commit.

``replaceWhere`` takes a condition on any columns, which every new row must meet; ``replaceUsing`` takes
columns, ``replaceOn`` a condition over both sides, and rows leave that some new row matches. Files that
lose all their rows are removed whole; of the others, the rows are hidden or the files written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commands import rows
from tidegate.commands.conditions import Condition, condition_of, not_recognized, shape
from tidegate.commands.delete import carried, matched_by_file, note_read
from tidegate.errors import OptionError, PredicateError
from tidegate.files.skipping import evaluate_partitions
from tidegate.log.columns import CDC_SCHEMA
from tidegate.log.snapshot import Snapshot
from tidegate.schema.mapping import mapping_mode
from tidegate.spark.confs import conf
from tidegate.spark.expressions import quote
from tidegate.spark.scan.positions import places, rows_by_file
from tidegate.spark.skipping import narrowing
from tidegate.spark.write.constraints import REPLACE_WHERE, Constraint
from tidegate.spark.write.files import write_files
from tidegate.spark.write.layout import CHANGE_TYPE
from tidegate.transaction.transaction import Transaction

_SOURCE = "__tidegate_source"


@dataclass(frozen=True)
class TakenOut:
    """What the rows that leave come to: file actions, and how many rows went and were moved."""

    changes: rows.FileChanges = field(default_factory=rows.FileChanges)
    adds: pa.Table = field(default_factory=rows.no_files)
    cdcs: pa.Table = field(default_factory=CDC_SCHEMA.empty_table)
    deleted: int | None = 0
    copied: int = 0

    @property
    def removes(self) -> pa.Table:
        return self.changes.removes


def condition(spark: SparkSession, snapshot: Snapshot, text: str) -> Condition:
    """``replaceWhere`` as a condition on the table; refused before anything runs."""
    try:
        found = condition_of(shape(spark, snapshot.schema), text, snapshot.schema, "replaceWhere")
    except ParseException as e:
        raise not_recognized("replaceWhere", text) from e
    if not conf(spark, "replaceWhere.dataColumns.enabled", True) and not found.is_decided_by(
        snapshot.partition_columns
    ):
        raise OptionError(
            "replaceWhere speaks of columns that are not partition columns, which the session forbids.",
            hint="Set spark.databricks.delta.replaceWhere.dataColumns.enabled = true.",
            errorClass="DELTA_NON_PARTITION_COLUMN_REFERENCE",
        )
    return found


def constraint(spark: SparkSession, text: str) -> list[Constraint]:
    """What every new row must meet."""
    checked = conf(spark, "replaceWhere.constraintCheck.enabled", True)
    return [Constraint(REPLACE_WHERE, text)] if checked else []


def rows_where(
    spark: SparkSession, transaction: Transaction, snapshot: Snapshot, where: Condition
) -> TakenOut:
    """Take out the rows for which ``where`` is true."""
    candidates = snapshot.files(narrowing(spark, where.predicate, snapshot.partition_columns))
    if where.is_decided_by(snapshot.partition_columns):
        try:
            decided = candidates.filter(
                evaluate_partitions(
                    candidates,
                    where.predicate,
                    snapshot.schema,
                    snapshot.partition_columns,
                    mapping_mode(snapshot.metadata),
                )
            )
        except PredicateError:
            decided = None
        if decided is not None:
            transaction.read_set = transaction.read_set.with_predicate(where.predicate)
            transaction.read_files(decided)
            count = rows.total(rows.live_rows(decided))
            return TakenOut(rows.removed(transaction, decided), deleted=count)
    goes = F.coalesce(where.column, F.lit(False))
    picked = _Picked(lambda f: f.where(where.column), lambda f: f.where(~goes))
    return _take_out(spark, transaction, snapshot, candidates, picked, where)


def rows_matching(
    spark: SparkSession,
    transaction: Transaction,
    snapshot: Snapshot,
    source: DataFrame,
    *,
    using: Sequence[str] = (),
    on: str | None = None,
    alias: str | None = None,
) -> TakenOut:
    """Take out the rows that some row of ``source`` matches: equal in ``using``, or as ``on`` says."""
    target = alias or "t"
    if on is None:
        missing = [
            c
            for c in using
            if snapshot.schema.field(c) is None or c.lower() not in {n.lower() for n in source.columns}
        ]
        if missing:
            raise OptionError(
                f"replaceUsing names {', '.join(missing)}, which the data and the table must both have.",
                errorClass="UNRESOLVED_INSERT_REPLACE_USING_COLUMN",
            )
        side = source.select(*[F.col(quote(c)).alias(c) for c in using]).alias(_SOURCE)
        parts = [F.col(f"{quote(target)}.{quote(c)}") == F.col(f"{_SOURCE}.{quote(c)}") for c in using]
        matches = parts[0]
        for part in parts[1:]:
            matches = matches & part
    else:
        side, matches = source, F.expr(on)
        # Names and types are tried before anything runs: asking for the schema makes Spark analyse the join.
        _ = shape(spark, snapshot.schema, target).join(side, matches, "leftsemi").schema

    def joined(how: str) -> Callable[[DataFrame], DataFrame]:
        return lambda f: f.alias(target).join(side, matches, how)

    candidates = snapshot.files()
    transaction.read_table()
    return _take_out(
        spark, transaction, snapshot, candidates, _Picked(joined("leftsemi"), joined("leftanti")), None
    )


@dataclass(frozen=True)
class _Picked:
    """Which rows of a frame go, and which stay."""

    goes: Callable[[DataFrame], DataFrame]
    stays: Callable[[DataFrame], DataFrame]


def _take_out(
    spark: SparkSession,
    transaction: Transaction,
    snapshot: Snapshot,
    candidates: pa.Table,
    picked: _Picked,
    where: Condition | None,
) -> TakenOut:
    """Find the rows that go and take them out of their files."""
    found = places(spark, snapshot, candidates)
    matching = picked.goes(found.frame)
    with_vectors = rows.uses_vectors(spark, snapshot.metadata, "delete")
    live = rows.live_rows(candidates)
    if with_vectors:
        positions = rows_by_file(matching, rows.total(live))
        touched = sorted(positions)
    else:
        counts = matched_by_file(matching)
        touched = sorted(counts)
    if where is not None:
        note_read(transaction, found, where, candidates.take(pa.array(touched, pa.int64())))
    if not touched:
        return TakenOut()
    files = candidates.take(pa.array(touched, pa.int64()))
    if with_vectors:
        changes = rows.hidden(transaction, files, {i: positions[n] for i, n in enumerate(touched)})
        return TakenOut(changes, changes.adds, deleted=changes.deleted)
    changes = rows.removed(transaction, files)
    whole = [live[n] == counts[n] for n in touched]
    deleted = sum(counts.values())
    if all(whole):
        return TakenOut(changes, deleted=deleted)
    feeds = rows.feeds_changes(snapshot.metadata)
    if not feeds:
        files = files.filter(pa.array([not w for w in whole], pa.bool_()))
    frame = places(spark, snapshot, files).frame
    columns = [F.col(quote(n)) for n in carried(snapshot)]
    kept = picked.stays(frame).select(*columns)
    if feeds:
        data = kept.withColumn(CHANGE_TYPE, F.lit(None).cast("string"))
        kept = data.unionByName(picked.goes(frame).select(*columns).withColumn(CHANGE_TYPE, F.lit("delete")))
    written = write_files(transaction, kept, operation="WRITE")
    copied = sum((live[n] or 0) - counts[n] for n in touched)
    return TakenOut(changes, written.adds, written.cdcs, deleted, copied)


def with_change_rows(frame: DataFrame) -> DataFrame:
    """The new rows, each also as a change row: a version that has change files is told by them alone."""
    kinds = F.array(F.lit(None).cast("string"), F.lit("insert"))
    return frame.select("*", F.explode(kinds).alias(CHANGE_TYPE))
