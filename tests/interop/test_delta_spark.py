"""What one engine writes the others read, and go on with: Tidegate, delta-spark and delta-rs, both ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidegate
from support.delta_spark import DeltaSpark, delta_spark
from support.kinds import KINDS, Kind
from support.peers import require_peer
from support.session import shared_session
from tidegate.log.verify import verify

Rows = list[tuple[Any, ...]]


pytestmark = pytest.mark.peers


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture(scope="module")
def peer() -> DeltaSpark:
    return delta_spark()


def in_order(table: pa.Table) -> Rows:
    """The rows by value; NaN, bytes and nested values in a form that compares."""
    return sorted((tuple(map(repr, r.values())) for r in table.to_pylist()), key=str)


def ours(spark: SparkSession) -> tuple[Callable[[str], None], Callable[..., Rows]]:
    def read(path: str, **options: object) -> Rows:
        reader = spark.read.format("delta")
        for key, value in options.items():
            reader = reader.option(key, str(value))
        return in_order(reader.load(path).toArrow())

    def execute(text: str) -> None:
        spark.sql(text).collect()

    return execute, read


def theirs(peer: DeltaSpark) -> tuple[Callable[[str], None], Callable[..., Rows]]:
    def read(path: str, **options: object) -> Rows:
        return in_order(peer.read(path, **options))

    return peer.sql, read


def run(execute: Callable[[str], None], statements: tuple[str, ...], path: str) -> None:
    for statement in statements:
        execute(statement.format(t=f"delta.`{path}`"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("first", ["tidegate", "delta-spark"])
def test_each_reads_what_the_other_wrote_and_goes_on(
    spark: SparkSession, peer: DeltaSpark, kind: Kind, first: str, table: str
) -> None:
    engines = [ours(spark), theirs(peer)]
    (write, read), (go_on, read_too) = engines if first == "tidegate" else engines[::-1]
    run(write, kind.make, table)
    expected = read(table)
    assert expected
    assert read_too(table) == expected
    run(go_on, kind.more, table)
    assert read(table) == read_too(table)
    if kind.changes:
        feed = {"readChangeFeed": "true", "startingVersion": 1}
        drop_time = [tuple(r[:-1]) for r in read(table, **feed)]
        assert sorted(drop_time, key=str) == sorted((tuple(r[:-1]) for r in read_too(table, **feed)), key=str)
    report = verify(tidegate.open(table).log)
    assert report.ok, report.findings
    _delta_rs(kind, table, read_too(table))


def _delta_rs(kind: Kind, path: str, expected: Rows) -> None:
    """delta-rs reads the same rows, or refuses for the feature it is known to lack."""
    deltalake = require_peer("delta-rs")
    if kind.rust_lacks is not None:
        with pytest.raises(Exception, match=kind.rust_lacks):
            deltalake.DeltaTable(path).to_pyarrow_table()
        return
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path)).execute("SELECT * FROM t")
    assert pa.table(found.read_all()).num_rows == len(expected)
