"""The companion index of a Delta table: exact at every version, whatever is indexed yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate import DeltaTable, IndexTable
from tidegate.errors import CommitRefusedError, OptionError, QueryError

pytestmark = pytest.mark.spark
TEXT = {"indexing.typemap.message": "text"}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path_factory.mktemp("splits")))
        yield


def rows(spark: SparkSession, start: int, count: int) -> DataFrame:
    return spark.range(start, start + count).select(
        "id",
        (F.col("id") % 2).cast("int").alias("day"),
        F.concat(F.lit("request "), F.col("id"), F.lit(" served")).alias("message"),
        (F.col("id") * 1.5).alias("latency"),
    )


def ids(index: IndexTable, query: str) -> list[int]:
    return sorted(index.search(query, ["id"]).toArrow().column("id").to_pylist())


def test_a_companion_follows_appends_deletes_and_compaction(spark: SparkSession, table: str) -> None:
    rows(spark, 0, 40).write.format("delta").partitionBy("day").option(
        "delta.enableDeletionVectors", "true"
    ).save(table)
    delta = DeltaTable.forPath(spark, table)
    index = IndexTable.buildFor(delta, columns=["id", "message"], options=TEXT)
    built = index.version
    assert (index.count(), ids(index, "7 OR 8")) == (40, [7, 8])
    found = index.search("message:7").toArrow().to_pylist()
    assert found == [{"id": 7, "day": 1, "message": "request 7 served", "latency": 10.5}]

    rows(spark, 100, 10).write.format("delta").mode("append").save(table)
    assert (index.count(), ids(index, "id:>=38")) == (50, [38, 39, *range(100, 110)])
    done = index.refresh()
    assert (done["splitsRemoved"], done["version"]) == (0, built + 1)
    assert done["filesIndexed"] == tidegate.open(table).num_files - tidegate.open(table, version=0).num_files
    assert index.refresh()["status"] == "no_action"
    assert ids(index, "id:>=38") == [38, 39, *range(100, 110)]

    delta.delete("id IN (7, 39, 105)")
    assert (index.count(), ids(index, "message:7 OR message:8"), ids(index, "id:>=104")) == (
        47,
        [8],
        [104, 106, 107, 108, 109],
    )
    assert index.aggregate("served", "day", ["count", "max(latency)"]).toArrow().to_pylist() == [
        {"day": 0, "count": 25, "max(latency)": 162.0},
        {"day": 1, "count": 22, "max(latency)": 163.5},
    ]
    assert index.asOf(version=0).count("message:7") == 1
    assert index.asOf(version=0).count("served") == 40

    rewritten = spark.read.format("delta").load(table).repartition(1)
    rewritten.write.format("delta").mode("overwrite").option("dataChange", "false").save(table)
    assert ids(index, "message:7 OR message:8") == [8]
    assert index.refresh()["splitsRemoved"] > 0
    assert (index.count(), ids(index, "message:7 OR message:8")) == (47, [8])
    assert index.asOf(version=0).count("message:7") == 1

    frame = spark.read.format("indextables").load(index.path)
    assert frame.where("message = 'request 8 served'").select("id", "latency").collect() == [(8, 12.0)]
    with pytest.raises(CommitRefusedError, match="refresh"):
        rows(spark, 0, 1).write.format("indextables").mode("append").save(index.path)
    with pytest.raises(QueryError, match="no field latency"):
        index.search("latency:>1")


def test_only_companions_are_refreshed(spark: SparkSession, table: str) -> None:
    index = IndexTable.create(spark, table, rows(spark, 0, 1), options=TEXT)
    with pytest.raises(OptionError, match="no companion"):
        index.refresh()


def test_renamed_columns_are_found_in_files_of_either_age(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{table}` (id LONG, body STRING) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.createDataFrame([(1, "one fish")], "id long, body string").write.format("delta").mode(
        "append"
    ).save(table)
    spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN body TO text")
    spark.createDataFrame([(2, "two fish")], "id long, text string").write.format("delta").mode(
        "append"
    ).save(table)
    index = IndexTable.buildFor(table, options={"indexing.typemap.text": "text"}, spark=spark)
    assert sorted(map(tuple, index.search("fish").collect())) == [(1, "one fish"), (2, "two fish")]
