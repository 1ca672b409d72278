"""Conditions and assignments as the facade takes them; others are refused by Python's own errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column

from tidegate.errors import OptionError


def is_column(value: Any) -> bool:
    """A column of a classic session or of Connect."""
    return isinstance(value, Column) or type(value).__name__ == "Column"


def checked(condition: str | Column | None) -> str | Column | None:
    """A condition that is text, a column or left out."""
    if condition is not None and not isinstance(condition, str) and not is_column(condition):
        raise TypeError(
            f"'condition' must be a Spark SQL Column or a string (SQL), not {type(condition).__name__}"
        )
    return condition


def check_hadoop(given: Mapping[str, str] | None) -> None:
    """Settings of file systems alone may come with a path."""
    for key in given or {}:
        if not str(key).startswith(("fs.", "dfs.")):
            raise OptionError(
                f"{key} is no setting of a file system: forPath takes keys that begin with fs. or dfs.",
                errorClass="DELTA_TABLE_FOR_PATH_UNSUPPORTED_HADOOP_CONF",
            )


def checked_values(given: Mapping[str, str | Column] | None, name: str) -> Mapping[str, str | Column]:
    """A dict from names to texts or columns."""
    if given is None:
        raise ValueError(f"{name} cannot be None")
    if not isinstance(given, dict):
        raise TypeError(f"{name} must be a dict with str keys and str or Column values")
    for key, value in given.items():
        if not isinstance(key, str):
            raise TypeError(
                f"Keys of dict in {name} must contain only strings (names of columns), "
                f"not {key!r} ({type(key).__name__})"
            )
        if not isinstance(value, str) and not is_column(value):
            raise TypeError(
                f"Values of dict in {name} must contain only Spark SQL Columns or strings (SQL), "
                f"not {value!r} ({type(value).__name__})"
            )
    return given


def check_clone(
    target: Any, shallow: Any, replace: Any, properties: Any, version: Any = None, timestamp: Any = None
) -> None:
    """The arguments of a clone, of the types that ``delta.tables`` takes."""
    given = [("target", target, str, "a string"), ("isShallow", shallow, bool, "a boolean")]
    given.append(("replace", replace, bool, "a boolean"))
    if version is not None:
        given.append(("version", version, int, "an int"))
    if timestamp is not None:
        given.append(("timestamp", timestamp, str, "a string"))
    if properties is not None:
        given.append(("properties", properties, dict, "a dict"))
        for key, value in properties.items() if isinstance(properties, dict) else ():
            given.append((f"The property key {key}", key, str, "a string"))
            given.append((f"The value of the property {key}", value, str, "a string"))
    for name, value, kind, needs in given:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"{name} needs to be {needs} but got '{type(value)}'.")
