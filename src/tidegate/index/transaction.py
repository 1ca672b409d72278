"""The transaction of index tables: the engine's own, with the rules that a protocol of its own brings.

The first write of a legacy table says which protocol it has, in the same commit; a field or an action of a
later version raises the protocol in the commit that needs it. Of two writers that do so at once the loser
takes over what the winner wrote and goes on. Schemas of splits are stored once, in the metadata, where the
protocol allows it; two writers that add some do not conflict.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import (
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    ProtocolDowngradeException,
)
from tidegate.index import doc_mappings, standing
from tidegate.log.actions import Skip
from tidegate.log.commits import CommitActions
from tidegate.log.index_actions import INDEX_ADD_SCHEMA, VERSION_1_FIELDS
from tidegate.log.segment import LogFile
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol import indextables
from tidegate.protocol.protocol import Protocol
from tidegate.transaction import transaction as engine
from tidegate.transaction.conflicts import Ours, Winner
from tidegate.transaction.hooks import Hook
from tidegate.transaction.pending import Changes
from tidegate.transaction.prepared import Prepared
from tidegate.transaction.state import State
from tidegate.transaction.validate import check

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WriteRules:
    """What a caller's settings say of the protocol of a table that is written."""

    auto_upgrade: bool = True
    # Store the schemas of splits once; None: where the table's protocol has it already.
    deduplicate: bool | None = None


_DEFAULT_RULES = WriteRules()


class IndexTransaction(engine.Transaction):
    """One attempt to change one index table."""

    dialect_name = "indextables"

    def __init__(
        self,
        log: TableLog,
        snapshot: Snapshot | None,
        *,
        rules: WriteRules = _DEFAULT_RULES,
        hooks: tuple[Hook, ...] = (),
        **settings: Any,
    ) -> None:
        super().__init__(log, snapshot, hooks=hooks, **settings)
        self.rules = rules
        # The commit of the version that was read, as it was before the first attempt.
        self._followed: LogFile | None = None

    # ------------------------------------------------------------------ the table as it would be

    @property
    def protocol(self) -> Protocol:
        if self._new_protocol is not None:
            return self._new_protocol
        return indextables.NEW_TABLE if self.snapshot is None else self.snapshot.protocol

    def _create(self, metadata: Metadata) -> None:
        self.log.dialect.check_metadata(metadata)
        metadata.validate(providers=self.log.dialect.providers)
        if metadata.created_time is None:
            metadata = msgspec.structs.replace(metadata, created_time=self.log.clock())
        self._new_metadata, self._new_protocol = metadata, self.protocol

    def _change(self, metadata: Metadata, snapshot: Snapshot) -> None:
        self.log.dialect.check_metadata(metadata)
        if metadata != snapshot.metadata:
            self._new_metadata = metadata

    def _check_transition(self, protocol: Protocol, dropped: str | None = None) -> None:
        current = None if self.snapshot is None else self.snapshot.protocol
        if current is not None and indextables.raised(protocol, current) != protocol:
            raise ProtocolDowngradeException(f"from {current} to {protocol} the table would lose something")
        self.log.registry.check_write(protocol, table=self.log.url)

    def _protocol_for(self, metadata: Metadata) -> Protocol | None:
        return self.protocol if self.snapshot is None else None

    # ------------------------------------------------------------------ what a commit needs

    def _with_head(self, changes: Changes) -> Changes:
        """The changes with all that they need: the protocol they ask for, and schemas stored once."""
        changes = super()._with_head(changes)
        spoken = None if self.snapshot is None else self.snapshot.spoken_protocol
        current = self.protocol if changes.protocol is None else changes.protocol
        if self.snapshot is not None and not self.rules.auto_upgrade:
            changes = _within(changes, current, self.log.url)
        changes = replace(changes, adds=tuple(_tidy(b) for b in changes.adds))
        changes = self._deduplicated(changes, current)
        asked = indextables.raised(current, required(changes))
        if self.snapshot is not None and spoken is None and changes.protocol is None:
            if not self.rules.auto_upgrade:
                return changes
            _log.info("%s: the first write of a legacy table says its protocol", self.log.url)
            asked = indextables.raised(asked, indextables.NEW_TABLE)
        if asked == current and changes.protocol is None:
            return changes
        if changes.protocol is None:
            _log.info(
                "%s: protocol raised to reader=%d, writer=%d with this commit",
                self.log.url,
                asked.min_reader_version,
                asked.min_writer_version,
            )
        self.log.registry.check_write(asked, table=self.log.url)
        return replace(changes, protocol=asked)

    def _deduplicated(self, changes: Changes, current: Protocol) -> Changes:
        """Schemas of new splits as references, where the table has the feature or is to get it."""
        has = indextables.has_feature(current, indextables.DEDUPLICATION)
        wanted = has if self.rules.deduplicate is None else self.rules.deduplicate
        if not wanted or not (has or self.rules.auto_upgrade or self.snapshot is None):
            return changes
        adds, schemas = doc_mappings.deduplicate(changes.adds)
        if not schemas:
            return changes
        metadata = changes.metadata or self.metadata
        new = {k: v for k, v in schemas.items() if k not in metadata.configuration}
        if new:
            metadata = metadata.with_configuration({**metadata.configuration, **new})
            changes = replace(changes, metadata=metadata)
        return replace(changes, adds=adds)

    def _check(self, changes: Changes, state: State) -> None:
        protocol = changes.protocol or state.protocol
        metadata = changes.metadata or state.metadata
        self.log.dialect.check_metadata(metadata)
        self.log.registry.check_write(protocol, table=self.log.url)
        check(changes, protocol, metadata, before=None if self.snapshot is None else state.metadata)

    # ------------------------------------------------------------------ after a lost race

    def _check_reachable(self) -> None:
        """History may be truncated at any time here, not only day by day: the version read must be there."""
        s = self.snapshot
        if s is not None and not s.still_there():
            raise ConcurrentWriteException(
                f"The log no longer goes on from version {s.version}, which this transaction has read.",
                table=self.log.url,
                version=s.version,
                hint="Its history was truncated; run the operation again on the table as it is now.",
            )
        self._followed = None if s is None else s.last_commit or standing.commit_of(self.log, s.version)

    def _published(self, prepared: Prepared, winner: LogFile | None) -> None:
        standing.check(self.log, prepared, winner or self._followed)

    def _rebased(self, changes: Changes, state: State, winner: CommitActions) -> Changes:
        if winner.protocol is not None and changes.protocol is not None:
            merged = indextables.raised(winner.protocol, changes.protocol)
            changes = replace(changes, protocol=None if merged == winner.protocol else merged)
        if winner.metadata is not None and changes.metadata is not None:
            changes = replace(
                changes, metadata=_taken_over(state.metadata, winner.metadata, changes.metadata)
            )
        if winner.skips and changes.skips:
            counts = {s.path: s.skip_count for s in winner.skips}
            skips = tuple(_counted(s, counts.get(s.path)) for s in changes.skips)
            changes = replace(changes, skips=skips)
        return changes

    def _conflict(self, ours: Ours, winner: Winner) -> DeltaConcurrentModificationException | None:
        """The engine's rules, less what ``_rebased`` has taken over already."""
        actions = winner.actions
        drop: dict[str, Any] = {"protocols": []} if actions.protocol is not None else {}
        if actions.metadata is not None and only_adds_schemas(ours.metadata, actions.metadata):
            drop["metadatas"] = []
        return super()._conflict(ours, replace(winner, actions=replace(actions, **drop)) if drop else winner)


