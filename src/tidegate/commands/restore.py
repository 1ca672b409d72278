"""RESTORE: the table becomes what it was at an older version, as one new commit. No Spark is needed.

The difference of the two sets of logical files (path and deletion vector) is committed as adds and
removes that change data. Metadata and domains come back; what only ever moves forward does not go
back: identity marks, column ids, the mark of row ids, features, the boundary of checkpoint protection. A
file that stays has the row ids that it had then: a drop of row tracking since may have taken them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.commands.alter import begin
from tidegate.commands.lowering import lowered, settle
from tidegate.commands.presence import missing_files, shown
from tidegate.commands.removes import as_removes, with_data_change
from tidegate.commands.retention import check_retention
from tidegate.commands.under_way import refuse_what_is_being_deleted
from tidegate.errors import (
    DataFileMissingError,
    OptionError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from tidegate.files import row_ids
from tidegate.log.actions import Action, DomainMetadata
from tidegate.log.history import version_at
from tidegate.log.replay import file_keys
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.opening import milliseconds
from tidegate.schema.columns import IdentityColumn, identity_columns, with_high_water_mark
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.schema.types import StructType
from tidegate.transaction.pending import Operation

_FORWARD = (
    properties.COLUMN_MAPPING_MAX_ID.key,
    properties.REQUIRE_CHECKPOINT_PROTECTION_BEFORE.key,
)
# The names of hidden columns: files that are there have them, so they are named once.
_NAMED_ONCE = (properties.ROW_ID_COLUMN_NAME.key, properties.ROW_COMMIT_VERSION_COLUMN_NAME.key)
# What a time that cannot be read is called, and what one that cannot be restored is called.
_NO_SUCH_TIME = {
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION": "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER",
    "DELTA_TIMESTAMP_GREATER_THAN_COMMIT": "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
}


def restore(
    log: TableLog,
    *,
    version: int | None = None,
    timestamp: str | None = None,
    ignore_missing: bool = False,
    lowers_protocol: bool = False,
    within_retention: bool = False,
    dry_run: bool = False,
) -> dict[str, Any] | None:
    """Make the table what it was at a version or a time; the metrics as Delta names them.

    None where it is at that version already: nothing is committed. With ``lowers_protocol`` the protocol
    comes back too, also where that takes features away; with ``within_retention`` versions whose files
    VACUUM may delete are refused.
    """
    transaction, now = begin(log)
    then = target_of(now, version, timestamp)
    if then.version == now.version:
        return None
    if within_retention:
        check_retention(now, then)
    old, new = now.files(), then.files()
    adds, gone = difference(old, new)
    refuse_what_is_being_deleted(now, adds)
    if not ignore_missing:
        _check_present(log, adds, then.version)
    metrics = {
        "table_size_after_restore": then.size_in_bytes,
        "num_of_files_after_restore": then.num_files,
        "num_removed_files": gone.num_rows,
        "num_restored_files": adds.num_rows,
        "removed_files_size": pc.sum(gone.column("size")).as_py() or 0,
        "restored_files_size": pc.sum(adds.column("size")).as_py() or 0,
    }
    if dry_run:
        return metrics
    transaction.read_table()
    log.registry.check_write(then.protocol, table=log.url, version=then.version)
    if lowers_protocol:
        protocol = lowered(now, then.protocol)
    else:
        protocol = now.protocol.merge(then.protocol, rules=log.registry.rules)
    if protocol != now.protocol:
        transaction.update_protocol(protocol, lowers=lowers_protocol)
    metadata = restored_metadata(now.metadata, then.metadata, tracks_rows=protocol.supports("rowTracking"))
    if metadata != now.metadata:
        transaction.update_metadata(metadata)
    actions: list[Action] = []
    if protocol.supports("domainMetadata"):
        actions += restored_domains(now, then)
    operation = Operation("RESTORE", {"version": version, "timestamp": timestamp})
    coming = [with_data_change(adds, True)]
    if protocol.supports("rowTracking"):
        coming.append(with_data_change(with_ids_of(old, new), False))
    committed = transaction.commit(
        actions,
        operation,
        adds=pa.concat_tables(coming),
        removes=as_removes(gone, log.clock()),
        metrics={_camel(k): v for k, v in metrics.items()},
        retry=False,
    )
    settle(committed, now)
    return metrics


def target_of(now: Snapshot, version: int | None, timestamp: str | None) -> Snapshot:
    """The version to go back to; the table must have had it."""
    if (version is None) == (timestamp is None):
        raise OptionError("RESTORE takes a version or a timestamp, one of them.", table=now.url)
    if timestamp is not None:
        try:
            version = version_at(now.log, milliseconds(timestamp), latest=now)
        except TimestampOutOfRangeError as e:
            e.errorClass = _NO_SUCH_TIME.get(e.errorClass or "", e.errorClass)
            raise
    assert version is not None
    if version < 0:
        raise OptionError(
            f"The table cannot be restored to version {version}; versions are whole numbers from 0 on.",
            table=now.url,
            errorClass="DELTA_CANNOT_RESTORE_TABLE_VERSION",
        )
    if version > now.version:
        raise VersionNotFoundError(
            f"There is no version {version}; the latest is {now.version}.",
            table=now.url,
            version=version,
            errorClass="DELTA_CANNOT_RESTORE_TABLE_VERSION",
        )
    return now if version == now.version else load(now.log, version)


def difference(old: pa.Table, new: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The files that must come back, and those that must go."""
    new_keys, old_keys = _keys(new), _keys(old)
    coming = new.filter(pc.invert(pc.is_in(new_keys, value_set=old_keys)))
    going = old.filter(pc.invert(pc.is_in(old_keys, value_set=new_keys)))
    return coming, going


