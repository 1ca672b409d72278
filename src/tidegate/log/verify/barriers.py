"""Dropped features: that nobody who lacks one has to replay what it left behind.

A client that supports the protocol of a version may read it from the newest checkpoint that it can see. So
nothing from there on may hold a feature which that protocol no longer has. Checkpoint protection exists to
keep the checkpoints in place that make this true: one that went too early, or that was never made, is found
here. The boundary itself must lie within the log, and commits below it go without gaps, oldest first.
Specification: "Checkpoint Protection".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate import properties
from tidegate.errors import TidegateError
from tidegate.log import names, traces
from tidegate.log.actions import CommitActions
from tidegate.log.names import Kind
from tidegate.log.segment import Checkpoint
from tidegate.log.table_log import TableLog
from tidegate.log.verify.report import Checked, Findings
from tidegate.log.verify.state import State
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import CHECKPOINT_PROTECTION, Protocol

_V2 = "v2Checkpoint"


@dataclass
class _Way:
    """What one kind of client replays: from where, and where it first meets each feature on the way."""

    base: int | None = -1
    met: dict[str, int] = field(default_factory=dict)


class Barriers:
    """Follows the walk over the log, version by version."""

    def __init__(self, log: TableLog, found: Findings, checked: Checked) -> None:
        self._registry = log.registry
        self._found = found
        self._checked = checked
        self._watched = [r.name for r in log.registry if r.reader_writer and r.history_protection]
        # Who does not know V2 checkpoints passes them by and comes from further back.
        self._ways = {True: _Way(), False: _Way()}
        self._before: Protocol | None = None
        self._told: set[str] = set()

    def lost(self) -> None:
        """Commits are missing: only a checkpoint can be the next ground."""
        self._ways = {True: _Way(None), False: _Way(None)}
        self._before = None

    def commit(self, version: int, actions: CommitActions, protocol: Protocol | None) -> None:
        """One commit more on every way; only what the protocol allows is a feature in use."""
        if protocol is None:
            return
        for name in self._watched:
            if protocol.supports(name) and traces.in_commit(name, actions, self._registry):
                for way in self._ways.values():
                    way.met.setdefault(name, version)

    def checkpoint(self, checkpoint: Checkpoint, sidecars: bool, state: State) -> None:
        """A new ground for those who see it, with what the state there still uses."""
        protocol, metadata = state.small.protocol, state.small.metadata
        if protocol is None or metadata is None:
            return
        met = {
            name: checkpoint.version
            for name in self._watched
            if protocol.supports(name)
            and (traces.in_metadata(name, metadata, self._registry) or traces.in_files(name, state.files))
        }
        seen_by = [True] if checkpoint.kind is Kind.V2 or sidecars else [True, False]
        for knows_v2 in seen_by:
            self._ways[knows_v2] = _Way(checkpoint.version, dict(met))

    def check(self, version: int, protocol: Protocol | None) -> None:
        """Whether this version can be read by all whom its protocol lets through."""
        if protocol is None:
            return
        way = self._ways[protocol.supports(_V2)]
        if self._before is not None and self._before.features() - protocol.features():
            self._checked.drops += 1
        self._before = protocol
        if way.base is None:
            self._tell(_V2, version, "only V2 checkpoints lead to it")
            return
        for name, at in way.met.items():
            if not protocol.supports(name) and name != _V2:
                self._tell(name, version, f"who reads it comes by version {at}, which uses the feature")

    def _tell(self, feature: str, version: int, why: str) -> None:
        if feature in self._told:
            return
        self._told.add(feature)
        self._found.error(
            "BARRIER_MISSING",
            f"The protocol of version {version} lacks {feature}, but {why}. A checkpoint is missing.",
            version,
            names.commit(version),
        )


def check_boundary(
    protocol: Protocol | None, metadata: Metadata | None, target: int, found: Findings
) -> None:
    """A boundary beyond the log protects nothing that is there, and keeps all of it for ever."""
    if protocol is None or metadata is None or not protocol.supports(CHECKPOINT_PROTECTION):
        return
    try:
        boundary = metadata.property(properties.REQUIRE_CHECKPOINT_PROTECTION_BEFORE)
    except TidegateError as e:
        found.raised(e, target)
        return
    if boundary > target:
        found.error(
            "BOUNDARY_INVALID",
            f"{properties.REQUIRE_CHECKPOINT_PROTECTION_BEFORE.key} is {boundary}, the table is at {target}: "
            "it must be a version that there is.",
            target,
        )
