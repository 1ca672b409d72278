"""What a commit is refused for, before a single byte of the table has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from support.tables import PARTITIONED, RawTable, add, features, metadata, protocol, seen
from support.transactions import (
    FIRST,
    SECOND,
    begin,
    commit_lines,
    descriptor,
    everything,
    file,
    gone,
    stats,
    with_property,
)
from tidegate import errors
from tidegate.log.actions import Add, Cdc, CheckpointMetadata, DomainMetadata, Txn
from tidegate.log.columns import ADD_SCHEMA, to_batch
from tidegate.log.snapshot import load
from tidegate.metadata import Metadata
from tidegate.protocol.delta import DELTA
from tidegate.protocol.protocol import Protocol
from tidegate.storage.memory import MUTATING
from tidegate.transaction.transaction import Transaction


def metadata_of(**more: Any) -> Metadata:
    return msgspec.convert(metadata(**more)["metaData"], Metadata)


@contextmanager
def refused(table: RawTable, error: type[Exception], match: str | None = None) -> Iterator[None]:
    """The block raises ``error``, and not one operation of it has changed the store."""
    before = len(table.memory.journal)
    with pytest.raises(error, match=match):
        yield
    assert [o for o in table.memory.journal[before:] if o.op in MUTATING] == []


# ---------------------------------------------------------------------------- metadata and protocol


def test_the_first_commit_without_metadata() -> None:
    table = RawTable()
    with refused(table, errors.CommitRefusedError, "must carry its metadata"):
        begin(table).commit([file("x")])


def test_two_metadata_actions() -> None:
    table = everything()
    one, other = metadata_of(), metadata_of(name="other")
    with refused(table, errors.InvalidCommitError, "at most one metaData"):
        begin(table).commit([one, other])


def test_metadata_in_the_transaction_and_among_the_actions() -> None:
    table = everything()
    transaction = begin(table)
    transaction.update_metadata(with_property(transaction, appendOnly="true"))
    with refused(table, errors.InvalidCommitError, "at most one metaData"):
        transaction.commit([transaction.metadata])


def test_metadata_changed_twice_in_one_transaction() -> None:
    transaction = begin(everything())
    transaction.update_metadata(with_property(transaction, appendOnly="true"))
    with pytest.raises(AssertionError, match="changed in this transaction already"):
        transaction.update_metadata(with_property(transaction, appendOnly="false"))


def test_two_protocol_actions() -> None:
    table = everything()
    with refused(table, errors.InvalidCommitError, "at most one protocol"):
        begin(table).commit([Protocol(1, 2), Protocol(1, 3)])


def test_a_protocol_among_the_actions_that_lacks_what_the_transaction_needs() -> None:
    table = everything()
    transaction = begin(table)
    transaction.update_metadata(with_property(transaction, enableRowTracking="true"))
    assert transaction.snapshot is not None
    with refused(table, errors.InvalidCommitError, "at most one protocol"):
        transaction.commit([transaction.snapshot.protocol])


@pytest.mark.parametrize("lower", [Protocol(1, 2), Protocol(1, 1)])
def test_a_protocol_that_takes_features_away(lower: Protocol) -> None:
    table = everything()
    with refused(table, errors.ProtocolDowngradeException, "would lose"):
        begin(table).commit([lower])
    with refused(table, errors.ProtocolDowngradeException, "would lose"):
        begin(table).update_protocol(lower)


def test_a_drop_that_takes_more_than_it_says() -> None:
    table = everything()
    transaction = begin(table)
    less = transaction.protocol.without_feature("deletionVectors").without_feature("v2Checkpoint")
    with refused(table, errors.ProtocolDowngradeException, "v2Checkpoint"):
        transaction.update_protocol(less, dropped="deletionVectors")


def test_a_drop_of_a_feature_that_the_metadata_still_uses() -> None:
    table = everything(**{"delta.enableDeletionVectors": "true"})
    transaction = begin(table)
    less = transaction.protocol.without_feature("deletionVectors")
    transaction.update_protocol(less, dropped="deletionVectors")
    with refused(table, errors.FeaturesMismatchError, "deletionVectors"):
        transaction.commit()


def test_a_drop_from_a_legacy_protocol_whose_metadata_still_uses_it() -> None:
    table = RawTable().create(configuration={"delta.constraints.c": "id > 0"}, protocol=protocol(1, 3))
    transaction = begin(table)
    transaction.update_protocol(Protocol(1, 2), dropped="checkConstraints")
    with refused(table, errors.FeaturesMismatchError, "checkConstraints"):
        transaction.commit()


@pytest.mark.parametrize(
    "key", ["delta.minReaderVersion", "delta.minWriterVersion", "DELTA.MINREADERVERSION"]
)
def test_metadata_that_still_carries_a_protocol_version(key: str) -> None:
    for table in (everything(), RawTable()):
        name = "delta.minWriterVersion" if "Writer" in key else "delta.minReaderVersion"
        text = f"Should not have the protocol version \\({name}\\) as part of table properties"
        with refused(table, AssertionError, text):
            begin(table).commit([metadata_of(configuration={key: "2"})])


def test_metadata_that_still_carries_a_feature() -> None:
    table = everything()
    with refused(table, AssertionError, "steers the protocol"):
        begin(table).commit([metadata_of(configuration={"delta.feature.deletionVectors": "supported"})])


def test_update_metadata_consumes_what_steers_the_protocol() -> None:
    table = everything()
    transaction = begin(table)
    transaction.update_metadata(with_property(transaction, feature__vacuumProtocolCheck="supported"))
    transaction.commit()
    snapshot = load(table.log)
    assert snapshot.protocol.supports("vacuumProtocolCheck")
    assert not any("feature" in key for key in snapshot.properties)


@pytest.mark.parametrize(
    "wrong",
    [
        metadata_of(schema="{not json"),
        metadata_of(partitions=["missing"]),
        metadata_of(format={"provider": "orc", "options": {}}),
        metadata_of(configuration={"delta.columnMapping.mode": "name"}),
    ],
)
def test_metadata_that_no_reader_could_serve(wrong: Metadata) -> None:
    for table in (everything(), RawTable()):
        with refused(table, errors.TableError):
            begin(table).commit([wrong])


def test_metadata_among_the_actions_brings_the_protocol_that_it_needs() -> None:
    table = RawTable().create()
    transaction = begin(table)
    transaction.commit([with_property(transaction, enableDeletionVectors="true")])
    assert load(table.log).protocol.supports("deletionVectors")


def test_metadata_among_the_actions_of_the_first_commit_brings_a_protocol_too() -> None:
    table = RawTable()
    begin(table, defaults={"delta.minWriterVersion": "4"}).commit([metadata_of(), file("x")])
    assert load(table.log).protocol == Protocol(1, 4)
    assert [next(iter(a)) for a in commit_lines(table, 0)] == ["commitInfo", "protocol", "metaData", "add"]


def test_a_feature_that_is_not_added_by_itself() -> None:
    table = RawTable().create()
    schema = '{"type":"struct","fields":[{"name":"t","type":"timestamp_ntz","nullable":true,"metadata":{}}]}'
    new = msgspec.structs.replace(load(table.log).metadata, schema_string=schema)
    for use in (lambda t: t.update_metadata(new), lambda t: t.commit([new])):
        with refused(table, errors.ManualEnablementError, "timestampNtz"):
            use(begin(table))


def test_an_explicit_protocol_that_lacks_what_the_metadata_uses() -> None:
    table = RawTable()
    vectors = metadata_of(configuration={"delta.enableDeletionVectors": "true"})
    with refused(table, errors.FeaturesMismatchError, "deletionVectors"):
        begin(table).commit([vectors, Protocol(1, 2)])


def test_a_protocol_asked_for_before_the_table_is_made_is_kept() -> None:
    table = RawTable()
    transaction = begin(table)
    transaction.update_protocol(DELTA.protocol_of(["vacuumProtocolCheck"]))
    transaction.update_metadata(metadata_of(configuration={"delta.enableDeletionVectors": "true"}))
    transaction.commit()
    made = load(table.log).protocol
    assert made.supports("vacuumProtocolCheck")
    assert made.supports("deletionVectors")


# ---------------------------------------------------------------------------- who may write


def table_with(*names: str) -> RawTable:
    body = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": sorted(names)}}
    return RawTable().create(protocol=body)


@pytest.mark.parametrize("name", ["somethingNew", "redirectWriterOnly-preview", "collations-preview"])
def test_a_table_that_this_client_may_not_write(name: str) -> None:
    table = table_with(name, "appendOnly", "invariants")
    assert load(table.log).protocol.supports(name), "it may be read"
    with refused(table, errors.UnsupportedWriterFeatureError, name):
        begin(table)


def test_a_writer_version_of_the_future() -> None:
    table = RawTable().create(protocol=protocol(1, 8, writers=[]))
    with refused(table, errors.UnsupportedWriterVersionError, "8"):
        begin(table)


@pytest.mark.parametrize("name", ["redirectWriterOnly-preview", "collations-preview"])
def test_a_feature_this_client_does_not_write_cannot_be_added(name: str) -> None:
    table = everything()
    new = begin(table).protocol.with_feature(DELTA[name])
    with refused(table, errors.UnsupportedWriterFeatureError, name):
        begin(table).update_protocol(new)
    with refused(table, errors.UnsupportedWriterFeatureError, name):
        begin(table).commit([new])
    with refused(table, errors.UnsupportedWriterFeatureError, name):
        transaction = begin(table)
        transaction.update_metadata(with_property(transaction, **{f"feature__{name}": "supported"}))


def test_an_older_client_is_refused_at_the_door() -> None:
    table = everything()
    old = replace(table.log, registry=DELTA.without(["domainMetadata"]))
    with refused(table, errors.UnsupportedWriterFeatureError, "domainMetadata"):
        Transaction.begin(old)


# ---------------------------------------------------------------------------- file actions


@pytest.mark.parametrize(
    "values", [{}, {"Day": FIRST}, {"day": FIRST, "name": "a"}, {"name": "a"}, None], ids=str
)
def test_partition_values_that_are_not_the_table_s(values: dict[str, str] | None) -> None:
    table = everything()
    good = [file(f"good-{i}", day=FIRST) for i in range(3)]
    with refused(table, errors.CommitRefusedError, "bad has the partition values"):
        begin(table).commit([*good, file("bad", partition_values=values), *good[:0]])


def test_partition_values_on_a_table_without_partitions() -> None:
    table = RawTable().create()
    with refused(table, errors.CommitRefusedError, "partitioned by \\[\\]"):
        begin(table).commit([file("good"), file("bad", day=FIRST)])


def test_a_partition_key_that_comes_twice() -> None:
    table = RawTable().create(schema=PARTITIONED, partitions=["day", "name"])
    ok = to_batch([file("good", partition_values={"day": FIRST, "name": "a"})] * 2, ADD_SCHEMA)
    at = ADD_SCHEMA.get_field_index("partitionValues")
    twice = pa.array(
        [[("day", "a"), ("day", "b")], [("name", "a"), ("name", "b")]], ADD_SCHEMA.field(at).type
    )
    paths = pa.array(["p", "q"])
    batch = ok.set_column(at, ADD_SCHEMA.field(at), twice).set_column(0, ADD_SCHEMA.field(0), paths)
    with refused(table, errors.CommitRefusedError, "p has the partition values"):
        begin(table).commit(adds=batch)


def test_partition_values_may_be_null_and_come_in_any_order() -> None:
    table = RawTable().create(schema=PARTITIONED, partitions=["day", "name"])
    one = file("one", partition_values={"name": None, "day": FIRST})
    other = file("other", partition_values={"day": None, "name": "a"})
    begin(table).commit([one, other])
    assert seen(load(table.log)).paths == ["one", "other"]


def test_partition_values_go_by_physical_names() -> None:
    table = RawTable()
    transaction = begin(table)
    mapped = {"delta.columnMapping.mode": "name"}
    transaction.update_metadata(metadata_of(schema=PARTITIONED, partitions=["day"], configuration=mapped))
    transaction.commit()
    physical = load(table.log).schema.field("day").metadata["delta.columnMapping.physicalName"]  # type: ignore[union-attr]
    with refused(table, errors.CommitRefusedError, "partition values"):
        begin(table).commit([file("x", day=FIRST)])
    begin(table).commit([file("x", partition_values={physical: FIRST})])


def test_a_slice_of_a_table_is_checked_row_by_row() -> None:
    table = everything()
    many = pa.Table.from_batches(
        [
            to_batch(
                [file("bad", partition_values={}), *(file(f"x{i}", day=FIRST) for i in range(5))], ADD_SCHEMA
            )
        ]
    )
    begin(table).commit(adds=many.slice(1, 3))
    assert [p for p in seen(load(table.log)).paths if p.startswith("x")] == ["x0", "x1", "x2"]
    with refused(table, errors.CommitRefusedError, "bad"):
        begin(table).commit(adds=many.slice(0, 1))


def append_only() -> RawTable:
    return everything(**{"delta.appendOnly": "true"})


def test_an_append_only_table_takes_no_deletes() -> None:
    table = append_only()
    with refused(table, errors.AppendOnlyError, "append-only"):
        begin(table).commit([gone(file("f1", day=FIRST))])
    begin(table).commit([file("x", day=FIRST)])


def test_an_append_only_table_may_be_rearranged() -> None:
    table = append_only()
    moved = [gone(file(f, day=FIRST), change=False) for f in ("f1", "f2")]
    begin(table).commit([*moved, file("f12", 0, 19, day=FIRST, data_change=False)])
    assert seen(load(table.log)).paths == ["f12", "g1", "g2"]


def test_a_commit_cannot_lift_append_only_for_its_own_deletes() -> None:
    table = append_only()
    transaction = begin(table)
    transaction.update_metadata(with_property(transaction, appendOnly="false"))
    with refused(table, errors.AppendOnlyError, "append-only"):
        transaction.commit([gone(file("f1", day=FIRST))])


def test_a_commit_that_makes_the_table_append_only_may_still_delete() -> None:
    table = everything()
    transaction = begin(table)
    transaction.update_metadata(with_property(transaction, appendOnly="true"))
    transaction.commit([gone(file("f1", day=FIRST))])
    with refused(table, errors.AppendOnlyError, "append-only"):
        begin(table).commit([gone(file("f2", day=FIRST))])


def test_a_deletion_vector_without_the_feature() -> None:
    table = RawTable().create(add("f1"))
    new = file("f1", deletion_vector=descriptor("x"))
    with refused(table, errors.CommitRefusedError, "lacks deletionVectors"):
        begin(table).commit([gone(file("f1")), new])


@pytest.mark.parametrize("text", [None, "", "{}", '{"minValues":{"id":1}}'])
def test_a_deletion_vector_without_a_number_of_rows(text: str | None) -> None:
    table = everything()
    new = file("f1", day=FIRST, deletion_vector=descriptor("x"), stats=text)
    with refused(table, errors.CommitRefusedError, "numRecords"):
        begin(table).commit([gone(file("f1", day=FIRST)), new, file("plain", day=FIRST, stats=None)])


def test_a_domain_without_the_feature() -> None:
    table = RawTable().create()
    with refused(table, errors.CommitRefusedError, "lacks the feature domainMetadata"):
        begin(table).commit([DomainMetadata(domain="d", configuration="")])


def test_the_mark_of_row_ids_is_nobody_s_to_set() -> None:
    table = RawTable().create(protocol=features(writers=["domainMetadata", "rowTracking"]))
    mark = DomainMetadata(domain="delta.rowTracking", configuration='{"rowIdHighWaterMark":5}')
    with refused(table, errors.CommitRefusedError, "kept by the commit itself"):
        begin(table).commit([mark])


def test_change_files_without_the_change_data_feed() -> None:
    table = RawTable().create()
    change = Cdc(path="_change_data/c", partition_values={}, size=1)
    with refused(table, errors.CommitRefusedError, "change data feed is off"):
        begin(table).commit([file("x"), change])


@pytest.mark.parametrize(
    ("actions", "problem"),
    [
        ([file("x", day=FIRST), file("x", day=SECOND)], "two add actions"),
        ([gone(file("f1", day=FIRST)), gone(file("f1", day=FIRST))], "two remove actions"),
        ([Txn(app_id="a", version=1), Txn(app_id="a", version=2)], "two txn actions"),
        (
            [DomainMetadata(domain="d", configuration=""), DomainMetadata(domain="d", configuration="")],
            "two domain",
        ),
        ([gone(file("f1", day=FIRST)), file("f1", day=FIRST)], "both an add and a remove"),
        ([CheckpointMetadata(version=1)], "cannot hold CheckpointMetadata"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_actions_that_contradict_each_other(actions: list[Any], problem: str) -> None:
    table = everything()
    with refused(table, errors.InvalidCommitError, problem):
        begin(table).commit(actions)


def test_one_file_among_structs_and_again_among_columns() -> None:
    table = everything()
    batch = to_batch([file("x", day=FIRST)], ADD_SCHEMA)
    with refused(table, errors.InvalidCommitError, "two add actions"):
        begin(table).commit([file("x", day=FIRST)], adds=batch)


def test_a_file_may_be_removed_and_added_with_another_vector() -> None:
    table = everything()
    new = file("f1", day=FIRST, deletion_vector=descriptor("x"))
    begin(table).commit([gone(file("f1", day=FIRST)), new])
    assert seen(load(table.log)).paths == ["f1", "f2", "g1", "g2"]


@pytest.mark.parametrize("missing", ["path", "size", "modificationTime", "dataChange"])
def test_columns_that_lack_what_every_add_must_have(missing: str) -> None:
    table = everything()
    batch = to_batch([file("x", day=FIRST)], ADD_SCHEMA)
    incomplete = batch.select([n for n in batch.schema.names if n != missing])
    with refused(table, errors.CommitRefusedError, missing):
        begin(table).commit(adds=incomplete)


@pytest.mark.parametrize("missing", ["path", "dataChange"])
def test_columns_that_lack_what_every_remove_must_have(missing: str) -> None:
    table = everything()
    files = load(table.log).files(columns=[c for c in ("path", "size", "dataChange") if c != missing])
    with refused(table, errors.CommitRefusedError, missing):
        begin(table).commit(removes=files)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "", "%2e%2e/x"])
def test_a_path_that_climbs_out_of_the_table(path: str) -> None:
    table = everything()
    with refused(table, errors.PathOutsideTableError):
        begin(table).commit([file(path, day=FIRST)])


# ---------------------------------------------------------------------------- what is accepted as it comes


def test_files_as_they_were_read_can_be_removed() -> None:
    """``removes`` takes the rows of ``files()``: what a tombstone needs beyond them is filled in."""
    table = everything()
    table.clock.tick()
    transaction = begin(table)
    transaction.commit(removes=transaction.files(f"day = DATE '{FIRST}'"))
    removed = [a["remove"] for a in commit_lines(table, 1) if "remove" in a]
    assert {r["path"] for r in removed} == {"f1", "f2"}
    assert {r["deletionTimestamp"] for r in removed} == {table.clock()}
    assert all(r["extendedFileMetadata"] and r["partitionValues"] == {"day": FIRST} for r in removed)
    assert load(table.log).tombstones().num_rows == 2, "a tombstone without a time would have expired at once"


def test_a_remove_keeps_the_time_it_says() -> None:
    table = everything()
    begin(table).commit([gone(file("f1", day=FIRST))])
    assert commit_lines(table, 1)[1]["remove"]["deletionTimestamp"] == gone(file("f1")).deletion_timestamp


def test_files_may_come_as_tables_batches_and_structs() -> None:
    table = everything()

    def columns(*names: str) -> pa.RecordBatch:
        return to_batch([file(n, day=FIRST) for n in names], ADD_SCHEMA)

    ways: list[Callable[[Transaction], Any]] = [
        lambda t: t.commit(adds=columns("a")),
        lambda t: t.commit(adds=pa.Table.from_batches([columns("b"), columns("c")])),
        lambda t: t.commit(adds=[file("d", day=FIRST)]),
        lambda t: t.commit([file("e", day=FIRST)], adds=columns("f")),
        lambda t: t.commit(adds=columns("x").slice(0, 0)),
    ]
    for way in ways:
        way(begin(table))
    assert [p for p in seen(load(table.log)).paths if len(p) == 1] == list("abcdef")


def test_a_file_without_partition_values_has_an_empty_map_of_them() -> None:
    table = RawTable().create()
    committed = begin(table).commit([file("x", partition_values=None)], adds=[file("y", partition_values={})])
    for snapshot in (committed.snapshot, load(table.log)):
        assert snapshot.files().column("partitionValues").to_pylist() == [[], []]


def test_a_path_without_a_log_has_no_files_in_the_shape_of_files() -> None:
    transaction = begin(RawTable())
    assert transaction.files().schema == ADD_SCHEMA
    assert transaction.files("id = 1", ["path", "size"]).column_names == ["path", "size"]


def test_what_was_checked_can_be_read_back_exactly() -> None:
    table = everything()
    every = Add(
        path="day=2026-01-01/part-0%20of%201.parquet",
        partition_values={"day": FIRST},
        size=2**40,
        modification_time=1,
        data_change=True,
        stats=stats(0, 9),
        tags={"a": "b", "c": None},
        deletion_vector=descriptor("x"),
        base_row_id=5,
        default_row_commit_version=3,
        clustering_provider="liquid",
    )
    begin(table).commit([every])
    [line] = [a["add"] for a in commit_lines(table, 1) if "add" in a]
    assert msgspec.convert(line, Add) == every
