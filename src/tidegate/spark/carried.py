"""What travels to tasks by value, so that executors and workers of a Connect server need no Tidegate."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from pyspark import cloudpickle

# PySpark ships its cloudpickle without types; here stands the one that is used.
_register: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value


def carried(*modules: ModuleType) -> None:
    """Functions and classes of these modules go along with what refers to them."""
    for module in modules:
        _register(module)
