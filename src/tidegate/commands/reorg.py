"""REORG: rewrite files for what they still hold, not for their size. PURGE takes deleted rows away.

Files with a deletion vector are rewritten without the rows it hides; every other file stays, and
nothing changes for readers. The caller of ``rewrite`` may pick files for other reasons.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tidegate.commands.optimize import Optimized, rewrite
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.transaction.pending import Operation


def purge(spark: SparkSession, log: TableLog, *, where: str | None = None) -> Optimized:
    """REORG TABLE ... APPLY (PURGE)."""
    parameters = {"predicate": [] if where is None else [where], "applyPurge": "true"}
    return rewrite(spark, log, with_deleted_rows, Operation("REORG", parameters), where=where)


def with_deleted_rows(snapshot: Snapshot, files: pa.Table) -> pa.Table:
    """The files that have a deletion vector."""
    return files.filter(pc.is_valid(files.column("deletionVector")))
