"""``tidegate features``: each feature of a table, why it is there, and what dropping it would do."""

from __future__ import annotations

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import Json, StorageOptions, Table, Timestamp, Verbose, Version, snapshot
from tidegate.cli.patience import Patience
from tidegate.commands.features import FeatureState, features


@verb
def command(
    table: Table,
    version: Version = None,
    timestamp: Timestamp = None,
    json: Json = False,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Each feature: why it is there, and how it is dropped.

    A feature is there because of a property, the schema, the files or other features; or because a version
    implies it, or nobody has dropped it yet. See `tidegate drop-feature`.
    """
    with Patience("reading the log"):
        found = snapshot(table, version, timestamp, storage_option)
        states = features(found)
    if json:
        screen.document(
            {"table": found.url, "version": found.version, "features": [s.as_row() for s in states]}
        )
    else:
        _show(found.url, found.version, states)
    return 0


def _show(url: str, version: int, states: list[FeatureState]) -> None:
    screen.fields([("table", url), ("version", version)])
    screen.line()
    if not states:
        screen.line("The table asks for no features.")
        return
    screen.rows(
        ["feature", "binds", "in use", "why it is there", "can be dropped", "what that takes"],
        [(s.name, s.binds, s.in_use, "; ".join(s.why), s.droppable, s.drop) for s in states],
        fold=["why it is there", "what that takes"],
    )
