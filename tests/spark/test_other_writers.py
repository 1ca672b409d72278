"""Tables as other writers leave them: what the specification allows and this writer never does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from support.dml import FEED, feed, write
from support.tables import RawTable, Wire, add, column, features, protocol, remove, schema_string
from tidegate import DeltaTable
from tidegate.files.vector_files import write_vectors

pytestmark = pytest.mark.spark
Rows = Callable[..., list[tuple[Any, ...]]]
SPREAD = schema_string(column("id"), column("a", "string"), column("b", "string"))


def _data(table: str, name: str, ids: list[int], values: Mapping[str, str | None] | None = None) -> Wire:
    """A file of some ids, and its add."""
    path = Path(table) / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
    return add(name, path.stat().st_size, values=values)


def _bare(path: str) -> Wire:
    """A removal that says what it must and nothing else."""
    return remove(path, None)


def test_the_feed_tells_the_rows_of_files_whose_removal_tells_nothing_of_them(
    spark: SparkSession, table: str
) -> None:
    raw = RawTable.on_disk(table)
    raw.create(
        _data(table, "1.parquet", [1, 2], {"a": "x", "b": "z"}),
        _data(table, "2.parquet", [3], {"a": "y", "b": None}),
        schema=SPREAD,
        partitions=["a", "b"],
        configuration=FEED,
        protocol=protocol(1, 4),
    )
    raw.commit(_bare("1.parquet"))
    raw.commit(_bare("2.parquet"), _data(table, "3.parquet", [4], {"a": "y", "b": None}))
    assert feed(spark, table, 1) == [(1, "x", "z", "delete"), (2, "x", "z", "delete")]
    assert feed(spark, table, 2) == [(3, "y", None, "delete"), (4, "y", None, "insert")]


def test_the_feed_knows_a_file_by_every_spelling_of_its_path(spark: SparkSession, table: str) -> None:
    raw = RawTable.on_disk(table)
    first = _data(table, "1.parquet", [1, 2])
    path = f"{table}/1.parquet"
    first["add"]["path"] = f"file:{path}"
    (hidden,) = write_vectors(raw.store, [BitMap64([0])])
    raw.create(first, configuration=FEED, protocol=features("deletionVectors", writers=["changeDataFeed"]))
    again = add(f"file://{path}", first["add"]["size"], dv=msgspec.to_builtins(hidden))
    raw.commit(remove(f"file:{path}", first["add"]["size"]), again)
    assert feed(spark, table, 1) == [(1, None, "delete")]


def test_partitions_are_told_apart_whatever_their_values_are(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    values: list[tuple[str | None, str | None]] = [
        ("x\x01", "y"),
        ("x", "\x01y"),
        ("x", None),
        ("x", "\x00null"),
        (None, "x"),
        ("0,1", "1"),
        ("0", "1,1"),
    ]
    raw = RawTable.on_disk(table)
    files = [_data(table, f"{i}.parquet", [i], {"a": a, "b": b}) for i, (a, b) in enumerate(values)]
    raw.create(*files, schema=SPREAD, partitions=["a", "b"])
    assert rows(table) == [(i, a, b) for i, (a, b) in enumerate(values)]


def test_a_clone_finds_the_files_of_partitions_with_odd_names(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    frame = spark.sql("select id, 'a:b %' p, id v from range(3)").coalesce(1)
    write(frame, table, {}, ["p"])
    assert [f.name for f in Path(table).glob("p=*")] == ["p=a%3Ab %25"]
    DeltaTable.forPath(spark, table).setProperties({"delta.columnMapping.mode": "name"})
    spark.sql(f"ALTER TABLE delta.`{table}` DROP COLUMN v")
    clone = f"{table}-clone"
    DeltaTable.forPath(spark, table).clone(clone, isShallow=True)
    done = spark.sql(f"REORG TABLE delta.`{clone}` APPLY (PURGE)").head()
    assert done is not None
    assert done["metrics"]["numFilesRemoved"] == 1
    assert rows(clone) == [(i, "a:b %") for i in range(3)]


def test_times_of_twelve_bytes_are_converted_to_what_spark_reads_in_them(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    Path(table).mkdir()
    at = datetime(2024, 5, 6, 7, 8, 9)
    data = pa.table({"id": [1], "at": pa.array([at], pa.timestamp("us"))})
    pq.write_table(data, Path(table) / "a.parquet", use_deprecated_int96_timestamps=True)
    plain = spark.read.parquet(table).collect()
    DeltaTable.convertToDelta(spark, f"parquet.`{table}`")
    assert rows(table) == [tuple(r) for r in plain]
    assert len(rows(table, "at = timestamp'2024-05-06 07:08:09Z'")) == 1


@pytest.mark.parametrize(
    ("said", "version", "blind"),
    [({"readVersion": "3", "isBlindAppend": "true"}, 3, True), ({"readVersion": 2**70}, None, None)],
)
def test_a_history_is_shown_whatever_commits_say_of_themselves(
    spark: SparkSession, table: str, said: dict[str, Any], version: int | None, blind: bool | None
) -> None:
    raw = RawTable.on_disk(table).create()
    raw.commit({"commitInfo": {"timestamp": 0, "operation": "WRITE", **said}})
    found = DeltaTable.forPath(spark, table).history(1).head()
    assert found is not None
    assert (found["readVersion"], found["isBlindAppend"]) == (version, blind)
