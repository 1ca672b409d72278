"""A batch table beside a stream: read anew with each batch, as long as its columns stay the same.

A DataFrame is pinned to the version it was read at. One that was made before a stream started, by a
read of the latest version, would show the stream that version for ever; so while a batch is planned,
its scan asks for the latest one instead. All scans of one batch see one version of a table. What is
read inside a batch is pinned as ever, and so is everything that a transaction reads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from pyspark.sql import SparkSession

from tidegate.errors import StreamSchemaChangedError
from tidegate.log.snapshot import Snapshot
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.spark.jvm import is_connect

Batch = tuple[str, str]

_QUERY, _NUMBER = "sql.streaming.queryId", "streaming.sql.batchId"
_KEPT = 64

_lock = threading.Lock()
_seen: OrderedDict[tuple[Batch, str], Snapshot] = OrderedDict()


def running_batch(spark: SparkSession) -> Batch | None:
    """The query and the number of the batch that this thread is at work for; None outside of streams."""
    if is_connect(spark):
        return None
    query = spark.sparkContext.getLocalProperty(_QUERY)
    return None if query is None else (query, spark.sparkContext.getLocalProperty(_NUMBER) or "")


def latest_for(batch: Batch, snapshot: Snapshot) -> Snapshot:
    """The table of ``snapshot`` as ``batch`` sees it: at its latest version when it was first asked for."""
    key = batch, snapshot.url
    with _lock:
        found = _seen.get(key)
        if found is None or found.version < snapshot.version:
            found = _seen[key] = snapshot.update()
            while len(_seen) > _KEPT:
                _seen.popitem(last=False)
    if found.version != snapshot.version:
        _check(found, snapshot.metadata)
    return found


def _check(found: Snapshot, planned: Metadata) -> None:
    """The columns of the plan must be there still, as they were; others may have come."""
    old, new = mapping_mode(planned), mapping_mode(found.metadata)
    for f in planned.schema.fields:
        now = found.schema.field(f.name)
        if now is None or now.type != f.type or physical_name(f, old) != physical_name(now, new):
            raise changed(found, f"its column {f.name} is gone or another one")
    if found.metadata.id != planned.id or found.partition_columns != planned.partition_columns:
        raise changed(found, "it is another table")


def changed(found: Snapshot, reason: str) -> StreamSchemaChangedError:
    """The table beside the stream is no longer what the query was made for."""
    return StreamSchemaChangedError(
        f"A table that the stream is joined with has changed: {reason}.",
        table=found.url,
        version=found.version,
        hint="Start the query again, from a script that reads the table anew.",
    )
