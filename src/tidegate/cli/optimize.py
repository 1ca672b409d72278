"""``tidegate optimize``: fewer, fuller files. Starts a local Spark, which does the work."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import DryRun, Json, StorageOptions, Table, Verbose, delta_log
from tidegate.cli.patience import Patience
from tidegate.commands import bins, clustering
from tidegate.errors import OptionError, PredicateError, TidegateError
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.schema.references import references


@verb
def command(
    table: Table,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Only these partitions.", show_default=False),
    ] = None,
    zorder: Annotated[
        list[str] | None,
        typer.Option(
            "--zorder", metavar="COLUMN", help="Z-order by this column; may be repeated.", show_default=False
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Cluster files of other clustering columns too.", show_default=False),
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Rewrite small files as fewer, fuller ones.

    Deleted rows are purged on the way. With --zorder the rows are sorted along a curve through the
    columns; a clustered table is clustered by its own. A dry run tells how many files a compaction
    would take, without Spark; of Z-order and clustering it cannot tell.
    """
    log = delta_log(table, storage_option)
    if dry_run:
        found = load(log)
        _check_compaction(found, where, ordered=bool(zorder or full))
        taken = bins.bins(bins.candidates(found.files(where), bins.Settings()), found.metadata, bins.GIB)
        numbers = {
            "numFilesRemoved": sum(b.files.num_rows for b in taken),
            "numFilesAdded": len(taken),
            "sizeInBytes": sum(b.size for b in taken),
        }
    else:
        with Patience("optimizing"):
            numbers = _run(log, where, zorder or [], full)
    if json:
        screen.document({"table": log.url, "dryRun": dry_run, **numbers})
        return 0
    verb_text = "would become" if dry_run else "became"
    screen.line(
        f"{screen.plural(numbers['numFilesRemoved'], 'file')} of {log.url} {verb_text} "
        f"{screen.number(numbers['numFilesAdded'])}."
    )
    return 0


def _check_compaction(snapshot: Snapshot, where: str | None, *, ordered: bool) -> None:
    """Refuse to foretell what is no compaction of whole partitions."""
    if ordered or clustering.is_clustered(snapshot):
        raise OptionError(
            "A dry run tells of compaction alone: how many files Z-order or clustering would write is known "
            "only when they have run.",
            table=snapshot.url,
            hint="Leave --dry-run out, or --zorder and --full.",
        )
    partitions = {c.lower() for c in snapshot.partition_columns}
    others = sorted({path[0] for path in references(where or "true")} - partitions)
    if others:
        raise PredicateError(
            f"{where} speaks of {', '.join(others)}; only partition columns choose what is compacted.",
            table=snapshot.url,
            hint=f"The partition columns are {', '.join(snapshot.partition_columns) or 'none'}.",
            errorClass="DELTA_NON_PARTITION_COLUMN_REFERENCE",
        )


def _run(log: TableLog, where: str | None, zorder: list[str], full: bool) -> dict[str, int]:
    try:
        from tidegate.commands.optimize import optimize
        from tidegate.doors import enable
        from tidegate.spark.session import session
    except ModuleNotFoundError as e:
        raise TidegateError(
            "OPTIMIZE needs PySpark, which is not installed.",
            hint="Install it with `pip install tidegate[spark]`.",
        ) from e

    spark = enable(session(**{"spark.log.level": "OFF"}))
    try:
        done = optimize(spark, log, where=where, zorder_by=zorder, full=full)
    finally:
        spark.stop()
    names = ("numFilesRemoved", "numFilesAdded", "partitionsOptimized", "totalConsideredFiles")
    return {k: done.metrics[k] for k in names}
