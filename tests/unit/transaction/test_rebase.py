"""What a loser takes over from the winners: metadata, protocol, row ids, times; and what it keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from support.tables import DAY, Clock, RawTable, add, column, features, metadata, schema_string, seen
from support.transactions import (
    FIRST,
    begin,
    commit_info,
    commit_lines,
    everything,
    file,
    gone,
    stats,
    versions,
    with_property,
)
from tidegate import errors
from tidegate.log.actions import DomainMetadata, Txn
from tidegate.log.retention import clean_up
from tidegate.log.snapshot import load
from tidegate.metadata import Metadata
from tidegate.protocol.delta import DELTA
from tidegate.transaction.transaction import Transaction


def of_kind(table: RawTable, version: int, kind: str) -> list[dict[str, Any]]:
    return [line[kind] for line in commit_lines(table, version) if kind in line]


def enable(table: RawTable, **values: str) -> None:
    winner = begin(table)
    winner.update_metadata(with_property(winner, **values))
    winner.commit()


def test_an_append_gets_row_ids_when_a_winner_has_switched_them_on() -> None:
    table = everything()
    loser = begin(table)
    enable(table, enableRowTracking="true")
    loser.commit([file("x", 0, 9, day=FIRST), file("y", 0, 4, day=FIRST)])
    assert [(a["baseRowId"], a["defaultRowCommitVersion"]) for a in of_kind(table, 2, "add")] == [
        (0, 2),
        (10, 2),
    ]
    assert load(table.log).domains["delta.rowTracking"].configuration == '{"rowIdHighWaterMark":14}'


def test_a_commit_that_was_made_without_row_tracking_says_that_it_kept_no_ids() -> None:
    table = everything()
    loser = begin(table)
    enable(table, enableRowTracking="true")
    loser.commit([file("x", day=FIRST)], tags={"mine": "yes"})
    assert commit_info(table, 2)["tags"] == {"mine": "yes", "delta.rowTracking.preserved": "false"}
    after = begin(table)
    after.commit([file("y", day=FIRST)])
    assert commit_info(table, 3)["tags"] == {"delta.rowTracking.preserved": "true"}
    begin(table).commit([file("z", day=FIRST)], tags={"delta.rowTracking.preserved": "false"})
    assert commit_info(table, 4)["tags"] == {"delta.rowTracking.preserved": "false"}


def test_an_append_without_a_number_of_rows_cannot_follow_the_winner_that_wants_row_ids() -> None:
    table = everything()
    loser = begin(table)
    enable(table, enableRowTracking="true")
    with pytest.raises(errors.CommitRefusedError, match="number of rows"):
        loser.commit([file("x", day=FIRST, stats=None)])
    assert versions(table) == [0, 1]


def test_an_append_carries_its_own_time_when_a_winner_has_switched_times_on() -> None:
    table = everything()
    loser = begin(table)
    enable(table, enableInCommitTimestamps="true")
    loser.commit([file("x", day=FIRST)])
    first, second = (commit_info(table, v)["inCommitTimestamp"] for v in (1, 2))
    assert second == first + 1, "the clock stands still, the times do not"
    assert load(table.log).timestamp_ms == second
    assert not of_kind(table, 2, "metaData"), "the winner's metadata stands without being said again"


def test_files_keep_their_names_when_a_winner_has_mapped_the_columns() -> None:
    table = everything()
    loser = begin(table)
    enable(table, columnMapping__mode="name")
    loser.commit([file("x", 50, 59, day=FIRST)])
    snapshot = load(table.log)
    assert snapshot.metadata.configuration["delta.columnMapping.mode"] == "name"
    assert snapshot.files(f"id = 55 AND day = DATE '{FIRST}'").column("path").to_pylist() == ["x"]


def test_mapping_that_was_on_before_is_switched_on_again_by_the_names_columns_have() -> None:
    """The highest id is never given back, but files that were written meanwhile have the users' names."""
    table = RawTable().create(configuration={"delta.columnMapping.maxColumnId": "7"})
    transaction = begin(table)
    transaction.update_metadata(with_property(transaction, columnMapping__mode="name"))
    transaction.commit()
    facts = [f.metadata for f in load(table.log).schema.fields]
    assert [f["delta.columnMapping.physicalName"] for f in facts] == ["id", "name"]
    assert [f["delta.columnMapping.id"] for f in facts] == [8, 9]


def test_a_winner_s_upgrade_is_taken_over_and_checked() -> None:
    table = everything()
    old = replace(table.log, registry=DELTA.without(["vacuumProtocolCheck"]))
    loser = Transaction.begin(old)
    winner = begin(table)
    winner.update_protocol(winner.protocol.with_feature(DELTA["vacuumProtocolCheck"]))
    winner.commit()
    with pytest.raises(errors.UnsupportedReaderFeatureError, match="vacuumProtocolCheck") as raised:
        loser.commit([file("x", day=FIRST)])
    assert raised.value.version == 1
    assert versions(table) == [0, 1]
    newer = begin(table)
    newer.commit([file("x", day=FIRST)])
    assert load(table.log).protocol.supports("vacuumProtocolCheck")


