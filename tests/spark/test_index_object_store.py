"""Index tables in an object store: written, searched, merged and purged there, from the driver and by tasks.

The server is moto's, over HTTP. Its address and keys are in the environment of this process alone, put there
after Spark and its Python workers have started, so they reach tasks inside closures or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from support.s3 import SECRET_KEY, S3Server, s3_server
from tidegate import DeltaTable, IndexTable
from tidegate.index.cache import shared_cache
from tidegate.storage import open_store

pytestmark = [pytest.mark.spark, pytest.mark.s3]
TEXT = {"spark.indextables.indexing.typemap.message": "text"}
FAR = {"search.driverSplits": "0", "purge.retentionCheckEnabled": "false"}


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[S3Server]:
    # The workers start with the first job, before the environment has anything to inherit.
    spark.range(2).mapInArrow(lambda batches: batches, "id long").count()
    with s3_server() as running:
        yield running


@pytest.fixture
def table(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path))
    return f"s3://{server.bucket()}/some/table"


def rows(spark: SparkSession, start: int, count: int) -> DataFrame:
    return spark.range(start, start + count, 1, 2).select(
        "id", F.concat(F.lit("number "), F.col("id")).alias("message")
    )


def ids(index: IndexTable, query: str) -> list[int]:
    shared_cache().clear()
    return sorted(index.search(query, ["id"]).toArrow().column("id").to_pylist())


def splits(table: str) -> int:
    return sum(i.name.endswith(".split") for i in open_store(table).list_from("", recursive=True))


def test_from_the_first_write_to_a_purge_and_no_key_is_ever_shown(
    spark: SparkSession, table: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    rows(spark, 0, 10).write.format("indextables").options(**TEXT).save(table)
    rows(spark, 10, 10).write.format("indextables").mode("append").save(table)
    near, far = IndexTable.forPath(spark, table), IndexTable.forPath(spark, table, options=FAR)
    for index in (near, far):
        assert (index.count("number"), ids(index, '"number 7" OR id:>=18')) == (20, [7, 18, 19])
    found = spark.read.format("indextables").load(table).where("id = 12")
    assert [tuple(r) for r in found.collect()] == [(12, "number 12")]
    found.explain("formatted")
    far.search("number").explain("extended")
    before = splits(table)
    assert far.mergeSplits("10M")["splitsCreated"] == 1
    assert (splits(table), ids(far, "id:<3")) == (before + 1, [0, 1, 2])
    far.truncateHistory()
    far.purge(retentionHours=0)
    assert (splits(table), near.count("number")) == (1, 20)
    shown = caplog.text + capsys.readouterr().out
    assert SECRET_KEY not in shown


def test_a_companion_of_a_delta_table_there(spark: SparkSession, table: str) -> None:
    frame = rows(spark, 0, 10).withColumn("p", F.col("id") % 2)
    frame.write.format("delta").partitionBy("p").option("delta.enableDeletionVectors", "true").save(table)
    index = IndexTable.buildFor(
        DeltaTable.forPath(spark, table), columns=["id", "message"], options={**TEXT, **FAR}
    )
    frame.withColumn("id", F.col("id") + 100).write.format("delta").mode("append").save(table)
    DeltaTable.forPath(spark, table).delete("id = 7")
    far = IndexTable.forPath(spark, index.path, options=FAR)
    for _ in range(2):
        for found in (index, far):
            assert ids(found, "id:[6 TO 8] OR id:>108") == [6, 8, 109]
            assert found.count("number") == 19
        assert far.refresh()["status"] in ("success", "no_action")


def test_keys_may_come_as_options_too(
    spark: SparkSession, server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path))
    table = f"s3://{server.bucket()}/t"
    made = IndexTable.create(spark, table, rows(spark, 0, 4), options=TEXT, storageOptions=server.options)
    assert made.count("number") == 4
    far = IndexTable.forPath(spark, table, server.options, FAR)
    assert ids(far, "id:<2") == [0, 1]
