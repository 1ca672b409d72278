"""Log retention: what goes, in which order, and that no reader is ever left with half a table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.histories import EVERYTHING, artefacts, build, histories
from support.tables import (
    DAY,
    FORMS,
    HOUR,
    LOG,
    SECOND,
    RawTable,
    add,
    commit_info,
    features,
    metadata,
    remove,
    seen,
)
from tidegate.errors import UnsupportedWriterFeatureError, VersionNotFoundError
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.retention import clean_up, cutoff
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.metadata import Metadata
from tidegate.storage import MemoryStore, StoreDied
from tidegate.storage.disk import TEMP_PREFIX
from tidegate.transaction.transaction import Transaction

KEEP = {
    "delta.logRetentionDuration": "interval 3 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


def commit(version: int) -> str:
    return f"{version:020d}.json"


def daily(versions: int = 10, checkpoints: dict[int, str] | None = None, **options: object) -> RawTable:
    """A commit a day at noon, checkpoints as asked for, a checksum each, kept for three days."""
    table = RawTable()
    table.clock.tick(12 * HOUR)
    table.create(protocol=EVERYTHING, configuration={**KEEP, **dict(options)})  # type: ignore[dict-item]
    for number in range(1, versions):
        table.commit(add(f"f{number}"), *([remove(f"f{number - 2}")] if number > 2 else []), tick=DAY)
        table.checksum()
        if checkpoints and number in checkpoints:
            table.checkpoint(number, checkpoints[number])
    return table


def readable(table: RawTable, versions: range) -> dict[int, str]:
    """What becomes of each version: it reads as it was written, or the code of its error."""
    out = {}
    for version in versions:
        try:
            assert seen(table.load(version), tombstones=False) == table.state(version).without_tombstones()
            out[version] = "ok"
        except VersionNotFoundError as e:
            out[version] = e.code
    return out


def left(table: RawTable) -> list[str]:
    return [
        n.removesuffix(".json").lstrip("0") or "0"
        for n in table.names()
        if n.endswith(".json") and len(n) == 25
    ]


# ---------------------------------------------------------------------------- what goes


def test_the_cutoff_is_the_retention_rounded_down_to_a_day() -> None:
    table = daily(3)
    assert cutoff(table.load()) == (table.clock() - 3 * DAY) // DAY * DAY


def test_everything_below_the_newest_expired_checkpoint_goes_and_nothing_else() -> None:
    table = daily(10, {2: "classic", 4: "classic", 8: "classic"})
    table.compact(1, 3)
    table.compact(5, 7)
    plan = clean_up(table.load())
    assert plan is not None
    assert plan.start == 4
    assert left(table) == ["4", "5", "6", "7", "8", "9"]
    assert [n for n in table.names() if "checkpoint." in n] == [
        f"{4:020d}.checkpoint.parquet",
        f"{8:020d}.checkpoint.parquet",
    ]
    assert [n for n in table.names() if "compacted" in n] == [f"{5:020d}.{7:020d}.compacted.json"]
    assert [n for n in table.names() if n.endswith(".crc")] == [f"{v:020d}.crc" for v in range(4, 10)]
    assert readable(table, range(10)) == {v: "ok" if v >= 4 else "VERSION_NOT_FOUND" for v in range(10)}


def test_the_order_is_commits_ascending_compactions_checksums_checkpoints() -> None:
    table = daily(10, {2: "classic", 4: "classic"})
    table.compact(1, 3)
    snapshot = table.load()
    table.memory.journal.clear()
    clean_up(snapshot)
    gone = [o.name.removeprefix(f"{LOG}/") for o in table.memory.journal if o.op == "delete"]
    assert gone == [
        *(commit(v) for v in range(4)),
        f"{1:020d}.{3:020d}.compacted.json",
        *(f"{v:020d}.crc" for v in range(1, 4)),
        f"{2:020d}.checkpoint.parquet",
    ]


def test_without_an_expired_checkpoint_nothing_goes() -> None:
    table = daily(10, {8: "classic"})
    before = table.names()
    assert clean_up(table.load()) is None
    assert table.names() == before


def test_a_checkpoint_whose_commit_is_younger_than_the_cutoff_is_not_the_new_start() -> None:
    """Commits 0 to 5 have expired, the checkpoint of 6 has not: who asks for the cutoff needs 5."""
    table = daily(10, {6: "classic"})
    now = cutoff(table.load())
    times = {v: table.store.head(f"{LOG}/{commit(v)}").modified for v in (5, 6)}
    assert times[5] <= now < times[6]
    assert clean_up(table.load()) is None
    assert readable(table, range(10)) == dict.fromkeys(range(10), "ok")


@pytest.mark.parametrize("age", range(12))
def test_every_version_within_the_retention_stays_readable(age: int) -> None:
    """A version is within it if it was the latest at the cutoff or came later."""
    table = daily(12, dict.fromkeys(range(1, 12), "classic"))
    times = [table.store.head(f"{LOG}/{commit(v)}").modified for v in range(12)]
    moment = table.clock() - age * DAY
    needed = max((v for v in range(12) if times[v] <= moment), default=0)
    clean_up(table.load(), before=moment)
    found = readable(table, range(12))
    assert all(found[v] == "ok" for v in range(needed, 12))
    assert all(found[v] == "VERSION_NOT_FOUND" for v in range(needed)) or needed == 0


def test_in_commit_timestamps_decide_where_the_table_keeps_them() -> None:
    table = RawTable()
    ict = {**KEEP, "delta.enableInCommitTimestamps": "true"}
    head = (features(writers=["inCommitTimestamp"]), metadata(configuration=ict))
    for version in range(8):
        moment = table.clock.tick(DAY)
        table.commit(
            commit_info(inCommitTimestamp=moment), *(head if version == 0 else ()), add(f"{version}")
        )
        table.checkpoint()
        # The files look ancient, as after a copy that lost their times.
        table.memory.set_modified(f"{LOG}/{commit(version)}", version)
    expected = max(v for v in range(8) if table.load(v).timestamp_ms <= cutoff(table.load()))
    plan = clean_up(table.load())
    assert plan is not None
    assert plan.start == expected


def test_a_checkpoint_that_cannot_carry_the_log_covers_nothing() -> None:
    table = daily(10, {2: "classic", 4: "v2-json"})
    table.edit(f"{2:020d}.checkpoint.parquet", lambda data: data[:50])
    table.delete(next(n for n in table.names() if n.startswith("_sidecars/")))
    before = table.names()
    assert clean_up(table.load()) is None
    assert table.names() == before


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_a_checkpoint_whose_pages_are_damaged_covers_nothing_though_its_footer_is_whole(policy: str) -> None:
    """What goes cannot come back, so the new start is read to the end before anything does."""
    table = daily(10)
    write_checkpoint(table.load(4), policy=policy)
    damaged = next(n for n in table.names() if n.endswith(".parquet"))
    table.edit(damaged, lambda data: data[:200] + bytes(b ^ 0xFF for b in data[200:260]) + data[260:])
    before = table.names()
    assert clean_up(table.load()) is None
    assert table.names() == before
    assert readable(table, range(10)) == dict.fromkeys(range(10), "ok")


def test_with_nothing_to_delete_no_checkpoint_is_read() -> None:
    table = daily(10, {4: "classic"})
    clean_up(table.load())
    snapshot = table.load()
    table.memory.journal.clear()
    assert clean_up(snapshot) is None
    assert not [o for o in table.memory.journal if o.op not in ("list_from",)]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_checkpoint_can_be_the_new_start_and_can_go(form: str) -> None:
    table = daily(10, {2: form, 4: form})
    plan = clean_up(table.load())
    assert plan is not None
    assert plan.start == 4
    assert readable(table, range(10)) == {v: "ok" if v >= 4 else "VERSION_NOT_FOUND" for v in range(10)}
    assert not [n for n in table.names() if n.startswith(f"{2:020d}.checkpoint")]


def test_a_second_cleanup_finds_nothing_to_do() -> None:
    table = daily(10, {4: "classic"})
    assert clean_up(table.load()) is not None
    before = table.names()
    assert clean_up(table.load()) is None
    assert table.names() == before


def test_a_table_that_only_keeps_its_checkpoint_is_cleaned_on_from_there() -> None:
    table = daily(12, {4: "classic", 7: "classic"})
    clean_up(table.load(), before=table.clock() - 6 * DAY)
    table.delete(commit(4))
    plan = clean_up(table.load())
    assert plan is not None
    assert plan.start == 7
    assert readable(table, range(7, 12)) == dict.fromkeys(range(7, 12), "ok")


# ---------------------------------------------------------------------------- sidecars


def sidecars(table: RawTable) -> list[str]:
    return [n for n in table.names() if n.startswith("_sidecars/")]


def test_sidecars_of_checkpoints_that_went_go_once_they_are_a_day_old() -> None:
    table = daily(10, {2: "v2-json", 4: "v2-parquet", 8: "v2-classic"})
    orphan_old = table.put("_sidecars/old.parquet", b"x")
    orphan_new = table.put("_sidecars/new.parquet", b"x")
    table.memory.set_modified(f"{LOG}/{orphan_old}", table.clock() - 5 * DAY)
    clean_up(table.load())
    assert orphan_old not in sidecars(table)
    assert orphan_new in sidecars(table)
    assert len(sidecars(table)) == 5  # two each of 4 and 8, and the new one
    assert readable(table, range(4, 10)) == dict.fromkeys(range(4, 10), "ok")


def test_a_sidecar_whose_name_is_encoded_in_the_checkpoint_is_not_an_orphan() -> None:
    table = daily(10, {4: "v2-json"})
    name = sidecars(table)[0]
    data = table.bytes(name)
    table.delete(name)
    table.put("_sidecars/with space.parquet", data)  # the path in the checkpoint is a URI
    table.memory.set_modified(f"{LOG}/_sidecars/with space.parquet", table.clock() - 5 * DAY)
    top = next(n for n in table.names() if n.startswith(f"{4:020d}.checkpoint"))
    bare = name.removeprefix("_sidecars/").encode()
    table.edit(top, lambda text: text.replace(bare, b"with%20space.parquet"))
    assert seen(table.load(4)) == table.state(4)
    clean_up(table.load())
    assert "_sidecars/with space.parquet" in sidecars(table)
    assert seen(table.load(4)) == table.state(4)


def test_no_sidecar_goes_while_a_checkpoint_cannot_be_read() -> None:
    """What cannot be read may refer to anything."""
    table = daily(10, {2: "v2-json", 8: "v2-json"})
    top = next(n for n in table.names() if n.startswith(f"{8:020d}.checkpoint"))
    table.edit(top, lambda data: data[:10])
    before = sidecars(table)
    clean_up(table.load())
    assert sidecars(table) == before


# ---------------------------------------------------------------------------- who may


def test_a_table_this_client_may_not_write_is_not_cleaned() -> None:
    table = RawTable().create(protocol=features(writers=["aNewThing"]), configuration=KEEP)
    for number in range(1, 6):
        table.commit(add(f"{number}"), tick=DAY)
        table.checkpoint()
    before = table.names()
    with pytest.raises(UnsupportedWriterFeatureError):
        clean_up(table.load())
    assert table.names() == before


def test_the_property_keeps_commits_from_cleaning_up() -> None:
    """The hook of a commit cleans, unless the table says no."""
    for enabled in (True, False):
        table = RawTable()
        more = {"delta.enableExpiredLogCleanup": str(enabled).lower(), "delta.checkpointInterval": "2"}
        table.transact(metadata(configuration={**KEEP, **more}))
        for number in range(10):
            table.clock.tick(DAY)
            table.transact(add(f"{number}"))
        assert (commit(0) in table.names()) is not enabled
        assert seen(table.load(), tombstones=False) == table.state().without_tombstones()


# ---------------------------------------------------------------------------- step by step


def _two_of_a_version() -> RawTable:
    table = daily(6, {2: "classic", 4: "classic"})
    table.checkpoint(2, "v2-json")
    table.checkpoint(4, "multipart")
    table.compact(1, 3)
    return table


LAYOUTS: dict[str, Callable[[], RawTable]] = {
    "classic": lambda: daily(6, {2: "classic", 4: "classic"}),
    "multipart": lambda: daily(6, {1: "multipart", 2: "multipart", 4: "multipart"}),
    "v2": lambda: daily(6, {1: "v2-json", 2: "v2-parquet", 4: "v2-json"}),
    "mixed": lambda: daily(6, {0: "v2-json", 1: "multipart", 2: "classic", 3: "v2-classic", 4: "v2-inline"}),
    "twice": _two_of_a_version,
}


def expired(table: RawTable) -> int:
    """The moment up to which version 4 is the newest that has expired."""
    return table.store.head(f"{LOG}/{commit(4)}").modified


@pytest.mark.parametrize("layout", LAYOUTS)
def test_after_each_step_old_versions_read_or_are_not_found_and_new_ones_read(layout: str) -> None:
    table = LAYOUTS[layout]()
    total = table.version + 1
    probe = RawTable(table.memory.handle(), table.clock, table.commits)
    steps = 0

    def look(op: str, name: str) -> None:
        nonlocal steps
        if op == "delete":
            steps += 1
            found = readable(probe, range(total))
            assert all(found[v] == "ok" for v in range(4, total)), name
            assert seen(probe.load(), tombstones=False) == table.state().without_tombstones()

    snapshot, moment = table.load(), expired(table)
    table.memory.hook = look
    plan = clean_up(snapshot, before=moment)
    table.memory.hook = None
    assert plan is not None
    assert plan.start == 4
    assert steps >= 7
    assert readable(table, range(total)) == {v: "ok" if v >= 4 else "VERSION_NOT_FOUND" for v in range(total)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cleanup_that_dies_at_any_operation_is_finished_by_the_next(
    layout: str, when: str, deep: bool
) -> None:
    # Every single operation in a deep run, every third otherwise.
    done = LAYOUTS[layout]()
    moment = expired(done)
    clean_up(done.load(), before=moment)
    expected = [n for n in done.names() if not n.startswith("_sidecars/")]
    base = LAYOUTS[layout]()
    last: list[str] = []
    for number in range(1, 200, 1 if deep else 3):
        store = base.memory.survivor()
        table = RawTable(store, base.clock, base.commits)
        snapshot = table.load()
        store.die_at(number, when=when)  # type: ignore[arg-type]
        try:
            clean_up(snapshot, before=moment)
        except StoreDied:
            pass
        else:
            break
        again = table.survivor()
        if again.names() == last:
            continue  # nothing was deleted since the crash before this one
        last = again.names()
        found = readable(again, range(again.version + 1))
        assert all(found[v] == "ok" for v in range(4, again.version + 1)), (number, found)
        assert verify(again.log, data=False).errors == ()
        clean_up(again.load(), before=moment)
        kept = [n.split(".checkpoint.")[0] for n in again.names() if not n.startswith("_sidecars/")]
        assert kept == [n.split(".checkpoint.")[0] for n in expected]
    else:
        pytest.fail("the cleanup never came to its end")
    assert number > 10


@given(histories(least=3, most=7), st.data())
def test_cleaning_any_table_at_any_moment_keeps_what_it_should(
    history: list[object], data: st.DataObject
) -> None:
    table = build(history, data.draw(artefacts(len(history))))  # type: ignore[arg-type]
    start = data.draw(st.integers(0, table.version))
    table.checkpoint(start, data.draw(st.sampled_from(FORMS)))
    moment = table.store.head(f"{LOG}/{commit(start)}").modified + data.draw(
        st.sampled_from([-1, 0, SECOND - 1])
    )
    table.clock.tick(3 * DAY)
    plan = clean_up(table.load(), before=moment)
    new_start = 0 if plan is None else plan.start
    assert new_start <= start
    for version, found in readable(table, range(table.version + 1)).items():
        assert found == ("ok" if version >= new_start else "VERSION_NOT_FOUND")


def test_a_checkpoint_written_by_the_product_is_a_start_like_any_other() -> None:
    table = daily(10)
    write_checkpoint(table.load(4))
    plan = clean_up(table.load())
    assert plan is not None
    assert plan.start == 4
    assert seen(table.load(), tombstones=False) == table.state().without_tombstones()


def test_a_reader_that_opened_before_the_cleanup_is_served_or_told() -> None:
    table = daily(10, {2: "classic", 5: "classic"})
    for version in range(10):
        twin = RawTable(table.memory.survivor(), table.clock, table.commits)
        snapshot = twin.load(version)
        clean_up(twin.load())
        try:
            assert seen(snapshot, tombstones=False) == twin.state(version).without_tombstones()
        except VersionNotFoundError:
            assert version < 5
    assert isinstance(table.store, MemoryStore)


def test_a_cleanup_takes_along_what_dead_writers_had_begun(tmp_path: Path) -> None:
    transaction = Transaction.begin(tmp_path)
    transaction.update_metadata(Metadata(id="t", schema_string='{"type":"struct","fields":[]}'))
    transaction.commit(operation="CREATE TABLE")
    old, young = (tmp_path / LOG / f"{TEMP_PREFIX}{name}" for name in ("old", "young"))
    for begun in (old, young):
        begun.write_bytes(b"half a checkpoint")
    os.utime(old, (1_000, 1_000))
    clean_up(load(TableLog.at(tmp_path)))
    assert (old.exists(), young.exists()) == (False, True)
