"""Writing and reading tables with the API that Spark users know, on a classic session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.errors import (
    DataFileCorruptError,
    DataFileMissingError,
    InvariantViolationException,
    NotATableError,
    OptionError,
    SchemaInvalidError,
    TableExistsError,
    VersionNotFoundError,
)
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


@pytest.fixture(autouse=True, params=["native", "portable"])
def way(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Both ways of writing keep the same promises."""
    spark.conf.set("spark.tidegate.write.portable", str(request.param == "portable").lower())
    yield request.param
    spark.conf.unset("spark.tidegate.write.portable")


def _set_property(path: str, **changes: str) -> None:
    transaction = tidegate.Transaction.begin(path)
    metadata = transaction.metadata
    transaction.update_metadata(metadata.with_configuration({**metadata.configuration, **changes}))
    transaction.commit(operation="SET TBLPROPERTIES")


def test_what_is_written_comes_back(spark: SparkSession, table: str, rows: Rows) -> None:
    spark.range(5).withColumn("name", F.concat(F.lit("n"), F.col("id"))).write.format("delta").save(table)
    assert rows(table) == [(i, f"n{i}") for i in range(5)]
    assert tidegate.open(table).version == 0


def test_a_written_table_verifies_clean(spark: SparkSession, table: str) -> None:
    frame = spark.range(20).withColumn("p", F.col("id") % 3)
    frame.write.format("delta").partitionBy("p").save(table)
    frame.write.format("delta").mode("append").save(table)
    assert [f for f in verify(TableLog.at(table), deep=True).findings if f.severity == "error"] == []


def test_append_adds_and_overwrite_replaces(spark: SparkSession, table: str, rows: Rows) -> None:
    frame = spark.range(3)
    frame.write.format("delta").save(table)
    frame.write.format("delta").mode("append").save(table)
    assert rows(table) == [(0,), (0,), (1,), (1,), (2,), (2,)]
    spark.range(1).write.format("delta").mode("overwrite").save(table)
    assert rows(table) == [(0,)]
    assert spark.read.format("delta").option("versionAsOf", 1).load(table).count() == 6


def test_a_table_that_exists_is_refused_by_default_and_left_alone_by_ignore(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.range(3).write.format("delta").save(table)
    with pytest.raises(TableExistsError):
        spark.range(9).write.format("delta").save(table)
    spark.range(9).write.format("delta").mode("ignore").save(table)
    assert rows(table) == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("expression", "logged"),
    [
        ("cast(7 as int)", "7"),
        ("cast('2024-02-29' as date)", "2024-02-29"),
        ("timestamp'2024-02-29 12:30:00.123456'", "2024-02-29T12:30:00.123456Z"),
        ("cast(1.50 as decimal(5,2))", "1.50"),
        ("true", "true"),
        ("'a/b c=d%é'", "a/b c=d%é"),
        ("''", None),
        ("cast(null as string)", None),
    ],
)
def test_partition_values_of_every_kind_come_back(
    spark: SparkSession, table: str, expression: str, logged: str | None
) -> None:
    frame = spark.range(2).selectExpr("id", f"{expression} as p")
    frame.write.format("delta").partitionBy("p").save(table)
    values = tidegate.open(table).files().column("partitionValues").to_pylist()
    assert {dict(v)["p"] for v in values} == {logged}
    expected = [(r.id, None if r.p == "" else r.p) for r in frame.collect()]
    back = spark.read.format("delta").load(table).select("id", "p").orderBy("id")
    assert [tuple(r) for r in back.collect()] == expected


def test_types_of_every_kind_come_back(spark: SparkSession, table: str) -> None:
    frame = spark.range(3).selectExpr(
        "id",
        "cast(id as byte) b",
        "cast(id as short) s",
        "cast(id as int) i",
        "cast(id as float) f",
        "cast(id as double) d",
        "cast(id as decimal(38,10)) dec",
        "cast(id as string) str",
        "cast('ab' as binary) bin",
        "id = 1 bool",
        "date_add(date'2024-01-01', cast(id as int)) dt",
        "timestamp'2024-01-01 00:00:00.000001' ts",
        "timestamp_ntz'2024-01-01 00:00:00.000001' ntz",
        "named_struct('a', id, 'b', array(named_struct('c', 'x'))) nested",
        "map('k', id) m",
        "if(id = 1, null, id) n",
    )
    frame.write.format("delta").save(table)
    back = spark.read.format("delta").load(table)
    assert back.schema.simpleString() == frame.schema.simpleString()
    assert sorted(map(str, back.collect())) == sorted(map(str, frame.collect()))


