"""Every removable feature and how it is removed, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tidegate.commands.drop_feature import mapping, protected, rows, settings, vectors, widening
from tidegate.commands.drop_feature.removal import Removal

REMOVALS: Mapping[str, Removal] = MappingProxyType(
    {
        r.feature: r
        for r in (
            vectors.REMOVAL,
            mapping.REMOVAL,
            widening.removal("typeWidening"),
            widening.removal("typeWidening-preview"),
            rows.REMOVAL,
            protected.REMOVAL,
            *settings.REMOVALS,
        )
    }
)


def removal_of(feature: str, removals: Mapping[str, Removal] = REMOVALS) -> Removal:
    """How a feature is removed; one that has no row of its own leaves nothing but its properties."""
    return removals.get(feature) or Removal(feature)
