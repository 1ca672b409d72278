"""What data files hold by their own account: the schemas in their footers, read side by side.

The log says which columns a table has, not which ones a file was written with. Whoever must know (columns
that were dropped, types from before a widening) asks the footers, and only then.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.files.locating import locate
from tidegate.log.table_log import TableLog

_THREADS = 8


def files_where(log: TableLog, files: pa.Table, test: Callable[[pa.Schema], bool]) -> pa.Table:
    """Of some files of a table those whose own schema passes ``test``."""

    def passes(path: str) -> bool:
        store, name = locate(log.store, path)
        with store.open_input(name) as source:
            return test(pq.read_schema(source))

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="tidegate-footers") as pool:
        mask = list(pool.map(passes, files.column("path").to_pylist()))
    return files.filter(pa.array(mask, pa.bool_()))
