"""``tidegate history``: the commits that are still in the log, newest first."""

from __future__ import annotations

from typing import Any

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import (
    Dialect,
    Json,
    Limit,
    StorageOptions,
    Table,
    Timestamp,
    Verbose,
    Version,
    snapshot,
)
from tidegate.cli.patience import Patience


@verb
def command(
    table: Table,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = None,
    json: Json = False,
    dialect: Dialect = None,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """The commits, newest first: when, what, by whom.

    With --version or --timestamp, the commits up to there.
    """
    with Patience("reading the commits"):
        found = snapshot(table, version, timestamp, storage_option, dialect)
        entries = found.history(limit)
    if json:
        screen.document({"table": found.url, "version": found.version, "history": entries})
        return 0
    screen.rows(
        ["version", "committed", "operation", "parameters", "metrics", "by"],
        [_row(e) for e in entries],
        right=["version"],
        fold=["parameters", "metrics", "by"],
    )
    screen.line()
    screen.line(f"{screen.plural(len(entries), 'commit')} of {found.url}")
    return 0


def _row(entry: dict[str, Any]) -> tuple[Any, ...]:
    who = [str(entry[k]) for k in ("userName", "engineInfo") if entry.get(k)]
    return (
        entry["version"],
        entry["timestamp"],
        entry.get("operation"),
        _telling(entry.get("operationParameters"), (None, "", "[]", "{}")),
        _telling(entry.get("operationMetrics"), (None, "0", 0)),
        ", ".join(who),
    )


def _telling(value: Any, void: tuple[Any, ...]) -> dict[str, Any]:
    """The entries that say something. commitInfo is free-form, so it may not even be a mapping."""
    return {k: v for k, v in value.items() if v not in void} if isinstance(value, dict) else {}
