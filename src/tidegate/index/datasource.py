"""``spark.read.format("indextables")``: PySpark's data source interface over a searchable table.

Filters become a query as far as the index can answer them, and splits that cannot match are not read;
Spark evaluates every filter once more on what comes, so that a result never depends on what was pushed.
Each task reads a few splits and hands on Arrow batches. Planning and reading run in Python workers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidegate.errors import OptionError, TidegateError
from tidegate.index.pushdown import pushed
from tidegate.index.query import All, Node, conjunction
from tidegate.index.tables import Searchable
from tidegate.index.travel import carried
from tidegate.index.work import Find, Target

NAME = "indextables"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_SPLITS_PER_TASK = 8
_TASKS = 64
_BATCH = 10_000


class Splits(InputPartition):
    """The splits of one task, and what is to be found in them."""

    def __init__(self, find: Find, targets: Sequence[Target]) -> None:
        super().__init__(None)
        self.find, self.targets = find, tuple(targets)


class IndexTablesSource(DataSource):
    """The format. Its options: path, query, versionAsOf, timestampAsOf and ``spark.indextables.*``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(_table(self.options).scope.schema))

    def reader(self, schema: StructType) -> DataSourceReader:
        return IndexTablesReader(dict(self.options))


class IndexTablesReader(DataSourceReader):
    """One scan: planned once, read by tasks."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._node: Node | None = None

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        try:
            table = _table(self._options)
            self._node = pushed(filters, table.names.mapping, table.scope.partitions)
        except TidegateError as e:
            raise carried(e) from None
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        try:
            table = _table(self._options)
            asked = [self._node] if self._node is not None else []
            if (query := self._options.get("query")) is not None:
                asked.append(table.node(query))
            node = conjunction(asked) if asked else All()
            search = table.search(node)
        except TidegateError as e:
            raise carried(e) from None
        targets = search.targets
        tasks = min(max(1, len(targets)), max(_TASKS, -(-len(targets) // _SPLITS_PER_TASK)))
        return [Splits(search.find, targets[i::tasks]) for i in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Splits)
        try:
            for target in partition.targets:
                yield from partition.find(target).to_batches(_BATCH)
        except TidegateError as e:
            raise carried(e) from None


def _table(options: Any) -> Searchable:
    path = options.get("path")
    if not path:
        raise OptionError("There is no path to read.", hint='Write .load("/path/of/the/table").')
    folded = {k.lower(): v for k, v in dict(options).items()}
    version = folded.get("versionasof")
    if version is not None and not version.isdecimal():
        raise OptionError(f"versionAsOf is {version!r}; it is a whole number.")
    ours = {k: v for k, v in folded.items() if k.startswith("spark.indextables.")}
    return Searchable.open(
        path,
        version=None if version is None else int(version),
        timestamp=folded.get("timestampasof"),
        options=ours,
    )
