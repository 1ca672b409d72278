"""Another command in the middle of one: what a store of this process is asked for, and who may come between.

``Between`` watches the local stores of the process. At the operation on one table that it was told of, it
runs something else to its end, inside that very call, and lets the call go on: an interleaving of two
writers that comes out the same every time. A table may be watched without coming between, to learn which
operations a command consists of.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from tidegate.storage.local import LocalStore

MUTATING = ("put", "put_if_absent", "delete")
OPERATIONS = ("list_from", "get", "get_range", "open_input", "head", *MUTATING)
_COMMIT = re.compile(r"_(?:delta|transaction)_log/\d{20}\.json")


class Operation(NamedTuple):
    """One call of a store: its method, and the first name that it was given."""

    op: str
    name: str

    @property
    def is_commit(self) -> bool:
        """Whether this publishes a version of a table."""
        return self.op == "put_if_absent" and _COMMIT.fullmatch(self.name) is not None

    def is_apart_from(self, changed: Iterable[str]) -> bool:
        """Whether it only reads, and nothing of what somebody else has changed."""
        if self.op in MUTATING:
            return False
        if self.op == "list_from":
            below = f"{self.name}/" if self.name else ""
            return not any(name.startswith(below) for name in changed)
        return self.name not in changed


Chosen = Callable[[Operation], bool]


def at_commit(operation: Operation) -> bool:
    return operation.is_commit


def at_any(operation: Operation) -> bool:
    return True


class Between(AbstractContextManager["Between"]):
    """While it is entered, ``work`` runs before the ``number``-th operation that ``chosen`` chooses.

    With ``number`` 0 nothing runs. ``seen`` are the chosen operations of the one that is interrupted.
    """

    def __init__(
        self,
        path: str,
        work: Callable[[Operation], None] = lambda operation: None,
        *,
        number: int = 0,
        chosen: Chosen = at_any,
    ) -> None:
        self.path = path
        self.work = work
        self.number = number
        self.chosen = chosen
        self.seen: list[Operation] = []
        self.came = False
        self._inside = False
        self._lock = threading.Lock()
        self._original: dict[str, Any] = {}

    def __enter__(self) -> Between:
        for name in OPERATIONS:
            self._original[name] = getattr(LocalStore, name)
            setattr(LocalStore, name, self._watched(name, self._original[name]))
        return self

    def __exit__(self, *failure: object) -> None:
        for name, method in self._original.items():
            setattr(LocalStore, name, method)

    def _watched(self, op: str, method: Any) -> Any:
        def watched(store: LocalStore, name: str | Iterable[str], *rest: Any, **more: Any) -> Any:
            if op == "delete" and not isinstance(name, str):
                name = list(name)
                if not name:
                    return method(store, name)
            if store.url == self.path and not self._inside:
                self._look(Operation(op, name if isinstance(name, str) else next(iter(name))))
            return method(store, name, *rest, **more)

        return watched

    def _look(self, operation: Operation) -> None:
        if not self.chosen(operation):
            return
        with self._lock:
            self.seen.append(operation)
            due = len(self.seen) == self.number and not self.came
            self.came = self.came or due
        if due:
            self._inside = True
            try:
                self.work(operation)
            finally:
                self._inside = False
