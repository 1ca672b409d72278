"""Clauses of MERGE in many small scenarios: which of them acts, what is refused, read and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from support.dml import FEED, VECTORS, WAYS, Meanwhile, confs, feed, last, no_job, sound, write
from support.session import CONNECT
from tidegate.errors import ConcurrentAppendException, MultipleMatchesError
from tidegate.table.delta import DeltaTable
from tidegate.table.merge import DeltaMergeBuilder

pytestmark = pytest.mark.spark
Row = tuple[Any, ...]


def pairs(spark: SparkSession, *rows: Row, columns: str = "key int, value int") -> DataFrame:
    return spark.createDataFrame(list(rows), columns)


def made(
    spark: SparkSession,
    path: str,
    *rows: Row,
    columns: str = "key int, value int",
    by: list[str] | None = None,
    **properties: str,
) -> DeltaTable:
    """A new table of these rows, under the alias t."""
    write(pairs(spark, *rows, columns=columns).coalesce(1), path, properties, by)
    return DeltaTable.forPath(spark, path).alias("t")


def held(spark: SparkSession, path: str) -> list[Row]:
    """The rows of a table, sorted, nulls last."""
    found = (tuple(r) for r in spark.read.format("delta").load(path).collect())
    return sorted(found, key=lambda row: [(v is None, v or 0) for v in row])


def named(refused: Callable[[], object]) -> str | None:
    """By which name a statement is refused."""
    with pytest.raises(PySparkException) as caught:
        refused()
    name: str | None = getattr(caught.value, "errorClass", None) or caught.value.getCondition()
    return name


@pytest.fixture
def source(spark: SparkSession) -> Iterator[Callable[..., None]]:
    """Makes the view s of rows."""

    def make(*rows: Row, columns: str = "key int, value int") -> None:
        pairs(spark, *rows, columns=columns).createOrReplaceTempView("s")

    yield make
    spark.catalog.dropTempView("s")


# ---------------------------------------------------------------------------- which clause acts

# By what is shown: the source, the table, the condition, the clauses and the rows after them.
ACTING: dict[str, tuple[list[Row], list[Row], str, str, list[Row]]] = {
    "conditions of either side, the first that holds": (
        [(-1, -10), (0, 0), (1, 10), (2, 20), (3, 30), (4, 40), (5, 50)],
        [(-1, -1), (1, 1), (2, 2), (3, 3), (5, 5)],
        "s.key = t.key AND t.value > 0 AND s.key < 5",
        "WHEN MATCHED AND s.key < 2 THEN UPDATE SET value = s.value WHEN MATCHED AND t.key < 3 THEN DELETE "
        "WHEN NOT MATCHED AND s.key > 1 THEN INSERT (t.key, value) VALUES (s.key, s.value)",
        [(-1, -1), (1, 10), (3, 3), (4, 40), (5, 5), (5, 50)],
    ),
    "inserts by the first condition, equal keys each": (
        [(1, 10), (1, 11), (5, 50), (6, 60), (6, 61), (7, 70)],
        [(0, 0), (1, 1)],
        "s.key = t.key",
        "WHEN MATCHED AND t.key = 0 THEN UPDATE SET * WHEN NOT MATCHED AND s.key = 5 THEN INSERT * "
        "WHEN NOT MATCHED AND s.key = 6 THEN INSERT (value, key) VALUES (s.value + 1, s.key)",
        [(0, 0), (1, 1), (5, 50), (6, 61), (6, 62)],
    ),
    "what the condition leaves out has no match": (
        [(0, 0), (1, 1), (2, 2), (5, 5), (6, 6)],
        [(1, 10), (2, 20), (4, 40), (5, 50), (6, 60)],
        "s.key = t.key AND t.key > 4",
        "WHEN MATCHED AND t.key = 5 THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.key = 1 THEN UPDATE "
        "SET t.value = t.value + 1 WHEN NOT MATCHED BY SOURCE AND t.key = 4 THEN DELETE",
        [(1, 11), (2, 20), (6, 60)],
    ),
    "the table becomes the source": (
        [(0, 0), (1, 1), (5, 5)],
        [(2, 20), (1, 10), (5, 50)],
        "s.key = t.key",
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
        [(0, 0), (1, 1), (5, 5)],
    ),
    "every row goes": (
        [(1, 1), (6, 6)],
        [(1, 10), (2, 20)],
        "s.key = t.key",
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE",
        [],
    ),
    "no source": (
        [],
        [(2, 2), (1, 4), (7, 3)],
        "s.key = t.key",
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.key = 2 "
        "THEN UPDATE SET value = t.value + 1 WHEN NOT MATCHED BY SOURCE AND t.key = 7 THEN DELETE",
        [(1, 4), (2, 3)],
    ),
}


@pytest.mark.parametrize("name", ACTING)
def test_the_first_clause_that_holds_acts(
    spark: SparkSession, table: str, source: Callable[..., None], name: str
) -> None:
    comes, have, condition, clauses, expected = ACTING[name]
    turn = list(ACTING).index(name)
    made(spark, table, *have, by=["key"] if turn % 2 else None, **(VECTORS if turn % 3 else {}), **FEED)
    source(*comes)
    spark.sql(f"MERGE INTO delta.`{table}` t USING s ON {condition} {clauses}")
    assert held(spark, table) == expected
    changes = feed(spark, table, 1)
    gone = {r[:2] for r in changes if r[2] in ("delete", "update_preimage")}
    new = [r[:2] for r in changes if r[2] in ("insert", "update_postimage")]
    assert sorted([r for r in have if r not in gone] + new) == expected


NULLS: dict[str, list[Row]] = {
    "s.key = t.key": [(1, 10), (2, 20), (None, 0), (None, None)],
    "s.key <=> t.key": [(1, 10), (2, 20), (None, 0)],
    "s.key = t.key AND NULL": [(1, 1), (1, 10), (2, 20), (None, 0), (None, None)],
}


@pytest.mark.parametrize("condition", NULLS)
def test_nulls_match_where_the_condition_says_so(
    spark: SparkSession, table: str, source: Callable[..., None], condition: str
) -> None:
    made(spark, table, (1, 1), (None, None), by=None if "<=>" in condition else ["key"])
    source((1, 10), (2, 20), (None, 0))
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING s ON {condition} "
        "WHEN MATCHED THEN UPDATE SET value = s.value WHEN NOT MATCHED THEN INSERT *"
    )
    assert held(spark, table) == NULLS[condition]


@pytest.mark.deep
def test_a_condition_may_speak_of_one_side_or_of_none(spark: SparkSession, table: str) -> None:
    dt = made(spark, table, (1, 2), (1, 4), (4, 4), **VECTORS)
    frame = pairs(spark, (7, 8), (0, 3)).alias("s")
    merge = dt.merge(frame, "1 != 1").whenMatchedUpdateAll().whenNotMatchedInsertAll("s.key = 0")
    merge.execute()
    assert held(spark, table) == [(0, 3), (1, 2), (1, 4), (4, 4)]
    dt.merge(frame, "t.key < 3 and s.key = 7").whenMatchedUpdate(set={"value": "s.value"}).execute()
    assert held(spark, table) == [(0, 8), (1, 8), (1, 8), (4, 4)]
    dt.merge(frame.where("key = 7").alias("s"), "1 = 1").whenMatchedUpdateAll().execute()
    assert held(spark, table) == [(7, 8)] * 4
    with pytest.raises(MultipleMatchesError):
        dt.merge(frame, "true").whenMatchedUpdateAll("t.key = 7").execute()


def test_clauses_of_both_kinds_may_stand_mixed_and_may_set_nothing(spark: SparkSession, table: str) -> None:
    dt = made(spark, table, (1, 10), (2, 20))
    frame = pairs(spark, (1, 100), (2, 200), (3, 300), (4, 400), columns="k int, v int")
    new = {"key": "k", "value": "v"}
    # A row that an empty clause takes is not for the next one.
    merge = dt.merge(frame, "k = key").whenMatchedUpdate("key = 1", {}).whenNotMatchedInsert("k = 3", new)
    merge.whenMatchedDelete().whenNotMatchedInsert(values={"value": "v"}).execute()
    assert held(spark, table) == [(1, 10), (3, 300), (None, 400)]


# ---------------------------------------------------------------------------- what is refused


def test_names_that_stand_for_every_column_are_not_names(spark: SparkSession, table: str) -> None:
    merge = made(spark, table, (1, 10)).merge(pairs(spark, (1, 100), columns="k int, v int"), "k = key")
    wrong = {
        "a star beside a name": merge.whenMatchedUpdate(set={"key": "k", "*": "*"}),
        "a star to insert": merge.whenNotMatchedInsert(values={"*": "*"}),
        "a star by source": merge.whenNotMatchedBySourceUpdate(set={"*": "*"}),
    }
    found = {name: named(refused.execute) for name, refused in wrong.items()}
    assert found == dict.fromkeys(wrong, "DELTA_MERGE_UNRESOLVED_EXPRESSION")


# By the statement: the name of the refusal. The table has key and value, the source k, value and one more.
REFUSED: dict[str, str] = {
    "ON s.k = t.key AND rand() > 0.5 WHEN MATCHED THEN DELETE": (
        "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"
    ),
    "ON s.k = t.key AND max(t.key) > 2 WHEN MATCHED THEN DELETE": "DELTA_AGGREGATION_NOT_SUPPORTED",
    "ON row_number() OVER (ORDER BY k) = t.key WHEN MATCHED THEN DELETE": (
        "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE"
    ),
    "ON s.k IN (SELECT 1) WHEN MATCHED THEN DELETE": "DELTA_UNSUPPORTED_SUBQUERY",
    "ON s.k WHEN MATCHED THEN DELETE": "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN",
    "ON s.k = t.key WHEN MATCHED AND row_number() OVER (ORDER BY k) > 1 THEN DELETE": (
        "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE"
    ),
    "ON s.k = t.key WHEN MATCHED THEN UPDATE SET value = value": "AMBIGUOUS_REFERENCE",
    "ON s.k = t.key WHEN MATCHED THEN UPDATE SET k = 1": "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    "ON s.k = t.key WHEN MATCHED THEN UPDATE SET s.value = 1": "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    "ON s.k = t.key WHEN MATCHED THEN UPDATE SET key = 1, t.key = 2": "DELTA_CONFLICT_SET_COLUMN",
    "ON s.k = t.key WHEN NOT MATCHED THEN INSERT (key, key) VALUES (1, 2)": (
        "DELTA_DUPLICATE_COLUMNS_ON_INSERT"
    ),
    "ON s.k = t.key WHEN NOT MATCHED THEN INSERT (k) VALUES (1)": "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    "ON s.k = t.key WHEN NOT MATCHED THEN INSERT (key) VALUES (s.k + key)": (
        "DELTA_MERGE_UNRESOLVED_EXPRESSION"
    ),
    "ON s.k = t.key WHEN NOT MATCHED AND t.value > 1 THEN INSERT (key) VALUES (1)": (
        "DELTA_MERGE_UNRESOLVED_EXPRESSION"
    ),
    "ON s.k = t.key WHEN NOT MATCHED AND max(s.k) > 1 THEN INSERT (key) VALUES (1)": (
        "DELTA_AGGREGATION_NOT_SUPPORTED"
    ),
    "ON s.k = t.key WHEN NOT MATCHED THEN INSERT (key) VALUES (1) "
    "WHEN NOT MATCHED AND k > 1 THEN INSERT (key) VALUES (2)": (
        "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION"
    ),
    "ON s.k = t.key WHEN MATCHED THEN UPDATE SET value = 1 WHEN MATCHED THEN DELETE": (
        "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION"
    ),
    "ON s.k = t.key WHEN NOT MATCHED BY SOURCE THEN DELETE "
    "WHEN NOT MATCHED BY SOURCE AND t.key = 1 THEN UPDATE SET value = 1": (
        "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION"
    ),
    "ON s.k = t.key WHEN NOT MATCHED BY SOURCE AND t.value IN (SELECT 1) THEN DELETE": (
        "DELTA_UNSUPPORTED_SUBQUERY"
    ),
    "ON s.k = t.key": "PARSE_SYNTAX_ERROR",
}


def test_statements_are_refused_by_name_before_any_job(
    spark: SparkSession, table: str, source: Callable[..., None]
) -> None:
    made(spark, table, (2, 2), (1, 4), by=["key"])
    source((1, 1, 1), columns="k int, value int, more int")
    with no_job(spark):
        found = {
            text: named(lambda text=text: spark.sql(f"MERGE INTO delta.`{table}` t USING s {text}"))
            for text in REFUSED
        }
    assert found == REFUSED
    assert tidegate.open(table).version == 0
    # A folder of a partition is no table of its own.
    inside = f"MERGE INTO delta.`{table}/key=1` t USING s ON s.k = t.key WHEN MATCHED THEN DELETE"
    assert named(lambda: spark.sql(inside)) == "DELTA_MISSING_DELTA_TABLE"


def test_a_column_that_could_be_of_either_side_is_refused(spark: SparkSession, table: str) -> None:
    dt = made(spark, table, *((i, i) for i in range(5)))
    mine = DeltaTable.forPath(spark, table).toDF()
    frame = mine.where("key = 4")
    merge = dt.merge(frame.alias("s"), "t.key = s.key")
    wrong = {
        "search": dt.merge(frame, mine["key"] == frame["key"]).whenMatchedDelete(),
        "condition": merge.whenMatchedDelete(mine["key"] + 1 == 5),
        "value": merge.whenMatchedUpdate(set={"value": mine["value"] + 1}),
    }
    found = {name: named(refused.execute) for name, refused in wrong.items()}
    assert found == dict.fromkeys(wrong, "AMBIGUOUS_REFERENCE")
    # What is inserted sees the source alone, and a column of the source is the source's.
    dt.merge(frame, "t.key = -1").whenNotMatchedInsert(mine["key"] > 0, {"key": mine["key"]}).execute()
    dt.merge(frame, F.col("t.key") == frame["key"]).whenMatchedDelete(frame["value"] == 4).execute()
    assert held(spark, table) == [(i, i) for i in range(4)]


def joined(spark: SparkSession) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Two frames by their aliases a and b, and their join, in which both have a column ts."""
    a = pairs(spark, (1, 100), (2, 200), (7, 700), columns="id int, ts int").alias("a")
    b = pairs(spark, (1, 11, 5), (7, 77, 9), columns="aid int, val int, ts int").alias("b")
    return a, b, a.join(b, a["id"] == b["aid"])


