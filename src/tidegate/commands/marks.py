"""Marks behind a name or a path that say which version is meant: ``@v12``, ``@20240131120000000``."""

from __future__ import annotations


def marked(text: str) -> tuple[str | None, str | None] | None:
    """The version or the time that ``v12`` or ``20240131120000000`` behind an ``@`` means; None if none."""
    if text[:1].lower() == "v" and text[1:].isdecimal():
        return text[1:], None
    if text.isdecimal() and len(text) == 17:
        day, time = text[:8], text[8:]
        return None, f"{day[:4]}-{day[4:6]}-{day[6:]} {time[:2]}:{time[2:4]}:{time[4:6]}.{time[6:]}"
    return None


def unmarked(path: str) -> tuple[str, str | None, str | None]:
    """A path without the mark at its end, and the version or the time that the mark says."""
    before, sign, behind = path.rpartition("@")
    found = marked(behind) if sign else None
    return (path, None, None) if found is None else (before, *found)
