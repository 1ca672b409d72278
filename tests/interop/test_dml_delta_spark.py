"""The same statements by delta-spark and by us, over copies of one table: equal rows, feeds and metrics.

The statements are Python that both understand: ``t`` is the table, ``s`` a source, ``F`` the functions.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from support.delta_spark import DeltaSpark, delta_spark
from support.dml import sound
from support.session import shared_session
from tidegate import DeltaTable

pytestmark = [pytest.mark.peers, pytest.mark.spark]

SOURCE = (
    "spark.sql(\"select id, cast(id % 3 as int) p, concat('n', id) s, named_struct('a', id, 'b', -id) n, "
    'cast(null as string) w from range(5, 30, 3)").alias("s")'
)
STATEMENTS = {
    "delete": "t.delete(\"id % 4 = 1 and s <> 's9'\")",
    "delete of a partition": 't.delete("p = 1")',
    "delete by a column": 't.delete(F.col("id").between(3, 9) | F.col("s").isNull())',
    "update": 't.update("id > 15 or s is null", {"s": "concat(s, \'!\')", "n.b": "n.a * 2"})',
    "update of everything": 't.update(set={"s": F.lit("same"), "p": "p + 1"})',
    "upsert": 't.merge(s, "t.id = s.id").whenMatchedUpdate(set={"s": "s.s", "n": "s.n"})'
    '.whenNotMatchedInsert(values={"id": "s.id", "p": "s.p", "s": "s.s"}).execute()',
    "clauses": 't.merge(s, "t.id = s.id and t.p = s.p").whenMatchedDelete("s.id < 9")'
    '.whenMatchedUpdate("s.id > 12", {"s": "upper(s.s)"}).whenNotMatchedInsert("s.id > 18", {"id": "s.id"})'
    '.whenNotMatchedBySourceUpdate("t.id < 2", {"n.a": "t.id - 100"})'
    '.whenNotMatchedBySourceDelete("t.p = 0 and t.id > 15").execute()',
    "evolution": 't.merge(s, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()'
    ".withSchemaEvolution().execute()",
}
METRICS = [
    "numDeletedRows",
    "numUpdatedRows",
    "numCopiedRows",
    "numDeletionVectorsAdded",
    "numDeletionVectorsUpdated",
    "numSourceRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
    "numTargetRowsCopied",
    "numTargetRowsMatchedDeleted",
    "numTargetRowsNotMatchedBySourceUpdated",
    "numTargetFilesRemoved",
]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture(scope="module")
def peer() -> DeltaSpark:
    return delta_spark()


@pytest.fixture(scope="module", params=["false", "true"], ids=["copy", "vectors"])
def base(request: pytest.FixtureRequest, peer: DeltaSpark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of delta-spark's with a feed and row tracking, a delete behind it."""
    path = tmp_path_factory.mktemp("dml") / "t"
    name = f"delta.`{path}`"
    peer.sql(
        f"create table {name} (id long, p int, s string, n struct<a: long, b: long>) using delta partitioned "
        f"by (p) tblproperties ('delta.enableDeletionVectors' = '{request.param}', "
        "'delta.enableChangeDataFeed' = 'true', 'delta.enableRowTracking' = 'true')",
        f"insert into {name} select /*+ coalesce(1) */ id, cast(id % 3 as int), "
        "if(id = 7, null, concat('s', id)), named_struct('a', id, 'b', 0) from range(20)",
        f"delete from {name} where id = 11",
    )
    return path


def _rows(table: pa.Table) -> Counter[str]:
    names = sorted(table.column_names)
    return Counter(str([(n, r[n]) for n in names]) for r in table.to_pylist())


def _feed(table: pa.Table) -> Counter[str]:
    return _rows(table.drop_columns(["_commit_timestamp"]))


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_comes_to_the_same(
    spark: SparkSession, peer: DeltaSpark, base: Path, tmp_path: Path, statement: str
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    shutil.copytree(base, theirs)
    shutil.copytree(base, ours)
    code = STATEMENTS[statement]
    head = f's = {SOURCE}\nt = DeltaTable.forPath(spark, {str(theirs)!r}).alias("t")\n'
    peer.run(f"from delta.tables import DeltaTable\n{head}{code}\nNone")
    names: dict[str, Any] = {"spark": spark, "F": F, "t": DeltaTable.forPath(spark, str(ours)).alias("t")}
    names["s"] = eval(SOURCE, names)
    exec(code, names)

    assert _rows(peer.read(str(ours))) == _rows(peer.read(str(theirs)))
    version = tidegate.open(str(ours)).version
    feed = {"readChangeFeed": "true", "startingVersion": version}
    read = spark.read.format("delta").options(**feed).load(str(ours)).toArrow()
    assert _feed(read) == _feed(peer.read(str(theirs), **feed))
    assert _feed(peer.read(str(ours), **feed)) == _feed(peer.read(str(theirs), **feed))
    mine = tidegate.open(str(ours)).commit_info["operationMetrics"]
    other = tidegate.open(str(theirs)).commit_info["operationMetrics"]
    both = [m for m in METRICS if m in mine and m in other]
    assert {m: mine[m] for m in both} == {m: other[m] for m in both}
    sound(str(ours))


def test_rows_keep_the_ids_that_delta_spark_gave_them(
    spark: SparkSession, peer: DeltaSpark, base: Path, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    shutil.copytree(base, path)
    code = f'spark.read.format("delta").load({str(path)!r}).selectExpr("id", "_metadata.row_id as r")'
    before = dict(zip(*peer.frame(code).to_pydict().values(), strict=True))
    DeltaTable.forPath(spark, str(path)).update("id < 6", {"s": "'moved'"})
    DeltaTable.forPath(spark, str(path)).delete("id = 2")
    after = dict(zip(*peer.frame(code).to_pydict().values(), strict=True))
    assert after == {i: r for i, r in before.items() if i != 2}
