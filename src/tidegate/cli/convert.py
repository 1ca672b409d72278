"""``tidegate convert``: parquet files become a table."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import DryRun, Json, StorageOptions, Verbose, storage_options
from tidegate.cli.patience import Patience
from tidegate.commands.convert import Reading, convert_folder, inferred_partitions
from tidegate.log.table_log import TableLog
from tidegate.schema.types import StructField, StructType, parse_type

_ALIASES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}


@verb
def command(
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="The folder with the parquet files.", show_default=False),
    ],
    partition: Annotated[
        list[str] | None,
        typer.Option(
            "--partition",
            metavar="NAME:TYPE",
            help="A partition column, such as day:date; in order. [default: as the folders say]",
            show_default=False,
        ),
    ] = None,
    no_statistics: Annotated[
        bool, typer.Option("--no-statistics", help="Leave statistics out.", show_default=False)
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Make a table of parquet files where they lie.

    No file is moved or rewritten.
    """
    log = TableLog.at(folder, storage_options(storage_option))
    with Patience("reading footers"):
        schema = _partitions(partition) if partition else inferred_partitions(log)
        count = convert_folder(log, schema, reading=Reading(not no_statistics), dry_run=dry_run)
    if json:
        screen.document(
            {
                "table": log.url,
                "dryRun": dry_run,
                "numConvertedFiles": count,
                "partitionColumns": list(schema.names),
            }
        )
    elif count == 0:
        screen.line(f"{log.url} is a table already.")
    else:
        verb_text = "would be" if dry_run else "is"
        screen.line(f"{log.url} {verb_text} a table of {screen.plural(count, 'file')}.")
    return 0


def _partitions(pairs: list[str]) -> StructType:
    fields = []
    for pair in pairs:
        name, colon, kind = pair.rpartition(":")
        if not colon or not name:
            raise typer.BadParameter("write it as NAME:TYPE", param_hint="--partition")
        fields.append(StructField(name, parse_type(_ALIASES.get(kind.lower(), kind.lower()), (name,))))
    return StructType(tuple(fields))
