"""Why a stream over a table cannot go on."""

from __future__ import annotations

from tidegate.errors.base import TidegateError


class StreamError(TidegateError):
    """A stream over a table cannot go on."""

    code = "STREAM"


class StreamSchemaChangedError(StreamError):
    """The table's columns are no longer those that the stream was started with."""

    code = "STREAM_SCHEMA_CHANGED"
    errorClass = "DELTA_SCHEMA_CHANGED_WITH_VERSION"


class StreamSourceChangedError(StreamError):
    """Rows that a stream has passed on were deleted or changed, and nothing says what to do then."""

    code = "STREAM_SOURCE_CHANGED"
    errorClass = "DELTA_SOURCE_TABLE_IGNORE_CHANGES"


class StreamDataLossError(StreamError):
    """Commits that a stream has not seen yet are gone from the log."""

    code = "STREAM_DATA_LOSS"
    errorClass = "DELTA_MISSING_FILES_UNEXPECTED_VERSION"


class StreamOffsetError(StreamError):
    """A checkpoint holds an offset that does not fit this table, or is none."""

    code = "STREAM_OFFSET_INVALID"
    errorClass = "DELTA_INVALID_SOURCE_OFFSET_FORMAT"
