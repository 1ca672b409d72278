"""Ranges, prefixes and patterns of exact strings, as regular expressions over the dictionary of terms.

tantivy has no range over text by its programming interface. What lies between two strings is a regular
language, though, and an automaton walks the sorted dictionary as fast as a range would. The order is that
of code points, which is the order of UTF-8 bytes and of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable

TOP = 0x10FFFF
# Longer bounds make automata that tantivy refuses.
MAX_BOUND = 32


def escape(text: str) -> str:
    """A text that stands for itself."""
    return "".join(c if c.isascii() and c.isalnum() else f"\\x{{{ord(c):X}}}" for c in text)


def _points(low: int, high: int) -> str | None:
    """The class of the code points between two, surrogates left out; None where there is none."""
    pairs = ((low, min(high, 0xD7FF)), (max(low, 0xE000), high))
    parts = [f"\\x{{{a:X}}}-\\x{{{b:X}}}" for a, b in pairs if a <= b]
    return f"[{''.join(parts)}]" if parts else None


ANY = str(_points(0, TOP))


DIGITS = "[0-9]"


def above(bound: str, inclusive: bool, any: str = ANY) -> str:
    """Every string after ``bound``, made of the characters ``any``."""
    top = TOP if any == ANY else ord("9")
    higher = (
        escape(bound[:i]) + found
        for i, c in enumerate(bound)
        if (found := _points(ord(c) + 1, top)) is not None
    )
    same = escape(bound)
    parts = [f"({h}){any}*" for h in ["|".join(higher)] if h]
    return "|".join([*parts, f"{same}{any}{'*' if inclusive else '+'}"])


def below(bound: str, inclusive: bool, any: str = ANY) -> str:
    """Every string before ``bound``; the empty text where there is none."""
    bottom = 0 if any == ANY else ord("0")
    prefixes = [escape(bound[:i]) or "()" for i in range(len(bound))]
    lower = [
        escape(bound[:i]) + found
        for i, c in enumerate(bound)
        if ord(c) > bottom and (found := _points(bottom, ord(c) - 1)) is not None
    ]
    parts = prefixes
    if lower:
        parts = [*parts, f"({'|'.join(lower)}){any}*"]
    if inclusive:
        parts = [*parts, escape(bound) or "()"]
    return "|".join(parts)


def pattern(parts: Iterable[tuple[str, str]]) -> str:
    """A pattern with ``*`` and ``?`` in it."""
    return "".join(ANY + "*" if kind == "many" else ANY if kind == "one" else escape(t) for kind, t in parts)
