"""MERGE in many small scenarios: what clauses see, how schemas evolve, and what is refused by which name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from support.dml import FEED, WAYS, feed, no_job, sound, write
from tidegate.errors import SchemaInvalidError
from tidegate.table.delta import DeltaTable
from tidegate.table.merge import DeltaMergeBuilder

pytestmark = pytest.mark.spark
Rows = Callable[..., list[tuple[Any, ...]]]


def merging(spark: SparkSession, path: str, frame: DataFrame, **properties: str) -> DeltaTable:
    """A new table of one file with the rows of ``frame``, under the alias t."""
    write(frame.coalesce(1), path, properties)
    return DeltaTable.forPath(spark, path).alias("t")


def values(spark: SparkSession, columns: str, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), columns)


@pytest.mark.parametrize("properties", WAYS)
def test_names_in_clauses_by_source_mean_the_table_though_the_source_has_them_too(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    dt = merging(
        spark,
        table,
        values(spark, "key int, value int", (0, 0), (1, 10), (3, 30), (4, 40)),
        **properties,
        **FEED,
    )
    source = values(spark, "key int, value int", (1, 1), (2, 2)).alias("s")
    merge = dt.merge(source, "t.key = s.key").whenMatchedUpdateAll()
    merge = merge.whenNotMatchedBySourceUpdate("key = 3", {"value": "value + 1", "key": "key + 10"})
    # A row that matches is not asked for a value it will not get.
    merge = merge.whenNotMatchedBySourceUpdate("t.key > 0 and key < 4", {"value": "1 / (key - 1)"})
    merge.whenNotMatchedBySourceDelete("key <> 0").execute()
    assert rows(table) == [(0, 0), (1, 1), (13, 31)]
    assert feed(spark, table, 1) == [
        (1, 1, "update_postimage"),
        (1, 10, "update_preimage"),
        (3, 30, "update_preimage"),
        (4, 40, "delete"),
        (13, 31, "update_postimage"),
    ]


def test_the_current_time_is_one_for_the_whole_statement(spark: SparkSession, table: str) -> None:
    old = spark.sql(
        "select id key, false updated, timestamp_seconds(1) one, timestamp_seconds(2) two from range(3)"
    )
    dt = merging(spark, table, old)
    source = spark.range(6).select(
        F.col("id").alias("key"), F.lit(True).alias("updated"), F.current_timestamp().alias("one")
    )
    set_now = {"key": "s.key", "updated": "s.updated", "one": "s.one", "two": "now()"}
    merge = dt.merge(source.alias("s"), "t.key = s.key and s.one = now()")
    merge = merge.whenMatchedUpdate("s.one = current_timestamp() and t.one < now()", set_now)
    merge.whenNotMatchedInsert("to_date(s.one) = current_date() and s.one = now()", set_now).execute()
    found = spark.read.format("delta").load(table)
    assert found.where("updated and one = two").count() == 6
    assert len({r.one for r in found.collect()}) == 1
    # Rows that Spark holds are what they were.
    kept = source.withColumn("two", F.current_timestamp()).cache()
    before = kept.first()
    assert before is not None
    dt.merge(kept.alias("s"), "t.key = s.key").whenMatchedUpdateAll("s.one < now()").execute()
    assert {r.one for r in spark.read.format("delta").load(table).collect()} == {before.one}
    kept.unpersist()


def test_a_schema_does_not_evolve_to_types_that_do_not_turn_into_each_other(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    dt = merging(spark, table, spark.sql("select 1 key, true flag, 2 n, array(1) a"))
    for column in ("'true' flag", "binary('x') n", "struct(1) a", "array(struct(1)) a", "1 flag"):
        source = spark.sql(f"select 1 key, {column}").alias("s")
        with pytest.raises(SchemaInvalidError) as caught:
            dt.merge(source, "t.key = s.key").whenMatchedUpdateAll().withSchemaEvolution().execute()
        assert isinstance(caught.value, AnalysisException)
        assert caught.value.errorClass == "DELTA_FAILED_TO_MERGE_FIELDS"
    # Without evolution it is a cast like any other.
    source = spark.sql("select 1 key, 'false' flag, '3' n, array('4') a").alias("s")
    dt.merge(source, "t.key = s.key").whenMatchedUpdateAll().execute()
    assert rows(table) == [(1, False, 3, [4])]


# Each on a table and a source that have the key and the value both.
REFUSED: dict[str, tuple[Callable[[DeltaMergeBuilder], DeltaMergeBuilder], str]] = {
    "a field that is not there": (lambda m: m.whenMatchedUpdate(set={"n.c": "1"}), "FIELD_NOT_FOUND"),
    "a field that is not there, by the alias": (
        lambda m: m.whenMatchedUpdate(set={"t.n.c": "1"}),
        "FIELD_NOT_FOUND",
    ),
    "a key of a map": (
        lambda m: m.whenMatchedUpdate(set={"m.a": "1"}),
        "DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE",
    ),
    "a field of elements": (
        lambda m: m.whenMatchedUpdate(set={"t.l.a": "1"}),
        "DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE",
    ),
    "a struct and its field": (
        lambda m: m.whenMatchedUpdate(set={"n.a": "2", "n": "named_struct('a', 3)"}),
        "DELTA_CONFLICT_SET_COLUMN",
    ),
    "a field of a new row": (
        lambda m: m.whenNotMatchedInsert(values={"key": "s.key", "n.a": "1"}),
        "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION",
    ),
    "a number for a struct": (
        lambda m: m.whenMatchedUpdate(set={"n": "1"}),
        "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION",
    ),
    "a condition by chance": (
        lambda m: m.whenMatchedDelete("rand() > 0.5"),
        "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED",
    ),
    "a condition on a name of both": (lambda m: m.whenMatchedDelete("key > 1"), "AMBIGUOUS_REFERENCE"),
    "an aggregate as a new value": (
        lambda m: m.whenNotMatchedInsert(values={"key": "max(s.key)"}),
        "DELTA_AGGREGATION_NOT_SUPPORTED",
    ),
    "a window as a value": (
        lambda m: m.whenMatchedUpdate(set={"value": "row_number() over (order by s.key)"}),
        "DELTA_UNSUPPORTED_EXPRESSION",
    ),
    "a subquery as a value": (
        lambda m: m.whenMatchedUpdate(set={"value": "(select 1)"}),
        "DELTA_UNSUPPORTED_SUBQUERY",
    ),
    "an aggregate by source": (
        lambda m: m.whenNotMatchedBySourceDelete("max(t.key) > 1"),
        "DELTA_AGGREGATION_NOT_SUPPORTED",
    ),
    "a value of the source by source": (
        lambda m: m.whenNotMatchedBySourceUpdate(set={"value": "extra"}),
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    ),
    "a column of the source by source": (
        lambda m: m.whenNotMatchedBySourceUpdate(set={"extra": "'x'"}).withSchemaEvolution(),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "a column that neither has": (
        lambda m: m.whenMatchedUpdate(set={"nope": "s.extra"}).withSchemaEvolution(),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
}


def test_each_mistake_has_its_name_and_costs_no_job(spark: SparkSession, table: str) -> None:
    columns = "1 key, 2 value, named_struct('a', 1) n, map('a', 1) m, array(named_struct('a', 1)) l"
    dt = merging(spark, table, spark.sql(f"select {columns}"))
    source = values(spark, "key int, value int, extra string", (1, 1, "x")).alias("s")
    found = {}
    with no_job(spark):
        for name, (build, _) in REFUSED.items():
            with pytest.raises(AnalysisException) as caught:
                build(dt.merge(source, "t.key = s.key")).execute()
            found[name] = getattr(caught.value, "errorClass", None) or caught.value.getCondition()
    assert found == {name: condition for name, (_, condition) in REFUSED.items()}
    assert dt.history().count() == 1


def test_structs_evolve_in_structs_arrays_and_maps_at_once(spark: SparkSession, table: str) -> None:
    have = (
        "key, named_struct('a', key, 'b', 2) s, named_struct('y', named_struct('a', 1, 'b', 2, 'c', 3)) d, "
        "array(named_struct('a', named_struct('x', 1, 'y', 2), 'b', 1, 'c', 2)) l, "
        "map('k', named_struct('a', 1)) m, map('k', map('i', named_struct('a', 1, 'b', 1))) mm, "
        "map('k', array(named_struct('a', 1, 'b', 2))) ml, map(named_struct('a', 1, 'b', 2), 3) mk, 9 old"
    )
    comes = (
        "key, named_struct('c', 'z', 'a', 10) s, named_struct('y', named_struct('a', 10, 'c', 30)) d, "
        "array(named_struct('b', '2', 'a', named_struct('y', 20, 'x', 10)), null) l, "
        "map('k', named_struct('a', 2, 'b', 3)) m, map('k', map('i', named_struct('a', 2))) mm, "
        "map('k', array(named_struct('b', 6, 'c', 7, 'a', 5))) ml, "
        "map(named_struct('a', 4, 'b', 5, 'c', 6), 7) mk, 'new' extra"
    )
    dt = merging(spark, table, spark.sql(f"select {have} from values (1), (3) v(key)"))
    source = spark.sql(f"select {comes} from values (1), (2) v(key)").alias("s")
    merge = dt.merge(source, "t.key = s.key").withSchemaEvolution()
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    frame = spark.read.format("delta").load(table)
    assert frame.schema.simpleString() == (
        "struct<key:int,s:struct<a:int,b:int,c:string>,d:struct<y:struct<a:int,b:int,c:int>>,"
        "l:array<struct<a:struct<x:int,y:int>,b:int,c:int>>,m:map<string,struct<a:int,b:int>>,"
        "mm:map<string,map<string,struct<a:int,b:int>>>,ml:map<string,array<struct<a:int,b:int,c:int>>>,"
        "mk:map<struct<a:int,b:int,c:int>,int>,old:int,extra:string>"
    )
    shown = frame.select(
        "key", *(F.to_json(c).alias(c) for c in ("s", "d", "l", "m", "mm", "ml")), "mk", "old"
    )
    found = {r.key: r for r in shown.collect()}
    lists = '[{"a":{"x":10,"y":20},"b":2},null]'
    assert found[1][1:3] == ('{"a":10,"b":2,"c":"z"}', '{"y":{"a":10,"b":2,"c":30}}')
    assert found[2][1:3] == ('{"a":10,"c":"z"}', '{"y":{"a":10,"c":30}}')
    assert found[3][1:3] == ('{"a":3,"b":2}', '{"y":{"a":1,"b":2,"c":3}}')
    for key in (1, 2):
        assert found[key][3:7] == (
            lists, '{"k":{"a":2,"b":3}}', '{"k":{"i":{"a":2}}}', '{"k":[{"a":5,"b":6,"c":7}]}'
        )  # fmt: skip
        assert [(tuple(k), v) for k, v in found[key].mk.items()] == [((4, 5, 6), 7)]
    assert found[3].ml == '{"k":[{"a":1,"b":2}]}'
    assert [(tuple(k), v) for k, v in found[3].mk.items()] == [((1, 2, None), 3)]
    assert [found[key].old for key in (1, 2, 3)] == [9, None, 9]
    assert {r.key: r.extra for r in frame.collect()} == {1: "new", 2: "new", 3: None}
    sound(table)


def test_the_source_of_a_statement_may_be_a_common_table_expression(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    merging(spark, table, values(spark, "key int, value int", (1, 10), (2, 20)))
    done = spark.sql(
        f"with two as (select 2 k), c as (select k + 1 as key, 5 as value from two union all select 1, 6) "
        f"merge into delta.`{table}` t using c on t.key = c.key when matched then update set * "
        "when not matched then insert *"
    )
    assert [tuple(r) for r in done.collect()] == [(2, 1, 0, 1)]
    assert rows(table) == [(1, 6), (2, 20), (3, 5)]


def test_a_value_that_does_not_fit_is_refused_without_ansi_mode_too(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    dt = merging(spark, table, spark.sql("select 1 key, 10 value, array(named_struct('a', 1)) l"))
    large = spark.sql("select 1 key, 3000000000L value").alias("s")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for source in ("3000000000L value", "'x' value", "array(named_struct('a', 3000000000L)) l"):
            merge = dt.merge(spark.sql(f"select 1 key, {source}").alias("s"), "t.key = s.key")
            with pytest.raises(PySparkException, match="does not fit into"):
                merge.whenMatchedUpdateAll().withSchemaEvolution().execute()
        with pytest.raises(PySparkException, match="does not fit into value"):
            dt.merge(large, "false").whenNotMatchedInsert(values={"value": "s.value"}).execute()
        with pytest.raises(PySparkException, match="does not fit into value"):
            dt.update(set={"value": "value + 3000000000L"})
        dt.merge(large, "t.key = s.key").whenMatchedUpdate(set={"value": "s.value div 1000"}).execute()
        spark.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
        dt.merge(large, "false").whenNotMatchedInsert(values={"value": "s.value"}).execute()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.unset("spark.sql.storeAssignmentPolicy")
    assert rows(table, "key is not null")[0][1] == 3000000
    assert rows(table, "key is null")[0][1] == 3000000000 - (1 << 32)