def test_a_filter_prunes_files_by_partition_and_by_statistics(spark: SparkSession, table: str) -> None:
    for start in range(0, 40, 10):
        frame = spark.range(start, start + 10, 1, 1).selectExpr("id", "id % 2 as p")
        frame.write.format("delta").mode("append").partitionBy("p").save(table)
    read = spark.read.format("delta").load(table)
    assert len(read.inputFiles()) == 8
    assert read.where("p = 1").select("id").count() == 20
    snapshot = tidegate.open(table)
    assert snapshot.files("id BETWEEN 12 AND 14").num_rows == 2
    assert snapshot.files("id BETWEEN 12 AND 14 AND p = 0").num_rows == 1


def test_explain_names_the_table_and_its_version(
    spark: SparkSession, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.range(1).write.format("delta").save(table)
    spark.range(1).write.format("delta").mode("append").save(table)
    spark.read.format("delta").load(table).explain()
    assert f"[delta-v1:{table[:30]}" in capsys.readouterr().out


def test_a_dataframe_stays_at_the_version_it_was_made_for(spark: SparkSession, table: str) -> None:
    spark.range(3).write.format("delta").save(table)
    frame = spark.read.format("delta").load(table)
    spark.range(3).write.format("delta").mode("append").save(table)
    assert frame.count() == 3


def test_merge_schema_adds_columns_at_every_level(spark: SparkSession, table: str, rows: Rows) -> None:
    spark.range(1).selectExpr("id", "named_struct('a', 1) s").write.format("delta").save(table)
    wider = spark.range(1, 2).selectExpr("id", "named_struct('a', 2, 'b', 'x') s", "'new' extra")
    with pytest.raises(SchemaInvalidError):
        wider.write.format("delta").mode("append").save(table)
    assert tidegate.open(table).version == 0
    wider.write.format("delta").mode("append").option("mergeSchema", True).save(table)
    assert [(r[0], tuple(r[1]), r[2]) for r in rows(table)] == [(0, (1, None), None), (1, (2, "x"), "new")]


def test_columns_are_matched_by_name_without_regard_to_case(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.range(1).selectExpr("id as Id", "'a' as Name").write.format("delta").save(table)
    spark.range(1, 2).selectExpr("'b' as NAME", "id as ID").write.format("delta").mode("append").save(table)
    assert rows(table) == [(0, "a"), (1, "b")]
    assert tidegate.open(table).schema.names == ("Id", "Name")


def test_a_type_that_cannot_be_stored_is_refused_before_any_job(spark: SparkSession, table: str) -> None:
    spark.range(1).write.format("delta").save(table)
    with pytest.raises(SchemaInvalidError, match="cannot be stored"):
        spark.range(1).selectExpr("'x' as id").write.format("delta").mode("append").save(table)
    assert tidegate.open(table).version == 0


def test_overwrite_schema_replaces_columns_and_partitioning(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.range(3).write.format("delta").save(table)
    new = spark.range(1).selectExpr("'x' as name", "1 as p")
    new.write.format("delta").mode("overwrite").option("overwriteSchema", True).partitionBy("p").save(table)
    assert rows(table) == [("x", 1)]
    assert tidegate.open(table).partition_columns == ("p",)


def test_replace_where_and_dynamic_overwrite_touch_only_their_partitions(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.range(4).selectExpr("id", "id % 2 as p").write.format("delta").partitionBy("p").save(table)
    one = spark.range(9, 10).selectExpr("id", "cast(1 as bigint) as p")
    one.write.format("delta").mode("overwrite").option("replaceWhere", "p = 1").save(table)
    assert rows(table) == [(0, 0), (2, 0), (9, 1)]
    zero = spark.range(8, 9).selectExpr("id", "cast(0 as bigint) as p")
    zero.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(table)
    assert rows(table) == [(8, 0), (9, 1)]


def test_a_write_with_the_same_txn_is_done_once(spark: SparkSession, table: str, rows: Rows) -> None:
    for _ in range(2):
        writer = spark.range(1).write.format("delta").mode("append")
        writer.option("txnAppId", "job").option("txnVersion", 1).save(table)
    assert rows(table) == [(0,)]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_come_back_under_their_own_names(
    spark: SparkSession, table: str, rows: Rows, mode: str
) -> None:
    spark.conf.set("spark.databricks.delta.properties.defaults.columnMapping.mode", mode)
    try:
        frame = spark.range(4).selectExpr("id", "named_struct('x y', id) as `a b`", "id % 2 as p")
        frame.write.format("delta").partitionBy("p").save(table)
    finally:
        spark.conf.unset("spark.databricks.delta.properties.defaults.columnMapping.mode")
    snapshot = tidegate.open(table)
    assert snapshot.protocol.supports("columnMapping")
    assert all("`" not in p and not p.startswith("p=") for p in snapshot.files().column("path").to_pylist())
    assert [(r[0], tuple(r[1]), r[2]) for r in rows(table)] == [(i, (i,), i % 2) for i in range(4)]
    assert len(spark.read.format("delta").load(table).where("p = 1 and id > 2").collect()) == 1


@pytest.mark.parametrize(
    ("setting", "bad"),
    [({"delta.constraints.positive": "id > 0"}, "0 as id"), ({}, "cast(null as bigint) as id")],
)
def test_a_row_that_breaks_a_constraint_fails_the_write_and_leaves_the_table(
    spark: SparkSession, table: str, setting: dict[str, str], bad: str
) -> None:
    spark.range(1, 2).write.format("delta").save(table)
    if setting:
        _set_property(table, **setting)
    else:
        transaction = tidegate.Transaction.begin(table)
        metadata = transaction.metadata
        schema = metadata.schema_string.replace('"nullable":true', '"nullable":false')
        from msgspec.structs import replace

        transaction.update_metadata(replace(metadata, schema_string=schema))
        transaction.commit(operation="CHANGE COLUMN")
    version = tidegate.open(table).version
    with pytest.raises(InvariantViolationException) as caught:
        spark.range(1).selectExpr(bad).write.format("delta").mode("append").save(table)
    assert '"id":0' in str(caught.value) or "NOT NULL id" in str(caught.value)
    assert tidegate.open(table).version == version


def test_generated_and_default_values_are_filled_in_and_checked(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    from tidegate.metadata import Metadata

    transaction = tidegate.Transaction.begin(table)
    schema = (
        '{"type":"struct","fields":['
        '{"name":"id","type":"long","nullable":true,"metadata":{}},'
        '{"name":"twice","type":"long","nullable":true,'
        '"metadata":{"delta.generationExpression":"id * 2"}},'
        '{"name":"kind","type":"string","nullable":true,"metadata":{"CURRENT_DEFAULT":"\'none\'"}}]}'
    )
    properties = {"delta.feature.allowColumnDefaults": "supported"}
    transaction.update_metadata(Metadata(id="1", schema_string=schema, configuration=properties))
    transaction.commit(operation="CREATE TABLE")
    spark.range(1, 2).write.format("delta").mode("append").save(table)
    assert rows(table) == [(1, 2, "none")]
    wrong = spark.range(1).selectExpr("id", "cast(5 as bigint) as twice", "'x' as kind")
    with pytest.raises(InvariantViolationException, match="generated column twice"):
        wrong.write.format("delta").mode("append").save(table)


def test_a_missing_and_a_corrupt_data_file_are_errors_of_ours(spark: SparkSession, table: str) -> None:
    from pathlib import Path

    spark.range(0, 10, 1, 1).write.format("delta").save(table)
    name = tidegate.open(table).files().column("path")[0].as_py()
    file = Path(table) / name
    whole = file.read_bytes()
    file.unlink()
    with pytest.raises(DataFileMissingError) as missing:
        spark.read.format("delta").load(table).collect()
    assert missing.value.code == "DATA_FILE_MISSING"
    assert name in str(missing.value)
    file.write_bytes(whole[: len(whole) // 2])
    (file.parent / f".{name}.crc").unlink(missing_ok=True)
    with pytest.raises(DataFileCorruptError):
        spark.read.format("delta").load(table).toArrow()


def test_bad_input_is_refused_before_any_job(spark: SparkSession, table: str) -> None:
    with pytest.raises(NotATableError):
        spark.read.format("delta").load(table)
    frame = spark.range(1)
    with pytest.raises(OptionError, match="mergeSchema"):
        frame.write.format("delta").option("mergeShema", True).save(table)
    with pytest.raises(SchemaInvalidError, match="partition column nope"):
        frame.write.format("delta").partitionBy("nope").save(table)
    with pytest.raises(SchemaInvalidError, match="All columns are partition columns"):
        frame.write.format("delta").partitionBy("id").save(table)
    with pytest.raises(OptionError, match="txnVersion"):
        frame.write.format("delta").option("txnAppId", "a").save(table)
    with pytest.raises(NotATableError):
        tidegate.open(table)
    frame.write.format("delta").save(table)
    with pytest.raises(VersionNotFoundError):
        spark.read.format("delta").option("versionAsOf", 7).load(table)


def test_a_session_that_is_not_enabled_is_not_touched(spark: SparkSession, table: str) -> None:
    tidegate.disable(spark)
    try:
        with pytest.raises(Exception, match="delta"):
            spark.range(1).write.format("delta").save(table)
        with pytest.raises(NotATableError):
            tidegate.open(table)
    finally:
        tidegate.enable(tidegate.enable(spark))
    spark.range(1).write.format("parquet").save(table)
    assert spark.read.parquet(table).count() == 1


def test_the_users_session_keeps_its_confs(spark: SparkSession, table: str) -> None:
    from tidegate.spark.session import PINNED

    before = {k: spark.conf.get(k, None) for k in PINNED}
    spark.range(1).write.format("delta").save(table)
    spark.read.format("delta").load(table).collect()
    assert {k: spark.conf.get(k, None) for k in PINNED} == before