@pytest.mark.parametrize("properties", WAYS)
def test_a_source_may_have_a_name_twice_that_nobody_says(
    spark: SparkSession, table: str, properties: dict[str, str]
) -> None:
    a, _, both = joined(spark)
    begins = ((1, 0), (2, 0), (3, 0))
    dt = made(spark, table, *begins, **properties)
    for source, on, evolves in ((both, "key = aid", False), (both.alias("s"), "t.key = s.id", True)):
        merge = dt.merge(source, on).whenMatchedUpdate("aid > 0", {"value": "val"})
        merge = merge.whenNotMatchedInsert(values={"key": "id", "value": "-val"})
        (merge.withSchemaEvolution() if evolves else merge).execute()
        assert held(spark, table) == [(1, 11), (2, 0), (3, 0), (7, -77)]
        dt.delete("key = 7")
    # The condition reads one that clauses do not, and what every column is set to may be there once.
    star = a.selectExpr("id key", "ts value", "ts", "1 TS").alias("s")
    merge = dt.merge(star, "t.key = s.key").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    merge.whenNotMatchedBySourceDelete().execute()
    assert held(spark, table) == [(1, 100), (2, 200), (7, 700)]
    with no_job(spark):
        for refused, told in (
            (dt.merge(both, "key = aid").whenMatchedUpdate(set={"value": "ts"}), "AMBIGUOUS_REFERENCE"),
            (dt.merge(star, "t.key = s.ts").whenMatchedDelete(), "AMBIGUOUS_REFERENCE"),
            (
                dt.merge(star, "t.key = s.key").whenNotMatchedInsertAll().withSchemaEvolution(),
                "DELTA_DUPLICATE_COLUMNS_FOUND.DATA",
            ),
        ):
            assert named(refused.execute) == told


