"""CLONE without Spark: row ids of a clone, and what becomes of the table that a clone replaces."""

from __future__ import annotations

import pytest

from support import log_dml
from support.log_commands import now
from support.tables import PARTITIONED, Clock, RawTable, add
from tidegate.commands.alter import cluster_by
from tidegate.commands.clone import absolute, clone
from tidegate.commands.clustering import clustering_columns, is_clustered
from tidegate.commands.drop_feature import drop_feature
from tidegate.errors import OptionError
from tidegate.files.paths import resolve_path
from tidegate.log import protection
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.storage.memory import MemoryStore


def _table(*batches: list[int]) -> TableLog:
    clock = Clock(now())
    log = TableLog(MemoryStore(clock=clock), clock=clock)
    log_dml.create(log, **{"delta.enableRowTracking": "true"})
    for rows in batches:
        log_dml.run(log, log_dml.append(rows))
    return log


def _ids(snapshot: Snapshot) -> list[tuple[int, int]]:
    """The first row id of each file, and the version of its rows."""
    files = snapshot.files()
    return sorted(
        zip(*(files.column(c).to_pylist() for c in ("baseRowId", "defaultRowCommitVersion")), strict=True)
    )


def test_rows_of_a_clone_keep_their_ids_and_are_as_old_as_the_clone() -> None:
    source = _table([1, 2], [3, 4, 5])
    log_dml.run(source, log_dml.delete(1, 2))
    target = TableLog(MemoryStore(), clock=now)
    clone(source, target)
    assert _ids(load(target)) == [(2, 0)]
    log_dml.run(target, log_dml.append([6]))
    assert _ids(load(target)) == [(2, 0), (5, 1)]


def test_rows_that_a_clone_brings_to_an_older_table_are_counted() -> None:
    target = _table([1])
    log_dml.run(target, log_dml.delete(1, 1))
    clone(_table([1, 2, 3, 4]), target, replace=True)
    log_dml.run(target, log_dml.append([5]))
    assert _ids(load(target)) == [(0, 3), (4, 4)]


@pytest.mark.parametrize("url", ["s3://b/a b%20c", "memory://m/a b%20c", "/data/a b%20c"])
def test_the_files_of_a_clone_are_found_wherever_the_source_lies(url: str) -> None:
    table = RawTable(MemoryStore(url=url)).create(add("x%20y.parquet"))
    (path,) = absolute(table.load()).column("path").to_pylist()
    assert " " not in path
    assert resolve_path(path).name == f"{url}/x y.parquet"


def test_a_clone_of_a_time_reads_the_log_it_was_given() -> None:
    source = _table([1], [2, 3])
    target = TableLog(MemoryStore(), clock=now)
    clone(source, target, timestamp=load(source, 0).timestamp.isoformat())
    assert (load(target).num_files, load(source).num_files) == (0, 2)
    with pytest.raises(OptionError):
        clone(source, TableLog(MemoryStore(), clock=now), version=0, timestamp="2026-01-01")


def _clustered(column: str) -> TableLog:
    """An empty table with the columns of ``PARTITIONED``, clustered by one of them."""
    log = RawTable().create(schema=PARTITIONED).log
    cluster_by(log, [column])
    return log


def test_a_clone_is_clustered_as_its_source_is_and_not_as_the_table_that_it_replaces() -> None:
    target = _clustered("name")
    clone(_clustered("id"), target, replace=True)
    assert clustering_columns(load(target)) == [("id",)]
    clone(RawTable().create(schema=PARTITIONED, partitions=["day"]).log, target, replace=True)
    snapshot = load(target)
    assert (snapshot.partition_columns, snapshot.domains) == (("day",), {})
    assert not is_clustered(snapshot)


def _empty() -> TableLog:
    clock = Clock(now())
    log = TableLog(MemoryStore(clock=clock), clock=clock)
    log_dml.create(log, **{"delta.enableDeletionVectors": "true"})
    return log


def test_a_clone_leaves_those_versions_protected_that_were_there_before_it_and_no_others() -> None:
    target, plain, source, new = _empty(), _empty(), _empty(), TableLog(MemoryStore(), clock=now)
    drop_feature(target, "deletionVectors")
    boundary = protection.boundary(load(target))
    log_dml.run(source, log_dml.append([1]))
    drop_feature(source, "deletionVectors")
    assert protection.boundary(load(source)) > boundary > 0
    for log in (target, plain, new):
        clone(source, log, replace=True)
    assert [protection.boundary(load(log)) for log in (target, plain, new)] == [boundary, 0, 0]
