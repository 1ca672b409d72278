"""delta-rs and Tidegate on one log: each reads what the other wrote, and they write in turns and in races."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlparse

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import tidegate
from support.peers import require_peer
from support.tables import column, schema_string, seen
from tidegate.files import deletion_vectors as vectors
from tidegate.files.paths import encode_path
from tidegate.log.actions import Add, Remove, Txn
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.columns import from_batch
from tidegate.log.snapshot import Snapshot
from tidegate.log.verify import verify
from tidegate.metadata import Metadata
from tidegate.transaction.transaction import Transaction

pytestmark = pytest.mark.peers

SCHEMA = schema_string(column("id"), column("name", "string"), column("day", "string"))


@pytest.fixture(scope="module")
def delta() -> ModuleType:
    return require_peer("delta-rs")


def rows_of(ids: range, day: str | None = None) -> pa.Table:
    ids = list(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"n{i}" for i in ids]),
            "day": pa.array([day] * len(ids), pa.string()),
        }
    )


@dataclass
class Ours:
    """A table at ``root`` that Tidegate writes, with real files, so that others can read the rows."""

    root: Path
    partitions: tuple[str, ...] = ()
    number: int = 0
    configuration: Mapping[str, str] = field(default_factory=dict)

    def create(self) -> Ours:
        transaction = Transaction.begin(self.root)
        transaction.update_metadata(
            Metadata(
                id="5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
                name="shared",
                description="by two engines",
                schema_string=SCHEMA,
                partition_columns=self.partitions,
                configuration=dict(self.configuration),
            )
        )
        transaction.commit(operation="CREATE TABLE")
        return self

    def file(self, ids: range, day: str | None = None) -> Add:
        """Write a data file; what the log will say of it."""
        self.number += 1
        name = f"ours {self.number:03d}.parquet"
        table = rows_of(ids, day).drop_columns(list(self.partitions))
        pq.write_table(table, self.root / name)
        stats = {
            "numRecords": len(ids),
            "minValues": {"id": ids[0]},
            "maxValues": {"id": ids[-1]},
            "nullCount": {"id": 0},
        }
        return Add(
            path=encode_path(name),
            partition_values=dict.fromkeys(self.partitions, day),
            size=(self.root / name).stat().st_size,
            modification_time=1_767_225_600_000,
            data_change=True,
            stats=json.dumps(stats),
        )

    def append(self, ids: range, day: str | None = None, *more: Any) -> int:
        return Transaction.begin(self.root).commit([self.file(ids, day), *more]).version

    def delete(self, predicate: str) -> int:
        """Remove every file that may match: a delete of whole files."""
        transaction = Transaction.begin(self.root)
        found = list(from_batch(transaction.files(predicate), Add))
        removes = [
            Remove(
                path=a.path,
                deletion_timestamp=1_767_225_600_000,
                data_change=True,
                extended_file_metadata=True,
                partition_values=a.partition_values,
                size=a.size,
            )
            for a in found
        ]
        return transaction.commit(removes, "DELETE").version

    def delete_rows(self, predicate: str, rows: list[int], *, inline: bool) -> int:
        """Mark rows of the one file that may match as deleted."""
        transaction = Transaction.begin(self.root)
        [found] = from_batch(transaction.files(predicate), Add)
        if inline:
            vector = vectors.inline(BitMap64(rows))
        else:
            written = vectors.write_file([BitMap64(rows)])
            (self.root / written.name).write_bytes(written.data)
            [vector] = written.vectors
        removed = Remove(path=found.path, data_change=True, partition_values={}, size=found.size)
        added = msgspec.structs.replace(found, deletion_vector=vector, data_change=True)
        return transaction.commit([removed, added], "DELETE").version

    def checkpoint(self) -> None:
        write_checkpoint(tidegate.open(self.root))

    def forget_commits(self) -> None:
        """Take away every commit that the last checkpoint covers."""
        log = self.root / "_delta_log"
        last = json.loads((log / "_last_checkpoint").read_text())["version"]
        for version in range(last):
            (log / f"{version:020d}.json").unlink(missing_ok=True)


def names_of(uris: list[str]) -> list[str]:
    return sorted(Path(unquote(urlparse(uri).path) if ":" in uri else uri).name for uri in uris)


def query(delta: ModuleType, table: Any, name: str) -> list[Any]:
    """One column of all rows, through delta-rs' own engine, which reads more than its pyarrow path does."""
    found = delta.QueryBuilder().register("t", table).execute(f'SELECT "{name}" FROM t').read_all()
    return [value.as_py() for chunk in pa.table(found).column(name).chunks for value in chunk]


