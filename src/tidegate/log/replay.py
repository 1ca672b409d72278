"""Reconciliation: many commits, one state. Pure functions on Arrow columns, newest first.

A logical file is its path together with the id of its deletion vector; the newest action that
names it decides. Nothing here reads storage, and nothing holds a Python object per file: keys
are Arrow strings, and what a commit hides is found with one hash lookup per batch, or, where the keys
are many, per group of batches.
Specification: "Action Reconciliation".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import InvalidCommitError
from tidegate.log.actions import Add, DomainMetadata, Remove, Skip, Txn
from tidegate.log.columns import ADD_SCHEMA, REMOVE_SCHEMA
from tidegate.log.commits import CommitActions
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol

# A batch that loses at most this many rows is cut into slices, which share its memory, instead
# of being copied by a filter.
_MAX_SLICES = 8
_ROWS_PER_SLICE = 1_024
# How many rows are looked up at least for each key of a large set of keys.
_ROWS_PER_KEY = 2
# Batches that are smaller than this on average cost more to carry around than to copy together.
_SMALL_ROWS = 4_096


def canonical_paths(paths: pa.Array) -> pa.Array:
    """Paths in the one form in which two spellings of a local absolute path are equal."""
    if pc.any(pc.starts_with(paths, "file:/")).as_py():
        return pc.replace_substring_regex(paths, "^file:/+", "/")
    return paths


def canonical_path(path: str) -> str:
    """The same form of one path."""
    return re.sub("^file:/+", "/", path)


def dv_ids(vectors: pa.Array) -> pa.Array:
    """The unique id of each deletion vector, null where there is none."""
    kind, place, offset = (
        vectors.field(n) if not vectors.null_count else pc.struct_field(vectors, n)
        for n in ("storageType", "pathOrInlineDv", "offset")
    )
    base = pc.binary_join_element_wise(kind, place, "")
    with_offset = pc.binary_join_element_wise(base, pc.cast(offset, pa.string()), "@")
    return pc.if_else(pc.is_valid(vectors), pc.coalesce(with_offset, base), pa.scalar(None, pa.string()))


def file_keys(batch: pa.RecordBatch) -> pa.Array:
    """The key of the logical file in each row: the path, and the vector's id where it has one."""
    paths = canonical_paths(batch.column("path"))
    at = batch.schema.get_field_index("deletionVector")
    if at < 0:
        return paths
    vectors = batch.column(at)
    if vectors.null_count == len(vectors):
        return paths
    return pc.coalesce(pc.binary_join_element_wise(paths, dv_ids(vectors), "\x00"), paths)


def file_key(action: Add | Remove) -> str:
    """The same key for a single action."""
    path = canonical_path(action.path)
    return path if action.deletion_vector is None else f"{path}\x00{action.deletion_vector.unique_id}"


def first_of_each(keys: pa.Array) -> pa.Array:
    """True where a key stands for the first time.

    Dictionary codes are given in the order of first appearance, so a row is a first one exactly
    when its code is above every code before it.
    """
    codes = keys.dictionary_encode().indices
    if len(codes) == 0:
        return pa.array([], pa.bool_())
    highest = pc.cumulative_max(codes)
    before = pa.concat_arrays([pa.array([-1], highest.type), highest.slice(0, len(highest) - 1)])
    return pc.greater(codes, before)


