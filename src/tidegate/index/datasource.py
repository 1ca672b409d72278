"""``spark.read.format("indextables")``: PySpark's data source interface over a searchable table.

Filters become a query as far as the index can answer them, and splits that cannot match are not read;
Spark evaluates every filter once more on what comes, so that a result never depends on what was pushed.
Each task reads a few splits and hands on Arrow batches. Planning and reading run in Python workers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BooleanType, StructField, StructType

from tidegate.errors import OptionError, TidegateError
from tidegate.index.pushdown import pushed
from tidegate.index.query import All, Node, conjunction
from tidegate.index.settings import split_names
from tidegate.index.tables import Searchable
from tidegate.index.travel import carried
from tidegate.index.work import Find, Target, check_columns
from tidegate.spark.places import surrounded

NAME = "indextables"
COLUMNS = "tidegate.columns"
# Names and queries, as JSON: for each a column that says of every row whether it matches.
FLAGS = "tidegate.flags"
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
    """The format. Its options: path, query, versionAsOf, timestampAsOf, tidegate.columns and
    ``spark.indextables.*``. Subclasses made by ``carrying`` bring the driver's settings of object stores.
    """

    environment: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        with surrounded(self.environment):
            scope = _table(self.options).scope
        whole = StructType.fromJson(json.loads(scope.schema))
        asked = asked_columns(self.options)
        kept = whole.fields if asked is None else [whole[c] for c in check_columns(scope, asked)]
        return StructType([*kept, *(StructField(n, BooleanType()) for n in asked_flags(self.options))])

    def reader(self, schema: StructType) -> DataSourceReader:
        return IndexTablesReader(dict(self.options), schema.names, self.environment)


def carrying(environment: Mapping[str, str]) -> type[IndexTablesSource]:
    """The format as a class that takes ``environment`` along, in itself: it travels pickled."""
    return type("CarryingSource", (IndexTablesSource,), {"environment": dict(environment)})


def asked_columns(options: Any) -> list[str] | None:
    """The columns that the option ``tidegate.columns`` names; None for all of them."""
    text = {k.lower(): v for k, v in dict(options).items()}.get(COLUMNS)
    return None if text is None else split_names(text)


def asked_flags(options: Any) -> dict[str, str]:
    """The flags that the option ``tidegate.flags`` asks for, each with its query."""
    text = {k.lower(): v for k, v in dict(options).items()}.get(FLAGS)
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as e:
        raise _no_flags(text, f"that is no JSON ({e})") from None
    if not isinstance(found, dict) or not all(isinstance(query, str) for query in found.values()):
        raise _no_flags(text, "that is no object of names and queries")
    return found


def _no_flags(text: str, why: str) -> OptionError:
    return OptionError(
        f"The option {FLAGS} is {text!r}; {why}.",
        hint='Write it as {"name of a column": "query", ...}.',
    )


class IndexTablesReader(DataSourceReader):
    """One scan: planned once, read by tasks."""

    def __init__(
        self, options: dict[str, str], columns: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self._options, self._columns, self._environment = options, list(columns), environment
        self._node: Node | None = None
        # On the object, not on the class: `_Pushed` says why.
        self.__dict__["pushFilters"] = _Pushed(self)

    def take(self, filters: list[Any]) -> Iterable[Any]:
        """Filters that Spark pushes; it is to evaluate all of them itself too."""
        with self._surrounded():
            table = _table(self._options)
            self._node = pushed(filters, table.names.mapping, table.scope.partitions)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        with self._surrounded():
            table = _table(self._options)
            asked = [self._node] if self._node is not None else []
            if (query := self._options.get("query")) is not None:
                asked.append(table.node(query))
            node = conjunction(asked) if asked else All()
            flags = {name: table.node(query) for name, query in asked_flags(self._options).items()}
            search = table.search(node, [c for c in self._columns if c not in flags])
        targets = search.targets
        find = replace(search.find, flags=tuple(flags.items()))
        tasks = min(max(1, len(targets)), max(_TASKS, -(-len(targets) // _SPLITS_PER_TASK)))
        return [Splits(find, targets[i::tasks]) for i in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Splits)
        with self._surrounded():
            for target in partition.targets:
                yield from partition.find(target).to_batches(_BATCH)

    @contextmanager
    def _surrounded(self) -> Iterator[None]:
        """The driver's settings, and errors of ours that survive the way to it."""
        with surrounded(self._environment):
            try:
                yield
            except TidegateError as e:
                raise carried(e) from None


class _Pushed:
    """``pushFilters`` of a reader. A session may have pushing turned off, which is its own affair: then a
    reader whose class has the method is refused, so this one has the base class's to show.
    """

    __func__ = (
        staticmethod(DataSourceReader.pushFilters) if hasattr(DataSourceReader, "pushFilters") else None
    )

    def __init__(self, reader: IndexTablesReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        return self._reader.take(filters)


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
