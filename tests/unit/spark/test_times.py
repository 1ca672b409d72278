"""Texts of a command in which the current time is one moment."""

from __future__ import annotations

import pytest

from tidegate.spark.remote_columns import sql_of, timed
from tidegate.spark.times import in_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s.at = now() and x", "s.at = timestamp_micros(7) and x"),
        ("Current_Timestamp", "timestamp_micros(7)"),
        ("d < current_date() - 1", "d < CAST(timestamp_micros(7) AS DATE) - 1"),
        ("localtimestamp", "CAST(timestamp_micros(7) AS TIMESTAMP_NTZ)"),
        ("concat('now()', current_date)", "concat('now()', CAST(timestamp_micros(7) AS DATE))"),
        ("id <= unix_timestamp()", "id <= CAST(timestamp_micros(7) AS BIGINT)"),
        # A column, a field and a function of the user's own keep their names.
        ("unix_timestamp(at) + unix_timestamp", "unix_timestamp(at) + unix_timestamp"),
        ("`current_date` = s.current_timestamp", "`current_date` = s.current_timestamp"),
        ("curdate + f.now() + now(1)", "curdate + f.now() + now(1)"),
        ("taken = 1 and not 'open", "taken = 1 and not 'open"),
    ],
)
def test_the_current_time_in_a_text_is_one_moment(text: str, expected: str) -> None:
    assert in_text(text, 7) == expected


def test_a_bare_word_that_is_a_column_is_that_column() -> None:
    assert in_text("current_date = current_date()", 7, ["CURRENT_DATE"]) == (
        "current_date = CAST(timestamp_micros(7) AS DATE)"
    )


def test_a_column_of_connect_asks_for_the_current_time_no_more() -> None:
    functions = pytest.importorskip("pyspark.sql.connect.functions")
    column = (functions.current_timestamp() > functions.col("at")) & functions.expr("d = current_date")
    assert sql_of(timed(column, 7, ())) == (
        "(((timestamp_micros(7)) > at) AND (d = CAST(timestamp_micros(7) AS DATE)))"
    )
    kept = functions.expr("current_date > 1") & (functions.col("now") < functions.current_date())
    assert sql_of(timed(kept, 7, ("current_date",))) == (
        "((current_date > 1) AND (now < (CAST(timestamp_micros(7) AS DATE))))"
    )
