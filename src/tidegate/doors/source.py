"""The data source named ``delta``, registered with a session: for names in plain SQL on a Connect server.

On classic sessions Spark's analyser asks us directly and nothing is registered. Registering sends a
reference to the class; it is looked up in the server's Python when a query first needs it.
"""

from __future__ import annotations

import logging
import weakref
from typing import Any

_log = logging.getLogger(__name__)
_known: weakref.WeakSet[Any] = weakref.WeakSet()


def register(spark: Any) -> bool:
    """Register the source with a session; False where its server does not take one."""
    from tidegate.spark.scan.source import DeltaSource

    if spark in _known:
        return True
    try:
        spark.dataSource.register(DeltaSource)
    except Exception:
        _log.info("the server takes no Python data source; tables are read by path", exc_info=True)
        return False
    _known.add(spark)
    return True
