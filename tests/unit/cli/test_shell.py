"""The shell's statements: lines put together, ends, and what is typed in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.cli import shell
from tidegate.cli.shell import MORE, PROMPT, statements
from tidegate.cli.sql import parts
from tidegate.errors import SqlSyntaxError


def typed(*lines: str | type[BaseException]) -> tuple[list[str], list[str]]:
    """What the shell makes of ``lines``; and the prompts it showed."""
    prompts: list[str] = []
    left = list(lines)

    def read(prompt: str) -> str:
        prompts.append(prompt)
        if not left:
            raise EOFError
        found = left.pop(0)
        if isinstance(found, str):
            return found
        raise found

    reader: Callable[[str], str] = read
    return list(statements(reader)), prompts


def test_a_statement_goes_over_lines_until_its_semicolon() -> None:
    found, prompts = typed("SELECT 1,", "  2;", "SELECT 3;")
    assert found == ["SELECT 1,\n  2", "SELECT 3"]
    assert prompts == [PROMPT, MORE, PROMPT, PROMPT]


def test_exit_and_the_end_of_input_end_it() -> None:
    assert typed("SELECT 1;", "exit", "SELECT 2;")[0] == ["SELECT 1"]
    assert typed("quit;")[0] == []
    assert typed()[0] == []


def test_an_interrupt_drops_what_was_begun() -> None:
    assert typed("SELECT 1", KeyboardInterrupt, "SELECT 2;")[0] == ["SELECT 2"]


def test_empty_lines_before_a_statement_do_not_count() -> None:
    assert typed("", "   ", "SELECT 1;")[0] == ["SELECT 1"]


def test_several_statements_may_stand_in_one_line() -> None:
    assert typed("SHOW TABLES; SELECT 1;")[0] == ["SHOW TABLES", "SELECT 1"]
    found, prompts = typed("SELECT 1; SELECT", "2;")
    assert found == ["SELECT 1", "SELECT\n2"]
    assert prompts == [PROMPT, MORE, PROMPT]


def test_semicolons_in_strings_and_comments_end_nothing() -> None:
    assert typed("SELECT ';", "', 1; -- done;", "SELECT 2;")[0] == ["SELECT ';\n', 1", "-- done;\nSELECT 2"]


def test_what_is_left_at_the_end_of_input_is_a_statement_too() -> None:
    assert typed("SELECT 1")[0] == ["SELECT 1"]
    assert typed("-- nothing")[0] == []


def test_exit_within_a_statement_is_a_word_of_it() -> None:
    assert typed("SELECT", "exit", ";")[0] == ["SELECT\nexit"]


def test_history_is_kept_where_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = shell._history()
    kept.append_string("SELECT 1")
    assert list(shell._history().load_history_strings()) == ["SELECT 1"]
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(blocked))
    assert list(shell._history().load_history_strings()) == []


def test_a_text_for_sql_is_one_statement_or_several() -> None:
    assert parts("SELECT 1") == ["SELECT 1"]
    assert parts("SELECT 1; SELECT ';' ;") == ["SELECT 1", "SELECT ';'"]
    with pytest.raises(SqlSyntaxError, match="no statement"):
        parts(" ; -- nothing\n")
