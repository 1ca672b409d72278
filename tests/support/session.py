"""The one Spark session of a test process: small, quiet, two shuffle partitions."""

from __future__ import annotations

import tempfile
from functools import lru_cache

from pyspark.sql import SparkSession


@lru_cache(maxsize=1)
def shared_session() -> SparkSession:
    """A classic session with Tidegate enabled; Java is found or brought."""
    import tidegate

    spark = tidegate.session(
        master="local[2]",
        app_name="tidegate-tests",
        **{
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.log.level": "OFF",
            "spark.sql.warehouse.dir": tempfile.mkdtemp(prefix="tidegate-warehouse-"),
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    return tidegate.enable(spark)
