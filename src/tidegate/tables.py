"""The classes of ``delta.tables`` under one module: ``from tidegate.tables import *``.

Scripts written for delta-spark begin with ``from delta.tables import *``. The same of ``tidegate`` itself
would put ``tidegate.open`` in the place of Python's own ``open``.
"""

from __future__ import annotations

from tidegate.table.builder import DeltaTableBuilder, IdentityGenerator
from tidegate.table.delta import DeltaTable
from tidegate.table.merge import DeltaMergeBuilder
from tidegate.table.optimize import DeltaOptimizeBuilder

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
]