def test_our_protocol_stands_with_metadata_that_a_winner_enabled() -> None:
    table = everything()
    loser = begin(table)
    loser.update_protocol(loser.protocol.with_feature(DELTA["vacuumProtocolCheck"]))
    enable(table, enableDeletionVectors="true")
    loser.commit()
    snapshot = load(table.log)
    assert snapshot.protocol.supports("vacuumProtocolCheck")
    assert snapshot.properties["delta.enableDeletionVectors"] == "true"


def test_our_metadata_stands_with_a_protocol_that_a_winner_upgraded() -> None:
    table = everything()
    loser = begin(table)
    loser.update_metadata(with_property(loser, appendOnly="true"))
    winner = begin(table)
    winner.update_protocol(winner.protocol.with_feature(DELTA["vacuumProtocolCheck"]))
    winner.commit()
    loser.commit()
    snapshot = load(table.log)
    assert snapshot.properties["delta.appendOnly"] == "true"
    assert snapshot.protocol.supports("vacuumProtocolCheck")


def test_every_winner_is_met_in_order_and_each_on_the_table_as_it_was_then() -> None:
    table = everything()
    loser = begin(table)
    enable(table, enableRowTracking="true")
    between = begin(table)
    between.commit([file("w", 0, 6, day=FIRST)])
    enable(table, enableInCommitTimestamps="true")
    committed = loser.commit([file("x", 0, 9, day=FIRST)])
    assert (committed.version, committed.attempts) == (4, 2)
    [added] = of_kind(table, 4, "add")
    assert (added["baseRowId"], added["defaultRowCommitVersion"]) == (7, 4)
    assert commit_info(table, 4)["inCommitTimestamp"] == commit_info(table, 3)["inCommitTimestamp"] + 1
    assert commit_info(table, 4)["readVersion"] == 0


def test_the_third_of_three_winners_decides() -> None:
    table = everything()
    loser = begin(table)
    loser.files("id BETWEEN 0 AND 9")
    for number, low in enumerate((100, 200, 5), 1):
        begin(table).commit([file(f"w{number}", low, low + 1, day=FIRST)])
    with pytest.raises(errors.ConcurrentAppendException) as raised:
        loser.commit([file("x", day=FIRST)])
    assert raised.value.version == 3


# ---------------------------------------------------------------------------- deletes by statistics


def delete_of_ids(table: RawTable) -> tuple[Transaction, Any]:
    """Delete ids 0 to 9, which are all of f1."""
    loser = begin(table)
    [found] = loser.files("id BETWEEN 0 AND 9", ["path"]).column("path").to_pylist()
    assert found == "f1"
    return loser, gone(file("f1", 0, 9, day=FIRST))


@pytest.mark.parametrize("day", [FIRST, "2026-01-03"])
def test_a_delete_by_id_does_not_lose_to_an_append_of_other_ids(day: str) -> None:
    table = everything()
    loser, removed = delete_of_ids(table)
    begin(table).commit([file("w", 10, 1_000, day=day)])
    assert loser.commit([removed]).version == 2
    assert "f1" not in seen(load(table.log)).paths


@pytest.mark.parametrize(
    "text",
    [stats(9, 20), stats(-5, 100), None, '{"numRecords":5}', ""],
    ids=["touches", "covers", "none", "no bounds", "empty"],
)
def test_a_delete_by_id_loses_to_an_append_that_could_hold_those_ids(text: str | None) -> None:
    table = everything()
    loser, removed = delete_of_ids(table)
    begin(table).commit([file("w", day=FIRST, stats=text)])
    with pytest.raises(errors.ConcurrentAppendException):
        loser.commit([removed])
    assert "f1" in seen(load(table.log)).paths


def test_two_deletes_of_different_ids_both_succeed() -> None:
    table = everything()
    one, other = begin(table), begin(table)
    one.files("id < 10")
    other.files("id BETWEEN 10 AND 19")
    one.commit([gone(file("f1", 0, 9, day=FIRST))])
    other.commit([gone(file("f2", 10, 19, day=FIRST))])
    assert seen(load(table.log)).paths == ["g1", "g2"]


# ---------------------------------------------------------------------------- identity columns


def identity_table() -> RawTable:
    return RawTable().create(schema=identity_schema(None), protocol=DELTA_IDENTITY)


DELTA_IDENTITY = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 6}}


def identity_schema(mark: int | None) -> str:
    facts: dict[str, Any] = {
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": False,
    }
    if mark is not None:
        facts["delta.identity.highWaterMark"] = mark
    return schema_string(column("id", **facts), column("name", "string"))


