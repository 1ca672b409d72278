"""Columns that were taken from a frame of a table (``frame["id"]``), in conditions and values on the table.

A frame that a ``DeltaTable`` has given away stands for the table: its columns are the table's, by name. Of
other frames Spark finds a column in whatever is made of the frame. Where that is the source of a MERGE into
the very table, nobody knows which side was meant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar, cast

from pyspark.sql import Column, DataFrame, SparkSession

from tidegate.spark import jvm
from tidegate.spark.expressions import quote
from tidegate.spark.remote_columns import renamed
from tidegate.spark.scan.origins import Origin, is_noted, parts_of

# Where Spark notes in a column from which frame it was taken.
_FRAME = "__dataset_id"
_ALIAS = "SubqueryAlias"
V = TypeVar("V")
# So many frames of a table are remembered.
_KEPT = 32


class Shown:
    """The frames that a table was shown by, the last ones of many."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: deque[DataFrame] = deque(maxlen=_KEPT)

    def keep(self, frame: DataFrame) -> DataFrame:
        self._frames.append(frame)
        return frame

    def named(self, value: V, alias: str | None) -> V:
        """A condition or a value with names of the table in the place of columns of these frames."""
        if not self._frames or not isinstance(value, Column):
            return value
        made: Any
        if jvm.is_connect(self._spark):
            plans = frozenset(vars(f)["_plan"]._plan_id for f in self._frames)
            made = renamed(value, plans, alias)
            return cast(V, made)
        frames = " ".join(str(f._jdf.id()) for f in self._frames)
        qualifier = "" if alias is None else f"{quote(alias)}."
        session: Any = self._spark._jsparkSession
        taken = jvm.compiled(self._spark, "TakenColumns.java")
        made = taken.named(session.expression(value._jc), frames, qualifier)
        if made is None:
            return value
        column = jvm.gateway_of(self._spark).org.apache.spark.sql.classic.ExpressionUtils.column(made)
        return cast(V, Column(column))


def taken_from_table(column: Column, frame: DataFrame, url: str) -> list[str]:
    """Names in ``column`` taken from a frame of the table at ``url`` which ``frame`` was made of."""
    if jvm.is_connect(frame.sparkSession):
        return _on_client(column, frame, url)
    tag = jvm.gateway_of(frame.sparkSession).org.apache.spark.sql.classic.Dataset.DATASET_ID_TAG()
    session: Any = frame.sparkSession._jsparkSession
    taken = {
        str(leaf.metadata().getLong(_FRAME)): str(leaf.name())
        for leaf in _listed(session.expression(column._jc).collectLeaves())
        if leaf.getClass().getSimpleName() == "AttributeReference" and leaf.metadata().contains(_FRAME)
    }
    out: list[str] = []
    top: Any = frame._jdf.queryExecution().analyzed() if taken else None
    while top is not None and top.getClass().getSimpleName() == _ALIAS:
        top = top.child()
    below = [] if top is None else list(_listed(top.children()))
    while below:
        plan = below.pop()
        below += _listed(plan.children())
        frames = plan.getTagValue(tag)
        ids = [] if frames.isEmpty() else str(frames.get().mkString(" ")).split()
        names = [taken[i] for i in ids if i in taken]
        if names and all(o is not None and o.table == url for o in _leaves(plan)):
            out += names
    return out


def _leaves(plan: Any) -> Iterator[Origin | None]:
    return map(Origin.of, _listed(plan.collectLeaves()))


def _listed(found: Any) -> Iterator[Any]:
    return (found.apply(i) for i in range(int(found.size())))


def _on_client(column: Any, frame: DataFrame, url: str) -> list[str]:
    taken = {
        part._plan_id: str(part._unparsed_identifier)
        for part in parts_of(column._expr)
        if type(part).__name__ == "ColumnReference" and part._plan_id is not None
    }
    top: Any = vars(frame)["_plan"]
    while taken and type(top).__name__ == _ALIAS:
        top = top._child
    below = [p for p in parts_of(top) if _is_plan(p) and p is not top] if taken else []
    return [taken[p._plan_id] for p in below if p._plan_id in taken and _shows_table(p, url)]


def _shows_table(plan: Any, url: str) -> bool:
    """Whether a client's plan has rows of the table alone."""
    while plan is not None:
        if is_noted(plan, url):
            return True
        inner = {id(v): v for v in vars(plan).values() if _is_plan(v)}
        plan = next(iter(inner.values())) if len(inner) == 1 else None
    return False


def _is_plan(value: Any) -> bool:
    return type(value).__module__ == "pyspark.sql.connect.plan"
