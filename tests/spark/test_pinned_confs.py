"""Every conf that shapes files is pinned: whatever the user's session says, the table is what it must be."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate.commands.write import write
from tidegate.errors import DataFileCorruptError, DataFileMissingError
from tidegate.spark.session import PINNED, pinned

pytestmark = pytest.mark.spark

Hostile = Callable[[str, str], None]


@pytest.fixture
def hostile(spark: SparkSession) -> Iterator[Hostile]:
    """Sets a conf of the user's session for the length of a test."""
    before: dict[str, str | None] = {}

    def set_conf(key: str, value: str) -> None:
        before[key] = spark.conf.get(key, None)
        spark.conf.set(key, value)

    yield set_conf
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


def _file(table: str) -> Path:
    return Path(table) / tidegate.open(table).files().column("path")[0].as_py()


def _column(table: str, name: str) -> pq.ColumnSchema:
    schema = pq.read_schema(_file(table)) and pq.ParquetFile(_file(table)).schema
    return next(schema.column(i) for i in range(len(schema)) if schema.column(i).path.startswith(name))


def _back(spark: SparkSession, table: str) -> DataFrame:
    return spark.read.format("delta").load(table)


def _save(frame: DataFrame, table: str, **properties: str) -> None:
    write(frame, table, properties={k.replace("_", "."): v for k, v in properties.items()})


def test_each_conf_has_its_value_in_the_clone_and_the_users_session_keeps_its_own(
    spark: SparkSession,
) -> None:
    before = {k: spark.conf.get(k, None) for k in PINNED}
    clone = pinned(spark)
    assert {k: clone.conf.get(k) for k in PINNED} == PINNED
    assert {k: spark.conf.get(k, None) for k in PINNED} == before


def test_how_files_are_divided_and_filtered_is_the_sessions_choice(
    spark: SparkSession, table: str, hostile: Hostile
) -> None:
    _save(spark.range(6).repartition(6), table)
    assert _back(spark, table).rdd.getNumPartitions() < 6
    hostile("spark.sql.files.maxPartitionBytes", "1")
    hostile("spark.sql.files.openCostInBytes", "1")
    assert _back(spark, table).rdd.getNumPartitions() > 6
    hostile("spark.sql.parquet.filterPushdown", "false")
    hostile("spark.sql.parquet.enableVectorizedReader", "false")
    found = _back(spark, table).where("id > 3")
    assert sorted(r[0] for r in found.collect()) == [4, 5]
    assert "ColumnarToRow" not in found._jdf.queryExecution().executedPlan().toString()


def test_what_a_session_says_to_hadoop_holds_for_tables(
    spark: SparkSession, table: str, hostile: Hostile
) -> None:
    hostile("parquet.enable.dictionary", "false")
    _save(spark.range(6).selectExpr("id % 2 id"), table)
    group = pq.ParquetFile(_file(table)).metadata.row_group(0)
    assert "PLAIN_DICTIONARY" not in str(group.column(0).encodings)
    assert "RLE_DICTIONARY" not in str(group.column(0).encodings)
    spark.conf.unset("parquet.enable.dictionary")
    assert pinned(spark).conf.get("parquet.enable.dictionary", None) is None


def test_timestamps_are_written_in_microseconds(spark: SparkSession, table: str, hostile: Hostile) -> None:
    hostile("spark.sql.parquet.outputTimestampType", "INT96")
    _save(spark.sql("SELECT TIMESTAMP'2024-01-01 00:00:00.000001' AS t"), table)
    assert _column(table, "t").physical_type == "INT64"


def test_variants_are_not_shredded(spark: SparkSession, table: str, hostile: Hostile) -> None:
    hostile("spark.sql.variant.writeShredding.enabled", "true")
    _save(spark.range(3).selectExpr("parse_json('{\"a\": 1}') AS v"), table)
    names = {f.name for f in pq.read_schema(_file(table)).field("v").type}
    assert names == {"value", "metadata"}


def test_field_ids_are_written_and_read(spark: SparkSession, table: str, hostile: Hostile) -> None:
    hostile("spark.sql.parquet.fieldId.write.enabled", "false")
    hostile("spark.sql.parquet.fieldId.read.enabled", "false")
    _save(spark.range(2), table, delta_columnMapping_mode="id")
    assert b"PARQUET:field_id" in (pq.read_schema(_file(table)).field(0).metadata or {})
    assert _back(spark, table).count() == 2
    assert sorted(r.id for r in _back(spark, table).collect()) == [0, 1]


def test_a_column_that_old_files_lack_by_id_is_null(
    spark: SparkSession, table: str, hostile: Hostile
) -> None:
    hostile("spark.sql.parquet.fieldId.read.ignoreMissing", "false")
    _save(spark.range(1), table, delta_columnMapping_mode="id")
    wider = spark.range(1, 2).selectExpr("id", "'x' AS extra")
    wider.write.format("delta").mode("append").option("mergeSchema", True).save(table)
    assert sorted(map(tuple, _back(spark, table).collect())) == [(0, None), (1, "x")]


