"""The same table service by delta-spark and by us, over copies of one table: equal rows, equal words."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidegate
from support.delta_spark import DeltaSpark, delta_spark
from support.session import shared_session
from tidegate import DeltaTable
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

pytestmark = [pytest.mark.peers, pytest.mark.spark]

# What is done, as delta-spark is told, and as we are.
SERVICES: dict[str, tuple[str, Callable[[DeltaTable], Any]]] = {
    "compaction": (
        "t.optimize().executeCompaction()",
        lambda t: t.optimize().executeCompaction(),
    ),
    "compaction of a partition": (
        "t.optimize().where('p = 1').executeCompaction()",
        lambda t: t.optimize().where("p = 1").executeCompaction(),
    ),
    "z-order": (
        "t.optimize().executeZOrderBy('id', 's')",
        lambda t: t.optimize().executeZOrderBy("id", "s"),
    ),
    "restore": ("t.restoreToVersion(1)", lambda t: t.restoreToVersion(1)),
}


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture(scope="module")
def peer() -> DeltaSpark:
    return delta_spark()


@pytest.fixture(scope="module")
def base(peer: DeltaSpark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five versions of delta-spark's: appends, a delete by deletion vectors, an update."""
    path = tmp_path_factory.mktemp("base") / "t"
    name = f"delta.`{path}`"
    peer.sql(
        f"create table {name} (id long, s string, p int) using delta partitioned by (p) "
        "tblproperties ('delta.enableDeletionVectors' = 'true')",
        *(
            f"insert into {name} select /*+ coalesce(1) */ id, concat('s', id), cast(id % 2 as int) "
            f"from range({start}, {start + 20})"
            for start in (0, 20, 40)
        ),
        f"delete from {name} where id % 7 = 0",
        f"update {name} set s = 'new' where id = 5",
    )
    return path


def _on(peer: DeltaSpark, path: Path, code: str) -> pa.Table:
    return peer.frame(
        f"from delta.tables import DeltaTable\nt = DeltaTable.forPath(spark, {str(path)!r})\n{code}"
    )


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(r.values()) for r in table.to_pylist()), key=str)


def _both(spark: SparkSession, peer: DeltaSpark, path: Path) -> list[tuple[Any, ...]]:
    """The rows, on which both engines must agree."""
    seen = _rows(spark.read.format("delta").load(str(path)).toArrow())
    assert seen == _rows(peer.read(str(path)))
    assert [f for f in verify(TableLog.at(path), deep=True).findings if f.severity == "error"] == []
    return seen


