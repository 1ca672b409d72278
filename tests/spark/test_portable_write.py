"""The portable delayed commit: what only it can do, and that it writes what the native way writes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.errors import InvariantViolationException, OptionError, SchemaInvalidError, TidegateError
from tidegate.files.partitions import serialize
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.schema.types import DATE, DOUBLE, LONG, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType, DecimalType
from tidegate.spark.write.files import Written, write_files
from tidegate.spark.write.task import texts

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]
CONF = "spark.tidegate.write.portable"


@pytest.fixture(autouse=True)
def portable(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(CONF, "true")
    yield
    spark.conf.unset(CONF)


@pytest.fixture
def defaults(spark: SparkSession) -> Iterator[Callable[..., None]]:
    """Sets properties that new tables get."""
    names: list[str] = []

    def put(**given: str) -> None:
        for key, value in given.items():
            name = f"spark.databricks.delta.properties.defaults.{key.replace('__', '.')}"
            names.append(name)
            spark.conf.set(name, value)

    yield put
    for name in names:
        spark.conf.unset(name)


def _write(frame: DataFrame, path: str, **options: str) -> Written:
    """One write_files and its commit, as a command makes them."""
    transaction = tidegate.Transaction.begin(path)
    written = write_files(transaction, frame, options)
    transaction.commit(operation="WRITE", adds=written.adds, cdcs=written.cdcs)
    return written


@pytest.mark.parametrize(
    ("values", "condition", "found"),
    [
        ([1.0, math.nan], "d > 100", [1]),
        ([1.0, math.nan], "d = double('NaN')", [1]),
        ([-0.0, 1.0], "d = 0.0", [0]),
        ([0.0, 1.0], "d <= -0.0", [0]),
    ],
)
def test_filters_find_the_odd_numbers_that_spark_has_its_own_order_for(
    spark: SparkSession, table: str, values: list[float], condition: str, found: list[int]
) -> None:
    rows = [(i, v, {"d": v}, [v]) for i, v in enumerate(values)]
    frame = spark.createDataFrame(rows, "id long, d double, s struct<d: float>, a array<double>").coalesce(1)
    frame.write.format("delta").save(table)
    read = spark.read.format("delta").load(table)
    for text in (condition, condition.replace("d", "s.d", 1)):
        assert [r["id"] for r in read.where(text).collect()] == found
    tidegate.DeltaTable.forPath(spark, table).delete(condition)
    left = [r["id"] for r in spark.read.format("delta").load(table).collect()]
    assert left == [i for i in range(len(values)) if i not in found]


def _stats(path: str) -> list[dict[str, Any]]:
    return [json.loads(t) for t in tidegate.open(path).files().column("stats").to_pylist()]


def test_the_portable_way_is_chosen_by_an_option_too(spark: SparkSession, table: str) -> None:
    spark.conf.set(CONF, "false")
    frame = spark.range(1, 2, 1, 1)
    frame.write.format("delta").option("tidegate.write.portable", True).save(table)
    file = next(Path(table).glob("part-00000-*-c000.snappy.parquet"))
    assert pq.read_metadata(file).created_by.startswith("parquet-cpp")
    frame.write.format("delta").mode("append").save(table)
    assert {pq.read_metadata(f).created_by.split()[0] for f in Path(table).glob("*.parquet")} == {
        "parquet-cpp-arrow",
        "parquet-mr",
    }
    with pytest.raises(OptionError):
        frame.write.format("delta").mode("append").option("tidegate.write.portable", "yes").save(table)


@pytest.mark.parametrize("partitioned", [False, True])
def test_change_rows_go_to_change_files_and_data_rows_to_data_files(
    spark: SparkSession, table: str, rows: Rows, partitioned: bool, defaults: Callable[..., None]
) -> None:
    defaults(enableChangeDataFeed="true")
    start = spark.range(4).selectExpr("id", "id % 2 as p").write.format("delta")
    (start.partitionBy("p") if partitioned else start).save(table)
    spark.conf.set(CONF, "false")
    change = "case when id < 6 then null when id = 6 then 'delete' else 'insert' end as _change_type"
    frame = spark.range(4, 9, 1, 2).selectExpr("id", "id % 2 as p", change)
    written = _write(frame, table)
    assert sorted(rows(table)) == [(i, i % 2) for i in range(6)]
    names = written.cdcs.column("path").to_pylist()
    pattern = r"_change_data/" + (r"p=[01]/cdc-\d{5}-[0-9a-f-]{36}\.c" if partitioned else r"cdc-\d{5}-")
    assert names
    assert all(re.match(pattern, n) for n in names)
    assert all("_change_data" not in p for p in written.adds.column("path").to_pylist())
    feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 1).load(table)
    assert sorted((r.id, r.p, r._change_type) for r in feed.collect()) == [
        (6, 0, "delete"),
        (7, 1, "insert"),
        (8, 0, "insert"),
    ]
    columns = {"id", "_change_type"} | (set() if partitioned else {"p"})
    assert {f.name for n in names for f in pq.read_schema(f"{table}/{n}")} == columns


def test_constraints_hold_for_data_rows_and_not_for_what_changes_tell_of_old_rows(
    spark: SparkSession, table: str, defaults: Callable[..., None]
) -> None:
    defaults(enableChangeDataFeed="true", constraints__positive="id > 0")
    spark.range(1, 2).write.format("delta").save(table)
    old = spark.range(1).selectExpr("id", "'delete' as _change_type")
    assert _write(old, table).cdcs.num_rows == 1
    with pytest.raises(InvariantViolationException, match="positive"):
        _write(spark.range(1).selectExpr("id", "cast(null as string) as _change_type"), table)


@pytest.mark.parametrize("way", ["true", "false"])
def test_row_ids_are_written_under_the_materialised_names(
    spark: SparkSession, table: str, way: str, defaults: Callable[..., None]
) -> None:
    defaults(enableRowTracking="true")
    spark.range(1).write.format("delta").save(table)
    spark.conf.set(CONF, way)
    moved = spark.range(5, 7, 1, 1).selectExpr(
        "id", "if(id = 5, 50L, null) as __tidegate_row_id", "1L as __tidegate_row_commit_version"
    )
    written = _write(moved, table)
    configuration = tidegate.open(table).metadata.configuration
    id_name = configuration["delta.rowTracking.materializedRowIdColumnName"]
    version_name = configuration["delta.rowTracking.materializedRowCommitVersionColumnName"]
    name = written.adds.column("path")[0].as_py()
    assert pq.read_table(f"{table}/{name}", partitioning=None).to_pydict() == {
        "id": [5, 6],
        id_name: [50, None],
        version_name: [1, 1],
    }
    assert spark.read.format("delta").load(table).columns == ["id"]


@pytest.mark.parametrize("setting", [{"randomizeFilePrefixes": "true"}, {"columnMapping__mode": "name"}])
def test_random_prefixes_take_the_place_of_partition_directories(
    spark: SparkSession, table: str, rows: Rows, setting: dict[str, str], defaults: Callable[..., None]
) -> None:
    defaults(**setting, randomPrefixLength="5")
    spark.range(4).selectExpr("id", "id % 2 as p").write.format("delta").partitionBy("p").save(table)
    paths = tidegate.open(table).files().column("path").to_pylist()
    assert all(re.match(r"[A-Za-z0-9]{5}/part-", p) for p in paths)
    assert rows(table, "p = 1") == [(1, 1), (3, 1)]


@pytest.mark.parametrize(("partitions", "below"), [((), ""), (("p",), r"col-[0-9a-f-]{36}=[01]/")])
def test_natively_all_files_of_a_write_lie_below_one_random_prefix_under_column_mapping(
    spark: SparkSession,
    table: str,
    rows: Rows,
    partitions: tuple[str, ...],
    below: str,
    defaults: Callable[..., None],
) -> None:
    defaults(columnMapping__mode="name", randomPrefixLength="5")
    spark.conf.set(CONF, "false")
    frame = spark.range(0, 4, 1, 2).selectExpr("id", "id % 2 as p")
    frame.write.format("delta").partitionBy(*partitions).save(table)
    paths = tidegate.open(table).files().column("path").to_pylist()
    assert all(re.match(rf"[A-Za-z0-9]{{5}}/{below}part-0000[01]-", p) for p in paths)
    assert len({p[:5] for p in paths}) == 1
    assert rows(table, "p = 1") == [(1, 1), (3, 1)]


def test_files_end_at_the_number_of_records_that_was_asked_for(spark: SparkSession, table: str) -> None:
    spark.range(0, 25, 1, 1).write.format("delta").option("maxRecordsPerFile", 10).save(table)
    assert sorted(s["numRecords"] for s in _stats(table)) == [5, 10, 10]


@pytest.mark.parametrize(("codec", "end"), [("zstd", "zstd."), ("gzip", "gz."), ("none", "")])
def test_the_codec_is_in_the_name_and_in_the_file(
    spark: SparkSession, table: str, rows: Rows, codec: str, end: str
) -> None:
    spark.range(0, 3, 1, 1).write.format("delta").option("compression", codec).save(table)
    file = next(Path(table).glob(f"part-*-c000.{end}parquet"))
    found = pq.read_metadata(file).row_group(0).column(0).compression.lower()
    assert found == ("uncompressed" if codec == "none" else codec)
    assert rows(table) == [(0,), (1,), (2,)]


def test_an_unknown_codec_is_refused_before_any_job(spark: SparkSession, table: str) -> None:
    with pytest.raises(OptionError, match="snapy"):
        spark.range(1).write.format("delta").option("compression", "snapy").save(table)
    assert not Path(table).exists()


def test_empty_tasks_add_no_files(spark: SparkSession, table: str) -> None:
    spark.range(0, 4, 1, 4).where("id = 2").write.format("delta").save(table)
    assert [s["numRecords"] for s in _stats(table)] == [1]
    spark.range(0).write.format("delta").mode("append").save(table)
    assert tidegate.open(table).files().num_rows == 1


def test_a_failed_task_takes_its_files_along_and_leaves_the_table(spark: SparkSession, table: str) -> None:
    spark.range(3).write.format("delta").save(table)
    before = sorted(str(p) for p in Path(table).rglob("*.parquet"))
    broken = spark.range(0, 50, 1, 1).withColumn(
        "id", F.when(F.col("id") == 49, F.raise_error(F.lit("boom")).cast("long")).otherwise(F.col("id"))
    )
    with pytest.raises(Exception, match="boom"):
        broken.write.format("delta").mode("append").option("maxRecordsPerFile", 10).save(table)
    assert sorted(str(p) for p in Path(table).rglob("*.parquet")) == before
    assert tidegate.open(table).version == 0


def test_statistics_are_those_of_the_rows(spark: SparkSession, table: str) -> None:
    frame = spark.range(0, 3, 1, 1).selectExpr(
        "id",
        "repeat(cast(id as string), 40) as long",
        "if(id = 1, double('NaN'), -0.0D) as nan",
        "if(id = 1, float('infinity'), 1.5F) as inf",
        "cast(id - 1 as decimal(38, 18)) as dec",
        "timestamp_micros(1700000000123456 + id) as ts",
        "timestamp'9999-12-31 23:59:59.999999' as far",
        "date'0001-01-01' as old",
        "if(id = 0, null, array(id)) as arr",
        "if(id = 2, null, named_struct('x', id, 'y', map('k', id))) as s",
        "cast(null as int) as nothing",
        "id > 1 as flag",
    )
    frame.write.format("delta").save(table)
    (found,) = _stats(table)
    assert found["numRecords"] == 3
    assert found["nullCount"] == {
        "id": 0, "long": 0, "nan": 0, "inf": 0, "dec": 0, "ts": 0, "far": 0, "old": 0,
        "arr": 1, "s": {"x": 1, "y": 1}, "nothing": 3, "flag": 0,
    }  # fmt: skip
    low, high = found["minValues"], found["maxValues"]
    assert (low["id"], high["id"], low["s"]["x"], high["s"]["x"]) == (0, 2, 0, 1)
    assert (low["long"], high["long"]) == ("0" * 32, "2" * 32 + "\x7f")
    assert low["nan"] == 0
    assert "nan" not in high
    assert low["inf"] == 1.5
    assert "inf" not in high
    assert (low["dec"], high["dec"]) == (-1, 1)
    assert (low["ts"], high["ts"]) == ("2023-11-14T22:13:20.123Z", "2023-11-14T22:13:20.123Z")
    assert (high["far"], low["old"]) == ("9999-12-31T23:59:59.999Z", "0001-01-01")
    assert "nothing" not in low
    assert "flag" not in low
    assert "far" in low
    assert spark.read.format("delta").load(table).where("far > '9999-01-01'").count() == 3


@pytest.mark.parametrize("way", ["true", "false"])
def test_the_tables_properties_say_which_columns_have_statistics(
    spark: SparkSession, table: str, way: str, defaults: Callable[..., None]
) -> None:
    spark.conf.set(CONF, way)
    defaults(dataSkippingStatsColumns="c,s.y", dataSkippingStringPrefixLength="3")
    frame = spark.range(0, 2, 1, 1).selectExpr(
        "id as a", "'abcdefgh' as c", "named_struct('x', id, 'y', timestamp_micros(253402300800000000)) as s"
    )
    frame.write.format("delta").save(table)
    (found,) = _stats(table)
    assert found["nullCount"] == {"c": 0, "s": {"y": 0}}
    assert (found["minValues"]["c"], found["maxValues"]["c"]) == ("abc", "abc\x7f")
    assert spark.read.format("delta").load(table).where("c = 'abcdefgh'").count() == 2


@pytest.mark.parametrize("column", ["_change_type", "__tidegate_row_id"])
def test_data_of_users_may_not_bring_the_columns_by_which_rows_are_routed(
    spark: SparkSession, table: str, column: str
) -> None:
    spark.range(1).write.format("delta").save(table)
    with pytest.raises(SchemaInvalidError, match=column):
        spark.range(1).selectExpr("id", f"'1' as {column}").write.format("delta").mode("append").save(table)
    named = spark.range(1).selectExpr("id", "'insert' as _change_type")
    named.write.format("delta").save(f"{table}-of-changes")
    assert spark.read.format("delta").load(f"{table}-of-changes").first()._change_type == "insert"


def test_a_session_in_another_zone_writes_the_same_instants(spark: SparkSession, table: str) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        frame = spark.range(0, 1, 1, 1).selectExpr(
            "id", "timestamp_micros(1700000000123456) as ts", "timestamp_micros(1700000000123456) as p"
        )
        frame.write.format("delta").partitionBy("p").save(table)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    files = tidegate.open(table).files()
    assert dict(files.column("partitionValues")[0].as_py()) == {"p": "2023-11-14T22:13:20.123456Z"}
    back = spark.read.format("delta").load(table).selectExpr("unix_micros(ts)", "unix_micros(p)")
    assert [tuple(r) for r in back.collect()] == [(1700000000123456, 1700000000123456)]


def test_both_ways_make_the_same_table(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 40, 1, 2).selectExpr(
        "id",
        "id % 3 as p",
        "date_add(date'2024-01-01', cast(id % 2 as int)) as d",
        "cast(id as decimal(20, 3)) as dec",
        "named_struct('a', id, 'b', array(named_struct('c', cast(id as string)))) as s",
    )
    found = []
    for way in ("true", "false"):
        spark.conf.set(CONF, way)
        path = str(tmp_path / way)
        frame.write.format("delta").partitionBy("p", "d").save(path)
        assert [f for f in verify(TableLog.at(path), deep=True).findings if f.severity == "error"] == []
        values = tidegate.open(path).files().column("partitionValues").to_pylist()
        back = spark.read.format("delta").load(path)
        found.append((sorted(map(str, back.collect())), {tuple(v) for v in values}, back.schema))
    assert found[0] == found[1]


def test_delta_rs_reads_what_the_portable_way_wrote(spark: SparkSession, table: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    frame = spark.range(0, 6, 1, 2).selectExpr(
        "id",
        "id % 2 as p",
        "cast(id as decimal(9, 2)) as dec",
        "timestamp_micros(id) as ts",
        "named_struct('a', id, 'l', array(id), 'm', map('k', id)) as s",
    )
    frame.write.format("delta").partitionBy("p").save(table)
    read = pa.table(
        deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table)).execute("select * from t")
    )
    assert sorted(read.column("id").to_pylist()) == [0, 1, 2, 3, 4, 5]
    assert sorted(read.column("dec").to_pylist()) == [Decimal(i) for i in range(6)]
    assert sorted(s["l"][0] for s in read.column("s").to_pylist()) == [0, 1, 2, 3, 4, 5]


def test_a_place_that_lives_in_this_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(TidegateError, match="this process alone"):
        spark.range(1).write.format("delta").save("memory://nowhere/table")


VALUES: list[tuple[st.SearchStrategy[Any], pa.DataType, DataType]] = [
    (st.integers(-(2**63), 2**63 - 1), pa.int64(), LONG),
    (st.text(), pa.string(), STRING),
    (st.dates(), pa.date32(), DATE),
    (st.datetimes(timezones=st.just(timezone.utc)), pa.timestamp("us", "UTC"), TIMESTAMP),
    (st.datetimes(), pa.timestamp("us"), TIMESTAMP_NTZ),
    (st.decimals(-999, 999, places=2), pa.decimal128(5, 2), DecimalType(5, 2)),
    (st.floats(), pa.float64(), DOUBLE),
    (st.booleans(), pa.bool_(), STRING),
]


@given(st.sampled_from(VALUES).flatmap(lambda v: st.tuples(v[0], st.just(v[1]), st.just(v[2]))))
def test_tasks_spell_partition_values_as_the_log_does(case: tuple[Any, pa.DataType, DataType]) -> None:
    value, arrow, kind = case
    expected = serialize(value, kind)
    assert texts(pa.array([value, None], arrow)) == [expected, None]


def test_partition_values_beyond_the_years_of_python_are_spelled_out() -> None:
    far = pa.array([datetime(9999, 12, 31)], pa.timestamp("us", "UTC"))
    later = pc.cast(pc.add(pc.cast(far, pa.int64()), 86_400_000_000), far.type)
    assert texts(later) == ["+10000-01-01T00:00:00.000000Z"]


@pytest.mark.parametrize(
    "value",
    [
        "cast(null as variant)",
        "array(parse_json('1'), null)",
        "named_struct('v', cast(null as variant), 'w', 1)",
        "map('a', parse_json('{\"x\": 1}'), 'b', null)",
    ],
)
def test_variants_that_are_null_are_written_at_every_depth(
    spark: SparkSession, table: str, value: str
) -> None:
    frame = spark.sql(f"select 0 id, {value} v union all select 1, null").coalesce(1)
    expected = [r["j"] for r in frame.selectExpr("id", "to_json(struct(v)) j").orderBy("id").collect()]
    frame.write.format("delta").save(table)
    read = spark.read.format("delta").load(table)
    assert [r["j"] for r in read.selectExpr("id", "to_json(struct(v)) j").orderBy("id").collect()] == expected


@pytest.mark.parametrize("way", ["true", "false"], ids=["portable", "native"])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("date'+40000-01-01'", "+40000-01-01"),
        ("date'-0044-03-15'", "-0044-03-15"),
        ("timestamp'+10000-01-01 00:00:00Z'", "+10000-01-01T00:00:00.000000Z"),
        ("timestamp'-100000-01-01 00:00:00Z'", "-100000-01-01T00:00:00.000000Z"),
        ("timestamp_ntz'+10000-01-01 01:00:00.5'", None),
    ],
)
def test_partitions_of_years_that_python_does_not_have(
    spark: SparkSession, table: str, value: str, text: str | None, way: str
) -> None:
    spark.conf.set(CONF, way)
    for number in range(2):
        frame = spark.sql(f"select {number} id, {value} p, {value} v")
        frame.write.format("delta").mode("append").partitionBy("p").save(table)
    found = tidegate.DeltaTable.forPath(spark, table)
    found.optimize().executeCompaction()
    files = tidegate.open(table).files()
    assert files.num_rows == 1
    if text is not None:
        assert dict(files.column("partitionValues")[0].as_py()) == {"p": text}
    assert "<value" not in files.column("stats")[0].as_py()
    frame = spark.sql(f"select id, {value} p, {value} v from range(5, 7)").coalesce(1)
    frame.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(table)
    found.delete(f"p <> {value} or v <> {value}")
    assert found.toDF().where(f"p = {value} and v = {value}").count() == 2
    found.delete(f"p = {value}")
    assert found.toDF().count() == 0
