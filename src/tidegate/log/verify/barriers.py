"""Dropped features: that nobody who lacks one has to replay what it left behind.

A client that supports the protocol of a version may read it from the newest checkpoint that it can see. So
nothing from there on may hold a feature which that protocol no longer has. Checkpoint protection exists to
keep the checkpoints in place that make this true: one that went too early, or that was never made, is found
here. Below the boundary, which itself must lie within the log: the checkpoints that a drop has made stay as
long as their commits do (a), each checkpoint is what its commits or its checksum say (b, by the walk), the
protocol of each version that is left can be told (c), and commits have gone without gaps, oldest first (d).
Specification: "Checkpoint Protection".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tidegate import properties
from tidegate.errors import TidegateError
from tidegate.log import names, protection, traces
from tidegate.log.commits import CommitActions
from tidegate.log.names import Kind
from tidegate.log.segment import Checkpoint, Listing
from tidegate.log.table_log import TableLog
from tidegate.log.verify.report import Checked, Findings
from tidegate.log.verify.state import State
from tidegate.protocol.protocol import CHECKPOINT_PROTECTION, Protocol

_V2 = "v2Checkpoint"
_BOUNDARY = properties.REQUIRE_CHECKPOINT_PROTECTION_BEFORE
# What a drop puts before itself: empty commits, each with a checkpoint.
_BARRIER, _BARRIERS = "Empty Commit", 3


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
        self._empty: deque[int] = deque(maxlen=_BARRIERS)
        # The barriers of each drop that is still in the log, by the drop's version.
        self.of_drops: dict[int, tuple[int, ...]] = {}

    def lost(self) -> None:
        """Commits are missing: only a checkpoint can be the next ground."""
        self._ways = {True: _Way(None), False: _Way(None)}
        self._before = None

    def commit(
        self, version: int, actions: CommitActions, operation: object, protocol: Protocol | None
    ) -> None:
        """One commit more on every way; only what the protocol allows is a feature in use."""
        if operation == _BARRIER:
            self._empty.append(version)
        if actions.metadata is not None and actions.metadata.configuration.get(_BOUNDARY.key) == str(version):
            self.of_drops[version] = tuple(self._empty)
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


def check_protection(
    log: TableLog,
    listing: Listing,
    state: State,
    barriers: Barriers,
    found: Findings,
    checked: Checked,
) -> None:
    """What checkpoint protection asks of the versions below the boundary, as far as they are still there."""
    protocol, metadata, target = state.small.protocol, state.small.metadata, state.version
    if protocol is None or metadata is None or not protocol.supports(CHECKPOINT_PROTECTION):
        return
    try:
        boundary = metadata.property(_BOUNDARY)
    except TidegateError as e:
        found.raised(e, target)
        return
    if boundary > target:
        # It protects nothing that is there, and keeps all of it for ever.
        found.error(
            "BOUNDARY_INVALID",
            f"{_BOUNDARY.key} is {boundary}, the table is at {target}: it must be a version that there is.",
            target,
        )
        return
    protected = [v for v in sorted(listing.commits) if v < boundary]
    checked.protected = len(protected)
    if protected:
        _check_barriers_stay(listing, boundary, barriers, found)
        _check_protocols_known(log, listing, protected, found)


def _check_barriers_stay(listing: Listing, boundary: int, barriers: Barriers, found: Findings) -> None:
    """(a): while a commit below the boundary is left, so are the checkpoints that drops made there."""
    there = {c.version for c in listing.checkpoints}
    for drop, versions in barriers.of_drops.items():
        for version in versions:
            if drop <= boundary and version not in there:
                found.warning(
                    "PROTECTED_CHECKPOINT_GONE",
                    f"The checkpoint of version {version} is gone, which the drop by version {drop} made. "
                    f"Those before {boundary} may only go together with every version there.",
                    version,
                    names.commit(version),
                )


def _check_protocols_known(log: TableLog, listing: Listing, protected: list[int], found: Findings) -> None:
    """(c): versions that cannot be replayed any more must at least say by which protocol they were made."""
    first = protected[0]
    grounds = [c.version for c in listing.checkpoints if c.version >= first]
    ground = min(grounds, default=0) if first > 0 else 0
    last = min(ground - 1, protected[-1])
    for version, protocol in protection.protocols(log, listing, first, last):
        if protocol is None:
            found.warning(
                "PROTOCOL_UNKNOWN",
                f"The protocol of version {version} cannot be told, which is protected: no cleanup may take "
                "only a part of the protected versions.",
                version,
                names.commit(version),
            )
            return
