"""What Spark makes of a condition, before anything runs: its text, and whether it may be used at all.

A condition is analysed against the very columns it will see, so a name that is missing or ambiguous, a
syntax error and an aggregate are told as Spark tells them. On a classic session the analysed expression
is then asked for its text and its nature; on Connect the text is the one that was given, or written
from the column where it can be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidegate.errors import PredicateError
from tidegate.schema.sql_trees import tree_of
from tidegate.spark import jvm
from tidegate.spark.remote_columns import sql_of
from tidegate.spark.scan.origins import parts_of

_INVALID = ("INVALID_WHERE_CONDITION", "UNSUPPORTED_EXPR_FOR_OPERATOR", "INVALID_JOIN_CONDITION")


@dataclass(frozen=True)
class Analysed:
    """A condition as Spark understood it; ``text`` has names with their qualifiers on classic sessions.

    ``is_sql`` says that the text means what it says: how Connect shows a column of which no SQL can be
    written is for people only, a string in it has no quotes.
    """

    text: str
    deterministic: bool = True
    has_subquery: bool = False
    is_sql: bool = True


def as_column(value: str | Column) -> Column:
    """SQL text or a column as a column."""
    return F.expr(value) if isinstance(value, str) else value


def legacy_cast(column: Column, kind: Any) -> Column:
    """A cast as Spark had it before ANSI mode, whatever mode the session is in: what does not fit is null, or
    cut off. On Connect no such cast can be asked for, and the session's own is taken."""
    java: Any = getattr(column, "_jc", None)
    if java is None:
        return column.cast(kind)
    spark = SparkSession.active()
    gateway = jvm.gateway_of(spark)
    sql, no_zone = gateway.org.apache.spark.sql, gateway.scala.Option.empty()
    expressions = sql.catalyst.expressions
    child = sql.classic.ExpressionUtils.expression(java)
    cast = expressions.Cast(child, jvm.java_type(spark, kind.json()), no_zone, expressions.EvalMode.LEGACY())
    made: Any = sql.classic.ExpressionUtils.column(cast)
    return Column(made)


def analysed(frame: DataFrame, condition: str | Column, what: str) -> Analysed:
    """The condition over the columns of ``frame``; refused if it holds an aggregate or a subquery.

    ``what`` names the place of the condition in messages: "DELETE", "the MERGE condition".
    """
    column = as_column(condition)
    try:
        filtered = frame.where(column)
        if jvm.is_connect(frame.sparkSession):
            analyse(filtered)
            text = condition if isinstance(condition, str) else sql_of(condition)
            found = _of_text(text) if text is not None else replace(_of_text(shown(condition)), is_sql=False)
            if _calls_changing(column):
                found = replace(found, deterministic=False)
        else:
            found = _of_plan(frame, filtered._jdf.queryExecution().analyzed(), shown(condition))
    except AnalysisException as e:
        if (e.getCondition() or "").split(".")[0] in _INVALID:
            raise PredicateError(
                f"{what} may not hold aggregates, window functions or generators: {shown(condition)}.",
                errorClass="DELTA_AGGREGATION_NOT_SUPPORTED",
            ) from e
        raise
    if found.has_subquery:
        raise PredicateError(
            f"{what} may not hold a subquery: {shown(condition)}.",
            hint="Join the tables first, or use MERGE.",
            errorClass="DELTA_UNSUPPORTED_SUBQUERY",
        )
    if not found.deterministic:
        raise PredicateError(
            f"{what} must give the same answer each time it is asked: {shown(condition)}.",
            errorClass="DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED",
        )
    return found


def analyse(frame: DataFrame) -> None:
    """Have a plan of Spark Connect analysed now, which else happens when it runs.

    A client takes the columns of a filtered frame to be those it knows already, so others are asked for.
    """
    _ = frame.select(F.lit(1)).schema


def _of_plan(frame: DataFrame, plan: Any, text: str) -> Analysed:
    """The condition of the topmost filter in an analysed plan."""
    while plan.getClass().getSimpleName() != "Filter":
        children = plan.children()
        if children.size() != 1:
            return Analysed(text)
        plan = children.apply(0)
    condition = plan.condition()
    expressions = jvm.gateway_of(frame.sparkSession).org.apache.spark.sql.catalyst.expressions
    return Analysed(
        jvm.sql_text(frame.sparkSession, condition),
        bool(condition.deterministic()),
        bool(expressions.SubqueryExpression.hasSubquery(condition)),
    )


# What Spark calls not deterministic.
CHANGING = frozenset(
    {
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
        *("monotonically_increasing_id", "spark_partition_id"),
        *("input_file_name", "input_file_block_start", "input_file_block_length"),
        *("reflect", "java_method", "try_reflect"),
    }
)


