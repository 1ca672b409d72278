"""What a table is now, in one row: DESCRIBE DETAIL. The log alone is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tidegate.commands.clustering import clustering_columns, spelt
from tidegate.files.paths import location
from tidegate.log.moments import time_of
from tidegate.log.snapshot import Snapshot


def detail(snapshot: Snapshot, name: str | None = None) -> dict[str, Any]:
    """The facts of a table under the names of DESCRIBE DETAIL, in its order."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    created = metadata.created_time
    return {
        "format": "delta",
        "id": metadata.id,
        "name": name or metadata.name,
        "description": metadata.description,
        "location": location(snapshot.url),
        "createdAt": None if created is None else time_of(created),
        "lastModified": snapshot.timestamp,
        "partitionColumns": list(metadata.partition_columns),
        "clusteringColumns": [spelt(c) for c in clustering_columns(snapshot)],
        "numFiles": snapshot.num_files,
        "sizeInBytes": snapshot.size_in_bytes,
        "properties": dict(metadata.configuration),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(protocol.features(snapshot.log.registry.rules)),
    }


def elsewhere(
    place: str | None,
    *,
    format: str | None = None,
    name: str | None = None,
    comment: str | None = None,
    created: datetime | None = None,
    partition_columns: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What is known of a table that has no log: what a catalog keeps of it, or no more than its place."""
    return {
        "format": format,
        "name": name,
        "description": comment,
        "location": place,
        "createdAt": created,
        "partitionColumns": None if partition_columns is None else list(partition_columns),
        "properties": dict(properties or {}),
    }
