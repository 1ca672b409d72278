"""Real processes killed in the middle of a write: the driver, an executor, a Python worker, a stream.

Each is stopped at a known point by the process itself and then killed with SIGKILL. Whatever it was, the
table stays at its version with nothing of the write in it, proves clean, and the write that is tried
again succeeds; a stream that is started again writes each of its batches once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tidegate
from support.killed_drivers import LINUX_ALONE, children, kill, victim
from support.session import shared_session
from support.streams import into, source
from tidegate.log.history import history
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    LINUX_ALONE,
]


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table with the numbers 0 to 3, at version 0."""
    path = str(tmp_path / "table")
    shared_session().range(4).write.format("delta").save(path)
    return path


def _rows(path: str) -> list[int]:
    return sorted(r.id for r in shared_session().read.format("delta").load(path).collect())


def _assert_untouched(path: str, version: int, rows: range) -> None:
    assert tidegate.open(path).version == version
    assert [f for f in verify(TableLog.at(path), deep=True).findings if f.severity == "error"] == []
    assert _rows(path) == list(rows)


def _data_files(path: str) -> int:
    return len(list(Path(path).glob("*.parquet")))


def test_the_driver_is_killed_in_the_middle_of_a_write(table: str, tmp_path: Path) -> None:
    before = _data_files(table)
    with victim(tmp_path / "victim") as running:
        running.order("write", table=table, first=4, last=11, row=11, attempts=1, portable=False)
        running.stopped()
        assert _data_files(table) > before, "some tasks have written their files by now"
        running.kill_driver()
    _assert_untouched(table, 0, range(4))
    shared_session().range(4, 12).write.format("delta").mode("append").save(table)
    _assert_untouched(table, 1, range(12))


def test_a_python_worker_and_an_executor_are_killed_in_the_middle_of_a_write(
    table: str, tmp_path: Path
) -> None:
    """A task has two tries: the second one after the worker's death succeeds, both of the executor's die."""
    confs = {"spark.task.maxFailures": "2", "spark.executor.memory": "1g"}
    with victim(tmp_path / "victim", "local-cluster[2,1,1024]", **confs) as running:
        running.order("write", table=table, first=4, last=11, row=11, attempts=1, portable=True)
        stopped = running.stopped()
        writers = [pid for pid in children(stopped["parent"]) if pid != stopped["pid"]]
        assert writers, "the worker that writes is another one than the one that stopped"
        for pid in writers:
            kill(pid)
        _assert_untouched(table, 0, range(4))
        running.go_on(stopped)
        assert running.answer() == {"ok": "written"}
        _assert_untouched(table, 1, range(12))

        running.order("write", table=table, first=12, last=19, row=19, attempts=2, portable=True)
        for _ in range(2):
            kill(running.stopped()["grandparent"])
        assert "error" in running.answer()
        _assert_untouched(table, 1, range(12))
        running.order("write", table=table, first=12, last=19, row=-1, attempts=0, portable=True)
        assert running.answer() == {"ok": "written"}
        running.kill_driver()
    _assert_untouched(table, 2, range(20))


def test_a_stream_is_killed_at_every_point_of_a_batch_and_writes_each_once(tmp_path: Path) -> None:
    spark = shared_session()
    numbers, table, checkpoint = (str(tmp_path / name) for name in ("numbers", "table", "checkpoint"))
    spark.range(4).coalesce(1).write.format("delta").save(numbers)
    for first in (4, 8, 12):
        spark.range(first, first + 4).coalesce(1).write.format("delta").mode("append").save(numbers)

    def killed_at(point: str, number: int, versions: int) -> None:
        with victim(tmp_path / point.replace(" ", "-")) as running:
            running.order(
                "stream", source=numbers, table=table, checkpoint=checkpoint, point=point, number=number
            )
            running.stopped()
            running.kill_driver()
        if versions:
            _assert_untouched(table, versions - 1, range(4 * versions))
        else:
            assert not (Path(table) / "_delta_log").exists()

    killed_at("rows", 2, versions=0)
    killed_at("before commit", 1, versions=1)
    killed_at("after commit", 1, versions=2)
    into(source(spark, numbers, maxFilesPerTrigger=1), table, checkpoint)
    _assert_untouched(table, 3, range(16))
    entries = history(TableLog.at(table), 3)[::-1]
    assert [e["operationParameters"]["epochId"] for e in entries] == ["0", "1", "2", "3"]
