"""``DeltaOptimizeBuilder``: which partitions, then how. As in ``delta.tables``."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tidegate.commands.optimize import optimize
from tidegate.log.table_log import TableLog
from tidegate.spark.analysis import doors
from tidegate.table import frames


@doors
class DeltaOptimizeBuilder:
    """Made by ``DeltaTable.optimize``; the methods that begin with ``execute`` do it."""

    def __init__(self, spark: SparkSession, log: TableLog) -> None:
        self._spark = spark
        self._log = log
        self._where: str | None = None

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Only the partitions for which this is true."""
        if not isinstance(partitionFilter, str):
            raise TypeError(f"partitionFilter must be a string, found {type(partitionFilter)}")
        self._where = partitionFilter if self._where is None else f"({self._where}) AND ({partitionFilter})"
        return self

    def executeCompaction(self) -> DataFrame:
        """Fewer, fuller files; clustered ones where the table has clustering columns."""
        return self._execute()

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Files sorted along a curve through the columns, so that filters on any of them skip files."""
        names: list[str] = []
        for name in cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols:
            if not isinstance(name, str):
                raise TypeError(f"Z-order column must be str. Found {name} with type {type(name)}")
            names.append(name)
        if not names:
            raise ValueError("Z-order needs at least one column.")
        return self._execute(names)

    def executeFull(self) -> DataFrame:
        """OPTIMIZE FULL: files that were clustered by other columns are clustered too."""
        return self._execute(full=True)

    def _execute(self, zorder_by: tuple[str, ...] | list[str] = (), full: bool = False) -> DataFrame:
        done = optimize(self._spark, self._log, where=self._where, zorder_by=zorder_by, full=full)
        row = {"path": done.path, "metrics": done.metrics}
        return frames.rows(self._spark, [row], frames.OPTIMIZE)
