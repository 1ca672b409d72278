"""Constraints as Spark expressions, evaluated in the write itself.

NOT NULL, column invariants, CHECK constraints and generated columns become one filter that is true
for every good row and raises at the first bad one, naming the constraint and the offending values.
The job fails, no file becomes visible, and the error arrives at the user's own call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import ParseException
from pyspark.errors.exceptions.base import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.errors import InvariantViolationException, SchemaInvalidError, TidegateError
from tidegate.metadata import Metadata
from tidegate.schema.columns import generated_columns, invariants, not_null
from tidegate.schema.constraints import check_constraints
from tidegate.schema.paths import Path, join_path
from tidegate.schema.types import BINARY, STRING
from tidegate.spark import failures
from tidegate.spark.expressions import analyse
from tidegate.spark.jvm import is_connect

REPLACE_WHERE = "replaceWhere"
LENGTH = "length of "
_PARTITION = "partition value of "

_MARK = "TIDEGATE-CONSTRAINT"
# A sign that no name, rule or JSON has in it.
_NEXT = "\u241f"
_FOUND = re.compile(
    # Raised by a row, not shown as part of a plan.
    rf"USER_RAISED_EXCEPTION\]\s*{_MARK}{_NEXT}(?P<name>.*?){_NEXT}(?P<rule>.*?){_NEXT}(?P<values>.*?){_NEXT}{_MARK}",
    re.S,
)
_LONGEST = 2000


@dataclass(frozen=True)
class Constraint:
    """One condition that every row must meet: SQL that must be true, in which the rows may go by an alias."""

    name: str
    sql: str
    alias: str | None = None


def constraints_of(metadata: Metadata, provided: frozenset[str]) -> list[Constraint]:
    """All constraints of a table; generated columns are checked where the data provides them."""
    out = []
    for path in not_null(metadata.schema):
        # Inside a struct that is null every column is, so that one may not be null either.
        out.append(Constraint(f"NOT NULL {join_path(path)}", f"{_sql(path)} IS NOT NULL"))
    for invariant in invariants(metadata.schema):
        out.append(Constraint(f"invariant of {join_path(invariant.path)}", invariant.expression))
    checks = check_constraints(metadata.configuration)
    out += [Constraint(name, sql) for name, sql in checks.items()]
    out += [
        Constraint(f"generated column {g.name}", f"{_sql((g.name,))} <=> ({g.expression})")
        for g in generated_columns(metadata.schema)
        if g.name.lower() in provided
    ]
    return out + _partition_texts(metadata)


def _partition_texts(metadata: Metadata) -> list[Constraint]:
    """What values of partition columns must be that the log can keep: text, without the sign that ends it.

    Spark makes other signs of bytes that are no UTF-8, and no path takes U+0000.
    """
    out = []
    for field in metadata.partition_schema.fields:
        if field.type in (STRING, BINARY):
            text = f"cast({_sql((field.name,))} AS string)"
            rule = f"coalesce(is_valid_utf8({text}) AND NOT contains({text}, char(0)), true)"
            out.append(Constraint(_PARTITION + field.name, rule))
    return out


def _sql(path: Path) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)


def enforced(
    frame: DataFrame,
    metadata: Metadata,
    provided: frozenset[str],
    spared: Column | None = None,
    more: Sequence[Constraint] = (),
) -> DataFrame:
    """The DataFrame, failing at run time on the first row that breaks a constraint.

    Rows where ``spared`` is true are not asked: what a change file tells of old rows.
    """
    found = [*constraints_of(metadata, provided), *more]
    for constraint in found:
        try:
            condition = _condition(frame, constraint)
            if constraint.alias is not None:
                frame = frame.alias(constraint.alias)
            frame = frame.where(condition if spared is None else F.when(spared, True).otherwise(condition))
            if is_connect(frame.sparkSession):
                analyse(frame)
        except (ParseException, AnalysisException) as e:
            raise SchemaInvalidError(
                f"The constraint {constraint.name} ({constraint.sql}) cannot be evaluated: "
                f"{str(e).splitlines()[0]}"
            ) from e
    return frame


def _condition(frame: DataFrame, constraint: Constraint) -> Column:
    if constraint.name.startswith(_PARTITION):
        shown = F.hex(F.col(_sql((constraint.name[len(_PARTITION) :],))))
    else:
        named = F.struct(*[F.col(_sql((c,))) for c in _named(frame, constraint)])
        # Nulls too: they are what most rows are refused for.
        shown = F.to_json(named, {"ignoreNullFields": "false"})
    good = F.coalesce(F.expr(constraint.sql), F.lit(False))
    return F.when(good, F.lit(True)).otherwise(violation(constraint, shown).cast("boolean"))


def violation(constraint: Constraint, shown: Column) -> Column:
    """An expression that fails the job, with what is needed to say why; ``shown`` are the values."""
    begin = F.lit(f"{_MARK}{_NEXT}{constraint.name}{_NEXT}{constraint.sql}{_NEXT}")
    values = F.substring(F.coalesce(shown, F.lit("")), 1, _LONGEST)
    return F.raise_error(F.concat(begin, values, F.lit(f"{_NEXT}{_MARK}")))


def _named(frame: DataFrame, constraint: Constraint) -> list[str]:
    """The columns that a constraint speaks of, as far as a look at its text tells; all if none."""
    words = {w.lower() for w in re.findall(r"[\w$]+", constraint.sql)}
    named = [c for c in frame.columns if c.lower() in words]
    return named or frame.columns[:8]


def translated(text: str) -> TidegateError | None:
    """The violation in the text of a failed job, None if it is about something else."""
    found = _FOUND.search(text)
    if found is None:
        return None
    if found["name"] == REPLACE_WHERE:
        return InvariantViolationException(
            f"A new row does not meet replaceWhere ({found['rule']}); its values are {found['values']}.",
            hint="Nothing was written. Write only rows that meet it, or widen the condition.",
            errorClass="DELTA_REPLACE_WHERE_MISMATCH",
        )
    if found["name"].startswith(LENGTH):
        return InvariantViolationException(
            f"A value is too long for the column {found['name'][len(LENGTH) :]}, a {found['rule']}: "
            f"{found['values']}.",
            hint="Nothing was written. Shorten the value, or take a wider type.",
            errorClass="DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
        )
    if found["name"].startswith(_PARTITION):
        return InvariantViolationException(
            f"A value of the partition column {found['name'][len(_PARTITION) :]} cannot be written, its "
            f"bytes are {found['values']} (hex): the log and the names of directories keep partition "
            "values as text, in UTF-8 and without U+0000.",
            hint="Nothing was written. Partition by another column, or by this one's encoding, such as hex.",
        )
    is_null = found["name"].startswith("NOT NULL ")
    return InvariantViolationException(
        f"A row breaks the constraint {found['name']} ({found['rule']}); its values are {found['values']}.",
        hint="Nothing was written. Correct the rows, or drop the constraint.",
        errorClass="DELTA_NOT_NULL_CONSTRAINT_VIOLATED" if is_null else None,
    )


failures.translate_with(translated)
