"""Taking type widening out of a table: files that still hold the narrower types are rewritten.

Which files do is told by their footers, and only tables that record a change ever look at one. The same
commit takes the record of changes out of the schema. Serves the feature and its preview alike.
Specification: "Type Widening".
"""

from __future__ import annotations

import pyarrow as pa

from tidegate import properties
from tidegate.commands.drop_feature.removal import Estimate, Removal, Work
from tidegate.commands.footers import files_where
from tidegate.commands.removes import as_removes
from tidegate.log.snapshot import Snapshot
from tidegate.log.traces import has_type_changes
from tidegate.metadata import Metadata
from tidegate.schema.arrow import to_arrow_type
from tidegate.schema.mapping import mapping_mode, to_physical
from tidegate.schema.types import StructType
from tidegate.schema.widening import TYPE_CHANGES, recorded_changes
from tidegate.transaction.pending import Operation

_ENABLE = properties.ENABLE_TYPE_WIDENING


def settled(metadata: Metadata) -> Metadata:
    """The metadata without its record of type changes."""
    return metadata.with_schema(metadata.schema.transform(lambda _, f: f.with_metadata({TYPE_CHANGES: None})))


def stale_files(snapshot: Snapshot) -> pa.Table:
    """The live files that hold a column in a type from before it was widened."""
    files = snapshot.files()
    metadata = snapshot.metadata
    if not has_type_changes(metadata):
        return files.slice(0, 0)
    changed = {path[0].lower() for path, _ in recorded_changes(metadata.schema)}
    fields = tuple(f for f in metadata.schema.fields if f.name.lower() in changed)
    mode = mapping_mode(metadata)
    expected = {f.name: to_arrow_type(f.type) for f in to_physical(StructType(fields), mode).fields}

    def stale(stored: pa.Schema) -> bool:
        known = {f.name: f.type for f in stored}
        return any(name in known and not _same(known[name], kind) for name, kind in expected.items())

    return files_where(snapshot.log, files, stale)


def _same(stored: pa.DataType, expected: pa.DataType) -> bool:
    """Whether values in a file have the column's type; what a file lacks does not matter."""
    if pa.types.is_struct(expected):
        if not pa.types.is_struct(stored):
            return False
        known = {f.name: f.type for f in stored}
        return all(f.name not in known or _same(known[f.name], f.type) for f in expected)
    if pa.types.is_map(expected):
        return bool(
            pa.types.is_map(stored)
            and _same(stored.key_type, expected.key_type)
            and _same(stored.item_type, expected.item_type)
        )
    if pa.types.is_list(expected):
        return bool(pa.types.is_list(stored) and _same(stored.value_type, expected.value_type))
    if pa.types.is_timestamp(expected):
        # Nanoseconds are how old files hold them; what matters is whether they are moments or not.
        return bool(pa.types.is_timestamp(stored) and (stored.tz is None) == (expected.tz is None))
    return bool(stored == expected)


def in_use(snapshot: Snapshot) -> str | None:
    if snapshot.metadata.property(_ENABLE):
        return f"{_ENABLE.key} is true"
    return "columns record changes of their types" if has_type_changes(snapshot.metadata) else None


def prepare(work: Work) -> bool:
    work.need_rewriter(stale_files(work.latest()))
    changed = work.latest().metadata.property(_ENABLE) and work.set_properties(gone=[_ENABLE.key])
    return _settle(work) or changed


def _settle(work: Work) -> bool:
    transaction = work.begin()
    snapshot = transaction.snapshot
    assert snapshot is not None
    if not has_type_changes(snapshot.metadata):
        return False
    files = stale_files(snapshot)
    rewrite = work.need_rewriter(files)
    transaction.update_metadata(settled(snapshot.metadata))
    adds = removes = None
    if rewrite is not None:
        work.progress("rewriting files", 0, files.num_rows)
        transaction.read_files(files)
        adds = rewrite(transaction, files)
        removes = as_removes(files, work.log.clock(), data_change=False)
    operation = Operation("REORG", {"predicate": [], "applyPurge": True})
    work.committed(transaction.commit(operation=operation, adds=adds, removes=removes))
    return True


def estimate(snapshot: Snapshot) -> Estimate:
    steps = [f"unset {_ENABLE.key}"] if snapshot.metadata.property(_ENABLE) else []
    files = stale_files(snapshot)
    if has_type_changes(snapshot.metadata):
        first = "rewrite the files that hold narrower types, and " if files.num_rows else ""
        steps.append(f"{first}take the type changes out of the schema")
    return Estimate.rewriting(files, *steps, commits=len(steps))


def removal(feature: str) -> Removal:
    return Removal(feature, prepare, estimate, in_use)
