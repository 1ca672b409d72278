"""UPDATE: rows get new values, one commit.

One scan of the files that statistics leave finds the files to touch, none where there is no condition.
Files are then written anew with the rows changed; with deletion vectors only the changed rows are written,
and hidden where they were. Generated columns follow, constraints hold, ids of rows stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commands import rows
from tidegate.commands.assignments import (
    Assignment,
    Value,
    assignments_of,
    check_values,
    new_values,
)
from tidegate.commands.auto_compact import after_write
from tidegate.commands.conditions import Condition, condition_of, shape
from tidegate.commands.delete import aliased, carried, matched_by_file, note_read
from tidegate.commands.once import Once
from tidegate.errors import OptionError
from tidegate.log.columns import CDC_SCHEMA
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.schema.columns import identity_columns
from tidegate.spark.expressions import qualified, quote
from tidegate.spark.present import Moment
from tidegate.spark.scan.origins import reads_newest
from tidegate.spark.scan.positions import places, rows_by_file
from tidegate.spark.skipping import narrowing
from tidegate.spark.write.casts import casts_of
from tidegate.spark.write.files import Written, write_files
from tidegate.spark.write.layout import ROW_COMMIT_VERSION
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Transaction

_CHANGED = "__tidegate_changed"
_OLD = "__tidegate_old"


def update(
    spark: SparkSession,
    log: TableLog,
    set: Mapping[str, Value],
    condition: str | Column | None = None,
    *,
    alias: str | None = None,
) -> int:
    """Give the rows for which ``condition`` is true (all without one) new values; how many there were."""
    watch = rows.Watch()
    once = Once.of(spark)
    transaction, snapshot = rows.begin(log)
    given = shape(spark, snapshot.schema, alias)
    if not set:
        raise OptionError("UPDATE sets nothing.", hint="Name at least one column and its new value.")
    moment, names = Moment.now(), snapshot.schema.names
    values = {name: moment.bound(spark, value, names) for name, value in set.items()}
    assigned = assignments_of(given, snapshot.schema, values, alias, "UPDATE", casts_of(spark))
    refuse_identity(snapshot, assigned)
    found = (
        None
        if condition is None
        else condition_of(given, condition, snapshot.schema, "The condition of UPDATE", alias, moment)
    )
    if reads_newest(given.select(*(a.column for a in assigned)), log.url):
        transaction.read_table()
    # A type that does not fit is told before anything is read.
    check_values(given, snapshot.schema, snapshot.schema, assigned, lambda name: F.col(quote(name)))
    if once.is_done(transaction):
        return 0
    return _Update(once, transaction, snapshot, assigned, found, moment, alias, watch).run()


def refuse_identity(snapshot: Snapshot, assigned: list[Assignment]) -> None:
    """Identity columns number rows once; nobody may set them afterwards."""
    names = {i.name.casefold() for i in identity_columns(snapshot.schema)}
    for a in assigned:
        if a.path[0].casefold() in names:
            raise OptionError(
                f"{a.path[0]} is an identity column, which cannot be updated.",
                errorClass="DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
            )


class _Update:
    """One UPDATE on its way: the scan, the writing and the commit."""

    def __init__(
        self,
        once: Once,
        transaction: Transaction,
        snapshot: Snapshot,
        assigned: list[Assignment],
        condition: Condition | None,
        moment: Moment,
        alias: str | None,
        watch: rows.Watch,
    ) -> None:
        self.once = once
        self.spark = once.spark
        self.transaction = transaction
        self.snapshot = snapshot
        self.assigned = assigned
        self.condition = condition
        self.moment = moment
        # Old values are asked for by the table's name, whatever else is in sight.
        self.alias = alias or "__tidegate_target"
        self.watch = watch
        self.with_vectors = (
            rows.uses_vectors(self.spark, snapshot.metadata, "update") and condition is not None
        )
        self.changes_fed = rows.feeds_changes(snapshot.metadata)

    def run(self) -> int:
        files, positions, updated = self._touched()
        self.watch.lap("scanTimeMs")
        if self.with_vectors:
            changes = rows.hidden(self.transaction, files, positions)
        else:
            changes = rows.removed(self.transaction, files)
        written = self._write(files)
        self.watch.lap("rewriteTimeMs")
        output = rows.total(rows.live_rows(written.adds)) or 0
        updated = output if updated is None else updated
        copied = 0 if self.with_vectors else output - updated
        self._commit(changes, written, updated, copied)
        return updated

    def _touched(self) -> tuple[pa.Table, dict[int, BitMap64], int | None]:
        """The files to touch; with vectors the rows in them; how many rows, None for all of them."""
        if self.condition is None:
            return self.transaction.files(), {}, None
        partitions = self.snapshot.partition_columns
        candidates = self.snapshot.files(narrowing(self.spark, self.condition.predicate, partitions))
        found = places(self.spark, self.snapshot, candidates)
        matching = self.moment.at_once(aliased(found.frame, self.alias).where(self.condition.column))
        positions: dict[int, BitMap64] = {}
        if self.with_vectors:
            by_file = rows_by_file(matching, rows.total(rows.live_rows(candidates)))
            numbers = sorted(by_file)
            positions = {i: by_file[n] for i, n in enumerate(numbers)}
            updated = sum(len(b) for b in by_file.values())
        else:
            counts = matched_by_file(matching)
            numbers, updated = sorted(counts), sum(counts.values())
        files = candidates.take(pa.array(numbers, pa.int64()))
        note_read(self.transaction, found, self.condition, files)
        return files, positions, updated

    def _write(self, files: pa.Table) -> Written:
        if files.num_rows == 0:
            return Written(rows.no_files(), CDC_SCHEMA.empty_table())
        frame = aliased(places(self.spark, self.snapshot, files).frame, self.alias)
        condition = F.lit(True) if self.condition is None else self.condition.column
        if self.with_vectors:
            frame = frame.where(condition)
            condition = F.lit(True)
        changed = self.moment.at_once(self._changed(frame, condition))
        return write_files(self.transaction, changed, operation="UPDATE")

    def _changed(self, frame: DataFrame, condition: Column) -> DataFrame:
        """The rows after the update; with a change feed also as they were and as they are now."""
        schema = self.snapshot.schema
        names = carried(self.snapshot)
        changed = F.coalesce(condition, F.lit(False))
        new = new_values(schema, schema, self.assigned, lambda name: qualified(self.alias, name))
        columns = [
            F.when(changed, new[n]).otherwise(qualified(self.alias, n)).alias(n)
            if self._sets(n)
            else qualified(self.alias, n).alias(n)
            for n in schema.names
        ]
        # A row that changes keeps its id; the version that wrote it is the one being written.
        columns += [
            F.when(~changed, F.col(n)).alias(n) if n == ROW_COMMIT_VERSION else F.col(n)
            for n in names[len(schema.names) :]
        ]
        old = F.struct(*(qualified(self.alias, n).alias(n) for n in schema.names)).alias(_OLD)
        extras = [changed.alias(_CHANGED), *([old] if self.changes_fed else [])]
        out = frame.select(*columns, *extras)
        given = [a.path[0] for a in self.assigned]
        out = rows.with_generated(out, self.snapshot.metadata, given, F.col(_CHANGED))
        if not self.changes_fed:
            return out.drop(_CHANGED)
        return self._with_changes(out, names)

    def _sets(self, name: str) -> bool:
        return any(a.path[0].casefold() == name.casefold() for a in self.assigned)

    def _with_changes(self, frame: DataFrame, names: list[str]) -> DataFrame:
        own = [(n, F.col(quote(n))) for n in names]
        tracking = own[len(self.snapshot.schema.names) :]
        before = [(n, F.col(f"{_OLD}.{quote(n)}")) for n in self.snapshot.schema.names]
        three = F.array(
            rows.variant(own, None),
            rows.variant([*before, *tracking], "update_preimage"),
            rows.variant(own, "update_postimage"),
        )
        one = F.array(rows.variant(own, None))
        return rows.change_rows(frame, F.when(F.col(_CHANGED), three).otherwise(one))

    def _commit(self, changes: rows.FileChanges, written: Written, updated: int, copied: int) -> None:
        adds = pa.concat_tables([changes.adds, written.adds])
        metrics: dict[str, Any] = {
            # As Delta counts them here: a file that only gets a vector is removed, and added under it.
            "numRemovedFiles": changes.removes.num_rows,
            "numRemovedBytes": changes.size,
            "numAddedFiles": written.adds.num_rows,
            "numAddedBytes": rows.size_of(written.adds),
            "numAddedChangeFiles": written.cdcs.num_rows,
            "numUpdatedRows": updated,
            "numCopiedRows": copied,
            **changes.vector_metrics(),
            **self.watch.metrics(),
        }
        predicate = [] if self.condition is None else [self.condition.text]
        committed = self.transaction.commit_if_needed(
            self.once.actions(self.transaction),
            Operation("UPDATE", {"predicate": predicate}),
            adds=adds,
            removes=changes.removes,
            cdcs=written.cdcs,
            metrics=rows.as_texts(metrics),
        )
        self.once.settle()
        after_write(self.spark, self.transaction.log, committed)
