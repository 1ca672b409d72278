"""VACUUM: what it deletes, what it must not, and whom it refuses. No Spark."""

from __future__ import annotations

import json
import os
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.lifetimes import HOUR, Lifetime
from support.tables import RawTable, add, column, features, remove, schema_string
from tidegate.commands.table_names import below, hidden
from tidegate.commands.vacuum import vacuum
from tidegate.commands.vacuum_listing import listed, marks, ranges
from tidegate.errors import (
    CatalogManagedError,
    MaintenanceRefusedError,
    OptionError,
    ProtocolError,
    RetentionTooShortError,
    StorageError,
)
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.storage.memory import MemoryStore

WEEK = 168


def _run(table: Lifetime, hours: float | None = None, **more: Any) -> set[str]:
    done = vacuum(table.log, hours, check_retention=False, **more)
    table.forget(len(done.versions))
    return set(done.names.to_pylist())


# ---------------------------------------------------------------------------- by brute force

RETENTIONS = st.sampled_from([None, 0, 24, 168, 500])
STEPS = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([1, 30, 100, 170, 400])),
    st.tuples(st.just("add"), st.booleans()),
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("orphan"), st.none()),
    st.tuples(st.just("checkpoint"), st.none()),
    st.tuples(
        st.just("vacuum"),
        st.tuples(st.sampled_from([None, 0, 24, 168, 500]), st.sampled_from(["full", "lite"])),
    ),
)


def _play(table: Lifetime, steps: list[tuple[str, Any]]) -> None:
    reached = 0
    for what, value in steps:
        if what == "wait":
            table.wait(value)
        elif what == "add":
            table.add(vector=value, deep=value)
        elif what in ("remove", "update"):
            getattr(table, what)(value)
        elif what == "orphan":
            table.orphan()
        elif what == "checkpoint":
            table.checkpoint()
        else:
            hours, mode = value
            cutoff = table.now - (WEEK if hours is None else hours) * HOUR
            # What a shorter retention has let go before is not asked for again.
            reached = max(reached, cutoff)
            idle = table.idle(cutoff)
            before = table.names()
            deleted = _run(table, hours, mode=mode)
            assert table.names() == before - deleted
            assert table.needed(reached) <= table.names(), "a retained version has lost a file"
            if mode == "full":
                assert idle - table.needed(cutoff) <= deleted
                assert not table.idle(cutoff)


@given(st.lists(STEPS, min_size=3, max_size=25))
@example([("add", False), ("update", 0), ("wait", WEEK + 2)])
@example([("add", False), ("update", 0), ("wait", WEEK + 24)])
@example([("add", False), ("update", 0), ("wait", WEEK + 25)])
@example([("add", False), ("remove", 0), ("vacuum", (0, "full"))])
def test_no_version_within_the_retention_ever_loses_a_file(steps: list[tuple[str, Any]]) -> None:
    _play(Lifetime(), [*steps, ("vacuum", (None, "full"))])


@given(st.lists(STEPS, min_size=3, max_size=20))
def test_lite_finds_whatever_commits_took_out(steps: list[tuple[str, Any]]) -> None:
    """Orphans aside, lite and full leave the same files behind."""
    plain = [s for s in steps if s[0] not in ("orphan", "vacuum")]
    full, lite = Lifetime(), Lifetime()
    for table, mode in ((full, "full"), (lite, "lite")):
        _play(table, plain)
        table.wait(200)
        _run(table, mode=mode)
    assert len(full.names()) == len(lite.names())


# ---------------------------------------------------------------------------- one by one


@pytest.fixture
def table() -> Lifetime:
    made = Lifetime()
    made.add()
    made.add(vector=True)
    made.update(0)
    return made


def test_live_files_and_their_vectors_stay_however_old(table: Lifetime) -> None:
    table.wait(10_000)
    before = set(table.versions[-1].files)
    _run(table, 0)
    assert before <= table.names()


def test_files_removed_within_the_retention_stay(table: Lifetime) -> None:
    table.wait(500)
    table.remove(0)
    table.wait(WEEK - 1)
    assert not {n for n in _run(table) if n.startswith("part")}
    table.wait(2)
    assert {n for n in _run(table) if n.startswith("part")}


