"""What a transaction wants to commit, and everything that must hold of it before it may.

``Changes`` is the request: file actions as columns, the few other actions as structs. ``check``
refuses what no reader could live with, before anything is written; ``Prepared`` is the request
made concrete for one version: row ids given out, times set, commitInfo first.
Specification: "Actions", "Row Tracking", "In-Commit Timestamps".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.errors import AppendOnlyError, CommitRefusedError, InvalidCommitError
from tidegate.files import row_ids, stats
from tidegate.files.paths import refuse_outside
from tidegate.log.actions import (
    CDC_SCHEMA,
    DELTA_FORM,
    Action,
    Cdc,
    CommitActions,
    DomainMetadata,
    Form,
    Skip,
    Txn,
    batch_to_wire,
    encode_lines,
    to_batch,
    to_wire,
)
from tidegate.log.checkpoint.read import conform
from tidegate.log.replay import check_commit
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol
from tidegate.schema.mapping import mapping_mode, physical_name

Files: TypeAlias = pa.Table | pa.RecordBatch | Sequence[Any] | None


@dataclass(frozen=True)
class Operation:
    """What the user did, for the history: a name and its parameters."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Changes:
    """The actions of one commit, not yet bound to a version."""

    adds: tuple[pa.RecordBatch, ...] = ()
    removes: tuple[pa.RecordBatch, ...] = ()
    cdcs: tuple[pa.RecordBatch, ...] = ()
    txns: tuple[Txn, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    skips: tuple[Skip, ...] = ()

    @classmethod
    def of(
        cls,
        actions: Iterable[Action] = (),
        *,
        adds: Files = None,
        removes: Files = None,
        cdcs: Files = None,
        form: Form = DELTA_FORM,
    ) -> Changes:
        """Sort loose actions and tables of file actions into their columns."""
        kinds: dict[type, list[Any]] = {}
        for action in actions:
            kinds.setdefault(type(action), []).append(action)
        for kind, name in ((Protocol, "protocol"), (Metadata, "metaData")):
            if len(kinds.get(kind, ())) > 1:
                raise InvalidCommitError(f"A commit holds at most one {name} action.")
        known: set[type] = {form.add, form.remove, Protocol, Metadata}
        known |= {Cdc, Txn, DomainMetadata} if form.skip is None else {Skip}
        unknown = sorted(k.__name__ for k in kinds if k not in known)
        if unknown:
            raise InvalidCommitError(f"A commit cannot hold {', '.join(unknown)}.")
        return cls(
            _with_maps(_batches(kinds.get(form.add), form.adds) + _batches(adds, form.adds)),
            _batches(kinds.get(form.remove), form.removes) + _batches(removes, form.removes),
            _with_maps(_batches(kinds.get(Cdc), CDC_SCHEMA) + _batches(cdcs, CDC_SCHEMA)),
            tuple(kinds.get(Txn, ())),
            tuple(kinds.get(DomainMetadata, ())),
            (kinds.get(Protocol) or [None])[0],
            (kinds.get(Metadata) or [None])[0],
            tuple(kinds.get(Skip, ())),
        )

    def as_actions(self) -> CommitActions:
        """The same as a decoded commit, for the rules that speak of those."""
        return CommitActions(
            adds=list(self.adds),
            removes=list(self.removes),
            cdcs=list(self.cdcs),
            protocols=[self.protocol] if self.protocol is not None else [],
            metadatas=[self.metadata] if self.metadata is not None else [],
            txns=list(self.txns),
            domains=list(self.domains),
            skips=list(self.skips),
        )

    @property
    def described(self) -> str:
        """What there is of each kind, for the trace."""
        files = {"adds": self.adds, "removes": self.removes, "cdcs": self.cdcs}
        found = [f"{sum(b.num_rows for b in batches)} {name}" for name, batches in files.items() if batches]
        rare = {"txns": self.txns, "domains": self.domains, "skips": self.skips}
        found += [f"{len(few)} {name}" for name, few in rare.items() if few]
        found += [
            n for n, one in (("protocol", self.protocol), ("metadata", self.metadata)) if one is not None
        ]
        return ", ".join(found) or "no actions"

    @property
    def only_rearranges(self) -> bool:
        """Only file actions, and none of them changes what the table says."""
        if self.protocol is not None or self.metadata is not None or self.txns or self.skips:
            return False
        if any(d.domain != row_ids.DOMAIN for d in self.domains):
            return False
        files = [*self.adds, *self.removes, *self.cdcs]
        return bool(files) and not any(pc.any(b.column("dataChange")).as_py() for b in files)


def _batches(files: Files, schema: pa.Schema) -> tuple[pa.RecordBatch, ...]:
    if files is None or len(files) == 0:
        return ()
    if isinstance(files, pa.Table | pa.RecordBatch):
        pieces = files.to_batches() if isinstance(files, pa.Table) else [files]
        return tuple(conform(b, schema) for b in pieces if b.num_rows)
    return (to_batch(files, schema),)


def _with_maps(batches: tuple[pa.RecordBatch, ...]) -> tuple[pa.RecordBatch, ...]:
    """No partition values are an empty map, as they will stand in the log; only removes may lack them."""
    out = []
    for batch in batches:
        values = batch.column("partitionValues")
        if values.null_count:
            batch = _set(batch, "partitionValues", pc.fill_null(values, pa.scalar([], values.type)))
        out.append(batch)
    return tuple(out)


# ---------------------------------------------------------------------------- what must hold


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
    for of in (before, metadata):
        if of is not None:
            _check_append_only(changes, of)
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


_RECORDS = pa.struct([("numRecords", pa.int64())])


def num_records(texts: pa.Array) -> pa.Array:
    """The number of rows that each file's statistics state, null where they do not."""
    return pc.struct_field(stats.decode(texts, _RECORDS), "numRecords")


# ---------------------------------------------------------------------------- made concrete


@dataclass(frozen=True)
class Prepared:
    """One attempt: the changes as they will stand in ``version``, and the bytes to publish."""

    version: int
    changes: Changes
    commit_info: dict[str, Any]
    in_commit_timestamp: int | None
    high_water_mark: int | None

    def encode(self, *, commit_info: bool = True) -> bytes:
        """The commit: commitInfo first, then protocol and metadata, then everything else."""
        c = self.changes
        few: list[Mapping[str, Any]] = [{"commitInfo": self.commit_info}] if commit_info else []
        rare: list[Action | None] = [c.protocol, c.metadata, *c.txns, *c.domains, *c.skips]
        few += [to_wire(a) for a in rare if a is not None]
        files = (("remove", c.removes), ("add", c.adds), ("cdc", c.cdcs))
        return b"".join(
            [
                encode_lines(few),
                *(encode_lines(batch_to_wire(name, b)) for name, batches in files for b in batches),
            ]
        )

    def as_actions(self) -> CommitActions:
        actions = self.changes.as_actions()
        actions.raw_commit_info = msgspec.json.encode(self.commit_info)
        return actions


def tracks_rows(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether new files must be given row ids."""
    return protocol.supports("rowTracking") and not properties.get(
        metadata.configuration, properties.ROW_TRACKING_SUSPENDED
    )


def with_row_ids(changes: Changes, mark: int | None, version: int) -> tuple[Changes, int | None]:
    """``changes`` with ids on every add that has none, above the mark, and the mark that now holds."""
    out: list[pa.RecordBatch] = []
    high = mark
    for batch in changes.adds:
        fresh = batch.column("baseRowId").is_null()
        if fresh.true_count:
            counts = num_records(batch.filter(fresh).column("stats"))
            assigned = row_ids.assign(counts, high)
            high = assigned.high_water_mark
            ids = pc.replace_with_mask(batch.column("baseRowId"), fresh, assigned.base_row_ids)
            batch = _set(batch, "baseRowId", ids)
        if mark is None:
            high = _above_given(batch.filter(pc.invert(fresh)), high)
        versions = row_ids.fill_commit_versions(batch.column("defaultRowCommitVersion"), version)
        out.append(_set(batch, "defaultRowCommitVersion", versions))
    changes = replace(changes, adds=tuple(out))
    if high is not None and high != (row_ids.NO_MARK if mark is None else mark):
        domain = DomainMetadata(domain=row_ids.DOMAIN, configuration=row_ids.encode_mark(high))
        others = tuple(d for d in changes.domains if d.domain != row_ids.DOMAIN)
        changes = replace(changes, domains=(*others, domain))
    return changes, high


def _above_given(batch: pa.RecordBatch, high: int | None) -> int | None:
    """The mark above the ids of files that bring theirs, as those of a clone do."""
    if batch.num_rows == 0:
        return high
    ends = pc.add(batch.column("baseRowId"), pc.fill_null(num_records(batch.column("stats")), 0))
    last = pc.max(ends).as_py() - 1
    return last if high is None or last > high else high


def with_deletion_times(changes: Changes, now: int) -> Changes:
    """``changes`` whose removes say when, as tombstones are kept from then on, and what they carry."""
    out: list[pa.RecordBatch] = []
    for batch in changes.removes:
        times = batch.column("deletionTimestamp")
        if times.null_count:
            batch = _set(batch, "deletionTimestamp", pc.fill_null(times, pa.scalar(now, pa.int64())))
        extended = batch.column("extendedFileMetadata")
        if extended.null_count:
            whole = pc.and_(batch.column("size").is_valid(), batch.column("partitionValues").is_valid())
            known = pc.if_else(whole, True, pa.scalar(None, pa.bool_()))
            batch = _set(batch, "extendedFileMetadata", pc.coalesce(extended, known))
        out.append(batch)
    return replace(changes, removes=tuple(out))


def _set(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), column)
