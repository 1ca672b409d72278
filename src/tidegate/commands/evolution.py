"""How types may grow when a schema evolves by itself: the table allows it, the session says how far.

A column that a constraint or a generated column speaks of keeps its type.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from tidegate import properties
from tidegate.commands.dependents import constraints_on, generated_from
from tidegate.errors import OptionError, SchemaInvalidError
from tidegate.metadata import Metadata
from tidegate.schema.columns import generated_columns
from tidegate.schema.paths import join_path
from tidegate.schema.types import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructType,
)
from tidegate.schema.widening import can_widen, widened
from tidegate.spark.confs import PREFIX, conf

Widens = Callable[[DataType, DataType], bool]

CONF = "typeWidening.allowAutomaticWidening"
_FAMILIES = (
    frozenset({BYTE, SHORT, INTEGER, LONG}),
    frozenset({FLOAT, DOUBLE}),
    frozenset({DATE, TIMESTAMP_NTZ}),
)


def widening(spark: SparkSession, metadata: Metadata) -> Widens | None:
    """Which types become which when rows of wider types come; None where types stay as they are."""
    allowed = conf(spark, CONF, "always").strip().lower()
    if allowed not in ("always", "same_family_type", "never"):
        raise OptionError(f"The conf {PREFIX}{CONF} is {allowed!r}; it is always, same_family_type or never.")
    if allowed == "never" or not metadata.property(properties.ENABLE_TYPE_WIDENING):
        return None
    return can_widen if allowed == "always" else _within_family


def check_dependents(metadata: Metadata, schema: StructType, table: str) -> None:
    """Refuse a schema with wider types for columns that constraints or generated columns speak of.

    The rows that are there were checked, and their values made, by the types they had: with others an
    expression (``hash(v)``) can come to something else.
    """
    own = {g.name for g in generated_columns(metadata.schema)}
    for path, old, new in widened(metadata.schema, schema):
        name = join_path(path)
        checks, made = constraints_on(metadata, path), [*generated_from(metadata, path), *(own & {path[0]})]
        if checks or made:
            said = f"constraints speak of it ({', '.join(checks)})"
            if not checks:
                said = f"{', '.join(made)} is generated"
            raise SchemaInvalidError(
                f"The column {name} is {old} and cannot become {new} with the data: {said}.",
                table=table,
                hint="Cast the data to the column's type.",
                errorClass="DELTA_CONSTRAINT_DATA_TYPE_MISMATCH"
                if checks
                else "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH",
            )


def _within_family(before: DataType, after: DataType) -> bool:
    """Whole numbers into longer ones, floats into doubles, decimals into decimals; nothing across."""
    related = any(before in family and after in family for family in _FAMILIES)
    decimals = isinstance(before, DecimalType) and isinstance(after, DecimalType)
    return (related or decimals or before == after) and can_widen(before, after)
