"""Snapshots: how little they read, how they move on, and what they do when something is broken."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.histories import EVERYTHING
from support.tables import (
    FORMS,
    LOG,
    PARTITIONED,
    RawTable,
    add,
    checkpoint_bytes,
    commit_info,
    domain,
    features,
    lines,
    metadata,
    protocol,
    remove,
    rows,
    seen,
    small_table,
    stats,
    txn,
)
from tidegate.errors import (
    CheckpointCorruptError,
    CommitCorruptError,
    FeaturesMismatchError,
    NoMetadataError,
    NoProtocolError,
    PredicateError,
    SidecarMissingError,
    TidegateError,
    UnsupportedReaderFeatureError,
    UnsupportedReaderVersionError,
    VersionNotFoundError,
)
from tidegate.files import predicate as predicates
from tidegate.files.skipping import keep_mask
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.snapshot import Snapshot


def commit(version: int) -> str:
    return f"{version:020d}.json"


def operations(table: RawTable) -> list[tuple[str, str]]:
    """What was done since the last look: operation and bare name."""
    done = [(o.op, o.name.rsplit("/", 1)[-1]) for o in table.memory.journal]
    table.memory.journal.clear()
    return done


def reads(table: RawTable) -> set[str]:
    return {name for op, name in operations(table) if op in ("get", "get_range", "open_input")}


# ---------------------------------------------------------------------------- laziness


@pytest.mark.parametrize("form", FORMS)
def test_opening_with_a_checksum_reads_hint_listing_and_checksum_only(form: str) -> None:
    table = small_table(protocol=EVERYTHING)
    table.checkpoint(2, form)
    table.hint(2)
    table.checksum()
    operations(table)
    snapshot = table.load()
    assert (snapshot.version, snapshot.num_files, snapshot.size_in_bytes) == (4, 2, 500)
    assert snapshot.schema.names == ("id", "name") or list(snapshot.schema.names) == ["id", "name"]
    assert snapshot.protocol.supports("v2Checkpoint")
    assert (dict(snapshot.transactions), dict(snapshot.domains)) == ({}, {})
    assert operations(table) == [
        ("get", "_last_checkpoint"),
        ("list_from", LOG),
        ("get", f"{4:020d}.crc"),
    ]


def test_protocol_and_metadata_come_from_the_newest_commits_that_have_them() -> None:
    table = small_table()
    table.checkpoint(2)
    table.commit(metadata(configuration={"a": "b"}), protocol(1, 2))
    table.commit(add("x"))
    operations(table)
    snapshot = table.load()
    assert dict(snapshot.properties) == {"a": "b"}
    assert reads(table) == {"_last_checkpoint", commit(5), commit(6)}


def test_files_without_statistics_do_not_read_statistics() -> None:
    table = RawTable().create(*(add(f"{n}", stats=stats(1, n, n)) for n in range(500)))
    write_checkpoint(table.load())
    wanted: list[str] = []
    original = pq.ParquetFile.read_row_group

    def spy(self: Any, *args: Any, columns: list[str], **more: Any) -> Any:
        wanted.extend(c for c in columns if c.startswith("add"))
        return original(self, *args, columns=columns, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pq.ParquetFile, "read_row_group", spy)
        found = table.load().files(columns=["path", "size"])
    assert found.column_names == ["path", "size"]
    assert found.num_rows == 500
    assert wanted
    assert not [c for c in wanted if "stats" in c or "tags" in c or "partitionValues" in c]


def test_columns_come_in_the_order_asked_for() -> None:
    table = small_table()
    table.checkpoint(2)
    for snapshot in (table.load(), table.load(1)):
        assert snapshot.files(columns=["size", "path"]).column_names == ["size", "path"]
        assert snapshot.files(columns=["stats"]).column_names == ["stats"]
        snapshot.files()
        assert snapshot.files(columns=["size", "path"]).column_names == ["size", "path"]


@pytest.mark.parametrize(
    "columns", [["nothing"], ["path", "stats_parsed"], [], ["path", "size", "path"], "path", [1]]
)
def test_a_column_there_is_not_is_refused_before_anything_is_read(columns: Any) -> None:
    table = small_table()
    snapshot = table.load()
    operations(table)
    with pytest.raises(PredicateError):
        snapshot.files(columns=columns)
    assert operations(table) == []


def test_files_are_read_once() -> None:
    table = small_table()
    table.checkpoint(2)
    snapshot = table.load()
    first = snapshot.files()
    operations(table)
    assert snapshot.files() is first or snapshot.files().equals(first)
    snapshot.files(columns=["path", "size"])
    snapshot.files("id > 3")
    assert snapshot.num_files == 2
    assert operations(table) == []


def test_update_with_nothing_new_is_the_same_snapshot() -> None:
    table = small_table()
    snapshot = table.load()
    operations(table)
    assert snapshot.update() is snapshot
    assert len(operations(table)) <= 3


@pytest.mark.parametrize("form", [None, *FORMS])
def test_update_reads_only_the_new_commits(form: str | None) -> None:
    table = small_table(protocol=EVERYTHING)
    if form is not None:
        table.checkpoint(4, form)
    snapshot = table.load()
    snapshot.files()
    table.commit(add("new"), txn("app", 3))
    table.commit(remove("f2.parquet", 200), domain("d", "{}"))
    operations(table)
    after = snapshot.update()
    assert seen(after, tombstones=False) == table.state().without_tombstones()
    assert reads(table) <= {commit(5), commit(6), commit(7)}


def test_update_before_anything_was_read_is_as_good() -> None:
    table = small_table()
    table.checkpoint(2)
    table.checksum()
    snapshot = table.load()
    table.commit(add("new"), txn("app", 1))
    assert seen(snapshot.update()) == table.state()


def test_update_after_a_partial_read_reads_what_is_missing() -> None:
    table = small_table()
    table.checkpoint(2)
    snapshot = table.load()
    snapshot.files(columns=["path", "size"])
    table.commit(add("new", tags={"a": "b"}))
    assert seen(snapshot.update()) == table.state()


def test_a_long_tail_is_shortened_by_a_checkpoint_that_others_wrote() -> None:
    table = small_table()
    snapshot = table.load()
    snapshot.files()
    for number in range(80):
        table.commit(add(f"n{number}"))
    table.checkpoint(60)
    table.hint(60)
    after = snapshot.update()
    assert after.segment.base_version == 60
    assert seen(after) == table.state()
    table.commit(remove("n3"))
    assert seen(after.update()) == table.state()


# ---------------------------------------------------------------------------- under a reader's feet


def recreated(version: int) -> RawTable:
    """A table dropped and made anew, ``version`` commits after its first."""
    table = RawTable().create(add("other"), configuration={"made": "anew"})
    for number in range(version):
        table.commit(add(f"other{number}"))
    return table


@pytest.mark.parametrize("versions", [1, 4, 5, 8])
@pytest.mark.parametrize("checkpoint", [None, 2, 4])
def test_update_of_a_table_that_was_dropped_and_made_anew_is_the_new_table(
    versions: int, checkpoint: int | None
) -> None:
    table = small_table()
    if checkpoint is not None:
        table.checkpoint(checkpoint)
    snapshot = table.load()
    snapshot.files()
    table.delete(*table.names())
    table.clock.tick()
    again = RawTable(table.store, table.clock).create(add("other"), configuration={"made": "anew"})
    for number in range(1, versions):
        again.commit(add(f"other{number}"))
    after = snapshot.update()
    assert after.version == again.version
    assert seen(after) == again.state()


@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("looked", [True, False])
def test_update_of_a_snapshot_that_a_cleanup_has_overtaken_is_the_latest(at: int, looked: bool) -> None:
    table = small_table()
    for number in range(6):
        table.commit(add(f"n{number}"))
    table.checkpoint(3)
    table.checkpoint(8)
    snapshot = table.load(at)
    if looked:
        snapshot.files()
    table.delete_commits(8)
    after = snapshot.update()
    assert after.version == 10
    assert seen(after) == table.state()


def test_a_checkpoint_only_log_moves_on_by_update() -> None:
    table = small_table()
    table.checkpoint(4)
    table.delete_commits(5)
    snapshot = table.load()
    assert snapshot.update() is snapshot
    table.commit(add("new"))
    after = snapshot.update()
    assert (after.version, seen(after)) == (5, table.state())


def test_a_checkpoint_only_snapshot_notices_that_the_table_is_another() -> None:
    table = small_table()
    table.checkpoint(4)
    table.delete_commits(5)
    snapshot = table.load()
    table.delete(*table.names())
    table.clock.tick()
    again = RawTable(table.store, table.clock).create(add("other"))
    assert seen(snapshot.update()) == again.state()


def vanish(table: RawTable, snapshot: Snapshot, *names: str) -> None:
    table.delete(*names)
    with pytest.raises(VersionNotFoundError) as caught:
        snapshot.files()
    assert caught.value.table == table.store.url


def test_a_commit_removed_after_opening_is_a_version_not_found() -> None:
    table = small_table()
    table.checksum()
    vanish(table, table.load(), commit(2))


@pytest.mark.parametrize("form", FORMS)
def test_a_checkpoint_removed_after_opening_is_a_version_not_found(form: str) -> None:
    table = small_table(protocol=EVERYTHING)
    names = table.checkpoint(4, form)
    table.checksum()
    table.delete_commits(5)
    vanish(table, table.load(), *names)


def test_a_checkpoint_removed_after_opening_falls_back_to_its_commits() -> None:
    table = small_table()
    names = table.checkpoint(3)
    table.checksum()
    snapshot = table.load()
    table.delete(*names)
    assert seen(snapshot) == table.state()


# ---------------------------------------------------------------------------- something is broken


def corruptions(data: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "cut": data[: len(data) // 2],
        "no footer": data[:-8],
        "garbage": b"\x07" * len(data),
        "footer lies": data[:-8] + b"\xff\xff\xff\x7fPAR1",
    }


@pytest.mark.parametrize("how", corruptions(b""))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("crc", [True, False])
def test_a_corrupt_newest_checkpoint_falls_back_to_an_older_one(how: str, form: str, crc: bool) -> None:
    table = small_table(protocol=EVERYTHING)
    table.checkpoint(1)
    names = table.checkpoint(3, form)
    table.hint(3)
    if crc:
        table.checksum()
    for name in names[-1:]:
        table.edit(name, lambda data: corruptions(data)[how])
    assert seen(table.load()) == table.state()
    assert seen(table.load(3)) == table.state(3)
    table.commit(add("new"))
    assert seen(table.load()) == table.state()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", corruptions(b""))
def test_a_corrupt_checkpoint_without_commits_is_named(how: str, form: str) -> None:
    table = small_table(protocol=EVERYTHING)
    names = table.checkpoint(3, form)
    table.delete_commits(4)
    table.edit(names[-1], lambda data: corruptions(data)[how])
    with pytest.raises(CheckpointCorruptError) as caught:
        table.load().files()
    assert caught.value.file == names[-1]
    assert caught.value.version == 3


TEXTS = {
    "an application": {"txn": {"appId": "somewhere", "version": 1}},
    "a domain": domain("user.d", '{"at":"somewhere"}'),
    "a path": add("somewhere"),
    "a partition": add("f", values={"p": "somewhere"}),
    "statistics": add("f", stats='{"numRecords":10,"minValues":{"name":"somewhere"}}'),
}


@pytest.mark.parametrize("where", TEXTS)
def test_text_of_a_checkpoint_that_is_no_utf_8_falls_back_or_is_named(where: str) -> None:
    table = small_table(protocol=EVERYTHING)
    table.commit(TEXTS[where])
    (name,) = table.checkpoint()
    table.edit(name, lambda data: data.replace(b"somewhere", b"somewh\xffre"))
    assert seen(table.load()) == table.state()
    table.delete_commits(table.version)
    with pytest.raises(CheckpointCorruptError) as caught:
        seen(table.load())
    assert caught.value.file == name


@pytest.mark.parametrize("form", ["v2-json", "v2-parquet", "v2-classic"])
def test_a_missing_sidecar_falls_back_or_is_named(form: str) -> None:
    table = small_table(protocol=EVERYTHING)
    names = table.checkpoint(3, form)
    table.delete(names[0])
    assert seen(table.load()) == table.state()
    table.delete_commits(3)
    with pytest.raises(SidecarMissingError) as caught:
        table.load().files()
    assert names[0].rsplit("/", 1)[-1] in caught.value.message


@pytest.mark.parametrize("path", ["", "a/", ".", "..", "%2e%2e", "a%00b"])
def test_a_sidecar_that_has_no_name_falls_back_or_is_named(path: str) -> None:
    table = small_table(protocol=EVERYTHING)
    names = table.checkpoint(3, "v2-json")
    odd = {"sidecar": {"path": path, "sizeInBytes": 1, "modificationTime": 1}}
    table.edit(names[-1], lambda data: data + lines([odd]))
    assert seen(table.load()) == table.state()
    table.delete_commits(3)
    with pytest.raises(CheckpointCorruptError, match="no name of a file"):
        table.load().files()


@pytest.mark.parametrize("how", corruptions(b""))
def test_a_corrupt_sidecar_falls_back_or_is_named(how: str) -> None:
    table = small_table(protocol=EVERYTHING)
    names = table.checkpoint(3, "v2-json")
    table.edit(names[1], lambda data: corruptions(data)[how])
    assert seen(table.load()) == table.state()
    table.delete_commits(3)
    with pytest.raises(CheckpointCorruptError):
        table.load().files()


@pytest.mark.parametrize("form", FORMS)
def test_of_two_checkpoints_of_one_version_the_other_is_used_when_one_is_corrupt(form: str) -> None:
    table = small_table(protocol=EVERYTHING)
    bad = table.checkpoint(3, form)
    table.checkpoint(3, "v2-inline" if form != "v2-inline" else "classic")
    table.delete_commits(3)
    table.edit(bad[-1], lambda data: data[:20])
    assert seen(table.load()) == table.state()


@pytest.mark.parametrize("data", [b"", b"garbage", b'{"add":{"path":1}}\n', b'{"add":{"path":"a","si'])
@pytest.mark.parametrize("crc", [True, False])
def test_a_corrupt_compaction_falls_back_to_its_commits(data: bytes, crc: bool) -> None:
    table = small_table()
    table.put(f"{1:020d}.{4:020d}.compacted.json", data)
    if crc:
        table.checksum()
    assert seen(table.load()) == table.state()
    assert dict(table.load().transactions) == {}


def test_a_compaction_that_vanishes_after_opening_falls_back_to_its_commits() -> None:
    table = small_table()
    name = table.compact(1, 4)
    table.checksum()
    snapshot = table.load()
    table.delete(name)
    assert seen(snapshot) == table.state()


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"garbage", b'{"numFiles":-1,"tableSizeBytes":0}', b'{"numFiles":"x"}']
)
def test_a_checksum_that_cannot_be_believed_is_ignored(data: bytes) -> None:
    table = small_table()
    table.put(f"{4:020d}.crc", data)
    snapshot = table.load()
    assert snapshot.checksum is None
    assert (snapshot.num_files, snapshot.size_in_bytes) == (2, 500)
    assert seen(snapshot) == table.state()


@pytest.mark.parametrize("left_out", ["metadata", "protocol", "setTransactions", "domainMetadata"])
def test_what_a_checksum_leaves_out_is_read_from_the_log(left_out: str) -> None:
    table = small_table(protocol=EVERYTHING)
    table.commit(txn("app", 1), domain("d", "1"))
    table.checkpoint(5)
    table.checksum(5, **{left_out: None})
    assert seen(table.load()) == table.state()


def test_a_corrupt_commit_under_a_checkpoint_does_not_matter() -> None:
    table = small_table()
    table.checkpoint(4)
    table.edit(commit(4), lambda _: b"garbage")
    table.edit(commit(2), lambda _: b"garbage")
    snapshot = table.load()
    assert seen(snapshot) == table.state()
    assert snapshot.commit_info == {}
    assert snapshot.timestamp_ms > 0


def test_a_corrupt_commit_after_the_checkpoint_does() -> None:
    table = small_table()
    table.checkpoint(3)
    table.edit(commit(4), lambda _: b"garbage")
    with pytest.raises(CommitCorruptError):
        table.load().files()
    assert seen(table.load(3)) == table.state(3)


# ---------------------------------------------------------------------------- who may read


@pytest.mark.parametrize("form", [None, *FORMS])
@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_a_table_without_protocol_or_metadata_is_refused_by_name(form: str | None, missing: str) -> None:
    table = RawTable()
    table.commit(*(a for a in (protocol(), metadata()) if missing not in a), add("a"))
    if form is not None:
        table.checkpoint(0, form)
        table.delete_commits(1)
    with pytest.raises(NoProtocolError if missing == "protocol" else NoMetadataError) as caught:
        table.load()
    assert (caught.value.table, caught.value.version) == (table.store.url, 0)


@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("form", [None, "classic", "v2-json"])
def test_a_table_this_client_may_not_read_is_refused_before_files_are_read(
    crc: bool, form: str | None
) -> None:
    table = RawTable().create(add("a"), protocol=features("someNewFeature"))
    if form is not None:
        table.checkpoint(0, form)
    if crc:
        table.checksum()
    with pytest.raises(UnsupportedReaderFeatureError, match="someNewFeature"):
        table.load()


def test_update_onto_a_protocol_this_client_may_not_read_is_refused() -> None:
    table = small_table()
    snapshot = table.load()
    table.commit(protocol(4, 7, readers=[], writers=[]))
    with pytest.raises(UnsupportedReaderVersionError):
        snapshot.update()
    assert seen(snapshot) == table.state(4)


def test_metadata_that_needs_a_feature_the_protocol_lacks_is_refused_with_the_features_named() -> None:
    table = RawTable().create(
        protocol=features("columnMapping"),
        configuration={"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
    )
    with pytest.raises(FeaturesMismatchError, match="deletionVectors") as caught:
        table.load()
    assert "rowTracking" in str(caught.value)
    assert caught.value.errorClass == "DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH"


# ---------------------------------------------------------------------------- what it says


def test_an_empty_table_has_no_files_but_their_columns() -> None:
    files = RawTable().create().load().files()
    assert files.num_rows == 0
    assert files.column_names[:3] == ["path", "partitionValues", "size"]


def test_every_field_of_add_is_a_column_from_commits_and_from_checkpoints() -> None:
    table = RawTable().create(add("a"))
    table.checkpoint(0)
    table.commit(add("b"))
    one, both = table.load(0).files(), table.load().files()
    assert one.schema.equals(both.schema)
    assert set(one.column_names) == {
        "path",
        "partitionValues",
        "size",
        "modificationTime",
        "dataChange",
        "stats",
        "tags",
        "deletionVector",
        "baseRowId",
        "defaultRowCommitVersion",
        "clusteringProvider",
    }
    assert pa.types.is_string(one.schema.field("stats").type)


def test_partition_values_of_an_unpartitioned_table_are_an_empty_map_wherever_they_come_from() -> None:
    table = RawTable().create(add("a"))
    table.checkpoint(0)
    table.delete_commits(1)
    table.commit(add("b"))
    assert table.load().files().column("partitionValues").to_pylist() == [[], []]


def test_tombstones_expire_by_the_tables_own_retention() -> None:
    table = RawTable().create(configuration={"delta.deletedFileRetentionDuration": "interval 1 day"})
    now = table.clock()
    table.commit(remove("old", time=now - 86_400_001), remove("new", time=now), remove("undated", time=None))
    snapshot = table.load()
    assert [r["path"] for r in rows(snapshot.tombstones())] == ["new"]
    assert len(list(rows(snapshot.tombstones(expired=True)))) == 3


def test_transactions_expire_where_the_table_says_so() -> None:
    table = RawTable().create(configuration={"delta.setTransactionRetentionDuration": "interval 1 day"})
    now = table.clock()
    table.commit(txn("old", 1, now - 86_400_001), txn("new", 1, now), txn("undated", 1))
    assert sorted(table.load().transactions) == ["new", "undated"]


def test_what_a_snapshot_hands_out_cannot_change_it() -> None:
    snapshot = small_table(configuration={"a": "b"}).load()
    for mapping in (snapshot.properties, snapshot.transactions, snapshot.domains):
        with pytest.raises(TypeError):
            mapping["x"] = "y"  # type: ignore[index]


def test_the_commit_info_is_that_of_this_very_version() -> None:
    table = RawTable().create()
    table.commit(commit_info("MERGE", userMetadata="x"), add("a"))
    table.commit(commit_info("DELETE"), remove("a"))
    assert table.load(1).commit_info["userMetadata"] == "x"
    assert table.load().commit_info["operation"] == "DELETE"
    table.checkpoint(1)
    assert table.load(1).commit_info["operation"] == "MERGE"


def test_a_snapshot_says_what_it_is() -> None:
    assert "version=4" in repr(small_table().load())


# ---------------------------------------------------------------------------- predicates

PREDICATES = [
    "id > 25",
    "id = 15 or id = 38",
    "id between 12 and 22",
    "not (id < 30)",
    "name = 'm'",
    "name > 'zz'",
    "id is null",
    "day = '2026-01-02'",
    "day > '2026-01-01' and id < 25",
    "day is null or id >= 38",
]


@pytest.mark.parametrize("form", [None, "written", *FORMS])
def test_pruning_through_files_is_pruning_of_the_full_list(form: str | None) -> None:
    table = partitioned(form)
    loaded = table.load()
    full = loaded.files()
    some = 0
    for predicate in PREDICATES:
        parsed = predicates.parse(predicate).resolve(loaded.schema)
        mask = keep_mask(full, parsed, loaded.schema, loaded.partition_columns)
        expected = sorted(full.filter(mask).column("path").to_pylist())
        some += 0 < len(expected) < full.num_rows
        fresh = table.load()
        assert sorted(fresh.files(predicate, ["path"]).column("path").to_pylist()) == expected
        assert sorted(rows(fresh.files(predicate)), key=str) == sorted(rows(full.filter(mask)), key=str)
        assert sorted(loaded.files(predicate).column("path").to_pylist()) == expected
        assert loaded.files(predicate, ["size", "stats"]).column_names == ["size", "stats"]
    assert some > len(PREDICATES) // 2
    assert loaded.files().num_rows == full.num_rows


def partitioned(form: str | None) -> RawTable:
    table = RawTable().create(schema=PARTITIONED, partitions=["day"], protocol=EVERYTHING)
    for n in range(1, 4):
        day = None if n == 3 else f"2026-01-0{n}"
        table.commit(add(f"f{n}.parquet", values={"day": day}, stats=stats(10, 10 * n, 10 * n + 9)))
    if form == "written":
        write_checkpoint(table.load())
    elif form is not None:
        table.checkpoint(3, form)
    table.commit(add("late", values={"day": "2026-01-02"}, stats=stats(5, 38, 60)))
    table.commit(add("unknown", values={"day": "2026-01-01"}))
    table.commit(remove("f2.parquet"))
    return table


@pytest.mark.parametrize("predicate", [5, True, ["id = 1"], b"id = 1"])
def test_what_is_no_predicate_is_refused_in_words(predicate: Any) -> None:
    with pytest.raises(PredicateError, match="is SQL text"):
        small_table().load().files(predicate)


def test_a_predicate_on_a_column_there_is_not_is_refused() -> None:
    with pytest.raises(PredicateError):
        small_table().load().files("nothing > 1")


def test_a_predicate_that_is_no_sql_is_refused() -> None:
    with pytest.raises(PredicateError):
        small_table().load().files("id >")


# ---------------------------------------------------------------------------- on disk


def test_a_table_on_disk_reads_as_one_in_memory(tmp_path: Path) -> None:
    table = RawTable.on_disk(tmp_path / "t")
    table.create(add("a"), add("b"), protocol=EVERYTHING)
    for number, form in enumerate(FORMS):
        table.commit(add(f"n{number}"), remove("a"))
        table.checkpoint(form=form)
        assert seen(table.load()) == table.state()
    table.delete_commits(table.version)
    assert seen(table.load()) == table.state()


def test_a_directory_with_the_name_of_a_commit_is_no_version(tmp_path: Path) -> None:
    table = RawTable.on_disk(tmp_path / "t").create()
    (tmp_path / "t" / LOG / commit(1)).mkdir()
    assert table.load().version == 0
    assert table.load().update().version == 0


def test_json_lines_of_a_v2_checkpoint_with_unknown_actions_are_read() -> None:
    table = small_table(protocol=EVERYTHING)
    names = table.checkpoint(3, "v2-json")
    table.edit(names[-1], lambda data: data + lines([{"future": {"a": 1}}]))
    table.delete_commits(3)
    assert seen(table.load()) == table.state()
    assert json.loads(table.bytes(names[-1]).splitlines()[0])["checkpointMetadata"]["version"] == 3


# ---------------------------------------------------------------------------- parquet of another shape


def _odd_checkpoint(**columns: Any) -> bytes:
    """A checkpoint of protocol and metadata, and of whatever columns besides."""
    base = pq.read_table(pa.BufferReader(checkpoint_bytes([protocol(), metadata()])))
    sink = pa.BufferOutputStream()
    for name, values in columns.items():
        if name in base.column_names:
            base = base.drop_columns([name])
        base = base.append_column(name, values)
    pq.write_table(base, sink)
    return bytes(sink.getvalue())


def _adds(**fields: Any) -> pa.Array:
    return pa.array([fields, fields])


ODD_CHECKPOINTS = {
    "not a checkpoint at all": lambda: _parquet(pa.table({"id": [1, 2]})),
    "no columns": lambda: _parquet(pa.table({})),
    "add is text": lambda: _odd_checkpoint(add=pa.array(["a", "b"])),
    "add is a list": lambda: _odd_checkpoint(add=pa.array([[{"path": "a"}], []])),
    "path is a number": lambda: _odd_checkpoint(add=_adds(path=1, size=1)),
    "path is a list": lambda: _odd_checkpoint(add=_adds(path=["a"], size=1)),
    "no path": lambda: _odd_checkpoint(add=_adds(size=1, modificationTime=1)),
    "size is text": lambda: _odd_checkpoint(add=_adds(path="a", size="many")),
    "size is a struct": lambda: _odd_checkpoint(add=_adds(path="a", size={"x": 1})),
    "partition values are text": lambda: _odd_checkpoint(add=_adds(path="a", size=1, partitionValues="p=1")),
    "the vector is a number": lambda: _odd_checkpoint(add=_adds(path="a", size=1, deletionVector=5)),
    "the vector is another struct": lambda: _odd_checkpoint(
        add=_adds(path="a", size=1, deletionVector={"storageType": 5})
    ),
    "statistics are a number": lambda: _odd_checkpoint(add=_adds(path="a", size=1, stats=5)),
    "parsed statistics are a number": lambda: _odd_checkpoint(add=_adds(path="a", size=1, stats_parsed=5)),
    "parsed statistics of another shape": lambda: _odd_checkpoint(
        add=_adds(path="a", size=1, stats_parsed={"numRecords": "x", "minValues": 7})
    ),
    "the protocol is text": lambda: _odd_checkpoint(protocol=pa.array(["x", "y"])),
    "the protocol's versions are text": lambda: _odd_checkpoint(
        protocol=pa.array([{"minReaderVersion": "1", "minWriterVersion": "2"}, None])
    ),
    "the metadata is a number": lambda: _odd_checkpoint(metaData=pa.array([1, 2])),
    "the configuration is a list": lambda: _odd_checkpoint(
        metaData=pa.array([{"id": "x", "configuration": ["a"]}, None])
    ),
    "the sidecar is text": lambda: _odd_checkpoint(sidecar=pa.array(["a.parquet", None])),
    "the sidecar has no path": lambda: _odd_checkpoint(sidecar=pa.array([{"sizeInBytes": 1}, None])),
    "the sidecar climbs": lambda: _odd_checkpoint(
        sidecar=pa.array([{"path": "../../x", "sizeInBytes": 1, "modificationTime": 1}, None])
    ),
    "the transaction has no id": lambda: _odd_checkpoint(txn=pa.array([{"version": 1}, None])),
    "removes are numbers": lambda: _odd_checkpoint(remove=pa.array([1, 2])),
}


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("how", ODD_CHECKPOINTS)
def test_a_checkpoint_of_another_shape_is_passed_over_or_refused_with_a_typed_error(how: str) -> None:
    table = small_table()
    table.put(f"{4:020d}.checkpoint.parquet", ODD_CHECKPOINTS[how]())
    for predicate in (None, "id > 3"):
        for version in (None, 4):
            try:
                snapshot = table.load(version)
                snapshot.files(predicate)
                snapshot.tombstones()
                _ = snapshot.transactions, snapshot.domains
            except TidegateError as e:
                assert str(e).startswith(f"[{e.code}] ")  # noqa: PT017
    table.delete_commits(5)
    with contextlib.suppress(TidegateError):
        alone = table.load()
        assert alone.files("id > 3").num_rows <= alone.files().num_rows
