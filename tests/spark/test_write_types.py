"""Every type that a Delta table holds, written and read back; lengths kept; what it does not hold refused."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import InvariantViolationException, SchemaInvalidError
from tidegate.metadata import Metadata

pytestmark = pytest.mark.spark

Rows = Callable[..., list[tuple[object, ...]]]

VALUES = {
    "byte": ["cast(-128 AS byte)", "cast(127 AS byte)"],
    "short": ["cast(-32768 AS short)", "cast(32767 AS short)"],
    "int": ["cast(-2147483648 AS int)", "cast(2147483647 AS int)"],
    "long": ["-9223372036854775807L", "9223372036854775807L"],
    "float": ["float('NaN')", "float('-0.0')", "float('Infinity')", "float('1.17549435E-38')"],
    "double": ["double('NaN')", "double('-0.0')", "double('-Infinity')", "1e308D"],
    "boolean": ["true", "false"],
    "decimal(38,0)": ["cast('99999999999999999999999999999999999999' AS decimal(38,0))"],
    "decimal(38,38)": ["cast('-0.99999999999999999999999999999999999999' AS decimal(38,38))"],
    "decimal(9,4)": ["cast('-12345.6789' AS decimal(9,4))"],
    "string": ["''", "'x'", "'\\u0000é😀'", "repeat('y', 5000)"],
    "binary": ["X''", "X'00FF'"],
    "date": ["DATE'0001-01-01'", "DATE'1582-10-04'", "DATE'9999-12-31'"],
    "timestamp": ["TIMESTAMP'0001-01-01 00:00:00.000001'", "TIMESTAMP'9999-12-31 23:59:59.999999'"],
    "timestamp_ntz": ["TIMESTAMP_NTZ'1900-01-01 00:00:00'", "TIMESTAMP_NTZ'2024-02-29 12:34:56.789012'"],
    "array<int>": ["array()", "array(1, null, 3)"],
    "map<string,int>": ["map()", "map('a', 1, 'b', null)"],
    "struct<a:int,b:struct<c:string>>": ["named_struct('a', null, 'b', named_struct('c', 'x'))"],
    "array<map<string,array<struct<x:date>>>>": [
        "array(map('k', array(named_struct('x', DATE'2024-01-01'))))"
    ],
    "map<struct<k:int>,array<decimal(5,2)>>": [
        "map(named_struct('k', 1), array(cast(1.25 AS decimal(5,2))))"
    ],
}


@pytest.mark.parametrize("portable", [False, True], ids=["native", "portable"])
def test_every_type_comes_back_as_it_was(spark: SparkSession, table: str, portable: bool) -> None:
    columns = [f"cast(null AS {kind}) AS c{i}" for i, kind in enumerate(VALUES)]
    frame = spark.range(1).selectExpr("id", *columns)
    longest = max(len(v) for v in VALUES.values())
    for n in range(longest):
        chosen = [f"cast({v[n % len(v)]} AS {kind}) AS c{i}" for i, (kind, v) in enumerate(VALUES.items())]
        frame = frame.unionAll(spark.range(n + 1, n + 2).selectExpr("id", *chosen))
    frame.write.format("delta").option("tidegate.write.portable", portable).save(table)
    back = spark.read.format("delta").load(table)
    assert back.schema.simpleString() == frame.schema.simpleString()
    # Told as text by Spark itself: Python has no dates beyond its calendar, and NaN is not NaN. Digits of the
    # text, since the bytes of a binary are none that Arrow would carry.
    told = f"hex(cast(struct({', '.join(frame.columns)}) AS string)) AS told"
    assert sorted(r.told for r in back.selectExpr(told).collect()) == sorted(
        r.told for r in frame.selectExpr(told).collect()
    )
    assert back.where("c4 = float('NaN')").count() == 1


def test_void_columns_come_back_void_and_take_a_type_later(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.range(1).selectExpr("id", "null AS nothing").write.format("delta").save(table)
    back = spark.read.format("delta").load(table)
    assert back.schema["nothing"].dataType.simpleString() == "void"
    assert rows(table) == [(0, None)]
    later = spark.range(1, 2).selectExpr("id", "'x' AS nothing")
    later.write.format("delta").mode("append").option("mergeSchema", True).save(table)
    assert rows(table) == [(0, None), (1, "x")]


def test_variants_come_back(spark: SparkSession, table: str) -> None:
    frame = spark.range(2).selectExpr("id", "parse_json('{\"a\": [1, null]}') AS v")
    frame.write.format("delta").save(table)
    assert tidegate.open(table).protocol.supports("variantType")
    back = spark.read.format("delta").load(table).selectExpr("to_json(v)", "v:a[0]::int").distinct()
    assert [tuple(r) for r in back.collect()] == [('{"a":[1,null]}', 1)]


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("INTERVAL '1' DAY", "interval"),
        ("INTERVAL '1' YEAR", "interval"),
        ("array(INTERVAL '1' DAY)", "interval"),
        ("array(null)", "null alone"),
        ("map('k', null)", "null alone"),
        ("named_struct('n', null)", "something else than null"),
    ],
)
def test_types_that_no_table_holds_are_refused_before_any_job(
    spark: SparkSession, table: str, expression: str, what: str
) -> None:
    with pytest.raises(SchemaInvalidError, match=what):
        spark.range(1).selectExpr("id", f"{expression} AS c").write.format("delta").save(table)
    with pytest.raises(tidegate.TidegateError):
        tidegate.open(table)


def _with_lengths(table: str) -> None:
    key = "__CHAR_VARCHAR_TYPE_STRING"
    nested = "struct<in:varchar(2)>"
    schema = (
        '{"type":"struct","fields":['
        f'{{"name":"c","type":"string","nullable":true,"metadata":{{"{key}":"char(3)"}}}},'
        f'{{"name":"v","type":"string","nullable":true,"metadata":{{"{key}":"varchar(3)"}}}},'
        '{"name":"s","type":{"type":"struct","fields":[{"name":"in","type":"string","nullable":true,'
        f'"metadata":{{}}}}]}},"nullable":true,"metadata":{{"{key}":"{nested}"}}}}]}}'
    )
    transaction = tidegate.Transaction.begin(table)
    transaction.update_metadata(Metadata(id="1", schema_string=schema))
    transaction.commit(operation="CREATE TABLE")


def test_chars_are_filled_up_and_what_is_too_long_is_refused(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    _with_lengths(table)
    good = spark.sql("SELECT 'a' AS c, 'abc  ' AS v, named_struct('in', 'xy ') AS s")
    good.write.format("delta").mode("append").save(table)
    spark.sql("SELECT null AS c, null AS v, null AS s").write.format("delta").mode("append").save(table)
    found = spark.read.format("delta").load(table).selectExpr("concat('<', c, '>')", "v", "s.in").collect()
    assert sorted(map(tuple, found), key=str) == [("<a  >", "abc", "xy"), (None, None, None)]
    for text, column in (
        ("'abcd' AS c", "c"),
        ("'abcd' AS v", "v"),
        ("named_struct('in', 'xyz') AS s", "s.in"),
    ):
        with pytest.raises(InvariantViolationException, match=f"too long for the column {column}") as caught:
            spark.sql(f"SELECT {text}").write.format("delta").mode("append").save(table)
        assert caught.value.errorClass == "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"
    assert tidegate.open(table).version == 2


def test_a_column_takes_the_wider_type_of_the_data_where_the_table_widens(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    from tidegate.commands.write import write

    narrow = spark.range(1).selectExpr("cast(id AS int) AS n", "named_struct('d', cast(1 AS short)) AS s")
    write(narrow, table, properties={"delta.enableTypeWidening": "true"})
    wide = spark.range(1).selectExpr("3000000000L AS n", "named_struct('d', 70000) AS s")
    wide.write.format("delta").mode("append").option("mergeSchema", True).save(table)
    assert spark.read.format("delta").load(table).schema.simpleString() == "struct<n:bigint,s:struct<d:int>>"
    assert [(r[0], tuple(r[1])) for r in rows(table)] == [(0, (1,)), (3000000000, (70000,))]


def test_numbers_that_do_not_fit_fail_the_write_rather_than_wrap(spark: SparkSession, table: str) -> None:
    spark.range(1).selectExpr("cast(id AS byte) AS n", "cast(1 AS decimal(3,1)) AS d").write.format(
        "delta"
    ).save(table)
    for text in ("300 AS n", "cast(12345.6 AS decimal(6,1)) AS d"):
        with pytest.raises(Exception, match=r"OVERFLOW|OUT_OF_RANGE"):
            spark.sql(f"SELECT {text}").write.format("delta").mode("append").save(table)
    assert tidegate.open(table).version == 0
    spark.sql("SELECT 5L AS n, 7.0 AS d").write.format("delta").mode("append").save(table)
    assert (5, Decimal("7.0")) in {tuple(r) for r in spark.read.format("delta").load(table).collect()}


def test_a_value_is_written_as_the_store_assignment_policy_says(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    spark.sql(f"CREATE TABLE delta.`{table}` (a INT, l ARRAY<SMALLINT>, s STRUCT<x: TINYINT>) USING delta")
    large = ("3000000000L, array(), null", "1, array(70000), null", "1, null, named_struct('x', 300)")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for values in large:
            with pytest.raises(PySparkException, match="does not fit into"):
                spark.sql(f"INSERT INTO delta.`{table}` SELECT {values}")
            frame = spark.sql(f"SELECT {values}").toDF("a", "l", "s")
            with pytest.raises(PySparkException, match="does not fit into"):
                frame.write.format("delta").mode("append").save(table)
        spark.sql(f"INSERT INTO delta.`{table}` SELECT 3L, array(4L, null), named_struct('x', 5)")
        spark.conf.set("spark.sql.storeAssignmentPolicy", "STRICT")
        with pytest.raises(SchemaInvalidError, match="STRICT"):
            spark.sql(f"INSERT INTO delta.`{table}` SELECT 3L, array(), null")
        spark.sql(f"INSERT INTO delta.`{table}` SELECT 4Y, array(2Y), named_struct('x', 1Y)")
        spark.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
        spark.sql(f"INSERT INTO delta.`{table}` SELECT {large[0]}")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.unset("spark.sql.storeAssignmentPolicy")
    assert rows(table, "a IN (3, 4)") == [(3, [4, None], (5,)), (4, [2], (1,))]
    assert rows(table, "a < 0") == [(3000000000 - (1 << 32), [], None)]
    assert tidegate.open(table).version == 3


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INT", "1.9D"),
        ("DECIMAL(5, 2)", "1.239"),
        ("DATE", "TIMESTAMP'2020-01-01 05:00:00'"),
        ("ARRAY<BIGINT>", "array(0.5F)"),
        ("STRUCT<x: INT>", "named_struct('x', 1.5)"),
    ],
)
def test_what_a_column_would_cut_off_is_not_written_to_a_path(
    spark: SparkSession, table: str, kind: str, value: str
) -> None:
    spark.sql(f"CREATE TABLE delta.`{table}` (a {kind}, b INT) USING delta")
    frame = spark.sql(f"SELECT {value} AS a, 1 AS b")
    for mode in ("append", "overwrite"):
        with pytest.raises(AnalysisException, match="cut something off from") as refused:
            frame.write.format("delta").mode(mode).save(table)
        assert refused.value.getCondition() == "DELTA_FAILED_TO_MERGE_FIELDS"
    assert tidegate.open(table).version == 0
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", True).save(table)
    frame.writeTo(f"delta.`{table}`").append()
    assert spark.read.format("delta").load(table).count() == 2
