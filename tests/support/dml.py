"""What the tests of DELETE, UPDATE and MERGE share: tables to change, and looks at what came of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from support.session import CONNECT
from tidegate.commands.write import write as write_table
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.spark.scan.positions import positioned

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
WAYS = [pytest.param({}, id="copy"), pytest.param(VECTORS, id="vectors")]


def write(
    frame: DataFrame, path: str, properties: dict[str, str], partition_by: list[str] | None = None
) -> None:
    """A new table of the rows of ``frame``."""
    write_table(frame, path, properties=properties, partition_by=partition_by)


def last(path: str) -> dict[str, Any]:
    """What the last commit says of itself."""
    info: dict[str, Any] = tidegate.open(path).commit_info
    return info


def sound(path: str) -> None:
    """Log and data files agree in everything."""
    found = verify(TableLog.at(path), deep=True).findings
    assert [f for f in found if f.severity == "error"] == []


def feed(
    spark: SparkSession, path: str, version: int, key: Callable[[Any], Any] | None = None
) -> list[tuple[Any, ...]]:
    """The changes of one version, sorted."""
    frame = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", version)
        .option("endingVersion", version)
        .load(path)
        .drop("_commit_timestamp", "_commit_version")
    )
    return sorted((tuple(r) for r in frame.collect()), key=key)


def tracked(spark: SparkSession, path: str) -> dict[int, tuple[int, int]]:
    """The row id and the version of each row, by the column ``id``."""
    frame = positioned(spark, tidegate.open(path))
    found = frame.select("id", "__tidegate_row_id", "__tidegate_row_commit_version").collect()
    return {r[0]: (r[1], r[2]) for r in found}


class Meanwhile:
    """Runs something just before the next commit of the process, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
        original = tidegate.Transaction.commit
        done: list[bool] = []

        def commit(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not done:
                done.append(True)
                work()
            return original(self, *args, **kwargs)

        monkeypatch.setattr(tidegate.Transaction, "commit", commit)


@contextmanager
def confs(spark: SparkSession, **values: object) -> Iterator[None]:
    """Confs below ``spark.databricks.delta.`` for a while; dots in their names are two underscores here."""
    with session_confs(spark, "spark.databricks.delta.", **values):
        yield


@contextmanager
def session_confs(spark: SparkSession, prefix: str = "spark.sql.", **values: object) -> Iterator[None]:
    """``confs`` for those below any prefix."""
    keys = {f"{prefix}{k.replace('__', '.')}": str(v) for k, v in values.items()}
    for key, value in keys.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in keys:
            spark.conf.unset(key)


@contextmanager
def no_job(spark: SparkSession) -> Iterator[None]:
    """What is inside may start no job of Spark; over Connect nobody can tell."""
    if CONNECT:
        yield
        return
    context, group = spark.sparkContext, f"no job {uuid.uuid4()}"
    context.setJobGroup(group, "")
    try:
        yield
        assert context.statusTracker().getJobIdsForGroup(group) == []
    finally:
        context.setJobGroup("", "")
