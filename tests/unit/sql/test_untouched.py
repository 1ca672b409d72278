"""Texts that are not ours: nothing in them is found, however much they look like it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.sql_grammar import ELSEWHERE
from tidegate.errors import SqlSyntaxError, TidegateError
from tidegate.sql import nodes
from tidegate.sql.parameters import bound
from tidegate.sql.parse import DELTA_ONLY, Unreadable, parse
from tidegate.sql.references import references, replaced, without_qualifiers


def _read(text: str) -> tuple[nodes.Statement | None, TidegateError | None]:
    """What a text is read as, or what it is refused with."""
    try:
        return parse(text), None
    except Unreadable as e:
        return None, e.cause
    except TidegateError as e:
        return None, e


@given(ELSEWHERE)
def test_no_statement_of_others_is_taken_for_one_of_deltas(text: str) -> None:
    kinds = (nodes.Vacuum, nodes.Optimize, nodes.Reorg, nodes.Restore, nodes.Convert, nodes.Generate)
    assert not isinstance(_read(text)[0], kinds)


@given(ELSEWHERE)
def test_nothing_is_replaced_in_a_text_that_does_not_speak_of_delta(text: str) -> None:
    try:
        found = references(text)
    except SqlSyntaxError:
        return
    assert found == []
    assert replaced(text, found, lambda _: "").text == text


@given(st.text(max_size=80))
@example("SELECT '")
@example("VACUUM `")
@example("/*")
@example("\x00")
@example("DELETE FROM t WHERE '\\")
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    error = _read(text)[1]
    assert error is None or error.line is not None


@given(st.sampled_from([" ".join(words) for words in DELTA_ONLY]), st.text(max_size=40))
def test_what_begins_as_deltas_alone_is_read_or_refused_with_its_place(words: str, rest: str) -> None:
    error = _read(f"{words} {rest}")[1]
    assert error is None or (error.line is not None and error.errorClass == "PARSE_SYNTAX_ERROR")


@given(ELSEWHERE)
def test_parameters_that_are_not_there_change_nothing(text: str) -> None:
    with contextlib.suppress(SqlSyntaxError):
        assert bound(text, {"absent": 1}) == text


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("db.t.a = 1 AND x.t.a", [("db", "t")], "t.a = 1 AND x.t.a"),
        ("`db`.T.`a b` = 'db.t.a'", [("db", "t")], "T.`a b` = 'db.t.a'"),
        ("spark_catalog.db.t.a", [("spark_catalog", "db", "t")], "t.a"),
        ("c.db.t.a", [("db", "t")], "c.db.t.a"),
        ("db.t", [("db", "t")], "db.t"),
        ("a.b", [], "a.b"),
    ],
)
def test_columns_behind_a_long_name_go_by_its_last_part(
    text: str, names: list[tuple[str, ...]], expected: str
) -> None:
    assert without_qualifiers(text, names) == expected
