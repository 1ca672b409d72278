"""Constraints, generated and identity columns, scenario by scenario, as Delta's suites ask for them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import tidegate
from support.dml import confs, feed
from tidegate.errors import InvariantViolationException
from tidegate.metadata import Metadata
from tidegate.schema.columns import identity_columns

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]


def _field(name: str, kind: object, invariant: str | None = None) -> dict[str, object]:
    kept = json.dumps({"expression": {"expression": invariant}})
    metadata = {} if invariant is None else {"delta.invariants": kept}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def _struct(*fields: dict[str, object]) -> dict[str, object]:
    return {"type": "struct", "fields": list(fields)}


def _create(table: str, *fields: dict[str, object]) -> None:
    transaction = tidegate.Transaction.begin(table)
    transaction.update_metadata(Metadata(id="1", schema_string=json.dumps(_struct(*fields))))
    transaction.commit(operation="CREATE TABLE")


def _append(spark: SparkSession, table: str, *columns: str) -> None:
    spark.range(1).selectExpr(*columns).write.format("delta").mode("append").save(table)


def _broken(spark: SparkSession, table: str, *columns: str) -> str:
    """What is said of a row that may not be appended."""
    with pytest.raises(InvariantViolationException) as caught:
        _append(spark, table, *columns)
    return str(caught.value)


def _refused(spark: SparkSession, statement: str) -> str | None:
    with pytest.raises(AnalysisException) as refused:
        spark.sql(statement)
    return refused.value.getCondition()


# ------------------------------------------------------------------- invariants and CHECK constraints


def test_an_invariant_of_a_field_counts_nulls_and_fields_that_are_missing(
    spark: SparkSession, table: str
) -> None:
    top = _struct(_field("key", "string"), _field("value", "integer", "top.value < 3"))
    _create(table, _field("top", top), _field("n", "integer", "n IS NULL OR (n > 0 AND n IN (1, 2))"))
    good = "named_struct('key', 'a', 'value', 1) AS top"
    _append(spark, table, good, "2 AS n")
    _append(spark, table, good)
    for value, shown in (
        ("named_struct('key', 'b', 'value', 5)", '{"key":"b","value":5}'),
        # What is null is not less than anything.
        ("named_struct('key', 'b', 'value', cast(null AS INT))", '{"key":"b","value":null}'),
        ("named_struct('key', 'b')", '{"key":"b","value":null}'),
        ("null", "null"),
    ):
        assert f'{{"top":{shown}}}' in _broken(spark, table, f"{value} AS top")
    assert '{"n":3}' in _broken(spark, table, good, "3 AS n")
    assert tidegate.open(table).version == 2


@pytest.mark.deep
def test_invariants_may_call_functions_that_spark_writes_anew(spark: SparkSession, table: str) -> None:
    _create(
        table,
        _field("i", "integer", "nvl2(i, 1, 2) = 1 AND nullif(i, 7) = 1 AND assert_true(i < 2) IS NULL"),
        _field("d", "date", "date_part('YEAR', d) < 2000 AND extract(MONTH FROM d) = 1"),
        _field("s", "string", "decode(encode(s, 'utf-8'), 'utf-8') = 'abc' AND left(s, 1) = 'a'"),
        _field("t", "string", "to_date(t) = '2001-01-01' AND to_timestamp(t) = '2001-01-01'"),
    )
    good = ["1 AS i", "DATE'1999-01-31' AS d", "'abc' AS s", "'2001-01-01' AS t"]
    _append(spark, table, *good)
    for at, bad in enumerate(("0 AS i", "DATE'2001-01-31' AS d", "'abcd' AS s", "'2001-01-02' AS t")):
        said = _broken(spark, table, *good[:at], bad, *good[at + 1 :])
        assert f"invariant of {bad[-1]}" in said
    assert tidegate.open(table).version == 1


def test_empty_text_in_a_partition_is_null_to_every_constraint(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (a INT, p STRING, q STRING) USING delta PARTITIONED BY (p, q)")
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT told CHECK (p IS NOT NULL)")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'x', '')")
    for statement in (f"INSERT INTO {name} VALUES (2, '', 'x')", f"UPDATE {name} SET p = ''"):
        with pytest.raises(InvariantViolationException, match="told"):
            spark.sql(statement)
    assert rows(table) == [(1, "x", None)]


@pytest.mark.deep
def test_nulls_inside_of_what_a_constraint_speaks_of(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    kind = "STRUCT<m: MAP<INT, INT>, a: ARRAY<INT>>"
    _append(
        spark, table, "0 AS id", f"cast(named_struct('m', map(0, 0), 'a', array(0, null)) AS {kind}) AS s"
    )
    checks = {"open": "s.a[1] IS NULL", "less": "s.a[0] < 100", "same": "s.m[id] = id"}
    for constraint, check in checks.items():
        spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT {constraint} CHECK ({check})")
    violated = _refused(spark, f"ALTER TABLE {name} ADD CONSTRAINT no CHECK (s.a[1] < 5)")
    assert violated == "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
    coming = [
        f"cast({value} AS {kind}) AS s"
        for value in (
            "named_struct('m', map(1, 1), 'a', array(null, null))",
            "named_struct('m', map(1, 1), 'a', null)",
            "null",
        )
    ]
    for value in coming:
        assert "less" in _broken(spark, table, "1 AS id", value)
    for constraint in ("less", "same"):
        spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT {constraint}")
    for value in coming:
        _append(spark, table, "1 AS id", value)
    assert spark.read.format("delta").load(table).count() == 4


@pytest.mark.deep
def test_constraints_may_cast_and_ask_what_time_it_is(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    _append(spark, table, "1 AS num", "'a' AS text")
    checks = ("num < '10'", "( (num < 10) AND ((LENGTH(text)) < 3) )", "num < year(current_date())")
    for at, check in enumerate((*checks, "num < unix_timestamp()")):
        spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT c{at} CHECK ({check})")
    _append(spark, table, "9 AS num", "'ab' AS text")
    for at, row in enumerate((("10 AS num", "'a' AS text"), ("1 AS num", "'abc' AS text"))):
        assert f"constraint c{at} " in _broken(spark, table, *row)
    for at in (0, 1):
        spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT c{at}")
    assert "constraint c2 " in _broken(spark, table, "3000 AS num", "'a' AS text")


# ------------------------------------------------------------------------------------ generated columns

GENERATED = (
    "a BIGINT, g BIGINT GENERATED ALWAYS AS (a + 10), p STRING, "
    "day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), at TIMESTAMP, n INT"
)
ALL = "1, 11, 'x', DATE'2020-10-11', TIMESTAMP'2020-10-11 12:30:30', 100"
GIVEN = "'x' AS p, TIMESTAMP'2020-10-11 12:30:30' AS at, 1L AS a, 100 AS n"
NAMED = "(p, at, a, n) SELECT " + GIVEN


@pytest.mark.deep
def test_generated_columns_are_filled_in_whatever_way_rows_come(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} ({GENERATED}) USING delta PARTITIONED BY (p, day)")
    spark.sql(f"SELECT {GIVEN}").write.format("delta").mode("append").save(table)
    spark.sql(f"SELECT {GIVEN}").writeTo(name).append()
    for rows_given in (
        f"VALUES ({ALL})",
        f"SELECT {ALL}",
        NAMED,
        f"(p, at, a, n, day) SELECT {GIVEN}, DATE'2020-10-11'",
    ):
        spark.sql(f"INSERT INTO {name} {rows_given}")
    assert len(rows(table)) == 6
    assert len(set(rows(table))) == 1
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql(f"INSERT OVERWRITE {name} {NAMED}")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    [(a, g, p, day, at, n)] = rows(table)
    assert (a, g, p, str(day), str(at), n) == (1, 11, "x", "2020-10-11", "2020-10-11 12:30:30", 100)


@pytest.mark.deep
def test_an_update_of_a_generated_column_may_only_say_what_it_is(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (a INT, b INT, g INT GENERATED ALWAYS AS (a + 10)) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1, 50, 11)")
    for wrong in ("g = 12", "g = 12, a = 3"):
        with pytest.raises(InvariantViolationException, match="generated column g"):
            spark.sql(f"UPDATE {name} SET {wrong}")
    for right, expected in (
        ("g = 11", (1, 50, 11)),
        ("g = 12, a = 2", (2, 50, 12)),
        ("a = b + 100, b = 1000", (150, 1000, 160)),
        ("a = b + g", (1160, 1000, 1170)),
        ("a = g", (1170, 1000, 1180)),
    ):
        spark.sql(f"UPDATE {name} SET {right} WHERE b > 0")
        assert rows(table) == [expected]


@pytest.mark.deep
def test_columns_are_generated_from_fields_elements_and_names_with_dots(
    spark: SparkSession, table: str
) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (`a.b` STRING, a STRUCT<b: INT, c: STRING>, l ARRAY<INT>, "
        "`x.y` STRING GENERATED ALWAYS AS (CONCAT(`a.b`, 'b')), g INT GENERATED ALWAYS AS (a.b + 100), "
        "e INT GENERATED ALWAYS AS (l[1]) COMMENT 'second' NOT NULL) USING delta"
    )
    spark.sql(f"INSERT INTO {name} VALUES ('a', struct(1, 'z'), array(5, 6), 'ab', 101, 6)")
    spark.sql(f"INSERT INTO {name} (`a.b`, a, l) VALUES (null, null, array(7, 8))")
    spark.sql(f"UPDATE {name} SET a.b = 2, `a.b` = 'q' WHERE a.b = 1")
    found = spark.read.format("delta").load(table).orderBy("e").collect()
    assert [(r[0], r[3], r[4], r[5]) for r in found] == [("q", "qb", 102, 6), (None, None, None, 8)]
    for bad in ("('a', null, array(1, 2), null, null, 2)", "(null, null, array(1, 2), 'b', null, 2)"):
        with pytest.raises(InvariantViolationException, match=r"generated column x\.y"):
            spark.sql(f"INSERT INTO {name} VALUES {bad}")
    with pytest.raises(InvariantViolationException, match="NOT NULL e"):
        spark.sql(f"INSERT INTO {name} (l) VALUES (array(1, null))")


@pytest.mark.deep
def test_a_merge_computes_generated_columns_of_every_row_it_writes(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    name = f"delta.`{table}`"
    columns = "c1 INT, c2 INT, c3 INT GENERATED ALWAYS AS (c1 + CAST(ISNULL(c2) AS INT))"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1, 2, 1), (2, 100, 2)")
    source = (
        "(SELECT * FROM VALUES (1, 11, 12), (2, null, 4), (3, 20, 21), (4, 5, 6), (5, 6, 7) v(c1, c2, c4))"
    )
    into = f"MERGE INTO {name} t USING {source} s ON t.c1 = s.c1 "
    with confs(spark, schema__autoMerge__enabled=True):
        spark.sql(
            into + "WHEN MATCHED AND s.c1 = 1 THEN UPDATE SET c2 = 100 WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED AND s.c1 = 4 THEN INSERT (c1, c2) VALUES (s.c1, 22) "
            "WHEN NOT MATCHED AND s.c1 = 5 THEN INSERT (c1) VALUES (5) WHEN NOT MATCHED THEN INSERT *"
        )
    assert rows(table) == [
        (1, 100, 1, None), (2, None, 3, 4), (3, 20, 3, 21), (4, 22, 4, None), (5, None, 6, None),
    ]  # fmt: skip
    for wrong in ("INSERT (c3) VALUES (10)", "INSERT (c1, c2, c3) VALUES (9, 9, 10)"):
        with pytest.raises(InvariantViolationException, match="generated column c3"):
            spark.sql(f"MERGE INTO {name} t USING {source} s ON false WHEN NOT MATCHED THEN {wrong}")


def test_rows_of_a_feed_go_into_a_table_that_generates_its_partition(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    for place, more, feeds in (("a", "", True), ("b", "_change_type STRING, ", False)):
        spark.sql(
            f"CREATE TABLE delta.`{table}/{place}` (id BIGINT, {more}at TIMESTAMP, "
            "day DATE GENERATED ALWAYS AS (CAST(at AS DATE))) USING delta PARTITIONED BY (day) "
            f"TBLPROPERTIES ('delta.enableChangeDataFeed' = '{feeds}')"
        )
    some = spark.range(4).selectExpr("id", "TIMESTAMP'2024-01-31 12:00:00' AS at")
    some.write.format("delta").mode("append").save(f"{table}/a")
    spark.sql(f"DELETE FROM delta.`{table}/a` WHERE id < 2")
    # The option by the name that it had before.
    told = spark.read.format("delta").option("readChangeData", "true").option("startingVersion", 2)
    changes = told.load(f"{table}/a").select("id", "_change_type", "at")
    changes.write.format("delta").mode("append").save(f"{table}/b")
    assert [(r[0], r[1], str(r[3])) for r in rows(f"{table}/b")] == [
        (0, "delete", "2024-01-31"),
        (1, "delete", "2024-01-31"),
    ]


@pytest.mark.parametrize("widens", [False, True])
def test_what_an_expression_speaks_of_keeps_its_type(spark: SparkSession, table: str, widens: bool) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (a TINYINT, g INT GENERATED ALWAYS AS (HASH(a)), "
        "s STRUCT<x: TINYINT, y: TINYINT>, m ARRAY<TINYINT>) USING delta "
        f"TBLPROPERTIES ('delta.enableTypeWidening' = '{widens}')"
    )
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT c CHECK (s.x < 100 AND m[0] < 100)")
    for column, error_class in (
        ("1S AS a", "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH"),
        ("1L AS g", "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH"),
        ("named_struct('x', 1S, 'y', 1Y) AS s", "DELTA_CONSTRAINT_DATA_TYPE_MISMATCH"),
        ("array(1S) AS m", "DELTA_CONSTRAINT_DATA_TYPE_MISMATCH"),
    ):
        if column.endswith("g") and not widens:
            continue
        coming = spark.range(1).selectExpr(column)
        with pytest.raises(AnalysisException) as refused:
            coming.write.format("delta").mode("append").option("mergeSchema", "true").save(table)
        assert refused.value.getCondition() == error_class
        if widens:
            with confs(spark, schema__autoMerge__enabled=True):
                merge = (
                    f"MERGE INTO {name} t USING (SELECT {column}) s ON false WHEN NOT MATCHED THEN INSERT *"
                )
                assert _refused(spark, merge) == error_class
    assert tidegate.open(table).version == 1
    coming = spark.range(1).selectExpr("named_struct('x', 1Y, 'y', 500S) AS s", "array(1Y) AS m", "1Y AS a")
    coming.write.format("delta").mode("append").option("mergeSchema", "true").save(table)
    assert spark.read.format("delta").load(table).schema["s"].dataType.simpleString() == (
        "struct<x:tinyint,y:smallint>"
    )


# ------------------------------------------------------------------------------------- identity columns


def _mark(table: str, column: int = 0) -> int | None:
    return identity_columns(tidegate.open(table).schema)[column].high_water_mark


@pytest.mark.deep
def test_rows_that_go_or_change_neither_move_the_mark_nor_give_numbers_back(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 0 INCREMENT BY -1), v INT) "
        "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    frame = spark.range(0, 4, 1, 1).selectExpr("cast(id AS INT) AS v")
    frame.write.format("delta").mode("overwrite").save(table)
    assert (rows(table), _mark(table)) == ([(-3, 3), (-2, 2), (-1, 1), (0, 0)], -3)
    spark.sql(f"UPDATE {name} SET v = v + 100 WHERE id > -2")
    assert feed(spark, table, 2) == [
        (-1, 1, "update_preimage"), (-1, 101, "update_postimage"),
        (0, 0, "update_preimage"), (0, 100, "update_postimage"),
    ]  # fmt: skip
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT 2 AS v) s ON t.v = s.v WHEN MATCHED THEN UPDATE SET v = 200 "
        "WHEN NOT MATCHED THEN INSERT (v) VALUES (s.v)"
    )
    spark.sql(f"DELETE FROM {name} WHERE v = 3")
    assert (rows(table), _mark(table)) == ([(-2, 200), (-1, 101), (0, 100)], -3)
    spark.sql(f"DELETE FROM {name}")
    frame.write.format("delta").mode("append").save(table)
    assert (rows(table), _mark(table)) == ([(-7, 3), (-6, 2), (-5, 1), (-4, 0)], -7)


@pytest.mark.deep
def test_two_identities_are_numbered_by_every_clause_that_inserts(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (i BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 5), "
        "j BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 0 INCREMENT BY 3), a BIGINT, b BIGINT) USING delta"
    )
    spark.sql(f"INSERT INTO {name} (a, b) VALUES (5, 100), (6, 101)")
    before = rows(table, "a = 6")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT id AS a, id % 2 AS b FROM range(1, 11, 1, 2)) s ON s.a = t.a "
        "WHEN MATCHED AND t.a = 5 THEN UPDATE SET b = s.b "
        "WHEN NOT MATCHED AND s.a % 3 != 0 THEN INSERT (a, b) VALUES (s.a, s.b) "
        "WHEN NOT MATCHED AND s.a % 3 = 0 THEN INSERT (a, b) VALUES (s.a, s.b)"
    )
    found = spark.read.format("delta").load(table).orderBy("a").collect()
    assert [(r.a, r.b) for r in found] == [(a, 101 if a == 6 else a % 2) for a in range(1, 11)]
    assert rows(table, "a = 6") == before
    for column, (start, step) in enumerate(((5, 5), (0, 3))):
        numbers = [r[column] for r in found]
        assert len(set(numbers)) == 10
        assert all((n - start) % step == 0 for n in numbers)
        assert _mark(table, column) == max(numbers)


@pytest.mark.deep
def test_values_that_were_given_move_no_mark_whatever_becomes_of_their_rows(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT GENERATED BY DEFAULT AS IDENTITY, v INT) USING delta "
        "PARTITIONED BY (v) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO {name} (id, v) VALUES (-5, -5), (-999, -3), (-900, -3)")
    new = spark.sql("SELECT -1000L AS id, -3 AS v").write.format("delta").mode("overwrite")
    new.option("replaceWhere", "v = -3 AND id <= -987").save(table)
    spark.sql(f"UPDATE {name} SET v = -3 WHERE id = -5")
    source = "(SELECT 500L AS id, 9 AS v)"
    spark.sql(f"MERGE INTO {name} t USING {source} s ON t.v = s.v WHEN NOT MATCHED THEN INSERT *")
    assert _mark(table) is None
    update = f"MERGE INTO {name} t USING {source} s ON t.v = s.v WHEN MATCHED THEN UPDATE SET *"
    assert _refused(spark, update) == "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"
    spark.sql(f"INSERT INTO {name} (v) VALUES (1)")
    assert (rows(table), _mark(table)) == ([(-1000, -3), (-900, -3), (-5, -3), (1, 1), (500, 9)], 1)


def test_an_identity_is_no_partition_and_does_not_follow_its_rows_elsewhere(
    spark: SparkSession, table: str
) -> None:
    name = f"delta.`{table}`"
    for kind in ("ALWAYS", "BY DEFAULT"):
        columns = f"(id BIGINT GENERATED {kind} AS IDENTITY, v INT, w INT)"
        for by in ("id", "v, id"):
            statement = f"CREATE OR REPLACE TABLE {name} {columns} USING delta PARTITIONED BY ({by})"
            assert _refused(spark, statement) == "DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED"
    spark.sql(f"CREATE TABLE {name} (id BIGINT GENERATED ALWAYS AS IDENTITY, v INT) USING delta")
    spark.sql(f"INSERT INTO {name} (v) VALUES (1)")
    spark.sql(f"CREATE TABLE delta.`{table}/copy` USING delta AS SELECT * FROM {name}")
    assert identity_columns(tidegate.open(f"{table}/copy").schema) == ()
