"""Manifests of writers at once: the last word is the newest version's, wherever another one comes in."""

from __future__ import annotations

from support import log_commands, log_dml
from support.interleaving import Operation
from support.log_commands import now
from tidegate.commands.generate import MODE, generate
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.storage.memory import MemoryStore
from tidegate.transaction.manifests import FOLDER


def _listed(store: MemoryStore) -> set[str]:
    """The names of the files that the manifests list."""
    texts = [store.get(f.name).decode() for f in store.list_from(FOLDER, recursive=True)]
    return {line.rsplit("/", 1)[-1] for text in texts for line in text.splitlines()}


def _interrupted(number: int) -> bool:
    """Generate, and let another writer commit and generate before operation ``number``, if there is one."""
    store = log_commands.make({})
    other = TableLog(store.handle(), clock=now)
    seen: list[Operation] = []

    def hook(op: str, name: str) -> None:
        seen.append(Operation(op, name))
        if len(seen) == number:
            log_dml.run(other, log_dml.append([200]))
            generate(other, MODE)

    generate(TableLog(store.handle(hook=hook), clock=now), MODE)
    live = set(load(other).files(columns=["path"]).column("path").to_pylist())
    assert _listed(store) == live, f"another writer came before operation {number} of {seen}"
    return len(seen) >= number


def test_an_older_manifest_never_replaces_a_newer_one_for_good() -> None:
    points = 0
    while _interrupted(points + 1):
        points += 1
    assert points > 5
