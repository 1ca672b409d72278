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
    from tidegate.doors import disable, enable
    from tidegate.spark.session import session
    from tidegate.table.delta import DeltaTable
    from tidegate.table.index import IndexTable

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "Committed",
    "DeltaTable",
    "IndexTable",
    "Operation",
    "Snapshot",
    "TidegateError",
    "Transaction",
    "__version__",
    "disable",
    "enable",
    "open",
    "session",
]

# What needs PySpark is imported when it is first asked for: the log works without it.
_ON_SPARK = {
    "DeltaTable": "tidegate.table.delta",
    "IndexTable": "tidegate.table.index",
    "disable": "tidegate.doors",
    "enable": "tidegate.doors",
    "session": "tidegate.spark.session",
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
