"""Tidegate: ACID tables for stock PySpark, on a transaction log in Python.

``open`` reads a table's log without Spark. A table's protocol lets clients through as a tide gate
lets water through: who may not read or write a table is told so before anything is touched.
"""

from __future__ import annotations

import logging

from tidegate._version import __version__
from tidegate.errors import TidegateError
from tidegate.log.snapshot import Snapshot
from tidegate.opening import open
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed, Transaction

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = ["Committed", "Operation", "Snapshot", "TidegateError", "Transaction", "__version__", "open"]
