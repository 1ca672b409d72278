"""CLONE, shallow: a new table whose log refers to the files of another one. No Spark is needed.

The clone has an id and a history of its own; its protocol follows from the source's protocol and
metadata alone. Paths become absolute, deletion vectors too. From there on both tables go their own
ways; files that the source deletes with VACUUM are lost to the clone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties as props
from tidegate.commands import clustering
from tidegate.commands.create import boundary_of, end_of_clustering
from tidegate.commands.removes import with_data_change
from tidegate.commands.retention import check_retention
from tidegate.errors import MaintenanceRefusedError, OptionError, TableExistsError
from tidegate.files.deletion_vectors import relative_name
from tidegate.files.paths import encode_location, encode_path, location
from tidegate.log.actions import Action
from tidegate.log.columns import DV_TYPE
from tidegate.log.history import version_at
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.opening import milliseconds
from tidegate.protocol import negotiate
from tidegate.protocol.protocol import Protocol
from tidegate.transaction.manifests import check_kept
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed, Transaction, tracked

# What belongs to the source's own history.
_LEFT_BEHIND = (
    props.IN_COMMIT_TIMESTAMP_VERSION.key,
    props.IN_COMMIT_TIMESTAMP_TIMESTAMP.key,
    props.REQUIRE_CHECKPOINT_PROTECTION_BEFORE.key,
)


def clone(
    source: TableLog,
    target: TableLog,
    *,
    shallow: bool = True,
    replace: bool = False,
    properties: Mapping[str, str] | None = None,
    version: int | None = None,
    timestamp: str | None = None,
    if_not_exists: bool = False,
    within_retention: bool = False,
    dry_run: bool = False,
    called: str | None = None,
) -> dict[str, Any] | None:
    """Make ``target`` a clone of ``source``, as it is or was; the metrics as Delta names them.

    None where there is a table already and ``if_not_exists`` says to leave it. With ``within_retention``
    versions whose files VACUUM may delete are refused. ``called`` is the source's name, for the history.
    """
    if not shallow:
        raise MaintenanceRefusedError(
            "Only shallow clones are made: a deep one would copy the data.",
            table=source.url,
            hint="Pass isShallow=True, or copy the table by reading and writing it.",
            errorClass="DELTA_UNSUPPORTED_DEEP_CLONE",
        )
    snapshot = snapshot_of(source, version, timestamp)
    if within_retention and (version is not None or timestamp is not None):
        check_retention(load(source), snapshot)
    adds = absolute(snapshot)
    metadata = cloned_metadata(snapshot.metadata, properties or {})
    _check_vectors(adds, properties or {}, target.url)
    domains: list[Action] = []
    if clustering.is_clustered(snapshot):
        domains.append(snapshot.domains[clustering.DOMAIN])
    parameters = {
        "source": called or f"delta.`{location(source.url)}`",
        "sourceVersion": snapshot.version,
    }
    return publish(
        target,
        adds,
        metadata,
        snapshot.protocol,
        parameters,
        domains=domains,
        replace=replace,
        if_not_exists=if_not_exists,
        dry_run=dry_run,
    )


def snapshot_of(source: TableLog, version: int | None, timestamp: str | None) -> Snapshot:
    """The source as it is to be cloned."""
    if timestamp is not None:
        if version is not None:
            raise OptionError("A clone is of a version or of a time, not of both.", table=source.url)
        version = version_at(source, milliseconds(timestamp))
    return load(source, version)


def publish(
    target: TableLog,
    adds: pa.Table,
    metadata: Metadata,
    protocol: Protocol | None,
    parameters: Mapping[str, Any],
    *,
    domains: list[Action] | None = None,
    replace: bool = False,
    if_not_exists: bool = False,
    dry_run: bool = False,
) -> dict[str, Any] | None:
    """Commit a table that refers to files elsewhere."""
    transaction = Transaction.begin(target)
    if transaction.snapshot is not None:
        if if_not_exists:
            return None
        _check_replaceable(transaction.snapshot, replace)
        _check_mapping(transaction.snapshot.metadata, metadata, target.url)
    elif not replace:
        _check_empty(target)
    size = pc.sum(adds.column("size")).as_py() or 0
    metrics = {
        "source_table_size": size,
        "source_num_of_files": adds.num_rows,
        "num_removed_files": 0,
        "num_copied_files": 0,
        "removed_files_size": 0,
        "copied_files_size": 0,
    }
    if dry_run:
        return metrics
    _commit(transaction, adds, metadata, protocol, parameters, domains or [], metrics)
    return metrics


def _commit(
    transaction: Transaction,
    adds: pa.Table,
    metadata: Metadata,
    protocol: Protocol | None,
    parameters: Mapping[str, Any],
    domains: list[Action],
    metrics: Mapping[str, Any],
) -> Committed:
    registry = transaction.log.registry
    now = transaction.log.clock()
    replaced = transaction.snapshot
    there = None if replaced is None else replaced.metadata
    metadata = msgspec.structs.replace(
        metadata,
        id=str(uuid.uuid4()) if there is None else there.id,
        name=None if there is None else there.name,
        description=None if there is None else there.description,
        created_time=now,
    )
    actions = list(domains)
    # A clone is no append, also where it makes a table: what is there decides whether it may be made.
    transaction.read_table()
    if replaced is not None:
        if protocol is not None:
            transaction.update_protocol(replaced.protocol.merge(protocol, rules=registry.rules))
        transaction.update_metadata(
            metadata.with_configuration({**metadata.configuration, **boundary_of(replaced.metadata)})
        )
        # The columns of the source take the place of the table's own, be they none.
        actions = actions or end_of_clustering(replaced)
    elif protocol is None:
        transaction.update_metadata(metadata)
    else:
        # The source decides alone: neither the session's defaults nor Delta's add anything, and what
        # Delta keeps in the properties (column ids, names of hidden columns) is kept as it is.
        protocol, stored = negotiate.apply_properties(protocol, metadata.configuration, registry)
        metadata = tracked(metadata.with_configuration(stored))
        protocol = negotiate.upgrade_for_metadata(protocol, metadata, registry) or protocol
        actions += [protocol, metadata]
    return transaction.commit(
        actions,
        Operation("CLONE", parameters),
        adds=with_data_change(adds, True),
        metrics={_camel(k): v for k, v in metrics.items()},
        retry=False,
    )


def _check_replaceable(target: Snapshot, replace: bool) -> None:
    if not replace:
        raise TableExistsError(
            "A table already exists where the clone is to be.",
            table=target.url,
            hint="Clone to another place, or replace an empty table with replace=True.",
            errorClass="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
        )
    if target.num_files:
        raise MaintenanceRefusedError(
            f"The table to be replaced holds {target.num_files} files; a clone replaces empty tables only.",
            table=target.url,
            hint="Delete its rows first, or clone to another place.",
            errorClass="DELTA_UNSUPPORTED_NON_EMPTY_CLONE",
        )


def _check_empty(target: TableLog) -> None:
    """A new clone begins where there is nothing but what others may have begun of a log."""
    log = target.dialect.log_dir + "/"
    if any(not f.name.startswith(log) for f in target.store.list_from("", recursive=True)):
        raise TableExistsError(
            "The place where the clone is to be is not empty and also not a Delta table.",
            table=target.url,
            hint="Clone to another place, or replace what is there with replace=True.",
            errorClass="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
        )


def _check_mapping(before: Metadata, after: Metadata, table: str | None = None) -> None:
    """The files of a clone are read by the source's mapping: another one cannot be asked of them."""
    old, new = (props.get(m.configuration, props.COLUMN_MAPPING_MODE) for m in (before, after))
    if old != new:
        raise MaintenanceRefusedError(
            f"Changing the column mapping mode from {old} to {new} in a clone is not supported.",
            table=table,
            errorClass="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        )


def _check_vectors(adds: pa.Table, overrides: Mapping[str, str], table: str) -> None:
    """A clone that is to have no deletion vectors cannot refer to files with some."""
    asked = {k.lower(): str(v).lower() for k, v in overrides.items()}
    if asked.get(props.ENABLE_DELETION_VECTORS.key.lower()) != "false":
        return
    if adds.column("deletionVector").null_count < adds.num_rows:
        raise MaintenanceRefusedError(
            "Files of the source have deletion vectors, which the clone is told not to have.",
            table=table,
            hint="Purge the source first (REORG TABLE ... APPLY (PURGE)), or leave the property as it is.",
            errorClass="DELTA_ADDING_DELETION_VECTORS_DISALLOWED",
        )


def cloned_metadata(source: Metadata, overrides: Mapping[str, str]) -> Metadata:
    """The source's metadata as the clone's, with the caller's properties over it."""
    kept = {k: v for k, v in source.configuration.items() if k not in _LEFT_BEHIND}
    asked = props.validate({k: str(v) for k, v in overrides.items()}, existing=kept)
    cloned = source.with_configuration({**kept, **asked})
    _check_mapping(source, cloned)
    check_kept(cloned, None)
    return cloned


def absolute(snapshot: Snapshot) -> pa.Table:
    """The live files with absolute paths, their deletion vectors too."""
    files = snapshot.files()
    root = encode_location(snapshot.url).rstrip("/")
    paths = files.column("path").combine_chunks() if files.num_rows else pa.array([], pa.string())
    elsewhere = pc.match_substring_regex(paths, r"^/|^[A-Za-z][A-Za-z0-9+.-]*:")
    joined = pc.binary_join_element_wise(pa.scalar(root), paths, "/")
    files = _set(files, "path", pc.if_else(elsewhere, paths, joined))
    files = _set(files, "deletionVector", _absolute_vectors(files.column("deletionVector"), root))
    # To the clone its rows are as old as itself: the source's versions are none of its own.
    return _set(files, "defaultRowCommitVersion", pa.nulls(files.num_rows, pa.int64()))


def _absolute_vectors(vectors: pa.ChunkedArray, root: str) -> pa.Array:
    out = []
    for vector in vectors.to_pylist():
        if vector is not None and vector["storageType"] == "u":
            name = relative_name(vector["pathOrInlineDv"])
            vector = {**vector, "storageType": "p", "pathOrInlineDv": f"{root}/{encode_path(name)}"}
        out.append(vector)
    return pa.array(out, DV_TYPE)


def _set(files: pa.Table, name: str, column: pa.Array) -> pa.Table:
    at = files.schema.get_field_index(name)
    return files.set_column(at, files.schema.field(at), column)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(p.capitalize() for p in rest)
