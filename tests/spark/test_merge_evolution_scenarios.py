"""Schemas that evolve by MERGE and INSERT, struct by struct and null by null; row ids and feeds beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from support.dml import FEED, VECTORS, WAYS, feed, last, no_job, sound, tracked, write
from tidegate import DeltaTable
from tidegate.errors import InvariantViolationException
from tidegate.table.merge import DeltaMergeBuilder

pytestmark = pytest.mark.spark
Rows = Callable[..., list[tuple[Any, ...]]]
PAIRS = "select * from values (0, 0), (1, 10), (3, 30) v(key, value)"
MAPPED = {"delta.columnMapping.mode": "name"}


def made(spark: SparkSession, path: str, query: str, **properties: str) -> DeltaTable:
    """A new table of one file with the rows of a query, under the alias t."""
    write(spark.sql(query).coalesce(1), path, properties)
    return DeltaTable.forPath(spark, path).alias("t")


def evolving(dt: DeltaTable, source: str, on: str = "t.key = s.key") -> DeltaMergeBuilder:
    """A MERGE of a query's rows by which the schema may evolve."""
    return dt.merge(dt.toDF().sparkSession.sql(source).alias("s"), on).withSchemaEvolution()


def simple(spark: SparkSession, path: str) -> str:
    return spark.read.format("delta").load(path).schema.simpleString()


def condition(caught: pytest.ExceptionInfo[Any]) -> str | None:
    return getattr(caught.value, "errorClass", None) or caught.value.getCondition()


# ---------------------------------------------------------------------------- which columns join


