"""Every failure Tidegate names, as one tree with one stable code each.

An error is a sentence for a person: what was found, in which table, file and version, and what to
do next. ``code`` is short and never changes; ``errorClass`` is Delta's own name where it has one.
The tree::

    TidegateError
    ├── StorageError                 STORAGE
    │   ├── FileMissingError         FILE_MISSING
    │   ├── NameTakenError          FILE_EXISTS
    │   └── UnsupportedSchemeError   UNSUPPORTED_SCHEME
    ├── LogError                     the log cannot be read as a table
    │   ├── NotATableError           NOT_A_TABLE
    │   ├── LogTruncatedError        LOG_TRUNCATED
    │   ├── VersionsNotContiguousError  VERSIONS_NOT_CONTIGUOUS
    │   ├── CommitCorruptError       COMMIT_CORRUPT
    │   ├── InvalidCommitError       INVALID_COMMIT
    │   ├── CheckpointCorruptError   CHECKPOINT_CORRUPT
    │   ├── CheckpointIncompleteError   CHECKPOINT_INCOMPLETE
    │   ├── SidecarMissingError      SIDECAR_MISSING
    │   ├── NoProtocolError          NO_PROTOCOL
    │   ├── NoMetadataError          NO_METADATA
    │   ├── VersionNotFoundError     VERSION_NOT_FOUND
    │   └── TimestampOutOfRangeError TIMESTAMP_OUT_OF_RANGE
    ├── ProtocolError                who may read and write
    │   ├── InvalidProtocolError     INVALID_PROTOCOL
    │   ├── UnsupportedReaderVersionError / ...FeatureError
    │   ├── UnsupportedWriterVersionError / ...FeatureError
    │   ├── ProtocolVersionException  the same four codes, on index tables (also a RuntimeError)
    │   ├── CatalogManagedError      CATALOG_MANAGED
    │   ├── FeaturesMismatchError    FEATURES_MISMATCH
    │   ├── ManualEnablementError    FEATURE_NEEDS_MANUAL_ENABLEMENT
    │   ├── UnknownFeatureError      UNKNOWN_FEATURE
    │   ├── ProtocolDowngradeException  PROTOCOL_DOWNGRADE
    │   └── DropFeatureError         a feature that cannot be dropped, or not yet
    │       ├── FeatureIsPropertyError, FeatureNotPresentError, FeatureNotRemovableError
    │       ├── FeatureNotDroppableHereError, FeatureInUseError, DependentFeatureError
    │       ├── TruncationNotAllowedError, TruncationRequiredError
    │       ├── WaitForRetentionError, HistoricalVersionsError, ProtectionWaitError
    │       └── BarrierCheckpointError, DropConflictError
    ├── TableError                   what the metadata says cannot be served
    │   ├── UnsupportedFormatError   UNSUPPORTED_FORMAT
    │   ├── UnsupportedTypeChangeError  UNSUPPORTED_TYPE_CHANGE
    │   ├── SchemaInvalidError       SCHEMA_INVALID
    │   ├── ColumnMappingInvalidError   COLUMN_MAPPING_INVALID
    │   ├── PropertyError            PROPERTY_INVALID
    │   ├── TableExistsError         TABLE_EXISTS
    │   ├── TableNotFoundError       TABLE_NOT_FOUND
    │   ├── AlterRefusedError        ALTER_REFUSED
    │   ├── MaintenanceRefusedError  MAINTENANCE_REFUSED
    │   ├── MergeInvalidError        MERGE_INVALID
    │   └── ProtocolPropertyError    PROTOCOL_PROPERTY (also an AssertionError)
    ├── DataError                    a data file or deletion vector is not what the log says
    │   ├── DataFileMissingError, DataFileCorruptError
    │   ├── OutOfReachError          OUT_OF_REACH
    │   ├── SplitBuildError, ValueNotIndexableError  of index tables
    │   ├── InvariantViolationException   CONSTRAINT_VIOLATED
    │   ├── MultipleMatchesError     MERGE_MULTIPLE_MATCHES
    │   ├── ChangeDataMissingError   CHANGE_DATA_MISSING
    │   └── DVFileMissingError, DVChecksumError, DVSizeMismatchError, DVCardinalityError, DVInvalidError
    ├── StreamError                  a stream over a table cannot go on
    │   ├── StreamSchemaChangedError STREAM_SCHEMA_CHANGED
    │   ├── StreamSourceChangedError STREAM_SOURCE_CHANGED
    │   ├── StreamDataLossError      STREAM_DATA_LOSS
    │   └── StreamOffsetError        STREAM_OFFSET_INVALID
    ├── OptionError                  OPTION_INVALID
    │   └── RetentionTooShortError   RETENTION_TOO_SHORT
    ├── PredicateError               PREDICATE_INVALID
    ├── QueryError                   QUERY_INVALID, a search that cannot be read or answered
    │   └── SqlSyntaxError           SQL_SYNTAX
    ├── PathOutsideTableError        PATH_OUTSIDE_TABLE
    ├── TransactionError             a commit that may not be made
    │   ├── TransactionStateError    TRANSACTION_STATE (also an AssertionError)
    │   ├── AppendOnlyError          APPEND_ONLY
    │   ├── CommitRefusedError       COMMIT_REFUSED
    │   └── MaxCommitAttemptsError   MAX_COMMIT_ATTEMPTS
    └── DeltaConcurrentModificationException   another writer won
        ├── ConcurrentWriteException, ProtocolChangedException, MetadataChangedException
        ├── ConcurrentAppendException, ConcurrentDeleteReadException
        └── ConcurrentDeleteDeleteException, ConcurrentTransactionException
"""

