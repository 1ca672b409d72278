"""Many statements by delta-spark and by us, over copies of one table: equal rows, feeds, schemas and metrics.

The default run has a few of them, in ``test_dml_delta_spark``; all of them on tables of four kinds take long.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from support.delta_spark import DeltaSpark, PeerError, delta_spark
from support.dml import sound
from support.session import shared_session
from support.statements import COLUMNS, STATEMENTS, rows
from tidegate import DeltaTable
from tidegate.errors import TidegateError

pytestmark = [pytest.mark.peers, pytest.mark.spark, pytest.mark.deep]

# Vectors, feed, row tracking, column mapping, partitions.
BASES = {
    "copy": ("false", "true", "true", "none", True),
    "vectors": ("true", "true", "true", "none", True),
    "mapped": ("false", "false", "false", "name", False),
    "mapped vectors": ("true", "true", "false", "id", False),
}
# What depends on the clock, on bytes and on how rows were spread over tasks.
_FREE = re.compile(r"TimeMs$|Bytes|^numAddedFiles$|^numTargetFilesAdded$|ChangeFile")
# We rewrite only files with rows that change; delta-spark, with clauses BY SOURCE, all that it looks at.
_FEWER = frozenset({"numTargetRowsCopied", "numOutputRows", "numTargetFilesRemoved"})

# UPDATE of delta-spark 4.4 counts no vector of a file that goes whole. We count what left the table.
_OTHERWISE = frozenset({"numDeletionVectorsRemoved"})


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture(scope="module")
def peer() -> DeltaSpark:
    return delta_spark()


@pytest.fixture(scope="module")
def bases() -> dict[str, Path]:
    """The tables that were made, each once."""
    return {}


def _base(
    name: str, peer: DeltaSpark, made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    if name not in made:
        vectors, feed, tracking, mapping, partitioned = BASES[name]
        path = tmp_path_factory.mktemp("dml") / "t"
        table = f"delta.`{path}`"
        peer.sql(
            f"create table {table} ({COLUMNS}) using delta {'partitioned by (p)' if partitioned else ''} "
            f"tblproperties ('delta.enableDeletionVectors' = '{vectors}', "
            f"'delta.enableChangeDataFeed' = '{feed}', 'delta.enableRowTracking' = '{tracking}', "
            f"'delta.columnMapping.mode' = '{mapping}')",
            *rows(table),
        )
        made[name] = path
    return made[name]


def _rows(table: pa.Table) -> Counter[str]:
    names = sorted(table.column_names)
    return Counter(str([(n, r[n]) for n in names]) for r in table.to_pylist())


def _feed(table: pa.Table) -> Counter[str]:
    return _rows(table.drop_columns(["_commit_timestamp"]))


def _theirs(peer: DeltaSpark, path: Path, name: str) -> PeerError | None:
    told = STATEMENTS[name]
    head = f's = {told.source}\nt = DeltaTable.forPath(spark, {str(path)!r}).alias("t")\n'
    try:
        peer.run(f"from delta.tables import DeltaTable\n{head}{told.code}\nNone")
    except PeerError as e:
        return e
    return None


def _ours(spark: SparkSession, path: Path, name: str) -> Exception | None:
    told = STATEMENTS[name]
    names: dict[str, Any] = {"spark": spark, "F": F, "t": DeltaTable.forPath(spark, str(path)).alias("t")}
    names["s"] = eval(told.source, names)
    try:
        exec(told.code, names)
    except (TidegateError, PySparkException) as e:
        return e
    return None


def _shape(path: Path) -> str:
    """The schema but for names that are drawn at random."""
    return re.sub(
        r'"delta.columnMapping.physicalName":"[^"]*"', "", tidegate.open(str(path)).schema.to_json()
    )


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("base", BASES)
def test_a_statement_comes_to_the_same(
    spark: SparkSession,
    peer: DeltaSpark,
    bases: dict[str, Path],
    base: str,
    statement: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for copy in (theirs, ours):
        shutil.copytree(_base(base, peer, bases, tmp_path_factory), copy)
    refused, own = _theirs(peer, theirs, statement), _ours(spark, ours, statement)
    assert (refused is None) == (own is None), (refused, own)
    assert _rows(peer.read(str(ours))) == _rows(peer.read(str(theirs)))
    assert _shape(ours) == _shape(theirs)
    version = tidegate.open(str(ours)).version
    assert version == tidegate.open(str(theirs)).version
    sound(str(ours))
    if version == 3:
        return
    if BASES[base][1] == "true":
        feed = {"readChangeFeed": "true", "startingVersion": version}
        read = spark.read.format("delta").options(**feed).load(str(ours)).toArrow()
        told = _feed(peer.read(str(theirs), **feed))
        assert _feed(read) == told
        assert _feed(peer.read(str(ours), **feed)) == told
    mine, other = (tidegate.open(str(p)).commit_info for p in (ours, theirs))
    assert mine["operation"] == other["operation"]
    assert mine["operationParameters"].keys() == other["operationParameters"].keys()
    metrics = {k: v for k, v in other["operationMetrics"].items() if not _FREE.search(k)}
    found = {k: mine["operationMetrics"].get(k) for k in metrics}
    if "BySource" in STATEMENTS[statement].code:
        for key in _FEWER & metrics.keys():
            assert int(found.pop(key) or 0) <= int(metrics.pop(key))
    if mine["operation"] == "UPDATE" and BASES[base][0] == "true":
        found, metrics = ({k: v for k, v in m.items() if k not in _OTHERWISE} for m in (found, metrics))
    assert found == metrics
