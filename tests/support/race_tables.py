"""Tables for commands to race on, and what two outcomes are compared by.

A template is made once and copied for each race. It is ten days old: files that it has removed are past
the retention, its log is not. Versions 0 to 3 bring ten rows each, in a file of their own; version 4
deletes the row 5.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import tidegate
from support.outcomes import State, as_text, state_of
from tidegate import DeltaTable
from tidegate.commands.write import write
from tidegate.errors import TidegateError
from tidegate.log.snapshot import Snapshot

LAST = 4
TEMPLATE_ROWS = 40
_AGE = 10 * 86_400_000
_TIMES = frozenset({"deletionTimestamp", "timestamp", "modificationTime", "createdTime", "inCommitTimestamp"})


@dataclass(frozen=True)
class Flavour:
    """How a table is made: its properties, and how its rows are laid out."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = False
    clustered: bool = False

    def __str__(self) -> str:
        return self.name


VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
TRACKED = {"delta.enableRowTracking": "true"}
TIMED = {"delta.enableInCommitTimestamps": "true"}

FLAVOURS = {
    f.name: f
    for f in (
        Flavour("plain"),
        Flavour("partitions", FEED, partitioned=True),
        Flavour("vectors", {**VECTORS, **TRACKED, **FEED}),
        Flavour("everything", {**VECTORS, **FEED, **MAPPED, **TRACKED, **TIMED}, partitioned=True),
        Flavour("clustered", {**VECTORS, **MAPPED}, clustered=True),
    )
}


def rows(spark: SparkSession, first: int, last: int, part: str, value: int = 0) -> DataFrame:
    """The ids from ``first`` to ``last``, one file of them."""
    frame = spark.range(first, last + 1, 1, 1)
    return frame.selectExpr("id", f"id + {value} AS v", f"'{part}' AS p")


def make(spark: SparkSession, flavour: Flavour, path: str) -> str:
    """The template of a flavour."""
    partition_by = ["p"] if flavour.partitioned else None
    write(rows(spark, 0, 9, "a"), path, properties=flavour.properties, partition_by=partition_by)
    for first, part in ((10, "a"), (20, "b"), (30, "b")):
        write(rows(spark, first, first + 9, part), path, mode="append")
    table = DeltaTable.forPath(spark, path)
    if flavour.clustered:
        table.clusterBy("id")
    table.delete("id = 5")
    aged(Path(path))
    return path


def aged(table: Path) -> None:
    """Make the table what it would be had it been written ten days ago."""
    for file in (table / "_delta_log").glob("*.crc"):
        file.unlink()
    for file in (table / "_delta_log").glob("*.json"):
        actions = [_older(json.loads(line)) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(a) + "\n" for a in actions))
    for file in sorted(p for p in table.rglob("*") if p.is_file()):
        moment = file.stat().st_mtime_ns - _AGE * 1_000_000
        os.utime(file, ns=(moment, moment))


def _older(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _older(v, k) for k, v in value.items()}
    if key in _TIMES and isinstance(value, int):
        return value - _AGE
    return value


def copied(template: str, path: Path) -> str:
    """A table of its own with the bytes, and the times, of the template."""
    shutil.copytree(template, path, copy_function=shutil.copy2)
    return str(path)


# ---------------------------------------------------------------------------- outcomes


def state(spark: SparkSession, path: str) -> State:
    """What the table has come to, with what its change feed tells."""
    snapshot = tidegate.open(path)
    return state_of(snapshot, known=TEMPLATE_ROWS, feed=_feed(spark, snapshot))


def _feed(spark: SparkSession, snapshot: Snapshot) -> Any:
    """All that the change feed tells since the template, without versions and times."""
    if snapshot.metadata.configuration.get("delta.enableChangeDataFeed") != "true":
        return None
    first = LAST + 1
    if snapshot.version < first:
        return None
    reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", first)
    try:
        changes = reader.load(snapshot.url).drop("_commit_version", "_commit_timestamp").collect()
    except TidegateError as error:
        return type(error).__name__
    return dict(Counter(as_text(r.asDict()) for r in changes))