def _of_text(text: str) -> Analysed:
    """What the text alone says of a condition, as far as it can be read."""
    try:
        tree = tree_of(text)
    except (SqlglotError, RecursionError):
        return Analysed(text)
    functions = {
        f.name.lower() if isinstance(f, exp.Anonymous) else f.sql_name().lower()
        for f in tree.find_all(exp.Func)
    }
    return Analysed(text, not functions & CHANGING, tree.find(exp.Query) is not None)


def _calls_changing(column: Any) -> bool:
    """Whether a client's column calls a function of users that may answer otherwise each time."""
    return any(
        type(part).__name__ == "CommonInlineUserDefinedFunction" and not part._deterministic
        for part in parts_of(column._expr)
    )


def is_changing(selected: DataFrame, place: int, column: Column) -> bool:
    """Whether a value may be otherwise each time it is asked for; it stands at ``place`` in a selection."""
    if jvm.is_connect(selected.sparkSession):
        return not _of_text(shown(column)).deterministic or _calls_changing(column)
    return not selected._jdf.queryExecution().analyzed().expressions().apply(place).deterministic()


def shown(condition: str | Column) -> str:
    """A condition as a person reads it, for the history and for messages."""
    if isinstance(condition, str):
        return condition
    found = re.fullmatch(r"Column<'(.*)'>", str(condition), re.S)
    return found[1] if found else str(condition)


def qualified(alias: str, name: str) -> Column:
    """A column of the frame that goes by ``alias``."""
    return F.col(f"{quote(alias)}.{quote(name)}")


def quote(name: str) -> str:
    """A name as an identifier that means nothing but itself."""
    return "`" + name.replace("`", "``") + "`"


def one_value(column: Column) -> Column:
    """``column`` where no generator can stand: inside another expression Spark's analysis refuses it."""
    return F.coalesce(column)


def holds_generator(error: AnalysisException) -> bool:
    """Whether analysis was refused for a generator where only one value may stand."""
    return (error.getCondition() or "").startswith("UNSUPPORTED_GENERATOR")


PROBE = "__tidegate_probe"
GENERATOR = "a generator"
SUBQUERY = "a subquery"
CORRELATED = "a subquery that depends on the row"
PREDICATE = "IN or EXISTS with a subquery"
_MORE_THAN_A_ROW = {
    "Window": "a window function",
    "Generate": GENERATOR,
    "Aggregate": "an aggregate",
}


def strange_values(selected: DataFrame, texts: Sequence[str], *, scalars: bool = False) -> str | None:
    """What stands in a selection of values that looks beyond its row, None if nothing.

    The values were selected from a frame to which the column ``PROBE`` was added last. On Connect the
    texts of the values are asked. With ``scalars`` a subquery may stand in for one value, as long as it
    knows nothing of the row.
    """
    if jvm.is_connect(selected.sparkSession):
        return _strange_texts(selected.sparkSession, texts, scalars)
    plan = selected._jdf.queryExecution().analyzed()
    expressions = jvm.gateway_of(selected.sparkSession).org.apache.spark.sql.catalyst.expressions
    values = plan.expressions()
    for i in range(int(values.size())):
        if expressions.SubqueryExpression.hasSubquery(values.apply(i)):
            found = _strange_subquery(values.apply(i)) if scalars else SUBQUERY
            if found is not None:
                return found
    while f" AS {PROBE}#" not in plan.simpleString(2**31 - 1):
        kind = _MORE_THAN_A_ROW.get(plan.getClass().getSimpleName())
        if kind is not None or plan.children().size() != 1:
            return kind
        plan = plan.children().apply(0)
    return None


def _strange_subquery(expression: Any) -> str | None:
    """The first subquery in an analysed expression that is more than one value for all rows."""
    kind = str(expression.getClass().getSimpleName())
    if kind in ("InSubquery", "Exists"):
        return PREDICATE
    if kind == "ScalarSubquery" and not expression.outerAttrs().isEmpty():
        return CORRELATED
    children = expression.children()
    found = (_strange_subquery(children.apply(i)) for i in range(int(children.size())))
    return next((f for f in found if f is not None), None)


def _strange_texts(spark: SparkSession, texts: Sequence[str], scalars: bool) -> str | None:
    for text in texts:
        try:
            tree = tree_of(text)
        except (SqlglotError, RecursionError):
            continue
        queries = [q for q in tree.find_all(exp.Query) if q.parent_select is None]
        if queries and not scalars:
            return SUBQUERY
        for query in queries:
            if isinstance(query.parent, exp.In | exp.Exists):
                return PREDICATE
            if not _stands_alone(spark, query):
                return CORRELATED
        if any(w.parent_select is None for w in tree.find_all(exp.Window)):
            return "a window function"
    return None


def _stands_alone(spark: SparkSession, query: Any) -> bool:
    """Whether all names in a subquery are its own: it means something beside a row that has none of them."""
    text = query.unnest().sql(dialect="spark")
    try:
        analyse(spark.range(0).select(F.lit(1).alias(PROBE)).select(F.expr(f"({text})")))
    except AnalysisException as e:
        return not (e.getCondition() or "").startswith("UNRESOLVED_COLUMN")
    return True
