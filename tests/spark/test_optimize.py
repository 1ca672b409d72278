"""OPTIMIZE: compaction, Z-order, clustering. The rows stay what they are; the files change."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import tidegate
from tidegate import DeltaTable
from tidegate.commands import optimize as optimizing
from tidegate.commands.bins import Settings
from tidegate.errors import (
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
    MaintenanceRefusedError,
    OptionError,
    PredicateError,
    SchemaInvalidError,
)
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


def _append(spark: SparkSession, path: str, *ranges: tuple[int, int], by: str | None = None) -> None:
    for start, end in ranges:
        frame = spark.range(start, end).select("id", (F.col("id") % 2).alias("p")).coalesce(1)
        writer = frame.write.format("delta").mode("append")
        (writer.partitionBy(by) if by else writer).save(path)


def _actions(path: str, version: int) -> tuple[list[bool], list[bool]]:
    from tidegate.log.snapshot import read_commits

    found = read_commits(TableLog.at(path), version, limit=1)[0][1]
    adds = [v for b in found.adds for v in b.column("dataChange").to_pylist()]
    return adds, [v for b in found.removes for v in b.column("dataChange").to_pylist()]


def test_small_files_become_one_and_no_row_changes(spark: SparkSession, table: str, rows: Rows) -> None:
    _append(spark, table, (0, 5), (5, 10), (10, 15))
    before = rows(table)
    result = DeltaTable.forPath(spark, table).optimize().executeCompaction().collect()
    assert len(result) == 1
    metrics = result[0]["metrics"]
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (1, 3)
    assert metrics["filesRemoved"]["totalFiles"] == 3
    assert metrics["totalConsideredFiles"] == 3
    assert tidegate.open(table).num_files == 1
    assert rows(table) == before
    assert _actions(table, 3) == ([False], [False] * 3)
    entry = DeltaTable.forPath(spark, table).history(1).collect()[0]
    assert entry["operation"] == "OPTIMIZE"
    assert entry["operationParameters"]["predicate"] == "[]"
    assert entry["operationMetrics"]["numRemovedFiles"] == "3"
    assert [f for f in verify(TableLog.at(table), deep=True).findings if f.severity == "error"] == []


def test_a_second_run_finds_nothing_to_do(spark: SparkSession, table: str) -> None:
    _append(spark, table, (0, 5), (5, 10))
    made = DeltaTable.forPath(spark, table)
    made.optimize().executeCompaction()
    version = tidegate.open(table).version
    again = made.optimize().executeCompaction().collect()[0]["metrics"]
    assert (again["numFilesAdded"], again["numFilesRemoved"], again["totalFilesSkipped"]) == (0, 0, 1)
    assert tidegate.open(table).version == version


def test_partitions_are_compacted_each_for_itself_and_chosen_by_a_condition(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    _append(spark, table, (0, 4), (4, 8), by="p")
    before = rows(table)
    made = DeltaTable.forPath(spark, table)
    metrics = made.optimize().where("p = 1").executeCompaction().collect()[0]["metrics"]
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (1, 2)
    assert tidegate.open(table).files("p = 0").num_rows == 2
    # What only Spark can decide is put to Spark.
    metrics = made.optimize().where("abs(p - 1) = 1").executeCompaction().collect()[0]["metrics"]
    assert (metrics["numFilesAdded"], metrics["partitionsOptimized"]) == (1, 1)
    assert tidegate.open(table).num_files == 2
    assert rows(table) == before


def test_a_condition_on_data_columns_is_refused(spark: SparkSession, table: str) -> None:
    _append(spark, table, (0, 4), by="p")
    made = DeltaTable.forPath(spark, table)
    with pytest.raises(PredicateError, match="Only the partition columns") as caught:
        made.optimize().where("id = 1").executeCompaction()
    assert isinstance(caught.value, AnalysisException)
    with pytest.raises(AnalysisException):
        made.optimize().where("nothing = 1").executeCompaction()
    for of_rows in ("p IN (SELECT 1)", "p >= (SELECT max(1))"):
        with pytest.raises(PredicateError, match="subquery") as caught:
            made.optimize().where(of_rows).executeCompaction()
        assert caught.value.errorClass == "DELTA_UNSUPPORTED_SUBQUERY_IN_PARTITION_PREDICATES"
    with pytest.raises(PredicateError, match="same answer each time"):
        made.optimize().where("p > rand()").executeCompaction()


def test_sizes_and_batches_follow_the_settings(spark: SparkSession, table: str) -> None:
    _append(spark, table, *((i, i + 1) for i in range(4)))
    size = max(tidegate.open(table).files().column("size").to_pylist())
    log = TableLog.at(table)
    done = optimizing.optimize(
        spark, log, settings=Settings(max_file_size=2 * size + 1, batch_size=2 * size + 1)
    )
    assert done.metrics["numBins"] == 2
    assert len(done.versions) == 2
    assert tidegate.open(table).num_files == 2
    nothing = optimizing.optimize(spark, log, settings=Settings(min_file_size=1))
    assert nothing.versions == []


def test_deletion_vectors_are_purged(spark: SparkSession, table: str, rows: Rows) -> None:
    _append(spark, table, (0, 10), (10, 20))
    made = DeltaTable.forPath(spark, table)
    made.setProperties({"delta.enableDeletionVectors": "true"})
    made.delete("id in (3, 13)")
    assert tidegate.open(table).files().column("deletionVector").null_count == 0
    before = rows(table)
    metrics = made.optimize().executeCompaction().collect()[0]["metrics"]
    assert metrics["deletionVectorStats"]["numDeletionVectorRowsRemoved"] == 2
    after = tidegate.open(table).files()
    assert (after.num_rows, after.column("deletionVector").null_count) == (1, 1)
    assert rows(table) == before


def test_reorg_purges_files_alone_and_leaves_the_others(spark: SparkSession, table: str, rows: Rows) -> None:
    from tidegate.commands.reorg import purge

    _append(spark, table, (0, 10), (10, 20))
    made = DeltaTable.forPath(spark, table)
    made.setProperties({"delta.enableDeletionVectors": "true"})
    made.delete("id = 3")
    before = rows(table)
    kept = set(tidegate.open(table).files("id > 12").column("path").to_pylist())
    done = purge(spark, TableLog.at(table))
    assert (done.metrics["numFilesAdded"], done.metrics["numFilesRemoved"]) == (1, 1)
    assert kept <= set(tidegate.open(table).files().column("path").to_pylist())
    assert rows(table) == before
    assert made.history(1).collect()[0]["operation"] == "REORG"


def test_rows_keep_their_ids(spark: SparkSession, table: str) -> None:
    from tidegate.spark.scan.positions import positioned

    builder = DeltaTable.create(spark).location(table).addColumn("id", "long").addColumn("p", "long")
    made = builder.property("delta.enableRowTracking", "true").execute()
    _append(spark, table, (0, 4), (4, 8))

    def ids() -> list[tuple[int, int, int]]:
        frame = positioned(spark, tidegate.open(table))
        names = ("id", "__tidegate_row_id", "__tidegate_row_commit_version")
        return sorted(tuple(r) for r in frame.select(*names).collect())

    before = ids()
    made.optimize().executeCompaction()
    assert tidegate.open(table).num_files == 1
    assert ids() == before


def test_column_mapping_partitions_and_nested_columns_survive(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    builder = DeltaTable.create(spark).location(table).addColumn("id", "long")
    builder.addColumn("s", "struct<x:long,y:array<string>>").addColumn("p", "date").partitionedBy("p")
    made = builder.property("delta.columnMapping.mode", "id").execute()
    for day in ("2026-01-01", "2026-01-02"):
        for i in range(2):
            spark.sql(
                f"select {i}L id, named_struct('x', {i}L, 'y', array('a', null)) s, date'{day}' p"
            ).write.format("delta").mode("append").save(table)
    before = rows(table)
    assert made.optimize().executeCompaction().collect()[0]["metrics"]["numFilesAdded"] == 2
    assert rows(table) == before


# ---------------------------------------------------------------------------- Z-order


def test_z_order_puts_near_rows_into_the_same_files(spark: SparkSession, table: str, rows: Rows) -> None:
    frame = spark.range(400).select((F.col("id") % 20).alias("a"), (F.col("id") / 20).cast("long").alias("b"))
    frame.repartition(4).write.format("delta").save(table)
    before = rows(table)
    log = TableLog.at(table)
    total = tidegate.open(table).size_in_bytes
    done = optimizing.optimize(spark, log, zorder_by=["a", "b"], settings=Settings(max_file_size=total // 8))
    assert rows(table) == before
    snapshot = tidegate.open(table)
    assert 4 < snapshot.num_files <= 12
    assert snapshot.files("a = 0").num_rows < snapshot.num_files
    assert snapshot.files("b = 0").num_rows < snapshot.num_files
    assert done.metrics["zOrderStats"]["strategyName"] == "all"
    entry = DeltaTable.forPath(spark, table).history(1).collect()[0]
    assert entry["operationParameters"]["zOrderBy"] == '["a","b"]'


def test_z_order_refuses_columns_that_cannot_help(spark: SparkSession, table: str) -> None:
    frame = spark.range(4).select("id", (F.col("id") % 2).alias("p"), F.array(F.lit(1)).alias("list"))
    frame.write.format("delta").partitionBy("p").save(table)
    optimize = DeltaTable.forPath(spark, table).optimize()
    for column, error in (("p", OptionError), ("list", OptionError), ("nothing", SchemaInvalidError)):
        with pytest.raises(error) as caught:
            optimize.executeZOrderBy(column)
        assert isinstance(caught.value, AnalysisException)
    with pytest.raises(TypeError):
        optimize.executeZOrderBy(1)  # type: ignore[arg-type]
    assert optimize.executeZOrderBy(["id"]).collect()[0]["metrics"]["partitionsOptimized"] == 2


# ---------------------------------------------------------------------------- clustering


def test_a_clustered_table_is_clustered_step_by_step(spark: SparkSession, table: str, rows: Rows) -> None:
    builder = DeltaTable.create(spark).location(table).addColumn("id", "long").addColumn("p", "long")
    made = builder.clusterBy("id", "p").execute()
    _append(spark, table, (0, 10), (10, 20))
    before = rows(table)
    metrics = made.optimize().executeCompaction().collect()[0]["metrics"]
    assert metrics["clusteringStats"]["inputOtherFiles"]["numFiles"] == 2
    files = tidegate.open(table).files()
    assert set(files.column("clusteringProvider").to_pylist()) == {"liquid"}
    assert {"ZCUBE_ID", "ZCUBE_ZORDER_BY"} <= set(dict(files.column("tags").to_pylist()[0]))
    assert rows(table) == before

    version = tidegate.open(table).version
    assert made.optimize().executeCompaction().collect()[0]["metrics"]["numFilesAdded"] == 0
    assert tidegate.open(table).version == version

    _append(spark, table, (20, 25))
    metrics = made.optimize().executeCompaction().collect()[0]["metrics"]
    assert metrics["clusteringStats"]["inputZCubeFiles"]["numFiles"] == 1
    assert tidegate.open(table).num_files == 1

    assert made.optimize().executeFull().collect()[0]["metrics"]["numFilesRemoved"] == 0
    made.clusterBy("p")
    assert made.optimize().executeCompaction().collect()[0]["metrics"]["numFilesRemoved"] == 0
    assert made.optimize().executeFull().collect()[0]["metrics"]["numFilesRemoved"] == 1
    assert rows(table, "id < 20") == before


def test_whole_cubes_are_left_alone_by_an_incremental_clustering(spark: SparkSession, table: str) -> None:
    builder = DeltaTable.create(spark).location(table).addColumn("id", "long").addColumn("p", "long")
    builder.clusterBy("id").execute()
    _append(spark, table, (0, 10))
    log, tiny = TableLog.at(table), Settings(min_cube_size=1)
    optimizing.optimize(spark, log, settings=tiny)
    cube = set(tidegate.open(table).files().column("path").to_pylist())
    _append(spark, table, (10, 20))
    optimizing.optimize(spark, log, settings=tiny)
    assert cube <= set(tidegate.open(table).files().column("path").to_pylist())


def test_clustering_excludes_z_order_and_partitions(spark: SparkSession, table: str) -> None:
    builder = DeltaTable.create(spark).location(table).addColumn("id", "long").addColumn("p", "long")
    made = builder.clusterBy("id").execute()
    with pytest.raises(MaintenanceRefusedError):
        made.optimize().executeZOrderBy("id")
    with pytest.raises(MaintenanceRefusedError):
        made.optimize().where("p = 1").executeCompaction()
    made.clusterBy()
    with pytest.raises(MaintenanceRefusedError):
        made.optimize().executeFull()


# ---------------------------------------------------------------------------- others at work


def _while_rewriting(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    original = optimizing.write_files

    def write(*args: object, **kwargs: object) -> object:
        out = original(*args, **kwargs)  # type: ignore[arg-type]
        meanwhile()
        return out

    monkeypatch.setattr(optimizing, "write_files", write)


def test_an_append_meanwhile_does_not_matter(
    spark: SparkSession, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    _append(spark, table, (0, 5), (5, 10))
    _while_rewriting(monkeypatch, lambda: _append(spark, table, (10, 12)))
    DeltaTable.forPath(spark, table).optimize().executeCompaction()
    assert [r[0] for r in rows(table)] == list(range(12))
    assert tidegate.open(table).num_files == 2


def test_a_change_of_properties_meanwhile_is_followed_by_a_second_commit(
    spark: SparkSession, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    _append(spark, table, (0, 5), (5, 10))
    made = DeltaTable.forPath(spark, table)
    _while_rewriting(monkeypatch, lambda: made.setProperties({"mine": "1"}))
    made.optimize().executeCompaction()
    assert tidegate.open(table).num_files == 1
    assert [r[0] for r in rows(table)] == list(range(10))
    assert tidegate.open(table).properties["mine"] == "1"


@pytest.mark.parametrize("how", ["overwritten", "deleted from"])
def test_inputs_that_are_gone_are_a_conflict(
    spark: SparkSession, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    _append(spark, table, (0, 5), (5, 10))
    made = DeltaTable.forPath(spark, table)
    made.setProperties({"delta.enableDeletionVectors": "true"})

    def change() -> None:
        if how == "deleted from":
            made.delete("id >= 3")
        else:
            spark.range(3).withColumn("p", F.lit(0)).write.format("delta").mode("overwrite").save(table)

    _while_rewriting(monkeypatch, change)
    with pytest.raises(DeltaConcurrentModificationException) as caught:
        DeltaTable.forPath(spark, table).optimize().executeCompaction()
    assert isinstance(caught.value, ConcurrentDeleteReadException)
    assert [r[0] for r in rows(table)] == [0, 1, 2]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_reorg_takes_dropped_columns_out_of_the_files(
    spark: SparkSession, table: str, rows: Rows, mode: str
) -> None:
    from tidegate.commands.reorg import purge

    def stored() -> set[str]:
        paths = tidegate.open(table).files().column("path").to_pylist()
        return {c.path for p in paths for c in pq.ParquetFile(f"{table}/{p}").schema}

    columns = T.StructType.fromDDL("id long, gone string, n struct<keep: int, gone: string>")
    builder = DeltaTable.create(spark).location(table).addColumns(columns)
    builder.property("delta.columnMapping.mode", mode).property("delta.enableRowTracking", "true")
    made = builder.execute()
    frame = spark.range(4).selectExpr("id", "'x' gone", "named_struct('keep', 1, 'gone', 'y') n").coalesce(1)
    frame.write.format("delta").mode("append").save(table)
    assert purge(spark, TableLog.at(table)).versions == []
    assert len(stored()) == 4
    made.dropColumns("gone", "n.gone")
    frame.select("id").limit(1).write.format("delta").mode("append").save(table)
    before, held = rows(table, "n is not null"), stored()
    done = purge(spark, TableLog.at(table))
    assert (done.metrics["numFilesAdded"], done.metrics["numFilesRemoved"]) == (1, 1)
    assert rows(table, "n is not null") == before
    assert spark.read.format("delta").load(table).count() == 5
    left = tidegate.open(table)
    ids = {v for k, v in left.properties.items() if k.startswith("delta.rowTracking.materialized")}
    assert len((stored() & held) - ids) == 2
    assert stored() - held <= ids
    assert purge(spark, TableLog.at(table)).versions == []
    assert _actions(table, done.versions[0]) == ([False], [False])
