"""Dropping features in tests: features that exist for tests only, and what a log looks like afterwards.

``TESTING`` knows a writer feature and a reader-writer feature that can be removed; each is enabled by a
property of its own and unset again by its removal, as features of the protocol are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from support.tables import RawTable
from tidegate.commands.drop_feature import REMOVALS, Estimate, Removal, Work
from tidegate.commands.drop_feature.drop import drop_feature
from tidegate.log.names import Kind, parse
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.protocol.delta import DELTA
from tidegate.protocol.feature import Feature, Registry
from tidegate.transaction.transaction import Committed, Transaction

TRW = "testRemovableWriter"
TRRW = "testRemovableReaderWriter"
CP = "checkpointProtection"
BOUNDARY = "delta.requireCheckpointProtectionBeforeVersion"
PROPERTY = {name: f"tidegate.enable.{name}" for name in (TRW, TRRW)}
CHECKPOINTS = (Kind.CLASSIC, Kind.PART, Kind.V2)


def _row(name: str, *, reads: bool) -> Feature:
    key = PROPERTY[name]
    return Feature(
        name=name,
        reader_writer=reads,
        min_reader=3 if reads else 0,
        min_writer=7,
        enabled_by=lambda m: m.configuration.get(key) == "true",
        auto_update=True,
        removable=True,
        history_protection=reads,
    )


def _removal(name: str) -> Removal:
    def prepare(work: Work) -> bool:
        return work.set_properties(gone=[PROPERTY[name]])

    return Removal(name, prepare, lambda s: Estimate(commits=int(PROPERTY[name] in s.properties)))


TESTING: Registry = DELTA.with_features(_row(TRW, reads=False), _row(TRRW, reads=True))
TEST_REMOVALS: Mapping[str, Removal] = {**REMOVALS, **{n: _removal(n) for n in (TRW, TRRW)}}


def log_of(table: RawTable) -> TableLog:
    return replace(table.log, registry=TESTING)


def set_properties(log: TableLog, **given: str) -> Committed:
    """Set table properties, ``__`` for dots, by one commit."""
    transaction = Transaction.begin(log)
    new = {k.replace("__", "."): v for k, v in given.items()}
    old = transaction.metadata.configuration
    transaction.update_metadata(transaction.metadata.with_configuration({**old, **new}))
    return transaction.commit(operation="SET TBLPROPERTIES")


def enable(log: TableLog, name: str) -> Committed:
    return set_properties(log, **{PROPERTY[name]: "true"})


def drop(log: TableLog, name: str, truncate: bool | None = None, **more: Any) -> Snapshot:
    return drop_feature(log, name, truncate_history=truncate, removals=TEST_REMOVALS, **more).snapshot


def features(snapshot: Snapshot) -> set[str]:
    return set(snapshot.protocol.features(snapshot.log.registry.rules))


def boundary(snapshot: Snapshot) -> int | None:
    found = snapshot.metadata.configuration.get(BOUNDARY)
    return None if found is None else int(found)


def versions(table: RawTable, *kinds: Kind) -> list[int]:
    found = (parse(n) for n in table.names())
    return sorted({n.version for n in found if n is not None and n.kind in kinds})


def commits(table: RawTable) -> list[int]:
    return versions(table, Kind.COMMIT)


def checkpoints(table: RawTable) -> list[int]:
    return versions(table, *CHECKPOINTS)


def operations(table: RawTable) -> list[str]:
    """What the commits that are left were, oldest first."""
    return [str(h["operation"]) for h in reversed(load(log_of(table)).history())]
