"""History is truncated while somebody commits: the commit is in the table, or its writer is told otherwise.

Truncation frees the names of old versions. A writer that was held up between looking and putting would find
such a name free; what it puts there nobody would ever read. The races are made, not waited for: before each
storage call of the writer in turn, others commit and truncate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from support.index_tables import SCHEMA, RawIndex, adds, handmade, metadata, paths, protocol, split
from tidegate.errors import ConcurrentWriteException
from tidegate.index.log import IndexLog
from tidegate.log.verify import verify

Act = Callable[[IndexLog], Any]


def made() -> RawIndex:
    table = handmade(protocol(2, 2), metadata(["day"]))
    for n in range(3):
        table.commit({"add": split(f"{n}.split", {"day": str(n)})})
    return table


def _others(table: RawIndex, commits: int, truncations: int) -> None:
    number = itertools.count()
    for _ in range(truncations):
        for _ in range(commits):
            path = f"other-{table.version}-{next(number)}.split"
            table.log(checkpoint__enabled=False).append(adds(split(path, {"day": "9"})))
        table.log().truncate_history()


def _interrupted(table: RawIndex, act: Act, at: int, commits: int, truncations: int) -> tuple[bool, bool]:
    """Run ``act``, with the others before its call number ``at``: whether they came, and whether it held."""
    store = table.store.handle()
    calls = itertools.count()
    came = False

    def hook(_: str, __: str) -> None:
        nonlocal came
        if next(calls) == at:
            came = True
            _others(table, commits, truncations)

    store.hook = hook
    try:
        act(table.log(store=store, checkpoint__enabled=False))
    except ConcurrentWriteException:
        return came, False
    return came, True


def _appended(log: IndexLog) -> None:
    log.append(adds(split("mine.split", {"day": "1"})))


def _merged(log: IndexLog) -> None:
    log.replace(["0.split"], adds(split("mine.split", {"day": "0"})))


def _removed(log: IndexLog) -> None:
    log.remove(["0.split"])


def _dropped(log: IndexLog) -> None:
    log.drop_partitions("day = '0'")


def _skipped(log: IndexLog) -> None:
    log.skip("0.split", "bad")


def _configured(log: IndexLog) -> None:
    log.update_metadata(lambda m: m.with_configuration({"mine": "1"}))


ACTS: dict[str, tuple[Act, Callable[[Any], bool]]] = {
    "append": (_appended, lambda s: "mine.split" in paths(s)),
    "merge": (_merged, lambda s: "mine.split" in paths(s) and "0.split" not in paths(s)),
    "remove": (_removed, lambda s: "0.split" not in paths(s)),
    "drop": (_dropped, lambda s: "0.split" not in paths(s)),
    "skip": (_skipped, lambda s: "0.split" in s.skips),
    "metadata": (_configured, lambda s: s.configuration.get("mine") == "1"),
}


@pytest.mark.parametrize(("commits", "truncations"), [(1, 1), (2, 2)])
@pytest.mark.parametrize("name", ACTS)
def test_no_truncation_loses_a_commit_that_was_reported(name: str, commits: int, truncations: int) -> None:
    act, done = ACTS[name]
    refused = 0
    for at in range(60):
        table = made()
        came, held = _interrupted(table, act, at, commits, truncations)
        found = table.log().snapshot()
        if held:
            assert done(found), f"the commit is lost, interrupted before call {at}"
        others = [p for p in paths(found) if p.startswith("other-")]
        assert len(others) == (commits * truncations if came else 0)
        assert verify(table.table_log(), data=False).ok
        if not held:
            refused += 1
            act(table.log())
            assert done(table.log().snapshot())
        if not came:
            assert at > 2
            break
    else:
        raise AssertionError("there are more calls than were tried")
    assert refused or name in ("drop", "metadata"), "nothing was ever refused: there was no race"


def test_what_was_put_into_a_gap_is_taken_away_again() -> None:
    table = made()
    store = table.store.handle()

    def hook(op: str, name: str) -> None:
        if op == "put_if_absent" and name.endswith(f"{4:020d}.json"):
            store.hook = None
            _others(table, 3, 1)

    store.hook = hook
    with pytest.raises(ConcurrentWriteException, match="truncated") as told:
        _appended(table.log(store=store))
    assert "run the operation again" in str(told.value)
    assert table.names() == [f"{6:020d}.checkpoint.json", f"{6:020d}.json", "_last_checkpoint"]
    _appended(table.log())
    assert "mine.split" in paths(table.log().snapshot())


def test_a_commit_that_truncation_followed_at_once_stands() -> None:
    table = made()
    store = table.store.handle()
    put = False

    def hook(op: str, name: str) -> None:
        nonlocal put
        if put:
            store.hook = None
            _others(table, 2, 1)
        put = op == "put_if_absent" and name.endswith(f"{4:020d}.json")

    store.hook = hook
    _appended(table.log(store=store, checkpoint__enabled=False))
    assert store.hook is None
    assert "mine.split" in paths(table.log().snapshot())


def test_a_table_that_was_created_and_truncated_meanwhile_is_not_created_again() -> None:
    table = RawIndex()
    store = table.store.handle()

    def hook(op: str, name: str) -> None:
        if op == "put_if_absent" and name.endswith(f"{0:020d}.json"):
            store.hook = None
            table.log().create(SCHEMA, ["day"])
            _others(table, 2, 1)

    store.hook = hook
    with pytest.raises(ConcurrentWriteException, match="truncated"):
        table.log(store=store).create(SCHEMA, ["day"], adds=adds(split("mine.split", {"day": "1"})))
    found = table.log().snapshot()
    assert (found.version, "mine.split" in paths(found)) == (2, False)
    assert verify(table.table_log(), data=False).ok
