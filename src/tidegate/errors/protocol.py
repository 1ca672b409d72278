"""Who may read and write a table, and protocols that are not legal."""

from __future__ import annotations

from typing import Any

from tidegate.errors.base import TidegateError


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
