"""What makes a log unreadable as a table, and versions that it does not hold."""

from __future__ import annotations

from tidegate.errors.base import TidegateError


class LogError(TidegateError):
    """The log cannot be read as a table."""

    code = "LOG"


class NotATableError(LogError):
    code = "NOT_A_TABLE"
    errorClass = "DELTA_TABLE_NOT_FOUND"


class LogTruncatedError(LogError):
    code = "LOG_TRUNCATED"
    errorClass = "DELTA_TRUNCATED_TRANSACTION_LOG"


class VersionsNotContiguousError(LogError):
    code = "VERSIONS_NOT_CONTIGUOUS"
    errorClass = "DELTA_VERSIONS_NOT_CONTIGUOUS"


class CommitCorruptError(LogError):
    code = "COMMIT_CORRUPT"


class InvalidCommitError(LogError):
    code = "INVALID_COMMIT"


class CheckpointCorruptError(LogError):
    code = "CHECKPOINT_CORRUPT"


class CheckpointIncompleteError(LogError):
    code = "CHECKPOINT_INCOMPLETE"
    errorClass = "DELTA_MISSING_PART_FILES"


class SidecarMissingError(LogError):
    code = "SIDECAR_MISSING"


class NoProtocolError(LogError):
    code = "NO_PROTOCOL"
    errorClass = "DELTA_STATE_RECOVER_ERROR"


class NoMetadataError(LogError):
    code = "NO_METADATA"
    errorClass = "DELTA_STATE_RECOVER_ERROR"


class VersionNotFoundError(LogError):
    code = "VERSION_NOT_FOUND"
    errorClass = "DELTA_VERSION_NOT_FOUND"


class TimestampOutOfRangeError(LogError):
    code = "TIMESTAMP_OUT_OF_RANGE"
    errorClass = "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"


class PathOutsideTableError(TidegateError):
    """A relative path in the log climbs out of the table."""

    code = "PATH_OUTSIDE_TABLE"
