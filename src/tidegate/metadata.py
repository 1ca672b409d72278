"""The table's metadata: the ``metaData`` action as a frozen value, and what must hold of it.

Reading is forgiving where old or foreign writers leave fields out (configuration, format options, even
the schema string of an empty table), so that decoding never decides whether a table can be served.
``validate`` does: it names what is wrong with the schema, the format, the mapping or a recorded type
change. Answers the section "Change Metadata" of the protocol.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from tidegate import properties
from tidegate.errors import SchemaInvalidError, UnsupportedFormatError
from tidegate.schema.lengths import refreshed
from tidegate.schema.mapping import check_mapping, mapping_mode
from tidegate.schema.types import ArrayType, MapType, StructField, StructType, duplicate_columns, parse_schema
from tidegate.schema.widening import check_type_changes

T = TypeVar("T")

# What may be null or hold nulls in logs found in the wild. Decoding takes it, __post_init__ mends it, and
# to everybody else the fields have the types of the protocol.
if TYPE_CHECKING:
    _Strings = dict[str, str]
    _Names = tuple[str, ...]
    _Text = str
else:
    _Strings = dict[str, str | None] | None
    _Names = tuple[str, ...] | None
    _Text = str | None


# Not ``dict`` and ``tuple``: msgspec leaves out a default it can recognise, and these are always written.
def _no_strings() -> dict[str, str]:
    return {}


def _no_names() -> tuple[str, ...]:
    return ()


class Format(msgspec.Struct, frozen=True):
    """How data files are encoded: always parquet in a Delta table."""

    provider: str = "parquet"
    options: _Strings = msgspec.field(default_factory=_no_strings)

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "options", _without_nulls(self.options))


def _parquet() -> Format:
    return Format()


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One metadata action: the newest one is the whole truth about the table."""

    id: str
    name: str | None = None
    description: str | None = None
    format: Format = msgspec.field(default_factory=_parquet)
    schema_string: _Text = ""
    partition_columns: _Names = msgspec.field(default_factory=_no_names)
    configuration: _Strings = msgspec.field(default_factory=_no_strings)
    created_time: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None

    def __post_init__(self) -> None:
        force = msgspec.structs.force_setattr
        force(self, "configuration", _without_nulls(self.configuration))
        force(self, "partition_columns", tuple(self.partition_columns or ()))
        force(self, "schema_string", self.schema_string or "")

    @property
    def schema(self) -> StructType:
        """The columns. A table that was made without any has an empty schema."""
        return parse_schema(self.schema_string) if self.schema_string else StructType()

    @property
    def partition_schema(self) -> StructType:
        """The partition columns in their order, as the schema has them."""
        if not self.partition_columns:
            return StructType()
        schema = self.schema
        return StructType(tuple(_partition_field(schema, name) for name in self.partition_columns))

    # Below the properties: in the rest of this class body the name means this method.
    def property(self, prop: properties.Property[T]) -> T:
        """The value of a table property, or its default."""
        return properties.get(self.configuration, prop)

    def with_schema(self, schema: StructType) -> Metadata:
        """This metadata with another schema; what columns say of the lengths in them follows it."""
        return msgspec.structs.replace(self, schema_string=refreshed(schema).to_json())

    def with_configuration(self, configuration: dict[str, str]) -> Metadata:
        return msgspec.structs.replace(self, configuration=dict(configuration))

    def validate(self, *, providers: Collection[str] = ("parquet",), deep: bool = True) -> None:
        """Refuse metadata that no reader could serve; says nothing where all is well.

        Not ``deep``, only the format is looked at: the schema is then parsed when it is first needed.
        """
        if self.format.provider not in providers:
            raise UnsupportedFormatError(
                f"the data format is {self.format.provider!r}; this client reads {', '.join(providers)}"
            )
        if not deep:
            return
        schema = self.schema
        twice = duplicate_columns(schema)
        if twice:
            raise SchemaInvalidError(
                f"the schema has columns twice when case is ignored: {', '.join(twice)}",
                errorClass="DELTA_DUPLICATE_COLUMNS_FOUND.METADATA_UPDATE",
            )
        for f in self.partition_schema.fields:
            if isinstance(f.type, StructType | ArrayType | MapType):
                raise SchemaInvalidError(
                    f"partition column {f.name} is {f.type}, and must be a single value",
                    errorClass="DELTA_INVALID_PARTITION_COLUMN_TYPE",
                )
        check_mapping(schema, mapping_mode(self))
        check_type_changes(schema)


def _without_nulls(strings: dict[str, str] | None) -> dict[str, str]:
    return {k: v for k, v in (strings or {}).items() if v is not None}


def _partition_field(schema: StructType, name: str) -> StructField:
    found = schema.field(name)
    if found is None:
        columns = ", ".join(schema.names) or "no columns"
        raise SchemaInvalidError(
            f"partition column {name} is not in the schema, which has {columns}",
            errorClass="DELTA_PARTITION_COLUMN_NOT_FOUND",
        )
    return found
