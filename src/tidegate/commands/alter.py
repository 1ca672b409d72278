"""Changing what a table says of itself: properties, constraints, clustering. One commit each.

Everything is checked before anything is written: unknown properties, illegal values, transitions that
the table cannot make. Only what must look at rows (``alter_rows``) needs Spark. Columns stand in
``alter_columns``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.commands import clustering
from tidegate.commands.schema_edits import check_indexed, resolve
from tidegate.errors import (
    AlterRefusedError,
    ConcurrentAppendException,
    NotATableError,
    PropertyError,
    ProtocolChangedException,
)
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol import negotiate
from tidegate.schema import constraints
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.names import check_feed_names
from tidegate.schema.paths import join_path, split_path
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed, Transaction

_NOT_BY_HAND = {
    "location": "A table's location cannot be changed by a property.",
    "provider": "A table's provider cannot be changed.",
    clustering.FEATURE_PROPERTY: "Give the table clustering columns instead: clusterBy(...).",
    clustering.SHOWN_PROPERTY.lower(): "Give the table clustering columns instead: clusterBy(...).",
}
_COMMENT = "comment"


def begin(log: TableLog) -> tuple[Transaction, Snapshot]:
    """A transaction on a table that must be there."""
    transaction = Transaction.begin(log)
    if transaction.snapshot is None:
        raise NotATableError("There is no table here.", table=log.url)
    return transaction, transaction.snapshot


# ---------------------------------------------------------------------------- properties


def set_properties(
    log: TableLog, given: Mapping[str, str | bool | int], *, allow_arbitrary: bool = False
) -> Committed:
    """SET TBLPROPERTIES; what enables a feature adds it to the protocol. Always recorded."""
    asked = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in given.items()}
    _refuse_by_hand(asked)
    transaction, snapshot = begin(log)
    before = snapshot.metadata
    canonical = properties.validate(
        {k: v for k, v in asked.items() if k.lower() != _COMMENT},
        existing=before.configuration,
        allow_arbitrary=allow_arbitrary,
    )
    _check_transitions(before, canonical)
    if _starts_tracking(before, canonical):
        _backfill(log, snapshot)
        transaction, snapshot = _numbered(log)
        before = snapshot.metadata
    metadata = before.with_configuration({**before.configuration, **canonical})
    if properties.DATA_SKIPPING_STATS_COLUMNS.key in canonical:
        check_indexed(metadata)
    comment = next((v for k, v in asked.items() if k.lower() == _COMMENT), None)
    if comment is not None:
        metadata = msgspec.structs.replace(metadata, description=comment)
    transaction.update_metadata(metadata)
    return transaction.commit(operation=Operation("SET TBLPROPERTIES", {"properties": asked}))


def unset_properties(log: TableLog, keys: Iterable[str], *, if_exists: bool = False) -> Committed:
    """UNSET TBLPROPERTIES; a key that is not set is an error unless ``if_exists``."""
    wanted = list(keys)
    # To unset a constraint is to drop it; what was set as clustering columns has never been any.
    unsettable = (constraints.PREFIX, clustering.SHOWN_PROPERTY.lower())
    _refuse_by_hand({k: "" for k in wanted if not k.lower().startswith(unsettable)})
    for key in wanted:
        if negotiate.is_protocol_property(key):
            raise PropertyError(
                f"{key} belongs to the protocol and cannot be unset.",
                table=log.url,
                hint="Drop the feature instead.",
                errorClass="DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
            )
    transaction, snapshot = begin(log)
    before = snapshot.metadata
    found = {k: _held(before, k) for k in wanted}
    missing = [k for k, there in found.items() if there is None and k.lower() != _COMMENT]
    if missing and not if_exists:
        raise PropertyError(
            f"The table has no property {', '.join(missing)}.",
            table=log.url,
            hint="Unset what is there, or ask with ifExists.",
            errorClass="DELTA_UNSET_NON_EXISTENT_PROPERTY",
        )
    gone = {k for k in found.values() if k is not None}
    for key in filter(properties.is_kept, gone):
        raise PropertyError(
            f"{key} is kept by Delta itself and cannot be unset.",
            table=log.url,
            errorClass="DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
        )
    kept = {k: v for k, v in before.configuration.items() if k not in gone}
    _check_transitions(before, {}, unset=gone)
    metadata = before.with_configuration(kept)
    if _COMMENT in (k.lower() for k in wanted):
        metadata = msgspec.structs.replace(metadata, description=None)
    transaction.update_metadata(metadata)
    operation = Operation("UNSET TBLPROPERTIES", {"properties": wanted, "ifExists": if_exists})
    return transaction.commit(operation=operation)


def _held(metadata: Metadata, key: str) -> str | None:
    """A property as the table spells it: Delta's own is found in any case, a user's in its own alone."""
    lower = key.lower()
    same = {k for k in metadata.configuration if lower.startswith("delta.") and k.lower() == lower}
    return key if key in metadata.configuration else next(iter(same), None)


def _refuse_by_hand(given: Mapping[str, str]) -> None:
    for key in given:
        why, name = _NOT_BY_HAND.get(key.lower()), "DELTA_CANNOT_MODIFY_TABLE_PROPERTY"
        if key.lower().startswith(constraints.PREFIX):
            why = "Constraints are added by addConstraint and dropped by dropConstraint."
            name = "DELTA_ADD_CONSTRAINTS"
        if key.lower() == clustering.FEATURE_PROPERTY:
            name = "DELTA_ALTER_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED"
        if why is not None:
            raise PropertyError(
                f"{key} cannot be set as a property.",
                hint=why,
                errorClass=name,
            )


def _check_transitions(before: Metadata, given: Mapping[str, str], unset: Iterable[str] = ()) -> None:
    """Changes of a property that its old value does not allow."""
    after = {**{k: v for k, v in before.configuration.items() if k not in set(unset)}, **given}
    old, new = mapping_mode(before), mapping_mode(before.with_configuration(after))
    if old != new and (old, new) != ("none", "name"):
        hint = (
            "Drop the feature columnMapping to take it away." if new == "none" else "From none to name only."
        )
        raise PropertyError(
            f"The column mapping mode cannot be changed from {old} to {new}.",
            hint=hint,
            errorClass="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        )
    feed = before.with_configuration(after).property(properties.ENABLE_CHANGE_DATA_FEED)
    if feed and not before.property(properties.ENABLE_CHANGE_DATA_FEED):
        check_feed_names(before.schema)


# ---------------------------------------------------------------------------- row tracking


def _starts_tracking(before: Metadata, given: Mapping[str, str]) -> bool:
    now = before.with_configuration({**before.configuration, **given})
    return now.property(properties.ENABLE_ROW_TRACKING) and not before.property(
        properties.ENABLE_ROW_TRACKING
    )


def _backfill(log: TableLog, snapshot: Snapshot) -> None:
    """Give every file row ids before the table promises that all of them have some.

    First the protocol, so that from here on every writer gives new files theirs; then the old files,
    listed again as they are.
    """
    if not snapshot.protocol.supports("rowTracking") or snapshot.metadata.property(
        properties.ROW_TRACKING_SUSPENDED
    ):
        transaction, found = begin(log)
        suspended = properties.ROW_TRACKING_SUSPENDED.key
        kept = {k: v for k, v in found.metadata.configuration.items() if k != suspended}
        transaction.update_metadata(
            found.metadata.with_configuration({**kept, "delta.feature.rowTracking": "supported"})
        )
        upgraded = {"newProtocol": transaction.protocol.to_wire()}
        transaction.commit(operation=Operation("UPGRADE PROTOCOL", upgraded))
    while not _number_rest(log):
        # Others who number the same files at the same time have been first: those have their ids now.
        pass


def _number_rest(log: TableLog) -> bool:
    """Number the files that have no row ids; False where others have just given ids to some of them."""
    transaction, found = begin(log)
    files = found.files()
    without = files.filter(files.column("baseRowId").is_null())
    if without.num_rows == 0:
        return True
    if pc.any(pc.is_null(without.column("stats"))).as_py():
        raise AlterRefusedError(
            "Some files do not state their number of rows, so their rows cannot be numbered.",
            table=log.url,
            hint="Rewrite them first, for example with OPTIMIZE.",
        )
    transaction.read_files(without)
    at = without.schema.get_field_index("dataChange")
    unchanged = pa.array([False] * without.num_rows, pa.bool_())
    adds = without.set_column(at, without.schema.field(at), unchanged)
    try:
        transaction.commit(operation=Operation("ROW TRACKING BACKFILL", {"batchId": "0"}), adds=adds)
    except ConcurrentAppendException:
        return False
    return True


def _numbered(log: TableLog) -> tuple[Transaction, Snapshot]:
    """A transaction on the table that ``_backfill`` has left, unless the ids were taken away again since."""
    transaction, snapshot = begin(log)
    ids = snapshot.files(columns=["baseRowId"]).column("baseRowId")
    gives = snapshot.protocol.supports("rowTracking")
    if ids.null_count or not gives or snapshot.metadata.property(properties.ROW_TRACKING_SUSPENDED):
        raise ProtocolChangedException(
            "Row tracking was dropped while the table's rows were being numbered.",
            table=log.url,
            version=snapshot.version,
            hint="Enable it again.",
        )
    return transaction, snapshot


# ---------------------------------------------------------------------------- constraints


def drop_constraint(log: TableLog, name: str, *, if_exists: bool = False) -> Committed:
    """DROP CONSTRAINT; where there is none it is an error, unless ``if_exists`` says otherwise."""
    transaction, snapshot = begin(log)
    key = constraints.constraint_key(name)
    before = snapshot.metadata.configuration
    found = next((k for k in before if k.lower() == key.lower()), None)
    if found is None:
        if if_exists:
            # Nothing changes, and the history tells that it was asked for, as Delta's does.
            absent = Operation("DROP CONSTRAINT", {"name": name, "existed": "false"})
            return transaction.commit(operation=absent)
        known = ", ".join(constraints.check_constraints(before)) or "none"
        raise AlterRefusedError(
            f"There is no constraint {name}; the table has {known}.",
            table=log.url,
            errorClass="DELTA_CONSTRAINT_DOES_NOT_EXIST",
        )
    kept = {k: v for k, v in before.items() if k != found}
    transaction.update_metadata(snapshot.metadata.with_configuration(kept))
    operation = Operation("DROP CONSTRAINT", {"name": name, "expr": before[found], "existed": "true"})
    return transaction.commit(operation=operation)


# ---------------------------------------------------------------------------- clustering


def cluster_by(log: TableLog, columns: Sequence[str]) -> Committed | None:
    """CLUSTER BY (columns), or by none; existing files wait for the next OPTIMIZE."""
    transaction, snapshot = begin(log)
    if snapshot.partition_columns:
        raise AlterRefusedError(
            f"The table is partitioned by {', '.join(snapshot.partition_columns)}; a table is partitioned or "
            "clustered, not both.",
            table=log.url,
            hint="Replace it by a table that is clustered.",
            errorClass="DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED",
        )
    for column in columns:
        resolve(snapshot.schema, split_path(column), log.settings().case_sensitive)
    paths = clustering.resolve(snapshot.metadata, columns, log.settings().clustering_columns)
    old = clustering.clustering_columns(snapshot)
    if old == paths and (clustering.is_clustered(snapshot) or not paths):
        return None
    if not snapshot.protocol.supports("clustering"):
        metadata = snapshot.metadata
        transaction.update_metadata(
            metadata.with_configuration({**metadata.configuration, clustering.FEATURE_PROPERTY: "supported"})
        )
    parameters = {
        "oldClusteringColumns": ",".join(join_path(c) for c in old),
        "newClusteringColumns": ",".join(join_path(c) for c in paths),
    }
    domain = clustering.domain(snapshot.metadata, paths)
    return transaction.commit([domain], Operation("CLUSTER BY", parameters))
