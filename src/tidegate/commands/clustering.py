"""Clustering columns: the domain ``delta.clustering``, and the cubes that clustered files belong to.

The domain keeps the columns as physical paths, so that a rename leaves them alone. A clustered file
names its cube in its tags; a cube that has grown to its size is left alone by the next clustering,
one of other columns never counts. Only files without a provider, or with ours, are ever reclustered.
Specification: "Clustered Table".
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from tidegate import properties
from tidegate.errors import AlterRefusedError, SchemaInvalidError
from tidegate.files.stats import has_bounds
from tidegate.log.actions import DomainMetadata
from tidegate.log.snapshot import Snapshot
from tidegate.metadata import Metadata
from tidegate.schema.mapping import logical_to_physical, mapping_mode, physical_to_logical
from tidegate.schema.paths import Path, join_path
from tidegate.schema.types import StructType

DOMAIN = "delta.clustering"
FEATURE_PROPERTY = "delta.feature.clustering"
PROVIDER = "liquid"
CUBE_ID = "ZCUBE_ID"
CUBE_COLUMNS = "ZCUBE_ZORDER_BY"
CUBE_CURVE = "ZCUBE_ZORDER_CURVE"


class _Configuration(msgspec.Struct, rename="camel"):
    clustering_columns: list[list[str]] = []
    domain_name: str = DOMAIN


def is_clustered(snapshot: Snapshot) -> bool:
    """Whether the table has the feature and says by what, be it by nothing at all."""
    return snapshot.protocol.supports("clustering") and DOMAIN in snapshot.domains


def physical_columns(snapshot: Snapshot) -> list[Path]:
    """The clustering columns as data files call them."""
    found = snapshot.domains.get(DOMAIN)
    if found is None:
        return []
    return [
        tuple(c) for c in msgspec.json.decode(found.configuration, type=_Configuration).clustering_columns
    ]


def clustering_columns(snapshot: Snapshot) -> list[Path]:
    """The clustering columns as the user calls them."""
    mode = mapping_mode(snapshot.metadata)
    found = (physical_to_logical(snapshot.schema, c, mode) or c for c in physical_columns(snapshot))
    return list(found)


def domain(metadata: Metadata, columns: Sequence[Path]) -> DomainMetadata:
    """The action that makes ``columns`` the clustering columns of a table."""
    mode = mapping_mode(metadata)
    physical = [list(logical_to_physical(metadata.schema, c, mode) or c) for c in columns]
    text = msgspec.json.encode(_Configuration(physical)).decode()
    return DomainMetadata(domain=DOMAIN, configuration=text)


def resolve(metadata: Metadata, names: Sequence[str], most: int) -> list[Path]:
    """Column names as paths of the schema; refuses what cannot be clustered by, and more than ``most``."""
    if not names:
        return []
    if metadata.partition_columns:
        raise AlterRefusedError(
            f"The table is partitioned by {', '.join(metadata.partition_columns)}; a table is partitioned or "
            "clustered, not both.",
            errorClass="DELTA_CLUSTER_BY_WITH_PARTITIONED_BY",
        )
    if len(names) > most:
        raise AlterRefusedError(
            f"{len(names)} clustering columns are asked for; at most {most} are allowed.",
            errorClass="DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS",
        )
    out: list[Path] = []
    for name in names:
        found = metadata.schema.resolve(name)
        if found is None:
            raise SchemaInvalidError(
                f"There is no column {name} to cluster by; the table has {', '.join(metadata.schema.names)}.",
                errorClass="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
            )
        path, field = found
        if path in out:
            raise AlterRefusedError(
                f"The clustering column {name} is named twice.",
                errorClass="DELTA_DUPLICATE_COLUMNS_FOUND.CLUSTER_BY",
            )
        if not has_bounds(field.type) or path not in indexed(metadata):
            raise AlterRefusedError(
                f"The column {name} ({field.type}) has no minimum and maximum in the statistics, so files "
                "could never be skipped by it.",
                hint="Cluster by a column within delta.dataSkippingNumIndexedCols, of a type with an order.",
                errorClass="DELTA_CLUSTERING_COLUMN_MISSING_STATS",
            )
        out.append(path)
    return out


def indexed(metadata: Metadata) -> list[Path]:
    """The columns that statistics are collected on, as the user calls them."""
    partitions = {c.lower() for c in metadata.partition_columns}
    data = StructType(tuple(f for f in metadata.schema.fields if f.name.lower() not in partitions))
    leaves = [tuple(path) for path, _ in data.leaves()]
    named = metadata.property(properties.DATA_SKIPPING_STATS_COLUMNS)
    if named:
        wanted = [metadata.schema.resolve(c.strip()) for c in named.split(",")]
        roots = [found[0] for found in wanted if found is not None]
        return [leaf for leaf in leaves if any(leaf[: len(r)] == r for r in roots)]
    count = metadata.property(properties.DATA_SKIPPING_NUM_INDEXED_COLS)
    return leaves if count < 0 else leaves[:count]


# ---------------------------------------------------------------------------- cubes


def cube_tags(cube: str, columns: Sequence[Path]) -> dict[str, str]:
    """What the files of one cube say of themselves; the columns by their physical names."""
    names = msgspec.json.encode([join_path(c) for c in columns]).decode()
    return {CUBE_ID: cube, CUBE_COLUMNS: names, CUBE_CURVE: "zorder"}


def to_cluster(files: pa.Table, columns: Sequence[Path], cube_size: int, *, full: bool = False) -> list[bool]:
    """Which files the next clustering takes: all but the cubes that are whole, of these very columns.

    A full clustering takes those too, so long as they are ours to touch.
    """
    own = msgspec.json.encode([join_path(c) for c in columns]).decode()
    tags = [dict(t or ()) for t in files.column("tags").to_pylist()]
    providers = files.column("clusteringProvider").to_pylist()
    sizes = files.column("size").to_pylist()
    cubes: dict[str, int] = {}
    for tag, size in zip(tags, sizes, strict=True):
        if tag.get(CUBE_COLUMNS) == own and CUBE_ID in tag:
            cubes[str(tag[CUBE_ID])] = cubes.get(str(tag[CUBE_ID]), 0) + size
    whole = {cube for cube, size in cubes.items() if size >= cube_size}
    out = []
    for tag, provider in zip(tags, providers, strict=True):
        if provider not in (None, "", PROVIDER):
            out.append(False)
            continue
        done = tag.get(CUBE_COLUMNS) == own and tag.get(CUBE_ID) in whole
        out.append(full or not done)
    return out
