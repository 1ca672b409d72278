"""Several features in one table, dropped in any order; plans held against what then happens."""

from __future__ import annotations

import itertools

import pytest

from support.row_tables import USES, OldClient, Refused, RowTable, rewriter, using
from support.tables import DAY, LOG
from tidegate.commands.drop_feature import drop_feature, plan
from tidegate.errors import DropFeatureError, HistoricalVersionsError, WaitForRetentionError
from tidegate.log.names import Kind, parse
from tidegate.log.snapshot import load
from tidegate.log.verify import verify
from tidegate.protocol.delta import DELTA
from tidegate.protocol.protocol import Protocol

CP = "checkpointProtection"
TOGETHER = ("columnMapping", "deletionVectors", "typeWidening")
KEEP = {"delta__checkpointInterval": "100"}
CHECKPOINTS = (Kind.CLASSIC, Kind.PART, Kind.V2)


def checkpoints(table: RowTable) -> set[int]:
    found = (parse(n.removeprefix(f"{LOG}/")) for n in table.names() if n.startswith(LOG))
    return {n.version for n in found if n is not None and n.kind in CHECKPOINTS}


@pytest.mark.parametrize("order", list(itertools.permutations(TOGETHER)), ids="-".join)
def test_vectors_mapping_and_widening_together_are_dropped_in_any_order(order: tuple[str, ...]) -> None:
    table = using(*TOGETHER, **KEEP)
    table.delete([10])
    assert table.now() == [3, 11]
    made: set[int] = set()
    for number, feature in enumerate(order, 1):
        done = table.drop(feature)
        left = set(order[number:])
        assert set(done.protocol.features()) == {"appendOnly", "invariants", CP} | left
        assert done.properties["delta.requireCheckpointProtectionBeforeVersion"] == str(done.version)
        made |= set(range(done.version - 3, done.version + 1))
        assert checkpoints(table) == made, "four more, and the old ones stay"
        assert table.rows() == [3, 11]
    (column,) = table.load().schema.fields
    assert (column.name, str(column.type), dict(column.metadata)) == ("number", "long", {})
    for version, values in table.expected.items():
        assert table.rows(version) == values, version
    report = verify(table.log)
    assert (report.findings, report.checked.drops) == ((), 3)
    for known in (frozenset(), frozenset({order[0]}), frozenset(order[:2])):
        client = OldClient(table.store, known)
        assert client.rows(table.load().version) == [3, 11]
        for version, values in table.expected.items():
            try:
                assert client.rows(version) == values, (version, known)
            except Refused:
                continue


# ---------------------------------------------------------------------------- plans


class Journal:
    """What a drop really did to a table: commits, checkpoints, files that were rewritten, and bytes."""

    def __init__(self, table: RowTable) -> None:
        self._table = table
        self._version = table.load().version
        self._had = checkpoints(table)
        self._files = {a["path"]: a["size"] for a in table.load().files(columns=["path", "size"]).to_pylist()}

    def told(self) -> tuple[int, int, int, int]:
        now = self._table.load()
        left = set(now.files(columns=["path"]).column(0).to_pylist())
        gone = [size for path, size in self._files.items() if path not in left]
        fresh = checkpoints(self._table) - self._had
        return now.version - self._version, len(fresh), len(gone), sum(gone)


@pytest.mark.parametrize("feature", sorted(USES))
def test_the_plan_of_a_drop_is_what_then_happens(feature: str) -> None:
    table = using(feature, **KEEP)
    told = plan(table.load(), feature)
    journal = Journal(table)
    done = table.drop(feature)
    assert journal.told() == (told.commits, told.checkpoints, told.files, told.bytes)
    assert (done.protocol, told.wait) == (told.protocol, 0)
    assert told.needs_spark == (feature.removesuffix("-preview") in TOGETHER)
    assert len(told.steps) >= 1
    assert table.rows() == table.now()


