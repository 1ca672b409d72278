"""Log compactions we write: read instead of the commits they stand for, they make no difference."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.histories import EVERYTHING, histories
from support.tables import (
    RawTable,
    add,
    domain,
    lines,
    metadata,
    remove,
    seen,
    small_table,
    stats,
    txn,
    vector,
)
from tidegate.log.commits import CommitActions, decode_commit
from tidegate.log.compaction import compacted, write_compaction


def decoded(table: RawTable, start: int, end: int) -> list[CommitActions]:
    """The commits of a span, newest first."""
    return [decode_commit(lines(table.commits[v]), "x") for v in range(end, start - 1, -1)]


def compact(table: RawTable, start: int, end: int) -> str | None:
    return write_compaction(table.log, start, end, decoded(table, start, end))


@given(histories(least=2), st.data())
def test_a_compaction_stands_for_its_commits(history: list[Any], data: st.DataObject) -> None:
    table = RawTable()
    for actions in history:
        table.commit(*actions)
    start = data.draw(st.integers(0, table.version - 1))
    end = data.draw(st.integers(start + 1, table.version))
    before = [seen(table.load(v)) for v in range(table.version + 1)]
    assert before[-1] == table.state()
    compact(table, start, end)
    for version, expected in enumerate(before):
        snapshot = table.load(version)
        assert seen(snapshot) == expected
        if version >= end:
            read = [d.name.text for d in snapshot.segment.deltas()]
            assert (
                f"{start:020d}.{end:020d}.compacted.json" in read
                or compacted(decoded(table, start, end)) == b""
            )


@given(histories(least=3, most=7), st.data())
def test_compactions_over_a_checkpoint_make_no_difference(history: list[Any], data: st.DataObject) -> None:
    table = RawTable()
    for actions in history:
        table.commit(*actions)
    table.checkpoint(data.draw(st.integers(0, table.version)), "classic")
    for _ in range(3):
        start = data.draw(st.integers(0, table.version - 1))
        compact(table, start, data.draw(st.integers(start + 1, table.version)))
    for version in range(table.version + 1):
        assert seen(table.load(version)) == table.state(version)


def kinds(data: bytes) -> list[str]:
    return [k for line in data.splitlines() for k in json.loads(line)]


def test_it_keeps_tombstones_of_files_and_domains_and_drops_what_is_history() -> None:
    table = RawTable().create(add("a"), domain("d", "1"), protocol=EVERYTHING)
    table.commit(
        remove("a"), domain("d", "1", removed=True), {"cdc": {"path": "c", "size": 1, "dataChange": False}}
    )
    table.commit(add("b"), txn("app", 1))
    table.commit(txn("app", 2))
    data = compacted(decoded(table, 1, 3))
    assert sorted(kinds(data)) == ["add", "domainMetadata", "remove", "txn"]
    by_kind = {k: v for line in data.splitlines() for k, v in json.loads(line).items()}
    assert by_kind["txn"]["version"] == 2
    assert by_kind["domainMetadata"]["removed"] is True


def test_a_span_with_nothing_in_it_makes_no_file() -> None:
    table = RawTable().create()
    table.commit()
    table.commit()
    assert compact(table, 1, 2) is None
    assert not [n for n in table.names() if "compacted" in n]


def test_one_that_is_there_already_stays() -> None:
    table = small_table()
    assert compact(table, 1, 3) is not None
    before = table.bytes(f"{1:020d}.{3:020d}.compacted.json")
    assert write_compaction(table.log, 1, 3, decoded(table, 2, 4)) is None
    assert table.bytes(f"{1:020d}.{3:020d}.compacted.json") == before


def test_the_tables_property_makes_commits_write_them() -> None:
    table = RawTable()
    table.transact(
        metadata(configuration={"tidegate.logCompactionInterval": "3", "delta.enableDeletionVectors": "true"})
    )
    for number in range(7):
        dv = vector(f"{number}")
        table.transact(add(f"{number}", dv=dv, stats=stats()))
    assert [n for n in table.names() if "compacted" in n] == [
        f"{start:020d}.{start + 2:020d}.compacted.json" for start in (0, 3)
    ]
    assert [d.name.end - d.name.version for d in table.load().segment.deltas()] == [0, 0, 2, 2]
    assert seen(table.load()) == table.state()
