"""The table as ``verify`` replays it: oldest first, in columns, many commits at a time.

Commits gather in a window and are laid over the live files together, so the work grows with the log
and not with its square. The counts of every version inside a window come from the window's own file
actions: sorted by logical file, each action finds the one before it, and what it adds or takes away
is known without the state in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.checkpoint.read import conform
from tidegate.log.checksum import Counts, count
from tidegate.log.columns import ADD_SCHEMA, DV_TYPE, REMOVE_SCHEMA
from tidegate.log.commits import CommitActions
from tidegate.log.dialect import Reader
from tidegate.log.replay import FileTail, SmallState, file_keys, keep_rows, reconcile_files

FILE_SCHEMA = pa.schema(
    [ADD_SCHEMA.field(n) for n in ("path", "partitionValues", "size", "deletionVector", "baseRowId")]
)
TOMBSTONE_SCHEMA = pa.schema(
    [REMOVE_SCHEMA.field(n) for n in ("path", "deletionTimestamp", "deletionVector")]
)
# Batches that are smaller than this on average are put together again.
_SMALL_ROWS = 16_384
_COUNTED = pa.schema([("version", pa.int64()), ("size", pa.int64()), ("deletionVector", DV_TYPE)])

Batches = list[pa.RecordBatch]
# Where the bins of a histogram begin.
Bins = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What one commit says of files, each logical file once, in the columns that are compared."""

    version: int
    adds: Batches
    removes: Batches
    keys: pa.Array | None

    @classmethod
    def of(cls, version: int, actions: CommitActions) -> Step:
        tail = reconcile_files([actions])
        return cls(
            version,
            [conform(b, FILE_SCHEMA) for b in tail.adds],
            [conform(b, TOMBSTONE_SCHEMA) for b in tail.removes],
            tail.keys,
        )

    @property
    def rows(self) -> int:
        return 0 if self.keys is None else len(self.keys)

    def as_actions(self) -> CommitActions:
        return CommitActions(adds=self.adds, removes=self.removes)


@dataclass
class State:
    """The table at ``version``."""

    version: int = -1
    small: SmallState = field(default_factory=SmallState)
    files: Batches = field(default_factory=list)
    tombstones: Batches = field(default_factory=list)
    _counts: dict[Bins, Counts] = field(default_factory=dict)

    @classmethod
    def from_checkpoint(cls, contents: Contents) -> State:
        small = contents.small
        # The dictionaries are moved on from here, so they must be this state's own.
        small = replace(small, txns=dict(small.txns), domains=dict(small.domains))
        return cls(contents.version, small, list(contents.files), list(contents.tombstones))

    @property
    def rows(self) -> int:
        return sum(b.num_rows for b in self.files)

    def move_small(self, actions: CommitActions) -> None:
        """Carry everything but the files over one commit. In place: it may be done for every commit."""
        if actions.protocol is not None or actions.metadata is not None:
            self.small = replace(
                self.small,
                protocol=actions.protocol or self.small.protocol,
                metadata=actions.metadata or self.small.metadata,
            )
        self.small.txns.update((t.app_id, t) for t in actions.txns)
        self.small.domains.update((d.domain, d) for d in actions.domains)

    def lay(self, window: Window, counts: Mapping[Bins, Counts]) -> None:
        """Lay a window of commits over the files; ``counts`` are those at its end, as far as known."""
        self.version = window.version
        tail = window.tail
        if tail.keys is None:
            return
        self._counts = dict(counts)
        self.files = _gathered([*tail.adds, *_without(self.files, window.touched)])
        removed = [*tail.removes, *_without(self.tombstones, named(self.tombstones, tail.keys))]
        self.tombstones = _gathered(removed)

    def counts(self, bins: Bins) -> Counts:
        """Counts over the live files of ``version``."""
        if bins not in self._counts:
            self._counts[bins] = count([_without_nulls(b) for b in self.files], bins)
        return self._counts[bins]