@pytest.mark.parametrize("properties", WAYS)
def test_a_name_that_the_source_has_twice_is_meant_by_its_qualifier(
    spark: SparkSession, table: str, properties: dict[str, str]
) -> None:
    a, b, both = joined(spark)
    dt = made(spark, table, (1, 0), (2, 0), (9, 0), **properties, **FEED)
    sums = {"key": "a.id", "value": "a.ts + b.ts"}
    merge = dt.merge(both, "t.key = a.id and a.ts > b.ts").whenMatchedUpdate("b.ts = 5", sums)
    merge = merge.whenNotMatchedInsert("a.ts > 600", sums)
    taken = dt.merge(both, F.col("t.key") == a["id"]).whenMatchedUpdate(set={"value": a["ts"] - b["ts"]})
    if CONNECT:
        # There a source without an alias has one of ours, which hides those within.
        with no_job(spark):
            assert named(merge.execute) == "DELTA_MERGE_UNRESOLVED_EXPRESSION"
            assert named(taken.execute) == "AMBIGUOUS_REFERENCE"
        return
    merge.whenNotMatchedBySourceUpdate("key = 9", {"value": "value - 1"}).execute()
    assert held(spark, table) == [(1, 105), (2, 0), (7, 709), (9, -1)]
    taken.execute()
    assert held(spark, table) == [(1, 95), (2, 0), (7, 691), (9, -1)]
    sound(table)


