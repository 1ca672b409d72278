"""The first half of a MERGE: which row of the table is subject to which clause. It is decided once.

One join of the table's keys with the source gives the decisions: the place of a row, the clause that acts
on it and the source row that it matched. Everything after (rewriting, vectors, inserts) follows them
and evaluates no condition again. Several source rows for one row of the table are found here.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commands.merge.analysis import Analysis, Understood, clause_number
from tidegate.commands.merge.clauses import takes_any_number
from tidegate.commands.merge.pruning import Facts, Parts, key_filter
from tidegate.commands.merge.source import SOURCE_ROW, Source
from tidegate.errors import MultipleMatchesError
from tidegate.files.predicate import Predicate
from tidegate.log.snapshot import Snapshot
from tidegate.spark.expressions import qualified
from tidegate.spark.scan.positions import PLACE, file_number, places

AT, CLAUSE = "__tidegate_at", "__tidegate_clause"
_UNMATCHED = "__tidegate_unmatched"


@dataclass(frozen=True)
class Counts:
    """How many rows each kind of clause acts on."""

    matched_updated: int = 0
    matched_deleted: int = 0
    unmatched_updated: int = 0
    unmatched_deleted: int = 0

    @property
    def updated(self) -> int:
        return self.matched_updated + self.unmatched_updated

    @property
    def deleted(self) -> int:
        return self.matched_deleted + self.unmatched_deleted


@dataclass(frozen=True)
class Decisions:
    """What is to happen to which row.

    ``frame`` has ``AT``, ``CLAUSE``, ``SOURCE_ROW`` and the source's columns: one row for each pair that
    matches, and for each row without a match that a clause acts on; ``CLAUSE`` is null where none acts.
    ``read`` are the numbers of the files that hold any of them, ``touched`` those where a clause acts.
    """

    frame: DataFrame
    pairs: int
    read: list[int]
    touched: list[int]
    counts: Counts
    predicate: Predicate
    repeated: bool = False

    @property
    def acted(self) -> int:
        """How many rows of the table a clause acts on."""
        return self.counts.updated + self.counts.deleted

    def acting(self) -> DataFrame:
        """The decisions on rows that a clause acts on, one for each row."""
        found = self.frame.where(F.col(CLAUSE).isNotNull())
        return found.dropDuplicates([AT]) if self.repeated else found


def decide(
    spark: SparkSession,
    snapshot: Snapshot,
    candidates: pa.Table,
    analysis: Analysis,
    source: Source,
    rows: DataFrame,
    parts: Parts,
    facts: Facts,
    alias: str,
) -> Decisions:
    """Join the candidates with the source and decide."""
    found = places(spark, snapshot, candidates)
    target = found.frame.alias(alias)
    build = F.broadcast(rows) if source.broadcasts(facts.rows) else rows
    matched = clause_number(analysis.matched)
    if analysis.by_source:
        unmatched = clause_number(analysis.by_source)
        if any(u.alone for u in analysis.by_source):
            # Decided while there is no source beside the table whose columns could be meant.
            target = target.select("*", unmatched.alias(_UNMATCHED)).alias(alias)
            unmatched = qualified(alias, _UNMATCHED)
        joined = target.join(build, analysis.condition, "left_outer")
        has_match = F.col(SOURCE_ROW).isNotNull()
        clause = F.when(has_match, matched).otherwise(unmatched)
    else:
        bounds = key_filter(parts.keys, facts, alias)
        joined = (target if bounds is None else target.where(bounds)).join(build, analysis.condition, "inner")
        clause = matched
    wanted = F.col(CLAUSE).isNotNull()
    if analysis.not_matched:
        wanted = wanted | F.col(SOURCE_ROW).isNotNull()
    columns = [qualified(alias, PLACE).alias(AT), clause.alias(CLAUSE)]
    reads = any(u.clause.action == "update" for u in analysis.matched)
    columns.append(source.every(rows) if reads else F.col(SOURCE_ROW))
    decisions = source.named(source.kept(joined.select(*columns).where(wanted)))
    return _summed(decisions, analysis, found.pushed())


def _summed(decisions: DataFrame, analysis: Analysis, pushed: Predicate) -> Decisions:
    """Count the decisions by file and by kind, and refuse several for one row."""
    kinds = {
        "matched_updated": _numbers(analysis.matched, "update"),
        "matched_deleted": _numbers(analysis.matched, "delete"),
        "unmatched_updated": _numbers(analysis.by_source, "update"),
        "unmatched_deleted": _numbers(analysis.by_source, "delete"),
    }
    by_row = decisions.groupBy(AT).agg(
        F.count(F.lit(1)).alias("pairs"), F.count(CLAUSE).alias("acts"), F.min(CLAUSE).alias("clause")
    )
    by_file = by_row.groupBy(file_number(F.col(AT)).alias("file")).agg(
        F.sum("pairs").alias("pairs"),
        F.max("acts").alias("most"),
        *[
            F.count(F.when(F.col("clause").isin(numbers), 1) if numbers else F.lit(None)).alias(name)
            for name, numbers in kinds.items()
        ],
    )
    answer = by_file.orderBy("file").toArrow().to_pydict()
    most = max(answer["most"], default=0)
    if most > 1 and not takes_any_number([u.clause for u in analysis.matched]):
        raise MultipleMatchesError(
            f"{most} rows of the source match one row of the table and would change it: which of them is to "
            "win cannot be said.",
            hint="Make the source's keys unique first, or narrow the conditions.",
        )
    acts = [sum(n) for n in zip(*(answer[k] for k in kinds), strict=True)]
    touched = [file for file, n in zip(answer["file"], acts, strict=True) if n]
    return Decisions(
        decisions,
        sum(answer["pairs"]),
        list(answer["file"]),
        touched,
        Counts(**{k: sum(answer[k]) for k in kinds}),
        pushed,
        repeated=most > 1,
    )


def _numbers(clauses: tuple[Understood, ...], action: str) -> list[int]:
    return [u.number for u in clauses if u.clause.action == action]


def unmatched(rows: DataFrame, decisions: Decisions | None, analysis: Analysis, source: Source) -> DataFrame:
    """The source rows that matched nothing, with the clause that inserts them."""
    if decisions is not None and decisions.pairs:
        ids = decisions.frame.where(F.col(SOURCE_ROW).isNotNull())
        ids = ids.select(F.col(SOURCE_ROW).alias(AT))
        ids = F.broadcast(ids) if source.broadcasts(decisions.pairs) else ids
        rows = source.named(rows.join(ids, F.col(SOURCE_ROW) == F.col(AT), "left_anti"))
    out = rows.select(source.every(rows), clause_number(analysis.not_matched).alias(CLAUSE))
    return source.named(out.where(F.col(CLAUSE).isNotNull()))
