"""Conditions of DELETE, UPDATE and MERGE: from what a user wrote to what the log can use of it.

Spark decides what a condition means and refuses what may not be in one; the predicate here is only what
is surely known of it, for leaving files out and for the transaction's read set. Where a part is not
understood, or depends on the session's time zone, the predicate says less, never something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import PredicateError, SqlSyntaxError
from tidegate.files import predicate as predicates
from tidegate.files.predicate import Constant, Predicate, Unknown
from tidegate.schema.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, StructType
from tidegate.spark.expressions import PROBE, analysed, as_column
from tidegate.spark.present import Moment
from tidegate.spark.scan.projection import spark_type

UTC = frozenset({"UTC", "ETC/UTC", "GMT", "Z", "+00:00"})


@dataclass(frozen=True)
class Condition:
    """A condition on the rows of one table: for Spark, for people and for the log.

    Whatever asks for it more than once does so at its ``moment``.
    """

    column: Column
    text: str
    predicate: Predicate
    moment: Moment

    def is_decided_by(self, partition_columns: Iterable[str]) -> bool:
        """Whether partition values alone decide it."""
        names = {c.casefold() for c in partition_columns}
        return self.predicate.is_known and all(
            len(c) == 1 and c[0].casefold() in names for c in self.predicate.columns
        )


def shape(spark: SparkSession, schema: StructType, alias: str | None = None) -> DataFrame:
    """No rows with the columns of a table: what conditions are tried on before anything is read."""
    columns = [F.lit(None).cast(spark_type(f.type)).alias(f.name) for f in schema.fields]
    # Spark finds a name that a selection lacks in what was selected from: nothing that a user would write.
    frame = spark.createDataFrame([], f"{PROBE} int").select(*columns)
    return frame if alias is None else frame.alias(alias)


def condition_of(
    frame: DataFrame,
    given: str | Column,
    schema: StructType,
    what: str,
    alias: str | None = None,
    moment: Moment | None = None,
) -> Condition:
    """A condition over the columns of ``frame``, which are those of a table with ``schema``."""
    spark = frame.sparkSession
    moment = moment or Moment.now()
    found = analysed(frame, given, what)
    # What the user wrote has fewer casts in it than what Spark made of it.
    text = given if isinstance(given, str) else found.text
    predicate = known(text, schema, spark, alias) if found.is_sql else Unknown(text)
    return Condition(as_column(moment.bound(spark, given, schema.names)), text, predicate, moment)


def not_recognized(what: str, text: str) -> SqlSyntaxError:
    """The error for a condition that does not parse where Delta has a name of its own for it."""
    return SqlSyntaxError(
        f"{what} is {text!r}, which is not recognized as a condition.",
        hint="Write it as it would stand behind WHERE.",
        errorClass="DELTA_FAILED_RECOGNIZE_PREDICATE",
    )


def known(text: str, schema: StructType, spark: SparkSession, alias: str | None = None) -> Predicate:
    """What is surely known of a condition that Spark has accepted, in the table's names."""
    if quotes_names(text, spark):
        return Unknown(text)
    try:
        found = predicates.parse(text)
    except PredicateError:
        return Unknown(text)
    zone = str(spark.conf.get("spark.sql.session.timeZone") or "")
    in_utc = zone.upper() in UTC

    def resolve(node: Predicate) -> Predicate:
        column = getattr(node, "column", None)
        path = column.path if isinstance(column, predicates.Column) else ()
        if alias is not None and len(path) > 1 and path[0].casefold() == alias.casefold():
            path = path[1:]
        while path:
            try:
                bare = _at(node, path).resolve(schema)
            except PredicateError:
                # A qualifier of the table stands before the column's own name.
                path = path[1:]
                continue
            return bare if in_utc or not _needs_zone(bare, schema) else Unknown(str(node))
        return node if isinstance(node, Constant) else Unknown(str(node))

    return found.rewrite(resolve)


def quotes_names(text: str, spark: SparkSession) -> bool:
    """Whether a text may hold names between double quotes, where strings stand otherwise."""
    said = spark.conf.get("spark.sql.ansi.doubleQuotedIdentifiers", "false") if '"' in text else None
    return (said or "").lower() == "true"


def _at(node: Predicate, path: tuple[str, ...]) -> Predicate:
    """A comparison with another column in its place; only nodes that have one come here."""
    # The base class has no column; those of its kinds that do carry ``_at``.
    changed: Predicate = node._at(predicates.Column(path))  # type: ignore[attr-defined]
    return changed


def _needs_zone(node: Predicate, schema: StructType) -> bool:
    """Whether an answer depends on the session's time zone.

    Instants written as text or as dates do, and whatever is no instant beside one.
    """
    literals = [getattr(node, "literal", None), *getattr(node, "values", ())]
    kinds = {v.type for v in literals if isinstance(v, predicates.Literal)}
    for path in node.columns:
        field = schema.find(path)
        kind = None if field is None else field.type
        if kind == TIMESTAMP:
            return True
        if kind == DATE and any(k.startswith("timestamp") for k in kinds):
            return True
        if kind == TIMESTAMP_NTZ and "timestamp" in kinds:
            return True
    return False
