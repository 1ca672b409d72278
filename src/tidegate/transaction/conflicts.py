"""The conflict rules: may our commit follow this winner? One pure function per rule, in one table.

Each rule looks at what we read and want to write (``Ours``) and at one commit that came first
(``Winner``), and returns None or the error, under the name Delta gives it. Finer than the
reference in one place: files that a winner added conflict only if their partition values and
statistics could satisfy what we read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from tidegate.log import traces
from tidegate.log.actions import DomainMetadata
from tidegate.log.commits import CommitActions
from tidegate.log.replay import canonical_paths
from tidegate.metadata import Metadata
from tidegate.protocol.delta import DELTA
from tidegate.protocol.feature import Registry
from tidegate.protocol.protocol import Protocol
from tidegate.schema.mapping import ID, MODE, NESTED_IDS, PHYSICAL_NAME, mapping_mode
from tidegate.transaction.readset import ReadSet

ROW_TRACKING_DOMAIN = "delta.rowTracking"
_AGAIN = "Run the operation again on the table as it is now."


class Isolation(str, Enum):
    """How much of what others do meanwhile a commit may overlook."""

    SERIALIZABLE = "Serializable"
    SNAPSHOT = "SnapshotIsolation"


@dataclass(frozen=True)
class Ours:
    """The side that lost the race: what it read, and what it wants to commit."""

    read: ReadSet
    protocol: Protocol
    metadata: Metadata
    adds: tuple[pa.RecordBatch, ...] = ()
    removes: tuple[pa.RecordBatch, ...] = ()
    new_protocol: Protocol | None = None
    new_metadata: Metadata | None = None
    domains: tuple[DomainMetadata, ...] = ()
    isolation: Isolation = Isolation.SERIALIZABLE
    blind_append: bool = False
    registry: Registry = DELTA

    @property
    def dropped(self) -> frozenset[str]:
        """The features that our commit takes from the table."""
        if self.new_protocol is None:
            return frozenset()
        rules = self.registry.rules
        return self.protocol.features(rules) - self.new_protocol.features(rules)


@dataclass(frozen=True)
class Winner:
    """A commit that took the version we wanted, or one after it."""

    version: int
    actions: CommitActions
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def described(self) -> str:
        operation = self.info.get("operation")
        return f"version {self.version}{f' ({operation})' if operation else ''}"


Rule = Callable[[Ours, Winner], DeltaConcurrentModificationException | None]


def protocol_changed(ours: Ours, winner: Winner) -> ProtocolChangedException | None:
    """The winner changed the protocol in a way our commit cannot simply take over."""
    theirs = winner.actions.protocol
    if theirs is None:
        return None
    had, has = ours.protocol.features(ours.registry.rules), theirs.features(ours.registry.rules)
    if had - has:
        return ProtocolChangedException(
            f"{winner.described} dropped {', '.join(sorted(had - has))} from the table's protocol.",
            hint=_AGAIN,
        )
    if ours.new_protocol is not None and theirs != ours.protocol:
        return ProtocolChangedException(
            f"{winner.described} changed the protocol, and so does this commit.", hint=_AGAIN
        )
    apart = sorted(r.name for r in map(ours.registry.get, has - had) if r is not None and r.fails_concurrent)
    if apart:
        return ProtocolChangedException(
            f"{winner.described} added {', '.join(apart)}, which this commit was made without.", hint=_AGAIN
        )
    return None


def drop_undone(ours: Ours, winner: Winner) -> ProtocolChangedException | None:
    """We drop a feature, and the winner has just put it to use."""
    used = sorted(name for name in ours.dropped if traces.in_commit(name, winner.actions, ours.registry))
    if not used:
        return None
    return ProtocolChangedException(
        f"{winner.described} uses {', '.join(used)}, which this commit drops.",
        hint="Remove what the feature has left in the table, then drop it again.",
        errorClass="DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL",
    )


# Switching these on asks nothing of rows already written, so a commit made before may follow.
_ENABLING: dict[str, frozenset[str] | None] = {
    "delta.enableRowTracking": frozenset({"true"}),
    "delta.rowTracking.materializedRowIdColumnName": None,
    "delta.rowTracking.materializedRowCommitVersionColumnName": None,
    "delta.enableDeletionVectors": frozenset({"true"}),
    "delta.checkpointPolicy": frozenset({"v2"}),
    "delta.enableInCommitTimestamps": frozenset({"true"}),
    "delta.inCommitTimestampEnablementVersion": None,
    "delta.inCommitTimestampEnablementTimestamp": None,
    MODE: frozenset({"name"}),
    "delta.columnMapping.maxColumnId": None,
}


def only_enables(before: Metadata, after: Metadata) -> bool:
    """Whether ``after`` differs from ``before`` only by switching on what old commits can live with."""
    same = msgspec.structs.replace(
        after, schema_string=before.schema_string, configuration=before.configuration
    )
    if same != before:
        return False
    if set(before.configuration) - set(after.configuration):
        return False
    for key, value in after.configuration.items():
        if before.configuration.get(key) == value:
            continue
        allowed = _ENABLING.get(key, frozenset())
        if allowed is not None and value not in allowed:
            return False
    if mapping_mode(before) != "none":
        return mapping_mode(after) == mapping_mode(before) and _stripped(before) == _stripped(after)
    if _stripped(before, _MAPPING_KEYS) != _stripped(after, _MAPPING_KEYS):
        return False
    # Files written before have the columns under the names that users see.
    return mapping_mode(after) == "none" or all(
        f.metadata.get(PHYSICAL_NAME) == f.name for _, f in after.schema.walk()
    )


def only_identity_moved(before: Metadata, after: Metadata) -> bool:
    """Whether ``after`` differs from ``before`` only in the high-water marks of identity columns."""
    if msgspec.structs.replace(after, schema_string=before.schema_string) != before:
        return False
    return bool(_stripped(before, _IDENTITY_KEYS) == _stripped(after, _IDENTITY_KEYS))


_MAPPING_KEYS = frozenset({ID, PHYSICAL_NAME, NESTED_IDS})
_IDENTITY_KEYS = frozenset({"delta.identity.highWaterMark"})


def _stripped(metadata: Metadata, keys: frozenset[str] = frozenset()) -> Any:
    """The schema as plain JSON without some keys of the columns' metadata."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k not in keys}
        return [strip(v) for v in value] if isinstance(value, list) else value

    return strip(msgspec.json.decode(metadata.schema_string)) if metadata.schema_string else None


