"""What a drop would do, before it is done: commits, checkpoints, files and bytes to rewrite, the wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate import properties
from tidegate.commands.drop_feature import protected
from tidegate.commands.drop_feature.check import check
from tidegate.commands.drop_feature.drop import BARRIERS
from tidegate.commands.drop_feature.history import history_contains
from tidegate.commands.drop_feature.removal import Removal
from tidegate.commands.drop_feature.removals import REMOVALS, removal_of
from tidegate.log import protection
from tidegate.log.snapshot import Snapshot
from tidegate.protocol.protocol import CHECKPOINT_PROTECTION, Protocol


@dataclass(frozen=True)
class Plan:
    """One drop, not yet done. ``wait`` is in milliseconds, 0 where nobody has to."""

    feature: str
    truncate: bool
    commits: int
    checkpoints: int
    files: int
    bytes: int
    wait: int
    protocol: Protocol
    steps: tuple[str, ...]

    @property
    def needs_spark(self) -> bool:
        return self.files > 0


def plan(
    snapshot: Snapshot, name: str, *, truncate: bool = False, removals: Mapping[str, Removal] = REMOVALS
) -> Plan:
    """The plan of a drop, or the error with which it would end at once."""
    row = check(snapshot, name, truncate=truncate)
    removal = removal_of(row.name, removals)
    work = removal.estimate(snapshot)
    registry = snapshot.log.registry
    protocol = snapshot.protocol.without_feature(row.name, registry.rules)
    steps = list(work.steps)
    commits, checkpoints, wait = work.commits, 0, 0
    retention = properties.get(snapshot.metadata.configuration, properties.DROP_FEATURE_RETENTION)
    if row.name == CHECKPOINT_PROTECTION:
        if work.commits:
            checkpoints = 1
            wait = retention if protected.truncated_start(snapshot) < protection.boundary(snapshot) else 0
    elif truncate:
        commits, checkpoints = commits + 1, 1
        start = protected.truncated_start(snapshot)
        if work.commits or history_contains(snapshot, row.name, since=start) is not None:
            wait = retention
            said = f"wait {protected.duration(wait)}, and drop again; truncate the history"
        else:
            said = (
                f"remove the versions before {start}" if start else "the history shows nothing of the feature"
            )
        steps.append(f"write a checkpoint; {said}")
    elif row.history_protection:
        commits, checkpoints = commits + BARRIERS, BARRIERS + 1
        protocol = protocol.with_feature(registry[CHECKPOINT_PROTECTION], registry.rules)
        steps.append(f"write {BARRIERS} empty commits, each with a checkpoint that hides what lies before")
    steps.append(f"drop {row.name} in one commit")
    if row.history_protection and not truncate:
        steps.append(f"protect the versions before it ({CHECKPOINT_PROTECTION}), and checkpoint it")
    return Plan(
        row.name,
        truncate,
        commits + 1,
        checkpoints,
        work.files,
        work.bytes,
        wait,
        protocol,
        tuple(steps),
    )
