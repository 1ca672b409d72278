"""Which files hold the changes of a range of versions, and what is constant in each of them.

A version that carries change files is read from those alone. Any other is inferred: added files
are inserts, removed files deletes, and where only a deletion vector changed, the rows between the
old and the new one. Only actions that change data count. Every version's own protocol is asked.
Specification: "Add CDC File", "Change Data Feed".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tidegate import properties
from tidegate.errors import ChangeDataMissingError, SchemaInvalidError, VersionNotFoundError
from tidegate.files.vector_files import count_rows
from tidegate.log.actions import Add, Remove
from tidegate.log.columns import DV_TYPE, STRING_MAP, from_batch
from tidegate.log.commits import CommitActions
from tidegate.log.history import in_commit_era
from tidegate.log.moments import text_of
from tidegate.log.replay import canonical_path, file_key, file_keys
from tidegate.log.segment import list_log
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.schema.widening import reads_as
from tidegate.spark.scan import vectors
from tidegate.spark.scan.native import HIDDEN
from tidegate.transaction.pending import num_records

CHANGE, VERSION, TIME = "_change_type", "_commit_version", "_commit_timestamp"
FILES = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("deletionVector", DV_TYPE),
        (HIDDEN, pa.binary()),
    ]
)


class ChangeFiles:
    """The files whose rows make up a range of changes, in two lists: change files, and inferred ones.

    Version and time are among the partition values of each, and the kind of change of those inferred.
    """

    def __init__(self, log: TableLog, shape: Snapshot) -> None:
        """The rows of every version are shown as those of ``shape``."""
        self.log = log
        self.shape = shape
        self.cdc: list[dict[str, Any]] = []
        self.inferred: list[dict[str, Any]] = []

    def read(self, first: int, last: int) -> None:
        """Walk the commits of the range."""
        listing = list_log(self.log.store, self.log.log_dir, 0, last)
        missing = [v for v in range(first, last + 1) if v not in listing.commits]
        if missing:
            raise VersionNotFoundError(
                f"The changes of version {missing[0]} are gone from the log.",
                table=self.log.url,
                version=missing[0],
            )
        before = load(self.log, first)
        protocol, metadata = before.protocol, before.metadata
        era = in_commit_era(self.shape)
        for version in range(first, last + 1):
            found = listing.commits[version]
            actions = self.log.dialect.decode(self.log.store.get(found.info.name), found.name.text)
            protocol, metadata = actions.protocol or protocol, actions.metadata or metadata
            self._check(version, protocol, metadata)
            moment = found.info.modified
            own = actions.commit_info.get("inCommitTimestamp")
            if era is not None and version >= era.version and isinstance(own, int):
                moment = own
            self._commit(version, moment, actions)

    def begin_with(self, version: int, moment: int, files: pa.Table) -> None:
        """Rows that were there before the range begins, as inserts of ``version``."""
        constants = {VERSION: str(version), TIME: _instant(moment), CHANGE: "insert"}
        self.inferred += [_whole(add, constants) for add in from_batch(_changing(files), Add)]

    def _check(self, version: int, protocol: Protocol, metadata: Metadata) -> None:
        self.log.registry.check_read(protocol, table=self.log.url, version=version)
        if not properties.get(metadata.configuration, properties.ENABLE_CHANGE_DATA_FEED):
            raise ChangeDataMissingError(
                f"Version {version} was written while the change data feed was off.",
                table=self.log.url,
                version=version,
                hint="Read the feed from the version on that set delta.enableChangeDataFeed = true.",
            )
        strange = _unreadable(metadata, self.shape.metadata)
        if strange is not None:
            raise SchemaInvalidError(
                f"The changes of version {version} cannot be shown with the columns of version "
                f"{self.shape.version}: {strange}.",
                table=self.log.url,
                version=version,
                hint="Read the feed in two ranges, up to the version that changed it and from there on.",
                errorClass="DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA",
            )

    def _commit(self, version: int, moment: int, actions: CommitActions) -> None:
        constants = {VERSION: str(version), TIME: _instant(moment)}
        if actions.cdcs:
            for batch in actions.cdcs:
                for row in batch.to_pylist():
                    self.cdc.append(_file(row, constants))
            return
        adds = [a for b in actions.adds for a in from_batch(b, Add) if a.data_change]
        removes = [r for b in actions.removes for r in from_batch(b, Remove) if r.data_change]
        removed = {canonical_path(r.path): r for r in removes}
        added = {canonical_path(a.path): a for a in adds}
        for path, add in added.items():
            old = removed.get(path)
            if old is not None:
                self.inferred += self._vector_changes(add, old, constants)
            else:
                self.inferred.append(_whole(add, {**constants, CHANGE: "insert"}))
        gone = [remove for path, remove in removed.items() if path not in added]
        self.inferred += [
            _whole(r, {**constants, CHANGE: "delete"}) for r in self._as_they_were(gone, version)
        ]

    def _as_they_were(self, removes: Sequence[Remove], version: int) -> Sequence[Add | Remove]:
        """The removed files; those of which their removal does not tell enough, as they were added."""
        width = len(self.shape.partition_columns)
        bare = {file_key(r) for r in removes if not r.size or len(r.partition_values or ()) < width}
        if not bare:
            return removes
        files = _changing(load(self.log, version - 1).files())
        wanted = pa.array(sorted(bare), pa.string())
        found: dict[str, Add] = {}
        for batch in files.to_batches():
            some = batch.filter(pc.is_in(file_keys(batch), value_set=wanted))
            found |= {file_key(add): add for add in from_batch(some, Add)}
        return [found.get(file_key(r), r) for r in removes]

    def _vector_changes(self, new: Add, old: Remove, constants: dict[str, str]) -> Iterator[dict[str, Any]]:
        """The rows that one file lost and gained as its deletion vector changed."""
        before, after = (
            BitMap64() if v is None else vectors.read_bitmap(self.log, v)
            for v in (old.deletion_vector, new.deletion_vector)
        )
        rows = num_records(pa.array([new.stats], pa.string()))[0].as_py()
        if rows is None:
            rows = count_rows(self.log.store, new.path)
        everything = BitMap64(range(rows))
        for kind, which in (("delete", after - before), ("insert", before - after)):
            if which:
                one = _whole(new, {**constants, CHANGE: kind})
                one["deletionVector"] = None
                one[HIDDEN] = vectors.packed(everything - which)
                yield one


def _changing(files: pa.Table) -> pa.Table:
    """Live files as the adds that they once were."""
    at = files.schema.get_field_index("dataChange")
    files = files if at < 0 else files.remove_column(at)
    return files.append_column("dataChange", pa.array([True] * files.num_rows, pa.bool_()))


def _instant(moment: int) -> str:
    return text_of(moment)


def _file(row: dict[str, Any], constants: dict[str, str]) -> dict[str, Any]:
    values = {**dict(row["partitionValues"] or []), **constants}
    return {
        "path": row["path"],
        "partitionValues": list(values.items()),
        "size": row["size"] or 0,
        "modificationTime": 0,
    }


def _whole(action: Add | Remove, constants: dict[str, str]) -> dict[str, Any]:
    values = {**(action.partition_values or {}), **constants}
    vector = action.deletion_vector
    return {
        "path": action.path,
        "partitionValues": list(values.items()),
        "size": action.size or 0,
        "modificationTime": 0,
        "stats": action.stats,
        "deletionVector": None if vector is None else msgspec.to_builtins(vector),
    }


def _unreadable(old: Metadata, new: Metadata) -> str | None:
    """What keeps rows of ``old`` from being shown with the columns of ``new``; None if nothing does.

    Columns may come, go and be renamed. What has another type, stands for another column or was spread over
    other partitions would be read as nulls, or not at all.
    """
    modes = mapping_mode(old), mapping_mode(new)
    held = {physical_name(f, modes[0]): f for f in old.schema.fields}
    for f in new.schema.fields:
        name = physical_name(f, modes[1])
        before, called = held.get(name), old.schema.field(f.name)
        if called is not None and physical_name(called, modes[0]) != name:
            return f"{f.name} was another column"
        if before is not None and not reads_as(before.type, f.type):
            return f"{f.name} was {before.type}"
    spread = [
        [physical_name(f, m) for f in d.partition_schema.fields]
        for d, m in zip((old, new), modes, strict=True)
    ]
    return None if spread[0] == spread[1] else "the table was partitioned otherwise"
