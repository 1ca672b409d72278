"""Commands killed with SIGKILL at any call to the disk leave one version or the other, and can be run again.

Each command runs in a process of its own, which kills itself before its n-th call that others can see (with
large budgets: before any call that goes to the disk). Whatever is left opens, proves clean and holds the
rows of before or of after; the command that is run again ends as the one that nobody killed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import victims
from support.killing import Nursery, nursery
from support.nursery import CALLS, VISIBLE
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

MAPPED = {**victims.FEATURES, "delta.columnMapping.mode": "name"}
TABLES = {
    "map columns": {},
    "track rows": {},
    "generate": {},
    "rename a column": MAPPED,
    "drop column mapping": MAPPED,
    "enable vectors": {},
    "keep times": {},
}
# Run a second time on a table that has them already, these are refused.
ONCE = {"add a column", "rename a column", "restore", "clone", *victims.ROWS}
ONCE |= {name for name in victims.PLAIN if name.startswith("drop ")}
# Outside of deep runs a command dies so often at most, at points evenly spread.
DEATHS = 6


@pytest.fixture(scope="module")
def running() -> Iterator[Nursery]:
    with nursery() as started:
        yield started


@pytest.fixture
def template(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the table that the command is for, or with what it makes one of."""
    name = request.node.callspec.params["name"]
    folder = tmp_path / "template"
    made = victims.make(folder / "table", TABLES.get(name, victims.FEATURES))
    if name == "clone":
        shutil.move(made, f"{made}-source")
    if name == "convert":
        shutil.rmtree(Path(made) / "_delta_log")
        for file in Path(made).glob("*.bin"):
            file.unlink()
    return folder


def _sound(path: str) -> None:
    found = verify(TableLog.at(path), deep=True).findings
    assert [f for f in found if f.severity == "error"] == []


# Those that find nothing to do here.
IDLE = {"drop a column", "drop a constraint"}


@pytest.mark.parametrize("name", [n for n in victims.PLAIN if n not in IDLE])
def test_a_command_killed_at_any_call_leaves_one_version_or_the_other_and_runs_again(
    running: Nursery, template: Path, tmp_path: Path, name: str, deep: bool
) -> None:
    def fresh(label: str) -> str:
        shutil.copytree(template, tmp_path / label)
        return str(tmp_path / label / "table")

    before = victims.outcome(fresh("before"))
    path = fresh("whole")
    calls = CALLS if deep else VISIBLE
    whole = running.run(name, path, calls=calls)
    assert whole.code == 0
    after = victims.outcome(path)
    assert after is not None
    _sound(path)
    points = range(1, whole.calls + 1)
    assert points, "the command writes something"
    for at in points if deep else points[:: -(-len(points) // DEATHS)]:
        path = fresh(f"at-{at}")
        assert running.run(name, path, at=at, calls=calls).killed
        left = victims.outcome(path)
        if left is not None:
            _sound(path)
        assert (left and left.rows) in (before and before.rows, after.rows)
        if left is None or not left.same(after) or name not in ONCE:
            assert running.run(name, path).code == 0
        again = victims.outcome(path)
        assert again is not None
        assert again.same(after), again.difference(after)
        _sound(path)
        shutil.rmtree(tmp_path / f"at-{at}")
