"""What a user has said to a reader or writer, of batches and of streams: noted, and put together."""

from __future__ import annotations

from typing import Any

from tidegate.doors.hooks import names_of, notes, noting_format, noting_option, noting_options, text, wrap


def take_notes(*classes: type) -> None:
    """Note the format and the options that are said to readers and writers of these classes."""
    for cls in classes:
        wrap(cls, "format", noting_format)
        wrap(cls, "option", noting_option)
        wrap(cls, "options", noting_options)


def format_of(target: Any, given: str | None) -> str:
    """The format: that of the last call, or the one noted before."""
    return (given or notes(target).get("format") or "").lower()


def options_of(target: Any, more: dict[str, Any]) -> dict[str, str]:
    """All options: those noted before, and over them those of the last call."""
    found: dict[str, str] = notes(target)["options"]
    return {**found, **{k: text(v) for k, v in more.items()}}


def partitions_of(target: Any, given: Any) -> list[str] | None:
    """The partition columns: those of the last call, or the ones noted before; None if none were said."""
    found: list[str] | None = notes(target).get("partitions")
    return found if given is None else names_of(given)


def option(options: dict[str, str], name: str) -> str | None:
    """An option by its name, which has no case."""
    return next((v for k, v in options.items() if k.lower() == name.lower()), None)
