"""What people see: rich tables on stdout, plain where it is not a terminal; and the JSON for programs.

Values from a table never reach rich's markup: a path with brackets in it stays a path.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timezone
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Lines in a pipe are for grep: they are not broken to the width of a terminal that is not there.
_PIPE_WIDTH = 400


def console(*, stderr: bool = False) -> Console:
    """A console on the process's stdout or stderr as they are now."""
    stream = sys.stderr if stderr else sys.stdout
    width = None
    if not stream.isatty():
        asked = os.environ.get("COLUMNS", "")
        width = int(asked) if asked.isdecimal() and int(asked) > 0 else _PIPE_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def fields(pairs: Iterable[tuple[str, Any]], title: str | None = None) -> None:
    """Names and values, one pair a line; those without a value are left out."""
    _headline(title)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None and value != "":
            table.add_row(Text(name), cell(value))
    console().print(table)


def rows(
    columns: Sequence[str],
    values: Iterable[Sequence[Any]],
    *,
    title: str | None = None,
    right: Sequence[str] = (),
    fold: Sequence[str] = (),
) -> None:
    """A table. Columns in ``right`` hold numbers, those in ``fold`` may be broken over lines."""
    _headline(title)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name not in fold,
            overflow="fold" if name in fold else "ellipsis",
        )
    for row in values:
        table.add_row(*(cell(v) for v in row))
    console().print(table)


def line(text: str = "", style: str | None = None) -> None:
    console().print(Text(text, style=style or ""))


def _headline(title: str | None) -> None:
    if title is not None:
        line(title, "bold")


def cell(value: Any) -> Text:
    """One value as people read it."""
    return value if isinstance(value, Text) else Text(text(value))


def text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={text(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(text(v) for v in value)
    # What a terminal would act upon, or could not print, is shown as what it is.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))


def moment(value: datetime) -> str:
    return value.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def from_milliseconds(value: int | None) -> datetime | None:
    """A time of the log; None where it is none that a calendar has."""
    try:
        return None if value is None else datetime.fromtimestamp(value / 1000, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return None


def size(count: int | None) -> str:
    """Bytes as people say them."""
    if count is None:
        return ""
    number, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(number) < 1024 or unit == "PiB":
            break
        number /= 1024
    return f"{count} B" if unit == "B" else f"{number:.1f} {unit}"


def number(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


# ---------------------------------------------------------------------------- JSON


def document(value: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(encode(value, indent=2) + "\n")
    sys.stdout.flush()


def document_with_list(head: Mapping[str, Any], name: str, items: Iterator[Any]) -> None:
    """Print one JSON document whose last member is a list that is written as it comes."""
    opening = encode(dict(head), indent=2)
    sys.stdout.write(opening[:-2] + (",\n" if head else "\n") + f"  {json.dumps(name)}: [")
    separator = "\n    "
    for item in items:
        sys.stdout.write(separator + encode(item))
        separator = ",\n    "
    sys.stdout.write("\n  ]\n}\n")
    sys.stdout.flush()


def encode(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, frozenset | set):
        return sorted(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
