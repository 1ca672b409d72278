"""Tables whose files live and die as time goes on, in memory: what VACUUM must get right.

A ``Lifetime`` is a table with real files (of a few bytes) beside its log, and a clock that moves only
when told. It remembers what each version needs, so that a test can ask by brute force whether any of
it is gone.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from support.tables import RawTable, features
from tidegate.files.deletion_vectors import DeletionVector, relative_name, relative_path
from tidegate.log.actions import Action, Add, Cdc, Remove
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.transaction.transaction import Transaction

HOUR = 3_600_000
EVERYTHING = features("deletionVectors", writers=["changeDataFeed", "appendOnly", "invariants"])


@dataclass
class Version:
    """One version: when it was committed, and the names of the files that readers of it open."""

    time: int
    files: frozenset[str]
    changes: frozenset[str]


@dataclass
class Lifetime:
    """A table, its files, and what each of its versions needs."""

    raw: RawTable = field(default_factory=RawTable)
    live: dict[str, Add] = field(default_factory=dict)
    versions: list[Version] = field(default_factory=list)
    orphans: set[str] = field(default_factory=set)
    count: int = 0

    def __post_init__(self) -> None:
        configuration = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
        self.raw.create(protocol=EVERYTHING, configuration=configuration)
        self._note(())

    @property
    def log(self) -> TableLog:
        return self.raw.log

    @property
    def now(self) -> int:
        return self.raw.clock()

    def names(self) -> set[str]:
        """Every file beside the log."""
        return {
            f.name for f in self.raw.store.list_from("", recursive=True) if not f.name.startswith("_delta")
        }

    # ------------------------------------------------------------------ what happens to a table

    def wait(self, hours: int) -> None:
        self.raw.clock.tick(hours * HOUR)

    def orphan(self) -> str:
        """A file that no commit will ever name."""
        name = self._put(f"lost{self._next()}.parquet")
        self.orphans.add(name)
        return name

    def add(self, *, vector: bool = False, deep: bool = False) -> None:
        name = self._put(f"{'deep/er/' if deep else ''}part {self._next()}.parquet")
        self._commit([], [self._file(name, self._vector() if vector else None)])

    def remove(self, which: int) -> None:
        if self.live:
            old = self._pick(which)
            del self.live[old.path]
            self._commit([_removal(old)], [])

    def update(self, which: int, change: str | None = None) -> None:
        """Delete rows of a file by a vector, with change data."""
        if self.live:
            old = self._pick(which)
            change = change or self._put(f"_change_data/cdc-{self._next()}.parquet")
            self._commit([_removal(old)], [self._file_of(old, self._vector())], [change])

    def checkpoint(self) -> None:
        write_checkpoint(load(self.log))

    # ------------------------------------------------------------------ what must hold

    def needed(self, cutoff: int) -> set[str]:
        """What readers of the versions that were current at ``cutoff`` or later open.

        One that was replaced in that very millisecond counts.
        """
        out: set[str] = set()
        for number, version in enumerate(self.versions):
            last = number == len(self.versions) - 1
            if last or self.versions[number + 1].time >= cutoff:
                out |= version.files
            if version.time >= cutoff:
                out |= version.changes
        return out

    def idle(self, cutoff: int) -> set[str]:
        """What is older than ``cutoff`` and nobody needs.

        Change files are known by their commits, which are looked at a day longer, since clocks differ.
        """
        old = {
            f.name
            for f in self.raw.store.list_from("", recursive=True)
            if f.modified < cutoff and not f.name.startswith("_delta")
        }
        lately = {c for v in self.versions if v.time >= cutoff - 24 * HOUR for c in v.changes}
        return old - self.needed(cutoff) - lately

    # ------------------------------------------------------------------ inside

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _put(self, name: str) -> str:
        self.raw.store.put(name, b"rows")
        return name

    def _pick(self, which: int) -> Add:
        paths = sorted(self.live)
        return self.live[paths[which % len(paths)]]

    def _vector(self) -> DeletionVector:
        identifier = uuid.UUID(int=self._next())
        path = relative_path(identifier)
        self._put(relative_name(path))
        return DeletionVector(
            storage_type="u", path_or_inline_dv=path, offset=1, size_in_bytes=34, cardinality=2
        )

    def _file(self, name: str, vector: DeletionVector | None) -> Add:
        return Add(
            path=name.replace(" ", "%20"),
            partition_values={},
            size=4,
            modification_time=self.now,
            data_change=True,
            stats='{"numRecords":10}',
            deletion_vector=vector,
        )

    def _file_of(self, old: Add, vector: DeletionVector) -> Add:
        return self._file(old.path.replace("%20", " "), vector)

    def _commit(self, removes: list[Remove], adds: list[Add], changes: list[str] | None = None) -> None:
        actions: list[Action] = [*removes, *adds]
        actions += [Cdc(path=c, partition_values={}, size=4) for c in changes or ()]
        for add in adds:
            self.live[add.path] = add
        self.raw.clock.tick(1)
        Transaction.begin(self.log, hooks=()).commit(actions)
        self._note(changes or ())

    def _note(self, changes: tuple[str, ...] | list[str]) -> None:
        files = {a.path.replace("%20", " ") for a in self.live.values()}
        files |= {a.deletion_vector.file or "" for a in self.live.values() if a.deletion_vector is not None}
        self.versions.append(Version(self.now, frozenset(files), frozenset(changes)))

    def forget(self, count: int) -> None:
        """Versions that others have committed, without files."""
        for _ in range(count):
            self._note(())


def _removal(old: Add) -> Remove:
    return Remove(
        path=old.path,
        data_change=True,
        size=old.size,
        partition_values={},
        deletion_vector=old.deletion_vector,
    )
