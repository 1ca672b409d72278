"""Selective overwrite: rows that a condition or the new rows pick leave, the new ones come, one commit.

``replaceWhere`` takes a condition on any columns, which every new row must meet; ``replaceUsing`` takes
columns, ``replaceOn`` a condition over both sides, and rows leave that some new row matches. Files that
lose all their rows are removed whole; of the others, the rows are hidden or the files written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commands import rows
from tidegate.commands.assignments import names_exactly
from tidegate.commands.conditions import Condition, condition_of, not_recognized, shape
from tidegate.commands.delete import aliased, carried, matched_by_file, note_read
from tidegate.errors import OptionError, PredicateError
from tidegate.files.skipping import evaluate_partitions
from tidegate.log.columns import CDC_SCHEMA
from tidegate.log.snapshot import Snapshot
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.types import StructType
from tidegate.spark.confs import conf
from tidegate.spark.expressions import quote
from tidegate.spark.present import Moment
from tidegate.spark.scan.positions import places, rows_by_file
from tidegate.spark.skipping import narrowing
from tidegate.spark.write.constraints import REPLACE_WHERE, Constraint
from tidegate.spark.write.files import write_files
from tidegate.spark.write.fit import stored
from tidegate.spark.write.layout import CHANGE_TYPE
from tidegate.transaction.transaction import Transaction

_SOURCE, _TARGET = "__tidegate_source", "__tidegate_target"
# What Spark says of names in a condition over both sides, and what Delta says of it.
_NAMES = {
    "AMBIGUOUS_REFERENCE": ("ambiguous", "DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION"),
    "UNRESOLVED_COLUMN": ("not known", "DELTA_INSERT_REPLACE_ON_UNRESOLVED_COLUMNS_IN_CONDITION"),
}


@dataclass(frozen=True)
class TakenOut:
    """What the rows that leave come to: file actions, and how many rows went."""

    changes: rows.FileChanges = field(default_factory=rows.FileChanges)
    adds: pa.Table = field(default_factory=rows.no_files)
    cdcs: pa.Table = field(default_factory=CDC_SCHEMA.empty_table)
    deleted: int | None = 0

    @property
    def removes(self) -> pa.Table:
        return self.changes.removes


def metrics(taken: TakenOut, adds: pa.Table, cdcs: pa.Table) -> dict[str, str]:
    """As Delta counts: a file that gets a vector is written too, and the rows that it shows are copied."""
    copied, new = rows.total(rows.live_rows(taken.adds)), rows.total(rows.live_rows(adds))
    return rows.as_texts(
        {
            "numFiles": adds.num_rows + taken.adds.num_rows,
            "numOutputRows": None if copied is None or new is None else new + copied,
            "numOutputBytes": rows.size_of(adds) + rows.size_of(taken.adds),
            "numCopiedRows": copied,
            "numDeletedRows": taken.deleted,
            "numRemovedFiles": taken.changes.files,
            "numRemovedBytes": taken.changes.size,
            "numAddedChangeFiles": cdcs.num_rows + taken.cdcs.num_rows,
        }
    )


def condition(spark: SparkSession, snapshot: Snapshot, text: str, alias: str | None = None) -> Condition:
    """``replaceWhere`` as a condition on the table, which may go by ``alias``; refused before any job."""
    schema = snapshot.schema
    try:
        found = condition_of(shape(spark, schema, alias), text, schema, "replaceWhere", alias)
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


def constraint(spark: SparkSession, text: str, alias: str | None = None) -> list[Constraint]:
    """What every new row must meet."""
    checked = conf(spark, "replaceWhere.constraintCheck.enabled", True)
    return [Constraint(REPLACE_WHERE, text, alias)] if checked else []


def rows_where(
    spark: SparkSession,
    transaction: Transaction,
    snapshot: Snapshot,
    where: Condition,
    alias: str | None = None,
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
    picked = _Picked(
        lambda f: aliased(f, alias).where(where.column), lambda f: aliased(f, alias).where(~goes)
    )
    return _take_out(spark, transaction, snapshot, candidates, picked, where.moment, where)


@dataclass(frozen=True)
class Matching:
    """How a row of the table matches a new one: equal in the columns ``using``, or as ``on`` says."""

    using: Sequence[str] = ()
    on: str | None = None
    # What the table goes by in ``on``.
    alias: str | None = None

    @property
    def target(self) -> str:
        return self.alias or _TARGET

    def check(self, spark: SparkSession, snapshot: Snapshot, source: DataFrame) -> None:
        """Refuse names that one side lacks, before anything runs."""
        if self.on is not None:
            target = shape(spark, snapshot.schema, self.target)
            try:
                # Asking for a schema makes Spark analyse the join.
                _ = target.join(source, F.expr(self.on), "leftsemi").schema
            except AnalysisException as e:
                raise _named(e, self.on) from e
            return
        if not all(self.using):
            # Without a column to differ in, every row would match.
            raise OptionError(
                "replaceUsing has a place between its commas where no column is named.",
                hint="Name columns that the data and the table both have.",
            )
        sides = [snapshot.schema.names, source.columns]
        exact = names_exactly(spark)
        known = [set(names) if exact else {n.lower() for n in names} for names in sides]
        missing = [c for c in self.using if any((c if exact else c.lower()) not in names for names in known)]
        if missing:
            raise OptionError(
                f"replaceUsing names {', '.join(missing)}, which the data and the table must both have.",
                errorClass="UNRESOLVED_INSERT_REPLACE_USING_COLUMN",
            )

    def picked(self, source: DataFrame, schema: StructType, moment: Moment) -> _Picked:
        """Which rows of the table go for the rows of ``source``, which ``schema`` will hold."""
        side, matches = source, F.lit(True)
        if self.on is not None:
            matches = F.expr(moment.bound(source.sparkSession, self.on, source.columns))
        else:
            # Keys are compared as they will be stored, lest two rows end up with one key.
            fields = [f for f in map(schema.field, self.using) if f is not None]
            keys = [stored(source, f).alias(c) for f, c in zip(fields, self.using, strict=True)]
            side = source.select(*keys).alias(_SOURCE)
            for c in self.using:
                matches = matches & (
                    F.col(f"{quote(self.target)}.{quote(c)}") == F.col(f"{_SOURCE}.{quote(c)}")
                )

        def joined(how: str) -> Callable[[DataFrame], DataFrame]:
            return lambda f: f.alias(self.target).join(side, matches, how)

        return _Picked(joined("leftsemi"), joined("leftanti"))


def _named(e: AnalysisException, text: str) -> Exception:
    """What Spark says of a name in ``replaceOn``, as Delta says it; anything else as it is."""
    for condition, (what, error_class) in _NAMES.items():
        if (e.getCondition() or "").startswith(condition):
            return PredicateError(
                f"replaceOn says {text!r}, in which a name is {what}: {str(e).splitlines()[0]}",
                hint="The table goes by targetAlias, the data by the alias of the DataFrame.",
                errorClass=error_class,
            )
    return e


def rows_matching(
    spark: SparkSession,
    transaction: Transaction,
    snapshot: Snapshot,
    source: DataFrame,
    matching: Matching,
    moment: Moment,
) -> TakenOut:
    """Take out the rows that some row of ``source`` matches."""
    transaction.read_table()
    picked = matching.picked(source, transaction.metadata.schema, moment)
    return _take_out(spark, transaction, snapshot, snapshot.files(), picked, moment)


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
    moment: Moment,
    where: Condition | None = None,
) -> TakenOut:
    """Find the rows that go and take them out of their files."""
    found = places(spark, snapshot, candidates)
    matching = moment.at_once(picked.goes(found.frame))
    with_vectors = rows.uses_vectors(spark, snapshot.metadata, "delete")
    if with_vectors:
        positions = rows_by_file(matching, rows.total(rows.live_rows(candidates)))
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
    emptied = rows.emptied(files, [counts[n] for n in touched])
    deleted = sum(counts.values())
    if all(emptied):
        return TakenOut(changes, deleted=deleted)
    feeds = rows.feeds_changes(snapshot.metadata)
    if not feeds:
        files = files.filter(pa.array([not e for e in emptied], pa.bool_()))
    frame = places(spark, snapshot, files).frame
    columns = [F.col(quote(n)) for n in carried(snapshot)]
    kept = picked.stays(frame).select(*columns)
    if feeds:
        data = kept.withColumn(CHANGE_TYPE, F.lit(None).cast("string"))
        kept = data.unionByName(picked.goes(frame).select(*columns).withColumn(CHANGE_TYPE, F.lit("delete")))
    written = write_files(transaction, moment.at_once(kept), operation="WRITE")
    return TakenOut(changes, written.adds, written.cdcs, deleted)
