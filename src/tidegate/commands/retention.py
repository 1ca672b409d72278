"""How far back one may go: versions from before the retention of deleted files may have lost some.

VACUUM deletes what no version within ``delta.deletedFileRetentionDuration`` needs. An older version can be
read as long as nobody ran it, and then no more. A session that asks for it is refused such versions from the
start, whether or not their files are still there.
"""

from __future__ import annotations

from tidegate import properties
from tidegate.errors import TimestampOutOfRangeError
from tidegate.log.snapshot import Snapshot

CONF = "vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
_HOUR = 3_600_000


def check_retention(now: Snapshot, then: Snapshot) -> None:
    """Refuse a version whose commit is older than the table's retention; the latest never is."""
    keep = now.metadata.property(properties.DELETED_FILE_RETENTION)
    if then.version == now.version or then.timestamp_ms >= now.log.clock() - keep:
        return
    raise TimestampOutOfRangeError(
        f"Version {then.version} is from {then.timestamp:%Y-%m-%d %H:%M} UTC, beyond the table's retention "
        f"of deleted files ({keep / _HOUR:g} hours): VACUUM may have deleted files of it.",
        table=then.url,
        version=then.version,
        hint=f"Raise {properties.DELETED_FILE_RETENTION.key}, or unset spark.databricks.delta.{CONF}.",
        errorClass="DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    )
