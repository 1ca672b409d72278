"""Filters of a DataFrame on Spark Connect: files that hold no row for them are left out of its scan.

A classic session's scan is asked by Spark itself which files a filter leaves. On Connect the files stand in
the plan, and the plan is the client's own: so a frame that reads a table remembers how it came about, and
one that is filtered is made again from fewer files. What was chosen in between (columns by name, other
filters) is repeated, under the same plan ids, so that ``frame["id"]`` of each frame along the way finds its
column as before. After any other method a frame is Spark's alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from tidegate.commands.conditions import known
from tidegate.files.predicate import Predicate, conjunction
from tidegate.log.snapshot import Snapshot
from tidegate.spark.jvm import is_connect
from tidegate.spark.remote_columns import PlanIds, ids_of, plans_of, sql_of, with_ids
from tidegate.spark.scan.native import FILE_COLUMNS
from tidegate.spark.scan.origins import newest_tables, noted
from tidegate.spark.scan.scans import scan
from tidegate.spark.skipping import narrowing

Step = Callable[[DataFrame], DataFrame]
_NOTE = "_tidegate_origin"


@dataclass(frozen=True)
class Origin:
    """A scan of a table, what is known of the rows wanted from it, and the steps taken since.

    With each step stand the ids of the plan that it made.
    """

    snapshot: Snapshot
    columns: tuple[str, ...] | None
    base: PlanIds
    files: int
    wanted: Predicate | None = None
    steps: tuple[tuple[Step, PlanIds], ...] = ()

    def has(self, name: str) -> bool:
        """Whether a name is that of a column; behind a dot stands a field, which may be called like one."""
        bare = name[1:-1] if name[:1] == name[-1:] == "`" else name
        return ("." not in name or bare != name) and self.snapshot.schema.field(bare) is not None

    def after(self, step: Step, made: DataFrame) -> Origin:
        return replace(self, steps=(*self.steps, (step, ids_of(made))))


def remember(
    frame: DataFrame, spark: SparkSession, snapshot: Snapshot, columns: list[str] | None = None
) -> DataFrame:
    """The scan of a whole snapshot, or of some columns of it, ready to be narrowed."""
    if is_connect(spark):
        names = None if columns is None else tuple(columns)
        _note(frame, Origin(snapshot, names, ids_of(frame), snapshot.num_files))
    return frame


def origin_of(frame: DataFrame) -> Origin | None:
    found = vars(frame).get(_NOTE)
    assert found is None or isinstance(found, Origin)
    return found


def filtered(frame: DataFrame, origin: Origin, condition: str | Column, apply: Step) -> DataFrame:
    """``apply(frame)``, which filters it by ``condition``, over files that may have rows for it."""
    made = apply(frame)
    wanted = _wanted(frame, origin, condition)
    if wanted is not None:
        files = origin.snapshot.files(wanted, columns=FILE_COLUMNS)
        if files.num_rows < origin.files:
            origin = replace(origin, wanted=wanted, files=files.num_rows)
            fewer = noted(_again(frame.sparkSession, origin, files), newest_tables(frame))
            made = with_ids(apply(fewer), ids_of(made))
    _note(made, origin.after(apply, made))
    return made


def chosen(frame: DataFrame, origin: Origin, apply: Step) -> DataFrame:
    """``apply(frame)``, which keeps some columns and their names."""
    made = apply(frame)
    _note(made, origin.after(apply, made))
    return made


def _wanted(frame: DataFrame, origin: Origin, condition: str | Column) -> Predicate | None:
    """What is known of the rows wanted after one more condition; None if it adds nothing."""
    text = condition if isinstance(condition, str) else sql_of(condition, plans_of(frame))
    if text is None:
        return None
    spark, snapshot = frame.sparkSession, origin.snapshot
    found = narrowing(spark, known(text, snapshot.schema, spark), snapshot.partition_columns)
    if not found.columns:
        return None
    return found if origin.wanted is None else conjunction([origin.wanted, found])


def _again(spark: SparkSession, origin: Origin, files: pa.Table) -> DataFrame:
    """The scan of the files that are left, and the steps after it."""
    frame = with_ids(scan(spark, origin.snapshot, files, columns=origin.columns), origin.base)
    for step, ids in origin.steps:
        frame = with_ids(step(frame), ids)
    return frame


def _note(frame: DataFrame, origin: Origin) -> None:
    vars(frame)[_NOTE] = origin
