"""The progress bar: after two seconds, on a terminal, on stderr; otherwise not at all."""

from __future__ import annotations

import io
import sys
import time

import pytest

rich_console = pytest.importorskip("rich.console")

from tidegate.cli.patience import DELAY, Patience  # noqa: E402


def a_screen(terminal: bool = True) -> tuple[rich_console.Console, io.StringIO]:  # type: ignore[name-defined]
    file = io.StringIO()
    return rich_console.Console(file=file, force_terminal=terminal, width=100), file


def wait_for(bar: Patience) -> None:
    until = time.monotonic() + 5
    while not bar.shown and time.monotonic() < until:
        time.sleep(0.01)
    assert bar.shown


def test_two_seconds_pass_before_anything_is_shown() -> None:
    assert DELAY == 2.0


def test_what_is_quick_shows_nothing() -> None:
    screen, file = a_screen()
    with Patience("reading", delay=30, on=screen) as bar:
        bar("replaying", 1, 2)
        assert not bar.shown
    assert file.getvalue() == ""


def test_what_takes_long_shows_a_bar_though_it_reports_nothing() -> None:
    screen, file = a_screen()
    with Patience("reading the log", delay=0, on=screen) as bar:
        wait_for(bar)
    assert not bar.shown
    assert "reading the log" in file.getvalue()


def test_the_bar_follows_what_is_reported() -> None:
    screen, file = a_screen()
    with Patience("reading", delay=0, on=screen) as bar:
        wait_for(bar)
        bar("replaying the log", 3, 7)
    assert "replaying the log" in file.getvalue()
    assert "3/7" in file.getvalue()


def test_a_bar_is_taken_away_when_the_work_fails() -> None:
    screen, _ = a_screen()
    bar = Patience("reading", delay=0, on=screen)

    def fail() -> None:
        with bar:
            wait_for(bar)
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert not bar.shown


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    screen, file = a_screen(terminal=False)
    with Patience("reading", delay=0, on=screen) as bar:
        time.sleep(0.05)
        assert not bar.shown
    assert file.getvalue() == ""


def test_the_bar_goes_to_stderr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with Patience("reading the log", delay=0) as bar:
        wait_for(bar)
    said = capsys.readouterr()
    assert said.out == ""
    assert "reading the log" in said.err