def test_a_longer_retention_than_the_tables_is_honoured_beyond_its_checkpoints(table: Lifetime) -> None:
    table.wait(100)
    table.remove(0)
    table.wait(300)
    table.add()
    table.checkpoint()
    assert load(table.log).tombstones(expired=True).num_rows == 0
    assert not {n for n in _run(table, 1000) if n.startswith("part")}


def test_change_files_of_commits_within_the_retention_stay_even_if_written_long_before() -> None:
    table = Lifetime()
    table.add()
    name = table._put("_change_data/cdc-slow.parquet")
    table.wait(200)
    table.update(0, change=name)
    assert name not in _run(table)
    # Clocks differ, so commits are looked at a day longer.
    table.wait(WEEK + 25)
    assert name in _run(table)


def test_no_change_file_is_kept_where_no_retention_is_asked_for() -> None:
    table = Lifetime()
    table.add()
    name = table._put("_change_data/cdc-now.parquet")
    table.update(0, change=name)
    table.wait(1)
    assert name not in _run(table, 2)
    assert name in _run(table, 0)


def test_files_that_may_be_committed_yet_stay(table: Lifetime) -> None:
    name = table.orphan()
    table.wait(WEEK - 1)
    assert name not in _run(table)
    table.wait(2)
    assert name in _run(table)


def test_a_dry_run_tells_and_does_nothing(table: Lifetime) -> None:
    name = table.orphan()
    table.wait(WEEK + 1)
    before, version = table.names(), load(table.log).version
    done = vacuum(table.log, dry_run=True)
    assert name in done.names.to_pylist()
    assert done.size >= 4
    assert (table.names(), load(table.log).version) == (before, version)


def test_start_and_end_are_in_the_history(table: Lifetime) -> None:
    table.orphan()
    table.wait(WEEK + 1)
    done = vacuum(table.log)
    end, start = load(table.log).history(2)
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationMetrics"]["numFilesToDelete"] == str(done.count)
    assert start["operationParameters"]["retentionCheckEnabled"] is True
    assert start["operationParameters"]["defaultRetentionMillis"] == WEEK * HOUR
    assert end["operationParameters"]["status"] == "COMPLETED"
    assert end["operationMetrics"]["numDeletedFiles"] == str(done.count)
    version = load(table.log).version
    vacuum(table.log, log_commits=False)
    assert load(table.log).version == version


def test_a_vacuum_that_fails_says_so_and_the_next_one_finishes(table: Lifetime) -> None:
    name = table.orphan()
    table.wait(WEEK + 1)
    deletes = []

    def failing(names: Any) -> None:
        deletes.append(list(names))
        raise StorageError("The disk is on fire.")

    original = table.raw.memory.delete
    table.raw.memory.delete = failing  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        vacuum(table.log)
    table.raw.memory.delete = original  # type: ignore[method-assign]
    assert deletes
    assert load(table.log).history(1)[0]["operationParameters"]["status"] == "FAILED"
    vacuum(table.log)
    assert name not in table.names()


def test_a_retention_below_the_tables_own_is_refused_unless_the_check_is_off(table: Lifetime) -> None:
    with pytest.raises(RetentionTooShortError, match="168"):
        vacuum(table.log, 167)
    for bad in (-1, float("nan"), "many"):
        with pytest.raises(RetentionTooShortError):
            vacuum(table.log, bad, check_retention=False)  # type: ignore[arg-type]
    vacuum(table.log, 168)
    vacuum(table.log, 0, check_retention=False)


@pytest.mark.parametrize(
    "hours",
    [
        float("inf"),
        1e300,
        pytest.param(10**400, id="an integer beyond floats"),
        Decimal("1e400"),
        Decimal("Infinity"),
        Fraction(10**400),
        np.float32("inf"),
    ],
)
def test_a_retention_beyond_all_times_keeps_everything(table: Lifetime, hours: Any) -> None:
    name = table.orphan()
    table.wait(100_000)
    table.remove(0)
    for mode in ("full", "lite"):
        assert vacuum(table.log, hours, mode=mode).names.to_pylist() == []  # type: ignore[arg-type]
    start = load(table.log).history(2)[1]["operationParameters"]["specifiedRetentionMillis"]
    assert 2**61 < start < 2**63
    assert name in table.names()


