"""Columns of Spark Connect, looked into: as SQL text, and with their frames exchanged for a name or a plan.

A Connect column is an unresolved expression that the client holds itself, and how it is shown is for people
only: a string has no quotes there. What is read here is the expression: references, literals, operators,
calls and casts. For anything else there is no text, and whoever asks does without.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable, Collection
from datetime import date, datetime, timedelta, timezone
from typing import Any, TypeVar

from pyspark.sql import types as T

from tidegate.spark.scan.origins import noted_expression
from tidegate.spark.times import in_function, in_text

PlanIds = dict[str, int | None]
_PLAN_IDS = ("_plan_id", "_root_plan_id", "_plan_id_with_rel")
F = TypeVar("F")
# Plans that leave the columns of their frame the name of a frame that they go by.
_KEEPING = frozenset(
    {
        *("Project", "WithColumns", "WithColumnsRenamed", "Drop", "Filter", "Sort", "Deduplicate", "Sample"),
        *("Limit", "Tail", "Offset", "Hint", "Repartition", "RepartitionByExpression", "WithWatermark"),
    }
)
_INFIX = frozenset({"<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "and", "or"})
_SUFFIXES: dict[type, str] = {T.LongType: "L", T.ShortType: "S", T.ByteType: "Y", T.IntegerType: ""}
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED = re.compile(r"(`[^`]+`|[A-Za-z_]\w*)(\.(`[^`]+`|[A-Za-z_]\w*))*", re.ASCII)
# Without quotes these are no names.
_WORDS = frozenset({"true", "false", "null", "not", "case", "current_date", "current_timestamp", "exists"})
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def sql_of(column: Any, plans: frozenset[int] = frozenset()) -> str | None:
    """The SQL of a Connect column; None where it has none. Columns of ``plans``' frames go by name."""
    try:
        return _sql(column._expr, plans)
    except (AttributeError, _NoText):
        # What PySpark calls its expressions may change; then they have no text here.
        return None


def plans_of(frame: Any) -> frozenset[int]:
    """The ids of the plans that a Connect frame was made from, its own among them."""
    out: set[int] = set()
    open_plans = [frame._plan]
    while open_plans:
        plan = open_plans.pop()
        out.add(plan._plan_id)
        open_plans += [
            p for p in (getattr(plan, a, None) for a in ("_child", "left", "right")) if p is not None
        ]
    return frozenset(out)


def alias_of(frame: Any) -> str | None:
    """The name that the columns of a Connect frame go by: its alias, be the frame filtered since."""
    plan = frame._plan
    while type(plan).__name__ in _KEEPING:
        plan = plan._child
    return getattr(plan, "_alias", None)


def ids_of(frame: Any) -> PlanIds:
    """By what a plan is found from the columns taken from its frame, as this PySpark keeps it."""
    held = vars(frame._plan)
    return {name: held[name] for name in _PLAN_IDS if name in held}


def with_ids(frame: F, ids: PlanIds) -> F:
    """The frame, with its plan found by these ids: in the place of the one that had them."""
    plan: Any = vars(frame)["_plan"]
    vars(plan).update(ids)
    return frame


def renamed(
    column: Any, plans: frozenset[int], alias: str | None, names: frozenset[str] | None = None
) -> Any:
    """The column with what it takes from frames of ``plans`` taken from ``alias``, if it is one of ``names``.

    A column that was taken from a frame (``df["id"]``) is found by that frame's plan, which is gone once the
    frame's rows are kept; its name is not.
    """

    def exchange(made: Any) -> Any:
        if type(made).__name__ == "ColumnReference" and made._plan_id in plans:
            known = made._unparsed_identifier
            if names is not None:
                name = known.strip("`").replace("``", "`")
                if name.lower() not in names:
                    return made
                known = "`" + name.replace("`", "``") + "`"
            qualifier = "" if alias is None else "`" + alias.replace("`", "``") + "`."
            made._unparsed_identifier, made._plan_id = qualifier + known, None
        return made

    return type(column)(_each(column._expr, exchange))


