"""Errors of ours as Spark's own kinds, at the front doors.

A script written for delta-spark catches ``AnalysisException`` and ``IllegalArgumentException``, which
``tidegate.errors`` cannot derive from: the log works without PySpark. So what leaves a front door is
raised as a class that is both, made here once for each error. ``door`` wraps a function, ``doors`` all
public methods of a class; the error keeps its fields, its cause and its traceback.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    UnsupportedOperationException,
)

from tidegate import errors
from tidegate.errors import TidegateError

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

# The first row that fits decides. What is not listed is no mistake of the query: it stays as it is.
_KINDS: tuple[tuple[type[TidegateError], tuple[type, ...]], ...] = (
    (errors.SqlSyntaxError, (ParseException,)),
    (errors.PropertyError, (AnalysisException, IllegalArgumentException)),
    (errors.OptionError, (AnalysisException, IllegalArgumentException)),
    (errors.RetentionTooShortError, (IllegalArgumentException,)),
    (errors.MultipleMatchesError, (UnsupportedOperationException,)),
    (errors.TableError, (AnalysisException,)),
    (errors.PredicateError, (AnalysisException,)),
    (errors.NotATableError, (AnalysisException,)),
    (errors.VersionNotFoundError, (AnalysisException,)),
    (errors.TimestampOutOfRangeError, (AnalysisException,)),
    (errors.ChangeDataMissingError, (AnalysisException,)),
    (errors.UnknownFeatureError, (AnalysisException,)),
    (errors.ManualEnablementError, (AnalysisException,)),
)


def as_spark(error: TidegateError) -> TidegateError:
    """``error`` as an exception of Spark too, where a user of Spark would expect one."""
    cls = type(error)
    if getattr(cls, "_dressed", None) is not None:
        return error
    kinds = next((k for of, k in _KINDS if isinstance(error, of)), None)
    if kinds is None:
        return error
    return _rebuild(cls, error.message, error.__dict__.copy(), error)


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


_classes: dict[type[TidegateError], type[TidegateError]] = {}


def _dressed(cls: type[TidegateError]) -> type[TidegateError]:
    if cls not in _classes:
        _classes[cls] = _made(cls)
    return _classes[cls]


def _made(cls: type[TidegateError]) -> type[TidegateError]:
    kinds = next(k for of, k in _KINDS if issubclass(cls, of))

    def reduce(self: TidegateError) -> tuple[Any, ...]:
        return (_rebuild, (cls, self.message, self.__dict__.copy()))

    body = {"__module__": cls.__module__, "__doc__": cls.__doc__, "_dressed": cls, "__reduce__": reduce}
    return type(cls.__name__, (cls, *kinds), body)


def _rebuild(
    cls: type[TidegateError], message: str, state: dict[str, Any], origin: BaseException | None = None
) -> TidegateError:
    made = _dressed(cls)
    error = made.__new__(made, message)
    # PySpark's own fields first, for getCondition() and getMessage(); then ours, which say more.
    AnalysisException.__init__(
        cast(Any, error), message=message, errorClass=state.get("errorClass", cls.errorClass)
    )
    error.__dict__.update(state)
    if origin is not None:
        error.__suppress_context__ = True
    return error