@pytest.mark.parametrize("feature", sorted(USES))
def test_the_plan_of_a_drop_that_nothing_uses_is_too(feature: str) -> None:
    table = RowTable().create(**KEEP)
    table.append([1, 2, 3])
    table.set(**{f"delta__feature__{feature}": "supported"})
    told = plan(table.load(), feature)
    journal = Journal(table)
    done = drop_feature(table.log, feature).snapshot
    assert journal.told() == (told.commits, told.checkpoints, 0, 0)
    assert (done.protocol, told.files, told.bytes, told.needs_spark) == (told.protocol, 0, 0, False)


@pytest.mark.parametrize("feature", sorted(n for n in USES if DELTA[n].history_protection))
def test_the_plan_of_a_truncation_is_what_two_runs_do(feature: str) -> None:
    table = using(feature, **KEEP)
    told = plan(table.load(), feature, truncate=True)
    start = table.clock()
    journal = Journal(table)
    try:
        table.drop(feature, True)
    except WaitForRetentionError:
        assert told.wait == DAY
        first = journal.told()
        table.clock.tick(told.wait + 60_000)
        again = plan(table.load(), feature, truncate=True)
        second = Journal(table)
        table.drop(feature, True)
        # The first run writes everything but the last commit; the second has a checkpoint of its own.
        assert first == (told.commits - 1, told.checkpoints, told.files, told.bytes)
        assert (again.wait, again.files) == (0, 0), "it has been waited for"
        assert second.told() == (again.commits, again.checkpoints, 0, 0)
        assert table.clock() - start >= told.wait
    else:
        assert (told.wait, journal.told()) == (0, (told.commits, told.checkpoints, told.files, told.bytes))
    assert table.load().protocol == told.protocol == Protocol(1, 2)
    assert table.rows() == table.now()


def test_the_plan_for_the_end_of_protection_is_what_happens() -> None:
    table = using("vacuumProtocolCheck", **KEEP)
    table.drop("vacuumProtocolCheck")
    told = plan(table.load(), CP, truncate=True)
    assert told.wait == DAY
    table.clock.tick(told.wait + 60_000)
    told = plan(table.load(), CP, truncate=True)
    assert told.wait == 0
    journal = Journal(table)
    done = table.drop(CP, True)
    assert journal.told()[0] == told.commits
    assert checkpoints(table) >= {done.version - 1}, "the one checkpoint that it takes"
    assert done.protocol == told.protocol == Protocol(1, 2)


def test_progress_is_told_in_steps_that_end() -> None:
    table = using("deletionVectors", **KEEP)
    said: list[tuple[str, int, int | None]] = []
    drop_feature(table.log, "deletionVectors", rewriter=rewriter, progress=lambda *step: said.append(step))
    assert said == [
        ("rewriting files", 0, 1),
        *(("writing barrier checkpoints", n, 4) for n in range(4)),
    ]


# ---------------------------------------------------------------------------- highlights of the history path


def test_a_restore_brings_the_traces_back_and_the_wait_begins_anew() -> None:
    from tidegate.commands.restore import restore

    table = using("deletionVectors", **KEEP)
    used = table.load().version
    with pytest.raises(WaitForRetentionError):
        table.drop("deletionVectors", True)
    table.clock.tick(DAY // 2)
    restore(table.log, version=used)
    table.expected[table.load().version] = table.expected[used]
    assert table.rows() == table.expected[used]
    table.clock.tick(DAY)
    with pytest.raises(WaitForRetentionError):
        table.drop("deletionVectors", True)
    table.clock.tick(DAY // 2)
    with pytest.raises(HistoricalVersionsError):
        table.drop("deletionVectors", True)
    table.clock.tick(DAY)
    assert table.drop("deletionVectors", True).protocol == Protocol(1, 2)
    assert table.rows() == table.now()


def test_what_another_feature_needs_goes_only_after_it() -> None:
    table = using("rowTracking", **KEEP)
    with pytest.raises(DropFeatureError) as e:
        table.drop("domainMetadata")
    assert e.value.errorClass == "DELTA_FEATURE_DROP_DEPENDENT_FEATURE"
    assert table.drop("rowTracking").protocol.features() == {"appendOnly", "domainMetadata", "invariants"}
    assert table.drop("domainMetadata").protocol == Protocol(1, 2)
    assert load(table.log).files().column("baseRowId").null_count == load(table.log).num_files
    assert table.rows() == table.now()
