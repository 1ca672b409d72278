"""What a table says of itself that cannot be served, and changes of it that are refused."""

from __future__ import annotations

from tidegate.errors.base import TidegateError


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


class ColumnMappingInvalidError(TableError):
    code = "COLUMN_MAPPING_INVALID"


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


class TableExistsError(TableError):
    """The save mode says that there must not be a table yet."""

    code = "TABLE_EXISTS"
    errorClass = "DELTA_PATH_EXISTS"


class TableNotFoundError(TableError):
    """No table of that name in the catalog."""

    code = "TABLE_NOT_FOUND"
    errorClass = "TABLE_OR_VIEW_NOT_FOUND"
