"""Data files, deletion vectors and rows that are not what the log or the table says."""

from __future__ import annotations

from tidegate.errors.base import TidegateError


class DataError(TidegateError):
    """A data file or a deletion vector is not what the log says."""

    code = "DATA"


class DataFileMissingError(DataError):
    code = "DATA_FILE_MISSING"
    errorClass = "FAILED_READ_FILE.FILE_NOT_EXIST"


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


class MultipleMatchesError(DataError):
    """Several rows of a MERGE's source would change the same row of the table."""

    code = "MERGE_MULTIPLE_MATCHES"
    errorClass = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"


class ChangeDataMissingError(DataError):
    """The change data feed was not on at every version of the range."""

    code = "CHANGE_DATA_MISSING"
    errorClass = "DELTA_MISSING_CHANGE_DATA"
