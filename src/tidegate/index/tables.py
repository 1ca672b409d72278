"""An index table that can be searched: one snapshot of its log, and the splits behind it.

Everything here works without Spark; where a session is given, many splits are searched on its executors.
A companion brings its own targets: the splits that cover files of the Delta snapshot, and the files that
none covers yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import OptionError, QueryError
from tidegate.files.predicate import Predicate
from tidegate.index.aggregate import Aggregate, Bucket, metrics_of
from tidegate.index.compile import validate
from tidegate.index.log import IndexLog
from tidegate.index.names import Names
from tidegate.index.parse import parse_query
from tidegate.index.prune import implied
from tidegate.index.query import All, Node
from tidegate.index.reader import guarded
from tidegate.index.search import Search, aggregate, count, targets_of
from tidegate.index.settings import Settings
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.work import Count, Find, Scope, Target, check_columns
from tidegate.index.write import COMPANION, mapping_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Query = str | Node | None


@dataclass(frozen=True)
class Searchable:
    """One version of a table, with where and how it is searched."""

    snapshot: IndexSnapshot
    scope: Scope
    spark: SparkSession | None = None
    driver_splits: int | None = None

    @classmethod
    def open(
        cls,
        url: str | PathLike[str],
        *,
        version: int | None = None,
        timestamp: datetime | str | int | None = None,
        storage_options: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        log: IndexLog | None = None,
    ) -> Searchable:
        """The table at ``url``, as it is now or as it was; of a companion, as its Delta table was."""
        settings = Settings(options)
        log = log or IndexLog.at(url, storage_options, settings.as_options())
        if version is not None and timestamp is not None:
            raise OptionError("A version and a timestamp exclude each other.")
        latest = log.snapshot()
        limit = settings.get("search.driverSplits")
        most = None if limit is None else settings.number("search.driverSplits", 0)
        if latest.configuration.get(COMPANION) == "true":
            from tidegate.index.companion_table import CompanionTable

            return CompanionTable.of(latest, version, timestamp, storage_options, spark, most)
        found = latest if version is None and timestamp is None else log.snapshot(version, timestamp)
        return cls(found, scope_of(found, storage_options), spark, most)

    @property
    def read_version(self) -> int:
        """The version that is read, as ``versionAsOf`` would name it."""
        return self.snapshot.version

    # ------------------------------------------------------------------ planning

    @cached_property
    def names(self) -> Names:
        return self.scope.names

    def node(self, query: Query, field: str | None = None) -> Node:
        """A query as its tree; None stands for every row."""
        if query is None:
            return All()
        node = query if isinstance(query, Node) else parse_query(query, field)
        guarded(lambda: validate(node, self.names), None)
        return node

    def targets(self, node: Node) -> tuple[Target, ...]:
        """The splits that may hold matching rows."""
        predicate = implied(node, self.names)
        return tuple(targets_of(self.scope, self.files(predicate)))

    def files(self, predicate: Predicate | None = None) -> pa.Table:
        columns = ["path", "partitionValues", "size", "footerStartOffset", "footerEndOffset", "numRecords"]
        return self.snapshot.files(predicate, columns)

    # ------------------------------------------------------------------ asking

    def search(
        self,
        query: Query = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        *,
        scores: bool = False,
        highlight: Sequence[str] = (),
        marks: tuple[str, str] = ("<b>", "</b>"),
        field: str | None = None,
    ) -> Search:
        """The rows that match; nothing is searched before they are asked for."""
        node = self.node(query, field)
        if limit is not None and limit < 0:
            raise OptionError(f"The limit is {limit}; it is a number of rows.")
        wanted = check_columns(self.scope, columns)
        marked = check_columns(self.scope, highlight)
        for name in marked:
            found = self.names.mapping.find(name)
            if found is None or not found.is_words or not found.indexed:
                raise QueryError(f"{name} is no text field; only words can be highlighted.")
        find = Find(self.scope, node, wanted, limit, scores, marked, marks)
        return Search(find, self.targets(node), self.driver_splits)

    def count(self, query: Query = None) -> int:
        """How many rows match; all of them are counted by the log alone."""
        node = self.node(query)
        if isinstance(node, All) and self.scope.source is None:
            known = self.snapshot.num_records
            if known is not None:
                return known
        return count(Count(self.scope, node), self.targets(node), self.spark, self.driver_splits)

    def aggregate(
        self,
        query: Query = None,
        group_by: Sequence[str] = (),
        metrics: Sequence[str] | Mapping[str, str] | None = None,
        bucket: Bucket | None = None,
    ) -> pa.Table:
        """Groups of the matching rows, ordered by their keys."""
        node = self.node(query)
        keys = check_columns(self.scope, list(group_by))
        work = Aggregate(self.scope, node, keys, metrics_of(metrics), bucket)
        return aggregate(work, self.targets(node), self.spark, self.driver_splits)


def scope_of(snapshot: IndexSnapshot, storage_options: Mapping[str, str] | None) -> Scope:
    """What the splits of a table need to know of it."""
    return Scope(
        snapshot.url,
        mapping_of(snapshot).to_json(),
        snapshot.schema.to_json(),
        tuple(snapshot.partition_columns),
        tuple((storage_options or {}).items()),
    )


def total(files: pa.Table) -> int:
    """The bytes of some splits."""
    found: Any = pc.sum(files.column("size")).as_py()
    return int(found or 0)
