"""MERGE: rows of a source update, delete and join the rows of a table, one commit.

Understood first (``analysis``), then decided row by row in one join (``matching``), then written
(``rewriting``): only files with a row that changes are touched, and a MERGE that only inserts touches
none. The table is pruned with what the source is known to hold (``pruning``).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commands import rows
from tidegate.commands.auto_compact import after_write
from tidegate.commands.evolution import check_dependents
from tidegate.commands.merge.analysis import Analysis, analyse, described
from tidegate.commands.merge.clauses import Clause, check_order
from tidegate.commands.merge.matching import AT, Counts, Decisions, decide, unmatched
from tidegate.commands.merge.pruning import Facts, facts_of, looked_at, parts_of
from tidegate.commands.merge.rewriting import Rewriting, together
from tidegate.commands.merge.source import Source
from tidegate.commands.once import Once
from tidegate.errors import MergeInvalidError, SchemaInvalidError
from tidegate.files.predicate import Constant, conjunction
from tidegate.log.columns import CDC_SCHEMA
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.spark.confs import conf
from tidegate.spark.expressions import quote
from tidegate.spark.failures import lost_rows
from tidegate.spark.scan.origins import reads_newest
from tidegate.spark.scan.positions import PLACE, places, rows_by_file
from tidegate.spark.scan.taken import taken_from_table
from tidegate.spark.skipping import narrowing
from tidegate.spark.write import identity
from tidegate.spark.write.files import Written, write_files
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Transaction

_log = logging.getLogger(__name__)

TARGET = "__tidegate_target"
# How often a source is read whose rows get lost.
_ATTEMPTS = 4
# Rows that come out of many tasks, few from each, are gathered into files of at least so many.
_GATHERED = 500_000


@dataclass(frozen=True)
class Merged:
    """How many rows of the table a MERGE changed, took away and added."""

    updated: int = 0
    deleted: int = 0
    inserted: int = 0

    @property
    def affected(self) -> int:
        return self.updated + self.deleted + self.inserted


def merge(
    spark: SparkSession,
    log: TableLog,
    source: DataFrame,
    condition: str | Column,
    clauses: Sequence[Clause],
    *,
    alias: str | None = None,
    evolves: bool = False,
    base: Snapshot | None = None,
) -> Merged:
    """Merge ``source`` into the table, which goes by ``alias`` in conditions and values.

    What others commit after ``base`` has come between; without it, what they commit from now on.
    Where Spark loses rows of the source that were read, all of it begins again.
    """
    check_order(clauses)
    once = Once.of(spark)
    for left in reversed(range(max(1, conf(spark, "merge.materializeSource.maxAttempts", _ATTEMPTS)))):
        try:
            return _merged(once, log, base, source, condition, clauses, alias, evolves=evolves)
        except Exception as e:
            if not left or not lost_rows(e):
                raise
            _log.warning("%s: rows of MERGE's source are lost, so it is read again", log.url)
    raise AssertionError("the last attempt ends by itself")


def _merged(
    once: Once,
    log: TableLog,
    base: Snapshot | None,
    source: DataFrame,
    condition: str | Column,
    clauses: Sequence[Clause],
    alias: str | None,
    *,
    evolves: bool,
) -> Merged:
    watch = rows.Watch()
    spark = once.spark
    only_inserts = all(c.action == "insert" for c in clauses)
    transaction, snapshot = rows.begin(log, removes=not only_inserts, base=base)
    name = alias or TARGET
    evolves = evolves or conf(spark, "schema.autoMerge.enabled", False)
    if not snapshot.schema.fields and not evolves:
        raise SchemaInvalidError(
            "The table has no columns, so MERGE has nothing to put rows into.",
            table=log.url,
            hint="Add columns first, or let the schema evolve.",
            errorClass="DELTA_MERGE_INTO_EMPTY_SCHEMA_TARGET",
        )
    _check_sides(log, source, condition, clauses)
    given = Source.of(source, snapshot.schema.names)
    condition, clauses = given.bound(condition), [c.mapped(given.bound) for c in clauses]
    analysis = analyse(spark, snapshot, name, given, condition, clauses, evolves=evolves)
    for u in analysis.not_matched:
        identity.check_explicit(snapshot.metadata, [a.path[0] for a in u.assignments])
    if once.is_done(transaction):
        return Merged(0, 0, 0)
    if any(reads_newest(frame, log.url) for frame in (source, *analysis.values)):
        transaction.read_table()
    if analysis.schema != snapshot.schema:
        check_dependents(snapshot.metadata, analysis.schema, log.url)
        transaction.update_metadata(snapshot.metadata.with_schema(analysis.schema))
    return _Merge(once, transaction, snapshot, analysis, given, name, watch).run()


def _check_sides(
    log: TableLog, source: DataFrame, condition: str | Column, clauses: Sequence[Clause]
) -> None:
    """Refuse columns of the table's own frame where the source was made of it: they are of both sides."""
    matched = [c for c in clauses if c.when == "matched"]
    values = [v for c in matched for v in (c.condition, *(c.values or {}).values())]
    for column in (condition, *values):
        taken = taken_from_table(column, source, log.url) if isinstance(column, Column) else []
        if taken:
            raise MergeInvalidError(
                f"{', '.join(taken)} was taken from a frame of the table, of which the source is made too: "
                "it could mean either side.",
                hint="Give both sides an alias and name the column by it.",
                errorClass="AMBIGUOUS_REFERENCE",
            )


