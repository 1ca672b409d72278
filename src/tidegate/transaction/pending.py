"""What a transaction wants to commit: file actions as columns, the few other actions as structs.

``Changes`` is not bound to a version yet. ``validate`` says what must hold of it, ``prepared`` makes it
concrete for one version.
Specification: "Actions".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import InvalidCommitError
from tidegate.files import row_ids, stats
from tidegate.log.actions import Action, Cdc, DomainMetadata, Skip, Txn
from tidegate.log.checkpoint.read import conform
from tidegate.log.columns import CDC_SCHEMA, to_batch
from tidegate.log.commits import DELTA_FORM, CommitActions, Form
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol

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
        """Only file actions, or none at all, and none of them changes what the table says."""
        if self.protocol is not None or self.metadata is not None or self.txns or self.skips:
            return False
        if any(d.domain != row_ids.DOMAIN for d in self.domains):
            return False
        files = [*self.adds, *self.removes, *self.cdcs]
        return not any(pc.any(b.column("dataChange")).as_py() for b in files)


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
            batch = with_column(batch, "partitionValues", pc.fill_null(values, pa.scalar([], values.type)))
        out.append(batch)
    return tuple(out)


num_records = stats.num_records


def with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), column)
