"""The path of a column as text and back: ``a.`b.c`.d`` is the column d in b.c in a.

A dot separates levels, backticks keep a dot inside a name, a doubled backtick is one backtick.
Inside arrays and maps the levels are called ``element``, ``key`` and ``value``, as in the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Path = tuple[str, ...]


def split_path(text: str) -> Path:
    """The levels of a path. A backtick that is never closed is taken as it stands."""
    parts: list[str] = []
    i = 0
    while i <= len(text):
        if text.startswith("`", i):
            end = i + 1
            while end < len(text) and (text[end] != "`" or text.startswith("``", end)):
                end += 2 if text.startswith("``", end) else 1
            if end < len(text) and text[end + 1 : end + 2] in ("", "."):
                parts.append(text[i + 1 : end].replace("``", "`"))
                i = end + 2
                continue
        dot = text.find(".", i)
        end = len(text) if dot < 0 else dot
        parts.append(text[i:end])
        i = end + 1
    return tuple(parts)


def join_path(path: Sequence[str]) -> str:
    """The text that ``split_path`` reads back."""
    return ".".join(
        part if part and "." not in part and "`" not in part else "`" + part.replace("`", "``") + "`"
        for part in path
    )


def split_names(text: str) -> list[str]:
    """Columns in a text with commas between them, each as it is written; a name in backticks may have one."""
    return [name.strip() for name in re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", text)]
