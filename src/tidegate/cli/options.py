"""The arguments that the verbs share, and the way from them to a table.

Every verb is a function with these annotations; typer makes its options of them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.opening import find_log, open

Table = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="The table: a local path, or a URL (s3://, gs://, az://, abfss://, file:, memory://).",
        show_default=False,
    ),
]
Version = Annotated[
    int | None,
    typer.Option(
        "--version",
        metavar="N",
        min=0,
        help="The table at version N. [default: the latest]",
        show_default=False,
    ),
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TIME",
        help="The table as it was at TIME, such as 2026-01-31T12:00:00Z; UTC where no zone is given.",
        show_default=False,
    ),
]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="An option of the storage, such as region=eu-central-1; may be given more than once.",
        show_default=False,
    ),
]
Dialect = Annotated[
    str | None,
    typer.Option(
        "--dialect",
        metavar="delta|indextables",
        help="Which kind of table, where a place holds both. [default: as the log directory says]",
        show_default=False,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.", show_default=False)
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Tell what would be done, and do nothing.", show_default=False),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=0, help="At most N of them.", show_default=False),
]


def _verbose(value: bool) -> bool:
    if value:
        turn_on_logging()
    return value


Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Tell each step on the way (DEBUG logging) on stderr.",
        callback=_verbose,
        expose_value=True,
        show_default=False,
    ),
]


# The name of the command line's own handler: others may have set up theirs.
HANDLER = "tidegate command line"


def turn_on_logging() -> None:
    """DEBUG messages of the package on stderr; once, however often it is asked for."""
    logger = logging.getLogger("tidegate")
    logger.setLevel(logging.DEBUG)
    if not any(h.name == HANDLER for h in logger.handlers):
        handler = logging.StreamHandler(sys.stderr)
        handler.name = HANDLER
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        logger.addHandler(handler)


def storage_options(pairs: Sequence[str] | None) -> dict[str, str]:
    """``KEY=VALUE`` texts as a mapping. The value is never quoted back: it may be a secret."""
    out: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter("write it as KEY=VALUE", param_hint="--storage-option")
        out[key.strip()] = value
    return out


def table_log(table: str, pairs: Sequence[str] | None, dialect: str | None = None) -> TableLog:
    """The log of the table, nothing of it read yet."""
    return find_log(table, storage_options(pairs), dialect, tell=_tell)


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def snapshot(
    table: str,
    version: int | None,
    timestamp: str | None,
    pairs: Sequence[str] | None,
    dialect: str | None = None,
) -> Snapshot:
    """The table at a version, at a time, or as it is now."""
    if version is not None and timestamp is not None:
        raise typer.BadParameter("give a version or a timestamp, not both", param_hint="--timestamp")
    log = table_log(table, pairs, dialect)
    if timestamp is None:
        return load(log, version)
    return open(table, timestamp=timestamp, storage_options=storage_options(pairs), dialect=log.dialect.name)


def version_of(
    table: str,
    version: int | None,
    timestamp: str | None,
    pairs: Sequence[str] | None,
    dialect: str | None = None,
) -> int | None:
    """The version that was asked for, None for the latest."""
    if timestamp is None:
        return version
    return snapshot(table, version, timestamp, pairs, dialect).version


def delta_log(table: str, pairs: Sequence[str] | None) -> TableLog:
    """The log of a Delta table, for the verbs that only such tables have; it must be there."""
    log = TableLog.at(table, storage_options(pairs))
    load(log)
    return log
