"""Checkpoint protection, (a) to (d): what a cleanup leaves below the boundary, and who may add to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.features import checkpoints, commits, versions
from support.tables import (
    DAY,
    FORMS,
    HOUR,
    LOG,
    RawTable,
    Wire,
    add,
    checkpoint_bytes,
    commit_info,
    features,
    lines,
    metadata,
    remove,
    seen,
    state_actions,
    stats,
    vector,
)
from tidegate.commands.drop_feature import drop_feature
from tidegate.errors import ProtocolError, UnsupportedReaderFeatureError, VersionNotFoundError
from tidegate.log import protection
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.names import Kind, parse
from tidegate.log.retention import Cleanup, clean_up
from tidegate.log.segment import list_log
from tidegate.log.snapshot import load, unguarded
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.protocol.delta import DELTA
from tidegate.protocol.feature import Registry
from tidegate.storage import StoreDied

BOUNDARY = "delta.requireCheckpointProtectionBeforeVersion"
BASE = ("appendOnly", "checkpointProtection", "invariants")
UNSUPPORTED = features("deletionVectors", "v2Checkpoint", writers=BASE)
FOR_WRITING = features("v2Checkpoint", writers=[*BASE, "domainMetadata"])
AGAIN = features("v2Checkpoint", writers=BASE)
OLD = DELTA.without(["deletionVectors", "domainMetadata"])


def head(boundary: int) -> tuple[Wire, Wire]:
    keep = {
        "delta.logRetentionDuration": "interval 3 days",
        "delta.deletedFileRetentionDuration": "interval 1 days",
    }
    return AGAIN, metadata(configuration={**keep, BOUNDARY: str(boundary)})


def protected(
    boundary: int,
    protocols: dict[int, Wire] | None = None,
    *,
    checkpoints: dict[int, str] | None = None,
    checksums: bool = True,
    versions: int = 16,
) -> RawTable:
    """A commit a day at noon, the first version protected from ``boundary`` on; protocols change as told."""
    table = RawTable()
    table.clock.tick(12 * HOUR)
    for number in range(versions):
        said = (protocols or {}).get(number)
        first = head(boundary) if number == 0 else ()
        if said is not None and number == 0:
            first = (said, first[1])
        changed = [said] if said is not None and number else []
        gone = [remove(f"f{number - 2}", time=table.clock.now)] if number > 2 else []
        table.commit(*first, *changed, add(f"f{number}"), *gone, tick=DAY)
        if checksums:
            table.checksum()
        if number in (checkpoints if checkpoints is not None else {10: "classic"}):
            table.checkpoint(number, (checkpoints or {}).get(number, "classic"))
    return table


def expire(table: RawTable, version: int) -> int:
    """The moment up to which ``version`` and everything before it has expired."""
    return table.store.head(f"{LOG}/{version:020d}.json").modified


def client(table: RawTable, registry: Registry) -> TableLog:
    return replace(table.log, registry=registry)


def clean(table: RawTable, expired: int, registry: Registry = DELTA) -> Cleanup | None:
    return clean_up(load(client(table, registry)), before=expire(table, expired))


def whole(table: RawTable, since: int) -> None:
    """Every version from ``since`` on reads as it was written."""
    for version in range(since, table.version + 1):
        assert seen(table.load(version), tombstones=False) == table.state(version).without_tombstones()


# ---------------------------------------------------------------------------- all of it, or a part


@pytest.mark.parametrize("boundary", [0, 1, 5, 10])
def test_a_cleanup_that_reaches_the_boundary_takes_everything_below_its_start(boundary: int) -> None:
    table = protected(boundary, checkpoints={4: "classic", 10: "classic"})
    plan = clean(table, 12)
    assert plan is not None
    assert (plan.start, commits(table), checkpoints(table)) == (10, list(range(10, 16)), [10])
    whole(table, 10)


@pytest.mark.parametrize("form", FORMS)
def test_a_part_of_the_range_goes_without_its_checkpoints(form: str) -> None:
    """(a): also the checkpoint below the new start stays, though nothing leads to it any more."""
    table = protected(14, checkpoints={4: form, 10: form})
    plan = clean(table, 12)
    assert plan is not None
    assert (plan.start, commits(table), checkpoints(table)) == (10, list(range(10, 16)), [4, 10])
    assert versions(table, Kind.CHECKSUM) == list(range(10, 16))
    whole(table, 10)
    assert seen(table.load(4), tombstones=False) == table.state(4).without_tombstones()
    with pytest.raises(VersionNotFoundError):
        table.load(7)
    assert verify(table.log, data=False).errors == ()
    assert clean(table, 12) is None, "what stays is no work for the next cleanup"


def test_what_a_part_left_goes_when_the_boundary_has_expired_too() -> None:
    table = protected(13, checkpoints={4: "classic", 10: "classic", 12: "classic", 14: "v2-json"})
    clean(table, 11)
    assert checkpoints(table) == [4, 10, 12, 14]
    clean(table, 15)
    assert (commits(table), checkpoints(table)) == ([14, 15], [14])
    whole(table, 14)


def test_a_table_without_the_feature_has_no_boundary() -> None:
    """The property alone protects nothing."""
    table = protected(14, {0: features(writers=["appendOnly", "invariants"])})
    assert protection.boundary(table.load()) == 0
    plan = clean(table, 12)
    assert plan is not None
    assert (commits(table)[0], checkpoints(table)) == (10, [10])


# ---------------------------------------------------------------------------- (c) who may take a part


@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("at", range(15))
def test_a_version_that_cannot_be_read_here_keeps_the_part_it_is_in(at: int, checksums: bool) -> None:
    """One version asks for a feature that this client lacks. Versions from the new start, 10, on stay."""
    table = protected(14, {at: UNSUPPORTED, at + 1: AGAIN}, checksums=checksums)
    before = table.names()
    plan = clean(table, 12, OLD)
    assert (plan is None) == (at <= 10)
    if at <= 10:
        assert table.names() == before
    else:
        assert (commits(table)[0], checkpoints(table)) == (10, [10])
    whole(table, 10)


@pytest.mark.parametrize("at", range(15))
def test_of_what_only_binds_writers_the_new_start_alone_is_asked(at: int) -> None:
    table = protected(14, {at: FOR_WRITING, at + 1: AGAIN})
    before = table.names()
    clean(table, 12, OLD)
    assert (table.names() == before) == (at == 10)


@pytest.mark.parametrize("at", range(15))
def test_all_of_it_in_one_go_asks_for_no_protocol(at: int) -> None:
    table = protected(14, {at: UNSUPPORTED, at + 1: AGAIN}, checkpoints={10: "classic", 14: "classic"})
    assert clean(table, 12, OLD) is None or at > 10
    plan = clean(table, 15, OLD)
    assert plan is not None
    assert (commits(table), checkpoints(table)) == ([14, 15], [14])


def test_a_checkpoint_at_the_edge_is_no_exemption() -> None:
    """Stricter than delta-spark, which lets the part go if a checkpoint stands right after it."""
    table = protected(14, {11: UNSUPPORTED, 12: AGAIN}, checkpoints={11: "classic"})
    before = table.names()
    assert clean(table, 12, OLD) is None
    assert table.names() == before


@pytest.mark.parametrize("changed", [True, False])
def test_a_protocol_that_nobody_can_tell_keeps_the_part(changed: bool) -> None:
    """Version 5 follows from nothing before it; from the one after it only if that has left it alone."""
    table = protected(14, {7: AGAIN} if changed else None, checkpoints={4: "classic", 10: "classic"})
    table.delete_commits(5)
    for version in (5, 6):
        table.delete(f"{version:020d}.crc")
    table.delete(f"{4:020d}.checkpoint.parquet", f"{4:020d}.crc")
    before = table.names()
    plan = clean(table, 12)
    assert (plan is None) == changed
    assert (table.names() == before) == changed


@pytest.mark.parametrize(("checksums", "goes"), [(True, True), (False, False)])
def test_what_would_not_be_known_after_a_crash_is_not_begun(checksums: bool, goes: bool) -> None:
    """Without checksums version 3 is told only by those before it, which go first."""
    table = protected(14, {4: FOR_WRITING, 5: AGAIN}, checksums=checksums)
    listing = list_log(table.store, LOG, 0)
    assert None not in dict(protection.protocols(table.log, listing, 0, 10)).values()
    assert (clean(table, 12) is not None) == goes


def test_a_checksum_without_a_protocol_is_made_up_for_by_replay() -> None:
    table = protected(14)
    for version in range(11):
        table.checksum(version, protocol=None)
    assert clean(table, 12) is not None
    assert commits(table)[0] == 10


def test_protocols_come_from_checksums_commits_checkpoints_and_what_went_before() -> None:
    table = protected(14, {3: UNSUPPORTED, 6: AGAIN}, checkpoints={8: "classic"})
    table.delete(*(f"{v:020d}.crc" for v in (3, 4, 7, 8)))
    listing = list_log(table.store, LOG, 0)
    found = dict(protection.protocols(table.log, listing, 0, 9))
    assert [v for v, p in found.items() if p is not None and p.supports("deletionVectors")] == [3, 4, 5]
    assert None not in found.values()


def test_a_boundary_that_moved_since_the_snapshot_counts() -> None:
    """Another writer drops a feature while a cleanup is being planned."""
    table = protected(0)
    stale = table.load()
    table.commit(head(14)[1])
    clean_up(stale, before=expire(table, 12))
    assert checkpoints(table) == [10]
    table = protected(0, checkpoints={4: "classic", 10: "classic"})
    stale = table.load()
    table.commit(head(14)[1])
    clean_up(stale, before=expire(table, 12))
    assert (commits(table)[0], checkpoints(table)) == (10, [4, 10])


# ---------------------------------------------------------------------------- (b) new checkpoints


@pytest.mark.parametrize("version", range(16))
def test_a_checkpoint_below_the_boundary_is_made_only_by_who_supports_that_version(version: int) -> None:
    table = protected(14, {5: UNSUPPORTED, 8: AGAIN, 9: FOR_WRITING, 12: AGAIN}, checkpoints={})
    before = table.names()
    old = client(table, OLD)
    if 5 <= version < 8:
        with pytest.raises(UnsupportedReaderFeatureError, match="deletionVectors"):
            load(old, version)
    if 5 <= version < 8 or 9 <= version < 12:
        # Also who has opened the version without asking is asked here.
        with pytest.raises(ProtocolError):
            write_checkpoint(unguarded(old, version))
        assert table.names() == before
    else:
        write_checkpoint(load(old, version))
        assert checkpoints(table) == [version]
    write_checkpoint(table.load(version))
    assert checkpoints(table) == [version]
    whole(table, 0)


# ---------------------------------------------------------------------------- (d) order, and crashes


def obeys(before: list[str], after: list[str], boundary: int, start: int) -> None:
    """The rules, held against what a cleanup that may have died left of a log."""
    gone = [n for n in map(parse, set(before) - set(after)) if n is not None]
    left = [n for n in map(parse, after) if n is not None]
    commits_left = {n.version for n in left if n.kind is Kind.COMMIT}
    commits_gone = {n.version for n in gone if n.kind is Kind.COMMIT}
    assert all(v < start for v in commits_gone)
    assert all(g < c for g in commits_gone for c in commits_left), "commits go in ascending order"
    if any(n.kind is Kind.CHECKSUM for n in gone):
        assert min(commits_left) >= start, "checksums go after all commits of the range"
    if any(n.kind in (Kind.CLASSIC, Kind.PART, Kind.V2) for n in gone):
        assert start >= boundary, "checkpoints stay unless everything below the boundary goes"
        assert min(commits_left) >= start
        assert not [n for n in left if n.kind is Kind.CHECKSUM and n.version < start]


LAYOUTS = {
    "all of it": (9, {2: "classic", 5: "v2-json", 10: "classic"}, 10),
    "all of it, to the boundary exactly": (10, {2: "multipart", 10: "v2-parquet"}, 10),
    "a part of it": (14, {2: "classic", 6: "multipart", 10: "v2-json"}, 10),
}


@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cleanup_that_dies_anywhere_obeys_and_the_next_one_finishes(
    layout: str, when: str, checksums: bool, deep: bool
) -> None:
    # Every single operation in a deep run, some of them otherwise.
    step = 1 if deep else 8
    boundary, made, start = LAYOUTS[layout]
    base = protected(boundary, checkpoints=made, checksums=checksums)
    done = base.survivor()
    clean(done, 12)
    ended = [n for n in done.names() if not n.startswith("_sidecars/")]
    deaths = 0
    last: list[str] = []
    for number in range(1, 300, step):
        table = base.survivor()
        snapshot = table.load()
        moment = expire(table, 12)
        table.memory.die_at(number, when=when)  # type: ignore[arg-type]
        try:
            clean_up(snapshot, before=moment)
        except StoreDied:
            deaths += 1
        else:
            break
        again = table.survivor()
        if again.names() == last:
            continue  # nothing was written or deleted since the death before this one
        last = again.names()
        obeys(base.names(), again.names(), boundary, start)
        assert verify(again.log, data=False).errors == ()
        whole(again, start)
        clean_up(again.load(), before=moment)
        obeys(base.names(), again.names(), boundary, start)
        assert [n for n in again.names() if not n.startswith("_sidecars/")] == ended
    else:
        pytest.fail("the cleanup never came to its end")
    assert deaths > 15 // step


@given(st.data())
def test_any_protected_log_obeys_after_any_number_of_cleanups(data: st.DataObject) -> None:
    draw = data.draw
    count = draw(st.integers(4, 10))
    boundary = draw(st.integers(0, count - 1))
    changes = draw(
        st.dictionaries(
            st.integers(0, count - 2), st.sampled_from([UNSUPPORTED, FOR_WRITING, AGAIN]), max_size=3
        )
    )
    changes[count - 1] = AGAIN
    made = draw(st.dictionaries(st.integers(1, count - 1), st.sampled_from(FORMS), max_size=5))
    table = protected(boundary, changes, checkpoints=made, checksums=draw(st.booleans()), versions=count)
    for expired in sorted(draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3))):
        if expired not in commits(table):
            continue
        registry = draw(st.sampled_from([OLD, DELTA]))
        before = table.names()
        supported = {
            v: (registry.missing_for_read(p), registry.missing_for_write(p))
            for v, p in protection.protocols(table.log, list_log(table.store, LOG, 0), 0, count - 1)
            if p is not None
        }
        first = min(commits(table))
        plan = clean(table, expired, registry)
        if plan is None:
            assert [n for n in before if not n.startswith("_")] == [
                n for n in table.names() if not n.startswith("_")
            ]
            continue
        obeys(before, table.names(), boundary, plan.start)
        if plan.start < boundary:
            assert not any(supported[v][0] for v in range(first, plan.start + 1))
            assert not supported[plan.start][1]
        whole(table, plan.start)


# ---------------------------------------------------------------------------- verify


def found(table: RawTable) -> list[tuple[str, int | None]]:
    return [(f.code, f.version) for f in verify(table.log, data=False).errors]


def with_a_drop(*kept: int, form: str = "classic") -> RawTable:
    """Deletion vectors in versions 1 to 4, gone by version 6, dropped from the protocol by version 9."""
    table = RawTable()
    table.create(protocol=UNSUPPORTED, configuration={BOUNDARY: "9"})
    table.commit(add("f", dv=vector("a")))
    for letter in "bcd":
        table.commit(remove("f", dv=vector(chr(ord(letter) - 1))), add("f", dv=vector(letter), stats=stats()))
    table.commit(remove("f", dv=vector("d")), add("g"))
    table.commit()
    table.commit()
    table.commit()
    table.commit(AGAIN)
    table.commit(add("h"))
    for version in kept:
        table.checkpoint(version, form)
    return table


@pytest.mark.parametrize("version", [5, 6, 7, 8, 9])
def test_any_checkpoint_between_the_last_use_and_the_drop_hides_what_was(version: int) -> None:
    report = verify(with_a_drop(version).log, data=False)
    assert (report.errors, report.checked.drops) == ((), 1)


@pytest.mark.parametrize("kept", [(), (0,), (3,), (4,), (2, 4)])
def test_a_drop_that_no_checkpoint_hides_is_an_error(kept: tuple[int, ...]) -> None:
    assert found(with_a_drop(*kept)) == [("BARRIER_MISSING", 9)]


def test_a_checkpoint_that_comes_too_late_leaves_versions_that_are_misread() -> None:
    assert found(with_a_drop(10)) == [("BARRIER_MISSING", 9)]


def test_where_the_use_is_gone_from_the_log_nothing_has_to_be_hidden() -> None:
    table = with_a_drop(5)
    table.delete_commits(5)
    assert found(table) == []


@pytest.mark.parametrize(("form", "errors"), [("classic", []), ("v2-json", [("BARRIER_MISSING", 9)])])
def test_v2_checkpoints_hide_nothing_from_who_does_not_see_them(
    form: str, errors: list[tuple[str, int]]
) -> None:
    table = with_a_drop(form=form)
    table.commits[9] = [commit_info(), features(writers=BASE)]
    table.put(f"{9:020d}.json", lines(table.commits[9]))
    table.checkpoint(8, form)
    assert found(table) == errors


def test_a_boundary_beyond_the_log_is_an_error() -> None:
    table = protected(99, versions=3, checkpoints={})
    assert found(table) == [("BOUNDARY_INVALID", 2)]


def warned(table: RawTable) -> list[tuple[str, int | None]]:
    return [(f.code, f.version) for f in verify(table.log, data=False).warnings]


def dropped() -> tuple[RawTable, int]:
    """A table from which a feature was dropped; the version of the drop, after three barriers."""
    table = RawTable().create(protocol=UNSUPPORTED, configuration={"delta.checkpointInterval": "100"})
    for number in range(3):
        table.commit(add(f"f{number}"))
        table.checksum()
    done = drop_feature(table.log, "deletionVectors")
    return table, done.version


def test_a_drop_leaves_nothing_to_warn_of_and_says_how_much_is_protected() -> None:
    table, at = dropped()
    report = verify(table.log, data=False)
    assert (report.findings, report.checked.drops, report.checked.protected) == ((), 1, at)


@pytest.mark.parametrize("barrier", [3, 2, 1])
def test_a_barrier_whose_checkpoint_went_before_its_commit_is_told(barrier: int) -> None:
    """(a): no reader goes wrong as long as one of them is left, but nobody may have taken it."""
    table, at = dropped()
    table.delete(f"{at - barrier:020d}.checkpoint.parquet")
    assert (found(table), warned(table)) == ([], [("PROTECTED_CHECKPOINT_GONE", at - barrier)])


def test_when_all_of_them_went_before_their_commits_each_is_told() -> None:
    table, at = dropped()
    table.delete(*(f"{at - n:020d}.checkpoint.parquet" for n in (1, 2, 3)))
    assert warned(table) == [("PROTECTED_CHECKPOINT_GONE", at - n) for n in (3, 2, 1)]


def test_once_nothing_below_the_boundary_is_left_no_checkpoint_is_missed() -> None:
    table, at = dropped()
    table.delete_commits(at)
    table.delete(*(n for n in table.names() if ".checkpoint." in n and int(n[:20]) < at))
    report = verify(table.log, data=False)
    assert (report.findings, report.checked.protected) == ((), 0)


def test_commits_that_went_out_of_their_order_leave_a_gap() -> None:
    """(d): ascending, or somebody who replays them meets a hole."""
    table = protected(14, checkpoints={4: "classic", 10: "classic"})
    table.delete(f"{6:020d}.json")
    assert ("VERSIONS_NOT_CONTIGUOUS", 6) in found(table)


@pytest.mark.parametrize("checksums", [True, False])
def test_what_a_dead_cleanup_left_must_say_by_which_protocol_it_was_made(checksums: bool) -> None:
    """(c): of versions that nothing leads to any more only their checksums tell."""
    table = protected(14, checkpoints={10: "classic"}, checksums=checksums)
    table.delete_commits(5)
    assert found(table) == []
    assert warned(table) == ([] if checksums else [("PROTOCOL_UNKNOWN", 5)])


@pytest.mark.parametrize("commits_left", [True, False])
def test_a_checkpoint_made_by_who_did_not_know_the_feature_is_found_out(commits_left: bool) -> None:
    """(b): by the commits where they are left, else by the checksum."""
    table = with_a_drop(4, 8)
    table.checksum(4)
    small, files = state_actions(table.state(4))
    seen_by_it = [a for a in files if "deletionVector" not in next(iter(a.values()))]
    assert seen_by_it != files
    table.put(f"{4:020d}.checkpoint.parquet", checkpoint_bytes([*small, *seen_by_it]))
    if not commits_left:
        table.delete_commits(5)
    codes = {code for code, _ in found(table)}
    assert codes >= ({"CHECKPOINT_MISMATCH"} if commits_left else {"CHECKSUM_MISMATCH"})