def metadata_changed(ours: Ours, winner: Winner) -> MetadataChangedException | None:
    """The winner changed the metadata, and not only by what our commit can take over."""
    theirs = winner.actions.metadata
    if theirs is None:
        return None
    if ours.new_metadata is None and (
        only_identity_moved(ours.metadata, theirs)
        or (only_enables(ours.metadata, theirs) and not _numbers_what_moves(ours, theirs))
    ):
        return None
    return MetadataChangedException(
        f"{winner.described} changed the table's metadata"
        + (", and so does this commit." if ours.new_metadata is not None else "."),
        hint=_AGAIN,
    )


def _numbers_what_moves(ours: Ours, theirs: Metadata) -> bool:
    """Whether the winner promises ids to rows that our commit takes to other files without them."""
    before, after = (m.property(properties.ENABLE_ROW_TRACKING) for m in (ours.metadata, theirs))
    if before or not after:
        return False
    left = _paths(ours.removes)
    if not left:
        return False
    removed = canonical_paths(pa.concat_arrays(list(left)))
    # A file that only gets a vector keeps its rows, and their ids.
    stays = (pc.all(pc.is_in(canonical_paths(p), value_set=removed)).as_py() for p in _paths(ours.adds))
    return not all(stays)


def domain_changed(ours: Ours, winner: Winner) -> ConcurrentTransactionException | None:
    """Both sides write the same metadata domain; row ids are rebased instead."""
    mine = {d.domain for d in ours.domains}
    both = sorted(mine & {d.domain for d in winner.actions.domains} - {ROW_TRACKING_DOMAIN})
    if not both:
        return None
    return ConcurrentTransactionException(
        f"{winner.described} wrote the metadata domain {', '.join(both)}, and so does this commit.",
        hint=_AGAIN,
    )


def application_moved(ours: Ours, winner: Winner) -> ConcurrentTransactionException | None:
    """The winner moved an application's ``txn`` on that we have read."""
    both = sorted(ours.read.apps & {t.app_id for t in winner.actions.txns})
    if not both:
        return None
    return ConcurrentTransactionException(
        f"{winner.described} moved on the application {', '.join(both)}, which this commit has read.",
        hint="Another run of the same application is writing; check what it has done already.",
    )


