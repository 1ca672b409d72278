"""A companion and the columns of its Delta table: renamed, swapped, dropped, added under a name of old.

What was indexed belongs to a column, not to its name: a search goes by the names of the version that is read,
and never finds the values of another column that had such a name once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.mapped_delta import MappedDelta
from tidegate.errors import QueryError, SchemaInvalidError
from tidegate.index.companion import build, refresh
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import merge_splits
from tidegate.index.tables import Searchable

TEXT = {"indexing.typemap.text": "a,b,c"}


def ids(index: str, query: str, version: int | None = None) -> list[int]:
    found = Searchable.open(index, version=version).search(query, ["id"]).table()
    return sorted(found.column("id").to_pylist())


@pytest.fixture
def delta(tmp_path: Path) -> MappedDelta:
    table = MappedDelta(tmp_path / "delta", ["a", "b", "c"])
    table.append({"id": 1, "a": "apple", "b": "bread", "c": "corn"}, {"id": 2, "a": "plum"})
    return table


def test_names_that_change_places_are_told_apart_at_every_version(delta: MappedDelta) -> None:
    index = build(delta.path, None, ["a", "b", "c"], TEXT)
    before = delta.version
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        delta.rename(old, new)
    for step in range(3):
        more = [3] if step else []
        assert (ids(index, "b:apple"), ids(index, "a:bread")) == ([1, *more], [1, *more])
        assert (ids(index, "a:apple"), ids(index, "apple"), ids(index, "NOT a:*")) == ([], [1, *more], [2])
        assert (ids(index, "a:apple", before), ids(index, "b:apple", before)) == ([1], [])
        found = Searchable.open(index).search("b:apple", ["a", "b"], 1, highlight=["b"]).table()
        assert found.to_pylist() == [{"a": "bread", "b": "apple", "_snippet_b": "<b>apple</b>"}]
        if not step:
            delta.append({"id": 3, "b": "apple", "a": "bread"})
        else:
            refresh(IndexLog.at(index))
    assert merge_splits(IndexLog.at(index), "10M").created == 1
    assert (ids(index, "b:apple"), ids(index, "a:bread")) == ([1, 3], [1, 3])


def test_a_column_that_is_gone_is_found_nowhere_and_nothing_else_is_found_for_it(delta: MappedDelta) -> None:
    index = build(delta.path, None, ["a", "b", "c"], TEXT)
    before = delta.version
    delta.drop("c")
    assert (ids(index, "corn"), ids(index, "apple"), ids(index, "c:corn", before)) == ([], [1], [1])
    with pytest.raises(QueryError, match="no field c"):
        ids(index, "c:corn")
    delta.add("c")
    delta.append({"id": 4, "a": "apple", "c": "candy"})
    assert (ids(index, "corn"), ids(index, "candy"), ids(index, "apple")) == ([], [], [1, 4])
    with pytest.raises(QueryError, match="no field c"):
        ids(index, "c:corn")
    with pytest.raises(SchemaInvalidError, match=r"column c .* is gone"):
        refresh(IndexLog.at(index))
    found = Searchable.open(index).search("apple", ["id", "c"]).table().to_pylist()
    assert found == [{"id": 1, "c": None}, {"id": 4, "c": "candy"}]


def test_a_file_that_is_not_indexed_is_indexed_anew_for_another_column_of_the_same_name(
    delta: MappedDelta,
) -> None:
    index = build(delta.path, None, ["a"], {"indexing.typemap.a": "text"})
    delta.append({"id": 5, "a": "pear", "b": "rice"})
    assert ids(index, "a:pear") == [5]
    delta.rename("a", "x")
    delta.rename("b", "a")
    assert (ids(index, "x:pear"), ids(index, "x:rice")) == ([5], [])
    with pytest.raises(QueryError, match="no field a"):
        ids(index, "a:rice")