def keep_rows(batch: pa.RecordBatch, mask: pa.Array) -> list[pa.RecordBatch]:
    """The rows where ``mask`` is true, without copying when nearly all of them stay."""
    kept = mask.true_count
    if kept == len(batch):
        return [batch]
    if kept == 0:
        return []
    if len(batch) - kept > max(_MAX_SLICES, len(batch) // _ROWS_PER_SLICE):
        return [batch.filter(mask)]
    out, start = [], 0
    for hole in [*pc.indices_nonzero(pc.invert(mask)).to_pylist(), len(batch)]:
        if hole > start:
            out.append(batch.slice(start, hole - start))
        start = hole + 1
    return out


def hide(batch: pa.RecordBatch, hidden: pa.Array | None) -> list[pa.RecordBatch]:
    """The rows of an older batch that no newer action in ``hidden`` speaks of."""
    if hidden is None or len(hidden) == 0 or batch.num_rows == 0:
        return [batch] if batch.num_rows else []
    return keep_rows(batch, pc.invert(pc.is_in(file_keys(batch), value_set=hidden)))


def hide_in_groups(
    batches: Iterable[pa.RecordBatch], hidden: Callable[[], pa.Array | None]
) -> Iterator[pa.RecordBatch]:
    """``hide`` over all of ``batches``, for very many keys.

    The table of keys is made for each lookup, which costs as much as looking that many keys up. So
    batches are taken together until they have more rows than there are keys; what is held in memory
    for that is never more than a few times what holds the keys. ``hidden`` is asked once the first
    batch is there.
    """
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        group.append(batch)
        rows += batch.num_rows
        keys = hidden()
        if keys is None or rows >= _ROWS_PER_KEY * len(keys):
            yield from _hide_together(group, keys)
            group, rows = [], 0
    if group:
        yield from _hide_together(group, hidden())


def _hide_together(batches: list[pa.RecordBatch], hidden: pa.Array | None) -> Iterator[pa.RecordBatch]:
    if hidden is None or len(hidden) == 0:
        yield from batches
        return
    keys = pa.chunked_array([file_keys(b) for b in batches])
    live = pc.invert(pc.is_in(keys, value_set=hidden)).combine_chunks()
    at = 0
    for batch in batches:
        yield from keep_rows(batch, live.slice(at, batch.num_rows))
        at += batch.num_rows


@dataclass(slots=True)
class FileTail:
    """What a run of commits says of files: the live adds, the tombstones, and every key named."""

    adds: list[pa.RecordBatch] = field(default_factory=list)
    removes: list[pa.RecordBatch] = field(default_factory=list)
    keys: pa.Array | None = None


def reconcile_files(commits: Sequence[CommitActions]) -> FileTail:
    """Reconcile the file actions of ``commits``, given newest first."""
    out = FileTail()
    keys: list[pa.Array] = []
    sources: list[tuple[list[pa.RecordBatch], pa.RecordBatch]] = []
    for actions in commits:
        for target, batch in _by_precedence(actions, out):
            sources.append((target, batch))
            keys.append(file_keys(batch))
    if not keys:
        return out
    all_keys = pa.concat_arrays(keys)
    first = first_of_each(all_keys)
    at = 0
    for target, batch in sources:
        target.extend(keep_rows(batch, first.slice(at, batch.num_rows)))
        at += batch.num_rows
    out.keys = all_keys.filter(first)
    out.adds, out.removes = _together(out.adds), _together(out.removes)
    return out


def _together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Many small batches, as many commits leave them, as few large ones."""
    rows = sum(b.num_rows for b in batches)
    if len(batches) < 2 or rows > _SMALL_ROWS * len(batches):
        return batches
    return list(pa.Table.from_batches(batches).combine_chunks().to_batches())


def _by_precedence(
    actions: CommitActions, out: FileTail
) -> list[tuple[list[pa.RecordBatch], pa.RecordBatch]]:
    """The batches of one log file, those whose word counts first, each with where its rows go.

    A legal file names a logical file once, so order does not matter. Compactions in the wild may
    be several commits one after the other, newest first: there the line that stands first counts.
    """
    adds = [(out.adds, b) for b in actions.adds]
    removes = [(out.removes, b) for b in actions.removes]
    both = [*adds, *removes]
    if actions.consistent or not (adds and removes and actions.add_lines and actions.remove_lines):
        return both
    keys = pa.concat_arrays([file_keys(b) for _, b in both])
    if pc.count_distinct(keys).as_py() == len(keys):
        return both
    lines = pa.concat_arrays([*actions.add_lines, *actions.remove_lines])
    order = pc.array_sort_indices(lines)
    first = order.filter(first_of_each(keys.take(order)))
    kept = pc.is_in(pa.array(range(len(keys)), first.type), value_set=first)
    sliced: list[tuple[list[pa.RecordBatch], pa.RecordBatch]] = []
    at = 0
    for target, batch in both:
        sliced += [(target, b) for b in keep_rows(batch, kept.slice(at, batch.num_rows))]
        at += batch.num_rows
    return sliced


def check_commit(actions: CommitActions, name: str) -> None:
    """Refuse a commit whose actions contradict each other.

    At most one protocol, one metaData, one txn per application, one action per domain, one add
    and one remove per path, and not both for one logical file.
    """
    problem = None
    if len(actions.protocols) > 1:
        problem = "two protocol actions"
    elif len(actions.metadatas) > 1:
        problem = "two metaData actions"
    elif len({t.app_id for t in actions.txns}) < len(actions.txns):
        problem = "two txn actions of one application"
    elif len({d.domain for d in actions.domains}) < len(actions.domains):
        problem = "two domainMetadata actions of one domain"
    else:
        for kind, batches in (("add", actions.adds), ("remove", actions.removes)):
            rows = sum(b.num_rows for b in batches)
            if rows > 1:
                paths = pa.chunked_array([b.column("path") for b in batches])
                if pc.count_distinct(paths).as_py() < rows:
                    problem = f"two {kind} actions of one path"
        if actions.adds and actions.removes and problem is None:
            keys = pa.concat_arrays([file_keys(b) for b in (*actions.adds, *actions.removes)])
            if pc.count_distinct(keys).as_py() < len(keys):
                problem = "both an add and a remove of one logical file"
    if problem is not None:
        raise InvalidCommitError(
            f"The commit holds {problem}; which of them counts is not defined.",
            file=name,
            hint="The writer of this commit broke the protocol; repair or remove the commit.",
        )
    actions.consistent = True


@dataclass(frozen=True, slots=True)
class SmallState:
    """All state that does not grow with the number of files.

    ``protocol`` and ``metadata`` are None while no action that carries them has been seen.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)

    def over(self, older: SmallState) -> SmallState:
        """This state on top of an ``older`` one. Domain tombstones stay until ``live_domains``."""
        return SmallState(
            self.protocol or older.protocol,
            self.metadata or older.metadata,
            {**older.txns, **self.txns},
            {**older.domains, **self.domains},
        )

    def live_domains(self) -> dict[str, DomainMetadata]:
        return {name: d for name, d in self.domains.items() if not d.removed}


def reconcile_small(commits: Iterable[CommitActions]) -> SmallState:
    """Reconcile everything but the file actions of ``commits``, given newest first."""
    state = SmallState()
    for actions in commits:
        state = state.over(small_state(actions))
    return state


def small_state(actions: CommitActions) -> SmallState:
    """What one commit says beside its files."""
    return SmallState(
        actions.protocol,
        actions.metadata,
        {t.app_id: t for t in actions.txns},
        {d.domain: d for d in actions.domains},
    )


def reconcile_skips(known: Mapping[str, Skip], commits: Iterable[CommitActions]) -> dict[str, Skip]:
    """The skips after ``commits``, given oldest first: the newest of a path counts, removed ones go."""
    out = dict(known)
    for actions in commits:
        for batch in actions.removes if out else ():
            gone = pc.is_in(pa.array(list(out), pa.string()), value_set=batch.column("path"))
            out = {path: s for (path, s), drop in zip(out.items(), gone.to_pylist(), strict=True) if not drop}
        out.update((s.path, s) for s in actions.skips)
    return out


def empty_adds() -> pa.Table:
    return ADD_SCHEMA.empty_table()


def empty_removes() -> pa.Table:
    return REMOVE_SCHEMA.empty_table()
