"""The store in memory: its clock, its journal, and faults exactly where they were planned."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import FileMissingError, NameTakenError, StorageError
from tidegate.storage import MemoryStore, Operation, StoreDied

When = Literal["before", "after"]
Step = Callable[[MemoryStore], object]

SCRIPT: list[tuple[Operation, Step]] = [
    (Operation("put", "a"), lambda store: store.put("a", b"1")),
    (Operation("get", "a"), lambda store: store.get("a")),
    (Operation("put_if_absent", "log/0"), lambda store: store.put_if_absent("log/0", b"2")),
    (Operation("list_from", "log"), lambda store: list(store.list_from("log"))),
    (Operation("head", "a"), lambda store: store.head("a")),
    (Operation("get_range", "a"), lambda store: store.get_range("a", 0, 1)),
    (Operation("open_input", "a"), lambda store: store.open_input("a").close()),
    (Operation("put", "a"), lambda store: store.put("a", b"3")),
    (Operation("delete", "a"), lambda store: store.delete(["a"])),
    (Operation("put_if_absent", "log/1"), lambda store: store.put_if_absent("log/1", b"4")),
]
MUTATIONS = [
    index for index, (operation, _) in enumerate(SCRIPT) if operation.op in ("put", "put_if_absent", "delete")
]


def content(store: MemoryStore) -> dict[str, bytes]:
    return {info.name: store.get(info.name) for info in store.list_from("", recursive=True)}


def after(steps: int) -> dict[str, bytes]:
    """The bytes when so many steps of the script are done."""
    store = MemoryStore()
    for _, step in SCRIPT[:steps]:
        step(store)
    return content(store)


def run_until_death(store: MemoryStore) -> int:
    """Play the script; how many steps ended well."""
    for done, (_, step) in enumerate(SCRIPT):
        try:
            step(store)
        except StoreDied:
            return done
    return len(SCRIPT)


# ---------------------------------------------------------------------------- death


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", range(1, len(SCRIPT) + 1))
def test_death_at_each_operation(n: int, when: When) -> None:
    store = MemoryStore()
    store.die_at(n, when=when)
    assert run_until_death(store) == n - 1
    assert content(store.survivor()) == after(n - 1 if when == "before" else n)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", range(1, len(MUTATIONS) + 1))
def test_death_at_each_mutation(n: int, when: When) -> None:
    store = MemoryStore()
    store.die_at(n, mutating=True, when=when)
    step = MUTATIONS[n - 1]
    assert run_until_death(store) == step
    assert content(store.survivor()) == after(step if when == "before" else step + 1)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_dead_store_stays_dead_and_changes_nothing(when: When) -> None:
    store = MemoryStore()
    store.put("a", b"1")
    store.die_at(1, when=when)
    with pytest.raises(StoreDied):
        store.get("a")
    assert store.dead
    for _, step in SCRIPT:
        with pytest.raises(StoreDied):
            step(store)
    assert content(store.survivor()) == {"a": b"1"}


def test_death_is_no_exception_that_code_may_swallow() -> None:
    assert not issubclass(StoreDied, Exception)


def test_death_after_an_operation_that_failed() -> None:
    store = MemoryStore()
    store.put("a", b"1")
    store.die_at(1, when="after")
    with pytest.raises(StoreDied):
        store.put_if_absent("a", b"2")
    assert content(store.survivor()) == {"a": b"1"}


@pytest.mark.parametrize(("when", "left"), [("before", ["b", "c"]), ("after", ["c"])])
def test_death_in_the_middle_of_deleting_many(when: When, left: list[str]) -> None:
    store = MemoryStore()
    for name in "abc":
        store.put(name, b"")
    store.die_at(2, when=when)
    with pytest.raises(StoreDied):
        store.delete(["a", "b", "c"])
    assert sorted(content(store.survivor())) == left


def test_an_operation_overtaken_by_death_changes_nothing() -> None:
    store = MemoryStore()

    def another_thread_dies() -> None:
        store.die_at(1)
        with pytest.raises(StoreDied):
            store.get("a")

    store.call_at(1, another_thread_dies)
    with pytest.raises(StoreDied):
        store.put("a", b"1")
    assert content(store.survivor()) == {}


def test_operations_count_from_the_planning() -> None:
    store = MemoryStore()
    store.put("a", b"1")
    store.die_at(2)
    store.put("b", b"1")
    with pytest.raises(StoreDied):
        store.put("c", b"1")


def test_a_survivor_lives_apart() -> None:
    store = MemoryStore(clock=lambda: 7)
    store.put("a", b"1")
    store.set_modified("a", 3)
    store.die_at(1)
    with pytest.raises(StoreDied):
        store.put("b", b"1")
    survivor = store.survivor()
    assert survivor.head("a").modified == 3
    assert survivor.journal == [("head", "a")]
    survivor.put("c", b"1")
    assert sorted(content(survivor)) == ["a", "c"]
    assert sorted(content(store.survivor())) == ["a"]


def test_another_handle_lives_on() -> None:
    store = MemoryStore()
    other = store.handle()
    store.die_at(1, when="after")
    with pytest.raises(StoreDied):
        store.put("a", b"1")
    assert other.get("a") == b"1"
    assert not other.dead


STEP = st.tuples(
    st.sampled_from(["put", "put_if_absent", "delete", "get"]), st.sampled_from("abc"), st.binary(max_size=2)
)


@given(
    steps=st.lists(STEP, max_size=12),
    n=st.integers(1, 12),
    when=st.sampled_from(["before", "after"]),
)
def test_the_disk_after_a_crash_is_that_of_the_operations_before_it(
    steps: list[tuple[str, str, bytes]], n: int, when: When
) -> None:
    def play(store: MemoryStore, some: list[tuple[str, str, bytes]]) -> None:
        for op, name, data in some:
            try:
                if op == "delete":
                    store.delete([name])
                elif op == "get":
                    store.get(name)
                else:
                    getattr(store, op)(name, data)
            except StorageError:
                pass
            except StoreDied:
                return

    store, expected = MemoryStore(), MemoryStore()
    store.die_at(n, when=when)
    play(store, steps)
    play(expected, steps[: n if when == "after" else n - 1])
    assert content(store.survivor()) == content(expected)
    assert store.dead == (len(steps) >= n)


# ---------------------------------------------------------------------------- failing and waiting


@pytest.mark.parametrize(("when", "written"), [("before", False), ("after", True)])
def test_a_planned_failure_strikes_once(when: When, written: bool) -> None:
    store = MemoryStore()
    store.fail_at(2, TimeoutError("planned"), mutating=True, when=when)
    store.put("a", b"1")
    store.get("a")
    with pytest.raises(TimeoutError, match="planned"):
        store.put_if_absent("b", b"2")
    assert ("b" in content(store)) == written
    store.put("c", b"3")
    assert "c" in content(store)


def test_a_failure_is_a_storage_error_unless_another_is_given() -> None:
    store = MemoryStore()
    store.fail_at(1)
    with pytest.raises(StorageError, match="told to fail"):
        store.get("a")


def test_an_action_runs_before_or_after_its_operation() -> None:
    store, seen = MemoryStore(), []
    other = store.handle()
    store.call_at(1, lambda: seen.append(sorted(content(other))))
    store.call_at(1, lambda: seen.append(sorted(content(other))), when="after")
    store.put("a", b"1")
    assert seen == [[], ["a"]]


@pytest.mark.parametrize(("n", "when"), [(0, "before"), (-1, "after"), (1, "during")])
def test_an_operation_that_cannot_come_is_refused(n: int, when: When) -> None:
    with pytest.raises(StorageError):
        MemoryStore().die_at(n, when=when)


def test_the_hook_lets_another_writer_go_first() -> None:
    store = MemoryStore()
    winner = store.handle()

    def overtake(op: str, name: str) -> None:
        if op == "put_if_absent":
            winner.put_if_absent(name, b"winner")

    store.hook = overtake
    with pytest.raises(NameTakenError):
        store.put_if_absent("log/0", b"loser")
    assert winner.get("log/0") == b"winner"


def test_the_hook_may_fail_an_operation() -> None:
    def refuse(op: str, name: str) -> None:
        if name.endswith(".crc"):
            raise StorageError("planned")

    store = MemoryStore(hook=refuse)
    store.put("a", b"")
    with pytest.raises(StorageError, match="planned"):
        store.put("a.crc", b"")
    assert list(content(store.handle())) == ["a"]


def test_the_hook_schedules_two_threads_step_by_step() -> None:
    store = MemoryStore()
    turn, order = threading.Condition(), ["A", "B", "B", "A"]
    done: list[str] = []

    def scheduled(who: str) -> Callable[[str, str], None]:
        def hook(op: str, name: str) -> None:
            with turn:
                assert turn.wait_for(lambda: order and order[0] == who, timeout=10)
                done.append(f"{who} {op}")
                order.pop(0)
                turn.notify_all()

        return hook

    def work(who: str) -> None:
        own = store.handle(hook=scheduled(who))
        own.get("hint")
        own.put(who, b"")

    store.put("hint", b"")
    threads = [threading.Thread(target=work, args=(who,)) for who in "AB"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert done == ["A get", "B get", "B put", "A put"]


# ---------------------------------------------------------------------------- journal, clock, roots


def test_the_journal_tells_every_operation() -> None:
    store = MemoryStore()
    for _, step in SCRIPT:
        step(store)
    assert store.journal == [operation for operation, _ in SCRIPT]
    store.journal.clear()
    store.delete(["x", "y"])
    with pytest.raises(FileMissingError):
        store.get("x")
    assert store.journal == [("delete", "x"), ("delete", "y"), ("get", "x")]


def test_times_come_from_the_clock_and_never_go_back() -> None:
    times = iter([1000, 2000, 1500, 2500])
    store = MemoryStore(clock=lambda: next(times))
    for name in "abcd":
        store.put(name, b"")
    assert [info.modified for info in store.list_from("")] == [1000, 2000, 2000, 2500]


def test_a_time_can_be_set() -> None:
    store = MemoryStore(clock=lambda: 5000)
    store.put("a", b"x")
    store.set_modified("a", 17)
    assert store.head("a").modified == 17
    assert store.journal == [("put", "a"), ("head", "a")]
    store.put("b", b"x")
    assert store.head("b").modified == 5000
    with pytest.raises(FileMissingError):
        store.set_modified("missing", 1)


def test_a_handle_may_have_a_deeper_root() -> None:
    store = MemoryStore(url="memory://x")
    inner = store.handle("tables/t")
    inner.put("log/0", b"x")
    assert inner.url == "memory://x/tables/t"
    assert list(content(store)) == ["tables/t/log/0"]
    assert [info.name for info in inner.list_from("log")] == ["log/0"]
    assert inner.head("log/0").name == "log/0"
    store.put("tables/t2", b"")
    assert list(content(inner)) == ["log/0"]
    with pytest.raises(FileMissingError) as missing:
        inner.get("log/1")
    assert missing.value.file == "log/1"


def test_bytes_are_copied_in() -> None:
    store, data = MemoryStore(), bytearray(b"before")
    store.put("a", data)
    data[:] = b"after!"
    assert store.get("a") == b"before"
