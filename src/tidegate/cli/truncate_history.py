"""``tidegate truncate-history``: let the log of an index table begin at its latest version."""

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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be deleted, and do nothing.", show_default=False)
    ] = False,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Let the log of an index table begin where it is now.

    A checkpoint is written, then all of the log is deleted that only older versions need. There is no
    way back to them. The rows and splits of the latest version are not touched.
    """
    from tidegate.index.log import IndexLog

    log = IndexLog.at(table, storage_options(storage_option))
    with Patience("truncating the log"):
        done = log.truncate_history(dry_run=dry_run)
    if json:
        screen.document(
            {
                "table": log.url,
                "version": done.version,
                "versionsDeleted": done.versions_deleted,
                "checkpointsDeleted": done.checkpoints_deleted,
                "splitsPreserved": done.files_preserved,
                "dryRun": done.dry_run,
            }
        )
        return 0
    begins = "would begin" if dry_run else "begins"
    commits = screen.plural(done.versions_deleted, "commit")
    checkpoints = screen.plural(done.checkpoints_deleted, "checkpoint")
    screen.line(f"The log {begins} at version {done.version}, without {commits} and {checkpoints}.")
    return 0