from __future__ import annotations

from typing import Any


class TidegateError(Exception):
    """The base of every error Tidegate raises on purpose."""

    code: str = "TIDEGATE"
    errorClass: str | None = None

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        version: int | None = None,
        file: str | None = None,
        hint: str | None = None,
        errorClass: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.version = version
        self.file = file
        self.hint = hint
        if errorClass is not None:
            self.errorClass = errorClass

    def __str__(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (("table", self.table), ("version", self.version), ("file", self.file))
            if value is not None
        ]
        text = f"[{self.code}] {self.message}"
        if where:
            text += f" ({', '.join(where)})"
        if self.hint:
            text += f" {self.hint}"
        return text

    def at(
        self, *, table: str | None = None, version: int | None = None, file: str | None = None
    ) -> TidegateError:
        """This error with the places it does not name yet filled in."""
        self.table = self.table if self.table is not None else table
        self.version = self.version if self.version is not None else version
        self.file = self.file if self.file is not None else file
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.__dict__.copy()))


def _rebuild(cls: type[TidegateError], message: str, state: dict[str, Any]) -> TidegateError:
    error = cls.__new__(cls, message)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


# ---------------------------------------------------------------------------- storage


class StorageError(TidegateError):
    """The store answered with a failure that retries did not cure."""

    code = "STORAGE"


class FileMissingError(StorageError):
    """The named object is not there."""

    code = "FILE_MISSING"


class NameTakenError(StorageError):
    """Put-if-absent lost: the name is taken."""

    code = "FILE_EXISTS"


class UnsupportedSchemeError(StorageError):
    """A URL scheme that no backend here serves."""

    code = "UNSUPPORTED_SCHEME"


# ---------------------------------------------------------------------------- the log


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


# ---------------------------------------------------------------------------- protocol


class ProtocolError(TidegateError):
    """This client may not, or the protocol action is not legal."""

    code = "PROTOCOL"


class InvalidProtocolError(ProtocolError):
    code = "INVALID_PROTOCOL"
    errorClass = "DELTA_INVALID_PROTOCOL_VERSION"


class UnsupportedReaderVersionError(ProtocolError):
    code = "UNSUPPORTED_READER_VERSION"
    errorClass = "DELTA_INVALID_PROTOCOL_VERSION"


class UnsupportedReaderFeatureError(ProtocolError):
    code = "UNSUPPORTED_READER_FEATURE"
    errorClass = "DELTA_UNSUPPORTED_FEATURES_FOR_READ"


class UnsupportedWriterVersionError(ProtocolError):
    code = "UNSUPPORTED_WRITER_VERSION"
    errorClass = "DELTA_INVALID_PROTOCOL_VERSION"


class UnsupportedWriterFeatureError(ProtocolError):
    code = "UNSUPPORTED_WRITER_FEATURE"
    errorClass = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"


class ProtocolVersionException(ProtocolError, RuntimeError):
    """An index table asks for more than this client has. The message is a small page: it stands alone."""

    code = "UNSUPPORTED_READER_VERSION"
    errorClass = "DELTA_INVALID_PROTOCOL_VERSION"

    def __init__(self, message: str, *, code: str | None = None, **where: Any) -> None:
        super().__init__(message, **where)
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"


class CatalogManagedError(ProtocolError):
    code = "CATALOG_MANAGED"
    errorClass = "DELTA_UNSUPPORTED_FEATURES_FOR_READ"


class FeaturesMismatchError(ProtocolError):
    code = "FEATURES_MISMATCH"
    errorClass = "DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH"


class ManualEnablementError(ProtocolError):
    """A property needs a feature that must be enabled by hand first."""

    code = "FEATURE_NEEDS_MANUAL_ENABLEMENT"
    errorClass = "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT"


class UnknownFeatureError(ProtocolError):
    """A feature name nobody here has heard of."""

    code = "UNKNOWN_FEATURE"
    errorClass = "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"