# ---------------------------------------------------------------------------- rules without state


def required(changes: Changes) -> Protocol:
    """The protocol that a table needs for these actions."""
    later = [f for f in INDEX_ADD_SCHEMA.names if f not in VERSION_1_FIELDS]
    if any(b.column("docMappingRef").null_count < b.num_rows for b in changes.adds):
        return indextables.requiring(indextables.DEDUPLICATION)
    if changes.skips or any(b.column(f).null_count < b.num_rows for b in changes.adds for f in later):
        return indextables.NEW_TABLE
    return indextables.LEGACY


def _within(changes: Changes, protocol: Protocol, url: str) -> Changes:
    """What of the changes a table may hold whose protocol nobody is to raise."""
    if indextables.records_skips(protocol):
        return changes
    if changes.skips:
        _log.warning(
            "%s: %d skipped splits are not recorded: that needs version 2, and autoUpgrade is off",
            url,
            len(changes.skips),
        )
    adds = tuple(_only_version_1(b) for b in changes.adds)
    return replace(changes, skips=(), adds=adds)


def _only_version_1(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        c if f.name in VERSION_1_FIELDS else pa.nulls(batch.num_rows, f.type)
        for f, c in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _tidy(batch: pa.RecordBatch) -> pa.RecordBatch:
    """File actions as they are written: a schema either inline or by reference, no flag that says false."""
    refs = batch.column("docMappingRef")
    if refs.null_count < len(refs):
        at = batch.schema.get_field_index("docMappingRef")
        inline = batch.column("docMappingJson").is_valid()
        refs = pc.if_else(inline, pa.scalar(None, pa.string()), refs)
        batch = batch.set_column(at, batch.schema.field(at), refs)
    at = batch.schema.get_field_index("hasFooterOffsets")
    flags = batch.column(at)
    if flags.null_count == len(flags) or pc.all(flags, skip_nulls=True).as_py():
        return batch
    kept = pc.if_else(pc.fill_null(flags, False), True, pa.scalar(None, pa.bool_()))
    return batch.set_column(at, batch.schema.field(at), kept)


def only_adds_schemas(before: Metadata, after: Metadata) -> bool:
    """Whether ``after`` differs from ``before`` only by schemas of splits that it adds."""
    if msgspec.structs.replace(after, configuration=before.configuration) != before:
        return False
    return _without_schemas(before) == _without_schemas(after) and set(before.configuration) <= set(
        after.configuration
    )


def _without_schemas(metadata: Metadata) -> dict[str, str]:
    return {k: v for k, v in metadata.configuration.items() if not k.startswith(doc_mappings.PREFIX)}


def _taken_over(before: Metadata, theirs: Metadata, ours: Metadata) -> Metadata | None:
    """Our metadata on top of the winner's, where one of the two only adds schemas; None: theirs has all."""
    schemas = {k: v for k, v in ours.configuration.items() if k.startswith(doc_mappings.PREFIX)}
    if only_adds_schemas(before, ours):
        merged = theirs.with_configuration({**theirs.configuration, **schemas})
        return None if merged == theirs else merged
    if only_adds_schemas(before, theirs):
        return ours.with_configuration({**theirs.configuration, **ours.configuration})
    return ours


def _counted(skip: Skip, winner: int | None) -> Skip:
    if winner is None or winner < skip.skip_count:
        return skip
    return msgspec.structs.replace(skip, skip_count=winner + 1)


def skip_of(
    path: str, known: Mapping[str, Skip], *, now: int, cooldown: int, reason: str, operation: str, **more: Any
) -> Skip:
    """The next skip of a split: one more than was counted, to be left alone for ``cooldown`` milliseconds."""
    before = known.get(path)
    return Skip(
        path=path,
        skip_timestamp=now,
        reason=reason,
        operation=operation,
        retry_after=now + cooldown,
        skip_count=1 if before is None else before.skip_count + 1,
        **more,
    )
