"""The corpus runner's adapter for reads through Spark: rows, versions and every refusal."""

from __future__ import annotations

import pyarrow as pa

from conformance.log_adapter import LogAdapter
from support.session import shared_session
from tidegate.commands.read import read


class SparkAdapter(LogAdapter):
    """Answers the corpus checks by scanning tables with Spark."""

    def changes(self, path: str, start: int, end: int) -> pa.Table:
        options = {"readChangeFeed": "true", "startingVersion": str(start), "endingVersion": str(end)}
        return read(shared_session(), path, options).drop("_commit_timestamp").toArrow()

    def read(self, path: str, version: int | None = None) -> pa.Table:
        options = {} if version is None else {"versionAsOf": str(version)}
        frame = read(shared_session(), path, options)
        if "variant" not in frame.schema.simpleString():
            return frame.toArrow()
        # PySpark's toArrow refuses variants that are null; the batches below it have them right.
        batches = frame._collect_as_arrow()
        return pa.Table.from_batches(batches) if batches else frame.toArrow()
