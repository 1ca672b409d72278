"""What a store answers when bytes cannot be had, or a name is taken."""

from __future__ import annotations

from tidegate.errors.base import TidegateError


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