# ---------------------------------------------------------------------------- tables of one name


@pytest.fixture
def namesakes(spark: SparkSession) -> Iterator[None]:
    """The tables t of two databases, of which the first is the current one; they share id and v."""
    before = spark.catalog.currentDatabase()
    for database, rows in (("near", "(1, 10, 0), (3, 30, 0)"), ("far", "(1, -1, 5), (2, -2, 5)")):
        spark.sql(f"CREATE DATABASE {database}")
        third = "mine" if database == "near" else "theirs"
        spark.sql(f"CREATE TABLE {database}.t USING delta AS SELECT * FROM VALUES {rows} x(id, v, {third})")
    spark.catalog.setCurrentDatabase("near")
    yield
    spark.catalog.setCurrentDatabase(before)
    for database in ("near", "far"):
        spark.sql(f"DROP DATABASE {database} CASCADE")


BY_DATABASE: dict[str, tuple[str, list[Row]]] = {
    "values": ("near.t USING far.t ON near.t.id = far.t.id WHEN MATCHED THEN UPDATE SET v = far.t.v",
               [(1, -1, 0), (3, 30, 0)]),
    "every clause": (
        "near.t USING far.t ON near.t.id = far.t.id WHEN MATCHED AND far.t.theirs > near.t.mine THEN "
        "UPDATE SET near.t.v = far.t.v + near.t.v WHEN NOT MATCHED AND far.t.id > 1 THEN "
        "INSERT (near.t.id, v) VALUES (far.t.id, far.t.v) WHEN NOT MATCHED BY SOURCE AND near.t.id > 1 THEN "
        "UPDATE SET v = near.t.v + 1",
        [(1, 9, 0), (2, -2, None), (3, 31, 0)]),
    "the catalog, quotes and case": (
        "spark_catalog.near.t USING `far`.`t` ON SPARK_CATALOG.`near`.T.`id` = Far . t.id "
        "WHEN MATCHED THEN UPDATE SET `near`.`t`.`v` = `spark_catalog`.`far`.`t`.v + length('far.t.v')",
        [(1, 6, 0), (3, 30, 0)]),
    "the current database": (
        "T USING far.t ON near.t.id = spark_catalog.far.t.id WHEN MATCHED THEN UPDATE SET v = far.t.v",
        [(1, -1, 0), (3, 30, 0)]),
    "the last name where one side is seen": (
        "near.t USING far.t ON near.t.id = far.t.id WHEN MATCHED THEN UPDATE SET t.v = far.t.v "
        "WHEN NOT MATCHED THEN INSERT (t.id, v) VALUES (t.id, t.v) "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = t.v + 1",
        [(1, -1, 0), (2, -2, None), (3, 31, 0)]),
    "the last name where one side has the column": (
        "near.t USING far.t ON near.t.id = far.t.id WHEN MATCHED AND t.mine = 0 THEN UPDATE SET v = t.theirs",
        [(1, 5, 0), (3, 30, 0)]),
    "names within values": (
        "near.t USING far.t ON near.t.id = far.t.id WHEN MATCHED THEN UPDATE SET v = "
        "(SELECT max(far.t.v) FROM far.t) + transform(array(struct(far.t.v AS id)), t -> t.id)[0]",
        [(1, -2, 0), (3, 30, 0)]),
    "an alias for the table": (
        "near.t x USING far.t ON x.id = far.t.id WHEN MATCHED THEN UPDATE SET v = far.t.v + t.v",
        [(1, -2, 0), (3, 30, 0)]),
    "an alias for the source": (
        "near.t USING far.t s ON near.t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v + t.v",
        [(1, 9, 0), (3, 30, 0)]),
    "a version": ("near.t USING far.t VERSION AS OF 0 ON near.t.id = far.t.id WHEN MATCHED THEN UPDATE "
                  "SET v = far.t.v", [(1, -1, 0), (3, 30, 0)]),
}  # fmt: skip
NOBODYS = {
    "the last name": (
        "near.t USING far.t ON t.id = far.t.id WHEN MATCHED THEN DELETE",
        "AMBIGUOUS_REFERENCE",
    ),
    "the same table": (
        "near.t USING t ON near.t.id = t.id WHEN MATCHED THEN DELETE",
        "AMBIGUOUS_REFERENCE",
    ),
    "a column of the source": (
        "near.t USING far.t ON near.t.id = far.t.id WHEN MATCHED THEN UPDATE SET far.t.v = 3",
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "a name that an alias hides": (
        "near.t x USING far.t ON near.t.id = far.t.id WHEN MATCHED THEN UPDATE SET v = far.t.v",
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "a name that the source's alias hides": (
        "near.t USING far.t s ON far.t.id = 1 WHEN MATCHED THEN DELETE",
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
}


@pytest.mark.usefixtures("namesakes")
def test_tables_of_one_name_are_told_apart_by_their_databases(spark: SparkSession) -> None:
    found = {}
    for name, (statement, _) in BY_DATABASE.items():
        spark.sql(f"MERGE INTO {statement}")
        found[name] = sorted(tuple(r) for r in spark.table("near.t").collect())
        spark.sql("RESTORE TABLE near.t TO VERSION AS OF 0")
    assert found == {name: expected for name, (_, expected) in BY_DATABASE.items()}


@pytest.mark.usefixtures("namesakes")
def test_names_that_could_be_of_both_tables_or_of_none_are_refused(spark: SparkSession) -> None:
    with no_job(spark):
        found = {
            name: named(lambda text=text: spark.sql(f"MERGE INTO {text}"))
            for name, (text, _) in NOBODYS.items()
        }
    assert found == {name: told for name, (_, told) in NOBODYS.items()}


# ---------------------------------------------------------------------------- what is read


def test_files_where_no_clause_may_act_are_not_read(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dt = made(spark, table, *((i, 0) for i in range(-1, 10)))
    frame = spark.range(100).selectExpr("int(id) key", "1 value").alias("s")

    def meanwhile(merge: DeltaMergeBuilder) -> None:
        with monkeypatch.context() as patched:
            Meanwhile(
                patched, lambda: pairs(spark, (50, 50)).write.format("delta").mode("append").save(table)
            )
            merge.execute()

    merge = dt.merge(frame, "t.key = s.key")
    # What comes meanwhile would match, and no clause would change it.
    meanwhile(merge.whenMatchedUpdate("t.key < 3 and s.value = 1", {"value": "7"}))
    meanwhile(dt.merge(frame, "t.key = s.key").whenNotMatchedBySourceDelete("t.key < 0"))
    assert [r for r in held(spark, table) if r[1]] == [(0, 7), (1, 7), (2, 7), (50, 50), (50, 50)]
    # It matters where rows are inserted that have no match.
    with pytest.raises(ConcurrentAppendException):
        meanwhile(merge.whenMatchedDelete("t.key = 5").whenNotMatchedInsertAll("s.key < 0"))


@pytest.mark.deep
def test_a_table_that_spark_holds_in_its_cache_is_merged_as_it_is(spark: SparkSession, table: str) -> None:
    dt = made(spark, table, (2, 2), (1, 4))
    kept = spark.table(f"delta.`{table}`").cache()
    kept.count()
    pairs(spark, (100, 100), (3, 5)).write.format("delta").mode("append").save(table)
    merge = dt.merge(pairs(spark, (1, 1), (0, 3), (3, 3)).alias("s"), "t.key = s.key")
    merge.whenMatchedUpdate(set={"value": "t.value + 3"}).whenNotMatchedInsertAll().execute()
    after = sorted(tuple(r) for r in spark.table(f"delta.`{table}`").collect())
    kept.unpersist()
    assert after == held(spark, table) == [(0, 3), (1, 7), (2, 2), (3, 8), (100, 100)]


def test_paths_may_hold_any_character(spark: SparkSession, tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "tar get>*=#%20"), str(tmp_path / "sou rce~(^@")
    write(spark.range(6), ours, {})
    write(spark.range(0, 6, 2), theirs, VECTORS)
    head = f"MERGE INTO delta.`{ours}` t USING delta.`{theirs}` s ON t.id = s.id"
    spark.sql(
        f"{head} WHEN MATCHED AND t.id = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET id = t.id * 10 "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = -t.id"
    )
    assert held(spark, ours) == [(-5,), (-3,), (20,), (40,)]


def test_a_view_takes_every_column_by_name_and_fields_too(spark: SparkSession, table: str) -> None:
    write(spark.sql("SELECT 1 key, named_struct('x', 2, 'y', 1) n"), table, {})
    spark.read.format("delta").load(table).alias("other").createOrReplaceTempView("v")
    comes = "(SELECT named_struct('y', 20, 'x', 10) n, explode(array(1, 2)) key) s"
    head = f"MERGE INTO v USING {comes} ON v.key = s.key"
    spark.sql(f"{head} WHEN MATCHED THEN UPDATE SET n.x = s.n.x + 1 WHEN NOT MATCHED THEN INSERT *")
    assert held(spark, table) == [(1, (11, 1)), (2, (10, 20))]
    spark.sql(f"{head} WHEN MATCHED AND v.key = 1 THEN UPDATE SET *")
    spark.catalog.dropTempView("v")
    assert held(spark, table) == [(1, (10, 20)), (2, (10, 20))]


# ---------------------------------------------------------------------------- what is counted

# By what happens to a hundred rows in five files: the source, the condition, the clauses and the numbers.
Numbers = dict[str, int]
COUNTED: dict[str, tuple[str, str, Callable[[DeltaMergeBuilder], DeltaMergeBuilder], Numbers]] = {
    "inserts where the condition holds": (
        "range(50, 150)", "s.id = t.id", lambda m: m.whenNotMatchedInsertAll("s.id >= 125"),
        {"SourceRows": 100, "OutputRows": 25, "TargetRowsInserted": 25},
    ),
    "nothing to insert": (
        "range(50)", "s.id = t.id", lambda m: m.whenNotMatchedInsertAll(), {"SourceRows": 50},
    ),
    "no source": ("range(0)", "t.id >= 50", lambda m: m.whenMatchedDelete(), {}),
    "deletes in whole files and in part": (
        "range(50, 150)", "s.id = t.id", lambda m: m.whenMatchedDelete(),
        {"SourceRows": 100, "OutputRows": 10, "TargetRowsCopied": 10, "TargetRowsDeleted": 50,
         "TargetRowsMatchedDeleted": 50, "TargetFilesRemoved": 3, "TargetFilesAdded": 1},
    ),
    "deletes of every row": (
        "range(300)", "s.id = t.id", lambda m: m.whenMatchedDelete(),
        {"SourceRows": 300, "TargetRowsDeleted": 100, "TargetRowsMatchedDeleted": 100,
         "TargetFilesRemoved": 5},
    ),
    "conditions that no row meets": (
        "range(100)", "s.id = t.id",
        lambda m: m.whenMatchedUpdateAll("s.id + t.id > 1000").whenMatchedDelete("s.id + t.id < 50"),
        {"SourceRows": 100, "OutputRows": 15, "TargetRowsCopied": 15, "TargetRowsDeleted": 25,
         "TargetRowsMatchedDeleted": 25, "TargetFilesRemoved": 2, "TargetFilesAdded": 1},
    ),
    "the table becomes the source": (
        "range(50, 150)", "s.id = t.id",
        lambda m: m.whenMatchedUpdateAll().whenNotMatchedInsertAll().whenNotMatchedBySourceDelete(),
        {"SourceRows": 100, "OutputRows": 100, "TargetRowsInserted": 50, "TargetRowsUpdated": 50,
         "TargetRowsMatchedUpdated": 50, "TargetRowsDeleted": 50,
         "TargetRowsNotMatchedBySourceDeleted": 50, "TargetFilesRemoved": 5},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_the_history_counts_rows_and_files(spark: SparkSession, table: str, name: str) -> None:
    comes, condition, build, expected = COUNTED[name]
    turn = list(COUNTED).index(name)
    by = ["part"] if turn % 2 else None
    write(spark.range(0, 100, 1, 5).selectExpr("id", "id div 20 part"), table, FEED if turn % 3 else {}, by)
    frame = spark.sql(f"SELECT id, id div 20 part FROM {comes}").alias("s")
    with confs(spark, skipRecordingEmptyCommits="false"):
        build(DeltaTable.forPath(spark, table).alias("t").merge(frame, condition)).execute()
    info = last(table)
    metrics = {k.removeprefix("num"): int(v) for k, v in info["operationMetrics"].items()}
    found = {k: v for k, v in metrics.items() if "Rows" in k or k == "TargetFilesRemoved"}
    assert (info["operation"], tidegate.open(table).version) == ("MERGE", 1)
    assert {k: v for k, v in found.items() if v} == {k: v for k, v in expected.items() if k in found}
    if "TargetFilesAdded" in expected:
        assert metrics["TargetFilesAdded"] == expected["TargetFilesAdded"]
    assert (metrics["TargetBytesAdded"] > 0) == (metrics["OutputRows"] > 0)
    assert (metrics["TargetBytesRemoved"] > 0) == (metrics["TargetFilesRemoved"] > 0)


@pytest.mark.parametrize("properties", WAYS)
def test_rows_are_counted_though_the_log_does_not_know_how_many_there_are(
    spark: SparkSession, table: str, properties: dict[str, str]
) -> None:
    with confs(spark, stats__collect="false"):
        dt = made(spark, table, (1, 10), (2, 20), (5, 50), **properties)
        merge = dt.merge(pairs(spark, (1, 100), (5, 0), (3, 30)).alias("s"), "t.key = s.key")
        merge = merge.whenMatchedDelete("s.value = 0").whenMatchedUpdateAll().whenNotMatchedInsertAll()
        done = merge.execute().collect()
    assert [tuple(r) for r in done] == [(3, 1, 1, 1)]
    assert held(spark, table) == [(1, 100), (2, 20), (3, 30)]
    metrics = last(table)["operationMetrics"]
    assert metrics["numTargetRowsCopied"] == ("0" if properties else "1")
    sound(table)