@dataclass
class Window:
    """Commits that follow a state without a gap and are laid over it together."""

    state: State
    steps: Sequence[Step]

    @property
    def version(self) -> int:
        return self.steps[-1].version if self.steps else self.state.version

    @cached_property
    def tail(self) -> FileTail:
        """What the commits together say of files."""
        return reconcile_files([s.as_actions() for s in reversed(self.steps)])

    @cached_property
    def touched(self) -> list[pa.Array]:
        """For each batch of live files before the window: which rows the window speaks of."""
        return named(self.state.files, self.tail.keys)

    def counts(self, versions: Collection[int], bins: Bins) -> dict[int, Counts]:
        """The counts at ``versions``, each of them the state's or one inside the window."""
        came, went = self._changes
        total = self.state.counts(bins)
        out: dict[int, Counts] = {}
        arrived, left = _Cursor(came), _Cursor(went)
        for version in sorted(versions):
            total = total.plus(count(arrived.up_to(version), bins))
            total = total.plus(count(left.up_to(version), bins), -1)
            out[version] = total
        return out

    @cached_property
    def _changes(self) -> tuple[pa.Table, pa.Table]:
        """What came to the live files and what went, each with its version, in ascending order."""
        if self.tail.keys is None:
            return _COUNTED.empty_table(), _COUNTED.empty_table()
        events = [
            _event(batch.filter(mask), -1, True)
            for batch, mask in zip(self.state.files, self.touched, strict=True)
            if mask.true_count
        ]
        for step in self.steps:
            events += [_event(b, step.version, True) for b in step.adds]
            events += [_event(b, step.version, False) for b in step.removes]
        table = pa.concat_tables(events).combine_chunks()
        codes = pc.cast(table.column("key").combine_chunks().dictionary_encode().indices, pa.int64())
        order = pc.sort_indices(
            pa.table({"code": codes, "at": pa.array(range(len(codes)), pa.int64())}),
            [("code", "ascending"), ("at", "ascending")],
        )
        ordered, code = table.take(order), codes.take(order)
        before, after = ordered.slice(0, len(code) - 1), ordered.slice(1)
        # An action takes away what the action before it on the same logical file had put there.
        ended = pc.and_(pc.equal(code.slice(1), code.slice(0, len(code) - 1)), before.column("live"))
        went = pa.table(
            {
                "version": after.column("version").filter(ended),
                "size": before.column("size").filter(ended),
                "deletionVector": before.column("deletionVector").filter(ended),
            }
        ).sort_by("version")
        came = table.filter(pc.and_(table.column("live"), pc.greater_equal(table.column("version"), 0)))
        return came.select(_COUNTED.names), went.select(_COUNTED.names)


def named(batches: Batches, keys: pa.Array | None) -> list[pa.Array]:
    """For each batch a mask of the rows whose logical file is among ``keys``: one lookup for all."""
    if keys is None or not batches:
        return [pa.repeat(pa.scalar(False), b.num_rows) for b in batches]
    found = pc.is_in(pa.chunked_array([file_keys(b) for b in batches]), value_set=keys).combine_chunks()
    out, at = [], 0
    for batch in batches:
        out.append(found.slice(at, batch.num_rows))
        at += batch.num_rows
    return out


def _without(batches: Batches, masks: list[pa.Array]) -> Iterator[pa.RecordBatch]:
    for batch, mask in zip(batches, masks, strict=True):
        yield from keep_rows(batch, pc.invert(mask))


def _event(batch: pa.RecordBatch, version: int, live: bool) -> pa.Table:
    n = batch.num_rows
    return pa.table(
        {
            "key": file_keys(batch),
            "version": pa.repeat(pa.scalar(version, pa.int64()), n),
            "live": pa.repeat(pa.scalar(live), n),
            "size": pc.fill_null(batch.column("size"), 0) if live else pa.nulls(n, pa.int64()),
            "deletionVector": batch.column("deletionVector"),
        }
    )


class _Cursor:
    """Rows sorted by version, handed out once each, version by version."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        counts = pc.value_counts(rows.column("version"))
        self._ends = [(c["values"].as_py(), c["counts"].as_py()) for c in counts]
        self._at = self._next = 0

    def up_to(self, version: int) -> Batches:
        rows = 0
        while self._next < len(self._ends) and self._ends[self._next][0] <= version:
            rows += self._ends[self._next][1]
            self._next += 1
        found = self._rows.slice(self._at, rows)
        self._at += rows
        return list(found.to_batches())


def _gathered(batches: Batches) -> Batches:
    if len(batches) <= 16 + sum(b.num_rows for b in batches) // _SMALL_ROWS:
        return batches
    return list(pa.Table.from_batches(batches).combine_chunks().to_batches())


def _without_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    sizes = batch.column("size")
    if not sizes.null_count:
        return batch
    return batch.set_column(batch.schema.get_field_index("size"), "size", pc.fill_null(sizes, 0))


@dataclass(frozen=True)
class Contents:
    """Everything a checkpoint holds, read in full, of which the compared columns are kept."""

    version: int
    small: SmallState
    files: Batches
    tombstones: Batches

    @classmethod
    def read(cls, reader: Reader) -> Contents:
        """Read all of a checkpoint: a page that is damaged in any column must not go unnoticed."""
        adds = reader.batches(
            "add",
            [*ADD_SCHEMA.names, "stats_parsed", "partitionValues_parsed"],
            lambda b: [conform(b, ADD_SCHEMA).select(FILE_SCHEMA.names)],
        )
        removes = reader.batches(
            "remove",
            REMOVE_SCHEMA.names,
            lambda b: [conform(b, REMOVE_SCHEMA).select(TOMBSTONE_SCHEMA.names)],
        )
        return cls(reader.checkpoint.version, reader.small, _some(adds), _some(removes))


def _some(batches: Iterable[pa.RecordBatch]) -> Batches:
    return [b for b in batches if b.num_rows]