@pytest.mark.deep
def test_a_new_column_has_the_sources_type_whatever_it_is_set_to(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    dt = made(spark, table, PAIRS)
    source = (
        "select * from values (1, 1, 'x', -1, 0), (2, 2, 'yy', -2, 0) v(key, value, extra, other, unused)"
    )
    merge = evolving(dt, source).whenMatchedUpdate(set={"extra": "s.value"})
    merge.whenNotMatchedInsert(values={"key": "s.key", "other": "length(s.extra)"}).execute()
    assert simple(spark, table) == "struct<key:int,value:int,extra:string,other:int>"
    assert rows(table) == [(0, 0, None, None), (1, 10, "1", None), (2, None, None, 2), (3, 30, None, None)]
    # A column of the source that goes into one that is there is no new one.
    dt.merge(
        spark.sql("select 3 key, 7 new").alias("s"), "t.key = s.key"
    ).withSchemaEvolution().whenMatchedUpdate(set={"value": "s.new"}).execute()
    assert rows(table, "key = 3") == [(3, 7, None, None)]


def test_conditions_and_clauses_by_source_add_no_column(spark: SparkSession, table: str, rows: Rows) -> None:
    dt = made(spark, table, PAIRS)
    source = "select * from values (1, 1, 'x'), (2, 2, 'y') v(key, value, extra)"
    merge = evolving(dt, source).whenMatchedDelete("extra = 'x'")
    merge.whenNotMatchedBySourceUpdate("key > 0", {"value": "value + 1"}).execute()
    assert rows(table) == [(0, 0), (3, 31)]
    # Nor do they see one that another clause adds.
    merge = evolving(dt, source.replace("1, 1", "0, 1")).whenMatchedUpdateAll()
    with pytest.raises(AnalysisException) as caught:
        merge.whenNotMatchedBySourceUpdate(set={"extra": "'z'"}).execute()
    assert condition(caught) == "DELTA_MERGE_UNRESOLVED_EXPRESSION"
    merge.whenNotMatchedBySourceUpdate(set={"value": "-1"}).execute()
    assert rows(table) == [(0, 1, "x"), (3, -1, None)]


def test_columns_join_though_no_row_changes(spark: SparkSession, table: str) -> None:
    dt = made(spark, table, PAIRS, **FEED)
    files = tidegate.open(table).files().column("path").to_pylist()
    # The source's column is never null, but rows that are there have no value for it.
    evolving(dt, "select 9 key, 1 value, 5 extra").whenMatchedUpdateAll().execute()
    evolving(dt, "select 9 key, 'x' more where false").whenNotMatchedInsertAll().execute()
    snapshot = tidegate.open(table)
    assert [(f.name, f.nullable) for f in snapshot.schema.fields[2:]] == [("extra", True), ("more", True)]
    assert (snapshot.version, snapshot.files().column("path").to_pylist()) == (2, files)
    assert feed(spark, table, 1) == feed(spark, table, 2) == []
    assert spark.read.format("delta").load(table).where("extra is null and more is null").count() == 3


def test_fields_join_structs_of_mapped_columns_with_ids_of_their_own(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    dt = made(spark, table, "select 1 key, named_struct('a', 1) n, array(named_struct('a', 1)) l", **MAPPED)
    spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN n TO m")
    comes = "named_struct('n', 2, 'a', 3) m, array(named_struct('b c', 'x', 'a', 5)) l, 7 n"
    evolving(dt, f"select key, {comes} from values (1), (2) v(key)").whenMatchedUpdate(
        set={"m.n": "s.m.n", "l": "s.l", "n": "s.n"}
    ).whenNotMatchedInsertAll().execute()
    assert rows(table) == [(1, (1, 2), [(5, "x")], 7), (2, (3, 2), [(5, "x")], 7)]
    found = [f.metadata["delta.columnMapping.id"] for _, f in tidegate.open(table).schema.walk()]
    assert len(set(found)) == len(found) == 8
    sound(table)


def test_a_partition_moves_with_a_struct_that_grows(spark: SparkSession, table: str, rows: Rows) -> None:
    query = "select key, 2 part, named_struct('a', key) x from values (1), (2) v(key)"
    write(spark.sql(query), table, {}, ["part"])
    dt = DeltaTable.forPath(spark, table).alias("t")
    source = "select 1 key, 3 PART, named_struct('b', 5, 'A', 4) x"
    evolving(dt, source).whenMatchedUpdateAll().execute()
    assert rows(table) == [(1, 3, (4, 5)), (2, 2, (2, None))]
    assert tidegate.open(table).files("part = 3").num_rows == 1


@pytest.mark.parametrize("properties", WAYS)
def test_a_struct_that_grows_is_null_there_in_rows_that_a_clause_by_source_sets(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    query = "select key, struct(key a, 5 c) n, array(struct(key a)) l from values (1), (2), (3), (4) v(key)"
    dt = made(spark, table, query, **properties)
    comes = "select 1 key, named_struct('a', 9, 'b', 'new') n, array(named_struct('a', 9, 'b', 'new')) l"
    merge = evolving(dt, comes).whenMatchedUpdateAll()
    merge = merge.whenNotMatchedBySourceUpdate("key = 2", {"n": "named_struct('a', 0)", "l": "array(l[0])"})
    merge = merge.whenNotMatchedBySourceUpdate(
        "key = 3", {"n": "named_struct('b', 'x', 'c', 7)", "l": "null"}
    )
    merge.whenNotMatchedBySourceUpdate(set={"n": "n", "l": "l"}).execute()
    assert rows(table) == [
        (1, (9, 5, "new"), [(9, "new")]),
        (2, (0, None, None), [(2, None)]),
        (3, (None, 7, "x"), None),
        (4, (4, 5, None), [(4, None)]),
    ]
    # Without evolution a value has all the fields.
    merge = dt.merge(dt.toDF().alias("s"), "t.key = -1")
    with no_job(spark), pytest.raises(AnalysisException) as caught:
        merge.whenNotMatchedBySourceUpdate(set={"n": "named_struct('a', 0)"}).execute()
    assert condition(caught) == "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"
    sound(table)


# ---------------------------------------------------------------------------- structs that are null

TARGETS = [
    "named_struct('y', named_struct('d', 4, 'e', 5), 'z', 6, 'l', array(named_struct('d', 1, 'e', 2)))",
    "named_struct('y', named_struct('d', 4, 'e', cast(null as int)), 'z', cast(null as int), 'l', null)",
    "null",
]
SOURCES = [
    "named_struct('x', 1, 'y', named_struct('c', 30, 'd', 40), 'l', array(named_struct('c', 3, 'd', 4)))",
    "named_struct('x', null, 'y', null, 'l', array(null))",
    "null",
]
COMES = ['{"y":{"d":40,"c":30},"l":[{"d":4,"c":3}],"x":1}', '{"l":[null]}', None]
# By what is set: what becomes of each of the targets with each of the sources, without fields that are null.
NULLS: dict[str, list[list[str | None]]] = {
    "*": [
        ['{"y":{"d":40,"e":5,"c":30},"z":6,"l":[{"d":4,"c":3}],"x":1}', '{"y":{"e":5},"z":6,"l":[null]}',
         '{"y":{"e":5},"z":6}'],
        [COMES[0], '{"y":{},"l":[null]}', '{"y":{}}'],
        COMES,
    ],
    "col": [COMES, COMES, COMES],
    "col.y": [
        ['{"y":{"d":40,"c":30},"z":6,"l":[{"d":1,"e":2}]}', *['{"z":6,"l":[{"d":1,"e":2}]}'] * 2],
        ['{"y":{"d":40,"c":30}}', "{}", "{}"],
        ['{"y":{"d":40,"c":30}}', "{}", "{}"],
    ],
}  # fmt: skip


@pytest.mark.parametrize("given", NULLS)
def test_a_struct_that_is_null_stays_null_unless_a_field_of_the_table_outlives_it(
    spark: SparkSession, table: str, given: str
) -> None:
    kind = "struct<y: struct<d: int, e: int>, z: int, l: array<struct<d: int, e: int>>>"
    targets = [f"select {i} t, cast({value} as {kind}) col" for i, value in enumerate(TARGETS)]
    pairs = f"({' union all '.join(targets)}) cross join (select explode(array(0, 1, 2)) s)"
    dt = made(spark, table, f"select t * 3 + s key, col from {pairs}")
    kind = "struct<x: int, y: struct<c: int, d: int>, l: array<struct<c: int, d: int>>>"
    sources = [f"select {i} s, cast({value} as {kind}) col" for i, value in enumerate(SOURCES)]
    source = f"select t * 3 + s key, col from ({' union all '.join(sources)}) cross join "
    merge = evolving(dt, f"{source} (select explode(array(0, 1, 2, 3)) t)")
    if given == "*":
        merge = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()
    else:
        merge = merge.whenMatchedUpdate(set={f"t.{given}": f"s.{given}"})
        new = {"key": "s.key", "col": "s.col"}
        merge = merge if given == "col.y" else merge.whenNotMatchedInsert(values=new)
    merge.execute()
    shown = spark.read.format("delta").load(table).select("key", F.to_json("col").alias("col"))
    found = {r.key: r.col for r in shown.collect()}
    inserted = [] if given == "col.y" else [COMES]
    assert [[found.pop(t * 3 + s) for s in range(3)] for t in range(len(found) // 3)] == NULLS[
        given
    ] + inserted


def test_a_struct_without_nulls_takes_none(spark: SparkSession, table: str, rows: Rows) -> None:
    columns = "key INT, col STRUCT<y: INT NOT NULL, z: INT> NOT NULL"
    spark.sql(f"CREATE TABLE delta.`{table}` ({columns}) USING delta")
    spark.sql(f"INSERT INTO delta.`{table}` VALUES (1, struct(2, 3))")
    dt = DeltaTable.forPath(spark, table).alias("t")
    null = "select 1 key, cast(null as struct<x: int>) col"
    lacks = "select 2 key, named_struct('z', 1) col"
    for refused in (
        evolving(dt, null).whenMatchedUpdate(set={"col": "s.col"}),
        evolving(dt, lacks).whenNotMatchedInsertAll(),
        evolving(dt, "select 2 key, 5 w").whenNotMatchedInsertAll(),
    ):
        with pytest.raises(InvariantViolationException) as caught:
            refused.execute()
        assert caught.value.errorClass == "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    # What the source does not have stays what it was, so that this one is not null.
    evolving(dt, null).whenMatchedUpdateAll().execute()
    assert rows(table) == [(1, (2, 3, None))]


# ---------------------------------------------------------------------------- what is refused

REFUSED = {
    "a blank in a name": ("2 `a b`", "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
    "a comma in a field's name": (
        "named_struct('a', 2, 'b,c', 3) n",
        "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
    ),
    "a name of the feed": ("'x' `_change_type`", "RESERVED_CDC_COLUMNS_ON_WRITE"),
}


def test_columns_that_the_table_could_not_have_are_refused_before_any_job(
    spark: SparkSession, table: str
) -> None:
    dt = made(spark, table, "select 1 key, named_struct('a', 1) n", **FEED)
    found = {}
    with no_job(spark):
        for name, (column, _) in REFUSED.items():
            with pytest.raises(AnalysisException) as caught:
                evolving(dt, f"select 1 key, {column}").whenMatchedUpdateAll().execute()
            found[name] = condition(caught)
        # Nor by the other ways into the schema.
        frame = spark.sql("select 2 key, 'x' `_commit_version`")
        with pytest.raises(AnalysisException) as caught:
            frame.write.format("delta").mode("append").option("mergeSchema", "true").save(table)
        assert condition(caught) == "RESERVED_CDC_COLUMNS_ON_WRITE"
        with pytest.raises(AnalysisException) as caught:
            spark.sql(f"ALTER TABLE delta.`{table}` ADD COLUMNS (_commit_timestamp TIMESTAMP)")
        assert condition(caught) == "RESERVED_CDC_COLUMNS_ON_WRITE"
    assert found == {name: told for name, (_, told) in REFUSED.items()}
    assert tidegate.open(table).version == 0


@pytest.mark.parametrize(
    "told", ["DELTA_CONSTRAINT_DATA_TYPE_MISMATCH", "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH"]
)
def test_a_column_that_others_speak_of_keeps_its_type(
    spark: SparkSession, table: str, rows: Rows, told: str
) -> None:
    t = f"delta.`{table}`"
    follows = "GENERATED ALWAYS AS (hash(v, l))" if "GENERATED" in told else ""
    spark.sql(
        f"CREATE TABLE {t} (key INT, v INT, l ARRAY<INT>, w INT, g INT {follows}) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )
    if not follows:
        spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT few CHECK (hash(v) <> 0 AND size(l) < 9)")
    spark.sql(f"INSERT INTO {t} (key, v, l, w) VALUES (1, 2, array(3), 4)")
    dt = DeltaTable.forPath(spark, table).alias("t")
    version = tidegate.open(table).version
    for wider in ("5000000000L v, l", "v, array(5000000000L) l"):
        source = f"select 1 key, {wider} from values (2, array(3)) x(v, l)"
        append = spark.sql(source).write.format("delta").mode("append").option("mergeSchema", "true")
        insert = f"INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME {source}"
        for refused in (
            evolving(dt, source).whenMatchedUpdateAll().execute,
            partial(append.save, table),
            partial(spark.sql, insert),
        ):
            with no_job(spark), pytest.raises(AnalysisException) as caught:
                refused()
            assert condition(caught) == told
    assert tidegate.open(table).version == version
    # Nobody speaks of this one.
    evolving(dt, "select 1 key, 5000000000L w").whenMatchedUpdateAll().execute()
    assert [r[3] for r in rows(table)] == [5000000000]


# ---------------------------------------------------------------------------- INSERT

INSERTED = {
    "by position": (
        "INTO {t} SELECT 2, named_struct('first', 'Bob', 'age', 30), 7 AS more",
        "struct<id:int,info:struct<name:string,age:int>,more:int>",
        [(1, ("Ann", None), None), (2, ("Bob", 30), 7)],
    ),
    "by name": (
        "INTO {t} BY NAME SELECT named_struct('age', 30, 'name', 'Bob') info, 7 more, 2 id",
        "struct<id:int,info:struct<name:string,age:int>,more:int>",
        [(1, ("Ann", None), None), (2, ("Bob", 30), 7)],
    ),
    "no name that is known": (
        "INTO {t} BY NAME SELECT 'b' x",
        "struct<id:int,info:struct<name:string>,x:string>",
        [(1, ("Ann",), None), (None, None, "b")],
    ),
    "in the place of all": (
        "OVERWRITE {t} BY NAME SELECT 2 id, named_struct('age', 30, 'name', 'Bob') info",
        "struct<id:int,info:struct<name:string,age:int>>",
        [(2, ("Bob", 30))],
    ),
    "in the place of some": (
        "INTO {t} REPLACE WHERE id > 1 SELECT 2, named_struct('name', 'Bob', 'age', 30)",
        "struct<id:int,info:struct<name:string,age:int>>",
        [(1, ("Ann", None)), (2, ("Bob", 30))],
    ),
    "a struct that is null": (
        "INTO {t} BY NAME SELECT 2 id, cast(null as struct<age: int, name: string>) info",
        "struct<id:int,info:struct<name:string,age:int>>",
        [(1, ("Ann", None)), (2, None)],
    ),
}


@pytest.mark.parametrize("case", INSERTED)
def test_an_insert_says_itself_that_the_schema_may_evolve(spark: SparkSession, table: str, case: str) -> None:
    made(spark, table, "select 1 id, named_struct('name', 'Ann') info")
    statement, schema, expected = INSERTED[case]
    statement = statement.format(t=f"delta.`{table}`")
    with pytest.raises(AnalysisException):
        spark.sql(f"INSERT {statement}").collect()
    assert tidegate.open(table).version == 0
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION {statement}").collect()
    assert simple(spark, table) == schema
    found = [tuple(r) for r in spark.read.format("delta").load(table).collect()]
    assert sorted(found, key=lambda r: r[0] or 9) == expected


# ---------------------------------------------------------------------------- row ids and feeds


@pytest.mark.parametrize("properties", WAYS)
@pytest.mark.deep
def test_rows_keep_the_ids_that_they_got_when_tracking_began(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    dt = made(spark, table, "select id, id % 4 key, 0 v from range(8)", **properties)
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    before, began = tracked(spark, table), tidegate.open(table).version
    ids = {i: row_id for i, (row_id, _) in before.items()}
    # One row of the source for two of the table each.
    source = spark.sql("select 1L key, 1 v union all select 3, 1").alias("s")
    dt.merge(source, "t.key = s.key").whenMatchedUpdate(set={"v": "s.v"}).execute()
    now = tracked(spark, table)
    assert now == {i: (ids[i], began + 1 if i % 4 in (1, 3) else before[i][1]) for i in range(8)}
    # The rows of the table itself.
    own = spark.read.format("delta").load(table).where("key = 0").selectExpr("id", "2 v").alias("s")
    dt.merge(own, "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"}).execute()
    dt.update("key = 2", {"v": "3"})
    dt.delete("id < 2")
    assert {i: row_id for i, (row_id, _) in tracked(spark, table).items()} == {i: ids[i] for i in range(2, 8)}
    assert last(table)["tags"] == {"delta.rowTracking.preserved": "true"}
    assert [r[2] for r in rows(table)] == [3, 1, 2, 1, 3, 1]
    # An id is never given again.
    dt.delete()
    source = spark.sql("select 5L id, 5L key, 5 v").alias("s")
    dt.merge(source, "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert tracked(spark, table)[5][0] > max(ids.values())
    sound(table)


@pytest.mark.parametrize("properties", [{}, {"delta.feature.rowTracking": "supported"}], ids=["off", "known"])
def test_ids_that_nobody_asked_for_are_not_said_to_be_kept(
    spark: SparkSession, table: str, properties: dict[str, str]
) -> None:
    dt = made(spark, table, PAIRS, **properties)
    source = spark.sql("select 1 key").alias("s")
    for change in (
        lambda: dt.update("key = 0", {"value": "1"}),
        lambda: dt.delete("key = 0"),
        dt.merge(source, "t.key = s.key").whenMatchedUpdate(set={"value": "2"}).execute,
    ):
        change()
        assert (last(table).get("tags") or {}).get("delta.rowTracking.preserved") != "true"
    assert tidegate.open(table).version == 3


@pytest.mark.parametrize("properties", WAYS)
def test_the_feed_tells_rows_that_leave_for_the_partition_of_null(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    frame = spark.sql("select * from values (0, 0), (1, 1), (4, 4) v(key, part)")
    write(frame, table, {**FEED, **properties}, ["part"])
    DeltaTable.forPath(spark, table).update("part = 4", {"part": "null"})
    assert feed(spark, table, 1, key=str) == [(4, 4, "update_preimage"), (4, None, "update_postimage")]
    assert rows(table, "part is null") == [(4, None)]
    sound(table)


def test_a_source_that_fails_leaves_the_table_as_it_was(spark: SparkSession, table: str) -> None:
    dt = made(spark, table, PAIRS, **VECTORS)
    frame = spark.sql("select 1 key, if(id = 3, raise_error('no such thing'), 5) value from range(4)")
    merge = dt.merge(frame.alias("s"), "t.key = s.key").whenMatchedDelete().whenNotMatchedInsertAll()
    with pytest.raises(PySparkException, match="no such thing"):
        merge.execute()
    assert tidegate.open(table).version == 0
