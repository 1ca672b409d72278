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

import tidegate
from support import index_victims, victims
from support.arrow_rows import rows_of
from support.killed_drivers import LINUX_ALONE, victim
from support.killing import Nursery, nursery, spark_nursery
from support.nursery import CALLS, VISIBLE
from support.outcomes import state_of
from support.race_tables import FLAVOURS, LAST, copied, make
from support.session import shared_session
from support.victim import Orders
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
DEATHS = 3


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


# ---------------------------------------------------------------------------- index tables


@pytest.mark.parametrize("name", index_victims.INDEX)
def test_a_command_on_an_index_table_killed_at_any_call_shows_no_half_split(
    running: Nursery, tmp_path: Path, name: str, deep: bool
) -> None:
    # The path of its source is in a companion's metadata, so every attempt happens at one place.
    place, kept = tmp_path / "place", tmp_path / "kept"
    index_victims.make(name, place)
    place.rename(kept)

    def fresh() -> None:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(kept, place)

    calls = CALLS if deep else ("link", "replace")
    fresh()
    before = index_victims.found(place)
    whole = running.run(name, str(place), calls=calls)
    assert whole.code == 0
    after = index_victims.found(place)
    assert whole.calls, "the command writes something"
    for at in range(1, whole.calls + 1):
        fresh()
        assert running.run(name, str(place), at=at, calls=calls).killed
        left = index_victims.found(place)
        assert left in (before, after)
        if left == before:
            assert running.run(name, str(place)).code == 0
            assert index_victims.found(place) == after


# ---------------------------------------------------------------------------- with Spark

ON_SPARK = [
    "delete",
    "delete elsewhere",
    "update",
    "merge upserts",
    "merge by source",
    "optimize",
    "purge",
    "overwrite",
    "replace where",
    "add a constraint",
    "drop the vectors' feature",
]
# By default one that changes rows, and one that only moves them.
SOME = {"delete", "optimize"}
# A plain table has no vectors' feature that could be dropped.
KILLED = [
    pytest.param(name, flavour, marks=() if name in SOME and flavour == "plain" else (pytest.mark.deep,))
    for name in ON_SPARK
    for flavour in ("plain", "everything")
    if (name, flavour) != ("drop the vectors' feature", "plain")
]


@pytest.fixture(scope="module")
def spark_templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("templates")
    return {
        name: make(shared_session(), FLAVOURS[name], str(folder / name / "table"))
        for name in ("plain", "everything")
    }


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("name", "flavour"), KILLED)
def test_a_command_on_spark_killed_at_any_call_leaves_one_version_or_the_other_and_runs_again(
    spark_templates: dict[str, str], tmp_path: Path, name: str, flavour: str, deep: bool
) -> None:
    """The driver's Python is killed, which is where the log is written; its JVM serves the next one."""

    def fresh(label: str) -> str:
        return copied(spark_templates[flavour], tmp_path / label / "table")

    with_spark = spark_nursery()
    before = state_of(tidegate.open(fresh("before")), known=0)
    path = fresh("whole")
    calls = CALLS if deep else ("link",)
    whole = with_spark.run(name, path, calls=calls)
    assert whole.code == 0
    after = state_of(tidegate.open(path), known=0)
    assert whole.calls, "the command writes something"
    for at in range(1, whole.calls + 1):
        path = fresh(f"at-{at}")
        assert with_spark.run(name, path, at=at, calls=calls).killed
        _sound(path)
        left = state_of(tidegate.open(path), known=0)
        assert left.rows in (before.rows, after.rows)
        if tidegate.open(path).version == LAST or left != after:
            assert with_spark.run(name, path).code == 0
            _sound(path)
            assert state_of(tidegate.open(path), known=0) == after
        shutil.rmtree(tmp_path / f"at-{at}")


@pytest.mark.spark
@pytest.mark.slow
@LINUX_ALONE
@pytest.mark.parametrize(
    ("kind", "after"),
    [
        pytest.param("update", [0, 2, 101, 103], marks=pytest.mark.deep),
        pytest.param("delete", [0, 2], marks=pytest.mark.deep),
        pytest.param("merge", [0, 1, 4, 5, 102, 103], marks=pytest.mark.deep),
    ],
)
def test_the_driver_is_killed_in_the_middle_of_a_change_of_rows(
    tmp_path: Path, kind: str, after: list[int]
) -> None:
    """Its JVM too, while tasks of the command are at work."""
    table = str(tmp_path / "table")
    shared_session().range(4).write.format("delta").save(table)
    with victim(tmp_path / "victim") as running:
        running.order("change", table=table, kind=kind, row=3)
        running.stopped()
        running.kill_driver()
    assert tidegate.open(table).version == 0
    _sound(table)
    Orders(shared_session(), "").change(table, kind, row=-1)
    assert sorted(row["id"] for row in rows_of(tidegate.open(table))) == after
    _sound(table)
