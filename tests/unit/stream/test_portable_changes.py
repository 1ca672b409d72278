"""The change feed as a stream of files: which files a batch names, and the rows that tasks make of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.peers import require_peer
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.spark.scan.projection import Layout
from tidegate.spark.stream.portable import FilesReader, file_plan, reading_files
from tidegate.spark.stream.tail import StreamOptions, Tail

_CONSTANTS = ["p", "version", "time", "kind", "hidden"]


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Version 0 has four rows; 1 updates one, with change files; 2 deletes one; 3 appends one."""
    deltalake: Any = require_peer("delta-rs")
    path = str(tmp_path / "table")
    rows = pa.table({"id": [0, 1, 2, 3], "p": ["a", "b", "a", "b"], "v": ["old"] * 4})
    feed = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(path, rows, partition_by=["p"], configuration=feed)
    deltalake.DeltaTable(path).update(predicate="id = 3", updates={"v": "'new'"})
    deltalake.DeltaTable(path).delete("id = 2")
    more = pa.table({"id": [4], "p": ["a"], "v": ["late"]})
    deltalake.write_deltalake(path, more, mode="append")
    return path


def _rows(reader: FilesReader, path: str, start: Any, end: Any) -> list[tuple[Any, ...]]:
    """The rows between two offsets, as tasks read them: columns, kind of change and version."""
    shape = load(TableLog.at(path))
    plan, _ = file_plan(shape, Layout.of(shape.metadata), changes=True)
    work = reading_files(plan, _CONSTANTS)

    def named() -> Iterator[pa.RecordBatch]:
        for partition in reader.partitions(start, end):
            yield from reader.read(partition)

    found = []
    for batch in work(named()):
        for row in batch.to_pylist():
            assert row["hidden"] is None
            found.append((row["id"], row["p"], row["v"], row["_change_type"] or row["kind"], row["version"]))
    return sorted(found)


def _reader(path: str, **options: Any) -> FilesReader:
    log = TableLog.at(path)
    return FilesReader(Tail(log, load(log), StreamOptions(changes=True, **options)))


def test_every_change_since_a_version_comes_with_its_kind_and_version(table: str) -> None:
    reader = _reader(table, starting_version=1)
    start = reader.initialOffset()
    assert _rows(reader, table, start, reader.latestOffset(start)) == [
        (2, "a", "old", "delete", "2"),
        (3, "b", "new", "update_postimage", "1"),
        (3, "b", "old", "update_preimage", "1"),
        (4, "a", "late", "insert", "3"),
    ]


def test_without_a_beginning_the_rows_that_are_there_come_first_as_inserts(table: str) -> None:
    reader = _reader(table)
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    assert _rows(reader, table, start, end) == [
        (0, "a", "old", "insert", "3"),
        (1, "b", "old", "insert", "3"),
        (3, "b", "new", "insert", "3"),
        (4, "a", "late", "insert", "3"),
    ]
    assert reader.partitions(end, end) == []
