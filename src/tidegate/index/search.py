"""Searching a table: which splits, where, and what comes of it.

Splits that partition values and statistics rule out are not opened. If at most ``search.driverSplits`` (32)
of the others are not in the local cache, they are searched in this process; otherwise on the executors, one
task for a group of splits, and only hits leave the worker. Both ways run the same work on each split and
put the results in the same order: the splits as the log names them, rows as they were written; the best
first where scores are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.files import partitions
from tidegate.index.aggregate import Aggregate
from tidegate.index.cache import SplitFile, shared_cache
from tidegate.index.query import All
from tidegate.index.work import ORDER, SCORE, Count, Find, Scope, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER_SPLITS = 32
_THREADS = max(2, os.cpu_count() or 2)
# Splits of one task: enough to pay for its start, few enough to spread.
_SPLITS_PER_TASK = 8


class Work(Protocol):
    """Something done to one split, with the columns that come of it."""

    @property
    def schema(self) -> pa.Schema: ...

    def __call__(self, target: Any, /) -> pa.Table: ...


def targets_of(scope: Scope, files: pa.Table) -> list[Target]:
    """The splits of a table of adds, in the order of their paths, with their partition values."""
    files = files.sort_by("path")
    schema = scope.columns
    values: dict[str, list[Any]] = {}
    maps = files.column("partitionValues")
    for name in scope.partitions:
        field = schema.field(name)
        assert field is not None
        chunks = [partitions.typed(c, name, field.type).to_pylist() for c in maps.chunks]
        values[name] = [v for chunk in chunks for v in chunk]
    columns = ("path", "size", "footerStartOffset", "footerEndOffset")
    paths, sizes, starts, ends = (files.column(c).to_pylist() for c in columns)
    out = []
    for i in range(files.num_rows):
        split = SplitFile(scope.table, paths[i], sizes[i], starts[i], ends[i])
        out.append(Target(i, split, {n: v[i] for n, v in values.items()}))
    return out


# ---------------------------------------------------------------------------- the two ways


def in_driver(targets: Sequence[Target], limit: int | None) -> bool:
    """Whether the targets are searched in this process."""
    most = DRIVER_SPLITS if limit is None else limit
    if len(targets) <= most:
        return True
    cache = shared_cache()
    return sum(t.split is None or not cache.has(t.split) for t in targets) <= most


def run_here(work: Callable[[Any], pa.Table], targets: Sequence[Any]) -> Iterable[pa.Table]:
    """The results of the targets in their order, a few at a time."""
    if len(targets) <= 1:
        yield from map(work, targets)
        return
    yield from _pool().map(work, targets)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """The threads of searches; starting some for each would take longer than most searches."""
    return ThreadPoolExecutor(_THREADS, "tidegate-search")


def run_on_executors(spark: SparkSession, work: Work, targets: Sequence[Any]) -> DataFrame:
    """The results of the targets as a DataFrame, in no order."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from tidegate.index.travel import described, working

    tasks = max(1, -(-len(targets) // _SPLITS_PER_TASK))
    frame = described(spark, targets, tasks)
    return frame.mapInArrow(working(work), from_arrow_schema(work.schema))


# ---------------------------------------------------------------------------- what is asked for


@dataclass(frozen=True)
class Search:
    """One search over the splits of a table: not run before something is asked of it."""

    find: Find
    targets: tuple[Target, ...]
    driver_splits: int | None = None

    @property
    def here(self) -> bool:
        return in_driver(self.targets, self.driver_splits)

    def table(self, spark: SparkSession | None = None) -> pa.Table:
        """The rows as Arrow; without Spark where the driver can search alone."""
        if spark is not None and not self.here:
            return self._ordered(self._far(spark).toArrow())
        find, limit = replace(self.find, ordered=True), self.find.limit
        parts: list[pa.Table] = []
        rows = 0
        for part in run_here(find, self.targets) if limit is None or find.scores else map(find, self.targets):
            parts.append(part)
            rows += part.num_rows
            if limit is not None and not find.scores and rows >= limit:
                break
        return self._ordered(pa.concat_tables([find.schema.empty_table(), *parts]))

    def _ordered(self, table: pa.Table) -> pa.Table:
        keys = [(ORDER[0], "ascending"), (ORDER[1], "ascending")]
        if self.find.scores:
            keys = [(SCORE, "descending"), *keys]
        if table.num_rows and (self.find.scores or not self.here):
            # Indices, because Arrow does not sort every kind of column along with the keys.
            table = table.take(pc.sort_indices(table.select([k for k, _ in keys]), sort_keys=keys))
        if self.find.limit is not None:
            table = table.slice(0, self.find.limit)
        return table.drop_columns(list(ORDER))

    def _far(self, spark: SparkSession) -> DataFrame:
        from pyspark.sql import functions as F

        frame = run_on_executors(spark, replace(self.find, ordered=True), self.targets)
        if self.find.limit is None and not self.find.scores:
            return frame
        keys = [F.col(ORDER[0]), F.col(ORDER[1])]
        if self.find.scores:
            keys = [F.col(SCORE).desc(), *keys]
        frame = frame.orderBy(*keys)
        return frame if self.find.limit is None else frame.limit(self.find.limit)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows as a DataFrame."""
        if self.here:
            return as_frame(spark, self.table())
        return self._far(spark).drop(*ORDER)

    def count(self, spark: SparkSession | None = None) -> int:
        """How many rows there are, without reading any."""
        found = count(Count(self.find.scope, self.find.node), self.targets, spark, self.driver_splits)
        return found if self.find.limit is None else min(found, self.find.limit)


def count(
    work: Count, targets: Sequence[Target], spark: SparkSession | None = None, limit: int | None = None
) -> int:
    """How many rows match in all splits."""
    if spark is not None and not in_driver(targets, limit):
        tables = [run_on_executors(spark, work, targets).toArrow()]
    else:
        tables = list(run_here(work, targets))
    return sum(pc.sum(t.column("count")).as_py() or 0 for t in tables)


def aggregate(
    work: Aggregate, targets: Sequence[Target], spark: SparkSession | None = None, limit: int | None = None
) -> pa.Table:
    """The groups of all matching rows."""
    if spark is not None and not in_driver(targets, limit):
        return work.merged([run_on_executors(spark, work, targets).toArrow().cast(work.schema)])
    return work.merged(list(run_here(work, targets)))


def as_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """An Arrow table as a DataFrame with exactly its types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    # In one piece: PySpark loses the rows of tables whose first chunks are empty.
    return spark.createDataFrame(table.combine_chunks(), schema=from_arrow_schema(table.schema))


def everything(node: Any) -> bool:
    """Whether a query asks for all rows."""
    return isinstance(node, All)