def insert(table: RawTable, transaction: Transaction, name: str, rows: int) -> Any:
    """Write a file with fresh identity values: the mark is read before, and moves with the commit."""
    field = transaction.metadata.schema.fields[0]
    mark = field.metadata.get("delta.identity.highWaterMark", 0)
    transaction.mark_written()
    moved = msgspec.structs.replace(transaction.metadata, schema_string=identity_schema(mark + rows))
    return transaction.commit([moved, file(name, mark + 1, mark + rows)])


def test_identity_values_are_never_given_out_twice() -> None:
    table = identity_table()
    one, other = begin(table), begin(table)
    insert(table, one, "one", 10)
    with pytest.raises(errors.MetadataChangedException):
        insert(table, other, "other", 10)
    insert(table, begin(table), "other", 10)
    snapshot = load(table.log)
    found = snapshot.schema.fields[0].metadata["delta.identity.highWaterMark"]
    assert found == 20
    assert snapshot.files("id <= 10", ["path"]).column("path").to_pylist() == ["one"]
    assert snapshot.files("id > 10", ["path"]).column("path").to_pylist() == ["other"]


def test_a_writer_without_identity_values_takes_over_the_mark_that_moved() -> None:
    table = identity_table()
    plain = begin(table)
    insert(table, begin(table), "one", 10)
    plain.commit([Txn(app_id="a", version=1)])
    insert(table, begin(table), "two", 5)
    assert load(table.log).schema.fields[0].metadata["delta.identity.highWaterMark"] == 15


def test_identity_values_made_while_others_delete_are_kept() -> None:
    table = identity_table()
    insert(table, begin(table), "one", 10)
    writer, deleter = begin(table), begin(table)
    deleter.commit([gone(file("one"))])
    assert insert(table, writer, "two", 10).version == 3


# ---------------------------------------------------------------------------- creation


def new_metadata() -> Metadata:
    return msgspec.convert(metadata()["metaData"], Metadata)


def test_of_two_who_create_a_table_one_does() -> None:
    table = RawTable()
    one, other = begin(table), begin(table)
    for transaction in (one, other):
        transaction.update_metadata(new_metadata())
    one.commit([file("one")])
    with pytest.raises(errors.ProtocolChangedException, match="created the table first"):
        other.commit([file("other")])
    assert seen(load(table.log)).paths == ["one"]


# ---------------------------------------------------------------------------- a log that was cleaned up


def test_a_transaction_older_than_the_log_s_start_is_refused() -> None:
    """The next version looks free because a cleanup took it: a commit there would never be seen."""
    clock = Clock()
    table = RawTable(clock=clock).create(
        configuration={
            "delta.logRetentionDuration": "interval 1 days",
            "delta.deletedFileRetentionDuration": "interval 1 days",
        }
    )
    sleeper = begin(table)
    for number in range(1, 12):
        clock.tick()
        begin(table).commit([file(f"f{number}")])
    clock.tick(3 * DAY)
    assert clean_up(load(table.log)) is not None
    assert versions(table)[0] == 10
    with pytest.raises(errors.ConcurrentWriteException, match="no longer goes on from version 0"):
        sleeper.commit([file("late")])
    assert versions(table) == [10, 11]
    begin(table).commit([file("late")])
    assert "late" in seen(load(table.log)).paths


def test_a_transaction_that_slept_over_many_commits_still_follows_them() -> None:
    clock = Clock()
    table = RawTable(clock=clock).create()
    sleeper = begin(table)
    for number in range(1, 12):
        begin(table).commit([file(f"f{number}")])
    clock.tick(3 * DAY)
    assert sleeper.commit([file("late")]).version == 12


def test_row_ids_start_again_above_a_mark_that_was_there_before_the_feature() -> None:
    """Row tracking was dropped and comes back: ids given out before are not given out again."""
    table = RawTable().create(
        add("f1", stats=stats(0, 9), baseRowId=0, defaultRowCommitVersion=0),
        {
            "domainMetadata": {
                "domain": "delta.rowTracking",
                "configuration": '{"rowIdHighWaterMark":9}',
                "removed": False,
            }
        },
        protocol=features(writers=["domainMetadata"]),
    )
    loser = begin(table)
    enable(table, enableRowTracking="true")
    loser.commit([file("x", 0, 4)])
    assert of_kind(table, 2, "add")[0]["baseRowId"] == 10


def test_a_mark_that_a_winner_took_away_starts_again() -> None:
    table = RawTable().create(protocol=features(writers=["domainMetadata", "rowTracking"]))
    begin(table).commit([file("a")])
    loser = begin(table)
    begin(table).commit([DomainMetadata(domain="delta.rowTracking", configuration="", removed=True)])
    loser.commit([file("x", 0, 4)])
    assert of_kind(table, 3, "add")[0]["baseRowId"] == 0
