"""``tidegate drop-partitions``: take whole partitions out of an index table."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import Json, StorageOptions, Table, Verbose, storage_options


@verb
def command(
    table: Table,
    where: Annotated[
        str,
        typer.Argument(metavar="WHERE", help="A condition on partition columns.", show_default=False),
    ],
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Remove the partitions that a condition names.

    For index tables, in one commit. Their splits stay on disk until a purge, and older versions still
    have them.
    """
    from tidegate.index.log import IndexLog

    log = IndexLog.at(table, storage_options(storage_option))
    before = log.snapshot()
    after = log.drop_partitions(where)
    if json:
        screen.document(
            {
                "table": log.url,
                "version": after.version,
                "splitsBefore": before.num_files,
                "splits": after.num_files,
            }
        )
    elif after.version == before.version:
        screen.line("No partition fulfils the condition; nothing was done.")
    else:
        screen.line(
            f"Version {after.version} has {screen.plural(after.num_files, 'split')}; "
            f"there were {before.num_files}."
        )
    return 0
