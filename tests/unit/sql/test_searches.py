"""Searches in WHERE: how they are written, and where they may stand."""

from __future__ import annotations

import pytest

from tidegate.errors import QueryError
from tidegate.sql.searches import blanked, searches


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
    ],
)
def test_a_search_is_read(text: str, expected: list[str]) -> None:
    assert [s.query for s in searches(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t WHERE id = 1 OR ¦m TEXTSEARCH 'a'",
        "SELECT * FROM t WHERE ¦m TEXTSEARCH 'a' OR id = 1",
        "SELECT * FROM t WHERE NOT ¦m TEXTSEARCH 'a'",
        "SELECT ¦m TEXTSEARCH 'a' FROM t",
        "SELECT ¦textsearch(m, 'a')",
    ],
)
def test_a_search_that_cannot_narrow_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(QueryError, match="joined by AND") as caught:
        searches(text.replace("¦", ""))
    assert caught.value.column == text.index("¦") + 1


def test_what_is_replaced_moves_nothing() -> None:
    text = "SELECT * FROM t WHERE m TEXTSEARCH 'a' AND id = 1"
    found = searches(text)
    assert blanked(text, found) == "SELECT * FROM t WHERE TRUE             AND id = 1"
    assert text[found[0].tables[0] + 1 : found[0].tables[1]].strip() == "t"