def with_ids_of(old: pa.Table, new: pa.Table) -> pa.Table:
    """The files that stay and had other row ids, or had ids that they lost, as they were.

    Where ids were given anew since, no file keeps one of those: it might be that of a row which comes back.
    """
    if not new.num_rows or new.column("baseRowId").null_count == new.num_rows:
        return new.slice(0, 0)
    at = pc.index_in(_keys(new), value_set=_keys(old))
    new, at = new.filter(at.is_valid()), at.drop_null()
    had, have = new.column("baseRowId"), old.column("baseRowId").take(at)
    other = pc.fill_null(pc.not_equal(had, have), False)
    lost = pc.and_(had.is_valid(), have.is_null())
    anew = pc.and_(had.is_null(), pa.scalar(bool(pc.any(other).as_py())))
    return new.filter(pc.or_(pc.or_(other, lost), anew))


def _keys(files: pa.Table) -> pa.Array:
    parts = [file_keys(b) for b in files.select(["path", "deletionVector"]).to_batches()]
    return pa.concat_arrays([p.cast(pa.string()) for p in parts]) if parts else pa.array([], pa.string())


def _check_present(log: TableLog, adds: pa.Table, version: int) -> None:
    lost = missing_files(log, adds)
    if lost:
        raise DataFileMissingError(
            f"{len(lost)} files of that version are gone: {shown(lost)}.",
            table=log.url,
            version=version,
            hint="VACUUM has deleted them. Restore a younger version, or restore without them "
            "(spark.sql.files.ignoreMissingFiles = true).",
            errorClass="DELTA_CANNOT_RESTORE_TABLE_VERSION",
        )


def restored_metadata(now: Metadata, then: Metadata, *, tracks_rows: bool = False) -> Metadata:
    """The metadata of then, but for what never goes back."""
    configuration = dict(then.configuration)
    for key in _FORWARD:
        values = [int(c[key]) for c in (now.configuration, then.configuration) if c.get(key, "").isdigit()]
        if values:
            configuration[key] = str(max(values))
    for key in _NAMED_ONCE:
        if tracks_rows and key in now.configuration:
            configuration.setdefault(key, now.configuration[key])
    schema = _with_marks(then, now)
    metadata = then.with_configuration(configuration)
    return metadata if schema == then.schema else metadata.with_schema(schema)


def _with_marks(then: Metadata, now: Metadata) -> StructType:
    """Identity columns go on where they are: a number that was given out is never given again.

    A column may have had another name then, but for the one that files know it by; where mapping went
    since, or came back, its own name is all there is. One that counted otherwise gave out other numbers.
    """
    schema = then.schema
    columns = identity_columns(now.schema)
    by_name = {c.name.lower(): c for c in columns}
    by_file_name = {_in_files(now, c): c for c in columns}
    for column in identity_columns(schema):
        current = by_file_name.get(_in_files(then, column)) or by_name.get(column.name.lower())
        if current is None or current.high_water_mark is None:
            continue
        if (current.start, current.step) != (column.start, column.step):
            continue
        known = column.high_water_mark
        ahead = max if column.step > 0 else min
        mark = current.high_water_mark if known is None else ahead(known, current.high_water_mark)
        schema = with_high_water_mark(schema, column.name, mark)
    return schema


def _in_files(metadata: Metadata, column: IdentityColumn) -> str:
    """The name that data files know a column by, which no rename changes."""
    field = metadata.schema.field(column.name)
    assert field is not None
    return physical_name(field, mapping_mode(metadata)).lower()


def restored_domains(now: Snapshot, then: Snapshot) -> list[DomainMetadata]:
    """Domains as they were; row ids go on, and are kept by the commit itself."""
    out = []
    for name, domain in then.domains.items():
        current = now.domains.get(name)
        if name != row_ids.DOMAIN and (current is None or current.configuration != domain.configuration):
            out.append(domain)
    for name, domain in now.domains.items():
        if name != row_ids.DOMAIN and name not in then.domains:
            out.append(DomainMetadata(domain=name, configuration=domain.configuration, removed=True))
    return out


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(p.capitalize() for p in rest)
