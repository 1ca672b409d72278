"""VACUUM in a Spark session: its confs, and an inventory that is a DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.commands import vacuum as vacuuming
from tidegate.commands.vacuum import Mode, Vacuumed
from tidegate.log.table_log import TableLog
from tidegate.spark.confs import conf


def vacuum(
    spark: SparkSession,
    log: TableLog,
    retention_hours: float | None = None,
    *,
    mode: Mode | None = None,
    dry_run: bool = False,
    inventory: DataFrame | None = None,
) -> Vacuumed:
    """``commands.vacuum.vacuum`` as this session is configured."""
    lite = conf(spark, "vacuum.lite.enabled", False)
    return vacuuming.vacuum(
        log,
        retention_hours,
        mode=mode or ("lite" if lite else "full"),
        dry_run=dry_run,
        inventory=None if inventory is None else _arrow(inventory),
        check_retention=conf(spark, "retentionDurationCheck.enabled", True),
        log_commits=conf(spark, "vacuum.logging.enabled", True),
    )


def _arrow(inventory: DataFrame) -> object:
    kinds = {f.name: f.dataType.typeName() for f in inventory.schema.fields}
    if kinds.get("modificationTime") == "timestamp":
        inventory = inventory.withColumn("modificationTime", F.unix_millis("modificationTime"))
    return inventory.toArrow()