def agree(delta: ModuleType, root: Path, ids: list[range] | None = None) -> tuple[Snapshot, Any]:
    """Both engines see the same table; with ``ids``, exactly these rows."""
    ours, theirs = tidegate.open(root), delta.DeltaTable(str(root))
    assert theirs.version() == ours.version
    paths = [unquote(p) for p in ours.files(columns=["path"]).column("path").to_pylist()]
    assert names_of(theirs.file_uris()) == sorted(Path(p).name for p in paths)
    metadata = theirs.metadata()
    assert (metadata.id, metadata.name, metadata.description) == (
        ours.metadata.id,
        ours.metadata.name,
        ours.metadata.description,
    )
    assert tuple(metadata.partition_columns) == ours.partition_columns
    assert metadata.configuration == dict(ours.properties)
    assert (
        json.loads(theirs.schema().to_json())["fields"] == json.loads(ours.metadata.schema_string)["fields"]
    )
    protocol = theirs.protocol()
    assert protocol.min_reader_version == ours.protocol.min_reader_version
    assert protocol.min_writer_version == ours.protocol.min_writer_version
    assert sorted(protocol.writer_features or ()) == sorted(ours.protocol.writer_features or ())
    assert len(theirs.history()) == len(ours.history())
    if ids is not None:
        assert sorted(query(delta, theirs, "id")) == sorted(i for r in ids for i in r)
    return ours, theirs


# ---------------------------------------------------------------------------- delta-rs reads our logs


