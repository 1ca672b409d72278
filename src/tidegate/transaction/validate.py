"""What must hold of the changes of a transaction before they may be committed.

``check`` refuses what no reader could live with, before anything is written. It is pure: the same
changes are checked again whenever a winner has changed the table under them.
Specification: "Actions", "Add File and Remove File".
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.errors import AppendOnlyError, CommitRefusedError
from tidegate.files import row_ids
from tidegate.files.paths import refuse_outside
from tidegate.log.replay import check_commit
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.transaction.pending import Changes, num_records


def check(changes: Changes, protocol: Protocol, metadata: Metadata, *, before: Metadata | None) -> None:
    """Refuse changes that would make an illegal commit.

    ``protocol`` and ``metadata`` are the table's once the changes are made, ``before`` its metadata
    until then, None where there is no table yet.
    """
    if before is None and changes.metadata is None:
        raise CommitRefusedError(
            "The first commit of a table must carry its metadata.",
            hint="Call update_metadata before commit.",
        )
    _check_complete(changes)
    check_commit(changes.as_actions(), "the commit being made")
    for batch in changes.adds:
        refuse_outside(batch.column("path"))
    # What it was counts: a replacement may make the table append-only in the commit that empties it.
    _check_append_only(changes, metadata if before is None else before)
    _check_partitions(changes, metadata)
    _check_vectors(changes, protocol)
    if changes.domains and not protocol.supports("domainMetadata"):
        raise CommitRefusedError(
            "The table's protocol lacks the feature domainMetadata, so no domain can be written.",
            hint="Set delta.feature.domainMetadata = supported first.",
        )
    if any(d.domain == row_ids.DOMAIN and not d.removed for d in changes.domains):
        raise CommitRefusedError(
            f"The domain {row_ids.DOMAIN} holds the highest row id and is kept by the commit itself.",
            hint="Leave it out: row ids are given to the files as they are committed.",
        )
    if changes.cdcs and not properties.get(metadata.configuration, properties.ENABLE_CHANGE_DATA_FEED):
        raise CommitRefusedError(
            "Change data is being committed, but the table's change data feed is off.",
            hint="Set delta.enableChangeDataFeed = true first.",
        )


_REQUIRED = {"add": ("path", "size", "modificationTime", "dataChange"), "remove": ("path", "dataChange")}


def _check_complete(changes: Changes) -> None:
    """Columns come from anywhere; a line without its required fields would make the log unreadable."""
    for kind, batches in (("add", changes.adds), ("remove", changes.removes)):
        for batch in batches:
            lacking = [name for name in _REQUIRED[kind] if batch.column(name).null_count]
            if lacking:
                raise CommitRefusedError(f"Every {kind} must have {', '.join(lacking)}; some have none.")


def _check_append_only(changes: Changes, metadata: Metadata) -> None:
    if not properties.get(metadata.configuration, properties.APPEND_ONLY):
        return
    if any(pc.any(b.column("dataChange")).as_py() for b in changes.removes):
        raise AppendOnlyError(
            "The table is append-only: rows can be added, never changed or deleted.",
            hint="Set delta.appendOnly = false to allow it.",
        )


def _check_partitions(changes: Changes, metadata: Metadata) -> None:
    mode = mapping_mode(metadata)
    expected = sorted(physical_name(f, mode) for f in metadata.partition_schema.fields)
    for batch in changes.adds:
        values = batch.column("partitionValues")
        if _keyed_by(values, expected):
            continue
        for path, found in zip(batch.column("path").to_pylist(), values.to_pylist(), strict=True):
            keys = sorted(k for k, _ in found or ())
            if keys != expected:
                raise CommitRefusedError(
                    f"The file {path} has the partition values {keys}, the table is partitioned by "
                    f"{expected}.",
                    errorClass="DELTA_INVALID_PARTITIONING_SCHEMA",
                )


def _keyed_by(values: pa.MapArray, expected: list[str]) -> bool:
    """Whether every map has exactly these keys, once each."""
    if values.null_count and expected:
        return False
    keys = pa.ListArray.from_arrays(values.offsets, values.keys)
    flat = pc.list_flatten(keys)
    if len(flat) != len(values) * len(expected) or not expected:
        return bool(len(flat) == len(values) * len(expected))
    which = pc.index_in(flat, value_set=pa.array(expected, pa.string()))
    # As many distinct pairs of file and key as there can be: then none is missing, none comes twice.
    pairs = pc.add(pc.multiply(pc.cast(pc.list_parent_indices(keys), pa.int64()), len(expected)), which)
    return bool(which.null_count == 0 and pc.count_distinct(pairs).as_py() == len(pairs))


def _check_vectors(changes: Changes, protocol: Protocol) -> None:
    for batch in changes.adds:
        if "deletionVector" not in batch.schema.names:
            continue
        vectors = batch.column("deletionVector")
        if vectors.null_count == len(vectors):
            continue
        if not protocol.supports("deletionVectors"):
            raise CommitRefusedError(
                "A file carries a deletion vector, but the table's protocol lacks deletionVectors.",
                hint="Set delta.enableDeletionVectors = true first.",
            )
        with_vector = batch.filter(vectors.is_valid())
        if num_records(with_vector.column("stats")).null_count:
            raise CommitRefusedError(
                "A file with a deletion vector must state its number of rows (numRecords).",
                errorClass="DELTA_DELETION_VECTOR_MISSING_NUM_RECORDS",
            )
