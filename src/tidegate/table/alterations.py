"""ALTER TABLE as methods: what ``delta.tables`` leaves to SQL, beside the drop-in surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tidegate.commands import alter, alter_columns, alter_names, alter_rows
from tidegate.commands.alter_columns import ColumnChange, NewColumn, parse_position
from tidegate.commands.changes import changes_between
from tidegate.errors import AlterRefusedError
from tidegate.log.table_log import TableLog
from tidegate.schema.lengths import as_strings
from tidegate.schema.types import DataType, parse_schema
from tidegate.spark.analysis import doors
from tidegate.spark.confs import PREFIX, conf


@doors
class Alterations:
    """The changes of a table that are no changes of its rows."""

    _spark: SparkSession
    _log: TableLog

    def setProperties(self, properties: Mapping[str, Any]) -> None:
        """SET TBLPROPERTIES."""
        arbitrary = conf(self._spark, "allowArbitraryProperties.enabled", False)
        alter.set_properties(self._log, properties, allow_arbitrary=arbitrary)

    def unsetProperties(self, *keys: str, ifExists: bool = False) -> None:
        """UNSET TBLPROPERTIES."""
        alter.unset_properties(self._log, keys, if_exists=ifExists)

    def addConstraint(self, name: str, expression: str) -> None:
        """ADD CONSTRAINT name CHECK (expression); every row there is must meet it."""
        alter_rows.add_constraint(self._spark, self._log, name, expression)

    def dropConstraint(self, name: str, ifExists: bool = False) -> None:
        """DROP CONSTRAINT."""
        lenient = conf(self._spark, "constraints.assumesDropIfExists.enabled", False)
        alter.drop_constraint(self._log, name, if_exists=ifExists or lenient)

    def addColumns(self, columns: str | T.StructType, position: str | None = None) -> None:
        """ADD COLUMNS: a schema as DDL or as a ``StructType``; ``position`` is FIRST or AFTER a column."""
        schema = T.DataType.fromDDL(columns) if isinstance(columns, str) else columns
        assert isinstance(schema, T.StructType)
        at = parse_position(position)
        new = []
        for field in as_strings(parse_schema(schema.json())).fields:
            new.append(NewColumn(field, position=at))
            at = None if at is None else f".{field.name}"
        alter_columns.add_columns(self._log, new)

    def dropColumns(self, *columns: str, ifExists: bool = False) -> None:
        """DROP COLUMNS; nested ones with dots. Needs column mapping."""
        if not conf(self._spark, "alterTable.dropColumn.enabled", True):
            raise AlterRefusedError(
                "Dropping columns is switched off in this session.",
                table=self._log.url,
                hint=f"Set {PREFIX}alterTable.dropColumn.enabled = true.",
                errorClass="DELTA_UNSUPPORTED_DROP_COLUMN",
            )
        alter_names.drop_columns(self._log, columns, if_exists=ifExists)

    def renameColumn(self, column: str, newName: str) -> None:
        """RENAME COLUMN. Needs column mapping."""
        alter_names.rename_column(self._log, column, newName)

    def alterColumn(
        self,
        column: str,
        *,
        type: str | T.DataType | None = None,
        comment: str | None = None,
        nullable: bool | None = None,
        default: str | None = None,
        position: str | None = None,
    ) -> None:
        """ALTER COLUMN: what is given changes. ``default`` is SQL, '' takes it away."""
        change = column_change(
            type=type, comment=comment, nullable=nullable, default=default, position=position
        )
        alter_rows.alter_columns(self._spark, self._log, [(column, change)])

    def clusterBy(self, *columns: str) -> None:
        """CLUSTER BY (columns); without any, by none."""
        alter.cluster_by(self._log, columns)

    def changes(self, start: int | str, end: int | str | None = None) -> DataFrame:
        """The change data feed from ``start`` to ``end``: versions as numbers, times as texts."""
        return changes_between(self._spark, self._log.url, start, end)


def column_change(
    *,
    type: str | T.DataType | None = None,
    comment: str | None = None,
    nullable: bool | None = None,
    default: str | None = None,
    position: str | None = None,
) -> ColumnChange:
    """What is said of a column, types as DDL or as Spark has them and places in words."""
    return ColumnChange(
        type=None if type is None else _type(type),
        comment=comment,
        nullable=nullable,
        default=default,
        position=parse_position(position),
    )


def _type(given: str | T.DataType) -> DataType:
    kind = T.DataType.fromDDL(given) if isinstance(given, str) else given
    field = T.StructType([T.StructField("c", kind)])
    return parse_schema(field.json()).fields[0].type
