"""``tidegate.open``: the first front door, and the only one that needs neither Spark nor a writer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from os import PathLike

from tidegate.errors import TimestampOutOfRangeError
from tidegate.log.history import version_at
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog


def open(
    url: str | PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | str | int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Snapshot:
    """Open the table at ``url`` at its latest version, at ``version``, or as of ``timestamp``.

    ``timestamp`` is a datetime, an ISO 8601 text or milliseconds since 1970; without a zone it is
    UTC. Nothing but the log is read, and no Spark is needed.
    """
    log = TableLog.at(url, storage_options)
    if timestamp is None:
        return load(log, version)
    if version is not None:
        raise TimestampOutOfRangeError(
            "Both a version and a timestamp are given; a table can be opened at one of them.", table=log.url
        )
    latest = load(log)
    found = version_at(log, milliseconds(timestamp), latest=latest)
    return latest if found == latest.version else load(log, found)


def milliseconds(value: datetime | str | int) -> int:
    """A moment as milliseconds since 1970."""
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise TimestampOutOfRangeError(
                f"{value!r} is not a timestamp.", hint="Write it like 2026-01-31T12:00:00Z."
            ) from None
    if value.tzinfo is None:
        value = value.replace(tzinfo=timezone.utc)
    return int(value.timestamp() * 1000)
