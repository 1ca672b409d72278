"""Clients that lack a feature, on random histories with drops: the right rows or a refusal, nothing else.

The old clients are not the product with a shorter list: they are readers of their own, blind for what they
do not know, so that a barrier that is missing or a checkpoint that went too early shows as wrong rows.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.row_tables import ENABLING, OldClient, Refused, RowTable, enable
from support.tables import DAY, HOUR, LOG
from tidegate.commands.restore import restore
from tidegate.errors import (
    ConcurrentWriteException,
    DropFeatureError,
    ProtocolChangedException,
    ProtocolError,
    VersionNotFoundError,
)
from tidegate.log.actions import Add
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.columns import from_batch
from tidegate.log.retention import clean_up
from tidegate.log.snapshot import load
from tidegate.log.verify import verify
from tidegate.protocol.delta import DELTA
from tidegate.transaction.transaction import Transaction

READERS = ("deletionVectors", "columnMapping", "typeWidening", "v2Checkpoint")
FEATURES = (*READERS, "rowTracking", "inCommitTimestamp")
STEPS = [
    "append",
    "delete",
    "use",
    "use",
    "checkpoint",
    "drop",
    "drop",
    "truncate",
    "unprotect",
    "restore",
    "clean",
    "clean by an old client",
    "wait",
]
# A third of what a run spends on other properties' examples is left out: each is a whole history.
EXAMPLES = settings.default.max_examples * 2 // 3


def act(table: RowTable, step: str, feature: str, number: int) -> None:
    """One thing that somebody does to the table, where it can be done."""
    has = table.load().protocol.supports
    if step == "append":
        table.append([10 * number, 10 * number + 1, 10 * number + 2])
    elif step == "delete" and table.now():
        table.delete(table.now()[:: max(1, len(table.now()) // 2)])
    elif step == "use":
        if not has(feature):
            enable(table, feature)
        elif feature == "columnMapping":
            table.rename(f"id{number}")
        elif feature == "typeWidening" and str(table.load().schema.fields[0].type) == "integer":
            table.widen()
    elif step == "checkpoint":
        write_checkpoint(table.load())
    elif step in ("drop", "truncate") and has(feature):
        try:
            table.drop(feature, step == "truncate" or None)
        except DropFeatureError:
            assert step == "truncate"
    elif step == "unprotect" and has("checkpointProtection"):
        with suppress(DropFeatureError):
            table.drop("checkpointProtection", True)
    elif step == "restore":
        _go_back(table, number % (table.load().version + 1))
    elif step == "clean":
        clean_up(table.load())
    elif step == "clean by an old client" and not has(feature):
        clean_up(load(table.client(DELTA.without([feature]))))
    elif step == "wait":
        table.clock.tick(26 * HOUR)


def _go_back(table: RowTable, version: int) -> None:
    if version == table.load().version:
        return
    with suppress(VersionNotFoundError):
        restore(table.log, version=version)
        table.expected[table.load().version] = table.expected[version]


def outcomes(table: RowTable, known: frozenset[str], strict: bool) -> Counter[str]:
    """What every version is to a client that knows these features."""
    found: Counter[str] = Counter()
    client = OldClient(table.store, known, strict)
    for version, values in table.expected.items():
        try:
            assert client.rows(version) == values, f"version {version} with {sorted(known)}"
            found["read"] += 1
        except Refused:
            found["refused"] += 1
    return found


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_whoever_lacks_a_feature_reads_the_right_rows_or_is_refused(data: st.DataObject) -> None:
    draw = data.draw
    keep = draw(st.sampled_from(["interval 30 days", "interval 1 days"]))
    table = RowTable().create(
        delta__logRetentionDuration=keep,
        delta__deletedFileRetentionDuration="interval 1 days",
        delta__checkpointInterval=draw(st.sampled_from(["3", "100"])),
    )
    steps = st.tuples(st.sampled_from(STEPS), st.sampled_from(FEATURES))
    for number, (step, feature) in enumerate(draw(st.lists(steps, min_size=4, max_size=16)), 1):
        act(table, step, feature, number)
    known = draw(st.frozensets(st.sampled_from(READERS)))
    for strict in (False, True):
        outcomes(table, known, strict)
    everything = outcomes(table, frozenset(READERS), False)
    assert everything["read"] > 0, "who knows everything reads at least the newest version"
    registry = DELTA.without(set(READERS) - known)
    for version, values in table.expected.items():
        try:
            assert table.rows(version, registry) == values
        except (ProtocolError, VersionNotFoundError):
            continue
    assert table.rows() == table.now()
    assert verify(table.log).errors == ()


def test_a_long_history_of_drops_has_versions_of_every_kind() -> None:
    """The same steps in a fixed order, so that what a random history may lack is there for certain."""
    table = RowTable().create(
        delta__logRetentionDuration="interval 1 days",
        delta__deletedFileRetentionDuration="interval 1 days",
        delta__checkpointInterval="100",
    )
    drops = 0
    for number, feature in enumerate([*READERS, "rowTracking", *READERS], 1):
        for step in ("append", "use", "append", "use", "delete", "checkpoint", "drop", "append"):
            act(table, step, feature, number)
        drops += 1
        if number == 5:
            for step in ("wait", "wait", "append", "checkpoint", "clean"):
                act(table, step, feature, 50)
    assert drops == 9
    first = min(int(n[-25:-5]) for n in table.names() if n.endswith(".json") and n[-25:-5].isdigit())
    assert first > 30, "the cleanup took what had expired"
    assert verify(table.log).errors == ()
    for known in (frozenset(), *(frozenset(READERS) - {name} for name in READERS)):
        for strict in (False, True):
            found = outcomes(table, known, strict)
            assert found["read"] >= 8, known
            assert found["refused"] > 3 + first, known
        assert OldClient(table.store, known).rows(max(table.expected)) == table.now()
    everything = outcomes(table, frozenset(READERS), False)
    assert everything["refused"] == first, "who knows everything misses only what is gone"


@pytest.mark.parametrize("name", READERS)
def test_after_a_drop_the_newest_version_is_for_everybody(name: str) -> None:
    """And what came before the feature still is; what came with it is refused."""
    table = RowTable().create()
    table.append([1, 2, 3])
    used = table.set(**ENABLING[name]) - 1
    act(table, "use", name, 7)
    table.append([70, 71])
    if name == "v2Checkpoint":
        write_checkpoint(table.load())
    table.delete([1])
    last = max(table.expected)
    done = table.drop(name)
    table.append([9])
    client = OldClient(table.store, frozenset(READERS) - {name})
    for version in (*range(used + 1), done.version, done.version + 1):
        assert client.rows(version) == table.expected[version]
    for version in range(used + 1, last + 1):
        with pytest.raises(Refused):
            client.rows(version)
        with pytest.raises(ProtocolError):
            load(table.client(DELTA.without([name])), version)


def restored(table: RowTable, version: int) -> None:
    """Bring back a version by one commit, whose lines say what is added before what is removed."""
    old, new = (list(from_batch(table.load(v).files(), Add)) for v in (version, None))
    done = Transaction.begin(table.log).commit([*old, *(table._gone(a) for a in new)], "RESTORE")
    table.expected[done.version] = table.expected[version]
    name = f"{LOG}/{done.version:020d}.json"
    when = table.store.head(name).modified
    first, *rest = table.store.get(name).splitlines(keepends=True)
    table.store.put(name, first + b"".join(sorted(rest)))
    table.store.set_modified(name, when)


def test_without_its_barriers_the_same_history_would_be_misread() -> None:
    """The tests above can fail: with the checkpoints gone, a blind reader loses rows."""
    table = RowTable().create(**ENABLING["deletionVectors"])
    restore_to = table.append([1, 2, 3])
    table.delete([1])
    restored(table, restore_to)
    done = table.drop("deletionVectors")
    blind = OldClient(table.store, frozenset(READERS) - {"deletionVectors"})
    assert blind.rows(done.version) == [1, 2, 3]
    assert table.rows() == [1, 2, 3]
    table.store.delete([n for n in table.names() if ".checkpoint." in n])
    assert table.rows() == [1, 2, 3]
    assert blind.rows(done.version) == []
    assert [f.code for f in verify(table.log).errors] == ["BARRIER_MISSING"]


def test_cleanups_by_an_old_client_keep_the_table_right_for_all() -> None:
    """It cannot read what the drop hid; it takes all of it at once, or nothing."""
    table = RowTable().create(
        delta__logRetentionDuration="interval 1 days", delta__deletedFileRetentionDuration="interval 1 days"
    )
    table.append([1, 2, 3])
    table.set(**ENABLING["deletionVectors"])
    table.delete([1])
    write_checkpoint(table.load())
    middle = table.load().version
    table.clock.tick(DAY)
    done = table.drop("deletionVectors")
    table.append([9])
    old = DELTA.without(["deletionVectors"])
    clock: Any = table.clock
    seen: list[int] = []
    for _ in range(5):
        clock.tick(DAY // 2)
        clean_up(load(table.client(old)))
        seen.append(min(int(n[-25:-5]) for n in table.names() if n.endswith(".json") and n[-25:-5].isdigit()))
        for known in (frozenset(READERS), frozenset(READERS) - {"deletionVectors"}):
            outcomes(table, known, False)
    assert middle not in seen, "a part with unknown features never goes alone"
    assert seen[0] == 0
    assert seen[-1] == done.version


def test_a_writer_that_read_before_the_drop_is_stopped() -> None:
    table = RowTable().create(delta__feature__deletionVectors="supported")
    slow = Transaction.begin(table.log)
    table.drop("deletionVectors")
    with pytest.raises((ProtocolChangedException, ConcurrentWriteException)):
        slow.commit([])
