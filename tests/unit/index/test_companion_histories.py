"""Random histories of a Delta table, and its companion at every version of them.

Rows come, go by deletion vectors, move into other files, come back by a restore; columns change their names;
the companion is refreshed and merged now and then, so that some files are indexed and some are not. At every
version each search finds what a walk over the rows of that version finds.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.mapped_delta import MappedDelta
from tidegate.commands.restore import restore
from tidegate.index.companion import build, refresh
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import merge_splits
from tidegate.index.tables import Searchable
from tidegate.log.table_log import TableLog

words = st.none() | st.lists(st.sampled_from(["error", "Über", "日本", "reset"]), max_size=2).map(" ".join)
pairs = st.lists(st.tuples(words, words), min_size=1, max_size=5)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), pairs),
        st.tuples(st.just("delete"), st.sets(st.integers(0, 12), min_size=1, max_size=4)),
        st.tuples(st.just("restore"), st.integers(0, 6)),
        st.tuples(st.sampled_from(["refresh", "merge", "compact", "swap"]), st.none()),
    ),
    min_size=2,
    max_size=7,
)


@dataclass(frozen=True)
class State:
    """The table at one version: rows as (id, first, second), and what the last two are called."""

    rows: tuple[tuple[int, str | None, str | None], ...] = ()
    names: tuple[str, str] = ("a", "b")


@dataclass
class Story:
    """The table, its companion and what each version holds."""

    folder: str
    states: list[State] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.delta = MappedDelta(Path(self.folder) / "delta", ["a", "b"])
        self.told(State())
        self.index = build(self.delta.path, None, ["id", "a", "b"], {"indexing.typemap.text": "a,b"})

    def told(self, state: State) -> None:
        """Every version since the last one that is known holds ``state``."""
        self.states += [state] * (self.delta.version + 1 - len(self.states))

    def do(self, step: str, value: Any) -> None:
        now = self.states[-1]
        if step == "append":
            new = tuple((self.count + n, *pair) for n, pair in enumerate(value))
            self.count += len(new)
            self.delta.append(*(dict(zip(("id", *now.names), row, strict=True)) for row in new))
            now = replace(now, rows=now.rows + new)
        elif step == "delete":
            self.delta.delete(value)
            now = replace(now, rows=tuple(r for r in now.rows if r[0] not in value))
        elif step == "compact":
            self.delta.compact()
        elif step == "swap":
            first, second = now.names
            for old, new_name in ((first, "x"), (second, first), ("x", second)):
                self.delta.rename(old, new_name)
                names = (now.names[0] if now.names[0] != old else new_name,
                         now.names[1] if now.names[1] != old else new_name)  # fmt: skip
                now = replace(now, names=names)
                self.told(now)
        elif step == "restore":
            version = value % (len(self.states) - 1)
            restore(TableLog.at(self.delta.path), version=version)
            now = self.states[version]
        elif step == "refresh":
            refresh(IndexLog.at(self.index))
        else:
            merge_splits(IndexLog.at(self.index), "10M")
        self.told(now)


def _check(found: Searchable, state: State) -> None:
    first, second = state.names
    texts = {row[0]: tuple((t or "").lower().split() for t in row[1:]) for row in state.rows}
    assert found.count() == len(state.rows)
    wanted: dict[str, list[int]] = {
        f"{first}:error": [i for i, (x, _) in texts.items() if "error" in x],
        f"{second}:日本": [i for i, (_, y) in texts.items() if "日本" in y],
        "über OR id:<3": [i for i, (x, y) in texts.items() if "über" in x + y or i < 3],
        f"NOT {second}:*": [row[0] for row in state.rows if row[2] is None],
        f'{first}:"error reset"': [i for i, (x, _) in texts.items() if x == ["error", "reset"]],
    }
    for query, ids in wanted.items():
        rows = found.search(query, ["id", first, second]).table().to_pylist()
        expected = sorted(row for row in state.rows if row[0] in ids)
        assert sorted((r["id"], r[first], r[second]) for r in rows) == expected, query
        assert found.count(query) == len(ids), query


@settings(max_examples=max(5, settings.default.max_examples // 8))
@given(pairs, steps)
def test_a_companion_is_exact_at_every_version_of_any_history(
    first: list[tuple[str | None, str | None]], doing: list[tuple[str, Any]]
) -> None:
    folder = tempfile.mkdtemp()
    try:
        story = Story(folder)
        story.do("append", first)
        for step, value in doing:
            story.do(step, value)
            _check(Searchable.open(story.index), story.states[-1])
        for version, state in enumerate(story.states):
            _check(Searchable.open(story.index, version=version), state)
    finally:
        shutil.rmtree(folder)
