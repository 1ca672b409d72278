"""``tidegate sql``: one statement, its answer as a table. Starts a local Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import Json, Verbose
from tidegate.cli.patience import Patience
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 100


@verb
def command(
    statement: Annotated[str, typer.Argument(help="What to run; tables by path: delta.`/data/t`.")],
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="The most rows to show.", metavar="ROWS")
    ] = SHOWN,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Run one SQL statement and print what it answers.

    Spark's SQL with Delta's statements: SELECT, INSERT, UPDATE, DELETE, MERGE, CREATE, ALTER, OPTIMIZE,
    VACUUM, RESTORE, DESCRIBE HISTORY and so on. Exactly one statement.
    """
    with Patience("running the statement"):
        spark = started("SQL")
        try:
            frame = run(spark, statement)
            found = [tuple(r) for r in frame.limit(limit + 1).collect()] if frame.columns else []
            columns = frame.columns
        finally:
            spark.stop()
    if json:
        screen.document(
            {"columns": columns, "rows": [dict(zip(columns, r, strict=True)) for r in found[:limit]]}
        )
        return 0
    show(columns, found, limit)
    return 0


def started(what: str) -> SparkSession:
    """A quiet local Spark with Tidegate enabled."""
    try:
        from tidegate.doors import enable
        from tidegate.spark.session import session
    except ModuleNotFoundError as e:
        raise TidegateError(
            f"{what} needs PySpark, which is not installed.",
            hint="Install it with `pip install tidegate[spark]`.",
        ) from e
    return enable(session(**{"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "4"}))


def run(spark: SparkSession, statement: str) -> DataFrame:
    """One statement; what Spark says of a wrong one becomes a sentence of ours."""
    from pyspark.errors import PySparkException

    from tidegate.errors import SqlSyntaxError

    try:
        return spark.sql(statement)
    except TidegateError:
        raise
    except PySparkException as e:
        raise SqlSyntaxError(str(e).split("\n\nJVM stacktrace")[0].strip()) from e


def show(columns: list[str], rows: list[tuple[Any, ...]], limit: int) -> None:
    """The answer as a table, and how many rows it has."""
    if not columns:
        screen.line("Done.")
        return
    screen.rows(columns, rows[:limit], fold=columns)
    more = " (there are more; --limit shows them)" if len(rows) > limit else ""
    screen.line(f"{screen.plural(min(len(rows), limit), 'row')}{more}")