@pytest.mark.parametrize(
    "hours", [168, 168.0, Decimal(168), Fraction(336, 2), np.int64(168), np.float32(168)]
)
def test_a_retention_is_any_number(table: Lifetime, hours: Any) -> None:
    name = table.orphan()
    table.wait(WEEK)
    assert vacuum(table.log, hours, dry_run=True).retention_ms == WEEK * HOUR
    table.wait(1)
    assert name in vacuum(table.log, hours).names.to_pylist()


@pytest.mark.parametrize(
    "hours",
    [
        True,
        np.True_,
        "7",
        1j,
        pytest.param(-(10**400), id="an integer below floats"),
        float("-inf"),
        Decimal(-1),
        Decimal("-1e-400"),
        Decimal("NaN"),
        Decimal("sNaN"),
        np.float64("nan"),
        Fraction(-1, 2),
    ],
)
def test_what_is_no_number_from_0_on_is_no_retention(table: Lifetime, hours: Any) -> None:
    with pytest.raises(RetentionTooShortError, match="from 0 on"):
        vacuum(table.log, hours, check_retention=False)


def test_whom_the_protocol_shuts_out_may_not_delete() -> None:
    writers = RawTable().create(protocol=features(writers=["somethingNew"]))
    with pytest.raises(ProtocolError):
        vacuum(writers.log)
    assert writers.load().version == 0
    managed = RawTable()
    managed.create(protocol=features("catalogManaged", "vacuumProtocolCheck", writers=["inCommitTimestamp"]))
    with pytest.raises((CatalogManagedError, ProtocolError)):
        vacuum(managed.log)


# ---------------------------------------------------------------------------- lite and inventories


def test_lite_looks_at_commits_alone_and_remembers_how_far_it_came(table: Lifetime) -> None:
    orphan = table.orphan()
    table.wait(10)
    table.remove(0)
    table.wait(WEEK + 1)
    gone = _run(table, mode="lite")
    assert gone
    assert orphan not in gone
    info = json.loads(table.raw.store.get("_delta_log/_last_vacuum_info"))
    assert info == {"latestCommitVersionOutsideOfRetentionWindow": 4}
    table.wait(WEEK + 1)
    assert _run(table, mode="lite") == set()


def test_lite_needs_the_commits_since_the_last_time(table: Lifetime) -> None:
    table.checkpoint()
    table.wait(WEEK + 1)
    table.raw.store.delete(["_delta_log/00000000000000000000.json", "_delta_log/00000000000000000001.json"])
    with pytest.raises(MaintenanceRefusedError, match="LITE"):
        vacuum(table.log, mode="lite")
    vacuum(table.log)
    vacuum(table.log, mode="lite")


def test_an_inventory_stands_for_the_listing(table: Lifetime) -> None:
    one, other = table.orphan(), table.orphan()
    table.wait(WEEK + 1)
    inventory = pa.table(
        {
            "path": [one, "a-folder", *table.versions[-1].files],
            "length": [4, 0, *([4] * len(table.versions[-1].files))],
            "isDir": [False, True, *([False] * len(table.versions[-1].files))],
            "modificationTime": [0] * (2 + len(table.versions[-1].files)),
        }
    )
    assert _run(table, inventory=inventory) == {one}
    assert other in table.names()
    with pytest.raises(OptionError, match="isDir"):
        vacuum(table.log, inventory=inventory.drop_columns(["isDir"]))
    with pytest.raises(OptionError, match="inventory"):
        vacuum(table.log, mode="lite", inventory=inventory)