@pytest.mark.parametrize("value", ["LEGACY", "EXCEPTION"])
def test_old_dates_are_counted_in_the_gregorian_calendar(
    spark: SparkSession, table: str, hostile: Hostile, value: str
) -> None:
    for key in ("datetimeRebaseModeInWrite", "datetimeRebaseModeInRead"):
        hostile(f"spark.sql.parquet.{key}", value)
    _save(spark.sql("SELECT DATE'1500-01-01' AS d, TIMESTAMP'1500-01-01 00:00:00' AS t"), table)
    stored = pq.read_table(_file(table)).to_pylist()[0]
    assert stored["d"] == datetime.date(1500, 1, 1)
    assert _back(spark, table).selectExpr("cast(d AS string)", "cast(t AS string)").head() == (
        "1500-01-01",
        "1500-01-01 00:00:00",
    )


@pytest.mark.parametrize("value", ["LEGACY", "EXCEPTION"])
def test_int96_of_other_writers_is_read_in_the_gregorian_calendar(
    spark: SparkSession, table: str, tmp_path: Path, hostile: Hostile, value: str
) -> None:
    import shutil

    _save(spark.sql("SELECT TIMESTAMP'2024-01-01 00:00:00' AS t").coalesce(1), table)
    hostile("spark.sql.parquet.outputTimestampType", "INT96")
    hostile("spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED")
    spark.sql("SELECT TIMESTAMP'1500-01-01 00:00:00' AS t").coalesce(1).write.parquet(str(tmp_path / "old"))
    (old,) = (tmp_path / "old").glob("*.parquet")
    target = _file(table)
    (target.parent / f".{target.name}.crc").unlink(missing_ok=True)
    shutil.copy(old, target)
    hostile("spark.sql.parquet.int96RebaseModeInRead", value)
    hostile("spark.sql.parquet.int96RebaseModeInWrite", value)
    hostile("spark.sql.parquet.int96AsTimestamp", "false")
    assert _back(spark, table).selectExpr("cast(t AS string)").head()[0] == "1500-01-01 00:00:00"


def test_the_legacy_layout_is_never_written(spark: SparkSession, table: str, hostile: Hostile) -> None:
    hostile("spark.sql.parquet.writeLegacyFormat", "true")
    _save(spark.sql("SELECT cast(1.5 AS decimal(9,2)) AS d, array(1) AS a"), table)
    assert _column(table, "d").physical_type == "INT32"
    assert _column(table, "a").path == "a.list.element"


def test_binary_stays_binary_and_timestamps_keep_their_kind(
    spark: SparkSession, table: str, hostile: Hostile
) -> None:
    hostile("spark.sql.parquet.binaryAsString", "true")
    hostile("spark.sql.parquet.inferTimestampNTZ.enabled", "false")
    _save(spark.sql("SELECT X'00FF' AS b, TIMESTAMP_NTZ'2024-01-01 00:00:00' AS n"), table)
    assert _back(spark, table).schema.simpleString() == "struct<b:binary,n:timestamp_ntz>"
    assert bytes(_back(spark, table).head()[0]) == b"\x00\xff"


def test_partition_values_are_not_guessed_from_directories(
    spark: SparkSession, table: str, hostile: Hostile
) -> None:
    hostile("spark.sql.sources.partitionColumnTypeInference.enabled", "true")
    spark.sql("SELECT 1 AS id, '007' AS p").write.format("delta").partitionBy("p").save(table)
    assert _back(spark, table).head() == (1, "007")


def test_a_missing_file_is_an_error_even_if_the_session_ignores_them(
    spark: SparkSession, table: str, hostile: Hostile
) -> None:
    _save(spark.range(0, 3, 1, 1), table)
    hostile("spark.sql.files.ignoreMissingFiles", "true")
    _file(table).unlink()
    with pytest.raises(DataFileMissingError):
        _back(spark, table).collect()


def test_a_corrupt_file_is_an_error_even_if_the_session_ignores_them(
    spark: SparkSession, table: str, hostile: Hostile
) -> None:
    _save(spark.range(0, 3, 1, 1), table)
    hostile("spark.sql.files.ignoreCorruptFiles", "true")
    file = _file(table)
    file.write_bytes(file.read_bytes()[:40])
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    with pytest.raises(DataFileCorruptError):
        _back(spark, table).collect()


def test_the_sessions_zone_does_not_move_timestamps(
    spark: SparkSession, table: str, hostile: Hostile
) -> None:
    frame = spark.sql("SELECT 1 AS id, TIMESTAMP'2024-01-01 00:00:00Z' AS p")
    hostile("spark.sql.session.timeZone", "Asia/Tokyo")
    frame.write.format("delta").partitionBy("p").save(table)
    values = tidegate.open(table).files().column("partitionValues").to_pylist()
    assert dict(values[0])["p"] == "2024-01-01T00:00:00.000000Z"
    assert _back(spark, table).selectExpr("cast(p AS long)").head()[0] == 1704067200


def test_every_pinned_conf_is_meant_by_a_test_here() -> None:
    text = Path(__file__).read_text()
    named = [k for k in PINNED if k in text or k.rsplit(".", 1)[1] in text]
    assert sorted(named) == sorted(PINNED)
