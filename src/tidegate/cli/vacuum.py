"""``tidegate vacuum``: delete the files that no version within the retention needs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import DryRun, Json, StorageOptions, Table, Verbose, delta_log
from tidegate.cli.patience import Patience
from tidegate.commands.vacuum import Vacuumed
from tidegate.commands.vacuum import vacuum as run

_SHOWN = 20


@verb
def command(
    table: Table,
    retain: Annotated[
        float | None,
        typer.Option(
            "--retain",
            metavar="HOURS",
            help="Keep what versions of the last HOURS need. [default: the table's own retention]",
            show_default=False,
        ),
    ] = None,
    lite: Annotated[
        bool,
        typer.Option(
            "--lite",
            help="Look at the commits since the last one, not at the storage.",
            show_default=False,
        ),
    ] = False,
    no_check: Annotated[
        bool,
        typer.Option(
            "--no-check", help="Allow a retention shorter than the table's own.", show_default=False
        ),
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Delete files that no version within the retention needs.

    Kept are live files, files removed within the retention, their deletion vectors and change files,
    and whatever is younger than the retention. Try --dry-run first: what is deleted is gone.
    """
    log = delta_log(table, storage_option)
    with Patience("looking for files") as bar:
        done = run(
            log,
            retain,
            mode="lite" if lite else "full",
            dry_run=dry_run,
            check_retention=not no_check,
            progress=bar,
        )
    if json:
        head = {**_facts(done), "table": log.url}
        screen.document_with_list(head, "files", iter(done.names.to_pylist()))
    else:
        _show(done, log.url)
    return 0


def _facts(done: Vacuumed) -> dict[str, Any]:
    return {
        "dryRun": done.dry_run,
        "retentionHours": done.retention_ms / 3_600_000,
        "numFiles": done.count,
        "numFolders": len(done.folders),
        "sizeInBytes": done.size,
        "versions": list(done.versions),
    }


def _show(done: Vacuumed, url: str) -> None:
    for name in done.names.slice(0, _SHOWN if not done.dry_run else done.count).to_pylist():
        screen.line(name)
    if not done.dry_run and done.count > _SHOWN:
        screen.line(f"... and {screen.number(done.count - _SHOWN)} more")
    what = "would be deleted from" if done.dry_run else "deleted from"
    folders = f" and {screen.plural(len(done.folders), 'empty folder')}" if done.folders else ""
    screen.line(f"{screen.plural(done.count, 'file')} ({screen.size(done.size)}){folders} {what} {url}")
