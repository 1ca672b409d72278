"""One time for a command of several queries: what asks for the current time gets the same answer in each.

On Spark Connect a client cannot look into its plans, and each query asks for the time on its own.
"""

from __future__ import annotations

import time

from pyspark.sql import DataFrame

from tidegate.spark.jvm import compiled, gateway_of, is_connect


def now_micros() -> int:
    """The current time in microseconds since 1970."""
    return time.time_ns() // 1000


def pinned(frame: DataFrame, micros: int) -> DataFrame:
    """The frame with ``micros`` for the current time, wherever its plan asks for it.

    Rows that Spark holds in its cache stay what they are.
    """
    spark = frame.sparkSession
    if is_connect(spark):
        return frame
    times = compiled(spark, "CurrentTimes.java")
    execution = frame._jdf.queryExecution()
    if times.at(execution.analyzed(), str(micros)) is None:
        return frame
    plan = times.at(execution.withCachedData(), str(micros))
    if plan is None:
        return frame
    made = gateway_of(spark).org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(made, spark)
