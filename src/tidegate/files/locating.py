"""Where the files are that a log names: below the table, or at a place of their own."""

from __future__ import annotations

from tidegate.files.paths import resolve_path
from tidegate.storage.opening import open_store
from tidegate.storage.store import Store


def locate(store: Store, path: str, options: dict[str, str] | None = None) -> tuple[Store, str]:
    """The store and the name of the file that a path of the log stands for."""
    found = resolve_path(path)
    if not found.absolute:
        return store, found.name
    folder, _, name = found.name.rpartition("/")
    return open_store(folder or "/", options), name
