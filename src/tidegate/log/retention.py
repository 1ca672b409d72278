"""Log retention: removing what no readable version needs any more.

The new start is the newest complete checkpoint that has itself expired, so every version within
the retention stays readable. Below it go, in this order: commits ascending, then compactions, then
checksums, then checkpoints, then sidecars that nothing refers to. At each step a version from the
new start on is readable, and one below it is readable or VERSION_NOT_FOUND; a cleanup that is cut
off is finished by the next one. What checkpoint protection allows is decided before the first file goes.
Specification: "Metadata Cleanup"; "Checkpoint Protection".
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate import properties
from tidegate.errors import FileMissingError, TidegateError
from tidegate.log import names, protection
from tidegate.log.checkpoint.read import sidecar_name
from tidegate.log.history import in_commit_era, in_commit_timestamp, modification_times
from tidegate.log.names import Kind
from tidegate.log.segment import Checkpoint, Listing
from tidegate.log.snapshot import Snapshot
from tidegate.storage.local import LocalStore
from tidegate.storage.store import FileInfo

_log = logging.getLogger(__name__)
_DAY = 86_400_000


@dataclass(frozen=True)
class Cleanup:
    """What may go: the new start of the log and the names below it, in the order of deletion.

    A cleanup of only a part of the protected versions leaves their checkpoints where they are.
    """

    start: int
    commits: tuple[str, ...]
    compactions: tuple[str, ...]
    checksums: tuple[str, ...]
    checkpoints: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return self.commits + self.compactions + self.checksums + self.checkpoints


def cutoff(snapshot: Snapshot) -> int:
    """Commits at or before this time have expired: the retention, rounded down to a day."""
    keep = properties.get(snapshot.metadata.configuration, properties.LOG_RETENTION)
    return (snapshot.log.clock() - keep) // _DAY * _DAY


def plan_cleanup(snapshot: Snapshot, before: int, *, proven: bool = True) -> Cleanup | None:
    """Which files may go when everything up to the time ``before`` has expired.

    Who only wants to know what would happen need not have the new start read to its end (``proven``).
    """
    log = snapshot.log
    # What has expired is a beginning of the log: nothing after the first younger commit is looked at.
    listing = log.listing(0, snapshot.version, before=before)
    times = _commit_times(snapshot, listing)
    protected = protection.boundary(snapshot)
    # A checkpoint whose commit is gone already was the start of the log once: it has expired.
    expired = (c for c in reversed(listing.checkpoints) if times.get(c.version, before) <= before)
    for checkpoint in expired:
        plan = _below(listing, checkpoint.version, protected)
        if not plan.names:
            return None
        if proven and not _usable(snapshot, checkpoint):
            continue
        if checkpoint.version >= protected:
            return plan
        why = protection.forbids_part(snapshot, listing, checkpoint.version)
        if why is not None:
            _log.info(
                "%s: versions below %d are protected up to %d, and stay: %s",
                snapshot.url,
                checkpoint.version,
                protected,
                why,
            )
            return None
        return plan
    return None


def _below(listing: Listing, start: int, protected: int) -> Cleanup:
    """Everything that goes when the log begins at ``start``. Checkpoints go with all they protect."""
    commits = tuple(listing.commits[v].info.name for v in sorted(listing.commits) if v < start)
    compactions = tuple(c.info.name for c in listing.compactions if c.name.version < start)
    crcs = tuple(listing.checksums[v].info.name for v in sorted(listing.checksums) if v < start)
    if start < protected:
        return Cleanup(start, commits, compactions, crcs, ())
    parts = [f for c in listing.checkpoints for f in c.files] + listing.stray_parts
    checkpoints = tuple(f.info.name for f in parts if f.name.version < start)
    return Cleanup(start, commits, compactions, crcs, checkpoints)


def _commit_times(snapshot: Snapshot, listing: Listing) -> dict[int, int]:
    """The time of every commit in the log, their own where they carry one."""
    commits = [listing.commits[v] for v in sorted(listing.commits)]
    era = in_commit_era(snapshot)
    if era is None:
        return modification_times(commits)
    times = modification_times([c for c in commits if c.name.version < era.version])
    for checkpoint in listing.checkpoints:
        # Only checkpoints can become the new start, so only their commits need to be read.
        found = listing.commits.get(checkpoint.version)
        if found is not None and checkpoint.version >= era.version:
            times[checkpoint.version] = in_commit_timestamp(snapshot.log, found)
    return times


def _usable(snapshot: Snapshot, checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint can carry the log alone. What goes cannot come back, so it is read to the end."""
    try:
        reader = snapshot.log.reader(checkpoint)
        form = snapshot.log.dialect.form
        for action, schema in (("add", form.adds), ("remove", form.removes)):
            for _ in reader.batches(action, schema.names, lambda _: ()):
                pass
        spoken = reader.small.protocol is not None or snapshot.log.dialect.unspoken is not None
        return spoken and reader.small.metadata is not None
    except TidegateError as e:
        _log.warning("%s: a checkpoint cannot be read and covers nothing: %s", snapshot.url, e)
        return False


def clean_up(snapshot: Snapshot, *, before: int | None = None) -> Cleanup | None:
    """Remove expired log files; returns what went, None if nothing had to.

    ``before`` (milliseconds) overrides the table's retention.
    """
    log = snapshot.log
    log.registry.check_write(snapshot.protocol, table=snapshot.url, version=snapshot.version)
    before = cutoff(snapshot) if before is None else before
    plan = plan_cleanup(snapshot, before)
    if plan is not None:
        # A feature may have been dropped since: its boundary counts, not the one that was known.
        latest = snapshot.update()
        if protection.boundary(latest) != protection.boundary(snapshot):
            plan = plan_cleanup(latest, before)
    if plan is not None:
        _log.debug("%s: cleaning up below version %d: %d files", log.url, plan.start, len(plan.names))
        # Commits go one by one: a bulk delete has no order, and ascending order is the guarantee.
        for name in plan.commits:
            log.store.delete([name])
        log.store.delete(plan.compactions)
        log.store.delete(plan.checksums)
        for name in plan.checkpoints:
            log.store.delete([name])
    log.store.delete(list(_orphan_sidecars(snapshot, before)))
    if isinstance(log.store, LocalStore):
        for directory in (log.log_dir, log.path(names.SIDECAR_DIR)):
            log.store.sweep(directory, min(before, log.clock() - _DAY))
    return plan


def _orphan_sidecars(snapshot: Snapshot, before: int) -> Iterator[str]:
    """Sidecars that no remaining checkpoint refers to and that are old enough to be nobody's work."""
    log = snapshot.log
    directory = log.path(names.SIDECAR_DIR)
    oldest = min(before, log.clock() - _DAY)
    old: list[FileInfo] = [f for f in log.store.list_from(directory) if f.modified <= oldest]
    if not old:
        return
    listing = log.listing()
    referenced: set[str] = set()
    for checkpoint in listing.checkpoints:
        if checkpoint.kind is Kind.PART:
            continue
        try:
            reader = log.reader(checkpoint)
            referenced |= {sidecar_name(s) for s in reader.sidecars}
        except FileMissingError:
            continue
        except TidegateError:
            # What cannot be read may refer to anything.
            return
    for info in old:
        if info.name.rsplit("/", 1)[-1] not in referenced:
            yield info.name
