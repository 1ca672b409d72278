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
from support.arrow_rows import ROW_ID, rows_of
from tidegate import DeltaTable
from tidegate.commands.write import write
from tidegate.errors import TidegateError
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

LAST = 4
TEMPLATE_ROWS = 40
_AGE = 10 * 86_400_000
_TIMES = frozenset({"deletionTimestamp", "timestamp", "modificationTime", "createdTime", "inCommitTimestamp"})
# What a table calls its own by chance.
_BY_CHANCE = (
    "materializedRowIdColumnName",
    "materializedRowCommitVersionColumnName",
    "inCommitTimestampEnab",
)


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


@dataclass(frozen=True)
class State:
    """A table as users see it; what differs by chance is left out."""

    rows: tuple[Any, ...]
    columns: Any
    configuration: Any
    features: frozenset[str]
    domains: Any
    applications: Any
    row_ids: Any
    feed: Any

    def difference(self, other: State) -> list[str]:
        return [
            f"{name}: {getattr(self, name)} != {getattr(other, name)}"
            for name in self.__dataclass_fields__
            if getattr(self, name) != getattr(other, name)
        ]


def state(spark: SparkSession, path: str) -> State:
    """What the table has come to."""
    snapshot = tidegate.open(path)
    configuration = {
        k: v for k, v in snapshot.metadata.configuration.items() if not any(c in k for c in _BY_CHANCE)
    }
    # Barriers move with the versions; that there are some is what counts.
    configuration.pop("delta.requireCheckpointProtectionBeforeVersion", None)
    found = rows_of(snapshot)
    ids = {r["id"]: r.pop(ROW_ID) for r in found if ROW_ID in r}
    return State(
        rows=tuple(sorted(_key(r) for r in found)),
        columns=(_fields(snapshot), snapshot.partition_columns),
        configuration=configuration,
        features=frozenset(snapshot.protocol.features(snapshot.log.registry.rules)),
        domains={
            n: _without_names(snapshot, d.configuration)
            for n, d in snapshot.domains.items()
            if n != "delta.rowTracking"
        },
        applications={a: t.version for a, t in snapshot.transactions.items()},
        row_ids={i: r for i, r in ids.items() if i < TEMPLATE_ROWS},
        feed=_feed(spark, snapshot),
    )


def _key(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def _fields(snapshot: Snapshot) -> list[tuple[str, str, bool]]:
    return [(f.name, str(f.type), f.nullable) for f in snapshot.schema.fields]


def _without_names(snapshot: Snapshot, text: str) -> str:
    """A domain's text with the names that users see in the place of physical ones."""
    for f in snapshot.schema.fields:
        text = text.replace(str(f.metadata.get("delta.columnMapping.physicalName", f.name)), f.name)
    return text


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
    return dict(Counter(_key(r.asDict()) for r in changes))


def problems(path: str) -> list[Any]:
    """What ``verify`` has to say against the table."""
    return [f for f in verify(TableLog.at(path), deep=True).findings if f.severity == "error"]


def version(path: str) -> int:
    return load(TableLog.at(path)).version
