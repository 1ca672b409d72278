"""The schema of what is read: nulls, comments and lengths as the table has them, and nothing for clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate import DeltaTable
from tidegate.errors import AlterRefusedError, InvariantViolationException
from tidegate.spark.jvm import is_connect

pytestmark = pytest.mark.spark

COLUMNS = (
    "id BIGINT NOT NULL COMMENT 'the id', "
    "s STRUCT<a: INT NOT NULL COMMENT 'inner', b: STRING>, "
    "arr ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT> NOT NULL, "
    "g BIGINT GENERATED ALWAYS AS (id + 1) COMMENT 'computed', d INT DEFAULT 5, "
    "p STRING NOT NULL COMMENT 'part'"
)
PROPERTIES = "'delta.enableChangeDataFeed' = 'true', 'delta.feature.allowColumnDefaults' = 'supported'"


@pytest.fixture(scope="module", params=["none", pytest.param("name", marks=pytest.mark.deep), "id"])
def table(request: Any, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("schemas") / "t")
    spark.sql(
        f"CREATE TABLE delta.`{place}` ({COLUMNS}) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({PROPERTIES}, 'delta.columnMapping.mode' = '{request.param}')"
    )
    spark.sql(
        f"INSERT INTO delta.`{place}` (id, s, arr, m, p) "
        "VALUES (1, named_struct('a', 1, 'b', 'x'), array(named_struct('x', 1)), map('k', 1), 'q')"
    )
    return place


WAYS = {
    "load": lambda spark, place: spark.read.format("delta").load(place),
    "a path in SQL": lambda spark, place: spark.sql(f"SELECT * FROM delta.`{place}`"),
    "toDF": lambda spark, place: DeltaTable.forPath(spark, place).toDF(),
    "an older version": lambda spark, place: spark.read.option("versionAsOf", 0).format("delta").load(place),
    "a stream": lambda spark, place: spark.readStream.format("delta").load(place),
}


def shown(frame: DataFrame) -> dict[str, tuple[bool, dict[str, Any]]]:
    found = {f.name: (f.nullable, f.metadata) for f in frame.schema.fields}
    if is_connect(frame.sparkSession):
        # There Spark is handed files and a schema, of which it takes null to be possible everywhere.
        return {n: (EXPECTED[n][0] if n in EXPECTED else True, m) for n, (_, m) in found.items()}
    return found


EXPECTED = {
    "id": (False, {"comment": "the id"}),
    "s": (True, {}),
    "arr": (True, {}),
    "m": (False, {}),
    "g": (True, {"comment": "computed"}),
    "d": (True, {}),
    "p": (False, {"comment": "part"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_nulls_and_comments_are_those_of_the_table(spark: SparkSession, table: str, way: str) -> None:
    frame = WAYS[way](spark, table)
    assert shown(frame) == EXPECTED
    inner = {f.name: (f.nullable, f.metadata) for f in frame.schema["s"].dataType.fields}
    assert inner == {"a": (is_connect(spark) and way != "a stream", {"comment": "inner"}), "b": (True, {})}


@pytest.mark.parametrize("streaming", [False, True])
def test_the_change_feed_has_them_too(spark: SparkSession, table: str, streaming: bool) -> None:
    reader = spark.readStream if streaming else spark.read
    frame = reader.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(table)
    found = shown(frame)
    assert {n: found.pop(n)[0] for n in ("_change_type", "_commit_version", "_commit_timestamp")} == {
        "_change_type": True,
        "_commit_version": True,
        "_commit_timestamp": True,
    }
    assert found == EXPECTED


def test_a_copy_keeps_the_comments_alone(spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.read.format("delta").load(table).write.format("delta").save(str(tmp_path / "copy"))
    copy = tidegate.open(str(tmp_path / "copy"))
    assert {f.name: dict(f.metadata) for f in copy.schema.fields} == {n: m for n, (_, m) in EXPECTED.items()}
    assert all(f.nullable for f in copy.schema.fields)
    assert not copy.protocol.writer_features
    assert copy.protocol.min_writer_version == 2


def test_commands_go_on_with_columns_that_hold_no_null(spark: SparkSession, table: str) -> None:
    """Null enters such rows on the way (a join, a condition), never the table."""
    found = DeltaTable.forPath(spark, table)
    more = spark.range(2, 4).selectExpr(
        "id", "named_struct('a', 2, 'b', 'y') s", "array() arr", "map() m", "'r' p"
    )
    merge = found.alias("t").merge(more.alias("u"), "t.id = u.id")
    values = {c: F.col(f"u.{c}") for c in ("id", "s", "m", "p")}
    merge.whenMatchedDelete().whenNotMatchedInsert(values=values).execute()
    found.update("id = 3", {"s.b": "'z'"})
    found.delete("id = 2")
    assert [(r.id, r.s.b) for r in found.toDF().orderBy("id").collect()] == [(1, "x"), (3, "z")]
    with pytest.raises(InvariantViolationException, match="NOT NULL"):
        found.update("id = 3", {"m": "NULL"})
    found.restoreToVersion(1)


# ---------------------------------------------------------------------------- char and varchar

LENGTHS = "c CHAR(3) COMMENT 'cc', v VARCHAR(4), n STRUCT<c: CHAR(3)>, p CHAR(2)"
KEY = "__CHAR_VARCHAR_TYPE_STRING"


@pytest.fixture(params=["none", *(pytest.param(m, marks=pytest.mark.deep) for m in ("name", "id"))])
def lengths(request: Any, spark: SparkSession, tmp_path: Path) -> str:
    place = str(tmp_path / "lengths")
    spark.sql(
        f"CREATE TABLE delta.`{place}` ({LENGTHS}) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ('delta.columnMapping.mode' = '{request.param}')"
    )
    spark.sql(f"INSERT INTO delta.`{place}` VALUES ('ab', 'cd', named_struct('c', 'x'), 'p')")
    return place


def test_lengths_are_kept_beside_strings(spark: SparkSession, lengths: str) -> None:
    snapshot = tidegate.open(lengths)
    assert {f.name: (str(f.type), f.metadata.get(KEY)) for f in snapshot.schema.fields} == {
        "c": ("string", "char(3)"),
        "v": ("string", "varchar(4)"),
        "n": ("struct<c:string>", "struct<c:char(3)>"),
        "p": ("string", "char(2)"),
    }
    frame = spark.read.format("delta").load(lengths)
    assert frame.schema["c"].metadata == {"comment": "cc", KEY: "char(3)"}
    assert [tuple(r) for r in frame.collect()] == [("ab ", "cd", ("x  ",), "p ")]


@pytest.mark.parametrize("deleted", ["c = 'ab'", "p = 'p'"])
def test_a_char_is_compared_as_spark_compares_it(spark: SparkSession, lengths: str, deleted: str) -> None:
    frame = spark.read.format("delta").load(lengths)
    for condition in ("c = 'ab '", "c IN ('ab', 'zz')", "v = 'cd'", "'ab' <= c", deleted):
        assert frame.where(condition).count() == 1, condition
    assert spark.sql(f"SELECT * FROM delta.`{lengths}` WHERE {deleted}").count() == 1
    DeltaTable.forPath(spark, lengths).delete(deleted)
    assert spark.read.format("delta").load(lengths).count() == 0


def test_a_char_that_another_client_did_not_fill_up_is_filled_up_when_it_is_read(
    spark: SparkSession, lengths: str
) -> None:
    """A length is Spark's: other clients see strings, and write what they are given."""
    log = Path(lengths) / "_delta_log"
    (line,) = [n for n in (log / f"{1:020}.json").read_text().splitlines() if '"add"' in n]
    file = json.loads(line)["add"]
    rows = pq.read_table(f"{lengths}/{unquote(file['path'])}", partitioning=None)
    bare = rows.set_column(0, rows.schema.field(0), pa.array(["ab"]))
    pq.write_table(bare, f"{lengths}/bare.parquet")
    added = {**file, "path": "bare.parquet", "size": Path(f"{lengths}/bare.parquet").stat().st_size}
    (log / f"{2:020}.json").write_text(json.dumps({"add": {**added, "stats": None}}) + "\n")
    frame = spark.read.format("delta").load(lengths)
    assert [r.c for r in frame.where("c = 'ab'").collect()] == ["ab ", "ab "]


