"""``DeltaTable``: the names and signatures of ``delta.tables``, so that a script moves over by its import.

A facade without flesh: every method calls one function of ``commands`` and holds no rule of its own.
It points at a table, not at a version: each call sees the table as it is at that moment.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from tidegate.commands.read import read
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog


class DeltaTable:
    """One Delta table, in one session."""

    def __init__(self, spark: SparkSession, log: TableLog, name: str | None = None) -> None:
        self._spark = spark
        self._log = log
        self._alias: str | None = None
        self._name = name

    @classmethod
    def forPath(
        cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """The table at a path; an error if there is none."""
        log = TableLog.at(path)
        load(log)
        return cls(sparkSession, log)

    def toDF(self) -> DataFrame:
        """The table as it is now, as a DataFrame."""
        frame = read(self._spark, self._log.url)
        return frame if self._alias is None else frame.alias(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name to be used in conditions."""
        out = DeltaTable(self._spark, self._log, self._name)
        out._alias = aliasName
        return out

    def __repr__(self) -> str:
        return f"DeltaTable({self._name or self._log.url!r})"
