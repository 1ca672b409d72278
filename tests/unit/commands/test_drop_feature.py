"""Dropping features: which way it goes, what stands in the log afterwards, and every refusal by its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from support.features import (
    BOUNDARY,
    CP,
    PROPERTY,
    TEST_REMOVALS,
    TESTING,
    TRRW,
    TRW,
    boundary,
    checkpoints,
    commits,
    drop,
    enable,
    features,
    log_of,
    operations,
    set_properties,
)
from support.tables import DAY, HOUR, RawTable, Wire, add, protocol
from support.tables import features as lists
from tidegate import errors
from tidegate.commands.drop_feature import plan
from tidegate.errors import DropFeatureError, TidegateError
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.protocol.protocol import Protocol
from tidegate.storage import StoreDied
from tidegate.transaction.transaction import Transaction

MINUTE = 60_000


def made(
    *names: str, head: Wire | None = None, files: int = 3, **configuration: str
) -> tuple[RawTable, TableLog]:
    """A table of a few files with test features enabled; commits are a second apart."""
    table = RawTable()
    table.create(protocol=head or protocol(1, 2), configuration=configuration)
    for number in range(files):
        table.commit(add(f"f{number}"))
    log = log_of(table)
    for name in names:
        table.clock.tick()
        enable(log, name)
    return table, log


def refused(call: Callable[[], object], error_class: str) -> DropFeatureError:
    with pytest.raises(DropFeatureError) as e:
        call()
    assert e.value.errorClass == error_class
    return e.value


# ---------------------------------------------------------------------------- the fast way


def test_a_feature_of_readers_goes_in_one_step_behind_four_checkpoints() -> None:
    table, log = made(TRRW)
    done = drop(log, TRRW)
    assert features(done) == {"appendOnly", "invariants", CP}
    assert (done.protocol.min_reader_version, done.protocol.min_writer_version) == (1, 7)
    assert boundary(done) == done.version
    assert checkpoints(table) == [done.version - 3, done.version - 2, done.version - 1, done.version]
    assert operations(table)[-5:] == [
        "UNSET TBLPROPERTIES",
        "Empty Commit",
        "Empty Commit",
        "Empty Commit",
        "DROP FEATURE",
    ]
    assert done.files().num_rows == 3
    assert verify(table.log, data=False).errors == ()


def test_a_feature_of_writers_goes_without_protection_and_without_checkpoints() -> None:
    table, log = made(TRW)
    done = drop(log, TRW)
    assert done.protocol == Protocol(1, 2)
    assert (boundary(done), checkpoints(table)) == (None, [])


def test_column_mapping_that_a_version_implied_becomes_a_list() -> None:
    table, log = made(head=protocol(2, 5))
    done = drop(log, "columnMapping")
    assert (done.protocol.min_reader_version, done.protocol.min_writer_version) == (1, 7)
    assert features(done) == {
        "invariants",
        "appendOnly",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        CP,
    }
    assert boundary(done) == done.version
    assert len(checkpoints(table)) == 4


def test_a_second_drop_moves_the_boundary_and_adds_four_checkpoints() -> None:
    table, log = made(TRRW)
    set_properties(log, delta__feature__vacuumProtocolCheck="supported")
    first = drop(log, TRRW)
    second = drop(log, "vacuumProtocolCheck")
    assert features(second) == {"appendOnly", "invariants", CP}
    assert boundary(first) == first.version
    assert boundary(second) == second.version > first.version
    assert len(checkpoints(table)) == 8


def test_reintroducing_and_dropping_again_works() -> None:
    table, log = made(TRRW, **{"delta.checkpointInterval": "100"})
    drop(log, TRRW)
    enable(log, TRRW)
    assert TRRW in features(load(log))
    done = drop(log, TRRW)
    assert (TRRW in features(done), boundary(done)) == (False, done.version)
    assert len(checkpoints(table)) == 8


def test_the_barriers_follow_the_checkpoint_interval_without_doubling() -> None:
    """Version 10 would be checkpointed anyway: it still is one checkpoint."""
    table, log = made(TRRW, files=6)
    done = drop(log, TRRW)
    assert done.version == 12
    assert checkpoints(table) == [9, 10, 11, 12]


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_versions_before_and_after_a_drop_are_gated_one_by_one(policy: str) -> None:
    """Time travel to a version that needs the feature, by a client that lacks it."""
    table, log = made(TRRW, **{"delta.feature.v2Checkpoint": "supported"} if policy == "v2" else {})
    if policy == "v2":
        set_properties(log, delta__checkpointPolicy="v2")
    before = load(log).version
    done = drop(log, TRRW)
    old = replace(table.log, registry=TESTING.without([TRRW]))
    assert load(old).files().num_rows == 3
    for version in range(before, done.version):
        with pytest.raises(errors.UnsupportedReaderFeatureError) as e:
            load(old, version)
        assert e.value.errorClass == "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
        assert load(log, version).files().num_rows == 3
    assert load(old, 2).files().num_rows == 2, "from before the feature was there"


# ---------------------------------------------------------------------------- the way of truncation


def test_truncating_waits_a_day_and_leaves_no_protection() -> None:
    table, log = made(TRRW)
    error = refused(lambda: drop(log, TRRW, True), "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD")
    assert "24 hours" in error.message
    assert "30 days" in error.message
    assert len(checkpoints(table)) == 1
    table.clock.tick(DAY + 5 * MINUTE)
    done = drop(log, TRRW, True)
    assert features(done) == {"appendOnly", "invariants"}
    assert (boundary(done), done.protocol) == (None, Protocol(1, 2))
    assert min(commits(table)) == checkpoints(table)[0], "the log begins at its earliest checkpoint"


def test_a_second_attempt_too_early_names_the_history() -> None:
    table, log = made(TRRW)
    refused(lambda: drop(log, TRRW, True), "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD")
    table.clock.tick(HOUR)
    refused(lambda: drop(log, TRRW, True), "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST")
    assert TRRW in features(load(log))
    table.clock.tick(DAY)
    assert drop(log, TRRW, True).protocol == Protocol(1, 2)


def test_a_feature_that_was_never_used_needs_no_waiting() -> None:
    table, log = made()
    set_properties(log, **{f"delta.feature.{TRRW}": "supported"})
    done = drop(log, TRRW, True)
    assert (done.protocol, boundary(done)) == (Protocol(1, 2), None)
    assert min(commits(table)) == 0, "nothing had expired"


def test_enabling_it_again_between_two_attempts_starts_the_wait_anew() -> None:
    table, log = made(TRRW)
    refused(lambda: drop(log, TRRW, True), "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD")
    table.clock.tick(DAY + 5 * MINUTE)
    enable(log, TRRW)
    refused(lambda: drop(log, TRRW, True), "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD")
    table.clock.tick(DAY + 5 * MINUTE)
    assert drop(log, TRRW, True).protocol == Protocol(1, 2)


def test_after_a_failed_truncation_the_fast_way_is_open() -> None:
    table, log = made(TRRW)
    refused(lambda: drop(log, TRRW, True), "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD")
    assert len(checkpoints(table)) == 1
    table.clock.tick(DAY + 5 * MINUTE)
    done = drop(log, TRRW)
    assert (CP in features(done), boundary(done)) == (True, done.version)
    assert len(checkpoints(table)) == 5


def test_the_tables_own_retention_for_truncation_counts() -> None:
    table, log = made(TRRW, **{"delta.dropFeatureTruncateHistory.retentionDuration": "interval 2 hours"})
    error = refused(lambda: drop(log, TRRW, True), "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD")
    assert "2 hours" in error.message
    table.clock.tick(2 * HOUR + MINUTE)
    assert drop(log, TRRW, True).protocol == Protocol(1, 2)


def test_where_drops_are_not_fast_the_history_expires_by_the_tables_own_retention() -> None:
    table, log = made(TRRW, TRW)
    error = refused(lambda: drop(log, TRRW, fast=False), "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD")
    assert "fastDropFeature" in str(error)
    table.clock.tick(DAY + 5 * MINUTE)
    refused(lambda: drop(log, TRRW, fast=False), "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST")
    assert TRW not in features(drop(log, TRW, fast=False)), "it leaves nothing that readers must know"
    table.clock.tick(32 * DAY)
    done = drop(log, TRRW, fast=False)
    assert (TRRW in features(done), boundary(done)) == (False, None)


# ---------------------------------------------------------------------------- the end of protection


def dropped_and_left(hours: float) -> tuple[RawTable, TableLog, int]:
    table, log = made(TRRW)
    done = drop(log, TRRW)
    table.clock.tick(int(hours * HOUR))
    return table, log, done.version


def test_protection_ends_together_with_what_it_protects() -> None:
    table, log, at = dropped_and_left(0)
    wait = "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD"
    error = refused(lambda: drop(log, CP, True), wait)
    assert "24 hours" in error.message
    table.clock.tick(48 * HOUR)
    done = drop(log, CP, True)
    assert (features(done), boundary(done)) == ({"appendOnly", "invariants"}, None)
    assert min(commits(table)) >= at
    assert min(checkpoints(table)) >= at
    assert done.files().num_rows == 3
    assert verify(table.log, data=False).errors == ()


@pytest.mark.parametrize("hours", [0, 15])
def test_within_the_retention_protection_stays(hours: int) -> None:
    _, log, _ = dropped_and_left(hours)
    wait = "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD"
    refused(lambda: drop(log, CP, True), wait)
    refused(lambda: drop(log, CP, True), wait)
    assert CP in features(load(log))


def test_protection_never_ends_without_truncation() -> None:
    _, log, _ = dropped_and_left(48)
    refused(
        lambda: drop(log, CP),
        "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION",
    )


def test_where_cleanup_has_truncated_already_nothing_more_goes() -> None:
    table, log, at = dropped_and_left(32 * 24)
    snapshot = load(log)
    Transaction(log, snapshot).commit([], "WRITE")
    from tidegate.log.checkpoint.write import write_checkpoint
    from tidegate.log.retention import clean_up

    write_checkpoint(load(log))
    clean_up(load(log))
    first = min(commits(table))
    assert first >= at
    done = drop(log, CP, True)
    assert CP not in features(done)
    assert min(commits(table)) == first


# ---------------------------------------------------------------------------- refusals, in their order


def test_a_property_is_no_feature() -> None:
    _, log = made(TRRW)
    refused(lambda: drop(log, "delta.enableDeletionVectors"), "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY")


@pytest.mark.parametrize("name", [TRRW, "deletionVectors", "clustering", "checkpointProtection"])
def test_a_feature_that_the_table_lacks(name: str) -> None:
    _, log = made()
    error = refused(lambda: drop(log, name), "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT")
    assert "appendOnly, invariants" in error.message


@pytest.mark.parametrize("name", ["appendOnly", "invariants", "APPENDONLY"])
def test_a_feature_that_cannot_be_removed_also_if_a_version_implies_it(name: str) -> None:
    _, log = made()
    refused(lambda: drop(log, name), "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE")


def test_clustering_cannot_be_removed() -> None:
    _, log = made(head=lists(writers=["clustering", "domainMetadata"]))
    refused(lambda: drop(log, "clustering"), "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE")


@pytest.mark.parametrize(
    "name",
    [
        "geospatial",
        "geospatial-dev",
        "catalogManaged",
        "coordinatedCommits-preview",
        "redirectReaderWriter-preview",
        "redirectWriterOnly-preview",
    ],
)
def test_removable_features_that_this_client_only_knows_by_name(name: str) -> None:
    row = TESTING[name]
    others = sorted(TESTING.closure([name]) - {name})
    head = lists(*([name] if row.reader_writer else []), writers=[] if row.reader_writer else [name])
    rest = [o for o in others if not TESTING[o].reader_writer]
    both = [o for o in others if TESTING[o].reader_writer]
    head["protocol"]["writerFeatures"] += [*rest, *both]
    head["protocol"]["readerFeatures"] += both
    table = RawTable().create(protocol=head)
    error = refused(lambda: drop(log_of(table), name), "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE")
    assert name in error.message


@pytest.mark.parametrize("name", ["abc", "somethingNew"])
def test_a_feature_that_nobody_here_knows(name: str) -> None:
    table = RawTable().create(protocol=lists(writers=["somethingNew"]))
    refused(lambda: drop(log_of(table), name), "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE")


@pytest.mark.parametrize("name", [TRW, "domainMetadata"])
def test_history_is_not_truncated_for_a_feature_that_leaves_nothing_there(name: str) -> None:
    _, log = made(TRW)
    set_properties(log, delta__feature__domainMetadata="supported")
    refused(lambda: drop(log, name, True), "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED")


def test_a_feature_that_another_one_requires() -> None:
    _, log = made(head=lists(writers=["domainMetadata", "rowTracking"]))
    error = refused(lambda: drop(log, "domainMetadata"), "DELTA_FEATURE_DROP_DEPENDENT_FEATURE")
    assert "rowTracking" in error.message


@pytest.mark.parametrize(
    ("name", "truncate", "error_class"),
    [
        # What is no feature comes before everything else, and what the table lacks before what it is.
        ("delta.enableRowTracking", True, "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY"),
        ("clustering", True, "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"),
        ("checkpointProtection", None, "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"),
        ("geospatial", None, "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"),
        # That it cannot go comes before how, and how before who needs it.
        ("appendOnly", True, "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"),
        ("somethingNew", True, "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"),
        ("domainMetadata", True, "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED"),
        ("domainMetadata", None, "DELTA_FEATURE_DROP_DEPENDENT_FEATURE"),
    ],
)
def test_of_two_reasons_the_first_one_is_told(name: str, truncate: bool | None, error_class: str) -> None:
    writers = ["appendOnly", "domainMetadata", "rowTracking", "somethingNew"]
    table = RawTable().create(protocol=lists(writers=writers))
    refused(lambda: drop(log_of(table), name, truncate), error_class)


@pytest.mark.parametrize(
    "name", [TRRW, "appendOnly", "abc", "delta.enableDeletionVectors", "checkpointProtection"]
)
def test_a_refusal_changes_nothing_and_the_plan_refuses_alike(name: str) -> None:
    table, log = made()
    before = table.names()
    with pytest.raises(DropFeatureError) as real:
        drop(log, name)
    with pytest.raises(DropFeatureError) as planned:
        plan(load(log), name)
    assert table.names() == before
    assert type(real.value) is type(planned.value)


def test_there_must_be_a_table() -> None:
    with pytest.raises(errors.NotATableError):
        drop(log_of(RawTable()), TRRW)


def test_lower_versions_than_the_table_has_change_nothing() -> None:
    _table, log = made(TRRW)
    before = load(log)
    set_properties(log, delta__minReaderVersion="1", delta__minWriterVersion="2")
    assert load(log).protocol == before.protocol


def test_a_protocol_without_its_features_is_refused_outside_a_drop() -> None:
    _table, log = made(TRRW)
    transaction = Transaction.begin(log)
    with pytest.raises(errors.ProtocolDowngradeException):
        transaction.update_protocol(Protocol(1, 2))


# ---------------------------------------------------------------------------- races


def racing(log: TableLog, version: int, act: Callable[[], object]) -> TableLog:
    """The same table in other hands: ``act`` happens just before it is to write ``version``."""
    done: list[bool] = []

    def hook(op: str, name: str) -> None:
        if op == "put_if_absent" and name.endswith(f"{version:020d}.json") and not done:
            done.append(True)
            act()

    store = log.store.handle(hook=hook)  # type: ignore[attr-defined]
    return replace(log, store=store)


def test_an_append_that_wins_moves_the_boundary() -> None:
    table, log = made(TRRW)
    at = load(log).version + 5
    done = drop(racing(log, at, lambda: Transaction.begin(log).commit([_file("late")])), TRRW)
    assert (done.version, boundary(done)) == (at + 1, at + 1)
    assert done.files().num_rows == 4
    assert checkpoints(table) == [at - 3, at - 2, at - 1, at + 1]
    old = replace(table.log, registry=TESTING.without([TRRW]))
    assert load(old).files().num_rows == 4


@pytest.mark.parametrize("truncate", [None, True])
def test_a_winner_that_uses_the_feature_again_stops_the_drop_by_name(truncate: bool | None) -> None:
    _table, log = made()
    set_properties(log, **{f"delta.feature.{TRRW}": "supported"})
    at = load(log).version + (2 if truncate else 4)
    with pytest.raises(TidegateError) as e:
        drop(racing(log, at, lambda: enable(log, TRRW)), TRRW, truncate)
    assert e.value.errorClass == "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"
    assert TRRW in features(load(log))
    assert boundary(load(log)) is None


def test_who_uses_it_again_before_the_last_commit_stops_the_drop_too() -> None:
    """Between the last barrier and the drop: it is seen when the drop reads the table."""
    _table, log = made(TRRW)
    at = load(log).version + 4
    racer = racing(log, at, lambda: None)

    def after(op: str, name: str) -> None:
        if op == "put" and name.endswith(f"{at:020d}.checkpoint.parquet"):
            enable(log, TRRW)

    racer.store.hook = after  # type: ignore[attr-defined]
    refused(lambda: drop(racer, TRRW), "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL")


def test_a_drop_that_wins_stops_everybody_else() -> None:
    _, log = made()
    set_properties(log, **{f"delta.feature.{TRRW}": "supported"})
    slow = Transaction.begin(log)
    drop(log, TRRW)
    with pytest.raises(errors.ProtocolChangedException) as e:
        slow.commit([_file("late")])
    assert e.value.errorClass == "DELTA_PROTOCOL_CHANGED"


def test_two_drops_of_one_feature_at_once_make_one() -> None:
    _table, log = made(TRRW)
    at = load(log).version + 5
    with pytest.raises(errors.ProtocolChangedException):
        drop(racing(log, at, lambda: drop(log, TRRW)), TRRW)
    assert TRRW not in features(load(log))


def _file(name: str) -> object:
    from support.tables import structs

    return structs(add(name))[0]


# ---------------------------------------------------------------------------- failures


def test_a_barrier_that_cannot_be_checkpointed_ends_the_drop_with_the_feature_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, log = made(TRRW)

    def hook(op: str, name: str) -> None:
        if op == "put" and ".checkpoint." in name:
            raise errors.StorageError("The disk is full.")

    broken = replace(log, store=log.store.handle(hook=hook))  # type: ignore[attr-defined]
    error = refused(lambda: drop(broken, TRRW), "DELTA_FEATURE_DROP_CHECKPOINT_FAILED")
    assert "3 attempts" in error.message
    assert TRRW in features(load(log))
    assert checkpoints(table) == []


def test_a_checkpoint_that_fails_once_or_twice_is_tried_again() -> None:
    table, log = made(TRRW)
    failures = [2]

    def hook(op: str, name: str) -> None:
        if op == "put" and ".checkpoint." in name and failures[0]:
            failures[0] -= 1
            raise errors.StorageError("The disk is full.")

    done = drop(replace(log, store=log.store.handle(hook=hook)), TRRW)  # type: ignore[attr-defined]
    assert len(checkpoints(table)) == 4
    assert boundary(done) == done.version


def test_a_checkpoint_of_the_drop_itself_that_fails_is_made_up_for_later() -> None:
    table, log = made(TRRW)
    at = load(log).version + 5

    def hook(op: str, name: str) -> None:
        if op == "put" and name.endswith(f"{at:020d}.checkpoint.parquet"):
            raise errors.StorageError("The disk is full.")

    done = drop(replace(log, store=log.store.handle(hook=hook)), TRRW)  # type: ignore[attr-defined]
    assert checkpoints(table) == [at - 3, at - 2, at - 1]
    assert boundary(done) == done.version == at
    old = replace(table.log, registry=TESTING.without([TRRW]))
    assert load(old).files().num_rows == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_drop_that_dies_anywhere_leaves_a_sound_table_and_can_be_repeated(when: str) -> None:
    base, _ = made(TRRW)
    deaths = finished = 0
    last: list[str] = []
    for number in range(1, 400):
        table = base.survivor()
        log = log_of(table)
        table.memory.die_at(number, when=when)  # type: ignore[arg-type]
        try:
            drop(log, TRRW)
        except StoreDied:
            deaths += 1
        else:
            break
        again = table.survivor()
        if again.names() == last:
            continue
        last = again.names()
        log = log_of(again)
        found = load(log)
        assert found.files().num_rows == 3
        assert verify(log, data=False).errors == ()
        if TRRW in features(found):
            assert boundary(found) is None
            assert TRRW not in features(drop(log, TRRW))
        else:
            finished += 1
            assert boundary(found) == found.version
        old = replace(log, registry=TESTING.without([TRRW]))
        assert load(old).files().num_rows == 3
    else:
        pytest.fail("the drop never came to its end")
    assert deaths > 60
    assert finished > 0


# ---------------------------------------------------------------------------- the plan


def test_the_plan_of_the_fast_way_is_what_happens() -> None:
    table, log = made(TRRW)
    before = load(log)
    told = plan(before, TRRW, removals=TEST_REMOVALS)
    done = drop(log, TRRW)
    assert (told.commits, told.checkpoints) == (done.version - before.version, len(checkpoints(table)))
    assert (told.files, told.bytes, told.wait, told.needs_spark) == (0, 0, 0, False)
    assert told.protocol == done.protocol


def test_the_plan_of_truncation_says_how_long_it_waits() -> None:
    _table, log = made(TRRW)
    told = plan(load(log), TRRW, truncate=True)
    assert (told.wait, told.checkpoints) == (DAY, 1)
    assert told.protocol == Protocol(1, 2)


def test_properties_that_are_unset_say_so_in_the_log() -> None:
    _table, log = made(TRRW)
    drop(log, TRRW)
    assert PROPERTY[TRRW] not in load(log).properties
    assert BOUNDARY in load(log).properties
    assert load(log).commit_info["operationParameters"]["featureName"] == TRRW
