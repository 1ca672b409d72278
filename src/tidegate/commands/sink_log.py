"""The log that Spark's file sink keeps of a folder it streams to: which files its batches have committed.

Files of batches that failed lie beside the others and are named in no log. Each batch writes one file of
lines, and every tenth or so gathers all before it under a name that ends in ``.compact``.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa

from tidegate.commands.table_names import below
from tidegate.log.table_log import TableLog

_FOLDER = "_spark_metadata"
_COMPACT = ".compact"


def committed(log: TableLog) -> set[str] | None:
    """The names of the files below a place that a sink has committed; None if no sink has written it."""
    batches: dict[int, str] = {}
    for file in log.store.list_from(_FOLDER):
        base = file.name.rpartition("/")[2].removesuffix(_COMPACT)
        if base.isdecimal():
            batches[int(base)] = file.name
    if not batches:
        return None
    whole = max((n for n, name in batches.items() if name.endswith(_COMPACT)), default=0)
    paths: dict[str, None] = {}
    for number in sorted(n for n in batches if n >= whole):
        for line in log.store.get(batches[number]).decode().splitlines()[1:]:
            entry = msgspec.json.decode(line)
            if entry.get("action", "add") == "add":
                paths[entry["path"]] = None
            else:
                paths.pop(entry["path"], None)
    return set(below(log.url, pa.array(list(paths), pa.string())).to_pylist())
