"""Manifests for engines that read lists of files.

One file per partition below ``_symlink_format_manifest``, with the absolute path of each live data
file on a line. Manifests of partitions that are gone go too. A table whose files cannot be read
without its log (deletion vectors, column mapping) has no manifest.
"""

from __future__ import annotations

import pyarrow as pa

from tidegate import properties
from tidegate.errors import MaintenanceRefusedError, PropertyError
from tidegate.files import partitions
from tidegate.files.paths import decode_path, location, partition_directory, resolve_path
from tidegate.log.snapshot import Snapshot
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode

FOLDER = "_symlink_format_manifest"
# The properties of which one cannot do with the other.
MANIFEST_PROPERTIES = frozenset({properties.SYMLINK_MANIFEST.key, properties.ENABLE_DELETION_VECTORS.key})
_REFUSED = "DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED"


def write_manifests(snapshot: Snapshot) -> int:
    """Write the manifests of the table as it is now, ``snapshot`` or newer; how many there are."""
    while True:
        count = _write(snapshot)
        latest = snapshot.update()
        if latest.version == snapshot.version:
            return count
        # Who has committed meanwhile may have written the newer manifests before our older ones.
        snapshot = latest


def check_kept(metadata: Metadata, before: Snapshot | None) -> None:
    """Refuse properties by which a table would keep manifests that it cannot have."""
    if not metadata.property(properties.SYMLINK_MANIFEST):
        return
    if metadata.property(properties.ENABLE_DELETION_VECTORS):
        raise PropertyError(
            "A table with deletion vectors keeps no manifests: a list of its files would show deleted rows.",
            hint="Set one of the two properties to false.",
            errorClass=f"{_REFUSED}.PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION",
        )
    if before is not None and before.protocol.supports("deletionVectors") and _has_vectors(before):
        raise PropertyError(
            "Some files have deletion vectors, so a list of them would show deleted rows.",
            table=before.url,
            hint="Purge them first: REORG TABLE ... APPLY (PURGE).",
            errorClass=f"{_REFUSED}.EXISTING_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION",
        )


def _has_vectors(snapshot: Snapshot) -> bool:
    vectors = snapshot.files(columns=["deletionVector"]).column("deletionVector")
    return bool(vectors.null_count < len(vectors))


def _write(snapshot: Snapshot) -> int:
    """Write the manifests of one version, and take those away that it has not."""
    _check(snapshot)
    store = snapshot.log.store
    manifests = manifests_of(snapshot)
    for name, paths in manifests.items():
        store.put(name, "".join(f"{p}\n" for p in paths).encode())
    old = [f.name for f in store.list_from(FOLDER, recursive=True) if f.name not in manifests]
    store.delete([n for n in old if not n.rsplit("/", 1)[-1].startswith(".")])
    return len(manifests)


def _check(snapshot: Snapshot) -> None:
    if mapping_mode(snapshot.metadata) != "none":
        raise MaintenanceRefusedError(
            "The table maps its columns, so its files cannot be read by a list of them.",
            table=snapshot.url,
            errorClass="DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING",
        )
    if _has_vectors(snapshot):
        raise MaintenanceRefusedError(
            "Some files have deletion vectors, so a list of them would show deleted rows.",
            table=snapshot.url,
            hint="Purge them with REORG first.",
            errorClass="DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS",
        )


def manifests_of(snapshot: Snapshot) -> dict[str, list[str]]:
    """The paths in each manifest, by the manifest's name below the table."""
    files = snapshot.files(columns=["path", "partitionValues"])
    columns = snapshot.partition_columns
    out: dict[str, list[str]] = {}
    if not columns:
        out[f"{FOLDER}/manifest"] = []
    values = files.column("partitionValues").combine_chunks() if files.num_rows else pa.array([])
    texts = [partitions.raw(values, c).to_pylist() for c in columns] if files.num_rows else []
    root = location(snapshot.url)
    for i, path in enumerate(files.column("path").to_pylist()):
        directory = partition_directory([(c, texts[j][i]) for j, c in enumerate(columns)])
        name = f"{FOLDER}/{directory}/manifest" if columns else f"{FOLDER}/manifest"
        plain = decode_path(path) if resolve_path(path).absolute else f"{root}/{decode_path(path)}"
        out.setdefault(name, []).append(plain)
    return {name: sorted(paths) for name, paths in out.items()}
