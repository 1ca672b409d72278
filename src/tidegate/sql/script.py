"""Several statements in one text: where each ends.

A semicolon ends a statement, unless it stands in a string, a quoted name, a comment, or between BEGIN and END
of a script of Spark's. Every statement is a span of the text as it was written.
"""

from __future__ import annotations

import re

_SKIPPED = re.compile(
    r"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|`[^`]*`?|--[^\n]*|/\*|;|\b(?:BEGIN|END)\b""",
    re.DOTALL | re.IGNORECASE,
)


def split(text: str) -> tuple[list[str], str]:
    """The statements that end in ``text``, without their semicolons, and what is left behind the last one."""
    done: list[str] = []
    start, at = 0, 0
    while (found := _SKIPPED.search(text, at)) is not None:
        at = found.end()
        word = found.group().upper()
        if word == "/*":
            at = _comment_end(text, found.start())
        elif word == "BEGIN" and not _bare(text[start : found.start()]):
            at = _block_end(text, found.end())
        elif word == ";":
            if _bare(text[start : found.start()]):
                done.append(text[start : found.start()].strip())
            start = at
    return done, text[start:]


def is_blank(text: str) -> bool:
    """Whether there is nothing but space and comments in a text."""
    return not _bare(text)


def _bare(text: str) -> str:
    """A text without its comments and the space around them."""
    out, at = [], 0
    while (found := _SKIPPED.search(text, at)) is not None:
        out.append(text[at : found.start()])
        at = found.end()
        if found.group() == "/*":
            at = _comment_end(text, found.start())
        elif not found.group().startswith("--"):
            out.append(found.group())
    return "".join([*out, text[at:]]).strip()


def _comment_end(text: str, start: int) -> int:
    """Behind a comment that may hold others; the end of the text where it does not end."""
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if found.group() == "/*" else -1
        if depth == 0:
            return found.end()
    return len(text)


def _block_end(text: str, at: int) -> int:
    """Behind the END of a block that begins before ``at``; what ends within it does not end it."""
    depth = 1
    words = re.compile(
        r"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|`[^`]*`?|--[^\n]*|/\*|\bEND(?:\s+(?:IF|CASE|WHILE|FOR|REPEAT|LOOP))?\b"""
        r"""|\b(?:BEGIN|CASE)\b""",
        re.DOTALL | re.IGNORECASE,
    )
    while (found := words.search(text, at)) is not None:
        at = found.end()
        word = " ".join(found.group().upper().split())
        if word == "/*":
            at = _comment_end(text, found.start())
        elif word in ("BEGIN", "CASE"):
            depth += 1
        elif word in ("END", "END CASE"):
            depth -= 1
        if depth == 0:
            return at
    return len(text)