def appended_to_read(ours: Ours, winner: Winner) -> ConcurrentAppendException | None:
    """The winner added files that could hold rows we would have had to read."""
    if ours.isolation is Isolation.SNAPSHOT or ours.blind_append:
        return None
    if any(ours.read.may_match(batch, ours.metadata) for batch in winner.actions.adds):
        return ConcurrentAppendException(
            f"{winner.described} added files to what this commit has read.",
            hint="Run the operation again; a narrower predicate conflicts less.",
        )
    return None


def deleted_what_was_read(ours: Ours, winner: Winner) -> ConcurrentDeleteReadException | None:
    """The winner removed a file that we have read."""
    if not any(b.num_rows for b in winner.actions.removes):
        return None
    hit = "files" if ours.read.whole_table else _shared(ours.read.files, _paths(winner.actions.removes))
    if hit is None:
        return None
    return ConcurrentDeleteReadException(
        f"{winner.described} removed {hit}, which this commit has read.",
        hint=_AGAIN,
    )


def deleted_twice(ours: Ours, winner: Winner) -> ConcurrentDeleteDeleteException | None:
    """Both sides remove the same file."""
    hit = _shared(_paths(ours.removes), _paths(winner.actions.removes))
    if hit is None:
        return None
    return ConcurrentDeleteDeleteException(
        f"{winner.described} removed {hit}, and so does this commit.",
        hint=_AGAIN,
    )


def deleted_what_is_renewed(ours: Ours, winner: Winner) -> ConcurrentDeleteReadException | None:
    """The winner removed a file whose entry we renew: it would come back to life."""
    hit = _shared(_paths(ours.adds), _paths(winner.actions.removes))
    if hit is None:
        return None
    return ConcurrentDeleteReadException(
        f"{winner.described} removed {hit}, whose entry this commit renews.", hint=_AGAIN
    )


def numbered_what_is_renewed(ours: Ours, winner: Winner) -> ConcurrentAppendException | None:
    """The winner gave row ids to a file whose entry we renew without any: its rows would get others."""
    hit = _shared(_by_ids(ours.adds, numbered=False), _by_ids(winner.actions.adds, numbered=True))
    if hit is None:
        return None
    return ConcurrentAppendException(
        f"{winner.described} gave row ids to {hit}, whose entry this commit renews.", hint=_AGAIN
    )


RULES: tuple[Rule, ...] = (
    protocol_changed,
    drop_undone,
    metadata_changed,
    domain_changed,
    application_moved,
    appended_to_read,
    deleted_what_was_read,
    deleted_twice,
    deleted_what_is_renewed,
    numbered_what_is_renewed,
)


def conflict(ours: Ours, winner: Winner) -> DeltaConcurrentModificationException | None:
    """The first rule that forbids our commit after ``winner``, as its error; None if none does."""
    for rule in RULES:
        found = rule(ours, winner)
        if found is not None:
            return found
    return None


def _paths(batches: Iterable[pa.RecordBatch]) -> tuple[pa.Array, ...]:
    return tuple(b.column("path") for b in batches if b.num_rows)


def _by_ids(batches: Iterable[pa.RecordBatch], *, numbered: bool) -> tuple[pa.Array, ...]:
    """The paths of the files that have row ids, or of those that have none; index tables know neither."""
    known = [b for b in batches if "baseRowId" in b.schema.names]
    masks = [pc.is_valid(b.column("baseRowId")) for b in known]
    found = (
        b.column("path").filter(m if numbered else pc.invert(m)) for b, m in zip(known, masks, strict=True)
    )
    return tuple(paths for paths in found if len(paths))


def _shared(ours: tuple[pa.Array, ...], theirs: tuple[pa.Array, ...]) -> str | None:
    """A path that both sides name, None if there is none. Deletion vectors do not matter here."""
    if not ours or not theirs:
        return None
    wanted = canonical_paths(pa.concat_arrays(list(theirs)))
    for paths in map(canonical_paths, ours):
        found = paths.filter(pc.is_in(paths, value_set=wanted))
        if len(found):
            return str(found[0].as_py())
    return None
