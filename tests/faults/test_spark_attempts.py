"""Attempts of tasks: whatever became of them, a table gets the files of one successful attempt of each task.

The driver is a process of its own: a session of the tests gives each task one attempt alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tidegate
from support.killed_drivers import LINUX_ALONE, Victim, victim
from support.session import shared_session
from support.victim import TWO_HOSTS
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

pytestmark = [
    pytest.mark.spark,
    LINUX_ALONE,
]

WAYS = {"native": False, "portable": True}


def _holds(table: str, version: int, rows: range) -> None:
    """The table is at its version, proves clean, and has these rows once each."""
    assert tidegate.open(table).version == version
    assert [f for f in verify(TableLog.at(table), deep=True).findings if f.severity == "error"] == []
    found = shared_session().read.format("delta").load(table).collect()
    assert sorted(r.id for r in found) == list(rows)


def _orphans(table: str) -> set[str]:
    """Files that lie there and that the log does not name."""
    named = set(tidegate.open(table).files().column("path").to_pylist())
    return {p.relative_to(table).as_posix() for p in Path(table).glob("*.parquet")} - named


def test_attempts_that_failed_add_nothing_and_take_their_files_along(tmp_path: Path) -> None:
    with victim(tmp_path / "victim", "local[2,3]") as running:
        for name, portable in WAYS.items():
            table = str(tmp_path / name)
            what = {"table": table, "portable": portable}
            running.order("flaky", first=0, last=399, row=390, attempts=2, **what)
            assert running.answer() == {"ok": "written"}
            _holds(table, 0, range(400))
            assert _orphans(table) == set()
            running.order("flaky", first=400, last=799, row=790, attempts=3, **what)
            assert "attempt 2 fails" in running.answer()["says"]
            _holds(table, 0, range(400))
            # The other task had succeeded: its files are left to VACUUM.
            assert {n[:10] for n in _orphans(table)} <= {"part-00000"}


def _late(running: Victim, table: str, portable: bool) -> None:
    """A write of which one task stands still until another attempt of it has been committed."""
    running.order("write", table=table, first=0, last=7, row=7, attempts=1, portable=portable)
    running.stopped()
    # Nobody lets it go: Spark starts the other attempt, and ends this one when that has succeeded.
    assert running.answer() == {"ok": "written"}
    _holds(table, 0, range(8))


@pytest.mark.deep
@pytest.mark.slow
def test_of_a_task_and_its_speculative_attempt_one_is_in_the_table(tmp_path: Path) -> None:
    confs = {
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.5",
        # So long that a first attempt, which is not slow, gets as far as the row where it stands still.
        "spark.speculation.minTaskRuntime": "3s",
    }
    with victim(tmp_path / "victim", TWO_HOSTS, **confs) as running:
        for name, portable in WAYS.items():
            _late(running, str(tmp_path / name), portable)
        for name, portable in WAYS.items():
            table = str(tmp_path / name)
            running.order("write", table=table, first=8, last=15, row=-1, attempts=0, portable=portable)
            assert running.answer() == {"ok": "written"}
            _holds(table, 1, range(16))
