"""Searches in WHERE: how they are written, and where they may stand."""

from __future__ import annotations

import pytest

from tidegate.errors import QueryError
from tidegate.sql.narrowing import narrowing, stars
from tidegate.sql.searches import marked, searches


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t WHERE message TEXTSEARCH 'a b'", ["message:(a b)"]),
        ("SELECT * FROM t WHERE t.message textsearch 'a' AND id = 1", ["message:(a)"]),
        ("SELECT * FROM t WHERE id = 1 AND textsearch(message, 'a OR b') LIMIT 3", ["message:(a OR b)"]),
        (
            "SELECT * FROM t WHERE level FIELDMATCH 'ERROR' AND `odd name` INDEXQUERY 'x'",
            ["level:(ERROR)", "`odd name`:(x)"],
        ),
        ("SELECT * FROM t WHERE * INDEXQUERY 'a:b'", ["(a:b)"]),
        ("SELECT * FROM t WHERE indexqueryall('a')", ["(a)"]),
        ("SELECT * FROM t WHERE tantivy4spark_textsearch(m, 'a')", ["m:(a)"]),
        ("SELECT * FROM t WHERE (id = 1 OR id = 2) AND m TEXTSEARCH 'a'", ["m:(a)"]),
        ("SELECT * FROM t WHERE (m TEXTSEARCH 'a' AND id = 1)", ["m:(a)"]),
        ("SELECT x FROM (SELECT * FROM t WHERE m TEXTSEARCH 'a') WHERE x = 1 OR x = 2", ["m:(a)"]),
        ("SELECT 'm TEXTSEARCH' AS textsearch FROM t -- m TEXTSEARCH 'a'", []),
        ("SELECT textsearch FROM t", []),
        ("SELECT * FROM t WHERE id = 1 OR NOT (m TEXTSEARCH 'a' AND m TEXTSEARCH 'b')", ["m:(a)", "m:(b)"]),
        (
            "SELECT * FROM t JOIN u ON t.a IS DISTINCT FROM u.a WHERE coalesce(m TEXTSEARCH 'a', true)",
            ["m:(a)"],
        ),
    ],
)
def test_a_search_is_read(text: str, expected: list[str]) -> None:
    assert [s.query for s in searches(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ¦m TEXTSEARCH 'a' FROM t",
        "SELECT ¦textsearch(m, 'a')",
        "SELECT count(*) FILTER (WHERE ¦m TEXTSEARCH 'a') FROM t",
        "SELECT * FROM t JOIN u ON ¦m TEXTSEARCH 'a' WHERE id = 1",
        "SELECT p FROM t GROUP BY p HAVING ¦m TEXTSEARCH 'a'",
        "SELECT p FROM t WHERE p = 1 ORDER BY ¦m TEXTSEARCH 'a'",
        "DELETE FROM t WHERE ¦m TEXTSEARCH 'a'",
        "SELECT * FROM t PIVOT (sum(x) FOR p IN (1, 2)) WHERE ¦m TEXTSEARCH 'a'",
    ],
)
def test_a_search_outside_of_a_where_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(QueryError, match="A search") as caught:
        searches(text.replace("¦", ""))
    assert caught.value.column == text.index("¦") + 1


def test_what_is_marked_moves_nothing() -> None:
    text = "SELECT * FROM t WHERE m TEXTSEARCH 'a' AND id = 1"
    found = searches(text)
    assert marked(text, found) == "SELECT * FROM t WHERE __tg0            AND id = 1"
    assert text[found[0].tables[0] + 1 : found[0].tables[1]].strip() == "t"


@pytest.mark.parametrize(
    ("where", "always", "needed"),
    [
        ("a TEXTSEARCH 'x'", [0], "(a:(x))"),
        ("a TEXTSEARCH 'x' AND id = 1 AND (b TEXTSEARCH 'y')", [0, 1], "(a:(x)) AND (b:(y))"),
        ("a TEXTSEARCH 'x' OR b TEXTSEARCH 'y'", [], "((a:(x)) OR (b:(y)))"),
        ("a TEXTSEARCH 'x' OR id = 1", [], None),
        ("(a TEXTSEARCH 'x' OR id = 1) AND b TEXTSEARCH 'y'", [1], "(b:(y))"),
        ("(a TEXTSEARCH 'x' AND id = 1) OR b TEXTSEARCH 'y'", [], "((a:(x)) OR (b:(y)))"),
        ("NOT a TEXTSEARCH 'x'", [], "(NOT (a:(x)))"),
        ("NOT (a TEXTSEARCH 'x' OR b TEXTSEARCH 'y')", [], None),
        ("a TEXTSEARCH 'x' = false", [], None),
        ("(a TEXTSEARCH 'x') IS NULL", [], None),
        ("id BETWEEN 1 AND 2 AND a TEXTSEARCH 'x'", [0], "(a:(x))"),
        ("CASE WHEN a TEXTSEARCH 'x' THEN id = 1 ELSE id = 2 END", [], None),
    ],
)
def test_what_every_row_must_match_narrows_the_table(
    where: str, always: list[int], needed: str | None
) -> None:
    text = f"SELECT * FROM t WHERE {where} ORDER BY id"
    found = searches(text)
    narrowed = narrowing(marked(text, found), found, {s.mark: 14 for s in found})
    assert narrowed.always == {found[i].mark for i in always}
    assert narrowed.needed.get(14) == needed


@pytest.mark.parametrize(
    "join", ["LEFT JOIN", "RIGHT OUTER JOIN", "FULL JOIN", "LEFT SEMI JOIN", "ANTI JOIN"]
)
def test_beside_an_outer_join_nothing_is_left_out_beforehand(join: str) -> None:
    text = f"SELECT * FROM u {join} t ON u.id = t.id WHERE m TEXTSEARCH 'x'"
    found = searches(text)
    narrowed = narrowing(marked(text, found), found, {s.mark: 0 for s in found})
    assert (narrowed.always, narrowed.needed) == (set(), {})


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ("*", "* EXCEPT (__tg0)"),
        ("DISTINCT t.*, 2 * id", "DISTINCT t.* EXCEPT (__tg0), 2 * id"),
        ("u.*, count(*), struct(*)", "u.*, count(*), struct(* EXCEPT (__tg0))"),
        ("* EXCEPT (id)", "* EXCEPT (__tg0, id)"),
        (
            "(SELECT max(x) FROM (SELECT * FROM v)), *",
            "(SELECT max(x) FROM (SELECT * FROM v)), * EXCEPT (__tg0)",
        ),
        ("/*+ BROADCAST(t) */ *", "/*+ BROADCAST(t) */ * EXCEPT (__tg0)"),
    ],
)
def test_the_column_of_a_search_is_in_no_star(selected: str, expected: str) -> None:
    text = f"SELECT {selected} FROM t WHERE id = 1 OR m TEXTSEARCH 'a' UNION SELECT * FROM t"
    found = searches(text)
    plain = marked(text, found)
    for start, _, new in sorted(stars(plain, [(s, "t") for s in found]), reverse=True):
        plain = plain[:start] + new + plain[start:]
    assert plain.startswith(f"SELECT {expected} FROM t ")
    assert plain.endswith(" UNION SELECT * FROM t")
