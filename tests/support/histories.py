"""Random histories of tables, legal by the protocol, for hypothesis.

``histories()`` draws what writers did: the actions of each commit, over few paths, applications and domains,
so that they meet often. ``artefacts(n)`` draws what stands beside the commits: checkpoints of every form,
compactions, checksums, hints. ``build(history, beside)`` writes both as a ``RawTable``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from support.tables import (
    FORMS,
    SCHEMA,
    START,
    RawTable,
    Wire,
    add,
    column,
    domain,
    features,
    metadata,
    remove,
    schema_string,
    stats,
    txn,
    vector,
    vector_id,
)

PATHS = ("a.parquet", "b.parquet", "c.parquet", "d%20e.parquet", "deep/er/f.parquet")
APPS = ("app-1", "app-2")
DOMAINS = ("user.one", "user.two", "delta.clustering")
EVERYTHING = features(
    "deletionVectors", "v2Checkpoint", writers=["domainMetadata", "appendOnly", "invariants"]
)

SCHEMAS = (SCHEMA, schema_string(column("id"), column("name", "string"), column("more", "double")))


@dataclass
class _Writer:
    """What a careful writer keeps in mind: which files are live, and with which vector."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    careful: bool = False
    live: dict[str, Wire] = field(default_factory=dict)
    vectors: int = 0

    def commit(self, number: int) -> list[Wire]:
        draw = self.draw
        actions: list[Wire] = []
        for path in draw(st.lists(st.sampled_from(PATHS), unique=True, max_size=3)):
            actions += self._live_file(path, number) if path in self.live else self._new_file(path)
        for app in draw(st.lists(st.sampled_from(APPS), unique=True, max_size=1)):
            actions.append(txn(app, draw(st.integers(0, 5)), draw(st.sampled_from([None, START]))))
        for name in draw(st.lists(st.sampled_from(DOMAINS), unique=True, max_size=1)):
            actions.append(domain(name, f'{{"n":{number}}}', removed=draw(st.booleans())))
        if draw(st.integers(0, 5)) == 5:
            actions.append(metadata(draw(st.sampled_from(SCHEMAS)), configuration={"seen": str(number)}))
        return draw(st.permutations(actions))

    def _file(self, path: str, dv: Wire | None) -> Wire:
        draw = self.draw
        more: dict[str, Any] = {}
        if draw(st.booleans()):
            more["stats"] = stats(10, 0, draw(st.integers(0, 99)))
        if draw(st.integers(0, 3)) == 3:
            more |= {"tags": {"k": "v"}, "baseRowId": draw(st.integers(0, 9)), "defaultRowCommitVersion": 1}
        action = add(path, draw(st.sampled_from([0, 1, 8191, 8192, 100_000])), dv=dv, **more)
        self.live[path] = action["add"]
        return action

    def _vector(self) -> Wire:
        self.vectors += 1
        offset = self.draw(st.sampled_from([None, 1, 40]))
        return vector(f"{self.vectors // 2}", offset, self.draw(st.integers(1, 12)))

    def _new_file(self, path: str) -> list[Wire]:
        what = self.draw(st.sampled_from(["add", "add", "add", "add with vector", "remove"]))
        if what == "remove" and not self.careful:  # of a file the log no longer knows, or never knew
            return [remove(path, self.draw(st.sampled_from([None, 7])))]
        return [self._file(path, self._vector() if what == "add with vector" else None)]

    def _live_file(self, path: str, number: int) -> list[Wire]:
        old = self.live[path]
        dv = old.get("deletionVector")
        what = self.draw(st.sampled_from(["remove", "remove", "other vector", "again", "no vector"]))
        gone = remove(path, old["size"], dv=dv, time=START + number)
        if what == "again" or (what == "no vector" and dv is None):
            return [] if self.careful else [self._file(path, dv)]
        if what == "remove":
            del self.live[path]
            return [gone]
        fresh = self._vector() if what == "other vector" else None
        if vector_id(fresh) == vector_id(dv):
            return []
        return [gone, self._file(path, fresh)]


@st.composite
def histories(draw: Any, *, least: int = 1, most: int = 9, careful: bool = False) -> list[list[Wire]]:
    """The actions of each commit; version 0 also has the protocol and the metadata.

    A ``careful`` writer removes only what is live and adds only what is not.
    """
    writer = _Writer(draw, careful)
    first = [EVERYTHING, metadata(), *writer.commit(0)]
    only_one = [a for i, a in enumerate(first) if "metaData" not in a or i == 1]
    count = draw(st.integers(least, most))
    return [only_one, *(writer.commit(n) for n in range(1, count))]


@dataclass(frozen=True)
class Beside:
    """What is written after one commit, and what a reader that follows the table does then."""

    checkpoint: str | None = None
    compact: int | None = None
    checksum: bool = False
    hint: bool = False
    look: str | None = None


def artefacts(count: int) -> st.SearchStrategy[list[Beside]]:
    one = st.builds(
        Beside,
        checkpoint=st.one_of(st.none(), st.none(), st.sampled_from(FORMS)),
        compact=st.one_of(st.none(), st.none(), st.integers(1, 4)),
        checksum=st.booleans(),
        hint=st.booleans(),
        look=st.sampled_from([None, "update", "files", "some"]),
    )
    return st.lists(one, min_size=count, max_size=count)


def step(table: RawTable, actions: Sequence[Wire], beside: Beside) -> None:
    """Write one commit and what stands beside it."""
    version = table.commit(*actions)
    if beside.compact is not None and version - beside.compact >= 0:
        table.compact(version - beside.compact, version)
    if beside.checksum:
        table.checksum()
    if beside.checkpoint is not None:
        table.checkpoint(version, beside.checkpoint)
        if beside.hint:
            table.hint(version)


def build(history: Sequence[Sequence[Wire]], beside: Sequence[Beside]) -> RawTable:
    table = RawTable()
    for actions, more in zip(history, beside, strict=True):
        step(table, actions, more)
    return table
