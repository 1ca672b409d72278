"""Dynamic overwrites: what they replace, and which commits of others they are in conflict with. No Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tables import RawTable, add, column, schema_string
from tidegate.commands import dynamic
from tidegate.commands.removes import as_removes
from tidegate.errors import ConcurrentAppendException, ConcurrentDeleteReadException
from tidegate.log.actions import Add
from tidegate.log.columns import ADD_SCHEMA, to_batch
from tidegate.log.snapshot import load
from tidegate.transaction.transaction import Committed, Transaction

KINDS = {
    "string": ["x", "", "it's"],
    "integer": ["1", "-7"],
    "long": ["9007199254740993"],
    "boolean": ["true", "false"],
    "date": ["2024-02-29"],
    "timestamp": ["2024-02-29 23:00:00", "2024-02-29T23:00:00.000001Z"],
    "timestamp_ntz": ["2024-02-29 23:00:00.5"],
    "decimal(10,2)": ["12.30"],
    "double": ["0.1", "NaN", "-Infinity"],
    "float": ["0.1"],
    "binary": ["abc"],
}


def made(*kinds: str, files: list[tuple[str | None, ...]]) -> RawTable:
    """A table partitioned by columns of these types, a file for each of ``files``."""
    names = [f"p{i}" for i in range(len(kinds))]
    columns = [column("id"), *(column(n, k) for n, k in zip(names, kinds, strict=True))]
    table = RawTable()
    table.create(schema=schema_string(*columns), partitions=names)
    for n, values in enumerate(files):
        table.commit(add(f"f{n}", 10, values=dict(zip(names, values, strict=True))))
    return table


def begun(table: RawTable, *files: tuple[str | None, ...]) -> tuple[Transaction, Any]:
    """A dynamic overwrite whose rows lie in these partitions, up to its commit."""
    transaction = Transaction.begin(table.log)
    snapshot = transaction.snapshot
    assert snapshot is not None
    names = snapshot.partition_columns
    adds = [
        Add(
            path=f"new-{transaction.txn_id}-{n}",
            partition_values=dict(zip(names, values, strict=True)),
            size=1,
            modification_time=0,
            data_change=True,
        )
        for n, values in enumerate(files)
    ]
    made_of = _as_table(adds)
    gone = dynamic.touched(snapshot.metadata, as_removes(snapshot.files(), 0), made_of)
    dynamic.note_read(transaction, gone, made_of)
    return transaction, (adds, gone)


def _as_table(adds: list[Add]) -> Any:
    return pa.Table.from_batches([to_batch(adds, ADD_SCHEMA)])


def done(begun: tuple[Transaction, Any]) -> Committed:
    transaction, (adds, gone) = begun
    return transaction.commit(adds, removes=gone)


def test_overwrites_of_different_partitions_follow_one_another() -> None:
    table = made("integer", files=[("1",), ("2",), (None,)])
    first, second, third = begun(table, ("1",)), begun(table, ("2",)), begun(table, (None,))
    for one in (second, third, first):
        done(one)
    left = load(table.log).files().column("path").to_pylist()
    assert len(left) == 3
    assert all(path.startswith("new-") for path in left)


@pytest.mark.parametrize("value", ["1", None])
def test_overwrites_of_one_partition_are_in_conflict(value: str | None) -> None:
    table = made("integer", files=[("1",), ("2",), (None,)])
    loser, winner = begun(table, (value,), ("7",)), begun(table, (value,))
    done(winner)
    with pytest.raises(ConcurrentAppendException):
        done(loser)


def test_a_partition_that_was_not_there_is_replaced_by_one_only() -> None:
    table = made("string", "integer", files=[("x", "1")])
    loser, winner = begun(table, ("x", "2")), begun(table, ("x", "2"))
    done(winner)
    with pytest.raises(ConcurrentAppendException):
        done(loser)


def test_combinations_count_not_their_columns() -> None:
    table = made("string", "integer", files=[("x", "1"), ("x", "2"), ("y", "1"), ("y", "2")])
    first, second = begun(table, ("x", "1"), ("y", "2")), begun(table, ("x", "2"), ("y", "1"))
    done(first)
    done(second)


def test_a_file_of_the_partition_that_another_has_deleted_is_a_conflict() -> None:
    table = made("integer", files=[("1",), ("2",)])
    loser = begun(table, ("1",))
    other = Transaction.begin(table.log)
    files = other.files("p0 = 1")
    other.commit(removes=as_removes(files, 0), operation="DELETE")
    with pytest.raises(ConcurrentDeleteReadException):
        done(loser)


def test_many_combinations_are_recorded_column_by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic, "MOST_COMBINATIONS", 1)
    table = made("string", "integer", files=[("x", "1"), ("z", "9")])
    loser = begun(table, ("x", "1"), ("y", "2"))
    done(begun(table, ("z", "9")))
    done(begun(table, ("x", "2")))
    with pytest.raises(ConcurrentAppendException):
        done(loser)


@pytest.mark.parametrize(("kind", "text"), [(k, t) for k, ts in KINDS.items() for t in [*ts, None]])
def test_a_value_of_any_type_names_its_own_partition(kind: str, text: str | None) -> None:
    table = made(kind, files=[(text,)])
    loser, winner = begun(table, (text,)), begun(table, (text,))
    assert winner[1][1].num_rows == 1, "the file that was there is replaced"
    done(winner)
    with pytest.raises(ConcurrentAppendException):
        done(loser)


@given(st.data())
def test_what_is_recorded_names_every_partition_that_was_written(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    value = [st.sampled_from([*KINDS[k], None]) for k in kinds]
    files = data.draw(st.lists(st.tuples(*value), min_size=1, max_size=6))
    table = made(*kinds, files=[])
    transaction, (adds, _) = begun(table, *files)
    for one in adds:
        assert transaction.read_set.may_match(to_batch([one], ADD_SCHEMA), transaction.metadata)


def test_nothing_written_is_nothing_read() -> None:
    table = made("integer", files=[("1",)])
    transaction, (adds, gone) = begun(table)
    assert (adds, gone.num_rows, transaction.read_set.empty) == ([], 0, True)
