"""``tidegate purge``: delete the splits and log files of an index table that no retained version needs."""

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
    retention: Annotated[
        float | None,
        typer.Option(
            "--retention",
            metavar="HOURS",
            min=0,
            help="Keep what is younger than this; 24 at least. [default: 168]",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be deleted, and do nothing.", show_default=False)
    ] = False,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Delete what no retained version needs.

    Splits that nothing refers to (of failed writes, or removed long ago) and log files whose retention has
    passed. What any version that can still be read needs is kept.
    """
    from tidegate.index.log import IndexLog

    log = IndexLog.at(table, storage_options(storage_option))
    with Patience("purging"):
        done = log.purge(retention_hours=retention, dry_run=dry_run)
    if json:
        screen.document(
            {
                "table": log.url,
                "dryRun": dry_run,
                "splits": list(done.paths),
                "sizeInBytes": done.size_in_bytes,
                "logFiles": list(done.log_files),
            }
        )
        return 0
    verb = "would be" if dry_run else "were" if len(done.paths) != 1 else "was"
    screen.line(
        f"{screen.plural(len(done.paths), 'split')} ({screen.size(done.size_in_bytes)}) and "
        f"{screen.plural(len(done.log_files), 'log file')} {verb} deleted."
    )
    return 0
