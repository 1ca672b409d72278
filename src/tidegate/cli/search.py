"""``tidegate search``: the rows of an index table that match, with the matches highlighted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

from tidegate.cli import screen
from tidegate.cli.failure import FOUND, verb
from tidegate.cli.options import Json, StorageOptions, Table, Timestamp, Verbose, Version, storage_options
from tidegate.cli.patience import Patience

_LIMIT = 20
# What no text holds, so that it can mark where a match begins and ends.
_MARKS = ("\x02", "\x03")
_WIDE = 150


@verb
def command(
    table: Table,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="The query; * for every row.", show_default=False)
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="A,B,...", help="Columns to show. [default: all]", show_default=False
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="At most N rows.", show_default=True)
    ] = _LIMIT,
    best: Annotated[
        bool, typer.Option("--best", help="The best matches first, with their scores.", show_default=False)
    ] = False,
    count: Annotated[
        bool, typer.Option("--count", help="Only say how many rows match.", show_default=False)
    ] = False,
    version: Version = None,
    timestamp: Timestamp = None,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Search an index table.

    Words, "phrases", field:value, AND OR NOT, [a TO b], wor*, word~1, 10.0.0.0/8 and more, as
    docs/index-tables.md says. Exit code 1 means that nothing was found.
    """
    from tidegate.index.tables import Searchable

    with Patience("searching"):
        found = Searchable.open(
            table, version=version, timestamp=timestamp, storage_options=storage_options(storage_option)
        )
        total = found.count(query)
        wanted = [c.strip() for c in columns.split(",") if c.strip()] if columns is not None else None
        marked = _words(found, wanted) if not json else []
        search = found.search(query, wanted, limit, scores=best, highlight=marked, marks=_MARKS)
        rows = search.table() if not count else None
    head = {"table": found.snapshot.url, "version": found.read_version, "query": query, "count": total}
    if json:
        shown = [] if rows is None else rows.to_pylist()
        screen.document_with_list(head, "rows", iter(shown))
    elif rows is None:
        screen.line(screen.number(total))
    else:
        names = list(search.find.columns)
        screen.rows(["_score", *names] if best else names, _lines(rows, names, marked, best), fold=names)
        screen.line()
        text = screen.plural(total, "row")
        if rows.num_rows < total:
            text += f"; the first {screen.number(rows.num_rows)} are shown, --limit changes that"
        screen.line(text)
    return 0 if total else FOUND


def _words(found: Any, wanted: list[str] | None) -> list[str]:
    """The text columns among those that are shown."""
    asked = None if wanted is None else {c.casefold() for c in wanted}
    fields = [f for f in found.names.mapping.indexed if f.is_words]
    return [f.column for f in fields if asked is None or f.column.casefold() in asked]


def _lines(rows: Any, names: list[str], marked: list[str], best: bool) -> Iterator[list[Any]]:
    for row in rows.to_pylist():
        cells: list[Any] = [f"{row['_score']:.3f}"] if best else []
        for name in names:
            snippet = row.get(f"_snippet_{name}") if name in marked else None
            cells.append(_highlighted(snippet) if snippet else _shortened(row[name]))
        yield cells


def _highlighted(text: str) -> Text:
    out = Text()
    for number, part in enumerate(text.replace(_MARKS[1], _MARKS[0]).split(_MARKS[0])):
        # Every other piece lay between two marks.
        out.append(screen.text(part), style="bold yellow" if number % 2 else "")
    return out


def _shortened(value: Any) -> Any:
    return value[:_WIDE] + "…" if isinstance(value, str) and len(value) > _WIDE else value
