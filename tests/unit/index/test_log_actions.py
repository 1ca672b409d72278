"""The lines of an index table's log: every field both ways, foreign logs, compression, damage."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.index_tables import (
    SCHEMA,
    V2,
    RawIndex,
    adds,
    created,
    handmade,
    metadata,
    paths,
    protocol,
    remove,
    skip,
    split,
)
from tidegate.errors import (
    CommitCorruptError,
    CommitRefusedError,
    SchemaInvalidError,
    TransactionStateError,
    VersionsNotContiguousError,
)
from tidegate.log.index_actions import unwrapped, wrapped
from tidegate.protocol.protocol import Protocol
from tidegate.transaction.transaction import Transaction

APPENDIX = (
    (
        r'{"protocol":{"minReaderVersion":2,"minWriterVersion":2}}',
        r'{"metaData":{"id":"uuid-here","name":null,"format":{"provider":"tantivy4spark","options":{}},'
        r'"schemaString":"{...}","partitionColumns":[],"configuration":{},"createdTime":1234567890}}',
    ),
    (
        r'{"add":{"path":"s3://bucket/split1.split","partitionValues":{},"size":1048576,'
        r'"modificationTime":1234567890,"dataChange":true,"numRecords":10000}}',
    ),
    (
        r'{"add":{"path":"s3://bucket/split2.split","partitionValues":{},"size":2097152,'
        r'"modificationTime":1234567890,"dataChange":true,"numRecords":20000}}',
        r'{"skip":{"path":"s3://bucket/corrupt.split","skipTimestamp":1234567890,'
        r'"reason":"Corrupted footer","operation":"merge"}}',
    ),
)


def appendix() -> RawIndex:
    table = RawIndex()
    for version, lines in enumerate(APPENDIX):
        table.put(f"{version:020d}.json", "\n".join(lines).encode())
    return table


EVERY_FIELD: dict[str, Any] = {
    "path": "date=2024-01-01/3f2a.split",
    "partitionValues": {"day": None},
    "size": 1048576,
    "modificationTime": 1704067200000,
    "dataChange": True,
    "tags": {"a": "b"},
    "stats": '{"numRecords":10000}',
    "minValues": {"id": "0"},
    "maxValues": {"id": "9"},
    "numRecords": 10000,
    "footerStartOffset": 900000,
    "footerEndOffset": 1048576,
    "hasFooterOffsets": True,
    "hotcacheStartOffset": 5,
    "hotcacheLength": 6,
    "timeRangeStart": "2024-01-01T00:00:00Z",
    "timeRangeEnd": "2024-01-02T00:00:00Z",
    "splitTags": ["env:test", "b"],
    "deleteOpstamp": 0,
    "numMergeOps": 1,
    "docMappingJson": '[{"name":"id"}]',
    "uncompressedSizeBytes": 50000,
    "companionSourceFiles": ["a.parquet", "b/c.parquet"],
    "companionDeltaVersion": 7,
    "companionFastFieldMode": "HYBRID",
}


# ---------------------------------------------------------------------------- reading


def test_the_document_s_three_commits_open_as_they_stand() -> None:
    found = appendix().log().snapshot()
    assert (found.version, found.protocol) == (2, Protocol(2, 2))
    assert paths(found) == ["s3://bucket/split1.split", "s3://bucket/split2.split"]
    assert found.num_records == 30_000
    assert list(found.skips) == ["s3://bucket/corrupt.split"]
    assert found.skips["s3://bucket/corrupt.split"].skip_count == 1
    assert found.metadata.id == "uuid-here"
    assert found.size_in_bytes == 3 * 1048576


def test_the_document_s_table_can_be_written_and_checkpointed() -> None:
    table = appendix()
    table.log().append(adds(split("mine.split", **V2)))
    table.log().checkpoint()
    for version in range(3):
        table.store.delete([f"_transaction_log/{version:020d}.json"])
    found = table.log().snapshot()
    assert paths(found) == ["mine.split", "s3://bucket/split1.split", "s3://bucket/split2.split"]
    assert list(found.skips) == ["s3://bucket/corrupt.split"]


def test_its_schema_is_an_error_only_when_it_is_asked_for() -> None:
    with pytest.raises(SchemaInvalidError):
        _ = appendix().log().snapshot().schema


def test_unknown_actions_and_fields_are_ignored() -> None:
    table = handmade(protocol(), metadata(), {"futureAction": {"x": 1}})
    table.commit({"add": split("a.split", futureField={"deep": [1]})}, {"commitInfo": {"operation": "X"}})
    assert paths(table.log().snapshot()) == ["a.split"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"add":{"path":"a.split"',
        b"not json",
        b"[1,2]",
        b'{"add":{"path":"a.split","partitionValues":{},"size":"big","modificationTime":1,"dataChange":true}}',
        b'{"add":{"path":"a.split","size":1,"modificationTime":1,"dataChange":true}}',
        b'{"skip":{"reason":"no path"}}',
        b'{"remove":{}}',
    ],
)
def test_malformed_lines_are_errors_that_name_the_file_and_the_line(line: bytes) -> None:
    table = created()
    table.put(
        "00000000000000000001.json", b'{"protocol":{"minReaderVersion":2,"minWriterVersion":2}}\n' + line
    )
    with pytest.raises(CommitCorruptError, match="Line 2") as caught:
        table.log().snapshot().files()
    assert caught.value.file == "00000000000000000001.json"


def test_an_empty_commit_is_an_error() -> None:
    table = created()
    table.put("00000000000000000001.json", b"")
    with pytest.raises(CommitCorruptError):
        table.log().snapshot()


def test_a_gap_is_an_error() -> None:
    table = created()
    table.put("00000000000000000002.json", b'{"add":{}}')
    with pytest.raises(VersionsNotContiguousError):
        table.log().snapshot()


def test_both_names_of_the_skip_are_read_and_one_is_written() -> None:
    table = handmade(protocol(), metadata())
    table.commit({"add": split("a.split")}, {"add": split("b.split")})
    table.commit(skip("a.split"), skip("b.split", "mergeskip", retryAfter=1704153600000, skipCount=3))
    found = table.log().snapshot().skips
    assert {p: s.skip_count for p, s in found.items()} == {"a.split": 1, "b.split": 3}
    table.log().skip("b.split", "again")
    assert table.keys(3) == ["skip"]
    assert table.lines(3)[0]["skip"]["skipCount"] == 4


# ---------------------------------------------------------------------------- writing


def test_every_field_of_an_add_survives_the_way_to_the_log_and_back() -> None:
    table = RawIndex()
    table.log().create(SCHEMA, ["day"])
    table.log().append(adds(EVERY_FIELD))
    assert table.lines(1) == [{"add": EVERY_FIELD}]
    (row,) = table.log().snapshot().files().to_pylist()
    for name, value in EVERY_FIELD.items():
        assert (dict(row[name]) if isinstance(value, dict) else row[name]) == value, name
    table.log().checkpoint()
    checkpoint = table.lines("00000000000000000001.checkpoint.json")
    assert checkpoint[-1] == {"add": EVERY_FIELD}


def test_absent_fields_are_left_out_and_false_flags_too() -> None:
    table = created()
    table.log().append(adds(split("a.split", hasFooterOffsets=False)))
    assert table.lines(1) == [{"add": split("a.split")}]


def test_a_replacement_removes_with_all_that_is_known_and_changes_no_data() -> None:
    table = created()
    log = table.log()
    log.append(adds("a.split", "b.split"))
    log.replace(["a.split", "b.split"], adds("ab.split"))
    removes = [line["remove"] for line in table.lines(2) if "remove" in line]
    assert sorted(r["path"] for r in removes) == ["a.split", "b.split"]
    for r in removes:
        assert (r["dataChange"], r["extendedFileMetadata"], r["partitionValues"], r["size"]) == (
            False,
            True,
            {},
            100,
        )
        assert r["deletionTimestamp"] == table.clock()
    assert [line["add"]["dataChange"] for line in table.lines(2) if "add" in line] == [False]


def test_commits_hold_the_actions_of_the_format_and_nothing_else() -> None:
    table = created()
    log = table.log()
    log.append(adds("a.split", "b.split"))
    log.skip("a.split", "bad")
    log.overwrite(adds("c.split"))
    log.upgrade_protocol(3, 3)
    known = {"protocol", "metaData", "add", "remove", "skip"}
    assert {key for v in range(table.version + 1) for key in table.keys(v)} <= known


def test_one_batch_is_one_commit_and_an_empty_one_is_none() -> None:
    table = created()
    log = table.log()
    assert log.append(adds(*(f"{n}.split" for n in range(120)))).version == 1
    assert len(table.lines(1)) == 120
    assert log.append(adds()).version == 1
    assert log.replace([], adds()).version == 1
    assert log.remove([]).version == 1


def test_an_overwrite_takes_all_there_is_in_one_commit() -> None:
    table = created()
    log = table.log()
    log.append(adds("a.split"))
    log.append(adds("b.split"))
    assert paths(log.overwrite(adds("c.split"))) == ["c.split"]
    assert table.keys(3) == ["remove", "remove", "add"]
    assert paths(log.append(adds("d.split"))) == ["c.split", "d.split"]
    assert paths(log.overwrite(adds())) == []


@pytest.mark.parametrize("partition", [{}, {"day": "1", "hour": "2"}, {"hour": "2"}])
def test_partition_values_that_are_not_the_table_s_are_refused(partition: dict[str, str]) -> None:
    table = RawIndex()
    log = table.log()
    log.create(SCHEMA, ["day"])
    with pytest.raises(CommitRefusedError):
        log.append(adds(split("a.split", partition)))
    assert table.version == 0


def test_the_transactions_of_delta_tables_do_not_write_here() -> None:
    table = created()
    with pytest.raises(TransactionStateError):
        Transaction.begin(table.table_log())


def test_configuration_travels_with_the_splits_it_speaks_of() -> None:
    table = created()
    found = table.log().append(
        adds("a.split"), configuration={"indextables.companion.lastSyncedVersion": "4"}
    )
    assert table.keys(1) == ["metaData", "add"]
    assert found.configuration["indextables.companion.lastSyncedVersion"] == "4"


# ---------------------------------------------------------------------------- compression


def test_compressed_and_plain_files_stand_side_by_side() -> None:
    table = RawIndex()
    table.commit(protocol(), metadata(), compressed=True)
    table.commit({"add": split("a.split")})
    table.commit({"add": split("b.split")}, compressed=True)
    table.log().append(adds("plain.split"))
    table.log(transaction__compression__enabled=True).append(adds("packed.split"))
    assert table.bytes(f"{3:020d}.json")[:1] == b"{"
    assert table.bytes(f"{4:020d}.json")[:2] == b"\x01\x01"
    assert paths(table.log().snapshot()) == ["a.split", "b.split", "packed.split", "plain.split"]


def test_checkpoints_are_compressed_by_the_same_option() -> None:
    table = created(transaction__compression__enabled=True)
    log = table.log(transaction__compression__enabled=True, checkpoint__interval=2)
    for n in range(3):
        log.append(adds(f"{n}.split"))
    name = next(n for n in table.names() if "checkpoint.json" in n)
    assert table.bytes(name)[:2] == b"\x01\x01"
    assert table.bytes("_last_checkpoint")[:1] == b"{"
    assert len(paths(table.log().snapshot())) == 3


@pytest.mark.parametrize(
    "data",
    [b"\x01", b"\x01\x01", b"\x01\x02" + gzip.compress(b"{}"), b"\x01\x01" + gzip.compress(b"{}" * 50)[:-9]],
    ids=["no codec", "nothing", "unknown codec", "cut off"],
)
def test_what_cannot_be_unpacked_is_an_error(data: bytes) -> None:
    table = created()
    table.put("00000000000000000001.json", data)
    with pytest.raises(CommitCorruptError) as caught:
        table.log().snapshot()
    assert caught.value.file == "00000000000000000001.json"


@given(st.binary(min_size=1))
def test_packing_is_undone_by_unpacking(data: bytes) -> None:
    assert unwrapped(wrapped(data), "x") == data
    assert wrapped(data) == wrapped(data)


# ---------------------------------------------------------------------------- time travel and history


def test_every_version_can_be_opened_by_number_and_by_time() -> None:
    table = created()
    log = table.log()
    moments = [table.clock()]
    for n in range(4):
        table.clock.tick()
        moments.append(table.clock())
        log.append(adds(f"{n}.split"))
    for version, moment in enumerate(moments):
        expected = [f"{n}.split" for n in range(version)]
        assert paths(log.snapshot(version=version)) == expected
        assert paths(log.snapshot(timestamp=moment)) == expected


def test_history_tells_what_the_actions_tell() -> None:
    table = RawIndex()
    log = table.log()
    log.create(SCHEMA)
    log.append(adds("a.split", "b.split"))
    log.skip("a.split", "bad")
    log.replace(["a.split", "b.split"], adds("ab.split"))
    log.overwrite(adds("c.split"))
    log.remove(["c.split"])
    log.upgrade_protocol(3, 3)
    told = [(e["operation"], e["operationMetrics"]) for e in reversed(table.load().history())]
    assert told == [
        ("CREATE TABLE", {}),
        ("WRITE", {"numAddedFiles": "2"}),
        ("SKIP", {"numSkippedFiles": "1"}),
        ("MERGE SPLITS", {"numAddedFiles": "1", "numRemovedFiles": "2"}),
        ("WRITE", {"numAddedFiles": "1", "numRemovedFiles": "1"}),
        ("DELETE", {"numRemovedFiles": "1"}),
        ("UPGRADE PROTOCOL", {}),
    ]


def test_a_removed_split_is_gone_whatever_its_order_in_the_log() -> None:
    table = handmade(protocol(), metadata())
    table.commit({"add": split("a.split")}, {"add": split("b.split")})
    table.commit(remove("a.split"))
    table.commit({"add": split("a.split", numRecords=77)})
    table.commit(remove("b.split"))
    found = table.log().snapshot()
    assert paths(found) == ["a.split"]
    assert found.num_records == 77


def test_names_have_twenty_digits_and_strays_are_ignored() -> None:
    table = created()
    table.put("notes.txt", b"hello")
    table.put("00000000000000000000.crc", b"{}")
    table.put("00000000000000000009.checkpoint.parquet", b"no")
    table.put("state-v00000000000000000003/_manifest.avro", b"no")
    assert table.log().append(adds("a.split")).version == 1
    assert "00000000000000000001.json" in table.names()


def test_a_number_beyond_64_bits_is_malformed() -> None:
    table = created()
    table.put("00000000000000000001.json", json.dumps({"add": split("a.split", size=2**70)}).encode())
    with pytest.raises(CommitCorruptError):
        table.log().snapshot().files()
