"""Taking deletion vectors out of a table: no new ones, files rewritten without deleted rows, tombstones.

A client that does not know deletion vectors deletes their files when it vacuums, and versions within the
retention could no longer be read by those who do. So each such file of a tombstone gets one of its own: a
bare ``remove``, which every VACUUM respects.
Specification: "Deletion Vectors".
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.commands.drop_feature.removal import Estimate, Removal, Work
from tidegate.commands.removes import as_removes
from tidegate.files.deletion_vectors import relative_name
from tidegate.files.paths import encode_path, resolve_path
from tidegate.log.actions import Remove
from tidegate.log.columns import REMOVE_SCHEMA, to_batch
from tidegate.log.replay import canonical_paths
from tidegate.log.snapshot import Snapshot
from tidegate.transaction.pending import Operation

FEATURE = "deletionVectors"
_ENABLE = properties.ENABLE_DELETION_VECTORS
_LOCAL = re.compile("^file:/+")


def _with_vectors(snapshot: Snapshot) -> pa.Table:
    """The live files that have a deletion vector; most tables need one column to tell that there is none."""
    few = snapshot.files(columns=["path", "size", "deletionVector"])
    if few.column("deletionVector").null_count == few.num_rows:
        return few.slice(0, 0)
    files = snapshot.files()
    return files.filter(files.column("deletionVector").is_valid())


def in_use(snapshot: Snapshot) -> str | None:
    if snapshot.metadata.property(_ENABLE):
        return f"{_ENABLE.key} is true"
    count = _with_vectors(snapshot).num_rows
    return f"{count} files have deletion vectors" if count else None


def prepare(work: Work) -> bool:
    work.need_rewriter(_with_vectors(work.latest()))
    changed = work.latest().metadata.property(_ENABLE) and work.set_properties(gone=[_ENABLE.key])
    changed = purge(work) or changed
    keep_vector_files(work)
    return changed


def purge(work: Work) -> bool:
    """Rewrite the files with vectors, without the rows that those hide."""
    transaction = work.begin()
    snapshot = transaction.snapshot
    assert snapshot is not None
    files = _with_vectors(snapshot)
    rewrite = work.need_rewriter(files)
    if rewrite is None:
        return False
    work.progress("rewriting files", 0, files.num_rows)
    transaction.read_files(files)
    adds = rewrite(transaction, files)
    removes = as_removes(files, work.log.clock(), data_change=False)
    metrics = {"numAddedFiles": adds.num_rows, "numRemovedFiles": files.num_rows}
    operation = Operation("REORG", {"predicate": [], "applyPurge": True})
    done = transaction.commit(operation=operation, adds=adds, removes=removes, metrics=metrics)
    work.committed(done)
    return True


def vector_tombstones(snapshot: Snapshot) -> pa.Table:
    """Bare removes for the vector files of unexpired tombstones that have none yet."""
    gone = snapshot.tombstones()
    vectors = gone.filter(gone.column("deletionVector").is_valid()).column("deletionVector").combine_chunks()
    stored = pc.struct_field(vectors, "storageType")
    place = pc.struct_field(vectors, "pathOrInlineDv")
    names: set[str] = set()
    for kind, text in set(zip(stored.to_pylist(), place.to_pylist(), strict=True)):
        name = _inside(snapshot, kind, text)
        if name is not None:
            names.add(encode_path(name))
    known = set(canonical_paths(gone.column("path").combine_chunks()).to_pylist())
    fresh = pa.array(sorted(names), pa.string())
    missing = [
        path
        for path, canonical in zip(fresh.to_pylist(), canonical_paths(fresh).to_pylist(), strict=True)
        if canonical not in known
    ]
    removes = [Remove(path=p, deletion_timestamp=snapshot.log.clock(), data_change=False) for p in missing]
    return pa.Table.from_batches([to_batch(removes, REMOVE_SCHEMA)] if removes else [], REMOVE_SCHEMA)


def _inside(snapshot: Snapshot, kind: str, text: str) -> str | None:
    """The name of a vector's file within the table; None for inline ones and for files of another table."""
    if kind == "u":
        return relative_name(text)
    if kind != "p":
        return None
    place, root = (_LOCAL.sub("/", t) for t in (resolve_path(text).name, snapshot.url))
    root = root if root.endswith("/") else f"{root}/"
    return place[len(root) :] if place.startswith(root) else None


def keep_vector_files(work: Work) -> None:
    """Commit the tombstones of vector files, where some are missing."""
    transaction = work.begin()
    assert transaction.snapshot is not None
    removes = vector_tombstones(transaction.snapshot)
    if removes.num_rows:
        done = transaction.commit(operation="Deletion Vector Tombstones", removes=removes)
        work.committed(done)


def estimate(snapshot: Snapshot) -> Estimate:
    files = _with_vectors(snapshot)
    steps = []
    if snapshot.metadata.property(_ENABLE):
        steps.append(f"unset {_ENABLE.key}")
    if files.num_rows:
        steps.append("rewrite the files that have deletion vectors")
    commits = len(steps)
    if files.num_rows or vector_tombstones(snapshot).num_rows:
        steps.append("remember the vector files of removed files, so that no VACUUM takes them too early")
        commits += 1
    return Estimate.rewriting(files, *steps, commits=commits)


REMOVAL = Removal(FEATURE, prepare, estimate, in_use)
