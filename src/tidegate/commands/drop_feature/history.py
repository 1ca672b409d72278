"""Does what is left of a table's history still show a feature?

The state at the beginning of the log is asked, and every commit after it. That protocols list the feature
does not count: a feature that was never used leaves a history that anybody can read.
"""

from __future__ import annotations

from tidegate.errors import FileMissingError
from tidegate.log import segment as segments
from tidegate.log import traces
from tidegate.log.names import Kind
from tidegate.log.snapshot import Snapshot, load


def history_contains(snapshot: Snapshot, feature: str, *, since: int = 0) -> str | None:
    """Where the log up to a version shows the feature, as a clause; None where it nowhere does.

    With ``since`` as if the log began there, at a version that has a checkpoint.
    """
    log = snapshot.log
    listing = log.listing(since, snapshot.version)
    if feature == "v2Checkpoint":
        old = [c for c in listing.checkpoints if c.kind is Kind.V2 and c.version >= since]
        if old:
            return f"version {old[0].version} has a V2 checkpoint"
    first = since or segments.earliest(listing)
    if first is not None and first > 0:
        start = load(log, first)
        if traces.in_metadata(feature, start.metadata, log.registry):
            return f"version {first}, where the log begins, has it enabled"
        if traces.in_files(feature, start.files(columns=["deletionVector", "baseRowId"]).to_batches()):
            return f"version {first}, where the log begins, has files that need it"
    for version in sorted(v for v in listing.commits if v >= since):
        found = listing.commits[version]
        try:
            actions = log.dialect.decode(log.store.get(found.info.name), found.name.text)
        except FileMissingError:
            continue
        if traces.in_commit(feature, actions, log.registry, removes=True):
            return f"version {version} uses it"
    return None
