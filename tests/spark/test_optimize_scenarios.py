"""OPTIMIZE, Z-order, clustering, REORG and what follows a write: files, metrics and history, case by case."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import tidegate
from tidegate import DeltaTable
from tidegate.commands import optimize as optimizing
from tidegate.errors import MetadataChangedException

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]
DELTA = "spark.databricks.delta."
CUBES = "optimize.clustering.mergeStrategy.minCubeSize."
MOST = str((1 << 63) - 1)


@contextmanager
def _confs(spark: SparkSession, **values: str) -> Iterator[None]:
    """Confs below Delta's prefix, ``__`` for a dot; or, with ``spark`` in front, of Spark itself."""
    keys = {
        k.replace("__", ".") if k.startswith("spark") else DELTA + k.replace("__", "."): k for k in values
    }
    for key, given in keys.items():
        spark.conf.set(key, values[given])
    try:
        yield
    finally:
        for key in keys:
            spark.conf.unset(key)


def _metrics(spark: SparkSession, statement: str) -> dict[str, Any]:
    found: dict[str, Any] = spark.sql(statement).collect()[0]["metrics"].asDict(recursive=True)
    return found


def _last(spark: SparkSession, table: str) -> dict[str, Any]:
    found: dict[str, Any] = DeltaTable.forPath(spark, table).history(1).collect()[0].asDict(recursive=True)
    return found


def _partitions(table: str) -> Counter[tuple[str | None, ...]]:
    values = tidegate.open(table).files().column("partitionValues").to_pylist()
    return Counter(tuple(v for _, v in one) for one in values)


def test_bins_are_committed_in_batches_and_conditions_add_up(spark: SparkSession, table: str) -> None:
    values = "VALUES (1, 'a', 1), (2, 'a b', 1), (3, NULL, 2), (4, '', 2)"
    for _ in range(2):
        frame = spark.sql(f"SELECT * FROM {values} AS t(id, p, q)").coalesce(1)
        frame.write.format("delta").mode("append").partitionBy("p", "q").save(table)
    assert _partitions(table) == {("a", "1"): 2, ("a b", "1"): 2, (None, "2"): 2}
    optimize = DeltaTable.forPath(spark, table).optimize().where("q = 1").where("p LIKE '% %'")
    assert optimize.executeCompaction().collect()[0]["metrics"]["partitionsOptimized"] == 1
    assert _partitions(table) == {("a", "1"): 2, ("a b", "1"): 1, (None, "2"): 2}
    with _confs(spark, optimize__batchSize="1"):
        metrics = _metrics(spark, f"OPTIMIZE '{table}'")
    assert (metrics["numBatches"], metrics["numBins"], metrics["totalConsideredFiles"]) == (2, 2, 5)
    assert (metrics["numFilesRemoved"], metrics["totalFilesSkipped"]) == (4, 1)
    assert set(_partitions(table).values()) == {1}
    assert [r["operation"] for r in tidegate.open(table).history(4)] == ["OPTIMIZE"] * 3 + ["WRITE"]
    entry = _last(spark, table)
    assert entry["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": "[]",
        "clusterBy": "[]",
        "auto": "false",
    }
    assert set(entry["operationMetrics"]) == {
        *(
            "numAddedFiles",
            "numRemovedFiles",
            "numAddedBytes",
            "numRemovedBytes",
            "numDeletionVectorsRemoved",
        ),
        *("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize"),
    }
    assert (entry["isBlindAppend"], entry["isolationLevel"]) == (False, "SnapshotIsolation")
    rows = spark.read.format("delta").load(table).groupBy("p").count().collect()
    assert {tuple(r) for r in rows} == {("a", 2), ("a b", 2), (None, 4)}


def test_files_are_taken_for_their_size_or_their_deleted_rows(spark: SparkSession, table: str) -> None:
    with _confs(spark, properties__defaults__enableDeletionVectors="true"):
        text = "'some text that makes a file larger than one without it ......' AS text"
        spark.range(0, 90, 1, 3).selectExpr("id", text).write.format("delta").save(table)
    made = DeltaTable.forPath(spark, table)
    made.delete("id < 2 OR id = 30")
    first = tidegate.open(table).files("id = 5").column("path").to_pylist()
    spark.range(1).selectExpr("id", "'' AS text").coalesce(1).write.format("delta").mode("append").save(table)
    small = tidegate.open(table).files("text = ''")
    with _confs(spark, optimize__minFileSize=str(small.column("size")[0].as_py() + 1)):
        metrics = _metrics(spark, f"OPTIMIZE '{table}'")
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"], metrics["totalFilesSkipped"]) == (1, 2, 2)
    assert metrics["deletionVectorStats"] == {
        "numDeletionVectorsRemoved": 1,
        "numDeletionVectorRowsRemoved": 2,
    }
    left = tidegate.open(table).files().column("path").to_pylist()
    assert not {*first, *small.column("path").to_pylist()} & set(left)
    assert _last(spark, table)["operationMetrics"]["numDeletionVectorsRemoved"] == "1"


