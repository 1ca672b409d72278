"""Texts with places replaced: what follows keeps its place, and what Spark says of it is told back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sql.positions import Rewritten, rewritten, told_back


def _new(text: str, **places: str) -> Rewritten:
    changes = [(text.index(old), text.index(old) + len(old) - 1, new) for old, new in places.items()]
    return rewritten(text, sorted(changes))


def test_what_is_shorter_is_filled_up_so_that_the_rest_stays_where_it_was() -> None:
    text = "SELECT * FROM a_long_name WHERE x"
    new = _new(text, a_long_name="v")
    assert new.text == "SELECT * FROM v           WHERE x"
    assert new.text.index("WHERE") == text.index("WHERE")


def test_a_place_of_several_lines_stays_one() -> None:
    text = "SELECT * FROM t\n VERSION AS OF 1\nWHERE x"
    new = rewritten(text, [(14, text.index("1"), "a_view_of_t")])
    assert new.text.splitlines()[0] == "SELECT * FROM a_view_of_t"
    assert new.text.splitlines()[2] == "WHERE x"


@given(st.lists(st.tuples(st.text("ab\n", min_size=1, max_size=6), st.text("xyz", max_size=9)), max_size=4))
def test_every_character_that_stayed_is_counted_back_to_its_own_place(pieces: list[tuple[str, str]]) -> None:
    text, changes = "<", []
    for old, new in pieces:
        changes.append((len(text), len(text) + len(old) - 1, new))
        text += old + "|"
    found = rewritten(text, changes)
    kept = [i for i, c in enumerate(found.text) if c in "<|"]
    assert [found.back(i) for i in kept] == [i for i, c in enumerate(text) if c in "<|"]
    for start, _, new_start, new_end in found.spans:
        assert all(found.back(i) == start for i in range(new_start, new_end))


class _Error(Exception):
    def __init__(self, said: str) -> None:
        self._desc = said


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "[X] no column. SQLSTATE: 1; line 2 pos 21;\n'Project",
            "[X] no column. SQLSTATE: 1; line 2 pos 11;\n'Project",
        ),
        ("[X] bad == SQL (line 2, position 22) ==", "[X] bad == SQL (line 2, position 12) =="),
        ("[X] in the first line; line 1 pos 7", "[X] in the first line; line 1 pos 7"),
        ("[X] at the table; line 2 pos 6", "[X] at the table; line 2 pos 5"),
        ("[X] nothing of places", "[X] nothing of places"),
        (
            "\n[X] near. (line 2, pos 21)\n\n== SQL ==\nSELECT x\nFROM `a_long_view` b = = 1\n-----^^^\n",
            "\n[X] near. (line 2, pos 11)\n\n== SQL ==\nSELECT x\nFROM t@v1 b = = 1\n-----------^^^\n",
        ),
    ],
)
def test_lines_and_positions_are_those_of_the_users_text(said: str, expected: str) -> None:
    text = "SELECT x\nFROM t@v1 b = = 1"
    new = rewritten(text, [(14, 17, "`a_long_view` "[:14])])
    assert len(new.text) == len(text) + 10
    error: Any = _Error(said)
    found: Any = told_back(error, new)
    assert found._desc == expected
