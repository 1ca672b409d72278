"""The second half of a MERGE: the rows to be written, as the decisions say, in one frame.

Copy on write gives all rows of touched files that stay, changed or not; with deletion vectors only the
changed ones. Inserted rows join them. With a change feed each change is also told, as it was and as it is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.commands import rows
from tidegate.commands.assignments import new_values
from tidegate.commands.merge.analysis import Analysis, Understood, clause_number
from tidegate.commands.merge.matching import AT, CLAUSE
from tidegate.metadata import Metadata
from tidegate.schema.columns import IdentityColumn, default_columns
from tidegate.schema.types import StructType
from tidegate.spark.expressions import qualified, quote
from tidegate.spark.scan.positions import PLACE, tracks
from tidegate.spark.scan.projection import spark_type
from tidegate.spark.write import identity
from tidegate.spark.write.layout import ROW_COMMIT_VERSION, ROW_ID

_OLD, _VALUE = "__tidegate_old", "__tidegate_value"


class Rewriting:
    """Makes the frames of one MERGE. ``metadata`` is the table's as it will be, ``have`` its old schema."""

    def __init__(
        self, analysis: Analysis, metadata: Metadata, have: StructType, alias: str, *, tells: bool
    ) -> None:
        self.analysis = analysis
        self.metadata = metadata
        self.schema = metadata.schema
        self.have = have
        self.alias = alias
        self.tells = tells
        self.tracking = [ROW_ID, ROW_COMMIT_VERSION] if tracks(metadata) else []

    # ------------------------------------------------------------------ rows of the table

    def changed(self, target: DataFrame, decisions: DataFrame, *, copies: bool) -> DataFrame:
        """The rows of ``target`` after their decisions; with ``copies`` also those that have none."""
        how = "left_outer" if copies else "inner"
        updates, target = self._alone(target.alias(self.alias))
        joined = target.join(decisions, qualified(self.alias, PLACE) == F.col(AT), how)
        deletes = [u.number for u in self.analysis.deletes]
        clause = F.col(CLAUSE)
        if deletes and not self.tells:
            joined = joined.where(clause.isNull() | ~clause.isin(deletes))
        is_update = F.coalesce(clause.isin([u.number for u in self.analysis.updates]), F.lit(False))
        columns = [*self._values(updates), *self._tracked(is_update), clause]
        if self.tells:
            old = new_values(self.schema, self.have, (), self._own)
            columns.append(F.struct(*(c.alias(n) for n, c in old.items())).alias(_OLD))
        out = joined.select(*columns)
        for u in self.analysis.updates:
            out = self._generated(out, u)
        return self._told(out, deletes) if self.tells else out.drop(CLAUSE)

    def _own(self, name: str) -> Column:
        return qualified(self.alias, name)

    def _alone(self, target: DataFrame) -> tuple[list[Understood], DataFrame]:
        """The updates, and the table with the values of those that mean its columns alone beside its own."""
        updates, columns = [], []
        clause = clause_number(self.analysis.by_source)
        for u in self.analysis.updates:
            if u.alone:
                given = [(a, f"{_VALUE}_{u.number}_{i}") for i, a in enumerate(u.assignments)]
                columns += [F.when(clause == u.number, a.column).alias(name) for a, name in given]
                own = tuple(replace(a, column=self._own(name)) for a, name in given)
                u = replace(u, assignments=own)
            updates.append(u)
        return updates, target.select("*", *columns).alias(self.alias) if columns else target

    def _values(self, updates: list[Understood]) -> list[Column]:
        """Each column: what its row's clause sets, else what it was."""
        old = new_values(self.schema, self.have, (), self._own)
        updated = [(u, new_values(self.schema, self.have, u.assignments, self._own)) for u in updates]
        out = []
        for f in self.schema.fields:
            value = old[f.name]
            for u, new in reversed(updated):
                if any(a.path[0].casefold() == f.name.casefold() for a in u.assignments):
                    value = F.when(F.col(CLAUSE) == u.number, new[f.name]).otherwise(value)
            out.append(value.alias(f.name))
        return out

    def _tracked(self, is_update: Column) -> list[Column]:
        """A row that changes keeps its id; the version that wrote it is the one being written."""
        if not self.tracking:
            return []
        version = F.when(~is_update, F.col(ROW_COMMIT_VERSION)).alias(ROW_COMMIT_VERSION)
        return [F.col(ROW_ID), version]

    def _generated(self, frame: DataFrame, u: Understood) -> DataFrame:
        given = [a.path[0] for a in u.assignments]
        acts = F.coalesce(F.col(CLAUSE) == u.number, F.lit(False))
        return rows.with_generated(frame, self.metadata, given, acts)

    def _told(self, frame: DataFrame, deletes: list[int]) -> DataFrame:
        names = self.schema.names
        own = [(n, F.col(quote(n))) for n in (*names, *self.tracking)]
        before = [(n, F.col(f"{_OLD}.{quote(n)}")) for n in names] + own[len(names) :]
        data = rows.variant(own, None)
        clause = F.col(CLAUSE)
        updated = F.array(
            data, rows.variant(before, "update_preimage"), rows.variant(own, "update_postimage")
        )
        variants = F.when(clause.isNull(), F.array(data))
        if deletes:
            variants = variants.when(clause.isin(deletes), F.array(rows.variant(before, "delete")))
        return rows.change_rows(frame, variants.otherwise(updated))

    # ------------------------------------------------------------------ rows of the source

    def inserted(self, source: DataFrame) -> DataFrame:
        """The rows that the insert clauses make of ``source``, which says in ``CLAUSE`` which one acts."""
        clauses = self.analysis.not_matched
        values = [(u, self._inserted(u)) for u in clauses]
        columns = []
        for f in self.schema.fields:
            value = values[-1][1][f.name]
            for u, new in reversed(values[:-1]):
                value = F.when(F.col(CLAUSE) == u.number, new[f.name]).otherwise(value)
            columns.append(value.alias(f.name))
        nothing = [F.lit(None).cast("long").alias(n) for n in self.tracking]
        out = source.select(*columns, *nothing, F.col(CLAUSE))
        if self.analysis.numbered:
            # Here, where rows of the table are not in sight yet, and a row and its change row are one.
            out = identity.numbered(out, {i: self._lacking(i) for i in self.analysis.numbered})
        for u in clauses:
            out = self._generated(out, u)
        if not self.tells:
            return out.drop(CLAUSE)
        own = [(n, F.col(quote(n))) for n in (*self.schema.names, *self.tracking)]
        return rows.change_rows(out, F.array(rows.variant(own, None), rows.variant(own, "insert")))

    def _lacking(self, column: IdentityColumn) -> Column:
        """Which rows a clause makes without a value for ``column``."""
        given = column.name.casefold()
        without = (
            u.number
            for u in self.analysis.not_matched
            if all(a.path[0].casefold() != given for a in u.assignments)
        )
        return F.col(CLAUSE).isin(list(without))

    def _inserted(self, u: Understood) -> dict[str, Column]:
        out = new_values(self.schema, StructType(), u.assignments, self._own)
        given = {a.path[0].casefold() for a in u.assignments}
        for default in default_columns(self.schema):
            field = self.schema.field(default.name)
            if default.name.casefold() not in given and field is not None:
                out[field.name] = F.expr(default.current).cast(spark_type(field.type))
        return out


def together(frames: list[DataFrame]) -> DataFrame:
    """Frames of the same columns as one."""
    return reduce(DataFrame.unionByName, frames)
