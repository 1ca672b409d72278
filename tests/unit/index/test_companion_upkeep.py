"""Keeping a companion: what is dropped from it comes back; it is purged, aggregated, not written by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.mapped_delta import MappedDelta
from tidegate import IndexTable
from tidegate.errors import CommitRefusedError, OptionError, TableExistsError
from tidegate.index.companion import build, refresh
from tidegate.index.local import write_table
from tidegate.index.log import IndexLog
from tidegate.index.tables import Searchable

deltalake = pytest.importorskip("deltalake")
TEXT = {"indexing.typemap.s": "text"}
OFF = {"purge.retentionCheckEnabled": "false"}


def rows(start: int) -> pa.Table:
    ids = list(range(start, start + 6))
    return pa.table({"id": ids, "p": ["ab"[i % 2] for i in ids], "s": [f"word{i} common" for i in ids]})


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    path = str(tmp_path / "delta")
    deltalake.write_deltalake(path, rows(0), partition_by=["p"])
    return path


def ids(index: str, query: str = "common", version: int | None = None) -> list[int]:
    found = Searchable.open(index, version=version).search(query, ["id"]).table()
    return sorted(found.column("id").to_pylist())


def test_what_was_dropped_from_the_index_is_still_found_and_indexed_again(source: str) -> None:
    index = build(source, None, ["id", "s"], TEXT)
    IndexLog.at(index).drop_partitions("p = 'a'")
    assert (ids(index), ids(index, "p:a")) == ([0, 1, 2, 3, 4, 5], [0, 2, 4])
    assert refresh(IndexLog.at(index)).files_indexed == 1
    assert refresh(IndexLog.at(index)).files_indexed == 0
    assert ids(index) == [0, 1, 2, 3, 4, 5]


def test_a_purge_takes_what_a_refresh_has_replaced_and_old_versions_are_still_exact(source: str) -> None:
    index = build(source, None, ["id", "s"], TEXT)
    deltalake.write_deltalake(source, rows(100), mode="append")
    deltalake.DeltaTable(source).optimize.compact()
    assert refresh(IndexLog.at(index)).splits_removed == 2
    log = IndexLog.at(index, options=OFF)
    log.truncate_history()
    assert len(log.purge(retention_hours=0).paths) == 2
    assert (ids(index), ids(index, version=0)) == ([*range(6), *range(100, 106)], [0, 1, 2, 3, 4, 5])


def test_only_its_delta_table_says_what_a_companion_holds(source: str) -> None:
    index = build(source, None, ["id", "s"], TEXT)
    for mode in ("append", "overwrite"):
        with pytest.raises(CommitRefusedError, match="refresh"):
            write_table(rows(7), index, mode=mode)
    with pytest.raises(TableExistsError, match="refresh"):
        build(source, None, ["id", "s"], TEXT)
    with pytest.raises(OptionError, match=r"Did you mean companion\.targetInputSize"):
        build(source, f"{source}-other", ["s"], {"companion.targetInputsizes": "1M"})
    with pytest.raises(OptionError, match=r"Did you mean search\.driverSplits"):
        IndexTable.forPath(None, index, options={"search.driverSplit": "0"})
    for columns, match in ((["nobody"], "no column nobody"), (["p"], "No column is left")):
        with pytest.raises(OptionError, match=match):
            build(source, f"{source}-other", columns, None)


def test_groups_and_sums_are_those_of_the_rows_that_are_left(tmp_path: Path) -> None:
    delta = MappedDelta(tmp_path / "mapped", ["a", "b"])
    index = build(delta.path, None, ["id", "a"], None)
    delta.append(*({"id": i, "a": "xyz"[i % 3], "b": None} for i in range(9)))
    refresh(IndexLog.at(index))
    delta.delete({0, 4, 5})
    delta.append({"id": 20, "a": "x"}, {"id": 21, "a": None})
    found = Searchable.open(index).aggregate("id:>=0", ["a"], ["count", "sum(id)", "min(id)"])
    assert [tuple(r.values()) for r in found.to_pylist()] == [
        ("x", 3, 29, 3),
        ("y", 2, 8, 1),
        ("z", 2, 10, 2),
        (None, 1, 21, 21),
    ]