class _Merge:
    """One MERGE on its way."""

    def __init__(
        self,
        once: Once,
        transaction: Transaction,
        snapshot: Snapshot,
        analysis: Analysis,
        source: Source,
        alias: str,
        watch: rows.Watch,
    ) -> None:
        self.once = once
        self.spark = once.spark
        self.transaction = transaction
        self.snapshot = snapshot
        self.analysis = analysis
        self.source = source
        self.alias = alias
        self.watch = watch
        self.with_vectors = rows.uses_vectors(self.spark, snapshot.metadata, "merge")

    def run(self) -> Merged:
        source = self.source.read()
        parts = parts_of(self.analysis.found, self.alias, self.snapshot, self.source)
        facts = facts_of(source, parts, self.snapshot, self.alias, self.source)
        self.watch.lap("materializeSourceTimeMs")
        predicate = looked_at(facts, self.analysis, self.snapshot, self.spark, self.alias, self.source)
        candidates = self.snapshot.files(narrowing(self.spark, predicate, self.snapshot.partition_columns))
        decisions: Decisions | None = None
        if candidates.num_rows:
            decisions = decide(
                self.spark,
                self.snapshot,
                candidates,
                self.analysis,
                self.source,
                source,
                parts,
                facts,
                self.alias,
            )
        pushed = Constant(True) if decisions is None else decisions.predicate
        noted = conjunction([predicate, pushed])
        self.transaction.read_set = self.transaction.read_set.with_predicate(noted)
        if decisions is not None:
            self.transaction.read_files(candidates.take(pa.array(decisions.read, pa.int64())))
        self.watch.lap("scanTimeMs")
        return self._change(candidates, decisions, source, facts)

    def _change(
        self, candidates: pa.Table, decisions: Decisions | None, source: DataFrame, facts: Facts
    ) -> Merged:
        counts = Counts() if decisions is None else decisions.counts
        touched = [] if decisions is None else decisions.touched
        files = candidates.take(pa.array(touched, pa.int64()))
        changes = rows.FileChanges()
        if decisions is not None and touched:
            changes = self._leave(files, touched, decisions)
        written = self._write(files, touched, decisions, source, facts, counts)
        self.watch.lap("rewriteTimeMs")
        output = rows.total(rows.live_rows(written.adds)) or 0
        copied = 0
        if not self.with_vectors and files.num_rows:
            # Where new rows are written too, only the files themselves tell what was in them.
            live = rows.shown(self.transaction.log.store, files) if self.analysis.not_matched else None
            copied = (output if live is None else live - counts.deleted) - counts.updated
        inserted = max(0, output - counts.updated - copied)
        done = Merged(counts.updated, counts.deleted, inserted)
        self._commit(changes, written, done, counts, copied, facts)
        return done

    def _leave(self, files: pa.Table, touched: list[int], decisions: Decisions) -> rows.FileChanges:
        """The touched files as they leave the table, or with the rows that leave them hidden."""
        if not self.with_vectors:
            return rows.removed(self.transaction, files)
        by_file = rows_by_file(decisions.acting().select(F.col(AT).alias(PLACE)), decisions.acted)
        return rows.hidden(self.transaction, files, {i: by_file[n] for i, n in enumerate(touched)})

    def _write(
        self,
        files: pa.Table,
        touched: list[int],
        decisions: Decisions | None,
        source: DataFrame,
        facts: Facts,
        counts: Counts,
    ) -> Written:
        """Write what changes, what stays in touched files, and what is new, in one job."""
        metadata = self.transaction.metadata
        # Files that only lose rows need no change rows beside a vector; nor do files that only come.
        tells = rows.feeds_changes(metadata) and (
            counts.updated > 0 if self.with_vectors else counts.updated + counts.deleted > 0
        )
        rewriting = Rewriting(self.analysis, metadata, self.snapshot.schema, self.alias, tells=tells)
        frames = []
        if decisions is not None and touched and (not self.with_vectors or counts.updated or tells):
            frames.append(self._rows_of_table(rewriting, files, touched, decisions, counts))
        inserts = self.analysis.not_matched and facts.rows
        if inserts:
            new = unmatched(source, decisions, self.analysis, self.source)
            frames.append(rewriting.inserted(new).coalesce(_tasks(facts.rows)))
        if not frames:
            return Written(rows.no_files(), CDC_SCHEMA.empty_table())
        frame = together(frames)
        partitions = metadata.partition_columns
        if partitions and conf(self.spark, "merge.repartitionBeforeWrite.enabled", True):
            frame = frame.repartition(*[F.col(quote(c)) for c in partitions])
        return write_files(
            self.transaction,
            self.source.at_once(frame),
            operation="MERGE",
            numbered=[i.name for i in self.analysis.numbered],
        )

    def _rows_of_table(
        self,
        rewriting: Rewriting,
        files: pa.Table,
        touched: list[int],
        decisions: Decisions,
        counts: Counts,
    ) -> DataFrame:
        target = places(self.spark, self.snapshot, files, touched).frame
        decided = decisions.acting()
        if self.source.broadcasts(decisions.acted):
            decided = F.broadcast(decided)
        if not self.with_vectors:
            return rewriting.changed(target, decided, copies=True)
        changed = rewriting.changed(target, decided, copies=False)
        if self.transaction.metadata.partition_columns or decisions.acted > 4 * _GATHERED:
            return changed
        # Few rows out of many tasks: into few files.
        return changed.repartition(_tasks(decisions.acted))

    def _commit(
        self,
        changes: rows.FileChanges,
        written: Written,
        done: Merged,
        counts: Counts,
        copied: int,
        facts: Facts,
    ) -> None:
        adds = pa.concat_tables([changes.adds, written.adds])
        metrics: dict[str, Any] = {
            "numSourceRows": facts.rows,
            "numTargetRowsInserted": done.inserted,
            "numTargetRowsUpdated": done.updated,
            "numTargetRowsMatchedUpdated": counts.matched_updated,
            "numTargetRowsNotMatchedBySourceUpdated": counts.unmatched_updated,
            "numTargetRowsDeleted": done.deleted,
            "numTargetRowsMatchedDeleted": counts.matched_deleted,
            "numTargetRowsNotMatchedBySourceDeleted": counts.unmatched_deleted,
            "numTargetRowsCopied": copied,
            "numOutputRows": done.inserted + done.updated + copied,
            "numTargetFilesAdded": written.adds.num_rows,
            "numTargetFilesRemoved": changes.files,
            "numTargetBytesAdded": rows.size_of(written.adds),
            "numTargetBytesRemoved": changes.size,
            "numTargetChangeFilesAdded": written.cdcs.num_rows,
            **changes.vector_metrics("numTarget"),
            **self.watch.metrics(),
        }
        parameters = {
            "predicate": [self.analysis.found.text],
            "matchedPredicates": described(self.analysis.matched),
            "notMatchedPredicates": described(self.analysis.not_matched),
            "notMatchedBySourcePredicates": described(self.analysis.by_source),
        }
        committed = self.transaction.commit_if_needed(
            self.once.actions(self.transaction),
            Operation("MERGE", parameters),
            adds=adds,
            removes=changes.removes,
            cdcs=written.cdcs,
            metrics=rows.as_texts(metrics),
        )
        self.once.settle()
        after_write(self.spark, self.transaction.log, committed)


def _tasks(most: int) -> int:
    """In how many tasks at most so many rows are written, for files of some size."""
    return max(1, math.ceil(most / _GATHERED))
