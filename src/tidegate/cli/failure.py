"""How a verb ends when it could not do its work: a sentence on stderr, or an object in JSON; exit 2."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from tidegate.cli import screen
from tidegate.errors import TidegateError

P = ParamSpec("P")

FOUND = 1
COULD_NOT = 2
INTERRUPTED = 130


def verb(function: Callable[P, int]) -> Callable[P, None]:
    """The function as a command: what it returns is the exit code, what it raises is told."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.get("json"))
        try:
            code = function(*args, **kwargs)
        except TidegateError as e:
            tell(e, as_json=as_json)
            code = COULD_NOT
        except BrokenPipeError:
            # Whoever reads our output has had enough of it, as `| head` has: nothing more can be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = COULD_NOT
        except KeyboardInterrupt:
            print("tidegate: interrupted", file=sys.stderr)
            code = INTERRUPTED
        except (typer.Exit, typer.Abort):
            raise
        except Exception as e:
            if isinstance(e, _usage_errors()):
                raise
            tell_unexpected(e, as_json=as_json)
            code = COULD_NOT
        raise typer.Exit(code)

    return run


def tell(error: TidegateError, *, as_json: bool) -> None:
    """An error that has a name."""
    if as_json:
        screen.document(
            {
                "error": {
                    "code": error.code,
                    "message": error.message,
                    "table": error.table,
                    "version": error.version,
                    "file": error.file,
                    "hint": error.hint,
                    "errorClass": error.errorClass,
                }
            }
        )
    else:
        print(f"tidegate: {error}", file=sys.stderr)


def tell_unexpected(error: Exception, *, as_json: bool) -> None:
    """An error nobody thought of: our mistake, told without a traceback unless one is asked for."""
    message = f"{type(error).__name__}: {error}"
    if logging.getLogger("tidegate").isEnabledFor(logging.DEBUG):
        traceback.print_exception(error, file=sys.stderr)
    if as_json:
        unknown = dict.fromkeys(("table", "version", "errorClass"))
        screen.document({"error": {"code": "INTERNAL", "message": message, **unknown}})
    else:
        print(
            f"tidegate: [INTERNAL] {message}. This is a mistake in Tidegate; please report it, with what "
            "--verbose says.",
            file=sys.stderr,
        )


def _usage_errors() -> tuple[type[BaseException], ...]:
    # Typer may carry a click of its own, so the base is found by way of its own subclass.
    return tuple(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
