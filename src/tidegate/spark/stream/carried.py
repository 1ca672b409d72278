"""Errors of ours on their way from a Python process of a Spark Connect server to its client.

There the source and the batches of a stream run in processes of their own, and all that reaches the
client is text. So an error is written into its own text, in full, and the client makes it again.
"""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from tidegate import errors
from tidegate.errors import TidegateError
from tidegate.spark import failures

F = TypeVar("F", bound=Callable[..., Any])
_MARK = re.compile(r"TIDEGATE-CARRIED-([A-Za-z0-9_-]+=*)-END")
_FIELDS = ("table", "version", "file", "hint", "errorClass")


class CarriedError(Exception):
    """Raised in place of an error of ours that is to reach a client."""


def carried(error: TidegateError) -> CarriedError:
    """A stand-in for ``error``, with all of it in its text."""
    kind = getattr(type(error), "_dressed", None) or type(error)
    told = {"kind": kind.__name__, "message": error.message, **{f: getattr(error, f) for f in _FIELDS}}
    packed = base64.urlsafe_b64encode(msgspec.json.encode(told)).decode()
    return CarriedError(f"{error} TIDEGATE-CARRIED-{packed}-END")


def made_again(text: str) -> TidegateError | None:
    """The error in the text of a failure; None if there is none."""
    found = _MARK.search(text)
    if found is None:
        return None
    told = msgspec.json.decode(base64.urlsafe_b64decode(found[1]), type=dict[str, Any])
    kind = getattr(errors, told.pop("kind"), TidegateError)
    return cast(TidegateError, kind(told.pop("message"), **told))


def carrying(function: F) -> F:
    """``function``, whose errors of ours leave it as text."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TidegateError as e:
            raise carried(e) from None

    return cast(F, wrapper)


failures.translate_with(made_again)
