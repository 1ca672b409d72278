"""MERGE: clauses in order, both ways of changing files, evolution, feeds, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from support.dml import FEED, WAYS, Meanwhile, confs, feed, last, no_job, sound, tracked, write
from tidegate.errors import (
    ConcurrentAppendException,
    InvariantViolationException,
    MergeInvalidError,
    MultipleMatchesError,
    PredicateError,
    SchemaInvalidError,
)
from tidegate.table.delta import DeltaTable
from tidegate.table.merge import DeltaMergeBuilder

pytestmark = pytest.mark.spark
Rows = Callable[..., list[tuple[Any, ...]]]


def target(spark: SparkSession, path: str, n: int = 10, files: int = 2, **properties: str) -> DeltaTable:
    """Ids from 0 in ranges of files; v is ten times the id."""
    frame = spark.range(n).withColumn("v", F.col("id") * 10).repartitionByRange(files, "id")
    write(frame.sortWithinPartitions("id"), path, properties)
    return DeltaTable.forPath(spark, path).alias("t")


def source(spark: SparkSession, *rows: tuple[Any, ...], columns: str = "id long, v long") -> DataFrame:
    return spark.createDataFrame(list(rows), columns).alias("s")


def upsert(dt: DeltaTable, frame: DataFrame) -> DeltaMergeBuilder:
    return dt.merge(frame, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()


@pytest.mark.parametrize("properties", WAYS)
def test_matches_are_updated_and_the_rest_inserted(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    dt = target(spark, table, **properties)
    done = upsert(dt, source(spark, (3, -3), (42, -42))).execute()
    assert done.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert [tuple(r) for r in done.collect()] == [(2, 1, 0, 1)]
    assert rows(table) == sorted([(i, -3 if i == 3 else i * 10) for i in range(10)] + [(42, -42)])
    info = last(table)
    assert info["operation"] == "MERGE"
    metrics = info["operationMetrics"]
    assert (metrics["numSourceRows"], metrics["numTargetRowsUpdated"]) == ("2", "1")
    assert (metrics["numTargetRowsInserted"], metrics["numTargetRowsDeleted"]) == ("1", "0")
    assert metrics["numTargetRowsCopied"] == ("0" if properties else "4")
    sound(table)


@pytest.mark.parametrize("properties", WAYS)
def test_any_number_of_clauses_is_tried_in_order(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    dt = target(spark, table, **properties, **FEED)
    frame = source(spark, *((i, -i) for i in range(2, 14)))
    done = (
        dt.merge(frame, "t.id = s.id")
        .whenMatchedUpdate("s.v = -2", {"v": "t.v + s.v"})
        .whenMatchedDelete(F.col("t.id") < 5)
        .whenMatchedUpdate("s.id < 8", {"t.v": F.col("s.v") * 100, "id": "t.id"})
        .whenNotMatchedInsert("s.id = 10", {"id": "s.id", "v": "1"})
        .whenNotMatchedInsert("s.id > 11", {"id": "s.id"})
        .whenNotMatchedBySourceUpdate("t.id = 0", {"v": "t.v - 1"})
        .whenNotMatchedBySourceDelete()
        .execute()
    )
    expected = [
        (0, -1),
        (2, 18),
        (5, -500),
        (6, -600),
        (7, -700),
        (8, 80),
        (9, 90),
        (10, 1),
        (12, None),
        (13, None),
    ]
    assert rows(table) == expected
    assert [tuple(r) for r in done.collect()] == [(5 + 3 + 3, 5, 3, 3)]
    changes = feed(spark, table, 1)
    assert [c for c in changes if c[2] == "delete"] == [
        (1, 10, "delete"),
        (3, 30, "delete"),
        (4, 40, "delete"),
    ]
    assert [c for c in changes if c[2] == "insert"] == [
        (10, 1, "insert"), (12, None, "insert"), (13, None, "insert")
    ]  # fmt: skip
    assert [c[:2] for c in changes if c[2] == "update_preimage"] == [
        (0, 0),
        (2, 20),
        (5, 50),
        (6, 60),
        (7, 70),
    ]
    assert [c[:2] for c in changes if c[2] == "update_postimage"] == [
        (0, -1), (2, 18), (5, -500), (6, -600), (7, -700)
    ]  # fmt: skip
    metrics = last(table)["operationMetrics"]
    assert metrics["numTargetRowsNotMatchedBySourceUpdated"] == "1"
    assert metrics["numTargetRowsNotMatchedBySourceDeleted"] == "1"
    assert metrics["numTargetRowsMatchedDeleted"] == "2"
    sound(table)


def test_a_merge_that_only_inserts_rewrites_nothing(spark: SparkSession, table: str, rows: Rows) -> None:
    dt = target(spark, table, **{"delta.appendOnly": "true"}, **FEED)
    before = set(tidegate.open(table).files().column("path").to_pylist())
    frame = source(spark, (1, 0), (11, 110), (12, 120), (None, 7))
    dt.merge(frame, "t.id = s.id").whenNotMatchedInsertAll("s.v <> 120").execute()
    after = set(tidegate.open(table).files().column("path").to_pylist())
    assert before < after
    assert rows(table, "id is null") == [(None, 7)]
    assert len(rows(table, "id is not null")) == 11
    assert feed(spark, table, 1, key=str) == [(11, 110, "insert"), (None, 7, "insert")]


def test_only_files_that_change_are_touched(spark: SparkSession, table: str) -> None:
    dt = target(spark, table, n=40, files=4)
    before = set(tidegate.open(table).files().column("path").to_pylist())
    upsert(dt, source(spark, (1, 5), (39, 6), (100, 1))).execute()
    metrics = last(table)["operationMetrics"]
    assert metrics["numTargetFilesRemoved"] == "2"
    assert len(before & set(tidegate.open(table).files().column("path").to_pylist())) == 2
    dt.merge(source(spark, (5, 5)), "t.id = s.id").whenMatchedUpdateAll("s.v > 5").execute()
    assert tidegate.open(table).version == 1


@pytest.mark.parametrize("properties", WAYS)
def test_several_matches_of_one_row_are_refused(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    dt = target(spark, table, **properties)
    frame = source(spark, (3, 1), (3, 2), (3, 3), (50, 4))
    merging = dt.merge(frame, "t.id = s.id")
    with pytest.raises(MultipleMatchesError) as caught:
        merging.whenMatchedUpdateAll().execute()
    assert caught.value.errorClass == "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    with pytest.raises(MultipleMatchesError):
        merging.whenMatchedDelete("s.v < 3").execute()
    # One of them acts: then it is clear what is to happen, and the row is there once.
    merging.whenMatchedUpdate("s.v = 2", {"v": "s.v"}).execute()
    assert rows(table, "id = 3") == [(3, 2)]
    # All of them delete: it does not matter how many there are.
    done = merging.whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert [tuple(r) for r in done.collect()] == [(2, 0, 1, 1)]
    assert len(rows(table)) == 10


def test_one_source_row_may_match_many(spark: SparkSession, table: str, rows: Rows) -> None:
    dt = target(spark, table)
    frame = source(spark, (4, 7))
    dt.merge(frame, "t.id < s.id and t.id >= 2").whenMatchedUpdate(set={"v": "s.v"}).execute()
    assert rows(table, "v = 7") == [(2, 7), (3, 7)]
    dt.merge(frame, "false").whenNotMatchedInsertAll().execute()
    assert len(rows(table)) == 11


def test_null_keys_match_only_where_asked_for(spark: SparkSession, table: str, rows: Rows) -> None:
    write(source(spark, (1, 10), (None, 20)), table, {})
    dt = DeltaTable.forPath(spark, table).alias("t")
    frame = source(spark, (None, -1))
    dt.merge(frame, "t.id = s.id").whenMatchedDelete().execute()
    assert spark.read.format("delta").load(table).count() == 2
    dt.merge(frame, "t.id <=> s.id").whenMatchedUpdateAll().execute()
    assert spark.read.format("delta").load(table).where("id is null").collect()[0].v == -1


def test_names_are_found_without_regard_to_case_and_sources_without_alias(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    dt = target(spark, table)
    frame = spark.createDataFrame([(3, -3), (77, 1)], "KEY long, V long")
    dt.merge(frame, "ID = key").whenMatchedUpdate(set={"T.v": frame["V"]}).whenNotMatchedInsert(
        values={"ID": "key", "v": F.col("V")}
    ).execute()
    assert rows(table, "id in (3, 77)") == [(3, -3), (77, 1)]
    bound = frame.withColumnRenamed("KEY", "id")
    dt.merge(bound, F.col("t.id") == bound["id"]).whenMatchedUpdateAll().execute()
    assert rows(table, "id in (3, 77)") == [(3, -3), (77, 1)]


@pytest.fixture
def evolving(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    yield
    spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")


@pytest.mark.parametrize("properties", WAYS)
def test_new_columns_join_the_table(spark: SparkSession, table: str, properties: dict[str, str]) -> None:
    dt = target(spark, table, n=3, **properties, **FEED)
    frame = source(spark, (1, -1, "x"), (9, -9, "y"), columns="id long, v long, extra string")
    upsert(dt, frame).withSchemaEvolution().execute()
    found = spark.read.format("delta").load(table)
    assert found.columns == ["id", "v", "extra"]
    assert sorted(tuple(r) for r in found.collect()) == [
        (0, 0, None),
        (1, -1, "x"),
        (2, 20, None),
        (9, -9, "y"),
    ]
    assert (1, 10, None, "update_preimage") in feed(spark, table, 1, key=str)
    sound(table)


def test_evolution_keeps_what_the_source_lacks(
    spark: SparkSession, table: str, rows: Rows, evolving: None
) -> None:
    dt = target(spark, table, n=3)
    frame = spark.createDataFrame([(1, "n"), (5, "m")], "id long, w string").alias("s")
    upsert(dt, frame).execute()
    assert sorted(rows(table), key=str) == [(0, 0, None), (1, 10, "n"), (2, 20, None), (5, None, "m")]
    dt.merge(frame.withColumn("z", F.lit(1)).alias("s"), "t.id = s.id").whenMatchedUpdate(
        set={"z": "s.z + 1"}
    ).execute()
    assert rows(table, "z is not null") == [(1, 10, "n", 2), (5, None, "m", 2)]


def test_structs_evolve_by_name_and_field(spark: SparkSession, table: str) -> None:
    frame = spark.sql("select 1L id, named_struct('a', 1, 'b', 2) s, 0 keep")
    write(frame, table, {})
    dt = DeltaTable.forPath(spark, table).alias("t")
    new = spark.sql(
        "select 1L id, named_struct('c', 'z', 'a', 10) s union all select 2L, named_struct('c','y','a',5)"
    )
    upsert(dt, new.alias("s")).withSchemaEvolution().execute()
    found = sorted(spark.read.format("delta").load(table).collect())
    assert [(r.id, r.s.a, r.s.b, r.s.c, r.keep) for r in found] == [
        (1, 10, 2, "z", 0), (2, 5, None, "y", None)
    ]  # fmt: skip
    with pytest.raises(SchemaInvalidError):
        dt.merge(new.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"s": "s.s"}).execute()


def test_a_null_struct_of_the_source_leaves_the_fields_it_lacks_at_any_depth(
    spark: SparkSession, table: str
) -> None:
    inner = "named_struct('a', id, 'b', named_struct('c', 'c', 'd', id))"
    write(spark.sql(f"select id, if(id = 2, null, {inner}) n from range(3)"), table, {})
    new = spark.sql(
        "select id, cast(null as struct<a: bigint, b: struct<c: string, e: int>>) n from range(1, 4)"
    )
    dt = DeltaTable.forPath(spark, table).alias("t")
    upsert(dt, new.alias("s")).withSchemaEvolution().execute()
    found = {r.id: r.n for r in spark.read.format("delta").load(table).collect()}
    assert found[1].asDict(recursive=True) == {"a": None, "b": {"c": None, "d": 1, "e": None}}
    assert (found[0].b.d, found[2], found[3]) == (0, None, None)


@pytest.mark.parametrize("properties", WAYS)
def test_partitions_row_ids_generated_columns_and_constraints(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    dt = (
        DeltaTable.create(spark)
        .location(table)
        .addColumn("id", "long")
        .addColumn("p", "int")
        .addColumn("twice", "long", generatedAlwaysAs="id * 2")
        .property("delta.enableRowTracking", "true")
        .property("delta.constraints.small", "id < 1000")
        .partitionedBy("p")
    )
    for key, value in properties.items():
        dt = dt.property(key, value)
    made = dt.execute().alias("t")
    frame = spark.range(8).select("id", (F.col("id") % 2).cast("int").alias("p"))
    frame.write.format("delta").mode("append").save(table)
    before = tracked(spark, table)
    new = spark.createDataFrame([(2, 0), (3, 0), (20, 1)], "id long, p int").alias("s")
    upsert(made, new).execute()
    merged = made.merge(new, "t.id = s.id and t.p = s.p").whenMatchedUpdate(set={"id": "s.id + 100"})
    merged.execute()
    assert rows(table) == [
        (0, 0, 0), (1, 1, 2), (4, 0, 8), (5, 1, 10), (6, 0, 12), (7, 1, 14),
        (102, 0, 204), (103, 0, 206), (120, 1, 240),
    ]  # fmt: skip
    after = tracked(spark, table)
    assert {i: after[i] for i in (0, 1, 4)} == {i: before[i] for i in (0, 1, 4)}
    assert after[102][0] == before[2][0]
    assert after[102][1] > before[2][1]
    assert len({row_id for row_id, _ in after.values()}) == 9
    with pytest.raises(InvariantViolationException):
        made.merge(new, "t.id = s.id + 100").whenMatchedUpdate(set={"id": "5000"}).execute()
    sound(table)


def test_the_table_is_pruned_by_the_keys_of_the_source(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(spark.range(12).withColumn("p", (F.col("id") % 4).cast("int")), table, {}, ["p"])
    dt = DeltaTable.forPath(spark, table).alias("t")

    def append() -> None:
        spark.createDataFrame([(77, 2)], "id long, p int").write.format("delta").mode("append").save(table)

    frame = source(spark, (1, 1), (3, 3), (9, 1), columns="id long, p int")
    Meanwhile(monkeypatch, append)
    # Partition 2 is not read, so what comes to it does not matter.
    dt.merge(frame, "t.id = s.id and t.p = s.p").whenMatchedDelete().execute()
    assert tidegate.open(table).version == 2
    assert spark.read.format("delta").load(table).count() == 10


def test_an_append_that_could_match_conflicts(
    spark: SparkSession, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    dt = target(spark, table)
    Meanwhile(monkeypatch, lambda: source(spark, (50, 1)).write.format("delta").mode("append").save(table))
    with pytest.raises(ConcurrentAppendException):
        dt.merge(source(spark, (49, 0), (51, 0)), "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert len(rows(table)) == 11


def test_a_source_that_changes_each_time_is_read_once(spark: SparkSession, table: str, rows: Rows) -> None:
    dt = target(spark, table, n=4)
    frame = spark.range(8).withColumn("v", (F.rand() * 1_000_000).cast("long")).alias("s")
    upsert(dt, frame.where("v % 2 = 0").alias("s")).execute()
    assert len(rows(table)) == len({r[0] for r in rows(table)})


def test_a_table_may_be_merged_into_itself(spark: SparkSession, table: str, rows: Rows) -> None:
    dt = target(spark, table, n=4)
    upsert(dt, dt.toDF().select((F.col("id") + 2).alias("id"), "v").alias("s")).execute()
    assert rows(table) == [(0, 0), (1, 10), (2, 0), (3, 10), (4, 20), (5, 30)]


@pytest.mark.parametrize(
    ("build", "kind", "name"),
    [
        (lambda m: m, MergeInvalidError, "DELTA_MERGE_MISSING_WHEN"),
        (
            lambda m: m.whenMatchedDelete().whenMatchedUpdateAll(),
            MergeInvalidError,
            "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
        ),
        (
            lambda m: m.whenNotMatchedInsertAll().whenNotMatchedInsertAll("s.id > 1"),
            MergeInvalidError,
            "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
        ),
        (
            lambda m: m.whenNotMatchedBySourceDelete().whenNotMatchedBySourceDelete(),
            MergeInvalidError,
            "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
        ),
        (
            lambda m: m.whenMatchedUpdate(set={"nope": "1"}),
            SchemaInvalidError,
            "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        ),
        (
            lambda m: m.whenMatchedUpdate(set={"v": "1", "t.V": "2"}),
            SchemaInvalidError,
            "DELTA_CONFLICT_SET_COLUMN",
        ),
        (lambda m: m.whenMatchedUpdate(set={"v": "id"}), AnalysisException, "AMBIGUOUS_REFERENCE"),
        (
            lambda m: m.whenNotMatchedInsert(values={"v": "array(s.v)"}),
            AnalysisException,
            "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION",
        ),
        (lambda m: m.whenMatchedDelete("sum(s.id) > 1"), PredicateError, "DELTA_AGGREGATION_NOT_SUPPORTED"),
        (
            lambda m: m.whenMatchedUpdate(set={"v": "max(s.v)"}),
            PredicateError,
            "DELTA_AGGREGATION_NOT_SUPPORTED",
        ),
        (
            lambda m: m.whenMatchedDelete("s.id in (select 1)"),
            PredicateError,
            "DELTA_UNSUPPORTED_SUBQUERY",
        ),
        (
            lambda m: m.whenNotMatchedInsert(values={"id": "t.id"}),
            MergeInvalidError,
            "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        ),
        (
            lambda m: m.whenNotMatchedBySourceDelete("s.v = 1"),
            MergeInvalidError,
            "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_any_job(
    spark: SparkSession, table: str, build: Callable[[Any], Any], kind: type[Exception], name: str
) -> None:
    dt = target(spark, table, n=2, files=1)
    merging = dt.merge(source(spark, (1, 1)), "t.id = s.id")
    with no_job(spark), pytest.raises(kind) as caught:
        build(merging).execute()
    assert isinstance(caught.value, AnalysisException)
    assert name in (getattr(caught.value, "errorClass", None), caught.value.getCondition())
    assert tidegate.open(table).version == 0


def test_star_needs_every_column_unless_the_schema_evolves(spark: SparkSession, table: str) -> None:
    dt = target(spark, table, n=2, files=1)
    frame = spark.createDataFrame([(1,)], "id long").alias("s")
    with pytest.raises(MergeInvalidError):
        dt.merge(frame, "t.id = s.id").whenMatchedUpdateAll().execute()
    with pytest.raises(ValueError, match="set"):
        dt.merge(frame, "t.id = s.id").whenMatchedUpdate("true")
    with pytest.raises(TypeError):
        dt.merge("s", "t.id = s.id")  # type: ignore[arg-type]


@pytest.mark.parametrize("properties", WAYS)
def test_types_widen_with_the_schema_where_the_table_allows_it(
    spark: SparkSession, table: str, properties: dict[str, str]
) -> None:
    frame = spark.sql("select id, cast(id as int) v, array(cast(id as smallint)) a from range(3)")
    write(frame.coalesce(1), table, {**properties, **FEED, "delta.enableTypeWidening": "true"})
    dt = DeltaTable.forPath(spark, table).alias("t")
    wide = spark.sql("select id, id + 5000000000 v, array(70000) a from range(2, 4)").alias("s")
    with confs(spark, typeWidening__allowAutomaticWidening="never"), pytest.raises(ArithmeticException):
        upsert(dt, wide).withSchemaEvolution().execute()
    with pytest.raises(ArithmeticException):
        upsert(dt, wide).execute()
    assert tidegate.open(table).version == 0
    upsert(dt, wide).withSchemaEvolution().execute()
    found = spark.read.format("delta").load(table)
    assert found.dtypes == [("id", "bigint"), ("v", "bigint"), ("a", "array<int>")]
    assert sorted(tuple(r) for r in found.collect()) == [
        (0, 0, [0]),
        (1, 1, [1]),
        (2, 5000000002, [70000]),
        (3, 5000000003, [70000]),
    ]
    before = [(2, 2, [2], "update_preimage")]
    assert [r for r in feed(spark, table, 1) if r[-1] == "update_preimage"] == before
    sound(table)
    # An assignment by name takes the source's column of that name along.
    double = spark.sql("select 1L id, 1.5D v").alias("s")
    dt.merge(double, "t.id = s.id").withSchemaEvolution().whenMatchedUpdate(set={"v": "s.v"}).execute()
    assert dict(spark.read.format("delta").load(table).dtypes)["v"] == "bigint"
