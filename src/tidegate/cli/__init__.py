"""The command line: ``tidegate VERB TABLE``, one module per verb.

Typer and rich come with ``tidegate[cli]``; without them ``main`` says so and does nothing else.
Exit codes are a promise: 0 good, 1 something was found, 2 it could not be told.
"""

from __future__ import annotations

import sys

__all__ = ["main"]

_NEEDED = ("click", "rich", "typer")


def main() -> None:
    """Run the command line on the process's arguments."""
    try:
        from tidegate.cli.app import run
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] not in _NEEDED:
            raise
        print(
            f"tidegate: the command line needs the package {e.name}, which is not installed.\n"
            "Install it with: pip install 'tidegate[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    run()
