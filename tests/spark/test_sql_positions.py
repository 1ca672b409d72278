"""Errors of queries: the line and the column are those of the text that the user wrote."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import SparkSession

from tidegate.errors import TidegateError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("positions") / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta {_FEED}")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'x')")
    spark.sql(f"CREATE TABLE IF NOT EXISTS positions USING delta LOCATION '{path}'")
    return path


_FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"

# The mark stands where the error points.
SPARKS = [
    "SELECT id FROM delta.`{p}` WHERE ¦nope = 1",
    "SELECT id\nFROM delta.`{p}` a\n JOIN delta.`{p}` VERSION AS OF 1 b\n ON a.id = ¦b.nope",
    "SELECT id FROM delta.`{p}` VERSION AS OF 1, ¦nowhere",
    "SELECT id FROM positions VERSION AS OF 1 WHERE ¦nofunction(id)",
    "SELECT id FROM positions@v1 WHERE ¦nope = 1",
    "SELECT id FROM delta.`{p}@v1` WHERE ¦nope = 1",
    "SELECT id FROM delta.`{p}`@v1 x\nWHERE id = 1 AND ¦nope = 1",
    "SELECT id FROM table_changes('positions', 1) WHERE ¦nope = 1",
    "WITH c AS (SELECT * FROM positions@v1) SELECT ¦nope FROM c, positions@v0",
]


@pytest.mark.parametrize("marked", SPARKS)
def test_spark_points_at_the_place_in_the_users_text(spark: SparkSession, place: str, marked: str) -> None:
    marked = marked.replace("{p}", place)
    at = marked.index("¦")
    before = marked[:at]
    text = marked.replace("¦", "")
    with pytest.raises(PySparkException) as caught:
        spark.sql(text)
    line, position = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
    assert f"line {line} pos {position}" in str(caught.value)
    if "@" not in text and "table_changes" not in text:
        (context,) = caught.value.getQueryContext()
        assert context.startIndex() == at
        assert "__tidegate" not in str(caught.value)


@pytest.mark.parametrize(
    "marked",
    [
        "SELECT id FROM delta.`{p}` WHERE id = ¦= 1",
        "SELECT id\nFROM positions@v1\nWHERE id = ¦= 1 AND\nid = 2",
        "SELECT id FROM table_changes('positions', 1) WHERE id = ¦= 1",
    ],
)
def test_the_parser_shows_the_users_text(spark: SparkSession, place: str, marked: str) -> None:
    marked = marked.replace("{p}", place)
    before, _, _ = marked.partition("¦")
    text = marked.replace("¦", "")
    with pytest.raises(ParseException) as caught:
        spark.sql(text)
    said = str(caught.value).split("\n\nJVM")[0]
    line, position = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
    assert f"(line {line}, pos {position})" in said
    lines = text.split("\n")
    lines.insert(line, "-" * position + "^^^")
    assert "\n".join(lines) in said


@pytest.mark.parametrize(
    "marked",
    [
        "SELECT * FROM ¦delta.`{p}/nothing`",
        "SELECT * FROM delta.`{p}` a\nJOIN ¦delta.`{p}` VERSION AS OF 77 b",
        "SELECT * FROM delta.`{p}` a JOIN ¦delta.`{p}/nothing` b",
        "SELECT * FROM delta.`{p}` a JOIN ¦delta.`{p}`@v77 b",
        "SELECT * FROM ¦positions@v77",
        "SELECT * FROM ¦table_changes('nothing', 1)",
        "SELECT * FROM ¦delta.`{p}` VERSION AS OF 'x'",
        "SELECT * FROM ¦delta.`{p}` TIMESTAMP AS OF 'x'",
    ],
)
def test_what_we_refuse_is_told_at_the_table(spark: SparkSession, place: str, marked: str) -> None:
    marked = marked.replace("{p}", place)
    before, _, _ = marked.partition("¦")
    with pytest.raises(TidegateError) as caught:
        spark.sql(marked.replace("¦", ""))
    error: Any = caught.value
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    assert (error.line, error.column) == (line, column)


def test_an_error_of_a_running_query_shows_the_users_text(spark: SparkSession, place: str) -> None:
    text = f"SELECT id FROM delta.`{place}` WHERE CAST(v AS INT) > 1"
    with pytest.raises(PySparkException) as caught:
        spark.sql(text).collect()
    (context,) = caught.value.getQueryContext()
    assert context.startIndex() == text.index("CAST")


def test_frames_of_one_table_are_joined_by_their_own_columns(spark: SparkSession, place: str) -> None:
    for name in (f"delta.`{place}`", "positions", "positions VERSION AS OF 1"):
        one, other = spark.sql(f"SELECT * FROM {name}"), spark.sql(f"SELECT * FROM {name}")
        assert one.join(other, one.id == other.id + 0).select(one.id, other.v).collect() == [(1, "x")]
    one, other = spark.table("positions"), spark.table("positions")
    assert one.join(other, one.id == other.id).count() == 1
