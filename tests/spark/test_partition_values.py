"""Partition values of every type, with nulls, empty strings and names that a path cannot hold as they are."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import InvariantViolationException

pytestmark = pytest.mark.spark

ODD = [
    "a/b",
    "a b",
    "ü=é",
    "%41",
    "a:b",
    "q?x#y",
    "{z}",
    "__HIVE_DEFAULT_PARTITION__",
    "1.0",
    "01",
    "\\\\back",
    "'q'",
    "*",
]
VALUES = {
    "boolean": ["true", "false"],
    "byte": ["cast(-1 AS byte)"],
    "short": ["cast(300 AS short)"],
    "int": ["7", "-7"],
    "long": ["9223372036854775807L"],
    "float": ["float('1.5')", "float('Infinity')"],
    "double": ["double('-0.25')", "double('NaN')"],
    "decimal(10,3)": ["cast(1.5 AS decimal(10,3))"],
    "string": [*(f"'{v}'" for v in ODD if "'" not in v), "\"'q'\"", "''"],
    "binary": ["cast('bin' AS binary)"],
    "date": ["DATE'2024-02-29'", "DATE'0099-01-01'"],
    "timestamp": ["TIMESTAMP'2024-02-29 12:00:00.000001'", "TIMESTAMP'1969-12-31 23:59:59.5'"],
    "timestamp_ntz": ["TIMESTAMP_NTZ'2024-02-29 12:00:00.25'"],
}


@pytest.mark.parametrize("portable", [False, True], ids=["native", "portable"])
@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_type_come_back_and_can_be_asked_for(
    spark: SparkSession, table: str, kind: str, portable: bool
) -> None:
    values = [*VALUES[kind], "null"]
    frame = spark.range(len(values)).selectExpr(
        "id", f"cast(element_at(array({', '.join(values)}), cast(id + 1 AS int)) AS {kind}) AS p"
    )
    writer = frame.write.format("delta").partitionBy("p").option("tidegate.write.portable", portable)
    writer.save(table)
    back = spark.read.format("delta").load(table)
    assert back.schema["p"].dataType == frame.schema["p"].dataType
    wanted = "CASE WHEN length(p) = 0 THEN null ELSE p END" if kind in ("string", "binary") else "p"
    told = f"to_json(struct(id, {wanted} AS p)) AS j"
    expected = sorted(r.j for r in frame.selectExpr(told).collect())
    if kind == "string":
        # A directory of this name is null to every client, so the log keeps null.
        expected = sorted(e.replace(',"p":"__HIVE_DEFAULT_PARTITION__"', "") for e in expected)
    assert sorted(r.j for r in back.selectExpr(told).collect()) == expected
    assert back.where("p IS NULL").count() == 1 + sum(
        v in ("''", "'__HIVE_DEFAULT_PARTITION__'") for v in values
    )
    first = back.where(f"p = cast({values[0]} AS {kind})")
    assert [r.id for r in first.collect()] == [0]


def test_several_partition_columns_in_their_own_order(spark: SparkSession, table: str) -> None:
    frame = spark.range(4).selectExpr("id % 2 AS b", "id", "DATE'2024-01-01' AS a")
    frame.write.format("delta").partitionBy("a", "b").save(table)
    snapshot = tidegate.open(table)
    assert snapshot.partition_columns == ("a", "b")
    assert {p.split("/part")[0] for p in snapshot.files().column("path").to_pylist()} == {
        "a=2024-01-01/b=0",
        "a=2024-01-01/b=1",
    }
    assert spark.read.format("delta").load(table).columns == ["b", "id", "a"]


def test_timestamps_are_logged_in_utc_whatever_the_sessions_zone(spark: SparkSession, table: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.range(1).selectExpr("id", "TIMESTAMP'2024-07-01 00:00:00' AS p")
        frame.write.format("delta").partitionBy("p").save(table)
        values = tidegate.open(table).files().column("partitionValues").to_pylist()
        assert [dict(v)["p"] for v in values] == ["2024-07-01T04:00:00.000000Z"]
        back = spark.read.format("delta").load(table)
        assert back.where("p = TIMESTAMP'2024-07-01 00:00:00'").count() == 1
        assert back.selectExpr("cast(p AS string)").head()[0] == "2024-07-01 00:00:00"
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_a_dynamic_overwrite_goes_by_values_not_by_their_spelling(spark: SparkSession, table: str) -> None:
    spark.range(2).selectExpr("id", "cast(id AS decimal(5,2)) AS p").write.format("delta").partitionBy(
        "p"
    ).save(table)
    spark.range(7, 8).selectExpr("id", "cast(1 AS decimal(5,2)) AS p").write.format("delta").mode(
        "overwrite"
    ).option("partitionOverwriteMode", "DYNAMIC").save(table)
    assert sorted(r.id for r in spark.read.format("delta").load(table).collect()) == [0, 7]


@pytest.mark.parametrize("portable", [False, True], ids=["native", "portable"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [("X'61ff'", "61FF"), ("cast(X'61ff' AS string)", "61FF"), ("concat('a', char(0), 'b')", "610062")],
    ids=["binary that is no text", "string that is no UTF-8", "U+0000"],
)
def test_a_value_that_no_log_keeps_is_refused_by_name(
    spark: SparkSession, table: str, value: str, shown: str, portable: bool
) -> None:
    spark.range(1).selectExpr("id", f"coalesce(null, {value}) AS p").where("false").write.format(
        "delta"
    ).partitionBy("p").save(table)
    frame = spark.range(2).selectExpr("id", f"CASE WHEN id = 1 THEN {value} END AS p")
    writer = frame.write.format("delta").mode("append").option("tidegate.write.portable", portable)
    with pytest.raises(InvariantViolationException, match=rf"column p cannot be written.*{shown}"):
        writer.save(table)
    assert tidegate.open(table).version == 0