def timed(column: Any, micros: int, taken: Collection[str]) -> Any:
    """The column with ``micros`` for the current time where it asks for it; ``taken`` are other columns."""

    def at(made: Any) -> Any:
        kind = type(made).__name__
        if kind == "SQLExpression":
            made._expr = in_text(made._expr, micros, taken)
        elif kind == "UnresolvedFunction":
            text = in_function(made._name, len(made._args), micros)
            if text is not None:
                return _as_text(made, text)
        return made

    return type(column)(_each(column._expr, at))


def with_tables(column: Any, read: Callable[[str], tuple[str, Collection[str]]]) -> Any:
    """The column with each text in it as ``read`` gives it, known to read the tables that come with it."""

    def replace(made: Any) -> Any:
        if type(made).__name__ == "SQLExpression":
            made._expr, tables = read(made._expr)
            return noted_expression(made, tables)
        return made

    return type(column)(_each(column._expr, replace))


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """An expression with ``change`` made to a copy of all that it is made of, the innermost first."""
    if isinstance(value, list | tuple):
        return type(value)(_each(v, change) for v in value)
    if not type(value).__module__.endswith("connect.expressions"):
        return value
    made = copy.copy(value)
    for key, inner in vars(value).items():
        setattr(made, key, _each(inner, change))
    return change(made)


def _as_text(beside: Any, text: str) -> Any:
    """SQL text as an expression of the same client as the one beside it."""
    return vars(sys.modules[type(beside).__module__])["SQLExpression"](text)


class _NoText(Exception):
    """An expression that cannot be written down."""


def _sql(expression: Any, plans: frozenset[int]) -> str:
    kind = type(expression).__name__
    if kind == "ColumnReference" and (expression._plan_id is None or expression._plan_id in plans):
        return _name(expression)
    if kind == "SQLExpression":
        return f"({expression._expr})"
    if kind == "LiteralExpression":
        return _literal(expression._value, expression._dataType)
    if kind == "CastExpression" and expression._eval_mode is None:
        wanted = expression._data_type
        text = wanted if isinstance(wanted, str) else wanted.simpleString()
        return f"CAST({_sql(expression._expr, plans)} AS {text})"
    if kind == "UnresolvedFunction" and not expression._is_distinct:
        return _call(expression._name, [_sql(a, plans) for a in expression._args])
    raise _NoText(kind)


def _name(reference: Any) -> str:
    """A column's name; Spark takes any word between its dots, SQL needs quotes around most."""
    said = str(reference._unparsed_identifier)
    if reference._is_metadata_column or ("`" in said and not _QUOTED.fullmatch(said)):
        raise _NoText(said)
    if "`" in said:
        return said
    parts = said.split(".")
    return ".".join(p if _PLAIN.fullmatch(p) and p.lower() not in _WORDS else f"`{p}`" for p in parts)


def _call(name: str, given: list[str]) -> str:
    if name == "==":
        return f"({given[0]} = {given[1]})"
    if name in _INFIX and len(given) == 2:
        return f"({given[0]} {name.upper()} {given[1]})"
    if name == "not":
        return f"(NOT {given[0]})"
    if name in ("isNull", "isNotNull"):
        return f"({given[0]} IS {'NOT ' if name == 'isNotNull' else ''}NULL)"
    if name == "in" and len(given) > 1:
        return f"({given[0]} IN ({', '.join(given[1:])}))"
    if re.fullmatch(r"\w+", name) and name != "in":
        return f"{name}({', '.join(given)})"
    raise _NoText(name)


def _literal(value: Any, kind: T.DataType) -> str:
    if value is None:
        return "NULL"
    if isinstance(kind, T.BooleanType):
        return "TRUE" if value else "FALSE"
    if isinstance(kind, T.StringType):
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if type(kind) in _SUFFIXES:
        return f"{value}{_SUFFIXES[type(kind)]}"
    if isinstance(kind, T.DoubleType) and value == value and abs(value) != float("inf"):
        return f"{value!r}D"
    if isinstance(kind, T.DateType):
        return f"DATE'{date(1970, 1, 1) + timedelta(days=value)}'"
    if isinstance(kind, T.TimestampType):
        return f"TIMESTAMP'{(_EPOCH + timedelta(microseconds=value)).isoformat(sep=' ')}'"
    raise _NoText(str(kind))