def test_z_order_takes_nested_and_dotted_columns_and_makes_as_many_files_as_fit(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    columns = (
        "id",
        "99 - id AS `flat.a`",
        "named_struct('sub', named_struct('c', id)) AS nested",
        "id % 2 AS p",
    )
    frame = spark.range(0, 100, 1, 4).selectExpr(*columns)
    writer = frame.write.format("delta").partitionBy("p").option("delta.columnMapping.mode", "name")
    writer.option("delta.dataSkippingNumIndexedCols", "3").save(table)
    before = rows(table)
    for column in ("`flat.a`", "NESTED.sub.c", "(`flat.a`, nested.sub.c)"):
        metrics = _metrics(spark, f"OPTIMIZE '{table}' WHERE p = 0 ZORDER BY {column}")
        assert metrics["numFilesAdded"] == 1
        stats = metrics["zOrderStats"]
        assert (stats["strategyName"], stats["inputNumCubes"], stats["numOutputCubes"]) == ("all", 0, 1)
        assert stats["mergedFiles"]["num"] == metrics["totalConsideredFiles"] == metrics["numFilesRemoved"]
    assert _last(spark, table)["operationParameters"]["zOrderBy"] == '["`flat.a`","nested.sub.c"]'
    size = tidegate.open(table).files("p = 0").column("size")[0].as_py()
    with _confs(spark, optimize__maxFileSize=str(size // 4)):
        metrics = _metrics(spark, f"OPTIMIZE '{table}' WHERE p = 0 ZORDER BY (id, `flat.a`)")
    assert metrics["numFilesAdded"] == 4
    counts = tidegate.open(table).files("p = 0").column("stats").to_pylist()
    assert sum(json.loads(s)["numRecords"] for s in counts) == 50
    assert rows(table) == before
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '2')")
    with pytest.raises(AnalysisException) as caught:
        spark.sql(f"OPTIMIZE '{table}' ZORDER BY (nested.sub.c)")
    assert caught.value.getCondition() == "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS"
    with _confs(spark, optimize__zorder__checkStatsCollection__enabled="false"):
        assert _metrics(spark, f"OPTIMIZE '{table}' ZORDER BY (nested.sub.c)")["numFilesAdded"] == 2


def test_reorg_combines_what_it_purges_in_the_partitions_that_are_asked_for(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    with _confs(spark, properties__defaults__enableDeletionVectors="true"):
        frame = spark.range(0, 40, 1, 2).selectExpr("id", "id % 2 AS p", "id AS gone", "id AS before")
        writer = frame.write.format("delta").partitionBy("p").option("delta.columnMapping.mode", "name")
        writer.save(table)
    DeltaTable.forPath(spark, table).delete("id IN (0, 1, 20, 21)")
    before = rows(table)
    metrics = _metrics(spark, f"REORG TABLE delta.`{table}` WHERE p IN (0) APPLY (PURGE)")
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (1, 2)
    entry = _last(spark, table)
    assert (entry["operation"], entry["operationParameters"]["applyPurge"]) == ("REORG", "true")
    assert entry["operationMetrics"]["numDeletionVectorsRemoved"] == "2"
    assert rows(table) == before
    spark.sql(f"ALTER TABLE delta.`{table}` DROP COLUMN gone")
    spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN before TO after")
    metrics = _metrics(spark, f"REORG TABLE delta.`{table}` APPLY (PURGE)")
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (2, 3)
    paths = tidegate.open(table).files().column("path").to_pylist()
    assert {len(pq.read_schema(f"{table}/{p}").names) for p in paths} == {2}
    assert rows(table) == [(a, p, d) for a, p, _, d in before]
    assert _metrics(spark, f"REORG TABLE delta.`{table}` APPLY (PURGE)")["numFilesAdded"] == 0


# ---------------------------------------------------------------------------- clustering


def _four_files(spark: SparkSession, table: str) -> None:
    with _confs(spark, spark__sql__files__maxRecordsPerFile="1"):
        spark.range(0, 4, 1, 1).selectExpr("id AS a", "id AS `b-c`").write.format("delta").mode(
            "append"
        ).save(table)


def _cubes(table: str) -> list[tuple[str, str]]:
    tags = [dict(t or ()) for t in tidegate.open(table).files().column("tags").to_pylist()]
    return sorted((t.get("ZCUBE_ID", ""), t.get("ZCUBE_ZORDER_BY", "")) for t in tags)


def test_clustering_grows_cubes_and_leaves_those_of_other_columns_to_a_full_one(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{table}` (a long, `b-c` long) USING delta CLUSTER BY (a, `b-c`) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    assert _metrics(spark, f"OPTIMIZE delta.`{table}`")["clusteringStats"]["numOutputZCubes"] == 0
    _four_files(spark, table)
    with _confs(spark, spark__sql__files__maxRecordsPerFile="2"):
        metrics = _metrics(spark, f"OPTIMIZE delta.`{table}`")
    assert (metrics["numFilesRemoved"], metrics["numFilesAdded"]) == (4, 2)
    assert metrics["clusteringStats"]["mergedFiles"]["numFiles"] == 4
    assert {by for _, by in _cubes(table)} == {'["a","`b-c`"]'}
    parameters = _last(spark, table)["operationParameters"]
    assert (parameters["clusterBy"], parameters["isFull"]) == ('["a","`b-c`"]', "false")
    # One cube alone is settled; a whole one is left alone; small ones become one.
    with _confs(spark, **{CUBES.replace(".", "__") + "threshold": MOST}):
        assert _metrics(spark, f"OPTIMIZE delta.`{table}`")["numFilesRemoved"] == 0
    _four_files(spark, table)
    with _confs(spark, **{CUBES.replace(".", "__") + "threshold": "1"}):
        stats = _metrics(spark, f"OPTIMIZE delta.`{table}`")["clusteringStats"]
    assert [stats[k]["numFiles"] for k in ("inputZCubeFiles", "inputOtherFiles", "mergedFiles")] == [2, 4, 4]
    assert len({cube for cube, _ in _cubes(table)}) == 2
    assert _metrics(spark, f"OPTIMIZE delta.`{table}`")["numFilesRemoved"] == 3
    assert len(_cubes(table)) == 1
    spark.sql(f"ALTER TABLE delta.`{table}` CLUSTER BY (`b-c`)")
    assert _metrics(spark, f"OPTIMIZE delta.`{table}`")["numFilesRemoved"] == 0
    _four_files(spark, table)
    metrics = _metrics(spark, f"OPTIMIZE delta.`{table}`")
    assert (metrics["numFilesRemoved"], metrics["clusteringStats"]["inputOtherFiles"]["numFiles"]) == (4, 5)
    assert {by for _, by in _cubes(table)} == {'["a","`b-c`"]', '["`b-c`"]'}
    assert _metrics(spark, f"OPTIMIZE delta.`{table}` FULL")["numFilesRemoved"] == 2
    assert _last(spark, table)["operationParameters"]["isFull"] == "true"
    assert _metrics(spark, f"OPTIMIZE delta.`{table}` FULL")["numFilesRemoved"] == 0
    assert rows(table) == sorted((i, i) for i in range(4) for _ in range(3))


def test_clustering_lasts_as_long_as_its_columns_where_the_schema_is_overwritten(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.sql(f"CREATE TABLE delta.`{table}` (a long, b long) USING delta CLUSTER BY (a)")

    def overwritten(columns: str, *partition_by: str) -> tuple[list[str], list[str]]:
        writer = spark.sql(f"SELECT {columns}").write.format("delta").mode("overwrite")
        writer.option("overwriteSchema", "true").partitionBy(*partition_by).save(table)
        found = spark.sql(f"DESCRIBE DETAIL delta.`{table}`").collect()[0]
        return found["clusteringColumns"], found["partitionColumns"]

    assert overwritten("1L AS a, 'x' AS c") == (["a"], [])
    assert overwritten("1L AS b, 'x' AS c") == ([], [])
    spark.sql(f"ALTER TABLE delta.`{table}` CLUSTER BY (b)")
    assert overwritten("1L AS a, 2L AS b", "a") == ([], ["a"])
    spark.sql(f"OPTIMIZE delta.`{table}`")
    assert rows(table) == [(1, 2)]


def test_cubes_are_cut_at_their_size_and_their_rows_lie_along_a_curve(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.sql(f"CREATE TABLE delta.`{table}` (a long, `b-c` long) USING delta CLUSTER BY (a, `b-c`)")
    _four_files(spark, table)
    half = str(tidegate.open(table).size_in_bytes // 2 + 20)
    sizes = {CUBES.replace(".", "__") + k: half for k in ("threshold", "targetCubeSize")}
    with _confs(spark, optimize__batchSize="1", **sizes):
        metrics = _metrics(spark, f"OPTIMIZE delta.`{table}`")
    assert (metrics["numBatches"], metrics["clusteringStats"]["numOutputZCubes"]) == (2, 2)
    assert len({cube for cube, _ in _cubes(table)}) == 2
    grid = spark.range(0, 1024, 1, 2).selectExpr("id % 32 AS a", "cast(id / 32 as long) AS `b-c`")
    grid.write.format("delta").mode("overwrite").save(table)
    before = rows(table)
    with _confs(spark, optimize__maxFileSize=str(tidegate.open(table).size_in_bytes // 8)):
        assert _metrics(spark, f"OPTIMIZE delta.`{table}`")["numFilesAdded"] == 8
    assert rows(table) == before
    snapshot = tidegate.open(table)
    seen = [snapshot.files(f"{c} = {i}").num_rows for c in ("a", "`b-c`") for i in range(32)]
    assert sum(seen) / len(seen) < 4.5
    spark.sql(f"ALTER TABLE delta.`{table}` CLUSTER BY NONE")
    metrics = _metrics(spark, f"OPTIMIZE delta.`{table}`")
    assert (metrics["numFilesAdded"], metrics["clusteringStats"], metrics["zOrderStats"]) == (1, None, None)
    for clause, condition in (
        ("FULL", "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"),
        ("WHERE a = 1", "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE"),
        ("ZORDER BY (a)", "DELTA_CLUSTERING_WITH_ZORDER_BY"),
    ):
        with pytest.raises(PySparkException) as caught:
            spark.sql(f"OPTIMIZE delta.`{table}` {clause}")
        assert caught.value.getCondition() == condition


def test_a_table_may_be_clustered_by_a_generated_column(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{table}` (id INT, at TIMESTAMP, "
        "day DATE GENERATED ALWAYS AS (CAST(at AS DATE))) USING delta CLUSTER BY (day, id)"
    )
    for hour in (0, 12):
        values = ", ".join(f"({d * 100 + hour}, timestamp'2024-01-0{d} {hour:02}:00:00')" for d in (1, 2, 3))
        spark.sql(f"INSERT INTO delta.`{table}` (id, at) VALUES {values}")
    assert _metrics(spark, f"OPTIMIZE delta.`{table}`")["numFilesAdded"] == 1
    assert {by for _, by in _cubes(table)} == {'["day","id"]'}
    found = spark.read.format("delta").load(table).where("day = date'2024-01-02'").collect()
    assert sorted(r["id"] for r in found) == [200, 212]


# ---------------------------------------------------------------------------- what follows a write


def test_auto_compaction_leaves_a_single_file_and_an_optimize_alone(spark: SparkSession, table: str) -> None:
    with _confs(spark, autoCompact__enabled="TrUE", autoCompact__minNumFiles="0"):
        spark.range(0, 4, 1, 1).selectExpr("id", "nullif(id % 2, 1) AS p").write.format("delta").partitionBy(
            "p"
        ).save(table)
        assert (tidegate.open(table).version, tidegate.open(table).num_files) == (0, 2)
        spark.range(0, 4, 1, 2).selectExpr("id", "nullif(id % 2, 1) AS p").write.format("delta").mode(
            "append"
        ).save(table)
        assert _last(spark, table)["operationParameters"]["auto"] == "true"
        assert set(_partitions(table).values()) == {1}
    spark.range(0, 4, 1, 2).selectExpr("id", "id % 2 AS p").write.format("delta").mode("append").save(table)
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES (delta.autoOptimize.autoCompact = true)")
    with _confs(spark, autoCompact__minNumFiles="0"):
        version = tidegate.open(table).version
        _metrics(spark, f"OPTIMIZE '{table}'")
    assert tidegate.open(table).version == version + 1
    assert _last(spark, table)["operationParameters"]["auto"] == "false"


@pytest.mark.parametrize(("conf", "property", "files"), [("true", "false", 1), ("false", "true", 4)])
def test_the_session_decides_on_optimized_writes_before_the_table(
    spark: SparkSession, table: str, conf: str, property: str, files: int
) -> None:
    with _confs(spark, optimizeWrite__enabled=conf):
        frame = spark.range(0, 20, 1, 4)
        frame.write.format("delta").option("delta.autoOptimize.optimizeWrite", property).save(table)
        assert tidegate.open(table).num_files == files


def test_rows_that_got_their_ids_meanwhile_are_not_rewritten_without_them(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(2):
        spark.range(i * 3, i * 3 + 3, 1, 1).write.format("delta").mode("append").save(table)
    written = optimizing.write_files

    def late(*args: Any, **kwargs: Any) -> Any:
        done = written(*args, **kwargs)
        DeltaTable.forPath(spark, table).setProperties({"delta.enableRowTracking": "true"})
        return done

    monkeypatch.setattr(optimizing, "write_files", late)
    with pytest.raises(MetadataChangedException):
        DeltaTable.forPath(spark, table).optimize().executeCompaction()
    assert tidegate.open(table).num_files == 2
