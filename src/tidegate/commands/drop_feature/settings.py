"""Features that are only settings: no data file has to be rewritten for any of them.

A property is unset or a domain closed; where there is nothing at all to do, the row says so. What belongs
to the user, such as a CHECK constraint, is never taken away: the drop is refused and lists it.
"""

from __future__ import annotations

from tidegate import properties
from tidegate.commands.drop_feature.removal import Estimate, Removal, Work
from tidegate.errors import FeatureInUseError
from tidegate.log.actions import Action, DomainMetadata
from tidegate.log.names import Kind
from tidegate.log.snapshot import Snapshot
from tidegate.log.traces import TIME_PROPERTIES
from tidegate.schema.constraints import check_constraints
from tidegate.transaction.pending import Operation

# ---------------------------------------------------------------------------- checkpoints with sidecars

_POLICY = properties.CHECKPOINT_POLICY


def _v2_in_use(snapshot: Snapshot) -> str | None:
    if snapshot.metadata.property(_POLICY) == "v2":
        return f"{_POLICY.key} is v2"
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is not None and checkpoint.kind is Kind.V2:
        return f"version {snapshot.version} stands on a V2 checkpoint"
    return None


def _classic(work: Work) -> bool:
    changed = work.latest().metadata.property(_POLICY) == "v2" and work.set_properties(
        given={_POLICY.key: "classic"}
    )
    # Versions that stand on a V2 checkpoint are of no use to who lacks the feature.
    return changed or _v2_in_use(work.latest()) is not None


def _v2_estimate(snapshot: Snapshot) -> Estimate:
    if snapshot.metadata.property(_POLICY) != "v2":
        return Estimate()
    return Estimate(commits=1, steps=(f"set {_POLICY.key} to classic",))


# ---------------------------------------------------------------------------- in-commit timestamps


def _own_times(snapshot: Snapshot) -> list[str]:
    return [key for key in TIME_PROPERTIES if key in snapshot.metadata.configuration]


def _no_own_times(work: Work) -> bool:
    return bool(_own_times(work.latest())) and work.set_properties(gone=TIME_PROPERTIES)


def _times_in_use(snapshot: Snapshot) -> str | None:
    found = _own_times(snapshot)
    return f"{', '.join(found)} are set" if found else None


def _times_estimate(snapshot: Snapshot) -> Estimate:
    found = _own_times(snapshot)
    return Estimate(commits=1, steps=(f"unset {', '.join(found)}",)) if found else Estimate()


# ---------------------------------------------------------------------------- domains


def _domains_in_use(snapshot: Snapshot) -> str | None:
    return f"there are settings of {', '.join(sorted(snapshot.domains))}" if snapshot.domains else None


def _close_domains(work: Work) -> bool:
    transaction = work.begin()
    snapshot = transaction.snapshot
    assert snapshot is not None
    closed: list[Action] = [
        DomainMetadata(domain=name, configuration=d.configuration, removed=True)
        for name, d in sorted(snapshot.domains.items())
    ]
    if not closed:
        return False
    operation = Operation("DOMAIN METADATA CLEANUP", {"domainMetadataRemovedCount": len(closed)})
    work.committed(transaction.commit(closed, operation))
    return True


def _domains_estimate(snapshot: Snapshot) -> Estimate:
    if not snapshot.domains:
        return Estimate()
    return Estimate(commits=1, steps=(f"remove the settings of {', '.join(sorted(snapshot.domains))}",))


# ---------------------------------------------------------------------------- constraints


def _refuse_constraints(work: Work) -> bool:
    _check_constraints(work.latest())
    return False


def _check_constraints(snapshot: Snapshot) -> Estimate:
    found = check_constraints(snapshot.metadata.configuration)
    if found:
        listed = ", ".join(f"{name} ({sql})" for name, sql in sorted(found.items()))
        raise FeatureInUseError(
            f"The table has CHECK constraints: {listed}.",
            table=snapshot.url,
            version=snapshot.version,
            hint="Drop them first: ALTER TABLE ... DROP CONSTRAINT, or dropConstraint(name).",
            errorClass="DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE",
        )
    return Estimate()


REMOVALS = (
    Removal("v2Checkpoint", _classic, _v2_estimate, _v2_in_use),
    Removal("inCommitTimestamp", _no_own_times, _times_estimate, _times_in_use),
    Removal("domainMetadata", _close_domains, _domains_estimate, _domains_in_use),
    Removal("checkConstraints", _refuse_constraints, _check_constraints),
    Removal("vacuumProtocolCheck"),
    # The drop itself takes the property away, which would bring the feature back.
    Removal(
        "materializePartitionColumns",
        in_use=lambda _: None,
        properties=(properties.ENABLE_MATERIALIZE_PARTITION_COLUMNS.key,),
    ),
)