class ProtocolDowngradeException(ProtocolError):
    """A protocol that takes away what a table has."""

    code = "PROTOCOL_DOWNGRADE"
    errorClass = "DELTA_INVALID_PROTOCOL_DOWNGRADE"


class DropFeatureError(ProtocolError):
    """A feature that cannot be dropped, or not yet."""

    code = "DROP_FEATURE"


class FeatureIsPropertyError(DropFeatureError):
    code = "FEATURE_IS_PROPERTY"
    errorClass = "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY"


class FeatureNotPresentError(DropFeatureError):
    code = "FEATURE_NOT_PRESENT"
    errorClass = "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"


class FeatureNotRemovableError(DropFeatureError):
    code = "FEATURE_NOT_REMOVABLE"
    errorClass = "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"


class FeatureNotDroppableHereError(DropFeatureError):
    """A feature that this client does not know well enough to take away."""

    code = "FEATURE_NOT_DROPPABLE_HERE"
    errorClass = "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"


class FeatureInUseError(DropFeatureError):
    """What the feature holds is the user's own, and is not taken away unasked."""

    code = "FEATURE_IN_USE"


class DependentFeatureError(DropFeatureError):
    code = "DEPENDENT_FEATURE"
    errorClass = "DELTA_FEATURE_DROP_DEPENDENT_FEATURE"


class TruncationNotAllowedError(DropFeatureError):
    code = "TRUNCATION_NOT_ALLOWED"
    errorClass = "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED"


class TruncationRequiredError(DropFeatureError):
    code = "TRUNCATION_REQUIRED"
    errorClass = "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION"


class WaitForRetentionError(DropFeatureError):
    code = "WAIT_FOR_RETENTION"
    errorClass = "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"


class HistoricalVersionsError(DropFeatureError):
    code = "HISTORICAL_VERSIONS"
    errorClass = "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"


class ProtectionWaitError(DropFeatureError):
    code = "PROTECTION_WAIT"
    errorClass = "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD"


class BarrierCheckpointError(DropFeatureError):
    code = "BARRIER_CHECKPOINT"
    errorClass = "DELTA_FEATURE_DROP_CHECKPOINT_FAILED"


class DropConflictError(DropFeatureError):
    """Somebody has put the feature to use again while it was being dropped."""

    code = "DROP_CONFLICT"
    errorClass = "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"


# ---------------------------------------------------------------------------- table


class TableError(TidegateError):
    """The table's metadata says something that cannot be served."""

    code = "TABLE"


class UnsupportedFormatError(TableError):
    code = "UNSUPPORTED_FORMAT"


class UnsupportedTypeChangeError(TableError):
    code = "UNSUPPORTED_TYPE_CHANGE"
    errorClass = "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA"


class SchemaInvalidError(TableError):
    code = "SCHEMA_INVALID"
    errorClass = "DELTA_INVALID_SCHEMA"


class ColumnMappingInvalidError(TableError):
    code = "COLUMN_MAPPING_INVALID"
    errorClass = "DELTA_INVALID_COLUMN_MAPPING"


class PropertyError(TableError):
    """A table property that is unknown or whose value is not legal."""

    code = "PROPERTY_INVALID"
    errorClass = "DELTA_UNKNOWN_CONFIGURATION"


class AlterRefusedError(TableError):
    """A change of a table's columns, constraints or clustering that may not be made."""

    code = "ALTER_REFUSED"
    errorClass = "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"


class MaintenanceRefusedError(TableError):
    """A table service that this table does not allow."""

    code = "MAINTENANCE_REFUSED"
    errorClass = "DELTA_OPERATION_NOT_ALLOWED"


class MergeInvalidError(TableError):
    """The clauses of a MERGE do not go together, or name columns that are not there."""

    code = "MERGE_INVALID"
    errorClass = "DELTA_MERGE_UNRESOLVED_EXPRESSION"


class ProtocolPropertyError(TableError, AssertionError):
    """A protocol version reached the transaction as a table property."""

    code = "PROTOCOL_PROPERTY"


# ---------------------------------------------------------------------------- data


class DataError(TidegateError):
    """A data file or a deletion vector is not what the log says."""

    code = "DATA"


class DataFileMissingError(DataError):
    code = "DATA_FILE_MISSING"
    errorClass = "DELTA_FILE_NOT_FOUND_DETAILED"


class DataFileCorruptError(DataError):
    code = "DATA_FILE_CORRUPT"


class OutOfReachError(DataError):
    """The driver or client sees the table's files and Spark's executors do not, or the other way round."""

    code = "OUT_OF_REACH"


class SplitBuildError(DataError):
    """A split of an index table could not be built."""

    code = "SPLIT_BUILD"


