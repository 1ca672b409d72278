"""Commits that may not be made, and commits that another writer's commit does not fit with."""

from __future__ import annotations

from tidegate.errors.base import TidegateError


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
