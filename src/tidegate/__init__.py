"""Tidegate: ACID tables for stock PySpark, on a transaction log in Python.

``open`` reads a table's log without Spark. A table's protocol lets clients through as a tide gate
lets water through: who may not read or write a table is told so before anything is touched.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tidegate._version import __version__
from tidegate.errors import TidegateError
from tidegate.log.snapshot import Snapshot
from tidegate.opening import open
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed, Transaction

if TYPE_CHECKING:
    from tidegate.commands.views import view
    from tidegate.doors import configure_spark_with_delta_pip, disable, enable
    from tidegate.spark.scan.metrics import scan_metrics
    from tidegate.spark.session import session
    from tidegate.table.builder import DeltaTableBuilder, IdentityGenerator
    from tidegate.table.delta import DeltaTable
    from tidegate.table.index import IndexTable
    from tidegate.table.merge import DeltaMergeBuilder
    from tidegate.table.optimize import DeltaOptimizeBuilder

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "Committed",
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    "IndexTable",
    "Operation",
    "Snapshot",
    "TidegateError",
    "Transaction",
    "__version__",
    "configure_spark_with_delta_pip",
    "disable",
    "enable",
    "open",
    "scan_metrics",
    "session",
    "view",
]

# What needs PySpark is imported when it is first asked for: the log works without it.
_ON_SPARK = {
    "DeltaMergeBuilder": "tidegate.table.merge",
    "DeltaOptimizeBuilder": "tidegate.table.optimize",
    "DeltaTable": "tidegate.table.delta",
    "DeltaTableBuilder": "tidegate.table.builder",
    "IdentityGenerator": "tidegate.table.builder",
    "IndexTable": "tidegate.table.index",
    "configure_spark_with_delta_pip": "tidegate.doors",
    "disable": "tidegate.doors",
    "enable": "tidegate.doors",
    "scan_metrics": "tidegate.spark.scan.metrics",
    "session": "tidegate.spark.session",
    "view": "tidegate.commands.views",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_SPARK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_ON_SPARK[name]), name)
    except ModuleNotFoundError as e:
        if (e.name or "").split(".")[0] in ("pyspark", "numpy", "py4j"):
            raise TidegateError(
                f"tidegate.{name} needs PySpark, which is not installed.",
                hint="Install it with `pip install tidegate[spark]`.",
            ) from e
        raise
