"""How a value whose type is not the column's gets it, as the session's store assignment policy says.

By default a value is stored whole or not at all, in ANSI mode and without. INSERT and DataFrames cast as
UPDATE and MERGE do.
"""

from __future__ import annotations

from typing import Literal

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidegate.errors import SchemaInvalidError
from tidegate.schema.implicit import up_casts
from tidegate.schema.paths import Path, join_path
from tidegate.schema.types import DataType
from tidegate.spark.expressions import legacy_cast
from tidegate.spark.scan.projection import spark_type

# By Spark's own cast, by one that refuses what is lost, only where nothing can be lost, or by the cast that
# Spark had before ANSI mode.
Casts = Literal["spark", "checked", "strict", "legacy"]


def casts_of(spark: SparkSession) -> Casts:
    """How the session's store assignment policy casts values.

    In ANSI mode Spark itself sees to it that nothing is lost. Under LEGACY nobody does, and under STRICT
    only types are taken that always fit.
    """
    policy = (spark.conf.get("spark.sql.storeAssignmentPolicy", "ANSI") or "").upper()
    ansi = (spark.conf.get("spark.sql.ansi.enabled", "true") or "").lower() == "true"
    if policy == "STRICT":
        return "strict"
    if policy == "LEGACY":
        return "legacy" if ansi else "spark"
    return "spark" if ansi else "checked"


def cast_to(column: Column, have: DataType, want: DataType, path: Path, casts: Casts) -> Column:
    """A column of one plain type as another one; ``path`` is the column of the table, for words."""
    if casts == "strict" and not up_casts(have, want):
        raise SchemaInvalidError(
            f"{join_path(path)} is {want} in the table and the value is {have}, which does not always fit: "
            "the store assignment policy is STRICT.",
            hint="Cast the value, or set spark.sql.storeAssignmentPolicy to ANSI.",
            errorClass="CANNOT_UP_CAST_DATATYPE",
        )
    if casts == "legacy":
        return legacy_cast(column, spark_type(want))
    if casts != "checked":
        return column.cast(spark_type(want))
    tried = column.try_cast(spark_type(want))
    words = (
        f"[DELTA_CAST_OVERFLOW_IN_TABLE_WRITE] A value does not fit into {join_path(path)}, which is {want}."
    )
    return F.when(column.isNull() | tried.isNotNull(), tried).otherwise(F.raise_error(F.lit(words)))
