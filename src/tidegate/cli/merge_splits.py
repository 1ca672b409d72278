"""``tidegate merge-splits``: put the small splits of an index table together."""

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
    target_size: Annotated[
        str, typer.Option("--target-size", metavar="SIZE", help="How large splits become.", show_default=True)
    ] = "5G",
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="SQL", help="Only the partitions for which this is true.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be merged, and do nothing.", show_default=False)
    ] = False,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Merge small splits without indexing anything again.

    Within a partition, in one commit that changes no rows. A split that cannot be read stays where it is and
    is left alone for a day.
    """
    from tidegate.index.log import IndexLog
    from tidegate.index.merge_splits import merge_splits

    options = storage_options(storage_option)
    log = IndexLog.at(table, options)
    with Patience("merging splits") as bar:
        done = merge_splits(
            log, target_size, where, dry_run, None, options, lambda n, of: bar("merging splits", n, of)
        )
    if json:
        screen.document({"table": log.url, **done.as_dict()})
        return 0
    if not done.merged:
        screen.line("There is nothing to merge.")
    elif dry_run:
        screen.line(f"{screen.plural(done.merged, 'split')} would become {screen.number(done.groups)}.")
    else:
        screen.line(f"{screen.plural(done.merged, 'split')} became {screen.number(done.created)}.")
    for path in done.skipped:
        screen.line(f"skipped: {path}")
    return 0
