"""Random schedules of three writers on one log: whatever is committed is as if one had followed the other.

Each writer begins a transaction, reads and writes its files, and commits, and the schedule says whose turn it
is. The rows of every version must be those of the version before it, changed on plain lists as its operation
says: so the order of the versions is a serial order, for every reader at every time. An operation that lost
has left nothing; it had to lose to somebody who came between its beginning and its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from support import log_dml, outcomes
from support.arrow_rows import rows_of
from support.log_dml import Request, Work
from support.tables import Clock
from tidegate.errors import DeltaConcurrentModificationException
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.storage.memory import MemoryStore
from tidegate.transaction.transaction import Transaction

Rows = Counter[int]
Change = Callable[[Rows], Rows]
WRITERS = 3
_NUMBERS = st.integers(0, 29)
_VALUES = st.lists(_NUMBERS, min_size=1, max_size=4)


@dataclass(frozen=True)
class Step:
    """An operation: what it does to a log, and to a plain list."""

    name: str
    work: Work
    change: Change

    def __repr__(self) -> str:
        return self.name


def _kept(rows: Rows, keep: Callable[[int], bool]) -> Rows:
    return Counter({v: n for v, n in rows.items() if keep(v)})


@st.composite
def ranges(draw: st.DrawFn) -> tuple[int, int]:
    low = draw(_NUMBERS)
    return low, min(29, low + draw(st.integers(0, 6)))


def _append(values: list[int]) -> Step:
    return Step(f"append {values}", log_dml.append(values), lambda rows: rows + Counter(values))


def _delete(between: tuple[int, int]) -> Step:
    low, high = between
    return Step(
        f"delete {low}..{high}",
        log_dml.delete(low, high),
        lambda rows: _kept(rows, lambda v: not low <= v <= high),
    )


def _update(between: tuple[int, int]) -> Step:
    low, high = between

    def change(rows: Rows) -> Rows:
        moved: Rows = Counter()
        for value, n in rows.items():
            moved[value + 7 if low <= value <= high else value] += n
        return moved

    return Step(f"update {low}..{high}", log_dml.update(low, high, 7), change)


def _insert(values: list[int]) -> Step:
    distinct = sorted(set(values))
    return Step(
        f"insert unless there {distinct}",
        log_dml.insert_absent(distinct),
        lambda rows: rows + Counter(v for v in distinct if not rows[v]),
    )


def _replace(between: tuple[int, int]) -> Step:
    low, high = between
    return Step(
        f"replace {low}..{high}",
        log_dml.replace(low, high, [low]),
        lambda rows: _kept(rows, lambda v: not low <= v <= high) + Counter([low]),
    )


def _overwrite(values: list[int]) -> Step:
    return Step(f"overwrite {values}", log_dml.overwrite(values), lambda rows: Counter(values))


def _compact(between: tuple[int, int]) -> Step:
    low, high = between
    return Step(f"optimize {low}..{high}", log_dml.compact(low, high), lambda rows: rows)


def _count_up() -> Step:
    """Who reads the whole table and writes what it has counted shows any row it has missed."""

    def work(t: Transaction) -> Request:
        assert t.snapshot is not None
        t.read_table()
        return Request([*log_dml.written(t, [1000 + len(rows_of(t.snapshot))])], "WRITE")

    return Step("count", work, lambda rows: rows + Counter([1000 + rows.total()]))


def _alter(on: bool) -> Step:
    value = str(on).lower()
    return Step(
        f"vectors {value}", log_dml.set_property("delta.enableDeletionVectors", value), lambda rows: rows
    )


STEPS = st.one_of(
    _VALUES.map(_append),
    ranges().map(_delete),
    ranges().map(_update),
    _VALUES.map(_insert),
    ranges().map(_replace),
    _VALUES.map(_overwrite),
    ranges().map(_compact),
    st.builds(_count_up),
    st.booleans().map(_alter),
)


@dataclass
class Writer:
    """Somebody who begins one operation after the other, and ends each when it is its turn again."""

    log: TableLog
    steps: list[Step]
    began: Transaction | None = None
    done: dict[int, Step] = field(default_factory=dict)
    lost: int = 0

    def turn(self) -> None:
        if self.began is None:
            self.began = Transaction.begin(self.log)
            # Read and written now, against the table as it is now; published at the next turn.
            self.request = self.steps[0].work(self.began)
            return
        step, transaction = self.steps.pop(0), self.began
        self.began = None
        newest = load(self.log).version
        try:
            committed = self.request.commit(transaction)
        except DeltaConcurrentModificationException:
            assert newest > transaction.read_version, f"{step} lost to nobody"
            self.lost += 1
            return
        if committed is not None:
            self.done[committed.version] = step


@given(data=st.data())
def test_what_three_writers_commit_is_a_serial_order_at_every_version(data: st.DataObject) -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    log = TableLog(store, clock=clock)
    log_dml.create(log, delta__checkpointInterval="4", delta__enableRowTracking="true")
    for first in range(0, 30, 6):
        log_dml.run(log, log_dml.append(list(range(first, first + 6))))
    base = load(log).version
    writers = [
        Writer(TableLog(store.handle(), clock=clock), data.draw(st.lists(STEPS, min_size=1, max_size=3)))
        for _ in range(WRITERS)
    ]
    turns = data.draw(st.permutations([w for w in writers for _ in range(2 * len(w.steps))]))
    for writer in turns:
        clock.tick()
        writer.turn()
    done = {v: step for w in writers for v, step in w.done.items()}
    newest = load(log).version
    assert sorted(done) == list(range(base + 1, newest + 1)), "every version is one operation"
    model = _rows(log, base)
    for version in range(base + 1, newest + 1):
        model = done[version].change(model)
        assert _rows(log, version) == +model, f"version {version}: {done[version]}"
    assert outcomes.problems(log) == []


def _rows(log: TableLog, version: int) -> Rows:
    return Counter(r["id"] for r in rows_of(load(log, version)))
