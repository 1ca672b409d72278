"""``tidegate clone``: a shallow clone of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import (
    DryRun,
    Json,
    StorageOptions,
    Table,
    Timestamp,
    Verbose,
    Version,
    delta_log,
    storage_options,
)
from tidegate.cli.patience import Patience
from tidegate.commands.clone import clone as run
from tidegate.log.table_log import TableLog


@verb
def command(
    table: Table,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Where the clone is to be.", show_default=False)
    ],
    version: Version = None,
    timestamp: Timestamp = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an empty table at TARGET.", show_default=False)
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """A new table that refers to the files of another one.

    It is what the other is now, or was. The clone is shallow: no data is copied, and files that the
    source deletes with vacuum are lost to it.
    """
    source = delta_log(table, storage_option)
    place = TableLog.at(target, storage_options(storage_option))
    with Patience("cloning"):
        metrics = run(source, place, replace=replace, version=version, timestamp=timestamp, dry_run=dry_run)
    assert metrics is not None
    if json:
        screen.document({"table": source.url, "target": place.url, "dryRun": dry_run, **metrics})
        return 0
    verb_text = "would be" if dry_run else "is"
    files, size = metrics["source_num_of_files"], metrics["source_table_size"]
    screen.line(
        f"{place.url} {verb_text} a shallow clone of {source.url}: "
        f"{screen.plural(files, 'file')}, {screen.size(size)}."
    )
    return 0
