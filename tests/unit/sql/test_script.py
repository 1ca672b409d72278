"""Several statements in one text: cut at their semicolons, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sql.script import is_blank, split


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1; SELECT 2;", (["SELECT 1", "SELECT 2"], "")),
        ("SELECT 1", ([], "SELECT 1")),
        ("SELECT ';' ; x", (["SELECT ';'"], " x")),
        ("SELECT 'it\\';s'; ", (["SELECT 'it\\';s'"], " ")),
        ("SELECT `a;b`;", (["SELECT `a;b`"], "")),
        ("-- a; b\nSELECT 1;", (["-- a; b\nSELECT 1"], "")),
        ("/* a; /* b; */ c; */ SELECT 1;", (["/* a; /* b; */ c; */ SELECT 1"], "")),
        (";;; SELECT 1;;", (["SELECT 1"], "")),
        ("-- only\n;", ([], "")),
        ("SELECT 'open;", ([], "SELECT 'open;")),
        ("SELECT /* open; ", ([], "SELECT /* open; ")),
        ("BEGIN SELECT 1; SELECT 2; END; SELECT 3;", (["BEGIN SELECT 1; SELECT 2; END", "SELECT 3"], "")),
        (
            "BEGIN IF a THEN SELECT 1; END IF; SELECT CASE WHEN b THEN 1 END; END; x",
            (["BEGIN IF a THEN SELECT 1; END IF; SELECT CASE WHEN b THEN 1 END; END"], " x"),
        ),
        ("SELECT begin FROM t; x", (["SELECT begin FROM t"], " x")),
        ("BEGIN SELECT 1;", ([], "BEGIN SELECT 1;")),
        ("", ([], "")),
    ],
)
def test_a_text_is_cut_into_statements(text: str, expected: tuple[list[str], str]) -> None:
    assert split(text) == expected


_PIECE = st.sampled_from(["SELECT 1", "'a;b'", "`;`", "-- ;\n", "/* ; */", "x", "\n", '";"', "t.`a``;`"])


@given(st.lists(st.lists(_PIECE, min_size=1, max_size=4).map(" ".join), max_size=4))
def test_what_was_joined_is_cut_again(texts: list[str]) -> None:
    done, rest = split(";".join(texts) + ";")
    assert rest == ""
    assert done == [t.strip() for t in texts if not is_blank(t)]
