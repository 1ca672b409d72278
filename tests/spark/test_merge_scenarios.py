"""MERGE in many small scenarios: what clauses see, how schemas evolve, and what is refused by which name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from support.dml import FEED, VECTORS, WAYS, feed, last, no_job, sound, tracked, write
from support.session import CONNECT
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
    recent = source.where("one in (select now())").alias("s")
    merge = dt.merge(recent, "t.key = s.key and s.one = now()")
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
    "a subquery by the row as a value": (
        lambda m: m.whenMatchedUpdate(set={"value": "(select max(id) from range(3) where id = s.key)"}),
        "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_CORRELATED_SCALAR_SUBQUERY",
    ),
    "EXISTS as a value": (
        lambda m: m.whenNotMatchedInsert(values={"value": "cast(exists (select 1) as int)"}),
        "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_IN_EXISTS_SUBQUERY",
    ),
    "an aggregate by source": (
        lambda m: m.whenNotMatchedBySourceDelete("max(t.key) > 1"),
        "DELTA_AGGREGATION_NOT_SUPPORTED",
    ),
    "a value of the source by source": (
        lambda m: m.whenNotMatchedBySourceUpdate(set={"value": "extra"}),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
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


def test_names_that_nobody_has_are_told_before_any_job(spark: SparkSession, table: str) -> None:
    dt = merging(spark, table, spark.sql("select 1 key, map('a', 1) m"))
    source, other = spark.sql("select 1 key, 2 extra").alias("s"), spark.sql("select 1 key, 3 more")
    merge = dt.merge(source, "t.key = s.key")
    wrong = {
        "search": dt.merge(source, "t.key = s.nope").whenMatchedDelete(),
        "matched": merge.whenMatchedDelete("nope > 1"),
        "evolving": merge.whenMatchedUpdate(set={"key": "s.nope"}).withSchemaEvolution(),
        "a key of a map": merge.whenMatchedUpdate(set={"key": "t.m[nope]"}),
        "of the other side": merge.whenNotMatchedInsertAll("t.key = 1"),
        "foreign": dt.merge(source, F.col("t.key") == other["more"]).whenMatchedDelete(),
        "foreign value": merge.whenMatchedUpdate(set={"key": other["more"]}),
    }
    found = {}
    with no_job(spark):
        for name, refused in wrong.items():
            with pytest.raises(AnalysisException) as caught:
                refused.execute()
            found[name] = getattr(caught.value, "errorClass", None) or caught.value.getCondition()
            if name == "search":
                assert "key, m, key, extra" in str(caught.value)
    # Spark Connect looks for the frame of a column first, and tells of it in its own words.
    foreign = (
        "CANNOT_RESOLVE_DATAFRAME_COLUMN" if CONNECT else "DELTA_MERGE_RESOLVED_ATTRIBUTE_MISSING_FROM_INPUT"
    )
    unknown = "DELTA_MERGE_UNRESOLVED_EXPRESSION"
    assert found == {name: foreign if name.startswith("foreign") else unknown for name in wrong}


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


# By the type of the column and the value that comes: what is stored, or the name of the refusal.
STRICT: dict[tuple[str, str], Any] = {
    ("long", "1"): 1,
    ("string", "1"): "1",
    ("struct<a: bigint, b: bigint>", "named_struct('b', 1, 'a', 2)"): (2, 1),
    ("array<bigint>", "array(1)"): [1],
    ("int", "null"): None,
    ("int", "1L"): "CANNOT_UP_CAST_DATATYPE",
    ("boolean", "'true'"): "CANNOT_UP_CAST_DATATYPE",
    ("array<struct<a: int>>", "array(named_struct('a', 1L))"): "CANNOT_UP_CAST_DATATYPE",
    ("struct<a: int>", "named_struct('c', 1)"): "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION",
}


@pytest.fixture
def policy(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    yield lambda name: spark.conf.set("spark.sql.storeAssignmentPolicy", name)
    spark.conf.unset("spark.sql.storeAssignmentPolicy")


def test_the_policy_strict_takes_what_always_fits_and_no_more(
    spark: SparkSession, table: str, policy: Callable[[str], None]
) -> None:
    columns = [f"cast(null as {kind}) c{i}" for i, (kind, _) in enumerate(STRICT)]
    dt = merging(spark, table, spark.sql(f"select 1 key, {', '.join(columns)}"))
    policy("STRICT")
    fits = {}
    for i, ((_, value), expected) in enumerate(STRICT.items()):
        if isinstance(expected, str) and expected != "1":
            source = spark.sql(f"select 1 key, {value} c{i}").alias("s")
            merge = dt.merge(source, "t.key = s.key").whenMatchedUpdate(set={f"c{i}": f"s.c{i}"})
            for refused in (merge.execute, lambda i=i, value=value: dt.update(set={f"c{i}": value})):
                with pytest.raises(AnalysisException) as caught:
                    refused()
                assert caught.value.errorClass == expected
        else:
            fits[f"c{i}"] = value
    source = spark.sql(f"select 1 key, {', '.join(f'{v} {c}' for c, v in fits.items())}").alias("s")
    # A column that joins the table is of the source's own type.
    merge = dt.merge(source.withColumn("extra", F.lit(1)).alias("s"), "t.key = s.key")
    merge.whenMatchedUpdateAll().withSchemaEvolution().execute()
    found = spark.read.format("delta").load(table).select(*fits, "extra").collect()
    wanted = [v for v in STRICT.values() if not isinstance(v, str) or v == "1"]
    assert [tuple(r) for r in found] == [(*wanted, 1)]


def test_the_policy_legacy_cuts_off_what_does_not_fit(
    spark: SparkSession, table: str, policy: Callable[[str], None]
) -> None:
    columns = "key int, n int, m int, l array<struct<a: int>>"
    dt = merging(spark, table, values(spark, columns, (1, 1, 1, None), (2, 2, 2, None)))
    source = spark.sql("select 1 key, 3000000000L n, 'x' m, array(named_struct('a', 3000000000L)) l").alias(
        "s"
    )
    policy("LEGACY")
    dt.merge(source, "t.key = s.key").whenMatchedUpdateAll().execute()
    dt.update("key = 2", {"n": "3000000000L", "m": "'y'"})
    wrapped = 3000000000 - (1 << 32)
    found = sorted(tuple(r) for r in spark.read.format("delta").load(table).collect())
    assert found == [(1, wrapped, None, [(wrapped,)]), (2, wrapped, None, None)]
    # Conditions and what is computed keep to the session's mode.
    with pytest.raises(PySparkException):
        dt.update("key = 2", {"m": "cast('y' as int)"})


# Where names differ by their case: what is told, on a table of key, value and n.a.
BY_CASE: dict[str, tuple[str, Callable[[DeltaMergeBuilder], DeltaMergeBuilder], str]] = {
    "a column that is set": (
        "key, value",
        lambda m: m.whenMatchedUpdate(set={"Value": "s.value"}),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "a field that is set": (
        "key, value",
        lambda m: m.whenMatchedUpdate(set={"n.A": "s.value"}),
        "FIELD_NOT_FOUND",
    ),
    "the alias before it": (
        "key, value",
        lambda m: m.whenMatchedUpdate(set={"T.value": "s.value"}),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "a value": (
        "key, value",
        lambda m: m.whenMatchedUpdate(set={"value": "s.Value"}),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "a condition": (
        "key, value",
        lambda m: m.whenMatchedDelete("t.Value = 1"),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "a column of the source": (
        "key, value as Value, n",
        lambda m: m.whenMatchedUpdateAll(),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "a column of the source that may join": (
        "key, value as Value",
        lambda m: m.whenMatchedUpdateAll().withSchemaEvolution(),
        "DELTA_MISSING_SET_COLUMN",
    ),
    "two columns of the source": (
        "key, value, value as Value",
        lambda m: m.whenMatchedUpdateAll().withSchemaEvolution(),
        "DELTA_DUPLICATE_COLUMNS_FOUND.DATA",
    ),
}


def test_names_are_told_apart_by_their_case_where_the_session_does(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    dt = merging(spark, table, spark.sql("select 1 key, 2 value, named_struct('a', 3) n"))
    found = {}
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        for name, (columns, build, _) in BY_CASE.items():
            source = spark.sql(f"select {columns} from values (1, 4, named_struct('a', 5)) x(key, value, n)")
            with pytest.raises(AnalysisException) as caught:
                build(dt.merge(source.alias("s"), "t.key = s.key")).execute()
            found[name] = getattr(caught.value, "errorClass", None) or caught.value.getCondition()
        with pytest.raises(AnalysisException):
            dt.update(set={"Value": "1"})
        # Fields of structs find each other whatever their case.
        source = spark.sql("select 1 key, 6 value, named_struct('A', 7) n").alias("s")
        dt.merge(source, "t.key = s.key").whenMatchedUpdateAll().withSchemaEvolution().execute()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert found == {name: told for name, (_, _, told) in BY_CASE.items()}
    assert rows(table) == [(1, 6, (7,))]


def test_nulls_without_a_type_take_the_type_of_the_table_or_join_without_one(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    have = "1 key, named_struct('a', 1, 'b', 5) n, array(1) l, named_struct('a', 1) m"
    dt = merging(spark, table, spark.sql(f"select {have}"))
    comes = "named_struct('a', 2, 'b', null) n, array(null) l, named_struct('a', 2, 'c', null) m, null extra"
    source = spark.sql(f"select key, {comes} from values (1), (2) x(key)").alias("s")
    merge = dt.merge(source, "t.key = s.key").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    merge.withSchemaEvolution().execute()
    assert spark.read.format("delta").load(table).schema.simpleString() == (
        "struct<key:int,n:struct<a:int,b:int>,l:array<int>,m:struct<a:int,c:void>,extra:void>"
    )
    shown = [(key, (2, None), [None], (2, None), None) for key in (1, 2)]
    assert rows(table) == shown
    # A type comes with the first values.
    typed = spark.sql("select 1 key, named_struct('a', 3, 'c', 'x') m").alias("s")
    dt.merge(typed, "t.key = s.key").whenMatchedUpdateAll().withSchemaEvolution().execute()
    assert rows(table, "key = 1") == [(1, (2, None), [None], (3, "x"), None)]
    for column, told in (
        ("array(named_struct('z', null)) q", "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE"),
        ("map('z', null) q", "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE"),
    ):
        merge = dt.merge(spark.sql(f"select 1 key, {column}").alias("s"), "t.key = s.key")
        with pytest.raises(AnalysisException) as caught:
            merge.whenMatchedUpdateAll().withSchemaEvolution().execute()
        assert caught.value.errorClass == told


def test_the_metrics_tell_apart_what_each_kind_of_clause_did(spark: SparkSession, table: str) -> None:
    write(spark.range(0, 100, 1, 5).selectExpr("id key", "id value"), table, VECTORS)
    source = spark.range(50, 150).selectExpr("id key", "id value").alias("s")
    merge = DeltaTable.forPath(spark, table).alias("t").merge(source, "t.key = s.key")
    merge = merge.whenMatchedDelete("t.key < 60").whenMatchedUpdate("s.key < 80", {"value": "1"})
    merge = merge.whenNotMatchedInsertAll("s.key < 120").whenNotMatchedBySourceDelete("t.key < 10")
    merge.whenNotMatchedBySourceUpdate("t.key < 30", {"value": "2"}).execute()
    metrics = last(table)["operationMetrics"]
    # The numbers that delta-spark gives.
    assert {k: int(v) for k, v in metrics.items() if "Rows" in k} == {
        "numSourceRows": 100,
        "numTargetRowsInserted": 20,
        "numTargetRowsUpdated": 40,
        "numTargetRowsMatchedUpdated": 20,
        "numTargetRowsNotMatchedBySourceUpdated": 20,
        "numTargetRowsDeleted": 20,
        "numTargetRowsMatchedDeleted": 10,
        "numTargetRowsNotMatchedBySourceDeleted": 10,
        "numTargetRowsCopied": 0,
        "numOutputRows": 60,
    }


@pytest.mark.parametrize("properties", WAYS)
def test_clauses_of_every_kind_set_other_columns_and_rows_keep_their_ids(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    made = DeltaTable.create(spark).location(table).addColumn("id", "long", nullable=False)
    made = made.addColumn("old", "string", nullable=False).addColumn("n", "struct<a: int, c: int>")
    for key, value in {**properties, **FEED, "delta.enableRowTracking": "true"}.items():
        made = made.property(key, value)
    dt = made.execute().alias("t")
    frame = spark.sql("select id, 'o' old, named_struct('a', 1, 'c', 2) n from range(1, 7)")
    frame.coalesce(1).write.format("delta").mode("append").save(table)
    before = tracked(spark, table)
    columns = "id, 's' old, concat('x', id) new, named_struct('a', 10, 'b', 20, 'c', 30) n"
    source = spark.sql(f"select {columns} from range(1, 10) where id not in (4, 5)").alias("s")
    merge = dt.merge(source, "t.id = s.id").withSchemaEvolution()
    merge = merge.whenMatchedUpdate("s.id = 1", {"old": "s.new"}).whenMatchedUpdateAll("s.id = 2")
    merge = merge.whenMatchedDelete("s.id = 3")
    merge = merge.whenNotMatchedInsert("s.id = 7", {"id": "s.id", "old": "'i'"})
    merge = merge.whenNotMatchedInsertAll("s.id = 8").whenNotMatchedBySourceDelete("t.id = 4")
    merge.whenNotMatchedBySourceUpdate("t.id = 5", {"old": "'b'"}).execute()
    was, new = (1, 2, None), (10, 30, 20)
    assert rows(table) == [
        (1, "x1", was, None), (2, "s", new, "x2"), (5, "b", was, None), (6, "o", was, None),
        (7, "i", None, None), (8, "s", new, "x8"),
    ]  # fmt: skip
    assert feed(spark, table, 2, key=lambda r: (r[0], r[-1])) == [
        (1, "x1", was, None, "update_postimage"), (1, "o", was, None, "update_preimage"),
        (2, "s", new, "x2", "update_postimage"), (2, "o", was, None, "update_preimage"),
        (3, "o", was, None, "delete"), (4, "o", was, None, "delete"),
        (5, "b", was, None, "update_postimage"), (5, "o", was, None, "update_preimage"),
        (7, "i", None, None, "insert"), (8, "s", new, "x8", "insert"),
    ]  # fmt: skip
    after = tracked(spark, table)
    assert {i: after[i] for i in (1, 2, 5)} == {i: (before[i][0], 2) for i in (1, 2, 5)}
    assert after[6] == before[6]
    highest = max(row_id for row_id, _ in before.values())
    assert all(after[i][0] > highest and after[i][1] == 2 for i in (7, 8))
    assert last(table)["tags"] == {"delta.rowTracking.preserved": "true"}
    sound(table)


@pytest.mark.parametrize("properties", WAYS)
def test_a_row_that_several_rows_delete_is_told_once(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    dt = merging(spark, table, values(spark, "v int", (0,), (1,), (1,), (2,), (9,)), **properties, **FEED)
    source = values(spark, "a int, b int", (1, 10), (1, 11), (3, 2), (3, 2)).alias("s")
    merge = dt.merge(source, "t.v = s.a").whenMatchedDelete()
    # What comes is a row of its own, though it looks like one that is there.
    done = [merge.whenNotMatchedInsert(values={"v": "s.b"}).execute().collect()[0]]
    for condition in ("t.v > 5", "s.a < 9"):
        done.append(dt.merge(source, condition).whenMatchedDelete().execute().collect()[0])
    assert [tuple(r) for r in done] == [(4, 0, 2, 2), (1, 0, 1, 0), (4, 0, 4, 0)]
    told = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    changes = told.load(table).select("_commit_version", "v", "_change_type").collect()
    assert sorted(tuple(r) for r in changes) == [
        (1, 1, "delete"), (1, 1, "delete"), (1, 2, "insert"), (1, 2, "insert"), (2, 9, "delete"),
        (3, 0, "delete"), (3, 2, "delete"), (3, 2, "delete"), (3, 2, "delete"),
    ]  # fmt: skip
    assert rows(table) == []


def test_values_of_other_types_and_names_with_dots_fit_into_what_the_table_has(
    spark: SparkSession, table: str
) -> None:
    have = (
        "cast(1 as tinyint) key, cast(5 as smallint) `a.b`, map(named_struct('a', 1, 'b', 2), 3) m, "
        "array(named_struct('at', 'x', 'w', 'w', 'l', 'l')) o"
    )
    dt = merging(spark, table, spark.sql(f"select {have}"))
    comes = (
        "7 `a.b`, map(named_struct('b', '30', 'a', 10), '1') m, 'new' `c.d`, "
        "transform(sequence(1, 40), i -> named_struct('w', cast(null as string), 'at', string(i % 30))) o"
    )
    source = spark.sql(f"select key, {comes} from values (1), (2) x(key)").alias("s")
    merge = dt.merge(source, "t.key = s.key").withSchemaEvolution().whenNotMatchedInsertAll()
    merge.whenMatchedUpdate("`t`.`a.b` = 5", {"`a.b`": "s.`a.b` + 1", "o": "array_union(s.o, s.o)"}).execute()
    found = spark.read.format("delta").load(table).orderBy("key").collect()
    assert [(r.key, r["a.b"], r["c.d"], len(r.o), tuple(r.o[0])) for r in found] == [
        (1, 8, None, 30, ("1", None, None)), (2, 7, "new", 40, ("1", None, None))
    ]  # fmt: skip
    assert [[(tuple(k), v) for k, v in r.m.items()] for r in found] == [[((1, 2), 3)], [((10, 30), 1)]]
    types = dict(spark.read.format("delta").load(table).dtypes)
    assert (types["key"], types["a.b"]) == ("tinyint", "smallint")


BY_NAME = {
    "update of a column": ("update", {"v": "s.v", "l": "s.l"}),
    "update of all": ("update", None),
    "insert of columns": ("insert", {"key": "s.key", "v": "s.v", "l": "s.l"}),
    "insert of all": ("insert", None),
}


@pytest.mark.parametrize("form", BY_NAME)
def test_fields_find_each_other_by_name_at_every_depth_without_evolution(
    spark: SparkSession, table: str, form: str
) -> None:
    have = (
        "key, named_struct('a', named_struct('x', 1, 'y', 2), 'b', 1) v, "
        "array(named_struct('a', named_struct('y', 2, 'x', array(named_struct('c', 1, 'd', 3))), 'b', 1)) l"
    )
    several = "array(named_struct('d', '30', 'c', 10), named_struct('d', '40', 'c', 3))"
    comes = (
        "named_struct('b', '2', 'a', named_struct('y', 20, 'x', 10)) v, "
        f"array(named_struct('b', '2', 'a', named_struct('y', 20, 'x', {several}))) l"
    )
    dt = merging(spark, table, spark.sql(f"select {have} from values (1) k(key)"))
    kind, values = BY_NAME[form]
    source = spark.sql(f"select {1 if kind == 'update' else 2} key, {comes}").alias("s")
    merge = dt.merge(source, "t.key = s.key")
    if values is None:
        merge = merge.whenMatchedUpdateAll() if kind == "update" else merge.whenNotMatchedInsertAll()
    elif kind == "update":
        merge = merge.whenMatchedUpdate(set=values)
    else:
        merge = merge.whenNotMatchedInsert(values=values)
    merge.execute()
    frame = spark.read.format("delta").load(table)
    assert frame.select("v", "l").schema.simpleString() == (
        "struct<v:struct<a:struct<x:int,y:int>,b:int>,"
        "l:array<struct<a:struct<y:int,x:array<struct<c:int,d:int>>>,b:int>>>"
    )
    found = {r.key: r[1:] for r in frame.select("key", F.to_json("v"), F.to_json("l")).collect()}
    new = (
        '{"a":{"x":10,"y":20},"b":2}',
        '[{"a":{"y":20,"x":[{"c":10,"d":30},{"c":3,"d":40}]},"b":2}]',
    )
    old = ('{"a":{"x":1,"y":2},"b":1}', '[{"a":{"y":2,"x":[{"c":1,"d":3}]},"b":1}]')
    assert found == ({1: new} if kind == "update" else {1: old, 2: new})
