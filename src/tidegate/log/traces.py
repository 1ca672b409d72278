"""What a feature leaves in a table: the marks by which one sees that it is, or was, in use.

A mark stands in the metadata (a property, a column's metadata) or on the actions of a commit. Whoever
drops a feature asks for them in the newest version, in every winner of a race and, where history is
truncated, in what is left of it. A protocol that lists a feature is no mark: it may never have been used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from tidegate import properties
from tidegate.log.commits import CommitActions
from tidegate.metadata import Metadata
from tidegate.protocol.feature import Registry
from tidegate.schema.mapping import ID, MAX_COLUMN_ID, MODE, NESTED_IDS, PHYSICAL_NAME
from tidegate.schema.widening import TYPE_CHANGES

MAPPING_METADATA = frozenset({ID, PHYSICAL_NAME, NESTED_IDS})
MAPPING_PROPERTIES = (MODE, MAX_COLUMN_ID)
TIME_PROPERTIES = (
    properties.ENABLE_IN_COMMIT_TIMESTAMPS.key,
    properties.IN_COMMIT_TIMESTAMP_VERSION.key,
    properties.IN_COMMIT_TIMESTAMP_TIMESTAMP.key,
)
ROW_PROPERTIES = (
    properties.ENABLE_ROW_TRACKING.key,
    properties.ROW_TRACKING_SUSPENDED.key,
    properties.ROW_ID_COLUMN_NAME.key,
    properties.ROW_COMMIT_VERSION_COLUMN_NAME.key,
)


def has_type_changes(metadata: Metadata) -> bool:
    """Whether a column's type was ever widened."""
    return any(TYPE_CHANGES in f.metadata for _, f in metadata.schema.walk())


def _widens(metadata: Metadata) -> bool:
    return metadata.property(properties.ENABLE_TYPE_WIDENING) or has_type_changes(metadata)


def _keeps_time(metadata: Metadata) -> bool:
    provenance = TIME_PROPERTIES[1:]
    return metadata.property(properties.ENABLE_IN_COMMIT_TIMESTAMPS) or any(
        key in metadata.configuration for key in provenance
    )


# Where a feature's marks in the metadata are more, or other, than what enables it.
_IN_METADATA: dict[str, Callable[[Metadata], bool]] = {
    "typeWidening": _widens,
    "typeWidening-preview": _widens,
    "inCommitTimestamp": _keeps_time,
}


def in_metadata(name: str, metadata: Metadata, registry: Registry) -> bool:
    """Whether the metadata shows that the feature is in use."""
    known = _IN_METADATA.get(name)
    if known is not None:
        return known(metadata)
    row = registry.get(name)
    return row is not None and row.enabled_by is not None and row.enabled_by(metadata)


def _any_set(batches: Iterable[pa.RecordBatch], column: str) -> bool:
    return any(b.column(column).null_count < b.num_rows for b in batches)


def in_files(name: str, adds: Iterable[pa.RecordBatch]) -> bool:
    """Whether an entry of a live file shows that the feature is in use."""
    if name == "deletionVectors":
        return _any_set(adds, "deletionVector")
    if name == "rowTracking":
        return _any_set(adds, "baseRowId")
    return False


def in_commit(name: str, actions: CommitActions, registry: Registry, *, removes: bool = False) -> bool:
    """Whether a commit holds anything that only a table with the feature may hold.

    With ``removes`` the vectors of removed files count too: who travels to the version before needs them.
    """
    if actions.metadata is not None and in_metadata(name, actions.metadata, registry):
        return True
    if in_files(name, actions.adds):
        return True
    if removes and name == "deletionVectors":
        return _any_set(actions.removes, "deletionVector")
    if name == "domainMetadata":
        return any(not d.removed for d in actions.domains)
    return False
