"""The conflict rules one by one, as pure functions: no storage, no loop, one winner each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from support.tables import PARTITIONED, column, metadata, schema_string
from support.transactions import FIRST, SECOND, descriptor, file, gone
from tidegate import errors
from tidegate.files import predicate as predicates
from tidegate.log.actions import DomainMetadata, Txn
from tidegate.log.columns import ADD_SCHEMA, to_batch
from tidegate.metadata import Metadata
from tidegate.protocol.delta import DELTA
from tidegate.protocol.feature import Feature
from tidegate.protocol.protocol import Protocol
from tidegate.transaction.conflicts import (
    RULES,
    Isolation,
    Ours,
    Winner,
    conflict,
    only_enables,
    only_identity_moved,
)
from tidegate.transaction.pending import Changes
from tidegate.transaction.readset import ReadSet

PROTOCOL = DELTA.protocol_of(["appendOnly", "invariants", "domainMetadata", "deletionVectors"])
TABLE = msgspec.convert(metadata(PARTITIONED, ["day"])["metaData"], Metadata)


def winner(*actions: Any, operation: str = "WRITE") -> Winner:
    return Winner(7, Changes.of(actions).as_actions(), {"operation": operation})


def ours(*actions: Any, read: ReadSet | None = None, **more: Any) -> Ours:
    changes = Changes.of(actions)
    fields: dict[str, Any] = {
        "protocol": PROTOCOL,
        "metadata": TABLE,
        "adds": changes.adds,
        "removes": changes.removes,
        "new_protocol": changes.protocol,
        "new_metadata": changes.metadata,
        "domains": changes.domains,
    }
    return Ours(read=read or ReadSet(), **{**fields, **more})


def reading(text: str, found: tuple[str, ...] = ()) -> ReadSet:
    """A read set that was asked for rows by a predicate."""
    predicate = predicates.parse(text).resolve(TABLE.schema)
    return ReadSet().with_predicate(predicate).with_files(pa.array(found, pa.string()))


def with_properties(before: Metadata = TABLE, **values: str) -> Metadata:
    new = {f"delta.{k.replace('__', '.')}": v for k, v in values.items()}
    return before.with_configuration({**before.configuration, **new})


def with_columns(*columns: dict[str, Any], **more: Any) -> Metadata:
    return msgspec.structs.replace(TABLE, schema_string=schema_string(*columns), **more)


def test_every_error_names_the_winner_and_its_operation_and_says_what_to_do() -> None:
    found = conflict(ours(read=ReadSet(whole_table=True)), winner(file("x", day=FIRST), operation="MERGE"))
    assert found is not None
    assert "version 7 (MERGE)" in found.message
    assert found.hint


def test_the_rules_are_asked_in_the_order_of_the_reference() -> None:
    assert [rule.__name__ for rule in RULES] == [
        "protocol_changed",
        "drop_undone",
        "metadata_changed",
        "domain_changed",
        "application_moved",
        "appended_to_read",
        "deleted_what_was_read",
        "deleted_twice",
        "deleted_what_is_renewed",
        "numbered_what_is_renewed",
    ]


def test_a_winner_that_only_says_who_it_is_conflicts_with_nothing() -> None:
    read = ReadSet(whole_table=True, apps=frozenset({"A"})).with_files(pa.array(["f1"]))
    mine = ours(gone(file("f1", day=FIRST)), file("x", day=FIRST), TABLE, PROTOCOL, read=read)
    assert conflict(mine, winner()) is None


# ---------------------------------------------------------------------------- protocol


def test_both_change_the_protocol() -> None:
    mine = PROTOCOL.with_feature(DELTA["v2Checkpoint"])
    theirs = PROTOCOL.with_feature(DELTA["vacuumProtocolCheck"])
    assert isinstance(conflict(ours(mine), winner(theirs)), errors.ProtocolChangedException)


def test_both_make_the_same_change_of_the_protocol() -> None:
    new = PROTOCOL.with_feature(DELTA["v2Checkpoint"])
    assert isinstance(conflict(ours(new), winner(new)), errors.ProtocolChangedException)


def test_a_winner_that_states_the_protocol_again_changes_nothing() -> None:
    assert conflict(ours(PROTOCOL.with_feature(DELTA["v2Checkpoint"])), winner(PROTOCOL)) is None


def test_a_winner_that_adds_a_feature_is_followed() -> None:
    new = PROTOCOL.with_feature(DELTA["vacuumProtocolCheck"])
    assert conflict(ours(file("x", day=FIRST)), winner(new)) is None


@pytest.mark.parametrize("feature", ["domainMetadata", "deletionVectors", "appendOnly"])
def test_a_winner_that_drops_a_feature_stops_everybody(feature: str) -> None:
    found = conflict(ours(file("x", day=FIRST)), winner(PROTOCOL.without_feature(feature)))
    assert isinstance(found, errors.ProtocolChangedException)
    assert feature in found.message


def test_a_legacy_protocol_that_comes_down_has_dropped_what_it_stood_for() -> None:
    mine = ours(file("x", day=FIRST), protocol=Protocol(1, 4))
    assert isinstance(conflict(mine, winner(Protocol(1, 2))), errors.ProtocolChangedException)
    assert conflict(mine, winner(Protocol(1, 4).denormalized())) is None


def test_a_feature_that_no_commit_made_without_it_may_follow() -> None:
    new = PROTOCOL.with_feature(DELTA["clustering"])
    found = conflict(ours(file("x", day=FIRST)), winner(new))
    assert isinstance(found, errors.ProtocolChangedException)
    assert "clustering" in found.message


def test_the_client_s_own_registry_says_which_features_those_are() -> None:
    strict = Feature(
        name="testWriter", reader_writer=False, min_reader=0, min_writer=7, fails_concurrent=True
    )
    new = PROTOCOL.with_feature(strict)
    registry = DELTA.with_features(strict)
    lax = DELTA.with_features(replace(strict, fails_concurrent=False))
    assert conflict(ours(registry=lax), winner(new)) is None
    assert isinstance(conflict(ours(registry=registry), winner(new)), errors.ProtocolChangedException)


# ---------------------------------------------------------------------------- our own drop


def dropping(feature: str, protocol: Protocol = PROTOCOL, **more: Any) -> Ours:
    return ours(protocol.without_feature(feature), protocol=protocol, **more)


def revalidation(found: errors.DeltaConcurrentModificationException | None) -> bool:
    return (
        isinstance(found, errors.ProtocolChangedException)
        and found.errorClass == "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"
    )


def test_deletion_vectors_are_dropped_while_a_winner_writes_one() -> None:
    with_vector = file("f1", day=FIRST, deletion_vector=descriptor("x"))
    assert revalidation(conflict(dropping("deletionVectors"), winner(with_vector)))
    assert conflict(dropping("deletionVectors"), winner(file("f1", day=FIRST))) is None
    # A tombstone with a vector is history, which the command that drops has to deal with anyway.
    assert conflict(dropping("deletionVectors"), winner(gone(with_vector))) is None


def test_deletion_vectors_are_dropped_while_a_winner_enables_them() -> None:
    mine = dropping("deletionVectors")
    assert revalidation(conflict(mine, winner(with_properties(enableDeletionVectors="true"))))


def test_row_tracking_is_dropped_while_a_winner_gives_out_ids() -> None:
    mine = dropping("rowTracking", DELTA.protocol_of(["rowTracking"]))
    assert revalidation(conflict(mine, winner(file("x", day=FIRST, base_row_id=0))))
    assert conflict(mine, winner(file("x", day=FIRST))) is None


def test_domains_are_dropped_while_a_winner_writes_one() -> None:
    mine = dropping("domainMetadata")
    assert revalidation(conflict(mine, winner(DomainMetadata(domain="d", configuration=""))))
    gone_again = DomainMetadata(domain="d", configuration="", removed=True)
    assert conflict(mine, winner(gone_again)) is None


@pytest.mark.parametrize(
    ("feature", "key", "value"),
    [
        ("v2Checkpoint", "checkpointPolicy", "v2"),
        ("inCommitTimestamp", "enableInCommitTimestamps", "true"),
        ("rowTracking", "enableRowTracking", "true"),
    ],
)
def test_a_feature_is_dropped_while_a_winner_switches_it_on(feature: str, key: str, value: str) -> None:
    protocol = DELTA.protocol_of([feature, "appendOnly", "invariants"])
    assert revalidation(conflict(dropping(feature, protocol), winner(with_properties(**{key: value}))))
    assert conflict(dropping(feature, protocol), winner()) is None


# ---------------------------------------------------------------------------- metadata

ENABLING = [
    {"enableRowTracking": "true"},
    {
        "enableRowTracking": "true",
        "rowTracking__materializedRowIdColumnName": "_row-id-col-1",
        "rowTracking__materializedRowCommitVersionColumnName": "_row-version-col-1",
    },
    {"enableDeletionVectors": "true"},
    {"checkpointPolicy": "v2"},
    {"enableInCommitTimestamps": "true"},
    {
        "enableInCommitTimestamps": "true",
        "inCommitTimestampEnablementVersion": "7",
        "inCommitTimestampEnablementTimestamp": "1767225600000",
    },
]


@pytest.mark.parametrize("values", ENABLING, ids=lambda v: next(iter(v)))
def test_a_winner_that_only_enables_is_followed(values: dict[str, str]) -> None:
    theirs = with_properties(**values)
    assert only_enables(TABLE, theirs)
    assert conflict(ours(file("x", day=FIRST)), winner(theirs)) is None


@pytest.mark.parametrize("values", ENABLING, ids=lambda v: next(iter(v)))
def test_a_winner_that_switches_off_again_is_not(values: dict[str, str]) -> None:
    before = with_properties(**values)
    off = {k: "false" if v == "true" else "classic" if v == "v2" else v for k, v in values.items()}
    assert not only_enables(before, with_properties(**off))
    assert not only_enables(before, TABLE), "keys were taken away"


def mapped(*names: tuple[str, str], mode: str = "name") -> Metadata:
    """Column mapping, with columns of the types of the table: (logical, physical) names."""
    columns = [
        column(
            logical,
            kind,
            **{"delta.columnMapping.id": i, "delta.columnMapping.physicalName": physical},
        )
        for i, ((logical, physical), kind) in enumerate(
            zip(names, ("long", "string", "date"), strict=True), 1
        )
    ]
    return with_properties(
        with_columns(*columns), columnMapping__mode=mode, columnMapping__maxColumnId=str(len(columns))
    )


SAME_NAMES = mapped(("id", "id"), ("name", "name"), ("day", "day"))


def test_a_winner_that_maps_columns_by_the_names_they_have_is_followed() -> None:
    assert only_enables(TABLE, SAME_NAMES)


def test_a_winner_that_maps_columns_to_other_names_is_not() -> None:
    # Our files have the columns under the names that users see: they would read as nulls.
    assert not only_enables(TABLE, mapped(("id", "col-1"), ("name", "name"), ("day", "day")))


def test_mapping_by_id_cannot_be_switched_on_under_files_without_ids() -> None:
    assert not only_enables(
        TABLE,
        msgspec.structs.replace(
            SAME_NAMES, configuration={**SAME_NAMES.configuration, "delta.columnMapping.mode": "id"}
        ),
    )


def test_a_column_that_was_dropped_and_added_again_is_another_column() -> None:
    before = mapped(("id", "col-1"), ("name", "col-2"), ("day", "col-3"))
    after = mapped(("id", "col-1"), ("name", "col-9"), ("day", "col-3"))
    assert not only_enables(before, after)
    assert only_enables(before, before)


def test_a_change_of_the_mapping_mode_is_not_a_switch_on() -> None:
    names = (("id", "id"), ("name", "name"), ("day", "day"))
    assert not only_enables(mapped(*names, mode="id"), mapped(*names, mode="name"))


@pytest.mark.parametrize(
    "theirs",
    [
        with_properties(dataSkippingNumIndexedCols="5"),
        with_properties(appendOnly="true"),
        with_properties(enableDeletionVectors="true", appendOnly="true"),
        with_properties(constraints__positive="id > 0"),
        msgspec.structs.replace(TABLE, name="renamed"),
        msgspec.structs.replace(TABLE, description="described"),
        msgspec.structs.replace(TABLE, id="another table"),
        msgspec.structs.replace(TABLE, partition_columns=()),
        with_columns(column("id"), column("name", "string"), column("day", "date"), column("more")),
        with_columns(column("id"), column("name", "string", comment="c"), column("day", "date")),
        with_columns(column("id", nullable=False), column("name", "string"), column("day", "date")),
        with_columns(column("id", "double"), column("name", "string"), column("day", "date")),
        with_columns(column("name", "string"), column("id"), column("day", "date")),
    ],
)
def test_any_other_change_of_the_metadata_stops_everybody(theirs: Metadata) -> None:
    assert isinstance(conflict(ours(), winner(theirs)), errors.MetadataChangedException)
    assert isinstance(conflict(ours(file("x", day=FIRST)), winner(theirs)), errors.MetadataChangedException)


def test_both_change_the_metadata_even_if_the_winner_only_enables() -> None:
    mine = ours(with_properties(checkpointInterval="5"))
    assert isinstance(
        conflict(mine, winner(with_properties(enableDeletionVectors="true"))), errors.MetadataChangedException
    )


def test_the_spelling_of_the_schema_does_not_matter() -> None:
    loose = json.dumps(json.loads(TABLE.schema_string), indent=2)
    assert conflict(ours(), winner(msgspec.structs.replace(TABLE, schema_string=loose))) is None


def identity(mark: int | None, **more: Any) -> Metadata:
    facts: dict[str, Any] = {"delta.identity.start": 1, "delta.identity.step": 1, **more}
    if mark is not None:
        facts["delta.identity.highWaterMark"] = mark
    return with_columns(column("id", **facts), column("name", "string"), column("day", "date"))


def test_marks_of_identity_columns_that_moved_are_followed_by_who_made_no_values() -> None:
    mine = ours(file("x", day=FIRST), metadata=identity(10))
    assert conflict(mine, winner(identity(20))) is None
    assert conflict(ours(metadata=identity(None)), winner(identity(20))) is None


def test_who_made_identity_values_over_a_mark_that_moved_must_run_again() -> None:
    mine = ours(identity(15), file("x", day=FIRST), metadata=identity(10))
    assert isinstance(conflict(mine, winner(identity(20))), errors.MetadataChangedException)


def test_a_mark_that_moved_together_with_anything_else_is_a_change() -> None:
    assert not only_identity_moved(identity(10), identity(20, comment="c"))
    assert not only_identity_moved(identity(10), with_properties(identity(20), appendOnly="true"))


# ---------------------------------------------------------------------------- domains, applications


def test_both_write_one_domain() -> None:
    mine = DomainMetadata(domain="d", configuration="1")
    for theirs in (mine, DomainMetadata(domain="d", configuration="", removed=True)):
        found = conflict(ours(mine), winner(theirs))
        assert isinstance(found, errors.ConcurrentTransactionException)
    assert conflict(ours(mine), winner(DomainMetadata(domain="e", configuration="1"))) is None


def test_the_domain_of_row_ids_is_rebased_instead() -> None:
    both = DomainMetadata(domain="delta.rowTracking", configuration='{"rowIdHighWaterMark":9}')
    assert conflict(ours(both), winner(both)) is None


def test_the_winner_moved_on_an_application_that_was_read() -> None:
    read = ReadSet().with_app("A").with_app("B")
    found = conflict(ours(read=read), winner(Txn(app_id="B", version=3)))
    assert isinstance(found, errors.ConcurrentTransactionException)
    assert conflict(ours(read=read), winner(Txn(app_id="C", version=3))) is None


# ---------------------------------------------------------------------------- files added


def test_an_append_to_what_a_predicate_read() -> None:
    read = reading(f"day = DATE '{FIRST}'")
    found = conflict(ours(read=read), winner(file("x", day=FIRST)))
    assert isinstance(found, errors.ConcurrentAppendException)
    assert conflict(ours(read=read), winner(file("x", day=SECOND))) is None


def test_one_file_among_many_is_enough() -> None:
    read = reading(f"day = DATE '{FIRST}'")
    many = [*(file(f"{i}", day=SECOND) for i in range(9)), file("x", day=FIRST)]
    assert isinstance(conflict(ours(read=read), winner(*many)), errors.ConcurrentAppendException)


def test_any_file_meets_who_read_the_whole_table() -> None:
    read = ReadSet().with_table()
    assert isinstance(
        conflict(ours(read=read), winner(file("x", day=SECOND))), errors.ConcurrentAppendException
    )


def test_files_that_only_move_rows_count_too() -> None:
    moved = file("x", day=FIRST, data_change=False)
    read = reading(f"day = DATE '{FIRST}'")
    assert isinstance(conflict(ours(read=read), winner(moved)), errors.ConcurrentAppendException)


def test_who_only_moves_rows_overlooks_appends() -> None:
    mine = ours(read=reading("id < 5"), isolation=Isolation.SNAPSHOT)
    assert conflict(mine, winner(file("x", 0, 9, day=FIRST))) is None


def test_a_blind_append_overlooks_appends() -> None:
    mine = ours(file("x", day=FIRST), blind_append=True)
    assert conflict(mine, winner(file("y", day=FIRST))) is None


def test_a_partition_without_a_value() -> None:
    theirs = winner(file("x", day=None, partition_values={"day": None}))
    assert isinstance(conflict(ours(read=reading("day IS NULL")), theirs), errors.ConcurrentAppendException)
    assert conflict(ours(read=reading(f"day = DATE '{FIRST}'")), theirs) is None


@pytest.mark.parametrize(
    ("predicate", "low", "high", "meets"),
    [
        ("id = 5", 0, 9, True),
        ("id = 5", 10, 19, False),
        ("id IN (5, 50)", 40, 60, True),
        ("id IN (5, 50)", 10, 19, False),
        ("id BETWEEN 0 AND 9", 9, 20, True),
        ("id BETWEEN 0 AND 9", 10, 20, False),
        ("id < 10 OR id > 90", 95, 99, True),
        ("id < 10 OR id > 90", 10, 90, False),
        ("NOT (id >= 10)", 10, 90, False),
        ("id IS NULL", 0, 9, False),
        ("id % 7 = 3", 0, 9, True),
        ("id = 5 AND rand() < 0.5", 10, 19, False),
        ("id = 5 OR rand() < 0.5", 10, 19, True),
        (f"id = 5 AND day = DATE '{SECOND}'", 0, 9, False),
        (f"id = 5 OR day = DATE '{SECOND}'", 10, 19, False),
    ],
)
def test_statistics_decide_whether_added_files_meet_a_predicate(
    predicate: str, low: int, high: int, meets: bool
) -> None:
    found = conflict(ours(read=reading(predicate)), winner(file("x", low, high, day=FIRST)))
    assert isinstance(found, errors.ConcurrentAppendException) is meets
    assert found is None or meets


@pytest.mark.parametrize(
    "text", [None, "", "{}", '{"numRecords":10}', "not json", '{"minValues":{"id":"x"}}']
)
def test_a_file_without_statistics_could_hold_anything(text: str | None) -> None:
    theirs = winner(file("x", day=FIRST, stats=text))
    assert isinstance(conflict(ours(read=reading("id = 5")), theirs), errors.ConcurrentAppendException)
    # Its partition still tells.
    read = reading(f"id = 5 AND day = DATE '{SECOND}'")
    assert conflict(ours(read=read), theirs) is None


def test_several_predicates_are_several_reads() -> None:
    read = reading("id = 5").with_predicate(predicates.parse("id = 50").resolve(TABLE.schema))
    assert conflict(ours(read=read), winner(file("x", 10, 19, day=FIRST))) is None
    assert isinstance(
        conflict(ours(read=read), winner(file("x", 45, 55, day=FIRST))), errors.ConcurrentAppendException
    )


def test_files_are_looked_up_under_their_physical_names() -> None:
    table = mapped(("id", "col-1"), ("name", "col-2"), ("day", "col-3"))

    def added(low: int, high: int) -> Winner:
        text = json.dumps({"numRecords": 1, "minValues": {"col-1": low}, "maxValues": {"col-1": high}})
        return winner(file("x", partition_values={"col-3": FIRST}, stats=text))

    mine = ours(read=reading(f"id = 5 AND day = DATE '{FIRST}'"), metadata=table)
    assert conflict(mine, added(10, 19)) is None
    assert isinstance(conflict(mine, added(0, 9)), errors.ConcurrentAppendException)


# ---------------------------------------------------------------------------- files removed


def test_the_winner_removed_a_file_that_was_read() -> None:
    read = ReadSet().with_files(pa.array(["f1", "f2"]))
    found = conflict(ours(read=read), winner(gone(file("f2", day=FIRST))))
    assert isinstance(found, errors.ConcurrentDeleteReadException)
    assert "f2" in found.message
    assert conflict(ours(read=read), winner(gone(file("f3", day=FIRST)))) is None


@pytest.mark.parametrize("isolation", Isolation)
def test_a_removal_meets_who_read_the_whole_table_at_every_level(isolation: Isolation) -> None:
    mine = ours(read=ReadSet().with_table(), isolation=isolation)
    assert isinstance(
        conflict(mine, winner(gone(file("f9", day=FIRST)))), errors.ConcurrentDeleteReadException
    )


def test_a_removal_that_only_moves_rows_counts_too() -> None:
    mine = ours(read=ReadSet().with_files(pa.array(["f1"])), isolation=Isolation.SNAPSHOT)
    found = conflict(mine, winner(gone(file("f1", day=FIRST), change=False)))
    assert isinstance(found, errors.ConcurrentDeleteReadException)


def test_a_removal_outside_of_what_was_read_is_nobody_s_business() -> None:
    mine = ours(read=reading("id = 5", ("f1",)))
    assert conflict(mine, winner(gone(file("f2", day=FIRST)))) is None


def test_deletion_vectors_do_not_tell_files_apart() -> None:
    read = ReadSet().with_files(pa.array(["f1"]))
    theirs = winner(gone(file("f1", day=FIRST, deletion_vector=descriptor("x"))))
    assert isinstance(conflict(ours(read=read), theirs), errors.ConcurrentDeleteReadException)
    mine = ours(gone(file("f1", day=FIRST)))
    assert isinstance(conflict(mine, theirs), errors.ConcurrentDeleteDeleteException)


def test_both_remove_a_file() -> None:
    mine = ours(gone(file("f1", day=FIRST)), gone(file("f2", day=FIRST)))
    found = conflict(mine, winner(gone(file("f2", day=FIRST))))
    assert isinstance(found, errors.ConcurrentDeleteDeleteException)
    assert conflict(mine, winner(gone(file("f3", day=FIRST)))) is None


def test_two_spellings_of_an_absolute_path_are_one_file() -> None:
    mine = ours(gone(file("file:///data/f1", day=FIRST)))
    theirs = winner(gone(file("file:/data/f1", day=FIRST)))
    assert isinstance(conflict(mine, theirs), errors.ConcurrentDeleteDeleteException)


def test_a_file_whose_entry_is_renewed_must_still_be_there() -> None:
    renewed = file("f1", day=FIRST, data_change=False, tags={"seen": "yes"})
    theirs = winner(gone(file("f1", day=FIRST)), file("f1", day=FIRST, deletion_vector=descriptor("x")))
    assert isinstance(conflict(ours(renewed), theirs), errors.ConcurrentDeleteReadException)
    assert conflict(ours(renewed), winner(gone(file("f2", day=FIRST)))) is None


def test_a_file_that_a_winner_has_numbered_is_not_renewed_without_its_ids() -> None:
    renewed = file("f1", day=FIRST, data_change=False)
    theirs = file("f1", day=FIRST, data_change=False, base_row_id=0)
    mine = ours(renewed, isolation=Isolation.SNAPSHOT)
    found = conflict(mine, winner(theirs, operation="ROW TRACKING BACKFILL"))
    assert isinstance(found, errors.ConcurrentAppendException)
    assert "f1" in found.message
    assert conflict(mine, winner(file("f2", day=FIRST, base_row_id=0), renewed)) is None
    carried = ours(theirs, file("x", day=FIRST), isolation=Isolation.SNAPSHOT)
    assert conflict(carried, winner(theirs)) is None


def test_many_files_are_compared_as_columns() -> None:
    mine = ours(*(gone(file(f"f{i}", day=FIRST)) for i in range(2_000)))
    theirs = winner(*(gone(file(f"f{i}", day=FIRST)) for i in range(1_999, 4_000)))
    found = conflict(mine, theirs)
    assert isinstance(found, errors.ConcurrentDeleteDeleteException)
    assert "f1999" in found.message


def test_a_read_set_only_grows_and_is_a_value() -> None:
    empty = ReadSet()
    assert empty.empty
    assert empty.with_app("A").empty, "an application id says nothing about rows"
    grown = empty.with_table().with_files(pa.array(["f1"]))
    assert not grown.empty
    assert empty == ReadSet()
    assert empty.with_files(pa.array([], pa.string())).empty
    batch = to_batch([file("x", day=FIRST)], ADD_SCHEMA)
    assert grown.may_match(batch, TABLE)
    assert not grown.may_match(batch.slice(0, 0), TABLE)
