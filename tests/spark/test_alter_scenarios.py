"""ALTER TABLE and identity columns scenario by scenario, as Delta's own suites ask for them, in SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import tidegate
from support.dml import confs

pytestmark = pytest.mark.spark


@pytest.fixture
def altered(spark: SparkSession, table: str) -> Iterator[str]:
    """A table of one row, by its name, with a struct, an array and a map."""
    spark.sql("DROP TABLE IF EXISTS altered")
    spark.sql(
        f"CREATE TABLE altered USING delta LOCATION '{table}' AS SELECT 1 AS v1, 'a' AS v2, "
        "named_struct('v1', 1, 'v2', 'z') AS s, array(1) AS a, map(1, 'x') AS m"
    )
    yield table
    spark.sql("DROP TABLE IF EXISTS altered")


def _columns(path: str) -> dict[str, Any]:
    return {f.name: str(f.type) for f in tidegate.open(path).schema.fields}


def _condition(spark: SparkSession, statement: str) -> str | None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(statement)
    return caught.value.getCondition()


def test_columns_change_with_their_name_type_comment_and_place(spark: SparkSession, altered: str) -> None:
    for change in (
        "v2 v2 STRING COMMENT 'first of all' FIRST",
        "V1 v1 INT AFTER A",
        "v1 V1 INT",
        "v1 v1 INT AFTER v1",
        "s.v1 v1 INT COMMENT 'inside' AFTER v2",
        "a a ARRAY<INT> COMMENT 'a list'",
        "m m MAP<INT, STRING> AFTER v2",
    ):
        spark.sql(f"ALTER TABLE altered CHANGE COLUMN {change}")
    assert _columns(altered) == {
        "v2": "string",
        "m": "map<integer,string>",
        "s": "struct<v2:string,v1:integer>",
        "a": "array<integer>",
        "v1": "integer",
    }
    schema = tidegate.open(altered).schema
    comments = {".".join(p): f.metadata["comment"] for p, f in schema.walk() if f.metadata}
    assert comments == {"v2": "first of all", "s.v1": "inside", "a": "a list"}
    assert [tuple(r) for r in spark.table("altered").collect()] == [("a", {1: "x"}, ("z", 1), [1], 1)]
    version = tidegate.open(altered).version
    for change in (
        "v1 v1 INT AFTER unknown",
        "s.v1 v1 INT AFTER unknown",
        "unknown unknown STRING FIRST",
        "v1 v1 BIGINT",
        "v2 v3 STRING",
        "s s STRUCT<v1: INT, v2: STRING>",
        "s s STRUCT<v2: STRING, v1: INT, v3: INT>",
        "m.value FIRST",
        "a.element COMMENT 'x'",
    ):
        _condition(spark, f"ALTER TABLE altered CHANGE COLUMN {change}")
    assert tidegate.open(altered).version == version


def test_columns_are_added_at_every_depth(spark: SparkSession, altered: str) -> None:
    spark.sql("ALTER TABLE altered ADD COLUMNS (w LONG FIRST, x LONG AFTER w, y ARRAY<STRUCT<p: INT>>)")
    spark.sql("ALTER TABLE altered ADD COLUMNS (s.v3 LONG FIRST, s.v4 LONG AFTER V1, y.element.q STRING)")
    found = _columns(altered)
    assert list(found) == ["w", "x", "v1", "v2", "s", "a", "m", "y"]
    assert found["s"] == "struct<v3:long,v1:integer,v4:long,v2:string>"
    assert found["y"] == "array<struct<p:integer,q:string>>"
    told = {
        c: _condition(spark, f"ALTER TABLE altered ADD COLUMNS ({c} LONG)")
        for c in ("m.key.z", "m.z", "v2.z", "V2", "s.v2", "`a b`", "unknown.z")
    }
    assert told == {
        "m.key.z": "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT",
        "m.z": "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT",
        "v2.z": "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT",
        "V2": "FIELD_ALREADY_EXISTS",
        "s.v2": "FIELD_ALREADY_EXISTS",
        "`a b`": "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
        "unknown.z": "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
    }
    assert spark.sql("SELECT s.v3, s.v1, y FROM altered").collect()[0] == (None, 1, None)


def test_names_with_dots_stand_wherever_a_column_may(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    inner = "named_struct('x.x', 1, 'y.y', 'a')"
    spark.sql(f"SELECT 1 AS `x.x`, 'a' AS `y.y`, {inner} AS `z.z`").write.format("delta").save(table)
    for change in (
        "ADD COLUMNS (`w.w` BIGINT AFTER `x.x`, `z.z`.`v.v` DOUBLE AFTER `x.x`)",
        "CHANGE COLUMN `z.z`.`x.x` `x.x` INT COMMENT 'inside' AFTER `y.y`",
        "CHANGE COLUMN `x.x` `x.x` INT AFTER `z.z`",
        "ALTER COLUMN `y.y` AFTER `x.x`",
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "RENAME COLUMN `z.z`.`y.y` TO `q.q`",
        "RENAME COLUMN `w.w` TO `k.k`",
        "DROP COLUMN `z.z`.`v.v`",
        "ADD COLUMN `n.n` INT AFTER `k.k`",
    ):
        spark.sql(f"ALTER TABLE {name} {change}")
    assert _columns(table) == {
        "k.k": "long",
        "n.n": "integer",
        "z.z": "struct<q.q:string,x.x:integer>",
        "x.x": "integer",
        "y.y": "string",
    }
    assert [tuple(r) for r in spark.sql(f"SELECT * FROM {name}").collect()] == [
        (None, None, ("a", 1), 1, "a")
    ]


def test_columns_of_structs_change_under_column_mapping_too(spark: SparkSession, table: str) -> None:
    name, pair = f"ALTER TABLE delta.`{table}`", "STRUCT<x: INT, y: INT>"
    spark.sql(
        f"CREATE TABLE delta.`{table}` (v INT, s STRUCT<v: INT, i: {pair}>, "
        f"a ARRAY<STRUCT<m: MAP<INT, {pair}>>>) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    for change in (
        f"s.i i {pair} COMMENT 'inner' FIRST",
        f"a.element.m m MAP<INT, {pair}> COMMENT 'deep'",
        f"a a ARRAY<STRUCT<m: MAP<INT, {pair}> COMMENT 'deep'>> FIRST",
    ):
        spark.sql(f"{name} CHANGE COLUMN {change}")
    schema = tidegate.open(table).schema
    comments = {".".join(p): c for p, f in schema.walk() if (c := f.metadata.get("comment"))}
    assert (schema.names, comments) == (("a", "v", "s"), {"s.i": "inner", "a.element.m": "deep"})
    version = tidegate.open(table).version
    for change in (
        "s.i i STRUCT<y: INT, x: INT>",
        "s.i i STRUCT<x: INT, Y: INT>",
        "s.i i STRUCT<x: INT, y: INT COMMENT 'no'>",
        "s.i i STRUCT<x: INT, y: INT NOT NULL>",
        f"a a ARRAY<STRUCT<m: MAP<INT, {pair}>>>",
    ):
        _condition(spark, f"{name} CHANGE COLUMN {change}")
    assert tidegate.open(table).version == version


def test_keys_of_users_are_told_apart_by_case_and_deltas_are_not(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (a INT) USING delta TBLPROPERTIES ('DELTA.appendonly' = 'false', 'Foo' = '1')"
    )
    interval = {"delta.checkpointInterval": "5"}
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('DelTa.ChEckPoiNtinTervAl' = '5', 'foo' = '2')")
    properties = tidegate.open(table).properties
    assert properties == {"delta.appendOnly": "false", "Foo": "1", "foo": "2", **interval}
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('delta.APPENDonly', 'foo')")
    assert tidegate.open(table).properties == {"Foo": "1", **interval}
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ('FOO')")
    assert tidegate.open(table).properties == {"Foo": "1", **interval}


def test_what_delta_or_spark_keeps_is_neither_set_nor_unset(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (a INT, b INT) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true')"
    )
    spark.sql(f"ALTER TABLE {name} DROP COLUMN b")
    before = tidegate.open(table)
    for key in (
        "delta.columnMapping.maxColumnId",
        "delta.rowTracking.materializedRowIdColumnName",
        "DELTA.rowTracking.materializedRowCommitVersionColumnName",
    ):
        for change in (f"SET TBLPROPERTIES ('{key}' = '1')", f"UNSET TBLPROPERTIES ('{key}')"):
            found = _condition(spark, f"ALTER TABLE {name} {change}")
            assert found == "DELTA_CANNOT_MODIFY_TABLE_PROPERTY", change
    for key in ("location", "provider", "owner", "external"):
        for statement in (
            f"ALTER TABLE {name} SET TBLPROPERTIES ('{key}' = 'x')",
            f"ALTER TABLE {name} UNSET TBLPROPERTIES ('{key}')",
            f"CREATE OR REPLACE TABLE {name} (a INT) USING delta TBLPROPERTIES ('{key}' = 'x')",
        ):
            with pytest.raises(ParseException) as caught:
                spark.sql(statement)
            assert caught.value.getCondition() == "UNSUPPORTED_FEATURE.SET_TABLE_PROPERTY"
    assert tidegate.open(table).metadata == before.metadata


def test_several_columns_change_in_one_commit(spark: SparkSession, altered: str) -> None:
    spark.sql(
        "ALTER TABLE altered SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true', "
        "'delta.feature.allowColumnDefaults' = 'supported')"
    )
    version = tidegate.open(altered).version
    for change, found in {
        "v1 COMMENT 'a', V1 FIRST": "NOT_SUPPORTED_CHANGE_SAME_COLUMN",
        "s COMMENT 'a', s.v1 COMMENT 'b'": "NOT_SUPPORTED_CHANGE_SAME_COLUMN",
        "v1 COMMENT 'a', unknown FIRST": "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
        "v1 TYPE BIGINT, v2 TYPE INT": "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        "v1 COMMENT 'a', v2 v2 STRING": "PARSE_SYNTAX_ERROR",
    }.items():
        assert _condition(spark, f"ALTER TABLE altered ALTER COLUMN {change}") == found, change
    assert tidegate.open(altered).version == version
    spark.sql(
        "ALTER TABLE altered ALTER COLUMN v1 TYPE BIGINT, v2 SET DEFAULT concat('x', 'y'), "
        "s.v2 COMMENT 'inside', a FIRST, m AFTER a"
    )
    assert list(_columns(altered)) == ["a", "m", "v1", "v2", "s"]
    spark.sql("INSERT INTO altered (v1) VALUES (10000000000)")
    rows = [tuple(r) for r in spark.sql("SELECT v1, v2, s.v1 FROM altered ORDER BY v1").collect()]
    assert rows == [(1, "a", 1), (10000000000, "xy", None)]
    told = tidegate.open(altered, version=version + 1).commit_info
    assert told["operation"] == "CHANGE COLUMNS"
    columns = json.loads(told["operationParameters"]["columns"])
    assert [(c["column"]["name"], c.get("position")) for c in columns] == [
        ("v1", None),
        ("v2", None),
        ("s.v2", None),
        ("a", "FIRST"),
        ("m", "AFTER a"),
    ]


def test_constraints_by_name(spark: SparkSession, altered: str) -> None:
    for name, expression in (("small", "v1 < 10"), ("deep", "s.v1 < 5 AND size(a) = 1")):
        spark.sql(f"ALTER TABLE altered ADD CONSTRAINT {name} CHECK ({expression});")
    assert _condition(spark, "ALTER TABLE altered ADD CONSTRAINT SMALL CHECK (true)") == (
        "DELTA_CONSTRAINT_ALREADY_EXISTS"
    )
    assert _condition(spark, "ALTER TABLE altered ADD CONSTRAINT n CHECK (a[0] > 5)") == (
        "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
    )
    _condition(spark, "ALTER TABLE altered ADD CONSTRAINT __CHAR_VARCHAR_STRING_LENGTH_CHECK__ CHECK (true)")
    assert _condition(spark, "ALTER TABLE altered DROP CONSTRAINT other") == "DELTA_CONSTRAINT_DOES_NOT_EXIST"
    with confs(spark, constraints__assumesDropIfExists__enabled="true"):
        spark.sql("ALTER TABLE altered DROP CONSTRAINT other")
    spark.sql("ALTER TABLE altered DROP CONSTRAINT DEEP;")
    assert tidegate.open(altered).properties == {"delta.constraints.small": "v1 < 10"}


def test_a_value_by_default_has_no_expression(spark: SparkSession, table: str) -> None:
    columns = "a INT, b INT GENERATED BY DEFAULT AS (a + 1)"
    assert _condition(spark, f"CREATE TABLE delta.`{table}` ({columns}) USING delta") == "PARSE_SYNTAX_ERROR"


def test_an_identity_column_is_moved_and_renamed_and_goes_on(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT GENERATED BY DEFAULT AS IDENTITY, v INT) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    for v, change in enumerate(
        ("ALTER COLUMN id AFTER v", "ALTER COLUMN id COMMENT 'numbers'", "RENAME COLUMN id TO number")
    ):
        spark.sql(f"ALTER TABLE {name} {change}")
        spark.sql(f"INSERT INTO {name} (v) VALUES ({v})")
    assert sorted(tuple(r) for r in spark.sql(f"SELECT * FROM {name}").collect()) == [(0, 1), (1, 2), (2, 3)]
    told = [
        _condition(spark, f"ALTER TABLE {name} {change}")
        for change in (
            "CHANGE COLUMN number TYPE DOUBLE",
            "ALTER COLUMN number SET DEFAULT 1",
            "REPLACE COLUMNS (number BIGINT, v INT)",
        )
    ]
    assert told == [
        "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED",
        "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED",
        "DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED",
    ]


def test_only_delta_tables_have_identities_to_sync(spark: SparkSession, table: str) -> None:
    spark.range(1).write.format("delta").save(table)
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW passing AS SELECT 1 AS id")
    spark.sql("CREATE TABLE files (id BIGINT) USING parquet")
    told = {
        name: _condition(spark, f"ALTER TABLE {name} ALTER COLUMN id SYNC IDENTITY")
        for name in ("missing", "passing", f"delta.`{table}`", "files")
    }
    spark.catalog.dropTempView("passing")
    spark.sql("DROP TABLE files")
    assert list(told.values()) == [
        "TABLE_OR_VIEW_NOT_FOUND",
        "TABLE_OR_VIEW_NOT_FOUND",
        "DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN",
        "DELTA_IDENTITY_COLUMNS_ALTER_NON_DELTA_FORMAT",
    ]


def test_an_identity_column_that_has_given_its_last_number(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    last = 2**63 - 1
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH {last}), v INT) USING delta"
    )
    spark.sql(f"INSERT INTO {name} (v) VALUES (1)")
    with pytest.raises(tidegate.errors.CommitRefusedError, match="run out of numbers"):
        spark.sql(f"INSERT INTO {name} (v) VALUES (2)")
    assert [tuple(r) for r in spark.sql(f"SELECT * FROM {name}").collect()] == [(last, 1)]


def _replaced(table: str, **said: str) -> str:
    """REPLACE COLUMNS with the columns of a table as they are, but for those that are said."""
    plain = "STRUCT<v1: INT, v2: STRING>"
    of = {"v1": "v1 INT", "more": "", **dict.fromkeys(("s", "element", "key", "value"), plain), **said}
    return (
        f"ALTER TABLE delta.`{table}` REPLACE COLUMNS ({of['v1']}, v2 STRING, s {of['s']}, "
        f"a ARRAY<{of['element']}>, m MAP<{of['key']}, {of['value']}>{of['more']})"
    )


def test_the_list_of_columns_is_replaced_at_every_depth(spark: SparkSession, table: str) -> None:
    inner = "named_struct('v1', 1, 'v2', 'a')"
    spark.sql(
        f"CREATE TABLE delta.`{table}` USING delta AS SELECT 1 AS v1, 'a' AS v2, {inner} AS s, "
        f"array({inner}) AS a, map({inner}, {inner}) AS m"
    )
    places = ("s", "element", "key", "value")
    described = {p: f"STRUCT<v1: INT COMMENT '{p}.v1', v2: STRING>" for p in places}
    spark.sql(_replaced(table, v1="v1 INT COMMENT 'v1'", **described))
    before = tidegate.open(table).metadata.schema_string
    assert [before.count(f'"comment":"{p}.v1"') for p in places] == [1, 1, 1, 1]
    # A comment that is left out stays, and so does the case of a name.
    spark.sql(_replaced(table, v1="V1 INT", **dict.fromkeys(places, "STRUCT<V1: INT, v2: STRING>")))
    assert tidegate.open(table).metadata.schema_string == before
    version = tidegate.open(table).version
    unsupported = "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"
    for kind in (
        "STRUCT<v2: STRING>",
        "STRUCT<v1: BIGINT, v2: STRING>",
        "STRUCT<v1: INT NOT NULL, v2: STRING>",
        "STRUCT<v1: INT, v2: STRING, v3: INT NOT NULL>",
    ):
        for place in places:
            assert _condition(spark, _replaced(table, **{place: kind})) == unsupported, (place, kind)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert _condition(spark, _replaced(table, v1="V1 INT")) == unsupported
        twice = "DELTA_DUPLICATE_COLUMNS_FOUND.REPLACING_COLUMNS"
        for place in places:
            other = _replaced(table, **{place: "STRUCT<V1: INT, v2: STRING>"})
            assert _condition(spark, other) == unsupported, place
            both = _replaced(table, **{place: "STRUCT<v1: INT, v2: STRING, V1: INT>"})
            assert _condition(spark, both) == twice, place
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert tidegate.open(table).version == version
    more = dict.fromkeys(places, "STRUCT<v2: STRING, v3: BIGINT, v1: INT>")
    spark.sql(_replaced(table, more=", v3 BIGINT", **more))
    row = spark.read.format("delta").load(table).collect()[0]
    new = ("a", None, 1)
    assert row == (1, "a", new, [new], {new: new}, None)
