"""``tidegate detail``: the row of DESCRIBE DETAIL."""

from __future__ import annotations

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import Json, StorageOptions, Table, Verbose, delta_log
from tidegate.cli.patience import Patience
from tidegate.commands.detail import detail as run
from tidegate.log.snapshot import load


@verb
def command(
    table: Table,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """What the table is now, as DESCRIBE DETAIL says it."""
    log = delta_log(table, storage_option)
    with Patience("reading the log"):
        facts = run(load(log))
    if json:
        screen.document({"table": log.url, **facts})
    else:
        screen.fields(list(facts.items()))
    return 0