class ValueNotIndexableError(DataError):
    """A value that the field of its column cannot hold."""

    code = "VALUE_NOT_INDEXABLE"


class DVFileMissingError(DataError):
    code = "DV_FILE_MISSING"


class DVChecksumError(DataError):
    code = "DV_CHECKSUM"
    errorClass = "DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH"


class DVSizeMismatchError(DataError):
    code = "DV_SIZE_MISMATCH"
    errorClass = "DELTA_DELETION_VECTOR_SIZE_MISMATCH"


class DVCardinalityError(DataError):
    code = "DV_CARDINALITY"
    errorClass = "DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH"


class DVInvalidError(DataError):
    code = "DV_INVALID"


class InvariantViolationException(DataError):
    """A row breaks a constraint of the table; nothing of the write became visible."""

    code = "CONSTRAINT_VIOLATED"
    errorClass = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"


# ---------------------------------------------------------------------------- streams


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


# ---------------------------------------------------------------------------- tables that exist, options


class MultipleMatchesError(DataError):
    """Several rows of a MERGE's source would change the same row of the table."""

    code = "MERGE_MULTIPLE_MATCHES"
    errorClass = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"


class TableExistsError(TableError):
    """The save mode says that there must not be a table yet."""

    code = "TABLE_EXISTS"
    errorClass = "DELTA_PATH_EXISTS"


class TableNotFoundError(TableError):
    """No table of that name in the catalog."""

    code = "TABLE_NOT_FOUND"
    errorClass = "TABLE_OR_VIEW_NOT_FOUND"


class OptionError(TidegateError):
    """An option that is unknown, contradicts another one or has an illegal value."""

    code = "OPTION_INVALID"
    errorClass = "DELTA_ILLEGAL_OPTION"


class RetentionTooShortError(OptionError):
    """A retention below the guard, or a negative one: files of readers at work could be deleted."""

    code = "RETENTION_TOO_SHORT"
    errorClass = "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"


class ChangeDataMissingError(DataError):
    """The change data feed was not on at every version of the range."""

    code = "CHANGE_DATA_MISSING"
    errorClass = "DELTA_MISSING_CHANGE_DATA"


class PredicateError(TidegateError):
    """A predicate that does not parse, or names a column the table lacks."""

    code = "PREDICATE_INVALID"


class SqlSyntaxError(PredicateError):
    """A statement or an expression that does not parse."""

    code = "SQL_SYNTAX"
    errorClass = "PARSE_SYNTAX_ERROR"


class QueryError(TidegateError):
    """A search that cannot be read, or asks of a field what its kind cannot answer."""

    code = "QUERY_INVALID"


class PathOutsideTableError(TidegateError):
    """A relative path in the log climbs out of the table."""

    code = "PATH_OUTSIDE_TABLE"


# ---------------------------------------------------------------------------- transactions


class TransactionError(TidegateError):
    """A commit that may not be made."""

    code = "TRANSACTION"


class TransactionStateError(TransactionError, AssertionError):
    """The transaction is past the point where this may be done."""

    code = "TRANSACTION_STATE"


class AppendOnlyError(TransactionError):
    code = "APPEND_ONLY"
    errorClass = "DELTA_CANNOT_MODIFY_APPEND_ONLY"


class CommitRefusedError(TransactionError):
    """The actions do not make a legal commit."""

    code = "COMMIT_REFUSED"


class MaxCommitAttemptsError(TransactionError):
    code = "MAX_COMMIT_ATTEMPTS"
    errorClass = "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"


class DeltaConcurrentModificationException(TidegateError):
    """Another writer won, and its commit does not fit with this one."""

    code = "CONCURRENT_MODIFICATION"


class ConcurrentWriteException(DeltaConcurrentModificationException):
    code = "CONCURRENT_WRITE"
    errorClass = "DELTA_CONCURRENT_WRITE"


class ProtocolChangedException(DeltaConcurrentModificationException):
    code = "PROTOCOL_CHANGED"
    errorClass = "DELTA_PROTOCOL_CHANGED"


class MetadataChangedException(DeltaConcurrentModificationException):
    code = "METADATA_CHANGED"
    errorClass = "DELTA_METADATA_CHANGED"


class ConcurrentAppendException(DeltaConcurrentModificationException):
    code = "CONCURRENT_APPEND"
    errorClass = "DELTA_CONCURRENT_APPEND"


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    code = "CONCURRENT_DELETE_READ"
    errorClass = "DELTA_CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    code = "CONCURRENT_DELETE_DELETE"
    errorClass = "DELTA_CONCURRENT_DELETE_DELETE"


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    code = "CONCURRENT_TRANSACTION"
    errorClass = "DELTA_CONCURRENT_TRANSACTION"
