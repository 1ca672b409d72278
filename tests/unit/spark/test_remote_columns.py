"""A column of Spark Connect as the SQL that means the same."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from support.peers import require_peer
from tidegate.spark.remote_columns import renamed, sql_of

require_peer("grpc")
F: Any = pytest.importorskip("pyspark.sql.connect.functions")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: F.col("a.b") == 2, "(a.b = 2)"),
        (lambda: F.col("x") == "it's \\", "(x = 'it\\'s \\\\')"),
        (lambda: F.col("x") != 1, "(NOT (x = 1))"),
        (lambda: ~F.col("y").isNull() | F.col("z").isNotNull(), "((NOT (y IS NULL)) OR (z IS NOT NULL))"),
        (lambda: F.col("a").isin(1, 2), "(a IN (1, 2))"),
        (lambda: F.col("d") > date(2024, 1, 31), "(d > DATE'2024-01-31')"),
        (
            lambda: F.col("t") <= datetime(2024, 1, 31, 12, 30, 0, 5, tzinfo=timezone.utc),
            "(t <= TIMESTAMP'2024-01-31 12:30:00.000005+00:00')",
        ),
        (lambda: F.col("n").between(1, 1 << 40), "((n >= 1) AND (n <= 1099511627776L))"),
        (lambda: F.col("`a b`") == 1.5, "(`a b` = 1.5D)"),
        (lambda: F.col("a or b") == 1, "(`a or b` = 1)"),
        (lambda: ~F.col("true") & F.col("s.my field").isNull(), "((NOT `true`) AND (s.`my field` IS NULL))"),
        (lambda: F.col("`a.b`.c") == 1, "(`a.b`.c = 1)"),
        (lambda: F.col("m").eqNullSafe("x"), "(m <=> 'x')"),
        (lambda: F.expr("a > 1 or b"), "(a > 1 or b)"),
        (lambda: F.lit(True) & F.lit(None), "(TRUE AND NULL)"),
        (lambda: F.col("s").startswith("a") | F.col("s").like("b%"), "(startsWith(s, 'a') OR like(s, 'b%'))"),
        (lambda: F.col("a").cast("int") + 1 == 3, "((CAST(a AS int) + 1) = 3)"),
    ],
)
def test_a_column_is_written_as_sql(make: Any, text: str) -> None:
    assert sql_of(make()) == text


@pytest.mark.parametrize(
    "make",
    [
        lambda: F.col("a")["b"] > 1,
        lambda: F.col("`a``b`") > 1,
        lambda: F.count_distinct(F.col("a")) > 1,
        lambda: F.transform(F.col("a"), lambda x: x + 1).isNull(),
        lambda: F.col("a") > float("inf"),
        lambda: F.col("a") == F.lit(b"x"),
        # The client does not say with which precision the server takes it.
        lambda: F.col("a") == Decimal("1.50"),
    ],
)
def test_what_cannot_be_written_has_no_text(make: Any) -> None:
    assert sql_of(make()) is None


def test_columns_of_a_frame_that_is_gone_are_found_by_their_names() -> None:
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.expressions import ColumnReference

    def of(name: str, plan: int) -> Any:
        return Column(ColumnReference(name, plan))

    made = (of("Id", 7) == F.col("t.id")) & of("other", 7).isin(of("id", 8), of("`a b`", 7))
    found = renamed(made, frozenset({7}), "s", frozenset({"id", "a b"}))
    shown = str(found._expr)
    assert shown == "and(==(`s`.`Id`, t.id), in(other, id, `s`.`a b`))"
    assert sql_of(found) is None, "what was taken from other frames has no name"
    assert "`s`" not in str(made._expr), "the user's own column stays as it was"
