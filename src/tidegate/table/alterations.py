"""ALTER TABLE as methods: what ``delta.tables`` leaves to SQL, beside the drop-in surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tidegate.commands import alter, alter_columns, alter_names, alter_rows
from tidegate.commands.alter_columns import ColumnChange, NewColumn, parse_position
from tidegate.commands.changes import changes_between
from tidegate.errors import AlterRefusedError, OptionError
from tidegate.log.table_log import TableLog
from tidegate.schema.lengths import as_strings
from tidegate.schema.types import DataType, parse_schema
from tidegate.spark.analysis import doors
from tidegate.spark.confs import PREFIX, conf
from tidegate.table.values import checked_properties, names, need_text


@doors
class Alterations:
    """The changes of a table that are no changes of its rows."""

    _spark: SparkSession
    _log: TableLog

    def setProperties(self, properties: Mapping[str, Any]) -> None:
        """SET TBLPROPERTIES."""
        if not checked_properties(properties):
            raise OptionError("setProperties names at least one property.")
        arbitrary = conf(self._spark, "allowArbitraryProperties.enabled", False)
        alter.set_properties(self._log, properties, allow_arbitrary=arbitrary)

    def unsetProperties(self, *keys: str | list[str], ifExists: bool = False) -> None:
        """UNSET TBLPROPERTIES."""
        wanted = names(keys, "Key of property")
        if not wanted:
            raise OptionError("unsetProperties names at least one property.")
        alter.unset_properties(self._log, wanted, if_exists=ifExists)

    def addConstraint(self, name: str, expression: str) -> None:
        """ADD CONSTRAINT name CHECK (expression); every row there is must meet it."""
        need_text(name, "Name of a constraint")
        need_text(expression, "Expression of a constraint")
        alter_rows.add_constraint(self._spark, self._log, name, expression)

    def dropConstraint(self, name: str, ifExists: bool = False) -> None:
        """DROP CONSTRAINT."""
        need_text(name, "Name of a constraint")
        lenient = conf(self._spark, "constraints.assumesDropIfExists.enabled", False)
        alter.drop_constraint(self._log, name, if_exists=ifExists or lenient)

    def addColumns(
        self, columns: str | T.StructType | list[T.StructField], position: str | None = None
    ) -> None:
        """ADD COLUMNS: DDL, a ``StructType`` or fields; ``position`` is FIRST or AFTER a column."""
        schema = _schema(columns)
        at = _position(position)
        new = []
        for field in as_strings(parse_schema(schema.json())).fields:
            new.append(NewColumn(field, position=at))
            at = None if at is None else f".{field.name}"
        alter_columns.add_columns(self._log, new)

    def dropColumns(self, *columns: str | list[str], ifExists: bool = False) -> None:
        """DROP COLUMNS; nested ones with dots. Needs column mapping."""
        wanted = names(columns, "Column name")
        if not conf(self._spark, "alterTable.dropColumn.enabled", True):
            raise AlterRefusedError(
                "Dropping columns is switched off in this session.",
                table=self._log.url,
                hint=f"Set {PREFIX}alterTable.dropColumn.enabled = true.",
                errorClass="DELTA_UNSUPPORTED_DROP_COLUMN",
            )
        alter_names.drop_columns(self._log, wanted, if_exists=ifExists)

    def renameColumn(self, column: str, newName: str) -> None:
        """RENAME COLUMN. Needs column mapping."""
        need_text(column, "Column name")
        need_text(newName, "New name of a column")
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
        need_text(column, "Column name")
        for given, what in ((comment, "Column comment"), (default, "Column default")):
            if given is not None:
                need_text(given, what)
        change = column_change(
            type=type, comment=comment, nullable=nullable, default=default, position=position
        )
        alter_rows.alter_columns(self._spark, self._log, [(column, change)])

    def clusterBy(self, *columns: str | list[str]) -> None:
        """CLUSTER BY (columns); without any, by none."""
        alter.cluster_by(self._log, names(columns, "Clustering column"))

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
        position=_position(position),
    )


def _position(given: str | None) -> str | None:
    if given is not None:
        need_text(given, "Position of a column")
    return parse_position(given)


def _schema(given: str | T.StructType | list[T.StructField]) -> T.StructType:
    """Columns to be added: at least one."""
    if isinstance(given, list) and given and all(isinstance(f, T.StructField) for f in given):
        return T.StructType(given)
    schema = T.DataType.fromDDL(given) if isinstance(given, str) else given
    if not isinstance(schema, T.StructType):
        told = given if isinstance(given, str) else type(given)
        raise TypeError(f"Columns must be DDL ('a int, b string'), a StructType or fields, found {told}")
    return schema


def _type(given: str | T.DataType) -> DataType:
    if not isinstance(given, str | T.DataType):
        raise TypeError(f"Column data type must be a string or a DataType, found {type(given)}")
    kind = T.DataType.fromDDL(given) if isinstance(given, str) else given
    field = T.StructType([T.StructField("c", kind)])
    return parse_schema(field.json()).fields[0].type