def test_an_inventory_sees_partitions_that_begin_with_an_underscore_and_counts_names_once(
    tmp_path: Path,
) -> None:
    raw = RawTable.on_disk(tmp_path)
    raw.create(partitions=["_p"], schema=schema_string(column("_p", "integer"), column("id")))
    root = raw.log.url
    given = [("_p=1/old", 0), ("_q=1/old", 0), ("twice", 0), ("twice", 0), ("young", 0), ("young", 1 << 60)]
    rows = [(f"{root}/{name}", 3, False, moment) for name, moment in given]
    rows += [(root, 0, True, 0), (f"{root}/_p=1", 0, True, 0), ("/elsewhere/_p=1/old", 3, False, 0)]
    columns = ("path", "length", "isDir", "modificationTime")
    inventory = pa.table({c: [r[i] for r in rows] for i, c in enumerate(columns)})
    done = vacuum(raw.log, dry_run=True, inventory=inventory)
    assert (done.names.to_pylist(), done.size) == (["_p=1/old", "twice"], 6)


# ---------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("part-0.parquet", False),
        ("p=1/part-0.parquet", False),
        ("_change_data/cdc-0.parquet", False),
        ("_change_data/p=1/cdc-0.parquet", False),
        ("_p=1/part-0.parquet", False),
        ("_q=1/part-0.parquet", True),
        ("_delta_log/0.json", True),
        ("_mine/notes.txt", True),
        (".hidden/part-0.parquet", True),
        ("p=1/.part-0.parquet.crc", True),
        ("_SUCCESS", True),
        ("deletion_vector_1.bin", False),
    ],
)
def test_what_is_the_tables_business(name: str, is_hidden: bool) -> None:
    assert hidden(name, ["_p"]) is is_hidden


def test_paths_of_the_log_and_names_of_the_storage_meet() -> None:
    paths = pa.array(
        [
            "a.parquet",
            "p=a%20b/c.parquet",
            "file:/data/t/d%25.parquet",
            "file:///data/t/e.parquet",
            "/data/t/f",
        ]
    )
    names = below("/data/t", paths).to_pylist()
    assert names == ["a.parquet", "p=a b/c.parquet", "d%.parquet", "e.parquet", "f"]
    assert below("/data/t", pa.array(["file:/data/tt/a"])).to_pylist() == ["/data/tt/a"]


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("s3://b/t", "s3a://b/t/a%20b"),
        ("s3a://b/t", "s3n://b/t/a%20b"),
        ("gcs://b/t", "gs://b/t/a%20b"),
        ("abfs://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t/a%20b"),
    ],
)
def test_a_file_of_the_table_is_known_by_every_scheme_of_its_store(root: str, path: str) -> None:
    assert below(root, pa.array([path])).to_pylist() == ["a b"]


def test_files_elsewhere_keep_their_scheme() -> None:
    assert below("s3://b/t", pa.array(["s3a://b/other/a"])).to_pylist() == ["s3a://b/other/a"]


def test_live_files_that_the_log_names_by_another_scheme_stay() -> None:
    raw = RawTable(MemoryStore(url="s3://b/t"))
    raw.store.put("a.parquet", b"x")
    raw.create(add("s3a://b/t/a.parquet"))
    later = TableLog(raw.store, clock=lambda: int(time.time() * 1000) + 1000 * HOUR)
    assert vacuum(later, dry_run=True).names.to_pylist() == []


