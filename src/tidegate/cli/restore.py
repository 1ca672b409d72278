"""``tidegate restore``: make a table what it was."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import DryRun, Json, StorageOptions, Table, Timestamp, Verbose, Version, delta_log
from tidegate.cli.patience import Patience
from tidegate.commands.restore import restore as run
from tidegate.log.snapshot import load


@verb
def command(
    table: Table,
    version: Version = None,
    timestamp: Timestamp = None,
    ignore_missing: Annotated[
        bool,
        typer.Option(
            "--ignore-missing", help="Restore even if files of that version are gone.", show_default=False
        ),
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Make the table what it was, at a version or a time.

    It is a new commit, and nothing of the history is lost: the versions in between stay, and can be
    restored themselves.
    """
    if (version is None) == (timestamp is None):
        raise typer.BadParameter("give a version or a timestamp, one of them", param_hint="--version")
    log = delta_log(table, storage_option)
    with Patience("restoring"):
        metrics = run(
            log, version=version, timestamp=timestamp, ignore_missing=ignore_missing, dry_run=dry_run
        )
        now = load(log).version
    if json:
        screen.document({"table": log.url, "version": now, "dryRun": dry_run, **(metrics or {})})
        return 0
    verb_text = "would be" if dry_run else "is"
    at = f"version {version}" if version is not None else f"the version of {timestamp}"
    if metrics is None:
        screen.line(f"{log.url} is at {at} already; there is nothing to restore.")
        return 0
    screen.line(f"{log.url} {verb_text} restored to {at}; its latest version is {now}.")
    screen.fields([(k.replace("_", " "), screen.number(v)) for k, v in metrics.items()])
    return 0
