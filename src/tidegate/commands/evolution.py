"""How types may grow when a schema evolves by itself: the table allows it, the session says how far."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from tidegate import properties
from tidegate.errors import OptionError
from tidegate.metadata import Metadata
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
)
from tidegate.schema.widening import can_widen
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


def _within_family(before: DataType, after: DataType) -> bool:
    """Whole numbers into longer ones, floats into doubles, decimals into decimals; nothing across."""
    related = any(before in family and after in family for family in _FAMILIES)
    decimals = isinstance(before, DecimalType) and isinstance(after, DecimalType)
    return (related or decimals or before == after) and can_widen(before, after)
