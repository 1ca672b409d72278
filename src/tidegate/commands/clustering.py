"""Clustering columns: the domain ``delta.clustering``, and the cubes that clustered files belong to.

The domain keeps the columns as physical paths, so that a rename leaves them alone. A clustered file
names its cube and its columns in its tags, as delta-spark does; a cube that has grown to its size is left
alone by the next clustering, and so are files that were clustered by other columns, unless it is full.
Only files without a provider, or with ours, are ever reclustered. Specification: "Clustered Table".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from tidegate import properties
from tidegate.errors import AlterRefusedError, SchemaInvalidError
from tidegate.files.stats import has_bounds
from tidegate.log.actions import DomainMetadata
from tidegate.log.snapshot import Snapshot
from tidegate.metadata import Metadata
from tidegate.schema.mapping import logical_to_physical, mapping_mode, physical_to_logical
from tidegate.schema.paths import Path
from tidegate.schema.types import StructType

DOMAIN = "delta.clustering"
FEATURE_PROPERTY = "delta.feature.clustering"
# How SHOW TBLPROPERTIES tells the columns; no table has a property of that name.
SHOWN_PROPERTY = "clusteringColumns"
PROVIDER = "liquid"
CUBE_ID = "ZCUBE_ID"
CUBE_COLUMNS = "ZCUBE_ZORDER_BY"
CUBE_CURVE = "ZCUBE_ZORDER_CURVE"
_PLAIN = re.compile(r"[a-zA-Z0-9_]+")


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
            unseen, unfit = (
                "DELTA_CLUSTERING_COLUMN_MISSING_STATS",
                "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED",
            )
            raise AlterRefusedError(
                f"The column {name} ({field.type}) has no minimum and maximum in the statistics, so files "
                "could never be skipped by it.",
                hint="Cluster by a column within delta.dataSkippingNumIndexedCols, of a type with an order.",
                errorClass=unseen if has_bounds(field.type) else unfit,
            )
        out.append(path)
    return out


def refuse_partitions(snapshot: Snapshot, metadata: Metadata) -> None:
    """A table that is clustered, be it by nothing, is not replaced by one with partitions."""
    if metadata.partition_columns and is_clustered(snapshot):
        raise AlterRefusedError(
            "The table is clustered; one that is partitioned cannot take its place.",
            table=snapshot.url,
            hint="Cluster by those columns, or drop the table first.",
            errorClass="DELTA_CLUSTERING_REPLACE_TABLE_WITH_PARTITIONED_TABLE",
        )


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


def cube_tags(cube: str, columns: Sequence[Path], curve: str) -> dict[str, str]:
    """What the files of one cube say of themselves; the columns as the user calls them."""
    return {CUBE_ID: cube, CUBE_COLUMNS: _text(columns), CUBE_CURVE: curve}


def own_columns(snapshot: Snapshot) -> frozenset[str]:
    """How tags may spell the clustering columns: by the user's names, or by those of the data files."""
    return frozenset({_text(clustering_columns(snapshot)), _text(physical_columns(snapshot))})


def _text(columns: Sequence[Path]) -> str:
    return msgspec.json.encode([spelt(c) for c in columns]).decode()


def spelt(column: Path) -> str:
    """A path as delta-spark writes it, which compares such paths as text: what is not plain is quoted."""
    return ".".join(map(_quoted, column))


def _quoted(name: str) -> str:
    plain = _PLAIN.fullmatch(name) is not None and not name.isdecimal()
    return name if plain else f"`{name.replace('`', '``')}`"


@dataclass(frozen=True)
class Cubes:
    """The cube of each file, None where it is in none; and whether that is of the table's own columns."""

    ids: tuple[str | None, ...]
    own: tuple[bool, ...]

    @classmethod
    def of(cls, files: pa.Table, columns: Collection[str]) -> Cubes:
        tags = [dict(t or ()) for t in files.column("tags").to_pylist()]
        return cls(
            tuple(t.get(CUBE_ID) if CUBE_COLUMNS in t else None for t in tags),
            tuple(t.get(CUBE_COLUMNS) in columns for t in tags),
        )


def to_cluster(files: pa.Table, columns: Collection[str], cube_size: int, *, full: bool = False) -> pa.Table:
    """The files that the next clustering takes: all but whole cubes, and cubes of other columns.

    A full clustering takes the latter too. Where all that is left is one cube, nothing would be gained,
    unless rows in it have been deleted.
    """
    cubes = Cubes.of(files, columns)
    sizes: Counter[str | None] = Counter()
    for cube, size in zip(cubes.ids, files.column("size").to_pylist(), strict=True):
        sizes[cube] += size
    ours = [p in (None, "", PROVIDER) for p in files.column("clusteringProvider").to_pylist()]
    mask = [
        mine and (cube is None or (sizes[cube] < cube_size if own else full))
        for mine, cube, own in zip(ours, cubes.ids, cubes.own, strict=True)
    ]
    chosen = files.filter(pa.array(mask, pa.bool_()))
    left = {(cube, own) for cube, own, taken in zip(cubes.ids, cubes.own, mask, strict=True) if taken}
    settled = len(left) == 1 and next(iter(left))[0] is not None and next(iter(left))[1]
    has_vectors = chosen.column("deletionVector").null_count < chosen.num_rows
    return chosen.slice(0, 0) if settled and not has_vectors else chosen
