"""Errors of ours as Spark's own kinds, at the front doors.

A script written for delta-spark catches ``AnalysisException`` and ``IllegalArgumentException``, which
``tidegate.errors`` cannot derive from: the log works without PySpark. So what leaves a front door is
raised as a class that is both, made here once for each error: of the kinds that belong to our class, and of
the one that delta-spark raises under the same error class. ``door`` wraps a function, ``doors`` all public
methods of a class; the error keeps its fields, its cause and its traceback.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)

from tidegate import errors
from tidegate.errors import TidegateError

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

# The first row that fits decides. What stands here and below in no row is no mistake of the query: it stays
# as it is.
_KINDS: tuple[tuple[type[TidegateError], tuple[type, ...]], ...] = (
    (errors.SqlSyntaxError, (ParseException,)),
    (errors.PropertyError, (AnalysisException, IllegalArgumentException)),
    (errors.OptionError, (AnalysisException, IllegalArgumentException)),
    (errors.MultipleMatchesError, (UnsupportedOperationException,)),
    (errors.AppendOnlyError, (UnsupportedOperationException,)),
    (errors.TableError, (AnalysisException,)),
    (errors.PredicateError, (AnalysisException,)),
    (errors.NotATableError, (AnalysisException,)),
    (errors.VersionNotFoundError, (AnalysisException,)),
    (errors.TimestampOutOfRangeError, (AnalysisException,)),
    (errors.ChangeDataMissingError, (AnalysisException,)),
    (errors.UnknownFeatureError, (AnalysisException,)),
    (errors.ManualEnablementError, (AnalysisException,)),
    (errors.DeltaConcurrentModificationException, (PySparkException,)),
)

# What delta-spark raises under an error class, where our own class does not say it.
_BY_ERROR_CLASS: dict[str, type] = {
    "ARITHMETIC_OVERFLOW": ArithmeticException,
    "DELTA_ADDING_DELETION_VECTORS_DISALLOWED": UnsupportedOperationException,
    "DELTA_CANNOT_MODIFY_TABLE_PROPERTY": UnsupportedOperationException,
    "DELTA_CDC_START_VERSION_AFTER_LATEST": IllegalArgumentException,
    "DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING": UnsupportedOperationException,
    "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE": UnsupportedOperationException,
    "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED": AnalysisException,
    "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE": UnsupportedOperationException,
    "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION": AnalysisException,
    "DELTA_NEW_NOT_NULL_VIOLATION": AnalysisException,
    "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED": UnsupportedOperationException,
    "DELTA_REPLACE_WHERE_MISMATCH": AnalysisException,
    "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE": UnsupportedOperationException,
    "DELTA_UNSUPPORTED_DEEP_CLONE": IllegalArgumentException,
    "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS": UnsupportedOperationException,
    "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING": UnsupportedOperationException,
    "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST": IllegalArgumentException,
}


def as_spark(error: TidegateError) -> TidegateError:
    """``error`` as an exception of Spark too, where a user of Spark would expect one."""
    cls = type(error)
    if getattr(cls, "_dressed", None) is not None or not _kinds(cls, error.errorClass):
        return error
    return _rebuild(cls, error.message, error.__dict__.copy(), error)


def _kinds(cls: type[TidegateError], error_class: str | None) -> tuple[type, ...]:
    """The exceptions of Spark that an error of ours is too."""
    kinds = next((k for of, k in _KINDS if issubclass(cls, of)), ())
    more = _BY_ERROR_CLASS.get(error_class or "")
    return kinds if more is None or more in kinds else (*kinds, more)


def door(function: F) -> F:
    """``function``, whose errors leave it as Spark's own kinds too."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TidegateError as e:
            dressed = as_spark(e)
            if dressed is e:
                raise
            raise dressed.with_traceback(e.__traceback__) from e.__cause__

    return cast(F, wrapper)


def doors(cls: C) -> C:
    """A class all of whose public methods are doors."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod):
            setattr(cls, name, classmethod(door(member.__func__)))
        elif isinstance(member, staticmethod):
            setattr(cls, name, staticmethod(door(member.__func__)))
        elif callable(member):
            setattr(cls, name, door(member))
    return cls


_classes: dict[tuple[type[TidegateError], tuple[type, ...]], type[TidegateError]] = {}


def _dressed(cls: type[TidegateError], kinds: tuple[type, ...]) -> type[TidegateError]:
    if (cls, kinds) not in _classes:
        _classes[cls, kinds] = _made(cls, kinds)
    return _classes[cls, kinds]


def _made(cls: type[TidegateError], kinds: tuple[type, ...]) -> type[TidegateError]:
    def reduce(self: TidegateError) -> tuple[Any, ...]:
        return (_rebuild, (cls, self.message, self.__dict__.copy()))

    def nothing(self: TidegateError) -> None:
        """PySpark looks an error class up among its own, and Delta's are not there."""

    body = {
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
        "__reduce__": reduce,
        "_dressed": cls,
        "getBreakingChangeInfo": nothing,
    }
    return type(cls.__name__, (cls, *kinds), body)


def _rebuild(
    cls: type[TidegateError], message: str, state: dict[str, Any], origin: BaseException | None = None
) -> TidegateError:
    error_class = state.get("errorClass", cls.errorClass)
    made = _dressed(cls, _kinds(cls, error_class))
    error = made.__new__(made, message)
    # PySpark's own fields first, for getCondition() and getMessage(); then ours, which say more.
    PySparkException.__init__(cast(Any, error), message=message, errorClass=error_class)
    error.__dict__.update(state)
    if origin is not None:
        error.__suppress_context__ = True
    return error
