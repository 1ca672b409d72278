"""Where a query names tables: every place a table may stand, and no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sql.names import keeps_view, makes_view, table_names


def found(text: str) -> list[str]:
    """The names as they were written, those that only qualify a column in brackets."""
    shown = [(text[n.ref.start : n.ref.end + 1], n.qualifies) for n in table_names(text)]
    return [f"[{name}]" if qualifies else name for name, qualifies in shown]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT * FROM t", ["t"]),
        (
            "select T.* from db.T, `odd name` o join spark_catalog.db.u using (id)",
            ["db.T", "`odd name`", "spark_catalog.db.u"],
        ),
        (
            "SELECT (SELECT max(x) FROM u WHERE u.id = t.id) FROM t WHERE id IN (SELECT id FROM w)",
            ["u", "t", "w"],
        ),
        ("SELECT * FROM t UNION ALL SELECT * FROM u EXCEPT SELECT * FROM w", ["t", "u", "w"]),
        ("SELECT * FROM (t JOIN u ON t.a = u.a) x", ["t", "u"]),
        ("FROM t |> WHERE id > 1 |> JOIN u ON true", ["t", "u"]),
        ("FROM t SELECT id", ["t"]),
        ("TABLE t;", ["t"]),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT) s LATERAL VIEW explode(a) e AS c", ["t"]),
        ("SELECT * FROM t a CROSS JOIN LATERAL (SELECT * FROM u WHERE u.id = a.id)", ["t", "u"]),
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))", ["t"]),
        ("EXPLAIN EXTENDED SELECT * FROM t", ["t"]),
        ("CACHE TABLE c AS SELECT * FROM t", ["t"]),
        ("INSERT INTO other SELECT * FROM t", ["t"]),
        ("INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT * FROM t", ["t"]),
        ("CREATE TABLE other USING parquet AS SELECT * FROM t", ["t"]),
        ("CREATE TEMP VIEW v (a COMMENT 'FROM x') AS SELECT id FROM t", ["t"]),
        ("SET VAR x = (SELECT max(id) FROM t)", ["t"]),
    ],
)
def test_a_table_is_found_wherever_it_may_stand(text: str, names: list[str]) -> None:
    assert found(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'FROM t', extract(year FROM t), trim(BOTH FROM t), a IS DISTINCT FROM t",
        "SELECT /*+ BROADCAST(t) */ 1 -- FROM t",
        "SELECT * FROM range(3) t, VALUES (1) AS u(a), explode(array(1)) w",
        "DROP TABLE t",
        "SHOW TABLES IN t",
        "this is no SQL FROM (",
        "SELECT 'unfinished",
        "",
    ],
)
def test_what_is_no_table_is_left_alone(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("WITH x AS (SELECT * FROM t), y AS (SELECT * FROM x) SELECT * FROM x JOIN y", ["t"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM T", ["t"]),
        ("WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r, t", ["t"]),
        ("SELECT * FROM t WHERE EXISTS (WITH t AS (SELECT 1) SELECT * FROM t)", ["t"]),
        ("WITH y AS (SELECT * FROM x), x AS (SELECT 1) SELECT * FROM y", ["x"]),
        ("WITH x AS (SELECT 1) SELECT * FROM db.x", ["db.x"]),
        ("WITH x AS (SELECT 1) SELECT * FROM (SELECT * FROM x WHERE id IN (SELECT id FROM t))", ["t"]),
    ],
)
def test_common_table_expressions_hide_tables_where_they_are_seen(text: str, names: list[str]) -> None:
    assert found(text) == names


def test_a_name_keeps_its_own_where_no_alias_is_given() -> None:
    shown = [(n.ref.parts, n.alias) for n in table_names("SELECT * FROM db.`a b`, u AS x, w y, z")]
    assert shown == [(("db", "a b"), "a b"), (("u",), None), (("w",), None), (("z",), "z")]
    assert table_names("SELECT * FROM (TABLE t)")[0].alias is None


def test_columns_that_repeat_the_whole_name_are_found_too() -> None:
    text = "SELECT db.t.id, x.y.z FROM db.t JOIN u ON DB.T.id = u.id"
    assert found(text) == ["[db.t]", "db.t", "u", "[DB.T]"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CREATE VIEW v AS SELECT 1", "permanent"),
        ("create or replace temporary view v as select 1", "temporary"),
        ("CREATE GLOBAL TEMP VIEW v AS SELECT 1", "temporary"),
        ("CREATE VIEW v AS SELECT t.id FROM delta.`/p`@v1 AS t", "permanent"),
        ("CREATE TABLE t AS SELECT 1", None),
        ("SELECT 'CREATE VIEW v'", None),
    ],
)
def test_statements_that_make_views_are_told_apart(text: str, kind: str | None) -> None:
    assert makes_view(text) == kind


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("CREATE VIEW v AS SELECT 1", True),
        ("ALTER VIEW a.v AS SELECT 1", True),
        ("alter view v select 1", True),
        ("ALTER VIEW v RENAME TO w", False),
        ("ALTER VIEW 'v", False),
        ("CREATE TEMP VIEW v AS SELECT 1", False),
    ],
)
def test_statements_whose_text_the_catalog_keeps_are_told_apart(text: str, kept: bool) -> None:
    assert keeps_view(text) is kept


@given(st.text(max_size=60))
def test_no_text_breaks_the_search(text: str) -> None:
    for name in table_names("SELECT * FROM t WHERE " + text):
        assert 0 <= name.ref.start <= name.ref.end < len("SELECT * FROM t WHERE " + text)
