"""Arguments as the facade takes them; those of other types are refused by Python's own errors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column

from tidegate.errors import OptionError


def is_column(value: Any) -> bool:
    """A column of a classic session or of Connect."""
    return isinstance(value, Column)


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
    if given:
        warnings.warn(
            f"forPath uses none of the settings in hadoopConf ({', '.join(given)}): stores are opened with "
            "what the environment says, such as AWS_ACCESS_KEY_ID.",
            UserWarning,
            stacklevel=4,
        )


def need_text(value: object, what: str) -> None:
    """Refuse what is no text."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be str, found {type(value)}")


def names(given: tuple[Any, ...], what: str) -> list[str]:
    """Names that came one by one, or as one list."""
    flat = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    for name in flat:
        need_text(name, what)
    return list(flat)


def checked_properties(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Properties by their keys; their values are texts, numbers or booleans."""
    if not isinstance(given, Mapping):
        raise TypeError(f"Properties must be a dict, found {type(given)}")
    for key, value in given.items():
        need_text(key, "Key of property")
        if not isinstance(value, str | int | float):
            raise TypeError(
                f"Value of the property {key} must be text, a number or a bool, found {type(value)}"
            )
    return given


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


def check_clone(target: Any, shallow: Any, replace: Any, properties: Any, **moment: Any) -> None:
    """The arguments of a clone, of the types that ``delta.tables`` takes; perhaps a version or a time."""
    given = [("target", target, str, "a string"), ("isShallow", shallow, bool, "a boolean")]
    given.append(("replace", replace, bool, "a boolean"))
    if "version" in moment:
        given.append(("version", moment["version"], int, "an int"))
    if "timestamp" in moment:
        given.append(("timestamp", moment["timestamp"], str, "a string"))
    if properties is not None:
        given.append(("properties", properties, dict, "a dict"))
        for key, value in properties.items() if isinstance(properties, dict) else ():
            given.append((f"The property key {key}", key, str, "a string"))
            given.append((f"The value of the property {key}", value, str, "a string"))
    for name, value, kind, needs in given:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"{name} needs to be {needs} but got '{type(value)}'.")
