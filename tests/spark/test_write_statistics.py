"""Statistics of written files: from footers where they are exact, from the columns where they are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate.spark.write import footers, measured, statistics

pytestmark = pytest.mark.spark


def _stats(path: str) -> list[dict[str, Any]]:
    return [json.loads(s) for s in tidegate.open(path).files().column("stats").to_pylist()]


def _strange(spark: SparkSession) -> DataFrame:
    """Columns of which no footer tells the whole story, in one partition."""
    return spark.range(0, 4, 1, 1).selectExpr(
        "id",
        "element_at(array(double('NaN'), 1.5D, -2.5D, null), int(id) + 1) as with_nan",
        "if(id < 3, float('NaN'), null) as all_nan",
        "if(id = 0, double('Infinity'), double(id)) as endless",
        "if(id < 2, -0.0D, 0.0D) as zeros",
        "float(0.1) as single",
        "if(id = 3, null, concat(char(int(97 + id)), repeat('x', 6000))) as long",
        "if(id = 3, null, cast(repeat('y', 6000) as binary)) as long_bytes",
        "element_at(array(array(1), array(), array(int(null)), null), int(id) + 1) as list",
        "if(id = 0, null, map('k', id)) as map",
        "array(id) as full",
        "named_struct('inner', if(id < 2, null, array(named_struct('a', id, 'b', 'b'))), 'n', id) as s",
        "make_timestamp(12000 + id, 1, 1, 0, 0, 0) as far",
        "cast(id as decimal(38, 10)) as dec",
        "date_add(date'2020-01-01', int(id)) as day",
        "id % 2 = 0 as flag",
    )


def _written(frame: DataFrame, path: str, **options: str) -> dict[str, Any]:
    frame.write.format("delta").options(**options).save(path)
    [found] = _stats(path)
    return found


def test_what_footers_do_not_tell_is_computed(spark: SparkSession, table: str) -> None:
    found = _written(_strange(spark), table)
    low, high, nulls = found["minValues"], found["maxValues"], found["nullCount"]
    assert found["numRecords"] == 4
    # NaN is above everything to Spark: the minimum holds, a maximum there is none.
    assert low["with_nan"] == -2.5
    assert "with_nan" not in high
    assert "all_nan" not in low | high
    assert (low["endless"], nulls["endless"]) == (1.0, 0)
    assert "endless" not in high
    assert (low["zeros"], high["zeros"]) == (0.0, 0.0)
    assert (low["single"], high["single"]) == (0.1, 0.1)
    assert low["long"] == "a" + "x" * 31
    assert high["long"] == "c" + "x" * 31 + "\x7f"
    assert (low["far"][:5], high["far"][:5]) == ("12000", "12003")
    assert (low["s"]["n"], high["s"]["n"]) == (0, 3)
    assert nulls == {
        "id": 0,
        "with_nan": 1,
        "all_nan": 1,
        "endless": 0,
        "zeros": 0,
        "single": 0,
        "long": 1,
        "long_bytes": 1,
        "list": 1,
        "map": 1,
        "full": 0,
        "s": {"inner": 2, "n": 0},
        "far": 0,
        "dec": 0,
        "day": 0,
        "flag": 0,
    }


def test_both_ways_of_writing_and_tasks_tell_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = _written(_strange(spark), str(tmp_path / "native"))
    portable = _written(_strange(spark), str(tmp_path / "portable"), **{"tidegate.write.portable": "true"})
    monkeypatch.setattr(measured, "MANY_BYTES", 0)
    many_bytes = _written(_strange(spark), str(tmp_path / "bytes"))
    monkeypatch.setattr(measured, "MANY_FILES", 0)
    many_files = _written(_strange(spark), str(tmp_path / "files"))
    assert native == portable == many_bytes == many_files


def test_files_of_many_tasks_keep_their_own_statistics(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "MANY_FILES", 0)
    frame = spark.range(0, 12, 1, 6).selectExpr("id", "if(id % 2 = 0, double('NaN'), double(id)) as x")
    frame.write.format("delta").save(table)
    for path, text in zip(*(tidegate.open(table).files().column(c) for c in ("path", "stats")), strict=True):
        ids = pq.read_table(f"{table}/{path}").column("id").to_pylist()
        found = json.loads(text.as_py())
        assert (found["minValues"]["id"], found["maxValues"]["id"]) == (min(ids), max(ids))
        assert found["minValues"]["x"] == max(ids)


def test_executors_that_cannot_measure_leave_it_to_the_driver(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "MANY_FILES", 0)

    def fails(*_: object) -> object:
        raise RuntimeError("no pyarrow here")

    monkeypatch.setattr(type(spark.sparkContext), "parallelize", fails)
    assert _written(_strange(spark), table)["nullCount"]["list"] == 1


def test_of_plain_columns_footers_alone_are_read(spark: SparkSession, table: str) -> None:
    frame = spark.range(0, 100, 1, 1).selectExpr(
        "id",
        "int(id) as i",
        "double(id) as d",
        "cast(id as string) as s",
        "cast(id as decimal(20, 3)) as dec",
        "date_add(date'2020-01-01', int(id)) as day",
        "timestamp_seconds(id) as at",
        "timestamp_ntz'2020-01-01 00:00:00' as local",
        "id % 2 = 0 as flag",
        "array(id) as list",
        "parse_json('1') as v",
        "if(id = 1, null, id) as some",
    )
    frame.write.format("delta").save(table)
    snapshot = tidegate.open(table)
    name = snapshot.files().column("path")[0].as_py()
    columns = statistics.columns_for_tasks(snapshot.metadata)
    found = footers.of_footer(pq.read_metadata(f"{table}/{name}"), columns)
    assert len(columns) == 12
    assert (found.missing, found.bytes) == ([], 0)


def test_files_are_skipped_by_what_was_computed(spark: SparkSession, table: str) -> None:
    for start in (0, 10):
        frame = spark.range(start, start + 2, 1, 1).selectExpr(
            "if(id % 2 = 0, double('NaN'), double(id)) as x",
            "concat(char(int(97 + id)), repeat('z', 5000)) as s",
        )
        frame.write.format("delta").mode("append").save(table)
    read = spark.read.format("delta").load(table)
    for condition, files, rows in (
        ("x < 5", 1, 1),
        ("s > 'j'", 1, 2),
        ("s < 'c'", 1, 2),
        ("isnan(x)", 2, 2),
        ("x > 1000", 2, 2),
    ):
        [scanned] = tidegate.scan_metrics(read.where(condition))
        assert (condition, scanned.files_read) == (condition, files)
        assert read.where(condition).count() == rows
