"""Errors of a statement, each with its place in the text: line and column.

What a command of ours refuses is told at the table it speaks of, unless something nearer is known; what Spark
refuses of an expression of ours is told at the name it did not find. Spark's own errors become ours here,
so that one kind leaves, with Spark's error class.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException, PySparkException
from sqlglot.tokenizer_core import TokenType

from tidegate.commands.marks import unmarked
from tidegate.commands.names import split_name
from tidegate.errors import OptionError, PredicateError, SqlSyntaxError, TidegateError
from tidegate.sql.dialect import at_offset, tokens_of
from tidegate.sql.nodes import TableRef
from tidegate.sql.references import Changes, Found, references


def located(error: Exception, text: str, table: TableRef) -> Exception:
    """``error`` as ours, with its place; what is no mistake in the statement comes back as it is."""
    if isinstance(error, TidegateError):
        if error.line is None:
            at_offset(error, text, _near(error, text, table))
        return error
    if isinstance(error, AnalysisException | ParseException):
        return at_offset(_ours(error), text, _unresolved(error, text, table))
    return error


def located_in_query(error: TidegateError, text: str) -> TidegateError:
    """``error`` with the place in a query at which its table stands, if that can be told."""
    if error.line is None:
        place = _place(error, references(text))
        if place is not None:
            at_offset(error, text, place.start)
    return error


def _place(error: TidegateError, places: list[Found]) -> Found | None:
    """The place of a path, a version or a change feed that an error is about."""
    if len(places) == 1:
        return places[0]
    table = (error.table or "").rstrip("/")
    near = [p for p in places if table and table.endswith(_last(p.what).rstrip("/"))]
    exact = [p for p in near if getattr(p.what, "version", None) == str(error.version)]
    return next(iter(exact or near), None)


def _last(what: TableRef | Changes) -> str:
    """The path of a place, or the last part of its name."""
    if isinstance(what, Changes):
        return what.arguments[0].strip("'\"").rpartition(".")[2]
    return what.parts[-1] if what.path is None else unmarked(what.path)[0]


def _ours(error: PySparkException) -> PredicateError:
    said = str(error).split("\n\nJVM stacktrace")[0].split("\n== SQL")[0]
    # What stands behind is Spark's plan of the pieces, which the user never wrote.
    message = said.split("; line ")[0].split(" SQLSTATE:")[0].strip()
    kind = SqlSyntaxError if isinstance(error, ParseException) else PredicateError
    found = error.getCondition()
    if found and message.startswith(f"[{found}]"):
        message = message.removeprefix(f"[{found}]").strip()
    return kind(message, errorClass=found)


def _unresolved(error: PySparkException, text: str, table: TableRef) -> int:
    """Where the name stands that Spark did not find."""
    told = error.getMessageParameters() or {}
    name = told.get("objectName") or told.get("fieldName") or told.get("routineName") or ""
    try:
        parts = tuple(p.lower() for p in split_name(name))
    except OptionError:
        return table.start
    return _find(text, parts, table)


def _near(error: TidegateError, text: str, table: TableRef) -> int:
    if error.errorClass == "DEFAULT_PLACEMENT_INVALID":
        return _find(text, ("default",), table)
    # A name that Spark did not find and that Delta has a class of its own for.
    cause = error.__cause__
    return _unresolved(cause, text, table) if isinstance(cause, AnalysisException) else table.start


def _find(text: str, parts: tuple[str, ...], table: TableRef) -> int:
    """The first place of a name behind the table; the table's own place if there is none."""
    tokens = [t for t in tokens_of(text) if t.start > table.end and t.token_type is not TokenType.STRING]
    width = 2 * len(parts) - 1
    for at, token in enumerate(tokens):
        if tuple(t.text.lower() for t in tokens[at : at + width : 2]) == parts:
            return token.start
    # A name that was completed by us, or by Spark, stands there by its last part alone.
    return _find(text, parts[-1:], table) if len(parts) > 1 else table.start
