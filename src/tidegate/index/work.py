"""What is done with one split of a search: rows, a count, or a partial aggregate, as Arrow.

A piece of work is a plain value that travels to an executor as well as it runs in the driver, so both
ways give the same answer by construction. A target names the split, the values of its partition columns
and, for a companion, which of its data files are live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.errors import QueryError
from tidegate.index.cache import SplitFile, shared_cache
from tidegate.index.fields import decode_mapping
from tidegate.index.names import Names
from tidegate.index.query import All, Node
from tidegate.index.reader import OpenSplit, Rows
from tidegate.index.sources import LiveFile, SourceRows, SourceTable, open_unindexed
from tidegate.schema.arrow import to_arrow_type
from tidegate.schema.types import StructType, parse_schema
from tidegate.storage.opening import open_store

SCORE = "_score"
SNIPPET = "_snippet_"
# Where a row comes from; only there while results are put in order.
ORDER = ("_ordinal", "_row")


@dataclass(frozen=True, slots=True)
class Target:
    """One split to be searched; without ``split`` the data file in ``live`` is not indexed yet."""

    ordinal: int
    split: SplitFile | None
    constants: Mapping[str, Any] = field(default_factory=dict)
    live: tuple[LiveFile, ...] | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """The table that is searched, as far as its splits need to know."""

    table: str
    mapping: str
    schema: str
    partitions: tuple[str, ...] = ()
    storage: tuple[tuple[str, str], ...] = ()
    source: SourceTable | None = None

    @property
    def options(self) -> dict[str, str]:
        return dict(self.storage)

    @property
    def columns(self) -> StructType:
        return parse_schema(self.schema)

    @property
    def names(self) -> Names:
        fields = (self.columns.field(p) for p in self.partitions)
        return Names(decode_mapping(self.mapping), StructType(tuple(f for f in fields if f is not None)))


class Opened:
    """A target whose split is open: the rows that match and are live, and their values."""

    def __init__(self, scope: Scope, target: Target) -> None:
        self.scope, self.target = scope, target
        store = open_store(scope.table, scope.options)
        self.sources: SourceRows | None = None
        if target.split is not None:
            self.split: OpenSplit = shared_cache().open(target.split, store, scope.options)
        else:
            assert target.live is not None
            assert scope.source is not None
            self.split = open_unindexed(
                scope.source, target.live[0], decode_mapping(scope.mapping), scope.options
            )
        if target.live is not None:
            assert scope.source is not None
            self.sources = SourceRows(scope.source, self.split.footer.sources, target.live, scope.options)
        # A split knows the fields it was built with, which may be fewer than the table has now; the columns
        # of a companion's source may have got other names since, or be gone.
        mapping = self.split.mapping
        if scope.source is not None:
            mapping = mapping.renamed({f.name: f.column for f in decode_mapping(scope.mapping).fields})
        self.names = Names(mapping, scope.names.partitions)

    def count(self, node: Node) -> int:
        if self.sources is not None and not self.sources.whole:
            return len(self.rows(node, None))
        return self.split.count(self.names, node, self.target.constants)

    def rows(self, node: Node, limit: int | None) -> Rows:
        if self.sources is None:
            return self.split.rows(self.names, node, self.target.constants, limit)
        found = self.sources.live(self.split.rows(self.names, node, self.target.constants))
        return found if limit is None else found[:limit]

    def best(self, node: Node, limit: int | None) -> tuple[Rows, Any]:
        if self.sources is None:
            return self.split.best(self.names, node, self.target.constants, limit)
        rows, scores = self.split.best(self.names, node, self.target.constants, None)
        keep = np.isin(rows, self.sources.live(np.sort(rows)))
        return rows[keep][:limit], scores[keep][:limit]

    def fetch(self, rows: Rows, columns: Sequence[str]) -> pa.Table:
        """Columns of the table, partition columns among them, for these rows."""
        constants = {p.casefold() for p in self.scope.partitions}
        held = [c for c in columns if c.casefold() not in constants and self._holds(c)]
        found = self.sources.fetch(rows, held) if self.sources is not None else self.split.fetch(rows, held)
        arrays = []
        schema = self.scope.columns
        for name in columns:
            kind = to_arrow_type(_typed(schema, name))
            if name in held:
                column = found.column(name)
                arrays.append(column if column.type == kind else column.cast(kind))
            elif name.casefold() in constants:
                arrays.append(pa.repeat(pa.scalar(self.target.constants.get(name), kind), len(rows)))
            else:
                arrays.append(pa.nulls(len(rows), kind))
        return pa.Table.from_arrays(arrays, names=list(columns))

    def _holds(self, column: str) -> bool:
        return self.sources is not None or self.split.mapping.find(column) is not None


def _typed(schema: StructType, name: str) -> Any:
    found = schema.field(name)
    assert found is not None
    return found.type


# ---------------------------------------------------------------------------- the pieces of work


@dataclass(frozen=True, slots=True)
class Find:
    """The matching rows with the asked columns; scores and snippets where they are wanted."""

    scope: Scope
    node: Node
    columns: tuple[str, ...]
    limit: int | None = None
    scores: bool = False
    highlight: tuple[str, ...] = ()
    marks: tuple[str, str] = ("<b>", "</b>")
    ordered: bool = False
    # Columns that say of each row whether it matches one more query.
    flags: tuple[tuple[str, Node], ...] = ()

    @property
    def schema(self) -> pa.Schema:
        schema = self.scope.columns
        fields = [pa.field(c, to_arrow_type(_typed(schema, c))) for c in self.columns]
        if self.scores:
            fields.append(pa.field(SCORE, pa.float32()))
        fields += [pa.field(SNIPPET + c, pa.string()) for c in self.highlight]
        fields += [pa.field(name, pa.bool_()) for name, _ in self.flags]
        if self.ordered:
            fields += [pa.field(ORDER[0], pa.int32()), pa.field(ORDER[1], pa.int64())]
        return pa.schema(fields)

    def __call__(self, target: Target) -> pa.Table:
        opened = Opened(self.scope, target)
        if self.scores:
            rows, scores = opened.best(self.node, self.limit)
        else:
            rows, scores = opened.rows(self.node, self.limit), None
        read = list(dict.fromkeys([*self.columns, *self.highlight]))
        table = opened.fetch(rows, read)
        arrays = [table.column(c) for c in self.columns]
        if scores is not None:
            arrays.append(pa.array(scores, pa.float32()))
        for column in self.highlight:
            arrays.append(self._snippets(opened, column, table.column(column).to_pylist()))
        for _, node in self.flags:
            arrays.append(pa.array(np.isin(rows, opened.rows(node, None)), pa.bool_()))
        if self.ordered:
            arrays += [
                pa.repeat(pa.scalar(target.ordinal, pa.int32()), len(rows)),
                pa.array(rows, pa.int64()),
            ]
        if not arrays:
            return pa.table({}, schema=pa.schema([]))
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _snippets(self, opened: Opened, column: str, texts: list[str | None]) -> pa.Array:
        found = opened.split.snippets(opened.names, self.node, opened.target.constants, column, texts)
        return pa.array([None if s is None else s.marked(*self.marks) for s in found], pa.string())


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows match."""

    scope: Scope
    node: Node

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("count", pa.int64())])

    def __call__(self, target: Target) -> pa.Table:
        if isinstance(self.node, All) and target.split is None and target.live is not None:
            live = target.live[0]
            if live.rows is not None:
                return pa.table({"count": pa.array([live.rows - live.deleted], pa.int64())})
        return pa.table({"count": pa.array([Opened(self.scope, target).count(self.node)], pa.int64())})


def check_columns(scope: Scope, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Columns by the names the table has for them; all of them where none are named."""
    schema = scope.columns
    if columns is None:
        return tuple(schema.names)
    out = []
    for name in columns:
        found = schema.field(name)
        if found is None:
            raise QueryError(
                f"The table has no column {name}.", hint=f"Its columns are {', '.join(schema.names)}."
            )
        out.append(found.name)
    return tuple(out)
