"""``DeltaTableBuilder``: a table described step by step, then made or replaced. As in ``delta.tables``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidegate.commands import create as creating
from tidegate.commands.create import Definition, Mode
from tidegate.commands.defaults import check_defaults
from tidegate.commands.generated import check_generated
from tidegate.errors import OptionError
from tidegate.schema.lengths import as_strings
from tidegate.schema.types import StructType, parse_schema
from tidegate.spark.analysis import doors
from tidegate.spark.confs import conf, log_at, session_defaults
from tidegate.table import naming
from tidegate.table.values import names, need_text

if TYPE_CHECKING:
    from tidegate.table.delta import DeltaTable


@dataclass
class IdentityGenerator:
    """A column that numbers its rows: ``start``, ``start + step``, ... in no particular order."""

    start: int = 1
    step: int = 1


@doors
class DeltaTableBuilder:
    """Made by ``DeltaTable.create`` and its siblings; ``execute`` does it."""

    def __init__(self, spark: SparkSession, mode: Mode) -> None:
        self._spark = spark
        self._mode: Mode = mode
        self._identifier: str | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._columns: list[T.StructField] = []
        self._partitions: list[str] = []
        self._clusters: list[str] = []
        self._properties: dict[str, str] = {}

    def tableName(self, identifier: str) -> DeltaTableBuilder:
        """The table's name, ``db.table``, or ``delta.`/path```."""
        need_text(identifier, "identifier")
        self._identifier = identifier
        return self

    def location(self, location: str) -> DeltaTableBuilder:
        """Where the table's files are."""
        need_text(location, "location")
        self._location = location
        return self

    def comment(self, comment: str) -> DeltaTableBuilder:
        """What the table is about."""
        need_text(comment, "comment")
        self._comment = comment
        return self

    def addColumn(
        self,
        colName: str,
        dataType: str | T.DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder:
        """One more column; generated from others by SQL, or numbered by an ``IdentityGenerator``."""
        need_text(colName, "Column name")
        if not isinstance(dataType, str | T.DataType):
            raise TypeError(f"Column data type must be a string or a DataType, found {type(dataType)}")
        if not isinstance(nullable, bool):
            raise TypeError(f"Column nullable must be a bool, found {type(nullable)}")
        if generatedAlwaysAs is not None and generatedByDefaultAs is not None:
            raise ValueError("generatedByDefaultAs and generatedAlwaysAs cannot both be set.")
        kind = T.DataType.fromDDL(dataType) if isinstance(dataType, str) else dataType
        metadata: dict[str, Any] = {}
        if comment is not None:
            need_text(comment, "Column comment")
            metadata["comment"] = comment
        if isinstance(generatedAlwaysAs, IdentityGenerator):
            metadata.update(identity_metadata(generatedAlwaysAs, explicit=False))
        elif generatedAlwaysAs is not None:
            need_text(generatedAlwaysAs, "Column generation expression")
            metadata["delta.generationExpression"] = generatedAlwaysAs
        if generatedByDefaultAs is not None:
            if not isinstance(generatedByDefaultAs, IdentityGenerator):
                raise TypeError(
                    f"generatedByDefaultAs must be an IdentityGenerator, found {type(generatedByDefaultAs)}"
                )
            metadata.update(identity_metadata(generatedByDefaultAs, explicit=True))
        self._columns.append(T.StructField(colName, kind, nullable, metadata))
        return self

    def addColumns(self, cols: T.StructType | list[T.StructField]) -> DeltaTableBuilder:
        """The columns of a schema, or of a list of fields."""
        if not isinstance(cols, T.StructType | list):
            raise TypeError(f"Schema must be StructType or a list of StructField, found {type(cols)}")
        fields = cols.fields if isinstance(cols, T.StructType) else cols
        for field in fields:
            if not isinstance(field, T.StructField):
                raise TypeError(f"Column in existing schema must be StructField, found {type(field)}")
        self._columns += fields
        return self

    def partitionedBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder:
        """The partition columns."""
        self._partitions = names(cols, "Partitioning column")
        return self

    def clusterBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder:
        """The clustering columns."""
        self._clusters = names(cols, "Clustering column")
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder:
        """One table property."""
        need_text(key, "Key of property")
        need_text(value, f"Value of the property {key}")
        self._properties[key] = value
        return self

    def execute(self) -> DeltaTable:
        """Make the table as described."""
        from tidegate.table.delta import DeltaTable

        place = naming.place(self._spark, self._identifier, self._location)
        if self._partitions and self._clusters:
            raise OptionError(
                "A table is partitioned or clustered, not both.",
                errorClass="DELTA_CLUSTER_BY_WITH_PARTITIONED_BY",
            )
        definition = Definition(
            schema=self._schema(),
            partition_by=tuple(self._partitions),
            cluster_by=tuple(self._clusters),
            properties=self._properties,
            name=place.name,
            comment=self._comment,
        )
        check_generated(self._spark, definition.schema)
        check_defaults(self._spark, definition.schema)
        log = log_at(self._spark, place.path)
        if place.is_new and not place.managed and self._mode in ("create", "createIfNotExists"):
            there = creating.existing(log)
            if there is not None:
                creating.check_same(there, definition)
                with naming.entering(self._spark, place, self._comment):
                    pass
                return DeltaTable(self._spark, log, place.name)
        with naming.entering(self._spark, place, self._comment):
            creating.create(
                log,
                definition,
                self._mode,
                defaults=session_defaults(self._spark),
                managed=place.managed,
                lowers_protocol=conf(self._spark, "replace.protocolDowngradeAllowed", False),
            )
        return DeltaTable(self._spark, log, place.name)

    def _schema(self) -> StructType:
        return as_strings(parse_schema(T.StructType(self._columns).json()))


def identity_metadata(generator: IdentityGenerator, *, explicit: bool) -> dict[str, Any]:
    for value, what in ((generator.start, "start"), (generator.step, "step")):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"The {what} of an IdentityGenerator is an integer, found {type(value)}")
    if generator.step == 0:
        raise ValueError("Column identity generation requires a non-zero step.")
    return {
        "delta.identity.start": generator.start,
        "delta.identity.step": generator.step,
        "delta.identity.allowExplicitInsert": explicit,
    }
