"""Real processes killed while splits are written, merged, or a companion is refreshed: workers and drivers.

Whatever it was: the table stays at its version, no half split is seen, and the next attempt succeeds.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.killed_drivers import LINUX_ALONE, children, kill, victim
from support.splits import write_index
from tidegate.index.companion import build, refresh
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import merge_splits
from tidegate.index.tables import Searchable
from tidegate.log.verify import verify

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    LINUX_ALONE,
]
TEXT = {"indexing.typemap.s": "text"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))


def rows(first: int, last: int) -> pa.Table:
    numbers = range(first, last + 1)
    return pa.table({"id": list(numbers), "s": [f"common word{i}" for i in numbers]})


def assert_holds(table: str, version: int, last: int) -> None:
    """The table is at ``version`` and holds the numbers from 0 to ``last``, by any way to look."""
    log = IndexLog.at(table)
    assert log.snapshot().version == version
    assert [f for f in verify(log.log, data=False).findings if f.severity == "error"] == []
    found = Searchable.open(table)
    assert sorted(found.search("common", ["id"]).table().column("id").to_pylist()) == list(range(last + 1))
    assert (found.count(), found.count("id:>=0")) == (last + 1, last + 1)


def splits(table: str) -> int:
    return len(list(Path(table).glob("*.split")))


def test_a_worker_and_a_driver_are_killed_while_splits_are_written(tmp_path: Path) -> None:
    """A task has four tries here: after the death of its worker a later one succeeds.

    The next try may still get an idle worker that has died as well.
    """
    table = str(tmp_path / "table")
    write_index(table, [rows(0, 3)], TEXT)
    with victim(tmp_path / "victim", "local[2,4]") as running:
        running.order("index_write", table=table, first=4, last=11, row=11, attempts=1)
        stopped = running.stopped()
        writers = [pid for pid in children(stopped["parent"]) if pid != stopped["pid"]]
        assert writers, "the worker that writes is another one than the one that stopped"
        for pid in writers:
            kill(pid)
        assert_holds(table, 0, 3)
        running.go_on(stopped)
        assert running.answer() == {"ok": "written"}
        assert_holds(table, 1, 11)

        before = splits(table)
        running.order("index_write", table=table, first=12, last=19, row=19, attempts=1)
        running.stopped()
        assert splits(table) > before, "some tasks have put their splits by now"
        running.kill_driver()
    assert_holds(table, 1, 11)
    write_index(table, [rows(12, 19)], TEXT)
    assert_holds(table, 2, 19)
    purging = IndexLog.at(table, options={"purge.retentionCheckEnabled": "false"})
    assert purging.purge(retention_hours=0).paths, "what the dead left behind"
    assert_holds(table, 2, 19)


def test_a_driver_is_killed_with_its_splits_merged(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    write_index(table, [rows(0, 3), rows(4, 7), rows(8, 11)], TEXT)
    with victim(tmp_path / "victim") as running:
        running.order("index_service", table=table, service="merge")
        running.stopped()
        assert splits(table) == 4
        running.kill_driver()
    assert_holds(table, 2, 11)
    assert merge_splits(IndexLog.at(table), "10M").created == 1
    assert_holds(table, 3, 11)


def test_a_driver_is_killed_with_a_refresh_indexed(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    source = str(tmp_path / "delta")
    deltalake.write_deltalake(source, rows(0, 3))
    index = build(source, None, ["id", "s"], TEXT)
    version = IndexLog.at(index).snapshot().version
    deltalake.write_deltalake(source, rows(4, 11), mode="append")
    with victim(tmp_path / "victim") as running:
        running.order("index_service", table=index, service="refresh")
        running.stopped()
        assert splits(index) == 2
        running.kill_driver()
    assert_holds(index, version, 11)
    assert refresh(IndexLog.at(index)).files_indexed == 1
    assert_holds(index, version + 1, 11)
