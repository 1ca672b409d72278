"""What a table's features are, why each is there, whether it is in use, and what dropping it would come to.

Read-only, without Spark. A reason is a property, the schema, the files or other features; where there is
none, the feature is there because somebody once asked for it, or because a version implies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate import properties as p
from tidegate.commands import clustering
from tidegate.commands.drop_feature import REMOVALS, Plan, Removal, plan
from tidegate.commands.drop_feature.protected import duration
from tidegate.errors import DropFeatureError
from tidegate.log import protection, traces
from tidegate.log.snapshot import Snapshot
from tidegate.protocol.protocol import CHECKPOINT_PROTECTION
from tidegate.schema.columns import generated_columns, identity_columns, invariants, not_null
from tidegate.schema.constraints import check_constraints
from tidegate.schema.paths import join_path
from tidegate.schema.types import TIMESTAMP_NTZ, VARIANT, DataType
from tidegate.schema.widening import recorded_changes

_DEFAULT = "CURRENT_DEFAULT"


@dataclass(frozen=True)
class FeatureState:
    """One feature of one table."""

    name: str
    binds: str
    listed: bool
    why: tuple[str, ...]
    in_use: bool
    plan: Plan | None
    refusal: str | None

    @property
    def droppable(self) -> bool:
        return self.plan is not None

    @property
    def drop(self) -> str:
        """What dropping it would do, or why it cannot be done."""
        if self.plan is None:
            return self.refusal or ""
        return describe(self.plan)

    def as_row(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "binds": self.binds,
            "listed": self.listed,
            "why": list(self.why),
            "inUse": self.in_use,
            "droppable": self.droppable,
            "drop": self.drop,
        }


def describe(found: Plan) -> str:
    """A plan in one line."""
    parts = [_count(found.commits, "commit")]
    if found.checkpoints:
        parts.append(_count(found.checkpoints, "checkpoint"))
    if found.files:
        parts.append(f"{_count(found.files, 'file')} of {found.bytes} bytes to rewrite by Spark")
    if found.wait:
        parts.append(f"a wait of {duration(found.wait)}")
    return ", ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# ---------------------------------------------------------------------------- reasons


def _property(*props: p.Property[Any]) -> Callable[[Snapshot], Iterable[str]]:
    def reasons(snapshot: Snapshot) -> Iterable[str]:
        configuration = snapshot.metadata.configuration
        for prop in props:
            for key in (prop.key, prop.alternate_key):
                if key is not None and configuration.get(key, "").lower() not in (
                    "",
                    "false",
                    "none",
                    "classic",
                ):
                    yield f"property {key} = {configuration[key]}"

    return reasons


def _columns(names: Iterable[str], what: str) -> Iterable[str]:
    found = list(names)
    if found:
        yield f"{what}: {', '.join(found)}"


def _typed(wanted: DataType) -> Callable[[Snapshot], Iterable[str]]:
    def reasons(snapshot: Snapshot) -> Iterable[str]:
        found = (join_path(path) for path, f in snapshot.schema.walk() if f.type == wanted)
        return _columns(found, f"columns of {wanted}")

    return reasons


def _invariants(snapshot: Snapshot) -> Iterable[str]:
    yield from _columns((join_path(path) for path in not_null(snapshot.schema)), "columns NOT NULL")
    yield from _columns((join_path(i.path) for i in invariants(snapshot.schema)), "columns with invariants")


def _vectors(snapshot: Snapshot) -> Iterable[str]:
    yield from _property(p.ENABLE_DELETION_VECTORS)(snapshot)
    found = snapshot.files(columns=["deletionVector"]).column(0)
    if found.null_count < len(found):
        yield f"{len(found) - found.null_count} files have deletion vectors"


def _widening(snapshot: Snapshot) -> Iterable[str]:
    yield from _property(p.ENABLE_TYPE_WIDENING)(snapshot)
    changed = dict.fromkeys(join_path(path) for path, _ in recorded_changes(snapshot.schema))
    yield from _columns(changed, "columns whose types were widened")


def _rows(snapshot: Snapshot) -> Iterable[str]:
    yield from _property(p.ENABLE_ROW_TRACKING)(snapshot)
    found = snapshot.files(columns=["baseRowId"]).column(0)
    if found.null_count < len(found):
        yield f"{len(found) - found.null_count} files have row ids"


def _domains(snapshot: Snapshot) -> Iterable[str]:
    return _columns(sorted(snapshot.domains), "settings of domains")


def _clustering(snapshot: Snapshot) -> Iterable[str]:
    found = clustering.clustering_columns(snapshot)
    return _columns((join_path(c) for c in found), "clustering columns")


def _protection(snapshot: Snapshot) -> Iterable[str]:
    boundary = protection.boundary(snapshot)
    if boundary > 0:
        yield f"history: a feature was dropped by version {boundary}; those before it are protected"


def _time(snapshot: Snapshot) -> Iterable[str]:
    if traces.in_metadata("inCommitTimestamp", snapshot.metadata, snapshot.log.registry):
        yield from _property(p.ENABLE_IN_COMMIT_TIMESTAMPS, p.IN_COMMIT_TIMESTAMP_VERSION)(snapshot)


_REASONS: Mapping[str, Callable[[Snapshot], Iterable[str]]] = {
    "appendOnly": _property(p.APPEND_ONLY),
    "invariants": _invariants,
    "checkConstraints": lambda s: _columns(
        (f"{n} ({sql})" for n, sql in check_constraints(s.metadata.configuration).items()), "constraints"
    ),
    "generatedColumns": lambda s: _columns(
        (c.name for c in generated_columns(s.schema)), "generated columns"
    ),
    "changeDataFeed": _property(p.ENABLE_CHANGE_DATA_FEED),
    "identityColumns": lambda s: _columns((c.name for c in identity_columns(s.schema)), "identity columns"),
    "columnMapping": _property(p.COLUMN_MAPPING_MODE),
    "timestampNtz": _typed(TIMESTAMP_NTZ),
    "deletionVectors": _vectors,
    "v2Checkpoint": _property(p.CHECKPOINT_POLICY),
    "typeWidening": _widening,
    "typeWidening-preview": _widening,
    "variantType": _typed(VARIANT),
    "variantType-preview": _typed(VARIANT),
    "variantShredding": _property(p.ENABLE_VARIANT_SHREDDING),
    "variantShredding-preview": _property(p.ENABLE_VARIANT_SHREDDING),
    "rowTracking": _rows,
    "domainMetadata": _domains,
    "clustering": _clustering,
    "allowColumnDefaults": lambda s: _columns(
        (join_path(path) for path, f in s.schema.walk() if _DEFAULT in f.metadata), "columns with defaults"
    ),
    "inCommitTimestamp": _time,
    "materializePartitionColumns": _property(p.ENABLE_MATERIALIZE_PARTITION_COLUMNS),
    CHECKPOINT_PROTECTION: _protection,
    "icebergCompatV1": _property(p.ENABLE_ICEBERG_COMPAT_V1),
    "icebergCompatV2": _property(p.ENABLE_ICEBERG_COMPAT_V2),
    "icebergCompatV3": _property(p.ENABLE_ICEBERG_COMPAT_V3),
}


def features(snapshot: Snapshot, *, removals: Mapping[str, Removal] = REMOVALS) -> list[FeatureState]:
    """Every feature of a version, by name."""
    registry, protocol = snapshot.log.registry, snapshot.protocol
    return [_state(snapshot, name, removals) for name in sorted(protocol.features(registry.rules))]


def _state(snapshot: Snapshot, name: str, removals: Mapping[str, Removal]) -> FeatureState:
    registry, protocol = snapshot.log.registry, snapshot.protocol
    row = registry.get(name)
    reader = name in (protocol.reader_features or ()) or (row is not None and row.reader_writer)
    reasons = list(_REASONS[name](snapshot)) if name in _REASONS else _by_metadata(snapshot, name)
    reasons += [f"{other} requires it" for other in registry.dependents(name, protocol)]
    in_use = bool(reasons)
    listed = name in protocol.explicit_features
    if not listed:
        reasons.append("the table's versions imply it")
    elif not reasons:
        reasons.append("nothing now: it was asked for once, or the history needs it")
    found, refusal = None, None
    try:
        found = plan(snapshot, name, truncate=name == CHECKPOINT_PROTECTION, removals=removals)
    except DropFeatureError as e:
        refusal = e.message
    binds = "readers and writers" if reader else "writers"
    return FeatureState(name, binds, listed, tuple(reasons), in_use, found, refusal)


def _by_metadata(snapshot: Snapshot, name: str) -> list[str]:
    if traces.in_metadata(name, snapshot.metadata, snapshot.log.registry):
        return ["the metadata enables it"]
    return []
