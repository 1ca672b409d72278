"""Names of tables as users write them: parts between dots, quoted with backticks where they are odd.

``delta.`/data/t` `` is a path in the clothes of a name. Nothing is looked up here.
"""

from __future__ import annotations

from tidegate.errors import OptionError


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a name, unquoted: ``a.`b.c` `` is ``a`` and ``b.c``."""
    parts: list[str] = []
    at = 0
    while True:
        part, at = _part(text, at)
        parts.append(part)
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            raise _bad(text)
        at += 1


def _part(text: str, at: int) -> tuple[str, int]:
    """The part that begins at ``at``, and where it ends."""
    while at < len(text) and text[at] == " ":
        at += 1
    if at < len(text) and text[at] == "`":
        part, at = _quoted(text, at + 1)
    else:
        end = at
        while end < len(text) and text[end] not in ".`":
            end += 1
        part, at = text[at:end].rstrip(), end
        if any(c.isspace() for c in part):
            raise _bad(text)
    while at < len(text) and text[at] == " ":
        at += 1
    if not part:
        raise _bad(text)
    return part, at


def _quoted(text: str, at: int) -> tuple[str, int]:
    out: list[str] = []
    while at < len(text):
        if text[at] != "`":
            out.append(text[at])
            at += 1
        elif text[at : at + 2] == "``":
            out.append("`")
            at += 2
        else:
            return "".join(out), at + 1
    raise _bad(text)


def join_name(parts: tuple[str, ...]) -> str:
    """A name that reads back as ``parts``, every part quoted."""
    return ".".join("`" + p.replace("`", "``") + "`" for p in parts)


def _bad(text: str) -> OptionError:
    return OptionError(
        f"{text!r} is not the name of a table.",
        hint="Write name, database.name or spark_catalog.database.name; quote odd parts with backticks.",
    )
