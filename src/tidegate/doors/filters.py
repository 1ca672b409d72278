"""Filters of DataFrames of Spark Connect that read a table: they leave files out, as ``narrowed`` says.

Hooked are ``filter``, which ``where`` and ``frame[condition]`` call, and the two methods that keep columns by
name, so that a filter may come after them. A frame that reads no table of ours costs a look into its
attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.commands.narrowed import chosen, filtered, origin_of
from tidegate.doors.hooks import is_enabled, names_of, wrap


def install(cls: type) -> None:
    """Hang the doors on the client's DataFrame."""
    wrap(cls, "filter", _filter, _reads_a_table)
    wrap(cls, "select", _select, _reads_a_table)
    wrap(cls, "drop", _drop, _reads_a_table)


def _reads_a_table(frame: Any) -> bool:
    return origin_of(frame) is not None and is_enabled(frame.sparkSession)


def _filter(original: Callable[..., Any]) -> Callable[..., Any]:
    def filter(self: Any, condition: Any) -> Any:
        origin = origin_of(self)
        assert origin is not None
        return filtered(self, origin, condition, lambda frame: original(frame, condition))

    return filter


def _select(original: Callable[..., Any]) -> Callable[..., Any]:
    def select(self: Any, *cols: Any) -> Any:
        return _kept(self, names_of(cols), lambda frame: original(frame, *cols))

    return select


def _drop(original: Callable[..., Any]) -> Callable[..., Any]:
    def drop(self: Any, *cols: Any) -> Any:
        return _kept(self, list(cols), lambda frame: original(frame, *cols))

    return drop


def _kept(frame: Any, columns: list[Any], apply: Callable[[Any], Any]) -> Any:
    """Columns of the table, kept or dropped by their names; with any other the frame is no longer ours."""
    origin = origin_of(frame)
    assert origin is not None
    if all(isinstance(c, str) and (c == "*" or origin.has(c)) for c in columns):
        return chosen(frame, origin, apply)
    return apply(frame)
