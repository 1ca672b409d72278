"""Version checksums: carried on commit by commit they say what counting from scratch does."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.histories import EVERYTHING, histories
from support.tables import (
    RawTable,
    add,
    commit_info,
    domain,
    lines,
    metadata,
    protocol,
    remove,
    seen,
    small_table,
    stats,
    structs,
    txn,
    vector,
)
from tidegate.log import checksum as checksums
from tidegate.log.checkpoint.write import write_checkpoint, write_checksum
from tidegate.log.checksum import BOUNDARIES, Checksum
from tidegate.log.columns import ADD_SCHEMA, to_batch
from tidegate.log.commits import CommitActions, decode_commit
from tidegate.log.replay import SmallState, small_state
from tidegate.log.snapshot import Snapshot
from tidegate.transaction.transaction import Transaction


def of(snapshot: Snapshot, *, listed: bool = True) -> Checksum:
    """From scratch: every live file is counted."""
    files = snapshot.files()
    structs = [a for b in files.to_batches() for a in checksums.from_batch(b, checksums.Add)]
    return checksums.of_state(
        checksums.count(files.to_batches()),
        snapshot.replayed_small(),
        all_files=structs if listed else None,
    )


def comparable(checksum: Checksum) -> Any:
    """A checksum without the order of its lists and what ``dataChange`` was when a file came."""
    body = json.loads(checksums.encode(checksum))
    for name in ("setTransactions", "domainMetadata", "allFiles"):
        if name in body:
            for item in body[name]:
                item.pop("dataChange", None)
            body[name] = sorted(body[name], key=json.dumps)
    return body


def carried(
    actions: CommitActions,
    previous: Checksum | None,
    small: SmallState,
    live: checksums.LiveAmong | None = None,
) -> Checksum | None:
    if previous is None:
        previous = checksums.of_state(checksums.count([]), small, all_files=[])
    return checksums.advance(
        previous, small, actions.adds, actions.removes, txn_id=None, in_commit_timestamp=None, live=live
    )


def follow(history: list[Any], *, listed: bool, asked: bool = False) -> int:
    """Carry a checksum along a history and compare each with one made from scratch; how many came out."""
    live: checksums.LiveAmong | None = None
    table = RawTable()
    small, previous, known = SmallState(), None, 0
    for actions in history:
        table.commit(*actions)
        decoded = decode_commit(lines(table.commits[-1]), "x")
        small = small_state(decoded).over(small)
        found = carried(decoded, previous, small, live)
        now = table.load()
        scratch = of(now, listed=listed)
        live = now.live_among if asked else None
        if found is not None:
            known += 1
            if not listed:
                found = msgspec.structs.replace(found, all_files=None)
            assert comparable(found) == comparable(scratch)
        previous = found or scratch
    return known


# ---------------------------------------------------------------------------- incremental


@given(histories())
def test_carried_on_with_its_files_listed_it_is_exact_whatever_writers_do(history: list[Any]) -> None:
    assert follow(history, listed=True) == len(history)


@pytest.mark.parametrize("asked", [False, True])
@given(histories(careful=True))
def test_carried_on_without_its_files_it_is_exact_for_careful_writers(
    asked: bool, history: list[Any]
) -> None:
    follow(history, listed=False, asked=asked)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 60))
def test_growing_past_fifty_files_keeps_the_counts_and_drops_the_list(
    first: int, more: int, gone: int
) -> None:
    table = RawTable().create(*(add(f"a{n}", n) for n in range(first)))
    small = small_state(decode_commit(lines(table.commits[0]), "x"))
    previous = carried(decode_commit(lines(table.commits[0]), "x"), None, small)
    assert previous is not None
    assert (previous.all_files is None) == (first > 50)
    table.commit(
        *(add(f"b{n}", n) for n in range(more)), *(remove(f"a{n}", n) for n in range(min(gone, first)))
    )
    found = carried(decode_commit(lines(table.commits[1]), "x"), previous, small)
    assert found is not None
    state = table.state()
    assert (found.num_files, found.table_size_bytes) == (len(state.files), state.size)
    if found.all_files is not None:
        assert sorted(a.path for a in found.all_files) == state.paths


BASE = 60  # more files than a checksum lists


def large(*actions: Any, asked: bool = False) -> Checksum | None:
    """What follows from the checksum of a table of ``BASE`` files after one more commit."""
    table = RawTable().create(*(add(f"a{n}", 100) for n in range(BASE)), protocol=EVERYTHING)
    snapshot = table.load()
    previous = of(snapshot, listed=False)
    decoded = decode_commit(lines([commit_info(), *actions]), "x")
    small = small_state(decoded).over(snapshot.small)
    return carried(decoded, previous, small, snapshot.live_among if asked else None)


def test_files_added_and_removed_are_counted() -> None:
    found = large(add("new", 7), remove("a1", 100), remove("a2", 100))
    assert found is not None
    assert (found.num_files, found.table_size_bytes) == (BASE - 1, (BASE - 2) * 100 + 7)


def test_a_remove_without_its_size_makes_the_next_one_unknown() -> None:
    assert large(remove("a1", None)) is None


def test_a_remove_that_only_keeps_a_vectors_file_does_not_count() -> None:
    found = large(add("new", 7), remove("deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin", None))
    assert found is not None
    assert found.num_files == BASE + 1


def test_adds_that_may_only_renew_entries_make_the_next_one_unknown() -> None:
    assert large(add("a1", 100, change=False, tags={"a": "b"})) is None
    assert large(add("a1", 100, change=False), add("new", 1)) is None


REARRANGED = (
    remove("a1", 100, change=False),
    remove("a2", 100, change=False),
    add("b", 200, change=False),
)


def test_rearranging_files_is_counted_where_the_table_can_be_asked() -> None:
    found = large(*REARRANGED, asked=True)
    assert found is not None
    assert (found.num_files, found.table_size_bytes) == (BASE - 1, BASE * 100)
    assert large(*REARRANGED) is None


def test_an_entry_that_is_renewed_beside_removes_counts_once_or_makes_the_next_one_unknown() -> None:
    renewed = add("a3", 100, change=False, tags={"a": "b"})
    found = large(*REARRANGED, renewed, asked=True)
    assert found is not None
    assert (found.num_files, found.table_size_bytes) == (BASE - 1, BASE * 100)
    assert large(*REARRANGED, renewed) is None


def test_renewed_entries_alone_are_counted_where_the_table_can_be_asked() -> None:
    found = large(add("a1", 90, change=False), add("new", 1), asked=True)
    assert found is not None
    assert (found.num_files, found.table_size_bytes) == (BASE + 1, BASE * 100 - 10 + 1)


def test_removing_more_than_there_is_makes_the_next_one_unknown() -> None:
    assert large(*(remove(f"x{n}", 100) for n in range(BASE + 1))) is None
    assert large(remove("a1", 10_000_000)) is None


def test_a_new_vector_moves_the_deleted_rows() -> None:
    dv = vector(cardinality=12)
    found = large(remove("a1", 100), add("a1", 100, dv=dv, stats=stats()))
    assert found is not None
    assert (found.num_files, found.num_deletion_vectors_opt, found.num_deleted_records_opt) == (BASE, 1, 12)
    histogram = found.deleted_record_counts_histogram_opt
    assert histogram is not None
    assert histogram.deleted_record_counts == (BASE - 1, 0, 1, 0, 0, 0, 0, 0, 0, 0)


def test_without_a_histogram_nothing_follows() -> None:
    previous = Checksum(table_size_bytes=0, num_files=0)
    small = SmallState()
    assert checksums.advance(previous, small, [], [], txn_id=None, in_commit_timestamp=None) is None


def test_listed_files_that_are_not_those_counted_are_not_believed() -> None:
    table = small_table()
    honest = of(table.load())
    lying = msgspec.structs.replace(honest, all_files=honest.all_files[:1])  # type: ignore[index]
    decoded = decode_commit(lines([remove("f2.parquet", 200)]), "x")
    found = carried(decoded, lying, table.load().small)
    assert found is not None
    assert (found.num_files, found.table_size_bytes, found.all_files) == (1, 300, None)


# ---------------------------------------------------------------------------- counting


@given(st.lists(st.integers(0, 2**45), max_size=80), st.integers(1, 40))
def test_histograms_count_every_file_in_its_bin(sizes: list[int], batch: int) -> None:
    made = [
        to_batch(
            [checksums.Add(path="p", size=s, modification_time=0, data_change=True) for s in chunk],
            ADD_SCHEMA,
        )
        for chunk in (sizes[i : i + batch] for i in range(0, len(sizes), batch))
    ]
    found = checksums.count(made)
    assert (found.files, found.size) == (len(sizes), sum(sizes))
    for at, low in enumerate(BOUNDARIES):
        high = BOUNDARIES[at + 1] if at + 1 < len(BOUNDARIES) else float("inf")
        inside = [s for s in sizes if low <= s < high]
        assert found.bins[at] == (len(inside), sum(inside))


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**33)), max_size=60))
def test_deleted_rows_are_counted_in_decades(cardinalities: list[int | None]) -> None:
    actions = [
        add(f"{n}", dv=None if c is None else vector(f"{n}", cardinality=c))
        for n, c in enumerate(cardinalities)
    ]
    found = checksums.count(decode_commit(lines([commit_info(), *actions]), "x").adds)
    counts = [c or 0 for c in cardinalities]
    assert found.deleted == sum(counts)
    assert found.vectors == len([c for c in cardinalities if c is not None])
    edges = [0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 2**31 - 1, 2**63]
    expected = [len([c for c in counts if a <= c < b]) for a, b in pairwise(edges)]
    assert list(found.deleted_bins) == expected


# ---------------------------------------------------------------------------- the file


def test_the_file_has_every_field_under_delta_sparks_name() -> None:
    table = small_table(protocol=EVERYTHING)
    table.commit(txn("app", 1, 5), domain("d", "{}"), domain("gone", "{}", removed=True))
    snapshot = table.load()
    full = msgspec.structs.replace(of(snapshot), txn_id="t", in_commit_timestamp_opt=7)
    body = json.loads(checksums.encode(full))
    assert set(body) == {
        "txnId",
        "tableSizeBytes",
        "numFiles",
        "numMetadata",
        "numProtocol",
        "inCommitTimestampOpt",
        "setTransactions",
        "domainMetadata",
        "metadata",
        "protocol",
        "fileSizeHistogram",
        "allFiles",
        "numDeletedRecordsOpt",
        "numDeletionVectorsOpt",
        "deletedRecordCountsHistogramOpt",
    }
    assert set(body["fileSizeHistogram"]) == {"sortedBinBoundaries", "fileCounts", "totalBytes"}
    assert list(body["deletedRecordCountsHistogramOpt"]) == ["deletedRecordCounts"]
    assert (body["numFiles"], body["tableSizeBytes"]) == (2, 500)
    assert (body["numMetadata"], body["numProtocol"]) == (1, 1)
    assert body["setTransactions"] == [{"appId": "app", "version": 1, "lastUpdated": 5}]
    assert [d["domain"] for d in body["domainMetadata"]] == ["d"]
    assert body["metadata"] == table.state().metadata
    assert {
        k: sorted(v) if isinstance(v, list) else v for k, v in body["protocol"].items()
    } == table.state().protocol
    assert sorted(f["path"] for f in body["allFiles"]) == ["f2.parquet", "f3.parquet"]


def test_empty_lists_are_written_so_that_none_means_unknown() -> None:
    body = json.loads(checksums.encode(of(RawTable().create().load())))
    assert (body["setTransactions"], body["domainMetadata"], body["allFiles"]) == ([], [], [])


def test_vectors_are_not_spoken_of_where_the_table_cannot_have_them() -> None:
    body = json.loads(checksums.encode(of(small_table().load())))
    assert not [k for k in body if "Delet" in k]


def test_lists_that_are_too_long_are_left_out() -> None:
    table = RawTable().create(
        *(txn(f"a{n}", 1) for n in range(101)),
        *(domain(f"d{n}") for n in range(11)),
        *(add(f"f{n}") for n in range(51)),
        protocol=EVERYTHING,
    )
    found = of(table.load())
    assert (found.set_transactions, found.domain_metadata, found.all_files) == (None, None, None)
    assert found.num_files == 51


@given(histories())
def test_a_checksum_reads_back_as_it_was(history: list[Any]) -> None:
    table = RawTable()
    for actions in history:
        table.commit(*actions)
    made = of(table.load())
    assert checksums.decode(checksums.encode(made)) == made


def test_a_snapshot_that_trusts_its_checksum_says_the_same() -> None:
    table = small_table(protocol=EVERYTHING)
    table.commit(txn("app", 1), domain("d", "{}"))
    expected = table.state()
    table.put(f"{5:020d}.crc", checksums.encode(of(table.load())))
    assert seen(table.load()) == expected


OLD = {
    "tableSizeBytes": 300,
    "numFiles": 2,
    "numMetadata": 1,
    "numProtocol": 1,
    "metadata": metadata()["metaData"],
    "protocol": protocol()["protocol"],
    "histogramOpt": {
        "sortedBinBoundaries": [0, 1000, 2000],
        "fileCounts": [2, 0, 0],
        "totalBytes": [300, 0, 0],
    },
    "somethingNew": {"x": 1},
}


def test_the_old_name_of_the_histogram_is_understood_and_its_bins_are_kept() -> None:
    previous = checksums.decode(json.dumps(OLD).encode())
    assert previous is not None
    decoded = decode_commit(lines([add("new", 1500)]), "x")
    found = carried(decoded, previous, SmallState(previous.protocol, previous.metadata))
    assert found is not None
    assert found.file_size_histogram is not None
    assert found.file_size_histogram.sorted_bin_boundaries == (0, 1000, 2000)
    assert found.file_size_histogram.file_counts == (2, 1, 0)
    assert found.file_size_histogram.total_bytes == (300, 1500, 0)
    assert b"histogramOpt" not in checksums.encode(found)


@pytest.mark.parametrize(
    "histogram",
    [
        {"sortedBinBoundaries": [], "fileCounts": [], "totalBytes": []},
        {"sortedBinBoundaries": [5], "fileCounts": [2], "totalBytes": [300]},
        {"sortedBinBoundaries": [0, 10], "fileCounts": [2], "totalBytes": [300]},
    ],
)
def test_a_histogram_that_makes_no_sense_carries_nothing_on(histogram: Any) -> None:
    found = checksums.decode(json.dumps({**OLD, "histogramOpt": histogram}).encode())
    assert found is not None
    assert checksums.counts_of(found) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"{}",
        b'{"tableSizeBytes":1}',
        b'{"tableSizeBytes":-1,"numFiles":0}',
        b'{"tableSizeBytes":1,"numFiles":1.5}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"tableSizeBytes":1,"numFiles":1,"metadata":{}}',
    ],
)
def test_what_is_no_checksum_is_none(data: bytes) -> None:
    assert checksums.decode(data) is None


@given(st.binary(max_size=100))
def test_any_bytes_are_a_checksum_or_none(data: bytes) -> None:
    found = checksums.decode(data)
    assert found is None or found.num_files >= 0


# ---------------------------------------------------------------------------- by the product


def test_commits_through_the_product_leave_a_checksum_each_that_is_right() -> None:
    table = RawTable()
    table.transact(metadata(configuration={"delta.enableDeletionVectors": "true"}))
    table.transact(add("a", 10, stats=stats()), add("b", 20, stats=stats()), txn("app", 1))
    table.transact(remove("a", 10), add("a", 10, dv=vector(cardinality=3), stats=stats()))
    table.transact(remove("b", 20), txn("app", 2))
    for version in range(4):
        found = checksums.decode(table.bytes(f"{version:020d}.crc"))
        assert found is not None
        scratch = of(table.load(version))
        txn_id = table.load(version).commit_info["txnId"]
        assert found.txn_id == txn_id
        expected = msgspec.structs.replace(scratch, txn_id=txn_id)
        assert comparable(found) == comparable(expected)


@pytest.mark.parametrize("read", [False, True])
def test_a_commit_that_renews_an_entry_beside_removes_leaves_a_right_checksum(read: bool) -> None:
    table = RawTable().create(*(add(f"a{n}", 100) for n in range(BASE)))
    write_checksum(table.load(), of(table.load(), listed=False))
    transaction = Transaction.begin(table.log)
    if read:
        transaction.files()
    done = transaction.commit(structs(*REARRANGED, add("a3", 100, change=False, tags={"a": "b"})))
    found = checksums.decode(table.bytes(f"{1:020d}.crc"))
    assert found is not None
    assert (found.num_files, found.table_size_bytes) == (BASE - 1, BASE * 100)
    assert (done.snapshot.num_files, done.snapshot.size_in_bytes) == (BASE - 1, BASE * 100)
    # A checkpoint holds its counts against the checksum.
    write_checkpoint(table.load())
    assert of(table.load(), listed=False).num_files == BASE - 1


def test_a_batch_without_rows_counts_nothing() -> None:
    empty = pa.RecordBatch.from_pylist([], ADD_SCHEMA)
    assert checksums.count([empty]).files == 0
