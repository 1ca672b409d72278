"""What a query shows of the table it reads, by its text and by a client's plan."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.spark.scan.origins import Scan
from tidegate.spark.view_plans import A_FILTER, A_VERSION, Behind
from tidegate.sql.chosen import shown_by
from tidegate.sql.chosen_frames import as_shown, shown_by_plan


def _source(parts: tuple[str, ...]) -> Behind | None:
    """The table /t by the names t and u, an old version of it, and views that are more than the table."""
    if parts in (("t",), ("u",)):
        return as_shown(Scan("/t", ("a", "b", "s")), {"/t"})
    if parts == ("old",):
        return as_shown(Scan("/t", ("a", "b")), set())
    return Behind("/t", obstacle=A_FILTER) if parts == ("few",) else None


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT * FROM t", "a=a b=b s=s"),
        ("TABLE t", "a=a b=b s=s"),
        ("FROM t SELECT b", "b=b"),
        ("SELECT B AS x, t.a FROM t", "x=b a=a"),
        ("(SELECT x.a, b y FROM t AS x)", "a=a y=b"),
        ("SELECT a AS b, b AS a FROM (SELECT b AS a, a AS b FROM t)", "b=b a=a"),
        ("SELECT * FROM (SELECT * FROM t x) AS y", "a=a b=b s=s"),
        ("SELECT y.* EXCEPT (A) FROM t y", "b=b s=s"),
        ("SELECT x.one, two FROM t AS x(one, two, three)", "one=a two=b"),
        ("SELECT a -- , b\n, /* x */ `b` FROM t", "a=a b=b"),
        # A column that is computed has none of the table's.
        ("SELECT a + 1 AS a, b FROM t", "a=None b=b"),
        ("SELECT s.a, other.b, nothing FROM t", "a=None b=None nothing=None"),
        ("SELECT CAST(a AS INT) AS a, 1 AS one FROM t", "a=None one=None"),
        ("SELECT s.*, b FROM t", "=None b=b"),
        ("SELECT a, (SELECT max(b) FROM u) AS m FROM t", "a=a m=None"),
    ],
)
def test_a_choice_of_columns_is_followed_to_the_table(text: str, columns: str) -> None:
    found = shown_by(text, _source)
    assert found is not None
    assert (found.obstacle, found.table) == (None, "/t")
    assert " ".join(f"{name}={column}" for name, column in found.columns) == columns


@pytest.mark.parametrize(
    ("text", "obstacle"),
    [
        ("SELECT * FROM t WHERE a > 1", A_FILTER),
        ("SELECT a FROM few", A_FILTER),
        ("SELECT * FROM (SELECT * FROM t LIMIT 3) WHERE a > 1", A_FILTER),
        ("SELECT a FROM old", A_VERSION),
        ("SELECT a FROM old WHERE a > 1 LIMIT 1", A_VERSION),
        ("SELECT a FROM t WHERE a > 1 LIMIT 1", "limit"),
        ("SELECT DISTINCT a FROM t", "distinct"),
        ("SELECT a, max(b) AS b FROM t GROUP BY a", "group"),
        ("SELECT a FROM t ORDER BY b", "order"),
        ("SELECT t.a FROM t JOIN u USING (a)", "joins"),
        ("SELECT t.a FROM others JOIN t USING (a)", "joins"),
        ("SELECT a FROM t LATERAL VIEW explode(s) e AS x", "laterals"),
        ("SELECT a FROM t TABLESAMPLE (10 ROWS)", "from"),
        ("SELECT a FROM t UNION ALL SELECT a FROM u", "union"),
        ("WITH w AS (SELECT * FROM t) SELECT * FROM w", "with"),
        ("SELECT x FROM t PIVOT (max(b) FOR a IN (1 AS x))", "from"),
    ],
)
def test_whatever_else_a_query_holds_is_named(text: str, obstacle: str) -> None:
    found = shown_by(text, _source)
    assert found is not None
    assert found.table == "/t"
    assert found.obstacle in (obstacle, f"more than a choice of columns ({obstacle})")


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SELECT * FROM others", "SELECT * FROM d.t", "SELECT * FROM t(3)", "no query at all"]
)
def test_a_query_without_a_delta_table_is_nothing_of_ours(text: str) -> None:
    assert shown_by(text, _source) is None


def test_a_plan_without_a_scan_is_nothing_of_ours() -> None:
    plan: Any = pytest.importorskip("pyspark.sql.connect.plan")
    assert shown_by_plan(plan.Range(0, 3, 1), (), _source) is None
