"""Bad input: each a clear error before any job runs, and nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from support.session import CONNECT
from tidegate.errors import (
    NotATableError,
    OptionError,
    SchemaInvalidError,
    TidegateError,
    UnsupportedReaderFeatureError,
    UnsupportedWriterFeatureError,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def no_job(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test if a job was started meanwhile; a Connect client has no way to count them."""
    if "existing" in request.fixturenames:
        request.getfixturevalue("existing")
    if CONNECT:
        yield
        return
    store = spark._jsparkSession.sparkContext().statusStore()
    before = store.jobsList(None).size()
    yield
    assert store.jobsList(None).size() == before


def _write(frame: DataFrame, table: str, mode: str = "append", **options: object) -> None:
    frame.write.format("delta").mode(mode).options(**options).save(table)


FIRST = "id long, name string, s struct<a: int>"


@pytest.fixture
def existing(spark: SparkSession, table: str) -> str:
    _write(spark.createDataFrame([(1, "x", (1,))], FIRST), table)
    return table


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("'x' AS id", "id is long in the table, and string"),
        ("1L AS id, 2L AS extra", "extra"),
        ("1L AS id, named_struct('a', 1, 'b', 2) AS s", r"s\.b"),
        ("1L AS id, 'text' AS s", "s is struct"),
        ("1L AS id, array(1) AS name", "name is string"),
        ("1L AS id, 2L AS ID", "twice"),
    ],
)
@pytest.mark.usefixtures("no_job")
def test_a_schema_that_does_not_fit(spark: SparkSession, existing: str, text: str, what: str) -> None:
    with pytest.raises(SchemaInvalidError, match=what) as caught:
        _write(spark.sql(f"SELECT {text}"), existing)
    assert isinstance(caught.value, AnalysisException)
    assert tidegate.open(existing).version == 0


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("mergeShema", "mergeSchema"),
        ("overwriteSchem", "overwriteSchema"),
        ("replacewher", "replaceWhere"),
        ("txnAppID2", "txnAppId"),
        ("maxRecordPerFile", "maxRecordsPerFile"),
        ("optimiseWrite", "optimizeWrite"),
        ("partitionOverwrite", "partitionOverwriteMode"),
    ],
)
@pytest.mark.usefixtures("no_job")
def test_an_option_that_looks_like_a_typo_of_a_known_one(
    spark: SparkSession, existing: str, typo: str, meant: str
) -> None:
    with pytest.raises(OptionError, match=meant):
        _write(spark.range(1), existing, **{typo: "true"})
    assert tidegate.open(existing).version == 0


def test_an_option_that_is_like_none_is_left_alone(spark: SparkSession, existing: str) -> None:
    _write(spark.range(1), existing, my_own_tag="x")
    assert tidegate.open(existing).version == 1


@pytest.mark.parametrize(
    ("options", "mode", "what"),
    [
        ({"mergeSchema": "yes"}, "append", "true or false"),
        ({"txnAppId": "a"}, "append", "go together"),
        ({"txnAppId": "a", "txnVersion": "x"}, "append", "whole number"),
        ({"txnAppId": "a", "txnVersion": str(1 << 63)}, "append", "64 bits"),
        ({"replaceUsing": " , "}, "overwrite", "no column is named"),
        ({"replaceUsing": ""}, "overwrite", "no column is named"),
        ({"replaceUsing": "id,"}, "overwrite", "no column is named"),
        ({"partitionOverwriteMode": "sometimes"}, "overwrite", "static or dynamic"),
        ({"maxRecordsPerFile": "many"}, "append", "whole number"),
        ({"dataChange": "no"}, "append", "true or false"),
        ({"optimizeWrite": "maybe"}, "append", "true or false"),
        ({}, "upsert", "save mode"),
    ],
)
@pytest.mark.usefixtures("no_job")
def test_values_of_options_that_make_no_sense(
    spark: SparkSession, existing: str, options: dict[str, str], mode: str, what: str
) -> None:
    from tidegate.commands.write import write

    with pytest.raises(OptionError, match=what):
        write(spark.range(1), existing, mode=mode, options=options)
    assert tidegate.open(existing).version == 0


@pytest.mark.usefixtures("no_job")
def test_a_schema_said_to_a_reader_of_a_table(spark: SparkSession, existing: str) -> None:
    for reader in (spark.read, spark.readStream):
        with pytest.raises(OptionError, match="brings its own schema"):
            reader.format("delta").schema("id INT").load(existing)


