"""``DeltaTable``: the names and signatures of ``delta.tables``, so that a script moves over by its import.

A facade without flesh: every method calls one function of ``commands`` and holds no rule of its own.
It points at a table, not at a version: each call sees the table as it is at that moment. The methods
of ALTER TABLE stand beside the drop-in surface, in ``Alterations``; those of the protocol in ``Features``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T

from tidegate.commands import catalog, retention
from tidegate.commands import clone as cloning
from tidegate.commands.convert_named import convert
from tidegate.commands.detail import detail
from tidegate.commands.generate import generate
from tidegate.commands.read import read
from tidegate.commands.restore import restore
from tidegate.commands.vacuum_spark import vacuum
from tidegate.errors import TidegateError
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.schema.paths import split_path
from tidegate.spark.analysis import doors
from tidegate.spark.confs import conf, in_session, log_at
from tidegate.spark.moments import in_utc
from tidegate.spark.scan.taken import Shown
from tidegate.table import frames, naming
from tidegate.table.alterations import Alterations
from tidegate.table.builder import DeltaTableBuilder
from tidegate.table.features import Features
from tidegate.table.optimize import DeltaOptimizeBuilder
from tidegate.table.values import check_clone, check_hadoop, checked, checked_values, need_text

V = TypeVar("V")

if TYPE_CHECKING:
    from tidegate.commands.create import Mode
    from tidegate.table.merge import DeltaMergeBuilder


@doors
class DeltaTable(Alterations, Features):
    """One Delta table, in one session."""

    def __init__(self, spark: SparkSession, log: TableLog, name: str | None = None) -> None:
        self._spark = spark
        self._log = in_session(spark, log)
        self._alias: str | None = None
        self._name = name
        self._shown = Shown(spark)

    # ------------------------------------------------------------------ getting one

    @classmethod
    def forPath(
        cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """The table at a path; an error if there is none."""
        check_hadoop(hadoopConf)
        log = TableLog.at(path)
        with naming.looking_for(path):
            load(log)
        return cls(sparkSession, log)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The table that the catalog knows by a name, or ``delta.`/path```."""
        with naming.looking_for(tableOrViewName):
            log = catalog.log_of(sparkSession, tableOrViewName)
        named = naming.path_in(tableOrViewName) is None
        return cls(sparkSession, log, tableOrViewName if named else None)

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether there is a table at a path; a store that cannot be asked is an error, no answer."""
        need_text(identifier, "identifier")
        try:
            return catalog.is_delta_table(sparkSession, naming.path_in(identifier) or identifier)
        except TidegateError:
            if conf(sparkSession, "isDeltaTable.throwOnError", True):
                raise
            return False

    @classmethod
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | T.StructType | None = None,
    ) -> DeltaTable:
        """Make a Delta table of the files at ``parquet.`/path``` or of a parquet table; none is moved."""
        need_text(identifier, "identifier")
        if partitionSchema is not None and not isinstance(partitionSchema, str | T.StructType):
            raise TypeError(f"partitionSchema must be str or StructType, found {type(partitionSchema)}")
        log = convert(sparkSession, identifier, partitionSchema)
        named = naming.table_named(sparkSession, identifier)
        return cls(sparkSession, log, named)

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A new table; an error if there is one."""
        return _builder(sparkSession, "create")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A new table, unless there is one."""
        return _builder(sparkSession, "createIfNotExists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Another table in the place of one that must be there."""
        return _builder(sparkSession, "replace")

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A new table, or another one in the place of the one there is."""
        return _builder(sparkSession, "createOrReplace")

    # ------------------------------------------------------------------ looking at it

    def toDF(self) -> DataFrame:
        """The table as it is now, as a DataFrame."""
        frame = read(self._spark, self._log.url)
        return self._shown.keep(frame if self._qualifier is None else frame.alias(self._qualifier))

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name to be used in conditions."""
        out = DeltaTable(self._spark, self._log, self._name)
        out._alias = aliasName
        out._shown = self._shown
        return out

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits still in the log, newest first: DESCRIBE HISTORY."""
        return frames.history(self._spark, load(self._log).history(limit))

    def detail(self) -> DataFrame:
        """What the table is now, in one row: DESCRIBE DETAIL."""
        return frames.rows(self._spark, [detail(load(self._log), self._called())], frames.DETAIL)

    # ------------------------------------------------------------------ changing rows

    def delete(self, condition: str | Column | None = None) -> None:
        """Delete the rows for which ``condition`` is true, all of them without one."""
        from tidegate.commands.delete import delete

        delete(self._spark, self._log, self._own(checked(condition)), alias=self._qualifier)

    def update(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,
    ) -> None:
        """Give the rows for which ``condition`` is true (all without one) the values of ``set``."""
        from tidegate.commands.update import update

        given = {name: self._own(value) for name, value in checked_values(set, "'set'").items()}
        update(self._spark, self._log, given, self._own(checked(condition)), alias=self._qualifier)

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        """Merge the rows of ``source`` into the table: what to do with them is told to the builder."""
        from tidegate.commands.merge import TARGET
        from tidegate.table.merge import DeltaMergeBuilder

        alias = self._qualifier or TARGET
        return DeltaMergeBuilder(self._spark, self._log, alias, source, condition, shown=self._shown)

    def _own(self, value: V) -> V:
        """A condition or a value in which columns of ``toDF()`` are the table's."""
        return self._shown.named(value, self._qualifier)

    @property
    def _qualifier(self) -> str | None:
        """What stands before the table's columns in conditions: its alias, or its name."""
        if self._alias is not None or self._name is None:
            return self._alias
        return split_path(self._name)[-1]

    # ------------------------------------------------------------------ table services

    def generate(self, mode: str) -> None:
        """Write manifests of the live files for engines that read those: ``symlink_format_manifest``."""
        need_text(mode, "mode")
        generate(self._log, mode)

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete files that no version within the retention needs. An empty DataFrame, as Delta returns."""
        vacuum(self._spark, self._log, None if retentionHours is None else float(retentionHours))
        return self._spark.createDataFrame([], T.StructType([]))

    def restoreToVersion(self, version: int) -> DataFrame:
        """Make the table what it was at a version, as a new commit; the metrics in one row.

        There is no row, and no commit, where the table is at that version already.
        """
        if not isinstance(version, int) or isinstance(version, bool):
            raise ValueError(f"version needs to be an int but got '{type(version)}'.")
        return self._restored(version=version)

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Make the table what it was at a time of the session's zone: ``yyyy-MM-dd [HH:mm:ss]``."""
        if not isinstance(timestamp, str):
            raise ValueError(f"timestamp needs to be a string but got '{type(timestamp)}'.")
        return self._restored(timestamp=timestamp)

    def _restored(self, version: int | None = None, timestamp: str | None = None) -> DataFrame:
        if timestamp is not None:
            timestamp = in_utc(self._spark, timestamp)
        ignore = str(self._spark.conf.get("spark.sql.files.ignoreMissingFiles", "false")).lower() == "true"
        metrics = restore(
            self._log,
            version=version,
            timestamp=timestamp,
            ignore_missing=ignore,
            lowers_protocol=conf(self._spark, "restore.protocolDowngradeAllowed", False),
            within_retention=conf(self._spark, retention.CONF, False),
        )
        return frames.rows(self._spark, [] if metrics is None else [metrics], frames.RESTORE)

    def optimize(self) -> DeltaOptimizeBuilder:
        """Compaction, Z-order and clustering."""
        return DeltaOptimizeBuilder(self._spark, self._log)

    def clone(
        self,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """A new table at ``target`` with the rows of this one; shallow clones refer to its files."""
        return self._clone(target, isShallow, replace, properties)

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """``clone`` of this table as it was at a version."""
        return self._clone(target, isShallow, replace, properties, version=version)

    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """``clone`` of this table as it was at a time."""
        return self._clone(target, isShallow, replace, properties, timestamp=timestamp)

    def _clone(
        self,
        target: str,
        shallow: bool,
        replace: bool,
        properties: Mapping[str, str] | None,
        **moment: Any,
    ) -> DeltaTable:
        check_clone(target, shallow, replace, properties, **moment)
        if "timestamp" in moment:
            moment["timestamp"] = in_utc(self._spark, moment["timestamp"])
        place = naming.target(self._spark, target, replace=replace)
        with naming.entering(self._spark, place):
            cloning.clone(
                self._log,
                log_at(self._spark, place.path),
                shallow=shallow,
                replace=replace,
                properties=properties,
                within_retention=conf(self._spark, retention.CONF, False),
                **moment,
                called=self._called(),
            )
        return DeltaTable(self._spark, TableLog.at(place.path), place.name)

    def _called(self) -> str | None:
        """This table's name from its catalog down; None if it is known by its path."""
        entry = None if self._name is None else catalog.entry_of(self._spark, self._name)
        return None if entry is None else naming.full_name(entry)

    def __repr__(self) -> str:
        return f"DeltaTable({self._name or self._log.url!r})"


def _builder(spark: SparkSession | None, mode: Mode) -> DeltaTableBuilder:
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise ValueError("There is no active Spark session; pass one.")
    return DeltaTableBuilder(session, mode)
