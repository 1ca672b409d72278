"""A companion's answers equal a walk over the Delta table's rows: at every version, refreshed or not."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.index.companion import build, refresh
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import merge_splits
from tidegate.index.tables import Searchable

deltalake = pytest.importorskip("deltalake")
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("s", pa.string()), ("n", pa.int64())])
Row = dict[str, Any]

bodies = st.lists(st.sampled_from(["error", "Über", "日本", "reset"]), max_size=3).map(" ".join)
fresh = st.lists(
    st.fixed_dictionaries(
        {"p": st.sampled_from(["a", "b"]), "s": st.none() | bodies, "n": st.none() | st.integers(-2, 2)}
    ),
    min_size=1,
    max_size=6,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), fresh),
        st.tuples(st.just("delete"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["refresh", "merge", "compact"]), st.none()),
    ),
    min_size=2,
    max_size=6,
)
QUERIES: list[tuple[str, Callable[[Row], bool]]] = [
    ("error", lambda r: "error" in (r["s"] or "").split()),
    ('"über 日本"', lambda r: "über 日本" in (r["s"] or "").lower()),
    ("NOT s:*", lambda r: r["s"] is None),
    ("n:[0 TO *] AND p:a", lambda r: r["n"] is not None and r["n"] >= 0 and r["p"] == "a"),
    ("reset OR id:<3", lambda r: "reset" in (r["s"] or "").split() or r["id"] < 3),
]


@settings(max_examples=max(4, settings.default.max_examples // 8))
@given(fresh, steps)
def test_a_companion_is_exact_at_every_version(first: list[Row], doing: list[tuple[str, Any]]) -> None:
    folder = tempfile.mkdtemp()
    source = f"{folder}/delta"
    try:
        live = [{"id": i, **row} for i, row in enumerate(first)]
        count = len(live)
        deltalake.write_deltalake(source, pa.Table.from_pylist(live, SCHEMA), partition_by=["p"])
        index = build(source, None, ["id", "s", "n"], {"indexing.typemap.s": "text"})
        history = [live]
        for step, value in doing:
            table = deltalake.DeltaTable(source)
            if step == "append":
                rows = [{"id": count + i, **row} for i, row in enumerate(value)]
                count += len(rows)
                live = live + rows
                deltalake.write_deltalake(source, pa.Table.from_pylist(rows, SCHEMA), mode="append")
            elif step == "delete":
                live = [r for r in live if r["id"] % 4 != value]
                table.delete(f"id % 4 = {value}")
            elif step == "compact":
                table.optimize.compact()
            elif step == "refresh":
                refresh(IndexLog.at(index))
            else:
                merge_splits(IndexLog.at(index), "10M")
            version = deltalake.DeltaTable(source).version()
            history += [live] * (version + 1 - len(history))
        for version, rows in enumerate(history):
            found = Searchable.open(index, version=version)
            assert found.count() == len(rows)
            for text, matches in QUERIES:
                want = sorted(r["id"] for r in rows if matches(r))
                assert sorted(found.search(text, ["id"]).table().column("id").to_pylist()) == want, text
                assert found.count(text) == len(want), text
    finally:
        shutil.rmtree(folder)
