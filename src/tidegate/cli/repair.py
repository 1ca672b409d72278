"""``tidegate repair``: write a log anew that names only the splits of an index table that are there."""

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
    to: Annotated[
        str, typer.Argument(metavar="TO", help="Where the new log is written; empty.", show_default=False)
    ],
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Write the log of an index table anew, at another place.

    It names only the splits that are there. The table itself is not touched. Exit code 1 says that
    splits are missing.
    """
    from tidegate.index.log import IndexLog

    options = storage_options(storage_option)
    log, target = IndexLog.at(table, options), IndexLog.at(to, options)
    with Patience("looking at the splits"):
        done = log.repair(target)
    if json:
        screen.document(
            {
                "table": log.url,
                "target": target.url,
                "version": done.source_version,
                "splits": done.total_splits,
                "validSplits": done.valid_splits,
                "missing": list(done.missing),
            }
        )
    else:
        for path in done.missing:
            screen.line(f"missing: {path}")
        screen.line(f"{target.url} names {done.valid_splits} of {screen.plural(done.total_splits, 'split')}.")
    return 1 if done.missing else 0