def test_companions_and_many_files_go_quickly_on_a_disk(tmp_path: Path) -> None:
    raw = RawTable.on_disk(tmp_path)
    raw.create()
    for i in range(2_000):
        (tmp_path / f"lost-{i}.parquet").write_bytes(b"")
    (tmp_path / ".lost-1.parquet.crc").write_bytes(b"")
    log = TableLog(raw.store, clock=lambda: time.time_ns() // 1_000_000 + 200 * HOUR)
    done = vacuum(log)
    assert done.count == 2_000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["_delta_log"]


# ---------------------------------------------------------------------------- listing in parts, and folders


@given(
    st.sets(st.text("ab/-=~_.é", min_size=1, max_size=8).map(lambda t: t.strip("/")), max_size=30),
    st.integers(1, 12),
)
def test_ranges_cut_at_folders_hold_every_name_once(paths: set[str], most: int) -> None:
    folders = sorted(f"{p}/" for p in paths if p)
    cut = ranges(folders, most)
    assert len(cut) <= max(most, 2)
    names = sorted({*paths, *(f"{f}x" for f in folders), "", "zz"})
    held = [n for n in names for start, end in cut if n >= start and (end is None or n < end)]
    assert held == names


def test_a_disk_of_many_folders_is_listed_in_parts_and_nothing_is_missed(tmp_path: Path) -> None:
    raw = RawTable.on_disk(tmp_path)
    raw.create()
    wanted = set()
    for name in ["a.parquet", "z.parquet", "p=1-x.parquet", "_delta_index/i", "_hidden/h", "p=1/.tmp/t"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
        wanted |= {name} if "hidden" not in name and ".tmp" not in name else set()
    for i in range(30):
        for name in (f"p={i}/q={i % 3}/f.parquet", f"p={i}/f.parquet"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"x")
            wanted.add(name)
    found = listed(load(TableLog(raw.store)))
    assert len(marks(raw.store)) == 61
    assert found.files.column("name").to_pylist() == sorted(wanted)
    assert (found.folders, found.empty) == (62, ())


def test_folders_that_stood_empty_for_the_retention_go_and_younger_ones_stay(tmp_path: Path) -> None:
    raw = RawTable.on_disk(tmp_path)
    raw.create()
    for name in ("p=1/q=1", "p=2", "p=3/q=1", "_mine/p=1"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "p=3/q=1/lost.parquet").write_bytes(b"")
    (tmp_path / "p=2/.kept").write_bytes(b"")
    later = time.time_ns() // 1_000_000 + (WEEK + 1) * HOUR
    log = TableLog(raw.store, clock=lambda: later)
    assert vacuum(log, dry_run=True).folders == ("p=1/q=1", "p=2", "p=1")
    first = vacuum(log)
    assert (first.names.to_pylist(), first.folders) == (["p=3/q=1/lost.parquet"], ("p=1/q=1", "p=1"))
    end, start = load(log).history(2)
    assert start["operationMetrics"]["numFilesToDelete"] == "4"
    assert end["operationMetrics"] == {"numDeletedFiles": "3", "numVacuumedDirectories": "6"}
    # What this VACUUM has emptied is young: a writer may use it again. It goes when it has aged.
    os.utime(tmp_path / "p=3/q=1", ((later + HOUR) / 1000,) * 2)
    assert vacuum(log).folders == ()
    log = TableLog(raw.store, clock=lambda: later + (WEEK + 2) * HOUR)
    assert vacuum(log).folders == ("p=3/q=1", "p=3")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["_delta_log", "_mine", "p=2"]


# ---------------------------------------------------------------------------- links and strange names


def _aged(path: Path, *names: str) -> None:
    """Files of long ago, each in its folder."""
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"x")


def _later(raw: RawTable) -> TableLog:
    later = time.time_ns() // 1_000_000 + (WEEK + 1) * HOUR
    return TableLog(raw.store, clock=lambda: later)


def _on_disk(path: Path, *live: str) -> RawTable:
    """A table on a disk whose live files are there."""
    _aged(path, *live)
    return RawTable.on_disk(path).create(*(add(name) for name in live))


def test_a_live_file_stays_though_a_link_gives_it_another_name(tmp_path: Path) -> None:
    raw = _on_disk(tmp_path, "data/a.parquet")
    (tmp_path / "latest").symlink_to("data")
    (tmp_path / "data" / "top").symlink_to("..")
    done = vacuum(_later(raw))
    assert (done.names.to_pylist(), done.folders) == ([], ())
    assert (tmp_path / "latest" / "a.parquet").exists()
    assert (tmp_path / "data" / "top").is_symlink()


def test_what_lies_behind_a_link_to_a_folder_stays_and_so_does_the_link(tmp_path: Path) -> None:
    root = tmp_path / "table"
    raw = _on_disk(root, "a.parquet")
    _aged(root, "lost.parquet")
    _aged(tmp_path, "elsewhere/own.parquet")
    (root / "away").symlink_to(tmp_path / "elsewhere")
    (root / "p=1").mkdir()
    (root / "p=1" / "link").symlink_to(tmp_path / "elsewhere")
    (root / "itself").symlink_to("itself")
    (root / "one.parquet").symlink_to(tmp_path / "elsewhere" / "own.parquet")
    done = vacuum(_later(raw))
    assert (done.names.to_pylist(), done.folders) == (["lost.parquet", "one.parquet"], ())
    assert (tmp_path / "elsewhere" / "own.parquet").exists()
    assert sorted(p.name for p in root.iterdir()) == ["_delta_log", "a.parquet", "away", "itself", "p=1"]


def test_a_live_file_that_the_log_names_through_a_link_stays_under_its_own_name_too(tmp_path: Path) -> None:
    raw = _on_disk(tmp_path / "table", "data/b.parquet")
    root = tmp_path / "table"
    _aged(root, "data/a.parquet", "data/lost.parquet")
    _aged(tmp_path, "elsewhere/c.parquet")
    (root / "latest").symlink_to("data")
    (root / "p=1").symlink_to(tmp_path / "elsewhere")
    raw.commit(add("latest/a.parquet"), add("p=1/c.parquet"))
    assert vacuum(_later(raw)).names.to_pylist() == ["data/lost.parquet"]
    assert (root / "latest" / "a.parquet").exists()
    assert (root / "p=1" / "c.parquet").exists()


def test_a_table_is_vacuumed_through_a_link_to_it_as_under_its_own_name(tmp_path: Path) -> None:
    root = tmp_path / "table"
    raw = _on_disk(root, "a.parquet", "p=1/b.parquet")
    (tmp_path / "link").symlink_to(root)
    _aged(root, "lost.parquet", "own.parquet", "linked.parquet")
    raw.commit(add(f"file:{root}/own.parquet"), add(f"file:{tmp_path}/link/linked.parquet"))
    for place in (root, tmp_path / "link"):
        assert vacuum(_later(RawTable.on_disk(place)), dry_run=True).names.to_pylist() == ["lost.parquet"]
    assert vacuum(_later(RawTable.on_disk(tmp_path / "link"))).count == 1
    assert not (root / "lost.parquet").exists()


def test_neither_the_log_nor_an_inventory_leads_behind_a_link(tmp_path: Path) -> None:
    raw = _on_disk(tmp_path, "data/a.parquet", "data/b.parquet")
    (tmp_path / "latest").symlink_to("data")
    raw.commit(remove("data/b.parquet"), remove("latest/a.parquet"))
    names = ["latest/a.parquet", "data/b.parquet"]
    inventory = pa.table(
        {"path": names, "length": [1, 1], "isDir": [False, False], "modificationTime": [0, 0]}
    )
    for more in ({"mode": "lite"}, {"inventory": inventory}):
        assert vacuum(_later(raw), dry_run=True, **more).names.to_pylist() == ["data/b.parquet"]  # type: ignore[arg-type]


def test_a_file_whose_name_is_no_text_is_left_alone(tmp_path: Path) -> None:
    raw = _on_disk(tmp_path, "a.parquet")
    _aged(tmp_path, "lost.parquet", "sub/lost.parquet")
    strange = [os.fsencode(tmp_path) + b"/" + name for name in (b"sub/\xff.parquet", b"\xfe/\xff.parquet")]
    strange.append(os.fsencode(tmp_path) + b"/p=1/\xff.parquet")
    try:
        for path in strange:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb"):
                pass
    except OSError:
        pytest.skip("this file system has no such names")
    raw.commit(add("%FF.parquet"), add(f"file:{tmp_path}/%FF.parquet"), remove("sub/%FF.parquet"))
    for mode in ("lite", "full"):
        done = vacuum(_later(raw), mode=mode)  # type: ignore[arg-type]
        assert done.folders == ()
    assert done.names.to_pylist() == ["lost.parquet", "sub/lost.parquet"]
    assert all(os.path.exists(path) for path in strange)
    assert (tmp_path / "a.parquet").exists()


def test_a_path_of_the_log_that_is_no_text_stays_as_it_is_written() -> None:
    paths = pa.array(["%FF.parquet", "file:/data/t/%FF", "%C3%A9"])
    assert below("/data/t", paths).to_pylist() == ["%FF.parquet", "file:/data/t/%FF", "é"]
