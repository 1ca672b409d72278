"""What a query came to: for each native scan in its plan, the files considered, left out and read.

The figures are read from Spark's own physical plan, so they tell what was planned for this very query,
its subqueries and dynamic pruning included; a query that has not run yet is planned by asking.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from tidegate.errors import OptionError
from tidegate.spark.jvm import is_connect

_KEPT = 10_000
_lock = threading.Lock()
_known: dict[str, tuple[str, int, int]] = {}


@dataclass(frozen=True)
class ScanMetrics:
    """One scan of a query. ``files_read`` is after dynamic pruning, once the query has run."""

    table: str
    version: int
    files_considered: int
    files_pruned: int
    files_read: int
    bytes_read: int


def remember(identity: str, table: str, version: int, files: int) -> None:
    """Note what a scan starts from, under the name that its plan knows it by."""
    with _lock:
        _known.pop(identity, None)
        _known[identity] = (table, version, files)
        while len(_known) > _KEPT:
            del _known[next(iter(_known))]


def scan_metrics(frame: DataFrame) -> list[ScanMetrics]:
    """The scans of Delta tables in the plan of ``frame``, in the order of the plan."""
    if is_connect(frame.sparkSession):
        raise OptionError(
            "On Spark Connect the plan is the server's, and its scans cannot be asked.",
            hint="Look at the SQL tab of the server's UI.",
        )
    out = []
    for node in _scans(frame._jdf.queryExecution().executedPlan()):
        location = node.relation().location()
        found = _known.get(location.identity()) if _is_ours(location) else None
        if found is None:
            continue
        table, version, considered = found
        listing = node.selectedPartitions()
        read, size = int(listing.totalNumberOfFiles()), int(listing.totalFileSize())
        told = node.metrics()
        if told.contains("numFiles") and told.apply("numFiles").value() > 0:
            read, size = int(told.apply("numFiles").value()), int(told.apply("filesSize").value())
        out.append(ScanMetrics(table, version, considered, considered - read, read, size))
    return out


def _is_ours(location: Any) -> bool:
    return str(location.getClass().getName()) == "tidegate.TableFileIndex"


def _scans(node: Any) -> Iterator[Any]:
    """The file scans of a physical plan, also behind adaptive stages, caches and subqueries."""
    kind = str(node.getClass().getSimpleName())
    if kind == "AdaptiveSparkPlanExec":
        yield from _scans(node.executedPlan())
        return
    if kind.endswith("QueryStageExec"):
        yield from _scans(node.plan())
        return
    if kind == "InMemoryTableScanExec":
        yield from _scans(node.relation().cachedPlan())
        return
    if kind == "FileSourceScanExec":
        yield node
    for inner in (node.children(), node.subqueries()):
        for i in range(int(inner.size())):
            yield from _scans(inner.apply(i))
