"""What was asked for in a way that cannot be read: options, predicates, statements, searches."""

from __future__ import annotations

from tidegate.errors.base import TidegateError


class OptionError(TidegateError):
    """An option that is unknown, contradicts another one or has an illegal value."""

    code = "OPTION_INVALID"
    errorClass = "DELTA_ILLEGAL_OPTION"


class RetentionTooShortError(OptionError):
    """A retention below the guard, or a negative one: files of readers at work could be deleted."""

    code = "RETENTION_TOO_SHORT"
    errorClass = "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"


class PredicateError(TidegateError):
    """A predicate that does not parse, or names a column the table lacks."""

    code = "PREDICATE_INVALID"


class SqlSyntaxError(PredicateError):
    """A statement or an expression that does not parse."""

    code = "SQL_SYNTAX"
    errorClass = "PARSE_SYNTAX_ERROR"


class QueryError(TidegateError):
    """A search that cannot be read, or asks of a field what its kind cannot answer."""

    code = "QUERY_INVALID"
