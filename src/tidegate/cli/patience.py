"""A progress bar for whoever waits: on stderr, on a terminal only, and only after two seconds.

The bar starts by a timer, so it appears also while one long call is under way that reports nothing.
"""

from __future__ import annotations

import threading
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from tidegate.cli.screen import console

DELAY = 2.0


class Patience:
    """``with Patience("reading") as bar: ... bar("replaying", 3, 10)``; a total of None is not known."""

    def __init__(self, what: str, *, delay: float = DELAY, on: Console | None = None) -> None:
        self._console = on or console(stderr=True)
        self._lock = threading.Lock()
        self._state: tuple[str, int, int | None] = (what, 0, None)
        self._progress: Progress | None = None
        self._over = False
        self._timer = threading.Timer(delay, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Patience:
        if self._console.is_terminal:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._progress is not None:
                self._progress.stop()
                self._progress = None

    def __call__(self, what: str, done: int, total: int | None) -> None:
        self._state = (what, done, total)
        if self._progress is not None:
            with self._lock:
                self._draw()

    @property
    def shown(self) -> bool:
        """Whether there is a bar on the screen."""
        return self._progress is not None

    def _show(self) -> None:
        with self._lock:
            if self._over:
                return
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._progress.add_task(self._state[0], total=None)
            self._progress.start()
            self._draw()

    def _draw(self) -> None:
        if self._progress is not None:
            what, done, total = self._state
            task = self._progress.task_ids[0]
            self._progress.update(task, description=what, completed=done, total=total)
