"""Columns that change, are generated or constrained, scenario by scenario, as Delta's suites ask for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

import tidegate
from support.dml import confs
from support.session import CONNECT
from tidegate import DeltaTable
from tidegate.errors import InvariantViolationException, TidegateError

pytestmark = pytest.mark.spark

MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def _refused(spark: SparkSession, statement: str) -> str | None:
    """The error class with which a statement is refused."""
    with pytest.raises(TidegateError) as caught:
        spark.sql(statement)
    return caught.value.errorClass


@contextmanager
def _told_apart(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_column_is_not_renamed_to_the_name_it_has(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{table}` (a INT, s STRUCT<x: INT, y: INT>) USING delta {MAPPED}")
    for change in ("a TO a", "a TO A", "a TO S", "s.x TO X", "s.x TO y"):
        assert (
            _refused(spark, f"ALTER TABLE delta.`{table}` RENAME COLUMN {change}") == "FIELD_ALREADY_EXISTS"
        )
    assert tidegate.open(table).version == 0


def test_renamed_columns_keep_their_rows_at_every_depth(spark: SparkSession, table: str) -> None:
    name, odd = f"delta.`{table}`", "a = (b)"
    deep = "map(named_struct('x', id), array(named_struct('y', id)))"
    spark.sql(
        f"CREATE TABLE {name} USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = "
        f"'id') AS SELECT id, 'p' || id AS p, named_struct('c', id) AS s, {deep} AS m FROM range(2)"
    )
    for change in (f"p TO `{odd}`", "s TO t", "t.c TO d", "m.key.x TO k", "m.value.element.y TO v"):
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN {change}")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (p STRING, s STRING)")
    spark.sql(f"INSERT INTO {name} SELECT 2, 'p2', struct(2L), {deep.replace('id', '2L')}, 'new', 'too'")
    spark.sql(f"UPDATE {name} SET t.d = 7 WHERE t.d = 1 AND `{odd}` = 'p1'")
    rows = spark.sql(f"SELECT id, `{odd}`, t.d, m, p, s FROM {name} ORDER BY id").collect()
    assert [tuple(r)[:3] + tuple(r)[4:] for r in rows] == [
        (0, "p0", 0, None, None),
        (1, "p1", 7, None, None),
        (2, "p2", 2, "new", "too"),
    ]
    assert [r["m"] for r in rows] == [{Row(k=i): [Row(v=i)]} for i in range(3)]
    assert tidegate.open(table).partition_columns == (odd,)


def test_a_name_that_another_column_had_in_the_files_finds_its_own_rows(
    spark: SparkSession, table: str
) -> None:
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} USING delta AS SELECT 100 AS a, 1000 AS b")
    spark.sql(f"ALTER TABLE {name} SET {MAPPED}")
    for change in ("a TO c", "b TO a"):
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN {change}")
    spark.sql(f"DELETE FROM {name} WHERE a = 100")
    assert [tuple(r) for r in spark.sql(f"SELECT * FROM {name} WHERE a = 1000").collect()] == [(100, 1000)]


def test_columns_that_others_are_made_of_or_held_to_keep_their_names(spark: SparkSession, table: str) -> None:
    name = f"ALTER TABLE delta.`{table}`"
    spark.sql(
        f"CREATE TABLE delta.`{table}` (a STRING, b STRUCT<c: STRING NOT NULL, d: INT>, m MAP<STRING, INT>, "
        f"arr ARRAY<INT>, g INT GENERATED ALWAYS AS (b.d * 100 + arr[0])) USING delta {MAPPED}"
    )
    spark.sql(f"{name} ADD CONSTRAINT one CHECK (concat(a, a) > 'x')")
    spark.sql(f"{name} ADD CONSTRAINT two CHECK (array_contains(map_keys(m), 'k') OR m['k'] = 1)")
    version = tidegate.open(table).version
    held, made = "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE"
    for column, found in {"a": held, "m": held, "b": made, "b.d": made, "arr": made}.items():
        for change in (f"RENAME COLUMN {column} TO z", f"DROP COLUMN {column}"):
            assert _refused(spark, f"{name} {change}") == found, change
    assert tidegate.open(table).version == version
    # What may not be null is bound to nothing but itself, and a generated column may go.
    for change in ("RENAME COLUMN b.c TO e", "DROP COLUMN b.e", "RENAME COLUMN g TO h", "DROP COLUMNS (h)"):
        spark.sql(f"{name} {change}")
    spark.sql(f"{name} RENAME COLUMN b TO z")
    assert tidegate.open(table).schema.names == ("a", "z", "m", "arr")


def test_a_struct_that_holds_a_column_not_null_is_not_null(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (k INT, s STRUCT<x: STRING NOT NULL, y: INT>) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1, named_struct('x', 'a', 'y', 1))")
    for statement in (
        f"INSERT INTO {name} VALUES (2, named_struct('x', null, 'y', 1))",
        f"INSERT INTO {name} VALUES (3, null)",
        f"INSERT INTO {name} (k) VALUES (4)",
        f"UPDATE {name} SET s = null",
    ):
        with pytest.raises(InvariantViolationException, match=r"NOT NULL s\.x") as caught:
            spark.sql(statement)
        assert caught.value.errorClass == "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    assert tidegate.open(table).version == 1


def test_not_null_where_nobody_would_check_it(spark: SparkSession, table: str) -> None:
    columns = (
        "a ARRAY<STRUCT<x: INT, y: INT NOT NULL>>",
        "m MAP<STRUCT<y: INT NOT NULL>, INT>",
        "m MAP<INT, STRUCT<y: INT NOT NULL>>",
        "s STRUCT<n: INT NOT NULL, a: ARRAY<STRUCT<y: INT NOT NULL>>>",
    )
    for column in columns:
        found = _refused(spark, f"CREATE TABLE delta.`{table}` ({column}) USING delta")
        assert found == "DELTA_NESTED_NOT_NULL_CONSTRAINT", column
    with confs(spark, constraints__allowUnenforcedNotNull__enabled="true"):
        spark.sql(f"CREATE TABLE delta.`{table}` ({columns[0]}) USING delta")
    assert all(f.nullable for _, f in tidegate.open(table).schema.walk())
    for column in (
        "z STRUCT<x: INT NOT NULL>",
        "z ARRAY<STRUCT<x: INT NOT NULL>>",
        "a.element.z INT NOT NULL",
    ):
        found = _refused(spark, f"ALTER TABLE delta.`{table}` ADD COLUMNS ({column})")
        assert found == "DELTA_OPERATION_NOT_ALLOWED", column
    assert tidegate.open(table).version == 0


def test_a_table_is_entered_under_another_name_with_its_own_generated_columns_alone(
    spark: SparkSession, table: str
) -> None:
    made = "c1 INT, c2 INT GENERATED ALWAYS AS (c1 + 10), c3 INT"
    spark.sql(f"CREATE TABLE delta.`{table}` ({made}) USING delta")
    for columns in (
        made.replace("+ 10", "+ 11"),
        f"{made} GENERATED ALWAYS AS (c1)",
        "c1 INT, c2 INT, c3 INT",
    ):
        found = _refused(spark, f"CREATE TABLE entered ({columns}) USING delta LOCATION '{table}'")
        assert found == "DELTA_CREATE_TABLE_SCHEME_MISMATCH", columns
    try:
        spark.sql(f"CREATE TABLE entered ({made}) USING delta LOCATION '{table}'")
    finally:
        spark.sql("DROP TABLE IF EXISTS entered")


def test_constraints_that_go_by_their_property_and_those_that_are_not_there(
    spark: SparkSession, table: str
) -> None:
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (a INT) USING delta")
    reserved = f"ALTER TABLE {name} ADD CONSTRAINT __CHAR_VARCHAR_STRING_LENGTH_CHECK__ CHECK (true)"
    assert _refused(spark, reserved) == "DELTA_INVALID_CONSTRAINT_NAME"
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT positive CHECK (a > 0)")
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('delta.constraints.positive')")
    assert "delta.constraints.positive" not in tidegate.open(table).metadata.configuration
    assert (
        _refused(spark, f"ALTER TABLE {name} DROP CONSTRAINT positive") == "DELTA_CONSTRAINT_DOES_NOT_EXIST"
    )
    spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT IF EXISTS positive")
    [last] = DeltaTable.forPath(spark, table).history(1).collect()
    assert (last["operation"], last["operationParameters"]) == (
        "DROP CONSTRAINT",
        {"name": "positive", "existed": "false"},
    )


def test_names_in_another_case_where_the_session_tells_cases_apart(spark: SparkSession, table: str) -> None:
    name = f"ALTER TABLE delta.`{table}`"
    spark.sql(
        f"CREATE TABLE delta.`{table}` (v1 INT, v2 STRING, s STRUCT<v1: INT, v2: INT>) USING delta {MAPPED}"
    )
    with _told_apart(spark):
        for change in (
            "ADD COLUMNS (v3 INT AFTER V1)",
            "ADD COLUMNS (S.x INT)",
            "ADD COLUMNS (s.x INT AFTER V1)",
            "CHANGE COLUMN V2 V2 STRING",
            "CHANGE COLUMN v2 V2 STRING",
            "CHANGE COLUMN v2 v2 STRING AFTER S",
            "ALTER COLUMN V2 COMMENT 'x'",
            "RENAME COLUMN V2 TO x",
            "DROP COLUMN s.V2",
            "CLUSTER BY (V1)",
        ):
            with pytest.raises(TidegateError):
                spark.sql(f"{name} {change}")
        # Two columns that differ by case alone are never allowed.
        assert _refused(spark, f"{name} ADD COLUMNS (V1 INT)") == "FIELD_ALREADY_EXISTS"
        spark.sql(f"{name} DROP COLUMN IF EXISTS V2")
    assert tidegate.open(table).version == 0
    spark.sql(f"{name} ADD COLUMNS (v3 INT AFTER V1)")
    assert tidegate.open(table).schema.names == ("v1", "v3", "v2", "s")


def test_generated_partition_columns_leave_files_out(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (id INT, at TIMESTAMP, word STRING, "
        "day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), "
        "start STRING GENERATED ALWAYS AS (SUBSTRING(word, 1, 2))) USING delta PARTITIONED BY (day, start) "
        # No statistics: what is left out is left out by the partitions.
        "TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0', 'delta.columnMapping.mode' = 'name')"
    )
    spark.sql(
        f"INSERT INTO {name} (id, at, word) VALUES (1, TIMESTAMP '2020-01-10 12:00:00', 'alpha'), "
        "(2, TIMESTAMP '2020-01-20 12:00:00', 'beta'), (3, TIMESTAMP '2020-01-30 12:00:00', 'a'), "
        "(4, NULL, NULL)"
    )
    snapshot = tidegate.open(table)
    assert not any(json.loads(s).get("minValues") for s in snapshot.files().column("stats").to_pylist())
    for where, ids, read in (
        ("at > TIMESTAMP '2020-01-18 00:00:00'", [2, 3], 2),
        ("at = TIMESTAMP '2020-01-10 12:00:00' OR at = TIMESTAMP '2020-01-30 12:00:00'", [1, 3], 2),
        ("at IS NULL", [4], 1),
        ("word LIKE 'alp%'", [1], 1),
        ("word = 'a' AND at < TIMESTAMP '2020-02-10 00:00:00'", [3], 1),
        ("word IS NOT NULL", [1, 2, 3], 4),
    ):
        frame = spark.read.format("delta").load(table).where(where).select("id")
        assert sorted(r[0] for r in frame.collect()) == ids, where
        if not CONNECT:
            assert [m.files_read for m in tidegate.scan_metrics(frame)] == [read], where
        # What commands look at, and scans over Connect.
        assert len(snapshot.files(where, ["path"])) == read, where
    spark.sql(f"UPDATE {name} SET at = at + INTERVAL 1 DAY WHERE at > TIMESTAMP '2020-01-28 00:00:00'")
    spark.sql(f"DELETE FROM {name} WHERE word >= 'b'")
    left = spark.sql(f"SELECT id, CAST(day AS STRING) FROM {name} ORDER BY id").collect()
    assert [tuple(r) for r in left] == [(1, "2020-01-10"), (3, "2020-01-31"), (4, None)]


def test_partition_values_count_only_where_writers_must_keep_to_them(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{table}` (at DATE, y INT GENERATED ALWAYS AS (year(at))) USING delta "
        "PARTITIONED BY (y)"
    )
    spark.sql(f"INSERT INTO delta.`{table}` (at) VALUES (DATE '2020-01-10')")
    assert len(tidegate.open(table).derived) == 1
    first = Path(table) / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 2}
    first.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    for checksum in first.parent.glob("*.crc"):
        checksum.unlink()
    assert tidegate.open(table).derived == ()


def test_replaced_columns_go_and_widen_where_the_table_can_do_that(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (p STRING, v1 SMALLINT, v2 STRING, v3 INT, s STRUCT<a: INT, b: INT>, "
        "g INT GENERATED ALWAYS AS (v3 + 1)) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true', "
        "'delta.dataSkippingStatsColumns' = 'v2,s.a,v3')"
    )
    spark.sql(f"INSERT INTO {name} (p, v1, v2, v3, s) VALUES ('p', 1, 'a', 3, struct(1, 2))")
    rest = "s STRUCT<a: INT, b: INT>"
    for columns, found in (
        (
            f"p STRING, v1 SMALLINT, v2 STRING, {rest}, g INT",
            "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE",
        ),
        (
            f"p STRING, v1 SMALLINT, v3 INT, {rest}, g INT, n INT",
            "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
        ),
        (f"v1 SMALLINT, v2 STRING, v3 INT, {rest}, g INT", "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN"),
        (f"p STRING, v1 TINYINT, v2 STRING, v3 INT, {rest}", "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"),
        (
            f"p STRING, v1 INT, v2 STRING, v3 BIGINT, {rest}, g INT",
            "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE",
        ),
    ):
        assert _refused(spark, f"ALTER TABLE {name} REPLACE COLUMNS ({columns})") == found, columns
    spark.sql(f"ALTER TABLE {name} REPLACE COLUMNS (p STRING, v1 INT, v3 INT, s STRUCT<b: INT>, g INT)")
    spark.sql(f"INSERT INTO {name} (p, v1, v3, s) VALUES ('q', 70000, 4, struct(5))")
    found = spark.sql(f"SELECT p, v1, v3, s.b, g FROM {name} ORDER BY p").collect()
    assert [tuple(r) for r in found] == [("p", 1, 3, 2, 4), ("q", 70000, 4, 5, 5)]
    properties = tidegate.open(table).metadata.configuration
    assert properties["delta.dataSkippingStatsColumns"] == "v3"
    stats = f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'v3,nope')"
    assert _refused(spark, stats) == "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"


def test_columns_of_no_type_have_a_name_in_sql(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (a INT, n VOID, s STRUCT<x: INT, n: VOID>) USING delta")
    spark.sql(f"INSERT INTO {name} (a) VALUES (1)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN void VOID")
    spark.sql(f"UPDATE {name} SET a = 4 WHERE n IS NULL")
    frame = spark.sql(f"SELECT * FROM {name}")
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("a", "int"),
        ("n", "void"),
        ("s", "struct<x:int,n:void>"),
        ("void", "void"),
    ]
    assert [tuple(r) for r in frame.collect()] == [(4, None, None, None)]


def test_defaults_need_their_feature_and_missing_columns_a_value(spark: SparkSession, table: str) -> None:
    name, nulls = f"delta.`{table}`", "spark.sql.defaultColumn.useNullsForMissingDefaultValues"
    defaults = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    refused = _refused(spark, f"CREATE TABLE {name} (a INT, b INT DEFAULT 5) USING delta")
    assert refused == "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED"
    numbered = "id BIGINT GENERATED BY DEFAULT AS IDENTITY DEFAULT 3"
    refused = _refused(spark, f"CREATE TABLE {name} ({numbered}) USING delta {defaults}")
    assert refused == "IDENTITY_COLUMN_WITH_DEFAULT_VALUE"
    spark.sql(f"CREATE TABLE {name} (a INT, b INT DEFAULT 5, c INT) USING delta {defaults}")
    spark.conf.set(nulls, "false")
    try:
        for missing in (f"INSERT INTO {name} (a) VALUES (1)", f"INSERT INTO {name} BY NAME SELECT 1 AS a"):
            assert _refused(spark, missing) == "DELTA_INSERT_COLUMN_MISMATCH"
        spark.sql(f"INSERT INTO {name} (a, c) VALUES (1, 2)")
    finally:
        spark.conf.unset(nulls)
    assert [tuple(r) for r in spark.sql(f"SELECT * FROM {name}").collect()] == [(1, 5, 2)]


def test_rows_need_a_column_that_a_file_can_hold(spark: SparkSession, table: str, tmp_path: Path) -> None:
    empty = "DELTA_CANNOT_WRITE_EMPTY_SCHEMA."
    for n, (columns, found) in enumerate(
        {
            "a VOID": f"{empty}TABLE_ALL_VOID_COLUMNS",
            "p INT, a VOID": f"{empty}TABLE_ALL_VOID_COLUMNS",
            "p INT, a STRUCT<v: VOID>": f"{empty}STRUCT_ALL_VOID_FIELDS",
            "p INT, a ARRAY<VOID>": "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
        }.items()
    ):
        name = f"delta.`{tmp_path}/{n}`"
        parts = "PARTITIONED BY (p)" if columns == "p INT, a VOID" else ""
        spark.sql(f"CREATE TABLE {name} ({columns}) USING delta {parts}")
        values = "1, null" if columns.startswith("p") else "null"
        assert _refused(spark, f"INSERT INTO {name} VALUES ({values})") == found, columns
    frame = spark.sql("SELECT 'abc' AS key, null AS id")
    for by, condition in (
        ("key", f"{empty}TABLE_ALL_VOID_COLUMNS"),
        ("iD", "DELTA_INVALID_PARTITION_COLUMN_TYPE"),
    ):
        with pytest.raises(TidegateError) as caught:
            frame.write.format("delta").partitionBy(by).save(table)
        assert caught.value.errorClass == condition
    assert not DeltaTable.isDeltaTable(spark, table)


def test_structs_with_a_field_of_no_type_come_back_as_they_were(spark: SparkSession, table: str) -> None:
    # PySpark's own mapInArrow, by which Connect writes, does not take a backtick in a name.
    k, v = ("`k`", "`v`") if CONNECT else ("`k``1`", "`v``1`")
    spark.sql(
        f"SELECT named_struct('a', null, 'b', 2) AS {k}, 1 AS {v} UNION ALL SELECT null, 2"
    ).write.format("delta").save(table)
    found = spark.read.format("delta").load(table)
    assert sorted((r[1], r[0]) for r in found.collect()) == [(1, (None, 2)), (2, None)]
    assert [r[0] for r in found.where(f"{k} IS NOT NULL AND {k}.a IS NULL").collect()] == [(None, 2)]
    assert found.where(f"{k}.a IS NOT NULL").count() == 0


def test_a_length_in_a_struct_with_a_field_of_no_type_is_kept(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    inner = "STRUCT<a: CHAR(3), b: VOID, c: STRUCT<d: VOID, e: VARCHAR(2)>>"
    spark.sql(f"CREATE TABLE {name} (id INT, s {inner}, n INT) USING delta")
    value = "named_struct('a', 'x', 'b', null, 'c', named_struct('d', null, 'e', 'y '))"
    spark.sql(f"INSERT INTO {name} VALUES (1, {value}, 1), (2, null, 2)")
    spark.sql(f"UPDATE {name} SET n = 10, s.a = 'z' WHERE id = 1")
    found = spark.read.format("delta").load(table).orderBy("id").collect()
    assert [tuple(r) for r in found] == [(1, ("z  ", None, (None, "y ")), 10), (2, None, 2)]
    assert spark.read.format("delta").load(table).where("s.a = 'z  ' AND s.b IS NULL").count() == 1
    for column in ("a", "c.e"):
        with pytest.raises(InvariantViolationException):
            spark.sql(f"UPDATE {name} SET s.{column} = 'long' WHERE id = 1")
    with pytest.raises(InvariantViolationException):
        spark.sql(f"INSERT INTO {name} VALUES (3, {value.replace('x', 'long')}, 3)")


def test_defaults_that_no_column_takes_and_those_that_rows_break(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    allowed = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'enabled')"
    for default, found in {
        "INT DEFAULT (SELECT min(x) FROM nowhere)": "INVALID_DEFAULT_VALUE.SUBQUERY_EXPRESSION",
        "INT DEFAULT (SELECT 42 AS x)": "INVALID_DEFAULT_VALUE.SUBQUERY_EXPRESSION",
        "BIGINT DEFAULT false": "INVALID_DEFAULT_VALUE.DATA_TYPE",
        "BOOLEAN DEFAULT 1": "INVALID_DEFAULT_VALUE.DATA_TYPE",
    }.items():
        assert _refused(spark, f"CREATE TABLE {name} (a {default}, b INT) USING delta {allowed}") == found
    spark.conf.set("spark.sql.defaultColumn.enabled", "false")
    try:
        refused = _refused(spark, f"CREATE TABLE {name} (a INT DEFAULT 41 + 1) USING delta {allowed}")
    finally:
        spark.conf.unset("spark.sql.defaultColumn.enabled")
    assert refused == "UNSUPPORTED_DEFAULT_VALUE.WITH_SUGGESTION"
    spark.sql(
        f"CREATE TABLE {name} (b BOOLEAN DEFAULT (1 IS NOT NULL) NOT NULL, q INT DEFAULT null NOT NULL, "
        f"r INT DEFAULT 42) USING delta {allowed}"
    )
    with pytest.raises(InvariantViolationException, match="NOT NULL"):
        spark.sql(f"INSERT INTO {name} VALUES (DEFAULT, DEFAULT, DEFAULT)")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN q SET DEFAULT 7")
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT small CHECK (r < 10)")
    with pytest.raises(InvariantViolationException, match="small"):
        spark.sql(f"INSERT INTO {name} VALUES (DEFAULT, DEFAULT, DEFAULT)")
    spark.sql(f"INSERT INTO {name} SELECT DEFAULT, DEFAULT, 9")
    spark.sql(f"UPDATE {name} SET q = DEFAULT")
    assert [tuple(r) for r in spark.sql(f"SELECT * FROM {name}").collect()] == [(True, 7, 9)]
    shown = [tuple(r) for r in spark.sql(f"DESCRIBE EXTENDED {name}").collect()]
    assert shown[-5:] == [
        ("", "", ""),
        ("# Column Default Values", "", ""),
        ("b", "boolean", "(1 IS NOT NULL)"),
        ("q", "int", "7"),
        ("r", "int", "42"),
    ]
