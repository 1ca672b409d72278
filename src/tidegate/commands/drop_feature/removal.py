"""How one feature is taken out of a table: what has to be cleaned first, and what the last commit carries.

A ``Removal`` is a row, as the feature itself is one: ``prepare`` cleans the newest version by commits of
its own, ``remains`` names what is still there (None: the feature may go), and the commit that drops the
feature also takes ``properties`` away and makes ``actions``. ``Work`` is what they all are handed: the
table as it is now, and the one way to rewrite data, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.commands.drop_feature.check import check
from tidegate.errors import FeatureInUseError
from tidegate.log import traces
from tidegate.log.actions import Action
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.log.verify.report import Progress
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed, Transaction

# Writes the rows of some files of the transaction's snapshot anew, as its metadata asks; the adds.
Rewriter = Callable[[Transaction, pa.Table], pa.Table]


def _silent(what: str, done: int, total: int | None) -> None:
    """Nobody wants to know how far it has come."""


@dataclass
class Work:
    """One table from which a feature is being taken."""

    log: TableLog
    feature: str
    rewriter: Rewriter | None = None
    progress: Progress = _silent
    truncate: bool = False
    _snapshot: Snapshot | None = field(default=None, repr=False)

    def latest(self) -> Snapshot:
        """The table as it is at this moment."""
        self._snapshot = load(self.log) if self._snapshot is None else self._snapshot.update()
        return self._snapshot

    def begin(self) -> Transaction:
        """A transaction of the drop; by now others may have dropped the feature, or added what needs it."""
        snapshot = self.latest()
        check(snapshot, self.feature, truncate=self.truncate)
        return Transaction(self.log, snapshot)

    def committed(self, done: Committed) -> Snapshot:
        self._snapshot = done.snapshot
        return done.snapshot

    def set_properties(self, *, gone: Iterable[str] = (), given: Mapping[str, str] | None = None) -> bool:
        """Take properties away and set others, in one commit; False where nothing changes."""
        transaction = self.begin()
        before = transaction.metadata.configuration
        removed = [key for key in gone if key in before]
        after = {**{k: v for k, v in before.items() if k not in removed}, **(given or {})}
        if after == before:
            return False
        transaction.update_metadata(transaction.metadata.with_configuration(after))
        if given:
            operation = Operation("SET TBLPROPERTIES", {"properties": dict(given)})
        else:
            operation = Operation("UNSET TBLPROPERTIES", {"properties": removed, "ifExists": True})
        self.committed(transaction.commit(operation=operation))
        return True

    def need_rewriter(self, files: pa.Table) -> Rewriter | None:
        """The rewriter, None where there is nothing to rewrite; refused here if there is none."""
        if files.num_rows == 0:
            return None
        if self.rewriter is None:
            size = pc.sum(files.column("size")).as_py()
            raise FeatureInUseError(
                f"{self.feature} is in use: {files.num_rows} files of {size} bytes must be rewritten first, "
                "which needs Spark.",
                table=self.log.url,
                hint="Use DeltaTable.forPath(spark, ...).dropFeatureSupport(...).",
            )
        return self.rewriter


@dataclass(frozen=True)
class Estimate:
    """What cleaning a table would come to."""

    commits: int = 0
    files: int = 0
    bytes: int = 0
    steps: tuple[str, ...] = ()

    @classmethod
    def rewriting(cls, files: pa.Table, *steps: str, commits: int = 1) -> Estimate:
        size = pc.sum(files.column("size")).as_py() or 0
        return cls(commits, files.num_rows, size, steps)


def _nothing(work: Work) -> bool:
    return False


def _no_actions(snapshot: Snapshot) -> list[Action]:
    return []


def _no_estimate(snapshot: Snapshot) -> Estimate:
    return Estimate()


@dataclass(frozen=True)
class Removal:
    """How one feature is removed; see the module's docstring."""

    feature: str
    prepare: Callable[[Work], bool] = _nothing
    estimate: Callable[[Snapshot], Estimate] = _no_estimate
    in_use: Callable[[Snapshot], str | None] | None = None
    properties: tuple[str, ...] = ()
    actions: Callable[[Snapshot], list[Action]] = _no_actions

    def remains(self, snapshot: Snapshot) -> str | None:
        """What of the feature is in use in a version, as a clause; None where nothing is."""
        if self.in_use is not None:
            return self.in_use(snapshot)
        if traces.in_metadata(self.feature, snapshot.metadata, snapshot.log.registry):
            return "the metadata enables it"
        return None
