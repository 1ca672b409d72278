"""Identity columns: rows numbered in the write, unique over tasks and over writers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

import tidegate
from support.dml import feed
from tidegate import DeltaMergeBuilder, DeltaTable
from tidegate.commands.sync_identity import sync_identity
from tidegate.errors import CommitRefusedError, SchemaInvalidError
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.columns import IdentityColumn, identity_columns
from tidegate.spark.write.identity import mark_for, next_value

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


def _create(table: str, *, start: int = 1, step: int = 1, explicit: bool = False, **properties: str) -> None:
    transaction = tidegate.Transaction.begin(table)
    identity = (
        f'{{"delta.identity.start":{start},"delta.identity.step":{step},'
        f'"delta.identity.allowExplicitInsert":{str(explicit).lower()}}}'
    )
    schema = (
        '{"type":"struct","fields":['
        f'{{"name":"Key","type":"long","nullable":true,"metadata":{identity}}},'
        '{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    )
    configuration = {k.replace("_", "."): v for k, v in properties.items()}
    transaction.update_metadata(Metadata(id="1", schema_string=schema, configuration=configuration))
    transaction.commit(operation="CREATE TABLE")


def _mark(table: str) -> int | None:
    return identity_columns(tidegate.open(table).schema)[0].high_water_mark


@pytest.mark.parametrize(("start", "step"), [(1, 1), (100, 10), (-5, -2), (0, 3)])
def test_rows_are_numbered_by_the_sequence_and_go_on_after_the_mark(
    spark: SparkSession, table: str, rows: Rows, start: int, step: int
) -> None:
    _create(table, start=start, step=step)
    for _ in range(2):
        spark.range(0, 10, 1, 4).write.format("delta").mode("append").save(table)
    keys = [r[0] for r in rows(table)]
    assert len(set(keys)) == 20
    assert all((k - start) % step == 0 and (k - start) // step >= 0 for k in keys)
    assert _mark(table) == (max(keys) if step > 0 else min(keys))


def test_one_partition_is_numbered_without_gaps(spark: SparkSession, table: str, rows: Rows) -> None:
    _create(table)
    spark.range(0, 5, 1, 1).write.format("delta").mode("append").save(table)
    spark.range(5, 7, 1, 1).write.format("delta").mode("append").save(table)
    assert [r[0] for r in rows(table)] == [1, 2, 3, 4, 5, 6, 7]


def test_rows_behind_a_shuffle_have_numbers_of_their_own(spark: SparkSession, table: str, rows: Rows) -> None:
    _create(table, delta_columnMapping_mode="name")
    shuffled = spark.range(50).selectExpr("id % 25 AS id").distinct()
    shuffled.write.format("delta").mode("append").save(table)
    keys = [r[0] for r in rows(table)]
    assert len(set(keys)) == 25
    assert _mark(table) == max(keys)


def test_values_for_a_column_that_is_always_generated_are_refused(spark: SparkSession, table: str) -> None:
    _create(table)
    with pytest.raises(CommitRefusedError) as caught:
        spark.range(1).selectExpr("id AS key", "id").write.format("delta").mode("append").save(table)
    assert caught.value.errorClass == "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"
    assert tidegate.open(table).version == 0


def test_values_may_be_given_where_they_are_generated_by_default(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    _create(table, explicit=True)
    spark.range(1).selectExpr("50L AS key", "id").write.format("delta").mode("append").save(table)
    assert _mark(table) is None
    spark.range(0, 2, 1, 1).write.format("delta").mode("append").save(table)
    assert [r[0] for r in rows(table)] == [1, 2, 50]


def test_the_portable_way_numbers_too(spark: SparkSession, table: str, rows: Rows) -> None:
    _create(table)
    writer = spark.range(0, 6, 1, 3).write.format("delta").mode("append")
    writer.option("tidegate.write.portable", True).save(table)
    keys = [r[0] for r in rows(table)]
    assert len(set(keys)) == 6
    assert _mark(table) == max(keys)


def test_writers_at_once_never_give_a_number_twice(spark: SparkSession, table: str, rows: Rows) -> None:
    _create(table)

    def append(n: int) -> None:
        spark.range(n * 10, n * 10 + 10, 1, 2).write.format("delta").mode("append").save(table)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    found = rows(table)
    assert len({r[0] for r in found}) == 40
    assert sorted(r[1] for r in found) == list(range(40))
    assert _mark(table) == max(r[0] for r in found)


def test_an_identity_that_has_run_out_fails_the_write(spark: SparkSession, table: str) -> None:
    _create(table, start=2**63 - 3, step=1)
    with pytest.raises(Exception, match="run out of numbers"):
        spark.range(0, 10, 1, 1).write.format("delta").mode("append").save(table)
    assert tidegate.open(table).version == 0


@pytest.mark.parametrize(
    ("start", "step", "mark", "expected"),
    [
        (1, 1, None, 1),
        (1, 1, 1, 2),
        (1, 10, 15, 21),
        (1, 10, 11, 21),
        (-1, -1, -3, -4),
        (0, -5, -7, -10),
        (5, 1, 2, 5),
    ],
)
def test_the_next_value_lies_beyond_the_mark_and_in_the_sequence(
    start: int, step: int, mark: int | None, expected: int
) -> None:
    assert next_value(IdentityColumn("k", start, step, mark, False)) == expected


@pytest.mark.parametrize(
    ("start", "step", "mark", "last", "expected"),
    [
        (1, 1, None, 50, 50),
        (1, 10, None, 15, 21),
        (1, 10, 31, 15, 31),
        (0, -5, None, -7, -10),
        (10, 1, None, 3, None),
        # Before the first number, which is still to be given.
        (100, 2, None, 99, None),
        (-10, -2, None, -9, None),
        (100, 2, None, 100, 100),
        (100, 2, None, 101, 102),
    ],
)
def test_the_mark_goes_to_the_sequence_at_or_beyond_the_last_value(
    start: int, step: int, mark: int | None, last: int, expected: int | None
) -> None:
    assert mark_for(IdentityColumn("k", start, step, mark, True), last) == expected


@pytest.mark.parametrize(("step", "last"), [(10, 2**63 - 1), (-10, -(2**63))])
def test_a_mark_beyond_all_numbers_is_refused(spark: SparkSession, table: str, step: int, last: int) -> None:
    _create(table, step=step, explicit=True)
    frame = spark.createDataFrame([(last, 0)], "key long, id long")
    frame.write.format("delta").mode("append").save(table)
    with pytest.raises(SchemaInvalidError, match="beyond"):
        sync_identity(spark, TableLog.at(table), "key")
    assert _mark(table) is None


def test_syncing_moves_the_mark_over_values_that_were_given(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    _create(table, explicit=True)
    spark.range(1).selectExpr("50L AS key", "id").write.format("delta").mode("append").save(table)
    assert sync_identity(spark, TableLog.at(table), "KEY") is not None
    assert _mark(table) == 50
    assert sync_identity(spark, TableLog.at(table), "key") is None
    spark.range(0, 1, 1, 1).write.format("delta").mode("append").save(table)
    assert [r[0] for r in rows(table)] == [50, 51]
    with pytest.raises(SchemaInvalidError, match="no identity column"):
        sync_identity(spark, TableLog.at(table), "id")


@pytest.mark.parametrize("way", ["replaceWhere", "merge"])
def test_the_change_feed_tells_the_numbers_that_rows_have(
    spark: SparkSession, table: str, rows: Rows, way: str
) -> None:
    _create(table, start=1, step=2, explicit=way == "merge", delta_enableChangeDataFeed="true")
    spark.range(0, 4, 1, 1).write.format("delta").mode("append").save(table)
    before = rows(table)
    if way == "merge":
        spark.range(2, 6, 1, 2).createOrReplaceTempView("coming")
        spark.sql(
            f"MERGE INTO delta.`{table}` t USING coming s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET id = s.id "
            "WHEN NOT MATCHED AND s.id = 4 THEN INSERT (id) VALUES (s.id) "
            "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
        )
        spark.catalog.dropTempView("coming")
    else:
        writer = spark.range(2, 6, 1, 2).write.format("delta").mode("overwrite")
        writer.option("replaceWhere", "id >= 2").save(table)
        explicit = spark.sql("SELECT 7L AS key, 4L AS id").write.format("delta").mode("overwrite")
        with pytest.raises(CommitRefusedError):
            explicit.option("replaceWhere", "id >= 2").save(table)
    found = rows(table)
    keys = [r[0] for r in found]
    assert sorted(r[1] for r in found) == list(range(6))
    assert len(set(keys)) == 6
    assert all(k % 2 == 1 for k in keys)
    assert _mark(table) == max(keys)
    told = feed(spark, table, 2)
    assert {r[:2] for r in told if r[2] == "insert"} == set(found) - set(before)


def _merging(spark: SparkSession, table: str, *source: tuple[int, str]) -> DeltaMergeBuilder:
    frame = spark.createDataFrame(list(source), "id long, v string")
    return DeltaTable.forPath(spark, table).alias("t").merge(frame.alias("s"), "t.id = s.id")


@pytest.mark.parametrize(
    ("start", "step", "given", "mark"),
    [
        # Before the first number, which is still to be given.
        (100, 10, [3, 7], None),
        # Between two numbers of the sequence.
        (5, 5, [6, 1001], 1005),
        (-5, -5, [-6, -1001], -1005),
        # Beyond the last one.
        (1, 10, [2**63 - 2], 2**63 - 7),
    ],
)
def test_the_mark_of_a_merge_that_moves_rows_is_of_the_sequence(
    spark: SparkSession, table: str, rows: Rows, start: int, step: int, given: list[int], mark: int | None
) -> None:
    _create(table, start=start, step=step, explicit=True)
    frame = spark.createDataFrame([(key, i) for i, key in enumerate(given)], "key long, id long")
    frame.coalesce(1).write.format("delta").mode("append").save(table)
    merge = _merging(spark, table, (0, "x"), (9, "y")).whenMatchedUpdate(set={"id": "-1"})
    merge.whenNotMatchedInsert("s.id > 50", {"id": "s.id"}).execute()
    assert rows(table) == sorted((key, i or -1) for i, key in enumerate(given))
    assert _mark(table) == mark


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("feeds", ["true", "false"])
def test_a_merge_numbers_rows_that_it_inserts_without_a_number_and_no_others(
    spark: SparkSession, table: str, rows: Rows, vectors: str, feeds: str
) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (key BIGINT GENERATED BY DEFAULT AS IDENTITY, id BIGINT, v STRING) USING delta "
        "TBLPROPERTIES "
        f"('delta.enableDeletionVectors' = '{vectors}', 'delta.enableChangeDataFeed' = '{feeds}')"
    )
    old = spark.createDataFrame([(None, 1, "a"), (7, 2, "b")], "key long, id long, v string")
    old.coalesce(1).write.format("delta").mode("append").save(table)
    merge = _merging(spark, table, (2, "x"), (8, "w"), (9, "y")).whenMatchedUpdate(set={"v": "s.v"})
    merge = merge.whenNotMatchedInsert("s.id = 8", {"key": "null", "id": "s.id", "v": "s.v"})
    merge.whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"}).execute()
    found = {r.id: (r.key, r.v) for r in spark.read.format("delta").load(table).collect()}
    number = found[9][0]
    assert number is not None
    assert found == {1: (None, "a"), 2: (7, "x"), 8: (None, "w"), 9: (number, "y")}
    mark = _mark(table)
    assert mark is not None
    assert mark >= number
    if feeds == "true":
        changes = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 2)
        told = {(r._change_type, r.key, r.id, r.v) for r in changes.load(table).collect()}
        assert told == {
            ("update_preimage", 7, 2, "b"),
            ("update_postimage", 7, 2, "x"),
            ("insert", None, 8, "w"),
            ("insert", number, 9, "y"),
        }
