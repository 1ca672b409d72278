"""``tidegate files``: the live files of a version, or those that may hold rows of a predicate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import (
    Dialect,
    Json,
    Limit,
    StorageOptions,
    Table,
    Timestamp,
    Verbose,
    Version,
    snapshot,
)
from tidegate.cli.patience import Patience
from tidegate.files import stats as statistics
from tidegate.log.columns import ADD_SCHEMA

_SHOWN = ("path", "size", "partitionValues", "stats", "deletionVector", "numRecords", "modificationTime")
_SLICE = 4_096
# More lines than this nobody reads; who wants them says so.
_MOST_LINES = 1_000


@verb
def command(
    table: Table,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            help="Only files that may hold rows of this predicate, by partition values and statistics.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="A,B,...",
            help=f"Fields of the log's entry to show: {', '.join(ADD_SCHEMA.names)}.",
            show_default=False,
        ),
    ] = None,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = None,
    json: Json = False,
    dialect: Dialect = None,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """The live files, or those that may match a predicate.

    With --where, a file is left out only if no row in it can match: a file too many, never one too few.
    """
    asked = [c.strip() for c in columns.split(",") if c.strip()] if columns is not None else None
    with Patience("reading the files' entries"):
        found = snapshot(table, version, timestamp, storage_option, dialect)
        known = found.log.dialect.form.adds.names
        read = asked if asked is not None or json else [c for c in _SHOWN if c in known]
        if read is not None and "size" not in read and not json:
            read = [*read, "size"]
        files = found.files(where, read)
    if limit is None and not json:
        limit = _MOST_LINES
    shown = files if limit is None else files.slice(0, min(limit, files.num_rows))
    if json:
        head = {"table": found.url, "version": found.version, "where": where, "count": files.num_rows}
        screen.document_with_list(head, "files", _objects(shown))
        return 0
    if asked is not None:
        long = ["path", "partitionValues", "stats", "tags", "deletionVector"]
        screen.rows(asked, _cells(shown.select(asked)), right=["size"], fold=long)
    else:
        screen.rows(
            ["path", "size", "rows", "deleted", "partition", "modified"],
            _summaries(shown),
            right=["size", "rows", "deleted"],
            fold=["path", "partition"],
        )
    _conclude(files, shown.num_rows)
    return 0


def _conclude(files: pa.Table, shown: int) -> None:
    total = pc.sum(files.column("size")).as_py() or 0
    text = f"{screen.plural(files.num_rows, 'file')}, {screen.size(total)}"
    if shown < files.num_rows:
        text += f"; the first {screen.number(shown)} are shown, --limit changes that"
    screen.line()
    screen.line(text)


def _objects(files: pa.Table) -> Iterator[dict[str, Any]]:
    """The entries as JSON objects, maps as objects, a few thousand of them at a time."""
    maps = [f.name for f in files.schema if pa.types.is_map(f.type)]
    for batch in files.to_batches(_SLICE):
        for row in batch.to_pylist():
            for name in maps:
                if row[name] is not None:
                    row[name] = dict(row[name])
            yield row


def _cells(files: pa.Table) -> Iterator[list[Any]]:
    for row in _objects(files):
        yield [
            {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value
            for value in row.values()
        ]


def _summaries(files: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in files.to_batches(_SLICE):
        records = statistics.num_records(batch.column("stats"))
        if "numRecords" in batch.schema.names:
            records = pc.coalesce(batch.column("numRecords"), records)
        for row, count in zip(batch.to_pylist(), records.to_pylist(), strict=True):
            vector = row.get("deletionVector")
            yield (
                row["path"],
                screen.size(row["size"]),
                count,
                None if vector is None else vector["cardinality"],
                {k: "null" if v is None else v for k, v in row["partitionValues"] or ()},
                screen.from_milliseconds(row["modificationTime"]),
            )
