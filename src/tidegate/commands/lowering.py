"""Protocols that come down: RESTORE and REPLACE may give features back where the session allows it.

What guards the versions that are there stays all the same: the protection of checkpoints, and the feature of
domains as long as there are any. A checkpoint follows the commit, so that who knows the lower protocol alone
reads the table without the commits from before.
"""

from __future__ import annotations

from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.snapshot import Snapshot
from tidegate.protocol.protocol import Protocol
from tidegate.transaction.transaction import Committed


def lowered(now: Snapshot, wanted: Protocol) -> Protocol:
    """The protocol ``wanted`` of a table that is at ``now``, with what may not be given up."""
    registry = now.log.registry
    kept = ["checkpointProtection", *(["domainMetadata"] if now.domains else [])]
    missing = [
        registry[name]
        for name in kept
        if now.protocol.supports(name, registry.rules) and not wanted.supports(name, registry.rules)
    ]
    return wanted.with_features(*missing, rules=registry.rules) if missing else wanted


def settle(committed: Committed, before: Snapshot | None) -> None:
    """The checkpoint that a commit needs whose protocol lost features; nothing after any other commit."""
    if before is None:
        return
    rules = before.log.registry.rules
    after = committed.snapshot
    if before.protocol.features(rules) - after.protocol.features(rules):
        write_checkpoint(after)
