"""The end of checkpoint protection: the versions below the boundary go, all at once, and then the feature.

Nothing is truncated that has not been there for ``delta.dropFeatureTruncateHistory.retentionDuration``,
as readers and writers may still be at work on it. Specification: "Checkpoint Protection".
"""

from __future__ import annotations

from tidegate import properties
from tidegate.commands.drop_feature.barrier import barrier
from tidegate.commands.drop_feature.removal import Estimate, Removal, Work
from tidegate.errors import ProtectionWaitError
from tidegate.log import protection
from tidegate.log.retention import clean_up, plan_cleanup
from tidegate.log.snapshot import Snapshot
from tidegate.protocol.protocol import CHECKPOINT_PROTECTION

_MINUTE = 60_000
_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))


def duration(milliseconds: int) -> str:
    """A time as people say it; 24 hours are not called a day, since Delta's own property says hours."""
    if milliseconds == 86_400_000:
        return "24 hours"
    for unit, length in _UNITS:
        if milliseconds >= length and milliseconds % length == 0:
            count = milliseconds // length
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{milliseconds} milliseconds"


def truncation_cutoff(snapshot: Snapshot) -> int:
    """What is older may be truncated for the sake of a drop: the retention, rounded down to a minute."""
    keep = properties.get(snapshot.metadata.configuration, properties.DROP_FEATURE_RETENTION)
    return (snapshot.log.clock() - keep) // _MINUTE * _MINUTE


def truncated_start(snapshot: Snapshot) -> int:
    """The version with which the log would begin if it were truncated now; 0 where nothing may go."""
    found = plan_cleanup(snapshot, truncation_cutoff(snapshot), proven=False)
    return 0 if found is None else found.start


def is_truncated(snapshot: Snapshot) -> bool:
    """Whether nothing is left of the versions below the boundary."""
    log, boundary = snapshot.log, protection.boundary(snapshot)
    if boundary <= 0:
        return True
    listing = log.listing(0, boundary - 1)
    return not (listing.commits or listing.checkpoints)


def end(work: Work) -> None:
    """Take away what the feature protects, or say how long that has to wait."""
    if is_truncated(work.latest()):
        return
    work.progress("truncating the history", 0, None)
    snapshot = barrier(work)
    clean_up(snapshot, before=truncation_cutoff(snapshot))
    if not is_truncated(snapshot):
        keep = properties.get(snapshot.metadata.configuration, properties.DROP_FEATURE_RETENTION)
        raise ProtectionWaitError(
            f"The versions before {protection.boundary(snapshot)} are protected and cannot be truncated yet: "
            f"they must be {duration(keep)} old ({properties.DROP_FEATURE_RETENTION.key}).",
            table=work.log.url,
            version=snapshot.version,
            hint="Drop the feature again then.",
        )


def estimate(snapshot: Snapshot) -> Estimate:
    if is_truncated(snapshot):
        return Estimate()
    below = protection.boundary(snapshot)
    return Estimate(commits=1, steps=(f"remove all versions before {below} from the log",))


REMOVAL = Removal(
    CHECKPOINT_PROTECTION,
    estimate=estimate,
    in_use=lambda _: None,
    properties=(properties.REQUIRE_CHECKPOINT_PROTECTION_BEFORE.key,),
)
