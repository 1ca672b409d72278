"""A put that succeeded while its answer was lost: found by the transaction's id, never made twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from support.tables import RawTable, metadata, seen
from support.transactions import FIRST, begin, commit_info, everything, file, gone, versions
from tidegate.errors import NameTakenError, StorageError
from tidegate.log.snapshot import load
from tidegate.metadata import Metadata
from tidegate.transaction.transaction import Transaction

LOST = [
    pytest.param(lambda: StorageError("the connection was closed"), id="no answer"),
    pytest.param(lambda: NameTakenError("a retry found the name taken"), id="a retry met its own file"),
]
Failure = Callable[[], StorageError]


def committing(table: RawTable, transaction: Transaction, **settings: Any) -> Any:
    return transaction.commit([file("mine", day=FIRST)], **settings)


@pytest.mark.parametrize("failure", LOST)
def test_the_commit_is_ours(failure: Failure) -> None:
    table = everything()
    transaction = begin(table)
    table.memory.fail_at(1, failure(), mutating=True, when="after")
    committed = committing(table, transaction)
    assert (committed.version, committed.attempts) == (1, 1)
    assert versions(table) == [0, 1]
    assert commit_info(table, 1)["txnId"] == transaction.txn_id == committed.txn_id
    assert seen(committed.snapshot) == seen(load(table.log))
    assert seen(load(table.log)).paths.count("mine") == 1


@pytest.mark.parametrize("failure", LOST)
def test_the_commit_is_ours_even_without_a_retry(failure: Failure) -> None:
    table = everything()
    transaction = begin(table)
    table.memory.fail_at(1, failure(), mutating=True, when="after")
    assert committing(table, transaction, retry=False).version == 1


@pytest.mark.parametrize("failure", LOST)
def test_the_table_was_made_by_us(failure: Failure) -> None:
    table = RawTable()
    transaction = begin(table)
    transaction.update_metadata(msgspec.convert(metadata()["metaData"], Metadata))
    table.memory.fail_at(1, failure(), mutating=True, when="after")
    assert transaction.commit([file("mine")]).version == 0
    assert versions(table) == [0]


@pytest.mark.parametrize("failure", LOST)
def test_others_have_gone_on_before_we_could_look(failure: Failure) -> None:
    table = everything()
    transaction = begin(table)
    others = RawTable(table.memory.handle(), table.clock)

    def meanwhile() -> None:
        begin(others).commit([gone(file("mine", day=FIRST))])
        raise failure()

    table.memory.call_at(1, meanwhile, mutating=True, when="after")
    committed = committing(table, transaction)
    assert committed.version == 1
    assert versions(table) == [0, 1, 2]
    assert "mine" in seen(committed.snapshot).paths, "the snapshot is that of our version"
    assert "mine" not in seen(load(table.log)).paths


@pytest.mark.parametrize("failure", LOST)
def test_the_answer_is_lost_after_a_lost_race(failure: Failure) -> None:
    table = everything()
    transaction = begin(table)
    begin(RawTable(table.memory.handle(), table.clock)).commit([file("theirs", day=FIRST)])
    table.memory.fail_at(2, failure(), mutating=True, when="after")
    committed = committing(table, transaction)
    assert (committed.version, committed.attempts) == (2, 2)
    assert versions(table) == [0, 1, 2]


def test_a_put_that_never_arrived_is_an_error_and_leaves_the_table_as_it_was() -> None:
    table = everything()
    before = table.names()
    transaction = begin(table)
    table.memory.fail_at(1, StorageError("503"), mutating=True, when="before")
    with pytest.raises(StorageError, match="503") as raised:
        committing(table, transaction)
    assert transaction.txn_id in (raised.value.hint or ""), "it may still be on its way"
    assert table.names() == before
    assert committing(table, begin(table)).version == 1


def test_a_put_that_never_arrived_while_another_writer_took_the_version() -> None:
    table = everything()
    transaction = begin(table)
    others = RawTable(table.memory.handle(), table.clock)

    def meanwhile() -> None:
        begin(others).commit([file("theirs", day=FIRST)])
        raise StorageError("503")

    table.memory.call_at(1, meanwhile, mutating=True, when="before")
    with pytest.raises(StorageError, match="503"):
        committing(table, transaction)
    assert versions(table) == [0, 1]
    assert "mine" not in seen(load(table.log)).paths


@pytest.mark.parametrize("arrived", [True, False])
def test_where_nobody_can_say_whether_it_arrived_the_error_says_so(arrived: bool) -> None:
    table = everything()
    transaction = begin(table)

    def outage() -> None:
        table.memory.hook = _down
        raise StorageError("the network is gone")

    table.memory.call_at(1, outage, mutating=True, when="after" if arrived else "before")
    with pytest.raises(StorageError, match="the network is gone") as raised:
        committing(table, transaction)
    assert raised.value.version == 1
    assert transaction.txn_id in (raised.value.hint or "")
    table.memory.hook = None
    found = [commit_info(table, v).get("txnId") for v in versions(table)]
    assert (transaction.txn_id in found) is arrived


def _down(op: str, name: str) -> None:
    raise StorageError("the network is gone")
