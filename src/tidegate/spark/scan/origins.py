"""Which tables a DataFrame reads, as far as its plan can be asked.

A command that takes rows from the very table it changes has read that table, and what others add to it
meanwhile is a conflict. A classic session's plan holds its scans. A client of Spark Connect has the plans
that it made itself: there a scan is noted on its plan, and a query on the answer to its text. What a
temporary view of the server reads is noted where it is named (``sql.remote_views``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from tidegate.spark import jvm

F = TypeVar("F", bound=DataFrame)
_NOTE = "_tidegate_newest"
_SCAN = "_tidegate_scan"
_TEXT = "_tidegate_text"
# Of what plans of a client are made, and where other plans can stand in them.
_PARTS = tuple(f"pyspark.sql.connect.{name}" for name in ("plan", "expressions", "column"))


@dataclass(frozen=True)
class Origin:
    """What a scan in a plan was made of: a table's version, and whether all of its files are in it.

    ``newest`` says that no version was asked for.
    """

    table: str
    version: int
    newest: bool
    whole: bool

    @property
    def text(self) -> str:
        return json.dumps([self.table, self.version, self.newest, self.whole])

    @classmethod
    def of(cls, leaf: Any) -> Origin | None:
        """The origin of a leaf of a classic session's plan, None if it is no scan of ours."""
        if str(leaf.getClass().getSimpleName()) != "LogicalRelation":
            return None
        relation = leaf.relation()
        if str(relation.getClass().getSimpleName()) != "HadoopFsRelation":
            return None
        location = relation.location()
        if str(location.getClass().getName()) != "tidegate.TableFileIndex":
            return None
        return cls(*json.loads(location.origin()))


def reads_newest(frame: DataFrame, url: str) -> bool:
    """Whether ``frame`` has rows of the table at ``url`` as it is now, in a subquery too."""
    return url in newest_tables(frame)


def newest_tables(frame: DataFrame) -> set[str]:
    """The tables of which ``frame`` has rows as they are now."""
    if jvm.is_connect(frame.sparkSession):
        plan: Any = vars(frame)["_plan"]
        return {url for part in parts_of(plan) for url in vars(part).get(_NOTE, ())}
    return {o.table for o in _origins(frame._jdf.queryExecution().analyzed()) if o.newest}


def noted(frame: F, tables: Iterable[str]) -> F:
    """The frame of a Connect client, known to read these tables as they are now."""
    plan: Any = vars(frame)["_plan"]
    vars(plan)[_NOTE] = frozenset(tables) | vars(plan).get(_NOTE, frozenset())
    return frame


def noted_expression(expression: Any, tables: Iterable[str]) -> Any:
    """A client's expression, known to read these tables as they are now in a subquery."""
    vars(expression)[_NOTE] = frozenset(tables) | vars(expression).get(_NOTE, frozenset())
    return expression


def answered(frame: F, text: str, tables: Iterable[str]) -> F:
    """The frame of a Connect client, known to be the answer to a query that reads these tables as they are.

    What a server answers need not hold the text any more.
    """
    vars(vars(frame)["_plan"])[_TEXT] = text
    return noted(frame, tables)


def text_of(plan: Any) -> str | None:
    """The query, in the server's words, to which this very plan of a client is the answer."""
    found: str | None = vars(plan).get(_TEXT)
    return found


@dataclass(frozen=True)
class Scan:
    """A scan of some version of a table, and the columns that it has, by the table's names."""

    table: str
    columns: tuple[str, ...]


def scanned(frame: F, scan: Scan) -> F:
    """The frame of a Connect client, known to be a scan and no more."""
    vars(vars(frame)["_plan"])[_SCAN] = scan
    return frame


def scan_of(plan: Any) -> Scan | None:
    """The scan that this very plan of a client is, None if it is none."""
    found: Scan | None = vars(plan).get(_SCAN)
    return found


def is_noted(plan: Any, table: str) -> bool:
    """Whether this very plan of a client is known to read a table as it is now."""
    return table in vars(plan).get(_NOTE, ())


def _origins(plan: Any) -> Iterator[Origin]:
    subqueries = plan.subqueriesAll()
    for part in (plan, *(subqueries.apply(i) for i in range(int(subqueries.size())))):
        leaves = part.collectLeaves()
        for i in range(int(leaves.size())):
            origin = Origin.of(leaves.apply(i))
            if origin is not None:
                yield origin


def parts_of(plan: Any) -> Iterator[Any]:
    """A client's plan and all that it is made of, whatever PySpark calls the places of its children."""
    seen: set[int] = set()
    waiting = [plan]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
        elif type(part).__module__ in _PARTS and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting += vars(part).values()
