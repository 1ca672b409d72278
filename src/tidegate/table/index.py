"""``IndexTable``: full-text search tables by path or name. A facade: every method calls one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.errors import OptionError, QueryError
from tidegate.index.aggregate import Bucket, time_step
from tidegate.index.log import IndexLog
from tidegate.index.results import Result
from tidegate.index.search import as_frame
from tidegate.index.settings import Settings
from tidegate.index.tables import Query, Searchable
from tidegate.index.write import session_conf, write
from tidegate.index.write_options import check_options
from tidegate.schema.types import PrimitiveType, parse_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.table.delta import DeltaTable

_TIMES = ("date", "timestamp", "timestamp_ntz")


class IndexTable:
    """An index table. Made by ``forPath``, ``forName``, ``create`` and ``buildFor``."""

    def __init__(
        self,
        spark: SparkSession | None,
        path: str,
        storageOptions: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        version: int | None = None,
        timestamp: datetime | str | int | None = None,
    ) -> None:
        self._spark, self.path = spark, str(path)
        self._storage = dict(storageOptions or {})
        self._options = dict(options or {})
        self._version, self._timestamp = version, timestamp

    # ------------------------------------------------------------------ opening

    @classmethod
    def forPath(
        cls,
        spark: SparkSession | None,
        path: str,
        storageOptions: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> IndexTable:
        """The index table at ``path``. Without a session (None) everything is searched in this process."""
        check_options(Settings(options), options)
        table = cls(spark, path, storageOptions, options)
        table._log.snapshot().check_readable()
        return table

    @classmethod
    def forName(cls, spark: SparkSession, name: str, options: Mapping[str, str] | None = None) -> IndexTable:
        """The index table that the session's catalog knows by ``name``."""
        from tidegate.index.named import place_of

        return cls.forPath(spark, place_of(spark, name), options=options)

    @classmethod
    def isIndexTable(cls, path: str, storageOptions: Mapping[str, str] | None = None) -> bool:
        """Whether there is an index table at ``path``."""
        return IndexLog.at(path, storageOptions).exists()

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        path: str,
        data: Any,
        partitionBy: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
        mode: str = "error",
        storageOptions: Mapping[str, str] | None = None,
    ) -> IndexTable:
        """A new table with the rows of a DataFrame, or empty from a schema (a StructType or DDL text)."""
        frame = data if hasattr(data, "mapInArrow") else spark.createDataFrame([], data)
        write(
            frame,
            path,
            mode=mode,
            partition_by=partitionBy,
            options=options,
            storage_options=storageOptions,
        )
        return cls(spark, path, storageOptions)

    @classmethod
    def buildFor(
        cls,
        deltaTable: DeltaTable | str,
        path: str | None = None,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        storageOptions: Mapping[str, str] | None = None,
    ) -> IndexTable:
        """A companion index of a Delta table: the rows stay there, only the search structures are new."""
        from tidegate.index.companion import build

        source = deltaTable if isinstance(deltaTable, str) else _location(deltaTable)
        session = spark or getattr(deltaTable, "_spark", None)
        where = build(source, path, columns, options, session, storageOptions)
        return cls(session, where, storageOptions)

    def asOf(self, version: int | None = None, timestamp: datetime | str | int | None = None) -> IndexTable:
        """The table as it was; of a companion, as its Delta table was."""
        return IndexTable(self._spark, self.path, self._storage, self._options, version, timestamp)

    # ------------------------------------------------------------------ searching

    def search(
        self,
        query: Query = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        scores: bool = False,
        highlight: Sequence[str] = (),
        marks: tuple[str, str] = ("<b>", "</b>"),
    ) -> DataFrame:
        """The rows that match a query of the search language; all of them where it is None.

        With ``scores`` the best come first and ``_score`` says how good; ``highlight`` adds
        ``_snippet_COLUMN`` with the matches between ``marks``.
        """
        return self._rows(query, columns, limit, scores=scores, highlight=highlight, marks=marks)

    def textsearch(
        self, col: str, query: str, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> DataFrame:
        """The rows whose text column ``col`` matches the words of ``query``."""
        self._check_kind(col, words=True)
        return self._rows(query, columns, limit, field=col)

    def fieldmatch(
        self, col: str, query: str, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> DataFrame:
        """The rows whose column ``col``, which is not text, has a value that ``query`` describes."""
        self._check_kind(col, words=False)
        return self._rows(query, columns, limit, field=col)

    def count(self, query: Query = None) -> int:
        """How many rows match."""
        return self._table().count(query)

    def aggregate(
        self,
        query: Query = None,
        group_by: Sequence[str] | str = (),
        metrics: Sequence[str] | Mapping[str, str] | None = None,
    ) -> DataFrame:
        """Groups of the matching rows with ``count``, ``sum(c)``, ``avg(c)``, ``min(c)`` and ``max(c)``."""
        keys = [group_by] if isinstance(group_by, str) else list(group_by)
        return self._groups(query, keys, metrics, None)

    def histogram(
        self,
        column: str,
        interval: float,
        query: Query = None,
        metrics: Sequence[str] | Mapping[str, str] | None = None,
        offset: float = 0,
    ) -> DataFrame:
        """The matching rows by steps of a number: ``bucket`` is where the step begins."""
        if interval <= 0:
            raise QueryError(f"The interval of a histogram is {interval}; it is above zero.")
        return self._groups(query, [], metrics, Bucket(column, interval, offset))

    def dateHistogram(
        self,
        column: str,
        interval: str,
        query: Query = None,
        metrics: Sequence[str] | Mapping[str, str] | None = None,
    ) -> DataFrame:
        """The matching rows by steps of time, such as ``15m`` or ``1d``, counted in UTC."""
        kind = parse_schema(self._table().scope.schema).field(column)
        if kind is not None and not (isinstance(kind.type, PrimitiveType) and kind.type.name in _TIMES):
            raise QueryError(f"{column} is {kind.type}, not a time.", hint="Use histogram for numbers.")
        return self._groups(query, [], metrics, Bucket(column, time_step(interval)))

    def toDF(self) -> DataFrame:
        """All rows."""
        return self._rows(None, None, None)

    # ------------------------------------------------------------------ maintenance

    def mergeSplits(
        self,
        targetSize: str | int = "5G",
        where: str | None = None,
        dryRun: bool = False,
        maxDestSplits: int | None = None,
        maxSourceSplits: int | None = None,
    ) -> dict[str, Any]:
        """Put small splits together, partition by partition, without indexing anything again.

        At most ``maxDestSplits`` new ones are made, those of the most sources first, each out of at most
        ``maxSourceSplits``.
        """
        from tidegate.index.merge_splits import Limits, merge_splits

        limits = Limits(maxDestSplits, maxSourceSplits)
        return merge_splits(
            self._log, targetSize, where, dryRun, self._spark, self._storage, limits=limits
        ).as_dict()

    def purge(
        self,
        retentionHours: float | None = None,
        dryRun: bool = False,
        logRetentionHours: float | None = None,
    ) -> Any:
        """Delete what no retained version needs."""
        return self._log.purge(
            retention_hours=retentionHours, log_retention_hours=logRetentionHours, dry_run=dryRun
        )

    def dropPartitions(self, where: str) -> int:
        """Remove the partitions for which ``where`` is true; returns the version."""
        return self._log.drop_partitions(where).version

    def checkpoint(self) -> Any:
        """Write a checkpoint of the log."""
        return self._log.checkpoint()

    def truncateHistory(self, dryRun: bool = False) -> Any:
        """Checkpoint, then remove what only older versions need."""
        return self._log.truncate_history(dry_run=dryRun)

    def describeLog(self, includeAll: bool = False) -> DataFrame:
        """The actions of the log, one row each."""
        return self._result(self._log.describe(include_all=includeAll))

    def repair(self, to: str) -> Any:
        """Write a log at ``to`` that names only splits that are there; this one is not touched."""
        return self._log.repair(IndexLog.at(to, self._storage, self._settings.as_options()))

    def upgradeProtocol(self, reader: int, writer: int) -> Any:
        """Raise the table's protocol to at least these versions."""
        return self._log.upgrade_protocol(reader, writer).protocol

    def refresh(self) -> dict[str, Any]:
        """Bring a companion up to its Delta table, in one commit."""
        from tidegate.index.companion import refresh

        return refresh(self._log, self._spark, self._storage, self._settings).as_dict()

    # ------------------------------------------------------------------ what it is

    @property
    def version(self) -> int:
        """The version of the index table's own log."""
        return self._log.snapshot(self._version, self._timestamp).version

    def schema(self) -> Any:
        """The columns, as Spark's StructType."""
        import json

        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self._table().scope.schema))

    def fields(self) -> dict[str, str]:
        """Each indexed column and its kind."""
        return {f.column: f.kind for f in self._table().names.mapping.indexed}

    # ------------------------------------------------------------------ inside

    @cached_property
    def _settings(self) -> Settings:
        # Read once: asking a session for its confs takes longer than most searches.
        return Settings(self._options, session_conf(self._spark) if self._spark is not None else None)

    @cached_property
    def _log(self) -> IndexLog:
        return IndexLog.at(self.path, self._storage, self._settings.as_options())

    def _table(self) -> Searchable:
        return Searchable.open(
            self.path,
            version=self._version,
            timestamp=self._timestamp,
            storage_options=self._storage,
            options=self._settings.as_options(),
            spark=self._spark,
            log=self._log,
        )

    def _check_kind(self, col: str, *, words: bool) -> None:
        field, partition, _ = self._table().names.find(col)
        is_words = field is not None and field.is_words
        if words and not is_words:
            kind = f"a {field.kind} field" if field is not None else f"the partition column {partition}"
            raise QueryError(
                f"{col} is {kind}, and textsearch is for words.",
                hint=f"Use fieldmatch, or write the table with indexing.typemap.{col} = text.",
            )
        if not words and is_words:
            raise QueryError(
                f"{col} is a text field, and fieldmatch is for exact values.",
                hint=f"Use textsearch, or write the table with indexing.typemap.{col} = string.",
            )

    def _session(self) -> SparkSession:
        if self._spark is None:
            raise OptionError("A DataFrame needs a session.", hint="Use .toArrow(), or forPath(spark, path).")
        return self._spark

    def _rows(self, query: Query, columns: Sequence[str] | None, limit: int | None, **more: Any) -> DataFrame:
        found = self._table().search(query, columns, limit, **more)
        # A Result stands in for a DataFrame and becomes one when Spark is needed.
        return Result(  # type: ignore[return-value]
            lambda: found.table(self._spark),
            lambda: found.count(self._spark),
            lambda: found.frame(self._session()),
        )

    def _groups(self, query: Query, keys: Sequence[str], metrics: Any, bucket: Bucket | None) -> DataFrame:
        return self._result(self._table().aggregate(query, keys, metrics, bucket))

    def _result(self, table: pa.Table) -> DataFrame:
        # As above: a stand-in for a DataFrame.
        return Result(  # type: ignore[return-value]
            lambda: table, lambda: table.num_rows, lambda: as_frame(self._session(), table)
        )


def _location(table: DeltaTable) -> str:
    log = getattr(table, "_log", None)
    found = getattr(log, "url", None) or getattr(table, "_url", None) or getattr(table, "path", None)
    if found is None:
        raise OptionError("The location of the Delta table is not known; give its path.")
    return str(found)
