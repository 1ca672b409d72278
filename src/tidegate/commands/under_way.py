"""A VACUUM that is under way, as RESTORE must see it.

RESTORE brings back files that are past their retention, and those are what VACUUM deletes. Either sees the
other in the log: VACUUM looks again once its START is committed and spares what has come back, RESTORE loses
to a START that comes between its reading and its commit, and here it refuses files that a VACUUM which has
started and not ended may be deleting at this moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ConcurrentWriteException
from tidegate.log.history import history
from tidegate.log.moments import moment_of
from tidegate.log.replay import file_keys
from tidegate.log.snapshot import Snapshot

START, END = "VACUUM START", "VACUUM END"
# A VACUUM that was killed never says that it has ended.
_LONGEST = 24 * 3_600_000
# So many commits at a time are asked what they were.
_STEP = 64


def refuse_what_is_being_deleted(now: Snapshot, adds: pa.Table) -> None:
    """Raise the conflict if a VACUUM under way may delete the files of ``adds``, which are to come back."""
    if adds.num_rows == 0:
        return
    found = _started(now)
    if found is None:
        return
    version, cutoff = found
    lost = _outside(now, adds, cutoff)
    if lost:
        raise ConcurrentWriteException(
            f"VACUUM has started (version {version}) and not ended; it may be deleting {lost} of the files "
            "that are to come back.",
            table=now.url,
            version=version,
            hint="Run RESTORE again when the history shows VACUUM END. A VACUUM that was killed counts as "
            "ended a day after its start.",
        )


def _started(now: Snapshot) -> tuple[int, int] | None:
    """The version of a VACUUM that has not ended, and before which time it deletes removed files.

    Of several it is the one that deletes the youngest. An END does not say whose it is: those that began
    before it count until as many have ended as began.
    """
    begun: list[tuple[int, int]] = []
    ended = 0
    for entry in reversed(_lately(now)):
        if entry["operation"] == START:
            kept = _kept(entry["operationParameters"])
            begun.append((_milliseconds(entry) - kept, entry["version"]))
        elif entry["operation"] == END and begun:
            ended += 1
        if ended == len(begun):
            begun, ended = [], 0
    if not begun:
        return None
    cutoff, version = max(begun)
    return version, cutoff


def _lately(now: Snapshot) -> list[dict[str, Any]]:
    """The commits in whose time a VACUUM that is under way has started, newest first."""
    limit, seen = _STEP, 0
    while True:
        entries = history(now.log, now.version, limit)
        for at in range(seen, len(entries)):
            if _milliseconds(entries[at]) < now.log.clock() - _LONGEST:
                return entries[:at]
        if len(entries) < limit:
            return entries
        seen, limit = len(entries), limit * 4


def _milliseconds(entry: Mapping[str, Any]) -> int:
    return moment_of(entry["timestamp"])


def _kept(parameters: Any) -> int:
    """For how long a VACUUM keeps removed files, as its START says; for no time where that makes no sense."""
    said = parameters if isinstance(parameters, Mapping) else {}
    kept = said.get("specifiedRetentionMillis")
    try:
        return int(said["defaultRetentionMillis"] if kept is None else kept)
    except (KeyError, TypeError, ValueError):
        return 0


def _outside(now: Snapshot, adds: pa.Table, cutoff: int) -> int:
    """How many of ``adds`` neither a live file nor a young enough tombstone protects."""
    tombstones = now.tombstones(expired=True)
    times = pc.fill_null(tombstones.column("deletionTimestamp"), 0)
    young = _keys(tombstones.filter(pc.greater_equal(times, cutoff)))
    live = now.files(columns=["path"]).column("path").combine_chunks()
    whole = pc.and_(pc.is_in(adds.column("path"), value_set=live), adds.column("deletionVector").is_null())
    safe = pc.or_(pc.is_in(_keys(adds), value_set=young), whole.combine_chunks())
    return int(pc.sum(pc.invert(safe)).as_py() or 0)


def _keys(files: pa.Table) -> pa.Array:
    parts = [file_keys(b) for b in files.select(["path", "deletionVector"]).to_batches()]
    return pa.concat_arrays([p.cast(pa.string()) for p in parts]) if parts else pa.array([], pa.string())
