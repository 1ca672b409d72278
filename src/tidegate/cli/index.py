"""``tidegate index``: build the companion index of a Delta table, or bring it up to date."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import Json, StorageOptions, Table, Verbose, storage_options
from tidegate.cli.patience import Patience


@verb
def command(
    table: Table,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="PATH",
            help="Where the index is. [default: TABLE/_search_index]",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="A,B,...",
            help="Columns to index, when it is built. [default: all]",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text", metavar="A,B,...", help="Columns whose words are searched.", show_default=False
        ),
    ] = None,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Index a Delta table, or what is new in it.

    The rows stay in the Delta table. The index is built the first time and refreshed from then on: only files
    that it does not cover yet are read. Searches are exact either way.
    """
    from tidegate.index.companion import FOLDER, build, refresh
    from tidegate.index.log import IndexLog

    options = storage_options(storage_option)
    where = at or f"{table.rstrip('/')}/{FOLDER}"
    with Patience("indexing"):
        log = IndexLog.at(where, options)
        built = not log.exists()
        if built:
            chosen = [c.strip() for c in columns.split(",") if c.strip()] if columns is not None else None
            build(table, where, chosen, {"indexing.typemap.text": text} if text else None, None, options)
        done = {} if built else refresh(log, None, options).as_dict()
        now = log.snapshot()
    facts = {
        "table": table,
        "index": now.url,
        "built": built,
        "version": now.version,
        "splits": now.num_files,
        "sizeInBytes": now.size_in_bytes,
        **done,
    }
    if json:
        screen.document(facts)
        return 0
    what = "is built" if built else "was up to date" if done.get("status") == "no_action" else "is refreshed"
    screen.line(f"The index {now.url} {what}.")
    screen.fields(
        [
            ("version", now.version),
            ("splits", screen.number(now.num_files)),
            ("size", screen.size(now.size_in_bytes)),
            ("files indexed", done.get("filesIndexed")),
        ]
    )
    return 0
