"""Row ids through races: every row has one, none is given out twice, none is left out."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from support.tables import RawTable, features, seen
from support.transactions import begin, file, gone
from tidegate.errors import DeltaConcurrentModificationException
from tidegate.log.snapshot import load
from tidegate.transaction.transaction import Transaction

# Who commits: which of the transactions at work, and how many rows are in each of its files.
STEPS = st.lists(
    st.tuples(st.integers(0, 4), st.lists(st.integers(0, 9), min_size=0, max_size=4)), min_size=1, max_size=12
)


def tracked() -> RawTable:
    return RawTable().create(protocol=features(writers=["domainMetadata", "rowTracking"]))


def check(table: RawTable, rows: int) -> None:
    snapshot = load(table.log)
    found = sorted(
        (f["baseRowId"], json.loads(f["stats"])["numRecords"], f["defaultRowCommitVersion"])
        for f in seen(snapshot).files.values()
    )
    at = 0
    for base, count, version in found:
        assert base == at, "ids are contiguous: none twice, none left out"
        at += count
        assert 1 <= version <= snapshot.version
    assert at == rows
    mark = snapshot.domains.get("delta.rowTracking")
    assert (json.loads(mark.configuration)["rowIdHighWaterMark"] if mark else -1) == rows - 1
    # Later versions have later ids.
    by_version = sorted((version, base) for base, count, version in found if count)
    assert [base for _, base in by_version] == sorted(base for _, base in by_version)


@given(STEPS)
def test_ids_are_contiguous_and_unique_whoever_wins(steps: list[tuple[int, list[int]]]) -> None:
    table = tracked()
    at_work: list[Transaction] = [begin(table) for _ in range(5)]
    rows = 0
    for number, (who, counts) in enumerate(steps):
        added = [file(f"{number}-{i}", stats=f'{{"numRecords":{n}}}') for i, n in enumerate(counts)]
        half = len(added) // 2
        # Some come as structs and some as columns: two batches of one commit.
        at_work[who].commit(added[:half], adds=added[half:])
        rows += sum(counts)
        at_work[who] = begin(table)
    check(table, rows)


def test_a_commit_of_many_batches_counts_through_all_of_them() -> None:
    import pyarrow as pa

    from tidegate.log.columns import ADD_SCHEMA, to_batch

    table = tracked()
    batches = [
        to_batch([file(f"{b}-{i}", stats='{"numRecords":3}') for i in range(50)], ADD_SCHEMA)
        for b in range(7)
    ]
    loser = begin(table)
    begin(table).commit([file("w", stats='{"numRecords":11}')])
    loser.commit([file("s", stats='{"numRecords":2}')], adds=pa.Table.from_batches(batches))
    check(table, 11 + 2 + 7 * 50 * 3)


def test_rows_that_move_keep_their_files_ids_and_new_files_get_new_ones() -> None:
    table = tracked()
    begin(table).commit([file("a", 0, 4), file("b", 0, 4)])
    mover, other = begin(table), begin(table)
    [a] = [f for f in seen(load(table.log)).files.values() if f["path"] == "a"]
    mover.read_files(load(table.log).files(columns=["path"]))
    other.commit([file("c", 0, 4)])
    again = file("a2", 0, 4, base_row_id=a["baseRowId"], default_row_commit_version=1, data_change=False)
    mover.commit([gone(file("a", 0, 4), change=False), again])
    by_path = {f["path"]: f for f in seen(load(table.log)).files.values()}
    assert (by_path["a2"]["baseRowId"], by_path["a2"]["defaultRowCommitVersion"]) == (0, 1)
    assert by_path["c"]["baseRowId"] == 10


@given(st.permutations(["given", "empty", "fresh", "late"]), st.integers(0, 4))
def test_ids_that_files_bring_along_are_never_given_to_files_without(order: list[str], split: int) -> None:
    """As in a clone of a table of which only the younger files have ids; in one batch or in two."""
    table = tracked()
    empty = '{"numRecords":0}'
    files = {
        "given": file("given", 0, 9, base_row_id=0),
        # A file without rows begins where the next one does.
        "empty": file("empty", base_row_id=10, stats=empty),
        "late": file("late", 0, 4, base_row_id=10),
        "fresh": file("fresh", 0, 2),
    }
    adds = [files[name] for name in order]
    begin(table).commit(adds[:split], adds=adds[split:])
    begin(table).commit([file("next", 0, 0)])
    found = {f["path"]: f["baseRowId"] for f in seen(load(table.log)).files.values()}
    assert found == {"given": 0, "empty": 10, "late": 10, "fresh": 15, "next": 18}
    check(table, 19)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=10))
def test_ids_stay_unique_while_losers_are_stopped(steps: list[tuple[int, bool]]) -> None:
    """Deletes that read everything lose to appends; what they would have given out is not missing."""
    table = tracked()
    at_work = [begin(table) for _ in range(3)]
    rows = 0
    for number, (who, reads) in enumerate(steps):
        transaction = at_work[who]
        if reads:
            transaction.read_table()
        try:
            transaction.commit([file(f"{number}", stats='{"numRecords":4}')])
            rows += 4
        except DeltaConcurrentModificationException:
            pass
        at_work[who] = begin(table)
    check(table, rows)
