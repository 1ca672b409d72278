"""``tidegate sql``: one statement, its answer as a table. Starts a local Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import Json, Verbose
from tidegate.cli.patience import Patience
from tidegate.errors import SqlSyntaxError, TidegateError

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
    """Run SQL and print what it answers.

    Spark's SQL with Delta's statements: SELECT, INSERT, UPDATE, DELETE, MERGE, CREATE, ALTER, OPTIMIZE,
    VACUUM, RESTORE, DESCRIBE HISTORY and so on. Several statements are set apart by semicolons; the first
    that cannot be done ends it. With `--json` several answers come as one document with a list of them.
    """
    wanted = parts(statement)
    answers: list[dict[str, Any]] = []
    with Patience("running the statement"):
        spark = started("SQL")
        try:
            for one in wanted:
                columns, found = answered(run(spark, one), limit + 1)
                answers.append(
                    {"columns": columns, "rows": [dict(zip(columns, r, strict=True)) for r in found[:limit]]}
                )
                if not json:
                    show(columns, found, limit)
        finally:
            spark.stop()
    if json:
        screen.document(answers[0] if len(answers) == 1 else {"results": answers})
    return 0


def parts(text: str) -> list[str]:
    """The statements of a text; an error if there is none."""
    from tidegate.sql.script import is_blank, split

    done, rest = split(text)
    found = [*done, *([] if is_blank(rest) else [rest.strip()])]
    if not found:
        raise SqlSyntaxError("There is no statement here.", hint='Write one, as in: tidegate sql "SELECT 1".')
    return found


def answered(frame: DataFrame, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and the first rows of an answer."""
    columns = frame.columns
    return columns, [tuple(r) for r in frame.limit(limit).collect()] if columns else []


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
