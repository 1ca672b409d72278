"""A text some places of which were replaced, and how what Spark says of it is told of the user's own text.

What is shorter than the place it stands in is filled up with blanks, so that all that follows keeps its line
and its column, also in what Spark says much later, when the query runs. Where it is longer, the line and
the position in an error are counted back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException

# As analyser, parser and the errors of expressions write it; the last counts positions from one.
_PLACE = re.compile(r"line (\d+)(,? pos(ition)? )(\d+)")
_PARSED = "\n== SQL ==\n"


@dataclass(frozen=True)
class Rewritten:
    """The new text, and of each place its span before and after, both without their ends."""

    before: str
    text: str
    spans: tuple[tuple[int, int, int, int], ...] = ()

    def back(self, offset: int) -> int:
        """Where something of the new text stands in the user's own; within a place, the place's beginning."""
        moved = 0
        for start, end, new_start, new_end in self.spans:
            if offset < new_start:
                break
            if offset < new_end:
                return start
            moved = end - new_end
        return offset + moved


def rewritten(text: str, changes: Iterable[tuple[int, int, str]]) -> Rewritten:
    """``text`` with spans replaced, given in order: the first and the last character, and what is new."""
    out, spans = "", []
    at = 0
    for start, last, new in changes:
        out += text[at:start]
        filled = _filled(new, text[start : last + 1])
        spans.append((start, last + 1, len(out), len(out) + len(filled)))
        out += filled
        at = last + 1
    return Rewritten(text, out + text[at:], tuple(spans))


def _filled(new: str, place: str) -> str:
    """``new`` as long as the place it stands in, with as many lines."""
    first, *others = place.split("\n")
    return "\n".join([new.ljust(len(first)), *(" " * len(line) for line in others)])


def told_back(error: PySparkException, rewriting: Rewritten) -> PySparkException:
    """An error of Spark's about a rewritten text, in which lines, positions and the text are the user's."""
    said: Any = error
    found = getattr(said, "_desc", None)
    if isinstance(found, str):
        said._desc = _described(found, rewriting)
    return error


def _described(said: str, rewriting: Rewritten) -> str:
    head, shown, _ = said.partition(_PARSED)
    place = _PLACE.search(head)
    if place is None:
        return said
    line, column = _counted_back(rewriting, int(place[1]), int(place[4]), 1 if place[3] else 0)
    head = f"{head[: place.start()]}line {line}{place[2]}{column}{head[place.end() :]}"
    if not shown:
        return head
    lines = rewriting.before.split("\n")
    lines.insert(line, "-" * column + "^^^")
    return head + _PARSED + "\n".join(lines) + "\n"


def _counted_back(rewriting: Rewritten, line: int, column: int, first: int) -> tuple[int, int]:
    lines = rewriting.text.split("\n")
    offset = sum(len(other) + 1 for other in lines[: line - 1]) + column - first
    before = rewriting.before[: rewriting.back(offset)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + first
