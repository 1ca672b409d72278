"""``DeltaMergeBuilder``: the clauses of a MERGE, one method each, and ``execute``.

Every method returns a builder with one more clause; what they mean stands in ``commands.merge``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from tidegate.commands.merge import merge
from tidegate.commands.merge.clauses import Action, Clause, When
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.spark.analysis import doors
from tidegate.spark.scan.taken import Shown
from tidegate.table.values import checked, checked_values

Condition = str | Column | None
Values = Mapping[str, str | Column] | None
_RESULT = (
    "num_affected_rows bigint, num_updated_rows bigint, num_deleted_rows bigint, num_inserted_rows bigint"
)


@doors
class DeltaMergeBuilder:
    """A MERGE being put together. Nothing happens before ``execute``."""

    def __init__(
        self,
        spark: SparkSession,
        log: TableLog,
        alias: str | None,
        source: DataFrame,
        condition: str | Column,
        clauses: tuple[Clause, ...] = (),
        evolves: bool = False,
        base: Snapshot | None = None,
        shown: Shown | None = None,
    ) -> None:
        if source is None:
            raise ValueError("'source' in merge cannot be None")
        if not isinstance(source, DataFrame):
            raise TypeError("Type of 'source' in merge must be DataFrame.")
        if condition is None:
            raise ValueError("'condition' in merge cannot be None")
        checked(condition)
        self._spark = spark
        self._log = log
        self._alias = alias
        self._source = source
        self._condition = condition
        self._clauses = clauses
        self._evolves = evolves
        self._base = base
        self._shown = shown

    def whenMatchedUpdate(self, condition: Condition = None, set: Values = None) -> DeltaMergeBuilder:
        """Set columns of a row that matches; values see both sides."""
        return self._with("matched", "update", condition, checked_values(set, "'set'"))

    def whenMatchedUpdateAll(self, condition: Condition = None) -> DeltaMergeBuilder:
        """Set every column of a row that matches to the source's."""
        return self._with("matched", "update", condition)

    def whenMatchedDelete(self, condition: Condition = None) -> DeltaMergeBuilder:
        """Delete a row that matches."""
        return self._with("matched", "delete", condition)

    def whenNotMatchedInsert(self, condition: Condition = None, values: Values = None) -> DeltaMergeBuilder:
        """Insert a row for a source row that matches none; values see the source alone."""
        return self._with("not matched", "insert", condition, checked_values(values, "'values'"))

    def whenNotMatchedInsertAll(self, condition: Condition = None) -> DeltaMergeBuilder:
        """Insert a source row that matches none, column by column."""
        return self._with("not matched", "insert", condition)

    def whenNotMatchedBySourceUpdate(
        self, condition: Condition = None, set: Values = None
    ) -> DeltaMergeBuilder:
        """Set columns of a row that no source row matches; values see the table alone."""
        return self._with("not matched by source", "update", condition, checked_values(set, "'set'"))

    def whenNotMatchedBySourceDelete(self, condition: Condition = None) -> DeltaMergeBuilder:
        """Delete a row that no source row matches."""
        return self._with("not matched by source", "delete", condition)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Let columns of the source that clauses set join the table."""
        return self._again(evolves=True)

    def execute(self) -> DataFrame:
        """Run the MERGE; the numbers of rows that it affected, updated, deleted and inserted."""
        done = merge(
            self._spark,
            self._log,
            self._source,
            self._own(self._condition),
            [clause.mapped(self._own) for clause in self._clauses],
            alias=self._alias,
            evolves=self._evolves,
            base=self._base,
        )
        row = (done.affected, done.updated, done.deleted, done.inserted)
        return self._spark.createDataFrame([row], _RESULT)

    def _own(self, value: Any) -> Any:
        """A condition or a value in which columns of the table's ``toDF()`` are the table's."""
        return value if self._shown is None else self._shown.named(value, self._alias)

    def _since(self, base: Snapshot) -> DeltaMergeBuilder:
        """A MERGE of a source that was planned when the table was ``base``."""
        return self._again(base=base)

    def _with(
        self, when: When, action: Action, condition: Condition, values: Values = None
    ) -> DeltaMergeBuilder:
        return self._again(clauses=(*self._clauses, Clause(when, action, checked(condition), values)))

    def _again(self, **changes: Any) -> DeltaMergeBuilder:
        known: dict[str, Any] = {
            "clauses": self._clauses,
            "evolves": self._evolves,
            "base": self._base,
            "shown": self._shown,
            **changes,
        }
        return DeltaMergeBuilder(self._spark, self._log, self._alias, self._source, self._condition, **known)
