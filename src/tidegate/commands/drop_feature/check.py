"""May this feature be dropped at all? Asked before anything is done, in the order in which Delta asks.

A property's name, a feature the table lacks, one that cannot be removed, one that nobody here knows, a
truncation that makes no sense or one that is lacking, and features that depend on it: each has its error.
"""

from __future__ import annotations

from tidegate import properties
from tidegate.errors import (
    DependentFeatureError,
    FeatureIsPropertyError,
    FeatureNotDroppableHereError,
    FeatureNotPresentError,
    FeatureNotRemovableError,
    TruncationNotAllowedError,
    TruncationRequiredError,
)
from tidegate.log.snapshot import Snapshot
from tidegate.protocol.feature import Feature
from tidegate.protocol.protocol import CHECKPOINT_PROTECTION


def check(snapshot: Snapshot, name: str, *, truncate: bool) -> Feature:
    """The row of the feature to be dropped, or the error that says why it cannot be."""
    registry, protocol = snapshot.log.registry, snapshot.protocol
    if properties.is_property(name):
        raise FeatureIsPropertyError(
            f"{name} is a table property, not a feature.",
            table=snapshot.url,
            hint="Unset it as a property: ALTER TABLE ... UNSET TBLPROPERTIES.",
        )
    row = registry.get(name)
    has = ", ".join(sorted(protocol.features(registry.rules))) or "none"
    if row is not None and not protocol.supports(row.name, registry.rules):
        raise FeatureNotPresentError(f"The table does not have {row.name}; it has {has}.", table=snapshot.url)
    if row is not None and not row.removable:
        raise FeatureNotRemovableError(f"{row.name} cannot be removed from a table.", table=snapshot.url)
    if row is None or not (row.readable and row.writable):
        known = "knows only by name" if row is not None else "does not know"
        raise FeatureNotDroppableHereError(
            f"{row.name if row is not None else name} is a feature that {registry.client} {known}.",
            table=snapshot.url,
            hint="Use the client that added it.",
        )
    if truncate and not row.history_protection and row.name != CHECKPOINT_PROTECTION:
        raise TruncationNotAllowedError(
            f"{row.name} leaves nothing in the history that would have to be truncated.",
            table=snapshot.url,
            hint="Drop it without truncating.",
        )
    if not truncate and row.name == CHECKPOINT_PROTECTION:
        raise TruncationRequiredError(
            f"{row.name} protects the history before the last drop, and can only go together with it.",
            table=snapshot.url,
            hint="Drop it with truncateHistory = True (--truncate-history).",
        )
    dependents = registry.dependents(row.name, protocol)
    if dependents:
        raise DependentFeatureError(
            f"{', '.join(dependents)} require {row.name}.",
            table=snapshot.url,
            hint=f"Drop {dependents[0]} first.",
        )
    return row
