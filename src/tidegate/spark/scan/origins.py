"""Which tables a DataFrame reads, as far as its plan can be asked.

A command that takes rows from the very table it changes has read that table, and what others add to it
meanwhile is a conflict. A client of Spark Connect does not see its plans, and knows of none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from tidegate.spark import jvm
from tidegate.spark.scan.native import Origin


def reads_newest(frame: DataFrame, url: str) -> bool:
    """Whether ``frame`` has rows of the table at ``url`` as it is now, in a subquery too."""
    if jvm.is_connect(frame.sparkSession):
        return False
    plan: Any = frame._jdf.queryExecution().analyzed()
    return any(o.newest and o.table == url for o in _origins(plan))


def _origins(plan: Any) -> Iterator[Origin]:
    subqueries = plan.subqueriesAll()
    for part in (plan, *(subqueries.apply(i) for i in range(int(subqueries.size())))):
        leaves = part.collectLeaves()
        for i in range(int(leaves.size())):
            origin = origin_of(leaves.apply(i))
            if origin is not None:
                yield origin


def origin_of(leaf: Any) -> Origin | None:
    """What one of our scans was made of."""
    is_relation = str(leaf.getClass().getSimpleName()) == "LogicalRelation"
    return Origin.of(leaf.relation()) if is_relation else None
