"""What the engine itself keeps in a table's metadata, beside what its user sets.

Column mapping ids, names of hidden columns, since when in-commit timestamps are kept, the boundary of
protected versions. Each function returns new metadata or new changes.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from tidegate import properties
from tidegate.metadata import Metadata
from tidegate.schema.mapping import MAX_COLUMN_ID, assign_mapping, mapping_mode
from tidegate.transaction.pending import Changes


def keeps_time(metadata: Metadata) -> bool:
    """Whether commits carry their own timestamps."""
    return metadata.property(properties.ENABLE_IN_COMMIT_TIMESTAMPS)


def keeps_rows(metadata: Metadata) -> bool:
    """Whether rows keep their ids when they move."""
    return metadata.property(properties.ENABLE_ROW_TRACKING)


def names_rows(metadata: Metadata) -> bool:
    """Whether a row that moves has a place to keep its id in."""
    return keeps_rows(metadata) and bool(metadata.property(properties.ROW_ID_COLUMN_NAME))


def mapped(metadata: Metadata, before: Metadata | None) -> Metadata:
    """Metadata with an id and a physical name on every column, where the table maps its columns."""
    if mapping_mode(metadata) == "none":
        return metadata
    highest = properties.get(metadata.configuration, properties.COLUMN_MAPPING_MAX_ID)
    if before is not None and mapping_mode(before) == "none":
        # Mapping is being switched on: the files there are have the names the user sees.
        schema, highest = assign_mapping(metadata.schema, highest, new_name=lambda f: f.name)
    else:
        schema, highest = assign_mapping(metadata.schema, highest)
    configuration = {**metadata.configuration, MAX_COLUMN_ID: str(highest)}
    return metadata.with_schema(schema).with_configuration(configuration)


def tracked(metadata: Metadata) -> Metadata:
    """Metadata that names the hidden columns for ids of rows that move, where the table tracks its rows."""
    if not keeps_rows(metadata):
        return metadata
    names = {
        properties.ROW_ID_COLUMN_NAME.key: f"_row-id-col-{uuid.uuid4()}",
        properties.ROW_COMMIT_VERSION_COLUMN_NAME.key: f"_row-commit-version-col-{uuid.uuid4()}",
    }
    return metadata.with_configuration({**names, **metadata.configuration})


def with_boundary(changes: Changes, metadata: Metadata, version: int) -> Changes:
    """New metadata that protects every version before the commit's own, wherever a race has put it."""
    base = changes.metadata or metadata
    boundary = {properties.REQUIRE_CHECKPOINT_PROTECTION_BEFORE.key: str(version)}
    return replace(changes, metadata=base.with_configuration({**base.configuration, **boundary}))


def with_provenance(changes: Changes, before: Metadata, version: int, own_time: int) -> Changes:
    """New metadata that says since when the table keeps in-commit timestamps.

    The commit that switches them on later than version 0 says so itself; those after it hand it on.
    """
    if changes.metadata is None or version == 0:
        return changes
    at, when = properties.IN_COMMIT_TIMESTAMP_VERSION.key, properties.IN_COMMIT_TIMESTAMP_TIMESTAMP.key
    if keeps_time(before):
        provenance = {k: before.configuration[k] for k in (at, when) if k in before.configuration}
    else:
        provenance = {at: str(version), when: str(own_time)}
    rest = {k: v for k, v in changes.metadata.configuration.items() if k not in (at, when)}
    return replace(changes, metadata=changes.metadata.with_configuration({**rest, **provenance}))
