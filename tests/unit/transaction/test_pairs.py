"""Every pair of operations: one commits while the other is at work, and the table says who may stay.

Both begin on the same version, the winner commits, then the loser tries. Where the loser succeeds, the
table must be what the winner and then the loser, one after the other, would have made of it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.tables import RawTable, State, seen
from support.transactions import OPERATIONS, begin, everything, versions
from tidegate import errors
from tidegate.errors import DeltaConcurrentModificationException
from tidegate.log import checksum as checksums
from tidegate.log.snapshot import Snapshot, load

# A row is a loser, a column a winner, in the order of OPERATIONS. "." is success.
EXPECTED = """
                   a   aR  aE  dP  dI  ow  op  md  eV  eR  eT  eM  up  dC  dV  sA  oA  sD  oD  no  dv
append             .   .   .   .   .   .   .   M   .   .   .   .   .   P   P   .   .   .   .   .   .
append with read   A   A   .   R   R   A   A   M   .   .   .   .   .   P   P   A   A   .   .   .   A
append elsewhere   .   .   .   .   .   .   .   M   .   .   .   .   .   P   P   .   .   .   .   .   .
delete partition   A   A   .   R   R   A   A   M   .   .   .   .   .   P   P   A   A   .   .   .   A
delete ids         .   .   .   R   R   R   A   M   .   .   .   .   .   P   P   .   .   .   .   .   A
overwrite          A   A   A   R   R   A   A   M   .   M   .   .   .   P   P   A   A   .   .   .   A
optimize           .   .   .   R   R   R   R   M   .   M   .   .   .   P   P   .   .   .   .   .   R
metadata           .   .   .   .   .   .   .   M   M   M   M   M   .   P   P   .   .   .   .   .   .
enable vectors     .   .   .   .   .   .   .   M   M   M   M   M   .   P   P   .   .   .   .   .   .
enable rows        .   .   .   .   .   .   .   M   M   P   P   P   P   P   P   .   .   .   .   .   .
enable time        .   .   .   .   .   .   .   M   M   P   P   P   P   P   P   .   .   .   .   .   .
enable mapping     .   .   .   .   .   .   .   M   M   P   P   P   P   P   P   .   .   .   .   .   .
upgrade            .   .   .   .   .   .   .   M   .   P   P   P   P   P   P   .   .   .   .   .   .
drop checkpoints   .   .   .   .   .   .   .   M   .   P   P   P   P   P   P   .   .   .   .   .   .
drop vectors       .   .   .   .   .   .   .   M   P   P   P   P   P   P   P   .   .   .   .   .   P
same application   .   .   .   .   .   .   .   M   .   .   .   .   .   P   P   T   .   .   .   .   .
other application  .   .   .   .   .   .   .   M   .   .   .   .   .   P   P   .   .   .   .   .   .
same domain        .   .   .   .   .   .   .   M   .   .   .   .   .   P   P   .   .   T   .   .   .
other domain       .   .   .   .   .   .   .   M   .   .   .   .   .   P   P   .   .   .   .   .   .
nothing            .   .   .   .   .   .   .   M   .   .   .   .   .   P   P   .   .   .   .   .   .
delete by vector   .   .   .   R   R   R   A   M   .   .   .   .   .   P   P   .   .   .   .   .   A
"""

ERRORS = {
    ".": None,
    "A": errors.ConcurrentAppendException,
    "R": errors.ConcurrentDeleteReadException,
    "M": errors.MetadataChangedException,
    "P": errors.ProtocolChangedException,
    "T": errors.ConcurrentTransactionException,
}


def expected() -> dict[tuple[str, str], Any]:
    names = list(OPERATIONS)
    out = {}
    for row in EXPECTED.strip("\n").splitlines()[1:]:
        loser, cells = row[:19].strip(), row[19:].split()
        assert len(cells) == len(names), loser
        out.update({(loser, winner): ERRORS[cell] for winner, cell in zip(names, cells, strict=True)})
    return out


PAIRS = expected()


def settled(snapshot: Snapshot) -> State:
    """The state as readers must agree on it; the checksum, where there is one, must agree too."""
    state = seen(snapshot)
    crc = snapshot.checksum
    if crc is not None:
        assert (crc.num_files, crc.table_size_bytes) == (len(state.files), state.size)
        assert crc.protocol == snapshot.protocol
        assert crc.metadata == snapshot.metadata
        assert {t.app_id for t in crc.set_transactions or ()} == set(state.txns)
        assert {d.domain for d in crc.domain_metadata or ()} == set(state.domains)
        assert checksums.counts_of(crc) == (
            checksums.count(snapshot.files().to_batches()),
            checksums.BOUNDARIES,
        )
    # The names of the hidden columns for row ids are drawn at random, once for each table.
    configuration = state.metadata.get("configuration", {})
    for key in [k for k in configuration if k.startswith("delta.rowTracking.materialized")]:
        configuration[key] = "drawn"
    return state


def one_after_the_other(table: RawTable, *runs: tuple[str, str]) -> State:
    for name, tag in runs:
        transaction = begin(table)
        OPERATIONS[name](transaction, tag).commit(transaction)
    return settled(load(table.log))


def test_the_table_of_expected_outcomes_is_complete() -> None:
    assert set(PAIRS) == {(loser, winner) for loser in OPERATIONS for winner in OPERATIONS}


@pytest.mark.parametrize("winner", OPERATIONS)
@pytest.mark.parametrize("loser", OPERATIONS)
def test_pair(loser: str, winner: str) -> None:
    table = everything()
    ours, theirs = begin(table), begin(table)
    request = OPERATIONS[loser](ours, "ours")
    OPERATIONS[winner](theirs, "theirs").commit(theirs)
    error = PAIRS[loser, winner]
    if error is not None:
        before = table.names()
        with pytest.raises(error) as raised:
            request.commit(ours)
        assert type(raised.value) is error
        assert raised.value.version == 1
        assert raised.value.errorClass
        assert table.names() == before
        return
    committed = request.commit(ours)
    assert (committed.version, committed.attempts) == (2, 2)
    assert versions(table) == [0, 1, 2]
    final = settled(load(table.log))
    assert final == settled(committed.snapshot)
    assert final == one_after_the_other(everything(), (winner, "theirs"), (loser, "ours"))


@pytest.mark.parametrize("winner", OPERATIONS)
def test_a_commit_made_without_a_retry_loses_to_every_winner(winner: str) -> None:
    table = everything()
    ours, theirs = begin(table), begin(table)
    OPERATIONS[winner](theirs, "theirs").commit(theirs)
    before = table.names()
    with pytest.raises(errors.ConcurrentWriteException):
        OPERATIONS["append"](ours, "ours").commit(ours, retry=False)
    assert table.names() == before


def changes_nothing(table: RawTable, version: int) -> bool:
    """Whether a commit tells of itself alone: what came before it may as well have come after it."""
    lines = table.bytes(f"{version:020}.json").splitlines()
    return all(json.loads(line).keys() == {"commitInfo"} for line in lines)


# What each of several writers does: its operation, when it begins and when it commits.
WRITERS = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 9), st.integers(0, 9)),
    min_size=2,
    max_size=6,
)


@given(WRITERS)
@example([("append", 0, 1), ("delete partition", 0, 0), ("delete partition", 1, 1)])
def test_any_interleaving_leaves_what_its_successes_make_one_after_the_other(
    writers: list[tuple[str, int, int]],
) -> None:
    table = everything()
    moments = []
    for number, (name, one, other) in enumerate(writers):
        moments.append((min(one, other), 0, number, name))
        moments.append((max(one, other), 1, number, name))
    at_work: dict[int, Any] = {}
    done: list[tuple[str, str]] = []
    for _, is_commit, number, name in sorted(moments):
        if not is_commit:
            transaction = begin(table)
            try:
                at_work[number] = transaction, OPERATIONS[name](transaction, f"w{number}")
            except errors.ProtocolDowngradeException:
                continue  # another writer has dropped the feature already
        elif number in at_work:
            transaction, request = at_work[number]
            try:
                committed = request.commit(transaction)
            except DeltaConcurrentModificationException:
                continue
            except (errors.CommitRefusedError, errors.FeaturesMismatchError):
                continue  # a writer before this one has dropped or enabled the feature it is about
            done.append(("nothing" if changes_nothing(table, committed.version) else name, f"w{number}"))
            assert settled(committed.snapshot) == settled(load(table.log))
    assert versions(table) == list(range(len(done) + 1))
    assert settled(load(table.log)) == one_after_the_other(everything(), *done)
