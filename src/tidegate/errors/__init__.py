"""Every failure Tidegate names, as one tree with one stable code each.

An error is a sentence for a person: what was found, in which table, file and version, and what to
do next. ``code`` is short and never changes; ``errorClass`` is Delta's own name where it has one.
Each branch has a module of its own here, and everybody imports from this package. A new error goes
into the module of its theme, into the list below and into the tree::

    TidegateError
    ├── StorageError                 STORAGE
    │   ├── FileMissingError         FILE_MISSING
    │   ├── NameTakenError           FILE_EXISTS
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
    │   ├── UnsupportedReaderVersionError, UnsupportedReaderFeatureError
    │   ├── UnsupportedWriterVersionError, UnsupportedWriterFeatureError
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
    │   └── SqlSyntaxError           SQL_SYNTAX
    ├── QueryError                   QUERY_INVALID, a search that cannot be read or answered
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

from tidegate.errors.base import TidegateError
from tidegate.errors.data import (
    ChangeDataMissingError,
    DataError,
    DataFileCorruptError,
    DataFileMissingError,
    DVCardinalityError,
    DVChecksumError,
    DVFileMissingError,
    DVInvalidError,
    DVSizeMismatchError,
    InvariantViolationException,
    MultipleMatchesError,
    OutOfReachError,
    SplitBuildError,
    ValueNotIndexableError,
)
from tidegate.errors.features import (
    BarrierCheckpointError,
    DependentFeatureError,
    DropConflictError,
    DropFeatureError,
    FeatureInUseError,
    FeatureIsPropertyError,
    FeatureNotDroppableHereError,
    FeatureNotPresentError,
    FeatureNotRemovableError,
    HistoricalVersionsError,
    ProtectionWaitError,
    TruncationNotAllowedError,
    TruncationRequiredError,
    WaitForRetentionError,
)
from tidegate.errors.log import (
    CheckpointCorruptError,
    CheckpointIncompleteError,
    CommitCorruptError,
    InvalidCommitError,
    LogError,
    LogTruncatedError,
    NoMetadataError,
    NoProtocolError,
    NotATableError,
    PathOutsideTableError,
    SidecarMissingError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
    VersionsNotContiguousError,
)
from tidegate.errors.protocol import (
    CatalogManagedError,
    FeaturesMismatchError,
    InvalidProtocolError,
    ManualEnablementError,
    ProtocolDowngradeException,
    ProtocolError,
    ProtocolVersionException,
    UnknownFeatureError,
    UnsupportedReaderFeatureError,
    UnsupportedReaderVersionError,
    UnsupportedWriterFeatureError,
    UnsupportedWriterVersionError,
)
from tidegate.errors.requests import (
    OptionError,
    PredicateError,
    QueryError,
    RetentionTooShortError,
    SqlSyntaxError,
)
from tidegate.errors.storage import (
    FileMissingError,
    NameTakenError,
    StorageError,
    UnsupportedSchemeError,
)
from tidegate.errors.stream import (
    StreamDataLossError,
    StreamError,
    StreamOffsetError,
    StreamSchemaChangedError,
    StreamSourceChangedError,
)
from tidegate.errors.table import (
    AlterRefusedError,
    ColumnMappingInvalidError,
    MaintenanceRefusedError,
    MergeInvalidError,
    PropertyError,
    ProtocolPropertyError,
    SchemaInvalidError,
    TableError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFormatError,
    UnsupportedTypeChangeError,
)
from tidegate.errors.transaction import (
    AppendOnlyError,
    CommitRefusedError,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MaxCommitAttemptsError,
    MetadataChangedException,
    ProtocolChangedException,
    TransactionError,
    TransactionStateError,
)

__all__ = [
    "AlterRefusedError",
    "AppendOnlyError",
    "BarrierCheckpointError",
    "CatalogManagedError",
    "ChangeDataMissingError",
    "CheckpointCorruptError",
    "CheckpointIncompleteError",
    "ColumnMappingInvalidError",
    "CommitCorruptError",
    "CommitRefusedError",
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DVCardinalityError",
    "DVChecksumError",
    "DVFileMissingError",
    "DVInvalidError",
    "DVSizeMismatchError",
    "DataError",
    "DataFileCorruptError",
    "DataFileMissingError",
    "DeltaConcurrentModificationException",
    "DependentFeatureError",
    "DropConflictError",
    "DropFeatureError",
    "FeatureInUseError",
    "FeatureIsPropertyError",
    "FeatureNotDroppableHereError",
    "FeatureNotPresentError",
    "FeatureNotRemovableError",
    "FeaturesMismatchError",
    "FileMissingError",
    "HistoricalVersionsError",
    "InvalidCommitError",
    "InvalidProtocolError",
    "InvariantViolationException",
    "LogError",
    "LogTruncatedError",
    "MaintenanceRefusedError",
    "ManualEnablementError",
    "MaxCommitAttemptsError",
    "MergeInvalidError",
    "MetadataChangedException",
    "MultipleMatchesError",
    "NameTakenError",
    "NoMetadataError",
    "NoProtocolError",
    "NotATableError",
    "OptionError",
    "OutOfReachError",
    "PathOutsideTableError",
    "PredicateError",
    "PropertyError",
    "ProtectionWaitError",
    "ProtocolChangedException",
    "ProtocolDowngradeException",
    "ProtocolError",
    "ProtocolPropertyError",
    "ProtocolVersionException",
    "QueryError",
    "RetentionTooShortError",
    "SchemaInvalidError",
    "SidecarMissingError",
    "SplitBuildError",
    "SqlSyntaxError",
    "StorageError",
    "StreamDataLossError",
    "StreamError",
    "StreamOffsetError",
    "StreamSchemaChangedError",
    "StreamSourceChangedError",
    "TableError",
    "TableExistsError",
    "TableNotFoundError",
    "TidegateError",
    "TimestampOutOfRangeError",
    "TransactionError",
    "TransactionStateError",
    "TruncationNotAllowedError",
    "TruncationRequiredError",
    "UnknownFeatureError",
    "UnsupportedFormatError",
    "UnsupportedReaderFeatureError",
    "UnsupportedReaderVersionError",
    "UnsupportedSchemeError",
    "UnsupportedTypeChangeError",
    "UnsupportedWriterFeatureError",
    "UnsupportedWriterVersionError",
    "ValueNotIndexableError",
    "VersionNotFoundError",
    "VersionsNotContiguousError",
    "WaitForRetentionError",
]