@pytest.mark.usefixtures("no_job")
def test_a_path_that_is_not_a_table(spark: SparkSession, table: str, tmp_path: Path) -> None:
    with pytest.raises(NotATableError):
        spark.read.format("delta").load(table)
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "file.parquet").write_bytes(b"PAR1")
    with pytest.raises(NotATableError) as caught:
        spark.read.format("delta").load(str(plain))
    assert isinstance(caught.value, AnalysisException)
    with pytest.raises(OptionError):
        spark.read.format("delta").load()


@pytest.mark.parametrize(
    ("protocol", "reading", "writing"),
    [
        (
            {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["fromMars"],
                "writerFeatures": ["fromMars"],
            },
            UnsupportedReaderFeatureError,
            TidegateError,
        ),
        (
            {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromMars"]},
            None,
            UnsupportedWriterFeatureError,
        ),
        ({"minReaderVersion": 99, "minWriterVersion": 99}, TidegateError, TidegateError),
    ],
)
def test_a_table_whose_protocol_is_not_supported(
    spark: SparkSession,
    existing: str,
    protocol: dict[str, object],
    reading: type[TidegateError] | None,
    writing: type[TidegateError],
) -> None:
    commit = Path(existing) / "_delta_log" / f"{1:020}.json"
    commit.write_text(json.dumps({"protocol": protocol}) + "\n")
    if reading is None:
        assert spark.read.format("delta").load(existing).count() == 1
    else:
        with pytest.raises(reading, match=r"fromMars|99"):
            spark.read.format("delta").load(existing)
    with pytest.raises(writing, match=r"fromMars|99"):
        _write(spark.range(1), existing)
    assert not (commit.parent / f"{2:020}.json").exists()


@pytest.mark.usefixtures("no_job")
def test_columns_to_partition_by_that_are_not_there_or_are_all(spark: SparkSession, table: str) -> None:
    frame = spark.range(1)
    cases: list[tuple[Callable[[], None], str]] = [
        (lambda: frame.write.format("delta").partitionBy("nope").save(table), "nope"),
        (lambda: frame.write.format("delta").partitionBy("id").save(table), "at least one must hold data"),
        (
            lambda: (
                frame.select("id", F.array("id").alias("a"))
                .write.format("delta")
                .partitionBy("a")
                .save(table)
            ),
            "single value",
        ),
        (
            lambda: frame.select("id", F.col("id").alias("ID")).write.format("delta").save(table),
            "twice",
        ),
    ]
    for case, what in cases:
        with pytest.raises(SchemaInvalidError, match=what):
            case()
    assert not Path(table, "_delta_log").exists()


@pytest.mark.usefixtures("no_job")
def test_partitioning_that_differs_from_the_tables(spark: SparkSession, existing: str) -> None:
    with pytest.raises(SchemaInvalidError, match="partitioned by"):
        spark.createDataFrame([(1, "x", (1,))], FIRST).write.format("delta").mode("append").partitionBy(
            "name"
        ).save(existing)


@pytest.mark.usefixtures("no_job")
def test_data_without_a_partition_column_of_the_table(spark: SparkSession, table: str) -> None:
    from tidegate.metadata import Metadata

    transaction = tidegate.Transaction.begin(table)
    schema = spark.range(0).selectExpr("id", "id AS p").schema.json()
    transaction.update_metadata(Metadata(id="1", schema_string=schema, partition_columns=("p",)))
    transaction.commit(operation="CREATE TABLE")
    with pytest.raises(SchemaInvalidError, match="partition column p"):
        _write(spark.range(1), table)


@pytest.mark.usefixtures("no_job")
def test_a_constraint_that_does_not_parse_or_names_no_column(spark: SparkSession, existing: str) -> None:
    for text in ("id >", "nope > 1", "sum(id) > 1"):
        transaction = tidegate.Transaction.begin(existing)
        metadata = transaction.metadata
        transaction.update_metadata(metadata.with_configuration({"delta.constraints.c": text}))
        transaction.commit(operation="ADD CONSTRAINT")
        version = tidegate.open(existing).version
        with pytest.raises(SchemaInvalidError, match="constraint c"):
            _write(spark.range(1), existing)
        assert tidegate.open(existing).version == version


@pytest.mark.usefixtures("no_job")
def test_reading_options_that_contradict_each_other(spark: SparkSession, existing: str) -> None:
    reader = spark.read.format("delta")
    with pytest.raises(OptionError, match="exclude each other"):
        reader.option("versionAsOf", 0).option("timestampAsOf", "2024-01-01").load(existing)
    with pytest.raises(OptionError, match="whole number"):
        spark.read.format("delta").option("versionAsOf", "first").load(existing)
    with pytest.raises(OptionError, match="versionAsOf"):
        spark.read.format("delta").option("versionAsOff", 0).load(existing)