@pytest.fixture(params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Ours:
    return Ours(tmp_path, ("day",) if request.param == "partitioned" else ()).create()


def test_appends(delta: ModuleType, table: Ours) -> None:
    agree(delta, table.root, [])
    table.append(range(10), "2026-01-01")
    table.append(range(10, 20), "2026-01-02")
    agree(delta, table.root, [range(20)])


def test_removes(delta: ModuleType, table: Ours) -> None:
    for number in range(6):
        table.append(range(10 * number, 10 * number + 10), "2026-01-01")
    table.delete("id BETWEEN 10 AND 29")
    agree(delta, table.root, [range(10), range(30, 60)])


@pytest.mark.parametrize("day", ["a b", "a/b", "a%2Fb", "ü=ö", "x'y", None], ids=str)
def test_partition_values_of_every_kind(delta: ModuleType, tmp_path: Path, day: str | None) -> None:
    table = Ours(tmp_path, ("day",)).create()
    table.append(range(3), day)
    _, theirs = agree(delta, tmp_path, [range(3)])
    assert set(query(delta, theirs, "day")) == {day}


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("forget", [False, True], ids=["commits there", "commits gone"])
def test_checkpoints(delta: ModuleType, tmp_path: Path, policy: str, forget: bool) -> None:
    table = Ours(tmp_path, ("day",), configuration={"delta.checkpointPolicy": policy}).create()
    for number in range(5):
        table.append(range(10 * number, 10 * number + 10), f"2026-01-0{number % 2 + 1}")
    table.delete("id < 10")
    table.checkpoint()
    if forget:
        table.forget_commits()
    agree(delta, tmp_path, [range(10, 50)])
    table.append(range(50, 60), "2026-01-03")
    agree(delta, tmp_path, [range(10, 60)])


def test_many_commits(delta: ModuleType, table: Ours) -> None:
    for number in range(45):
        table.append(range(number, number + 1), "2026-01-01")
        if number % 9 == 8:
            table.delete(f"id = {number - 1}")
    kept = [i for i in range(45) if i % 9 != 7]
    ours, _ = agree(delta, table.root, [range(i, i + 1) for i in kept])
    assert ours.version == 50
    assert (table.root / "_delta_log" / "00000000000000000050.checkpoint.parquet").exists()
    assert not verify(ours.log).findings


def test_applications(delta: ModuleType, table: Ours) -> None:
    table.append(range(3), "2026-01-01", Txn(app_id="stream", version=7, last_updated=1_767_225_600_000))
    table.append(range(3, 6), "2026-01-01", Txn(app_id="other", version=1))
    table.append(range(6, 9), "2026-01-01", Txn(app_id="stream", version=8))
    for _ in range(2):
        _, theirs = agree(delta, table.root, [range(9)])
        assert theirs.transaction_version("stream") == 8
        assert theirs.transaction_version("other") == 1
        assert theirs.transaction_version("nobody") is None
        table.checkpoint()
        table.forget_commits()


@pytest.mark.parametrize(
    "configuration",
    [
        {"delta.enableRowTracking": "true"},
        {"delta.enableInCommitTimestamps": "true"},
        {"delta.appendOnly": "true"},
        {"delta.enableChangeDataFeed": "true"},
        {"delta.enableDeletionVectors": "true"},
        {"tidegate.logCompactionInterval": "3"},
    ],
    ids=lambda c: next(iter(c)),
)
def test_features_that_do_not_bind_readers(
    delta: ModuleType, tmp_path: Path, configuration: dict[str, str]
) -> None:
    table = Ours(tmp_path, configuration=configuration).create()
    for number in range(12):
        table.append(range(10 * number, 10 * number + 10))
    agree(delta, tmp_path, [range(120)])


@pytest.mark.parametrize("stored", ["inline", "in a file"])
def test_deletion_vectors(delta: ModuleType, tmp_path: Path, stored: str) -> None:
    table = Ours(tmp_path, configuration={"delta.enableDeletionVectors": "true"}).create()
    table.append(range(10))
    table.append(range(10, 20))
    table.delete_rows("id = 3", [3, 4, 9], inline=stored == "inline")
    agree(delta, tmp_path, [range(3), range(5, 9), range(10, 20)])
    table.checkpoint()
    table.forget_commits()
    agree(delta, tmp_path, [range(3), range(5, 9), range(10, 20)])
    delta.DeltaTable(str(tmp_path)).delete("id = 5")
    agree(delta, tmp_path, [range(3), range(6, 9), range(10, 20)])


def test_time_travel(delta: ModuleType, table: Ours) -> None:
    for number in range(12):
        table.append(range(number, number + 1), "2026-01-01")
    for version in range(13):
        theirs = delta.DeltaTable(str(table.root), version=version)
        ours = tidegate.open(table.root, version=version)
        assert names_of(theirs.file_uris()) == sorted(unquote(p) for p in seen(ours).paths)


def test_history_says_who_wrote(delta: ModuleType, table: Ours) -> None:
    table.append(range(3), "2026-01-01")
    newest = delta.DeltaTable(str(table.root)).history(1)[0]
    assert newest["operation"] == "WRITE"
    assert newest["engineInfo"].startswith("Tidegate/")


# ---------------------------------------------------------------------------- we read theirs


@pytest.fixture(params=["plain", "partitioned"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path, delta: ModuleType) -> Path:
    """A table of three appends by delta-rs: ids 0 to 29 in two days."""
    by = ["day"] if request.param == "partitioned" else None
    for number in range(3):
        rows = rows_of(range(10 * number, 10 * number + 10), f"2026-01-0{number % 2 + 1}")
        delta.write_deltalake(str(tmp_path), rows, mode="append", partition_by=by)
    return tmp_path


def clean(root: Path) -> None:
    report = verify(tidegate.open(root).log)
    assert not report.findings, report.findings


def test_their_appends(delta: ModuleType, theirs: Path) -> None:
    ours, _ = agree(delta, theirs, [range(30)])
    assert ours.version == 2
    assert [h["operation"] for h in ours.history()] == ["WRITE", "WRITE", "WRITE"]
    clean(theirs)


def test_their_overwrites(delta: ModuleType, theirs: Path) -> None:
    delta.write_deltalake(str(theirs), rows_of(range(100, 110), "2026-01-05"), mode="overwrite")
    agree(delta, theirs, [range(100, 110)])
    more = rows_of(range(100, 103), "2026-01-05")
    delta.write_deltalake(str(theirs), more, mode="overwrite", predicate="id >= 100")
    agree(delta, theirs, [range(100, 103)])
    clean(theirs)


def test_their_deletes_and_updates(delta: ModuleType, theirs: Path) -> None:
    delta.DeltaTable(str(theirs)).delete("id BETWEEN 5 AND 14")
    agree(delta, theirs, [range(5), range(15, 30)])
    delta.DeltaTable(str(theirs)).update({"name": "'changed'"}, predicate="id = 20")
    agree(delta, theirs, [range(5), range(15, 30)])
    delta.DeltaTable(str(theirs)).delete()
    agree(delta, theirs, [])
    clean(theirs)


def test_their_merges(delta: ModuleType, theirs: Path) -> None:
    source = rows_of(range(25, 35), "2026-01-02")
    (
        delta.DeltaTable(str(theirs))
        .merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    agree(delta, theirs, [range(35)])
    clean(theirs)


def test_their_compaction_of_files(delta: ModuleType, theirs: Path) -> None:
    delta.DeltaTable(str(theirs)).optimize.compact()
    agree(delta, theirs, [range(30)])
    delta.DeltaTable(str(theirs)).optimize.z_order(["id"])
    agree(delta, theirs, [range(30)])
    clean(theirs)


def test_their_checkpoints_and_cleanup(delta: ModuleType, theirs: Path) -> None:
    delta.DeltaTable(str(theirs)).create_checkpoint()
    agree(delta, theirs, [range(30)])
    delta.DeltaTable(str(theirs)).delete("id < 10")
    delta.DeltaTable(str(theirs)).create_checkpoint()
    agree(delta, theirs, [range(10, 30)])
    for version in range(3):
        (theirs / "_delta_log" / f"{version:020d}.json").unlink()
    agree(delta, theirs, [range(10, 30)])


def test_their_vacuum(delta: ModuleType, theirs: Path) -> None:
    table = delta.DeltaTable(str(theirs))
    table.delete("id < 10")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    agree(delta, theirs, [range(10, 30)])
    clean(theirs)


def test_their_compaction_of_the_log(delta: ModuleType, theirs: Path) -> None:
    delta.DeltaTable(str(theirs)).delete("id < 10")
    table = delta.DeltaTable(str(theirs))
    table.compact_logs(0, table.version())
    assert list((theirs / "_delta_log").glob("*.compacted.json"))
    agree(delta, theirs, [range(10, 30)])
    clean(theirs)


def test_their_restore_and_properties(delta: ModuleType, theirs: Path) -> None:
    delta.DeltaTable(str(theirs)).delete("id < 10")
    delta.DeltaTable(str(theirs)).restore(2)
    agree(delta, theirs, [range(30)])
    delta.DeltaTable(str(theirs)).alter.set_table_properties({"delta.appendOnly": "true"})
    ours, _ = agree(delta, theirs, [range(30)])
    assert ours.properties["delta.appendOnly"] == "true"
    clean(theirs)


def test_their_many_commits(delta: ModuleType, tmp_path: Path) -> None:
    for number in range(25):
        delta.write_deltalake(str(tmp_path), rows_of(range(number, number + 1)), mode="append")
    for version in range(25):
        expected = delta.DeltaTable(str(tmp_path), version=version)
        ours = tidegate.open(tmp_path, version=version)
        assert names_of(expected.file_uris()) == sorted(unquote(p) for p in seen(ours).paths)
    agree(delta, tmp_path, [range(25)])


def test_their_table_with_vectors_switched_on(delta: ModuleType, theirs: Path) -> None:
    delta.DeltaTable(str(theirs)).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    ours, _ = agree(delta, theirs, [range(30)])
    assert ours.protocol.supports("deletionVectors")
    delta.DeltaTable(str(theirs)).delete("id = 3")
    agree(delta, theirs, [range(3), range(4, 30)])
    clean(theirs)


# ---------------------------------------------------------------------------- in turns


def test_both_write_in_turns(delta: ModuleType, table: Ours) -> None:
    root = table.root
    ids: list[range] = []
    for number in range(24):
        fresh = range(10 * number, 10 * number + 10)
        if number % 2:
            table.append(fresh, "2026-01-01")
        else:
            delta.write_deltalake(str(root), rows_of(fresh, "2026-01-02"), mode="append")
        ids.append(fresh)
        if number % 8 == 5:
            gone = ids.pop(0)
            if number % 16 == 5:
                delta.DeltaTable(str(root)).delete(f"id BETWEEN {gone[0]} AND {gone[-1]}")
            else:
                table.delete(f"id BETWEEN {gone[0]} AND {gone[-1]}")
        if number == 9:
            delta.DeltaTable(str(root)).create_checkpoint()
        if number == 15:
            table.checkpoint()
        agree(delta, root, ids)
    clean(root)
    delta.DeltaTable(str(root)).optimize.compact()
    table.append(range(1000, 1010), "2026-01-01")
    agree(delta, root, [*ids, range(1000, 1010)])
    clean(root)


def test_we_write_on_from_their_table(delta: ModuleType, theirs: Path) -> None:
    partitions = tidegate.open(theirs).partition_columns
    table = Ours(theirs, partitions)
    for number in range(3, 12):
        table.append(range(10 * number, 10 * number + 10), "2026-01-01")
    agree(delta, theirs, [range(120)])
    assert (theirs / "_delta_log" / "00000000000000000010.checkpoint.parquet").exists()
    assert (theirs / "_delta_log" / "00000000000000000011.crc").exists()
    clean(theirs)
    delta.DeltaTable(str(theirs)).delete("id >= 60")
    agree(delta, theirs, [range(60)])


def test_they_write_on_from_our_checkpoint_without_commits(delta: ModuleType, table: Ours) -> None:
    for number in range(3):
        table.append(range(10 * number, 10 * number + 10), "2026-01-01")
    table.checkpoint()
    table.forget_commits()
    delta.write_deltalake(str(table.root), rows_of(range(30, 40), "2026-01-02"), mode="append")
    agree(delta, table.root, [range(40)])


def test_their_stale_table_loses_to_our_commit_and_follows(delta: ModuleType, table: Ours) -> None:
    table.append(range(10), "2026-01-01")
    stale = delta.DeltaTable(str(table.root))
    table.append(range(10, 20), "2026-01-01")
    delta.write_deltalake(stale, rows_of(range(20, 30), "2026-01-01"), mode="append")
    agree(delta, table.root, [range(30)])


def test_our_stale_transaction_meets_their_commits(delta: ModuleType, table: Ours) -> None:
    table.append(range(10), "2026-01-01")
    blind, reader = Transaction.begin(table.root), Transaction.begin(table.root)
    reader.files()
    delta.write_deltalake(str(table.root), rows_of(range(10, 20), "2026-01-01"), mode="append")
    assert blind.commit([table.file(range(20, 30), "2026-01-01")]).version == 3
    with pytest.raises(tidegate.errors.ConcurrentAppendException):
        reader.commit([table.file(range(30, 40), "2026-01-01")])
    agree(delta, table.root, [range(30)])


def races(table: Ours, delta: ModuleType, turns: int) -> Iterator[threading.Thread]:
    def ours(start: int) -> None:
        mine = Ours(table.root, table.partitions, number=start)
        for number in range(turns):
            mine.append(range(start + number, start + number + 1), "2026-01-01")

    def theirs(start: int) -> None:
        # By itself it gives up after fifteen lost races.
        patient = delta.CommitProperties(max_commit_retries=1_000)
        for number in range(turns):
            row = rows_of(range(start + number, start + number + 1), "2026-01-02")
            delta.write_deltalake(str(table.root), row, mode="append", commit_properties=patient)

    for who, work in enumerate((ours, theirs, ours, theirs)):
        yield threading.Thread(target=work, args=(1000 * who,))


def test_both_write_at_once(delta: ModuleType, table: Ours, deep: bool) -> None:
    turns = 60 if deep else 8
    threads = list(races(table, delta, turns))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    ours, _ = agree(delta, table.root, [range(1000 * who, 1000 * who + turns) for who in range(4)])
    assert ours.version == 4 * turns
    clean(table.root)
