"""Index tables on object storage: writers race by conditional puts, splits are searched, tables are found."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from support.index_tables import SCHEMA, V2, adds, paths, split
from support.s3 import SECRET_KEY, S3Server, s3_server
from tidegate.errors import NotATableError
from tidegate.index.cache import shared_cache
from tidegate.index.companion import build, refresh
from tidegate.index.local import write_table
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import merge_splits
from tidegate.index.tables import Searchable
from tidegate.log.verify import verify
from tidegate.metadata import Metadata
from tidegate.storage import open_store
from tidegate.transaction.transaction import Transaction

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


def test_writers_on_s3_all_succeed_and_the_table_is_found(s3: S3Server) -> None:
    url = f"s3://{s3.bucket()}/logs"
    with pytest.raises(NotATableError):
        tidegate.open(url, storage_options=s3.options)
    IndexLog.at(url, s3.options).create(SCHEMA)

    def write(writer: int) -> list[int]:
        log = IndexLog.at(url, s3.options, {"spark.indextables.checkpoint.interval": "4"})
        return [log.append(adds(split(f"{writer}-{n}.split", **V2))).version for n in range(3)]

    with ThreadPoolExecutor(4) as pool:
        versions = [v for done in pool.map(write, range(4)) for v in done]
    assert sorted(versions) == list(range(1, 13))
    found = tidegate.open(url, storage_options=s3.options)
    assert (found.log.dialect.name, found.num_files) == ("indextables", 12)
    assert verify(found.log, data=False).ok
    log = IndexLog.at(url, s3.options)
    log.truncate_history()
    assert len(paths(IndexLog.at(url, s3.options).snapshot())) == 12


def test_where_both_are_there_the_delta_table_is_opened(
    s3: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"s3://{s3.bucket()}/both"
    IndexLog.at(url, s3.options).create(SCHEMA)
    txn = Transaction.begin(url, s3.options)
    txn.update_metadata(Metadata(id="delta", schema_string=SCHEMA))
    txn.commit()
    assert tidegate.open(url, storage_options=s3.options).metadata.id == "delta"
    assert "holds both" in caplog.text


def rows(start: int) -> pa.Table:
    ids = list(range(start, start + 6))
    return pa.table({"id": ids, "day": [f"d {i % 2}" for i in ids], "s": [f"word{i} common" for i in ids]})


def found(url: str, s3: S3Server, query: str, version: int | None = None) -> list[int]:
    """What a search finds that has nothing on the local disk yet."""
    shared_cache().clear()
    table = Searchable.open(url, version=version, storage_options=s3.options)
    ids = sorted(table.search(query, ["id", "s"]).table().column("id").to_pylist())
    assert table.count(query) == len(ids)
    return ids


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.usefixtures("cache")
def test_splits_are_written_searched_merged_and_purged_there(
    s3: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"s3://{s3.bucket()}/some/logs"
    options = {"indexing.typemap.s": "text", "purge.retentionCheckEnabled": "false"}
    for start in (0, 100):
        write_table(rows(start), url, partition_by=("day",), options=options, storage_options=s3.options)
    assert (found(url, s3, "word3 OR word104"), found(url, s3, 'day:"d 1" AND id:<4')) == ([3, 104], [1, 3])
    log = IndexLog.at(url, s3.options, options)
    done = merge_splits(log, "10M", storage_options=s3.options)
    assert (done.merged, done.created) == (4, 2)
    assert found(url, s3, "common") == found(url, s3, "common", version=1) == [*range(6), *range(100, 106)]
    log.drop_partitions("day = 'd 0'")
    log.truncate_history()
    assert len(log.purge(retention_hours=0).paths) == 5
    assert found(url, s3, "common") == [1, 3, 5, 101, 103, 105]
    assert SECRET_KEY not in caplog.text


@pytest.mark.usefixtures("cache")
def test_a_companion_of_a_table_there_is_exact_and_refreshed(s3: S3Server, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    url, local = f"s3://{s3.bucket()}/delta", tmp_path / "delta"

    def append(start: int) -> None:
        deltalake.write_deltalake(str(local), rows(start), mode="append", partition_by=["day"])
        store = open_store(url, s3.options)
        there = {i.name for i in store.list_from("", recursive=True)}
        for file in sorted(local.rglob("*"), key=lambda f: "_delta_log" in f.parts):
            name = file.relative_to(local).as_posix()
            if file.is_file() and name not in there:
                store.put(name, file.read_bytes())

    append(0)
    index = build(url, None, ["id", "s"], {"indexing.typemap.s": "text"}, storage_options=s3.options)
    append(100)
    for indexed in (2, 0):
        assert found(index, s3, "word3 OR word104") == [3, 104]
        assert found(index, s3, "common", version=0) == list(range(6))
        assert refresh(IndexLog.at(index, s3.options), None, s3.options).files_indexed == indexed