def _copies(base: Path, tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "theirs", tmp_path / "ours"
    shutil.copytree(base, one)
    shutil.copytree(base, other)
    return one, other


def _differing(theirs: dict[str, Any], ours: dict[str, Any], at: str = "") -> list[str]:
    """Where two answers differ: in their names, and in numbers that do not depend on bytes or clocks."""
    free = ("size", "Size", "avg", "min", "max", "Ms", "Parallelism", "Tasks", "Time")
    out = [f"{at}{k} is ours alone" for k in ours if k not in theirs]
    for key, value in theirs.items():
        if key not in ours:
            out.append(f"{at}{key} is theirs alone")
        elif isinstance(value, dict) and isinstance(ours[key], dict):
            out += _differing(value, ours[key], f"{at}{key}.")
        elif value != ours[key] and not any(word in key for word in free):
            out.append(f"{at}{key}: {value} and {ours[key]}")
    return out


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_answers_and_leaves_the_same(
    spark: SparkSession, peer: DeltaSpark, base: Path, tmp_path: Path, name: str
) -> None:
    code, work = SERVICES[name]
    one, other = _copies(base, tmp_path)
    theirs = peer.run(
        f"from delta.tables import DeltaTable\nt = DeltaTable.forPath(spark, {str(one)!r})\n"
        f"[r.asDict(recursive=True) for r in {code}.collect()]"
    )
    answer = work(DeltaTable.forPath(spark, str(other))).collect()
    ours = [r.asDict(recursive=True) for r in answer]
    assert len(theirs) == len(ours) == 1
    metrics = [a[0].get("metrics", a[0]) for a in (theirs, ours)]
    allowed = ("autoCompactParallelismStats", "skippedArchivedFiles", "numBins", "numBatches")
    found = [d for d in _differing(*metrics) if not d.startswith(allowed)]
    assert found == []
    assert _both(spark, peer, one) == _both(spark, peer, other)
    entries = [_on(peer, p, "t.history(1)").to_pylist()[0] for p in (one, other)]
    assert entries[0]["operation"] == entries[1]["operation"]
    assert dict(entries[0]["operationParameters"]).keys() == dict(entries[1]["operationParameters"]).keys()
    told = [set(dict(e["operationMetrics"])) for e in entries]
    assert told[0] <= told[1]


def test_vacuum_deletes_the_same_files(
    spark: SparkSession, peer: DeltaSpark, base: Path, tmp_path: Path
) -> None:
    one, other = _copies(base, tmp_path)
    key = "spark.databricks.delta.retentionDurationCheck.enabled"
    peer.run(f"spark.conf.set({key!r}, 'false')\nNone")
    spark.conf.set(key, "false")
    try:
        peer.sql(f"VACUUM delta.`{one}` RETAIN 0 HOURS")
        DeltaTable.forPath(spark, str(other)).vacuum(0)
    finally:
        spark.conf.unset(key)
        peer.run(f"spark.conf.unset({key!r})\nNone")

    def left(path: Path) -> set[str]:
        return {str(f.relative_to(path)) for f in path.rglob("*") if f.suffix in (".parquet", ".bin")} - {
            str(f.relative_to(path)) for f in (path / "_delta_log").rglob("*")
        }

    assert left(one) == left(other)
    assert _both(spark, peer, one) == _both(spark, peer, other)
    entries = [_on(peer, p, "t.history(2)").to_pylist() for p in (one, other)]
    operations = [[r["operation"] for r in found] for found in entries]
    assert operations[0] == operations[1] == ["VACUUM END", "VACUUM START"]
    told = [[dict(r["operationMetrics"]) for r in found] for found in entries]
    assert told[0] == told[1]


def test_each_reads_and_goes_on_with_the_others_clone(
    spark: SparkSession, peer: DeltaSpark, base: Path, tmp_path: Path
) -> None:
    one, other = tmp_path / "theirs", tmp_path / "ours"
    peer.sql(f"create table delta.`{one}` shallow clone delta.`{base}`")
    DeltaTable.forPath(spark, str(base)).clone(str(other), isShallow=True)
    assert _both(spark, peer, one) == _both(spark, peer, other)
    peer.sql(f"delete from delta.`{other}` where id = 1")
    DeltaTable.forPath(spark, str(one)).delete("id = 1")
    assert _both(spark, peer, one) == _both(spark, peer, other)
    assert tidegate.open(one).protocol == tidegate.open(other).protocol


def test_both_convert_a_folder_to_the_same_table(
    spark: SparkSession, peer: DeltaSpark, tmp_path: Path
) -> None:
    one, other = tmp_path / "theirs", tmp_path / "ours"
    frame = spark.sql(
        "select id, cast(id as string) s, date_add(date'2026-01-01', cast(id % 2 as int)) d from range(9)"
    )
    frame.write.partitionBy("d").parquet(str(one))
    shutil.copytree(one, other)
    peer.run(
        "from delta.tables import DeltaTable\n"
        f"DeltaTable.convertToDelta(spark, 'parquet.`{one}`', 'd date')\nNone"
    )
    DeltaTable.convertToDelta(spark, f"parquet.`{other}`", "d date")
    assert _both(spark, peer, one) == _both(spark, peer, other)
    assert tidegate.open(one).schema == tidegate.open(other).schema
    assert tidegate.open(one).partition_columns == tidegate.open(other).partition_columns


def test_history_and_detail_have_the_same_columns_and_types(
    spark: SparkSession, peer: DeltaSpark, base: Path
) -> None:
    table = DeltaTable.forPath(spark, str(base))
    for code, frame in (("t.detail()", table.detail()), ("t.history()", table.history())):
        theirs, own = _on(peer, base, code).schema, frame.toArrow().schema
        assert theirs.names == own.names
        assert [str(f.type) for f in theirs] == [str(f.type) for f in own]
    facts = ["numFiles", "sizeInBytes", "tableFeatures", "location"]
    ours = table.detail().select(*facts).toArrow().to_pylist()
    assert _on(peer, base, "t.detail()").select(facts).to_pylist() == ours


def test_a_clustered_table_of_ours_is_clustered_for_them(
    spark: SparkSession, peer: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    builder = DeltaTable.create(spark).location(str(path)).addColumn("id", "long").addColumn("s", "string")
    made = builder.clusterBy("id", "s").execute()
    for start in (0, 10):
        frame = spark.range(start, start + 10).selectExpr("id", "cast(id as string) s").coalesce(1)
        frame.write.format("delta").mode("append").save(str(path))
    made.optimize().executeCompaction()
    assert _on(peer, path, "t.detail()").to_pylist()[0]["clusteringColumns"] == ["id", "s"]
    peer.sql(f"insert into delta.`{path}` values (100, 'x')", f"optimize delta.`{path}`")
    assert len(_both(spark, peer, path)) == 21
    peer.sql(f"alter table delta.`{path}` cluster by (s)")
    assert made.detail().collect()[0]["clusteringColumns"] == ["s"]
    made.optimize().executeCompaction()
    assert len(_both(spark, peer, path)) == 21
