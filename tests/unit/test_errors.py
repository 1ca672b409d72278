"""The tree of errors: everything exported, drawn, with a code, and whole after a trip between processes."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import re

import pytest

from tidegate import errors


def every_error() -> list[type[errors.TidegateError]]:
    found = {errors.TidegateError}
    for module in pkgutil.iter_modules(errors.__path__, "tidegate.errors."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, errors.TidegateError):
                found.add(value)
    return sorted(found, key=lambda error: error.__name__)


def test_every_error_is_exported_under_its_own_name() -> None:
    assert [error.__name__ for error in every_error()] == errors.__all__
    assert [error for error in every_error() if getattr(errors, error.__name__) is not error] == []


def test_every_error_is_drawn_in_the_tree() -> None:
    drawn = set(re.findall(r"\w+", str(errors.__doc__)))
    assert [name for name in errors.__all__ if name not in drawn] == []


def test_no_two_errors_share_a_code() -> None:
    """Index tables answer with the codes of Delta tables: that one class takes its code as an argument."""
    codes = [error.code for error in every_error() if error is not errors.ProtocolVersionException]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("error", every_error(), ids=lambda error: error.__name__)
def test_an_error_is_whole_after_a_trip_between_processes(error: type[errors.TidegateError]) -> None:
    sent = error("what", table="t", version=3, file="f", hint="Do this.", errorClass="DELTA_X")
    came = pickle.loads(pickle.dumps(sent))
    assert type(came) is error
    assert str(came) == str(sent)
    assert (came.table, came.version, came.file, came.hint, came.errorClass) == (
        "t",
        3,
        "f",
        "Do this.",
        "DELTA_X",
    )