@pytest.mark.parametrize("values", ["'abcd', 'cd'", "'ab', 'cdefg'"])
def test_a_value_that_is_too_long_is_refused(spark: SparkSession, lengths: str, values: str) -> None:
    with pytest.raises(InvariantViolationException):
        spark.sql(f"INSERT INTO delta.`{lengths}` VALUES ({values}, named_struct('c', 'x'), 'p')")
    assert tidegate.open(lengths).version == 1


def test_lengths_are_added_and_changed(spark: SparkSession, lengths: str) -> None:
    table = f"delta.`{lengths}`"

    def texts() -> dict[str, Any]:
        return {f.name: f.metadata.get(KEY) for f in tidegate.open(lengths).schema.fields}

    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (d CHAR(2), e VARCHAR(3) COMMENT 'e')")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN v TYPE VARCHAR(10)")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN c TYPE VARCHAR(5)")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN e TYPE STRING")
    found = texts()
    assert (found["d"], found["e"], found["v"], found["c"]) == ("char(2)", None, "varchar(10)", "varchar(5)")
    for change in ("v TYPE VARCHAR(2)", "d TYPE CHAR(5)", "e TYPE VARCHAR(9)"):
        with pytest.raises(AlterRefusedError, match="cannot be changed"):
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN {change}")
    assert texts() == found
    spark.sql(f"UPDATE {table} SET d = 'q'")
    assert [tuple(r) for r in spark.sql(f"SELECT d, c FROM {table} WHERE d = 'q'").collect()] == [
        ("q ", "ab ")
    ]


def test_a_struct_with_lengths_in_it_evolves(spark: SparkSession, lengths: str) -> None:
    table = f"delta.`{lengths}`"
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (n.z VARCHAR(2))")
    row = "SELECT 'a' c, 'b' v, named_struct('c', 'y', 'z', '{z}', 'new', 1) n, 'p' p"
    writer = spark.sql(row.format(z="zz")).write.format("delta").option("mergeSchema", "true")
    writer.mode("append").save(lengths)
    found = spark.read.format("delta").load(lengths).where("v = 'b'").select("n.*").collect()
    assert [tuple(r) for r in found] == [("y  ", "zz", 1)]
    with pytest.raises(InvariantViolationException, match=r"n\.z"):
        spark.sql(row.format(z="zzz")).write.format("delta").mode("append").save(lengths)


def test_a_statement_that_makes_the_table_says_the_lengths(spark: SparkSession, lengths: str) -> None:
    text = spark.sql(f"SHOW CREATE TABLE delta.`{lengths}`").first()[0]
    assert "c CHAR(3) COMMENT 'cc'" in text
    assert "v VARCHAR(4)" in text
    assert "STRUCT<c: CHAR(3)>" in text


def test_the_builder_and_generated_columns_take_lengths(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "built")
    builder = DeltaTable.create(spark).location(place).addColumn("c", "CHAR(3)")
    builder.addColumn("g", "STRING", generatedAlwaysAs="upper(c)").execute()
    spark.sql(f"INSERT INTO delta.`{place}` (c) VALUES ('a')")
    assert [tuple(r) for r in spark.read.format("delta").load(place).collect()] == [("a  ", "A  ")]
