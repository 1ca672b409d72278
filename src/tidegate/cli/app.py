"""The command ``tidegate``: its verbs, its help, and what holds for all of them."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from tidegate._version import __version__
from tidegate.cli import (
    checkpoint,
    clone,
    convert,
    describe,
    detail,
    drop_feature,
    drop_partitions,
    features,
    files,
    history,
    index,
    log,
    merge_splits,
    optimize,
    protocol,
    purge,
    repair,
    restore,
    search,
    shell,
    sql,
    truncate_history,
    vacuum,
    verify,
)
from tidegate.cli.options import Verbose

INTRO = """Look at Delta tables, prove that they are sound and keep them in shape, without Spark.

A table is a directory with a transaction log. Tidegate reads the log itself: on local disks, S3, Google
Cloud Storage and Azure, of any table that Spark, Databricks, delta-rs, Trino or Tidegate wrote. Only
`checkpoint`, `vacuum`, `optimize`, `restore`, `clone`, `convert` and `drop-feature` change anything, and
of index tables `index`, `merge-splits`, `purge`, `drop-partitions`, `truncate-history` and `repair`.
`optimize`, `sql` and `shell` start Spark, and so does `drop-feature` where files must be rewritten.

\b
Examples:
  tidegate describe /data/events                       what the table is now
  tidegate describe /data/events --version 7           ... and what it was
  tidegate history s3://lake/events --limit 5          the last five commits
  tidegate files /data/events --where "day = '2026-01-31' AND id < 1000"
                                                       the files that may hold such rows
  tidegate protocol /data/events                       who may read it, who may write it, and why
  tidegate log /data/events                            the files of the log and what is in each
  tidegate checkpoint /data/events                     make the next reader faster
  tidegate verify /data/events --deep                  prove the log, and look into every data file
  tidegate verify /data/events --json | jq .findings   for programs: one JSON document on stdout
  tidegate vacuum /data/events --dry-run               which files nobody needs any more
  tidegate restore /data/events --version 7            make it what it was
  tidegate features /data/events                       why each feature is there, and what dropping it takes
  tidegate protocol /data/events --without deletionVectors
                                                       who could use it then
  tidegate drop-feature /data/events deletionVectors --dry-run
                                                       the plan, and nothing else
  tidegate search /data/logs 'reset AND level:ERROR'   the rows of an index table that match
  tidegate index /data/events --text message           make a Delta table searchable, or what is new in it
  tidegate sql "SELECT count(*) FROM delta.`/data/events` VERSION AS OF 7"
                                                       one statement, on Spark
  tidegate shell                                       many of them

\b
Exit codes:
  0   good
  1   something was found: `verify` found errors, `log` a file that cannot be read; `search` found nothing
  2   it could not be told: no table there, no right to read it, the storage failed, wrong usage

Failures are one sentence on stderr that begins with a stable code, such as [NOT_A_TABLE]; with --json they
are an object on stdout: {"error": {"code": "NOT_A_TABLE", ...}}.

Storage is configured by --storage-option KEY=VALUE and by the usual environment variables (AWS_REGION,
AWS_ACCESS_KEY_ID, ...)."""

app = typer.Typer(
    name="tidegate",
    help=INTRO,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 110},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    verbose: Verbose = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version of Tidegate.",
            show_default=False,
        ),
    ] = False,
) -> None:
    pass


_VERBS = (
    *(describe, detail, history, protocol, features, files, log),
    *(checkpoint, verify, vacuum, optimize, restore, clone, convert, drop_feature),
    *(search, index, merge_splits, purge, drop_partitions, truncate_history, repair),
    *(sql, shell),
)
for module in _VERBS:
    app.command(module.__name__.rsplit(".", 1)[-1].replace("_", "-"))(module.command)


def run() -> None:
    """Run the command on the process's arguments and exit."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows its number; it is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="tidegate")
