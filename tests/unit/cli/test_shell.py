"""The shell's statements: lines put together, ends, and what is typed in between."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.cli.shell import MORE, PROMPT, statements


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
