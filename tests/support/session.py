"""The one Spark session of a test process: small, quiet, two shuffle partitions.

It is a classic one, or with TIDEGATE_TEST_CONNECT=1 a client of a Connect server that is started for it:
the two cannot live in one process, so the tests that run on both run in two. The variable may also be the
address of a server that is there already (``sc://localhost:15002``).
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

_ASKED = os.environ.get("TIDEGATE_TEST_CONNECT", "")
CONNECT = _ASKED not in ("", "0")


@lru_cache(maxsize=1)
def shared_session() -> SparkSession:
    """A session with Tidegate enabled; Java is found or brought."""
    import tidegate

    confs = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(prefix="tidegate-warehouse-"),
    }
    if CONNECT:
        return tidegate.enable(connect_session({**confs, "spark.sql.session.timeZone": "UTC"}))
    spark = tidegate.session(master="local[2]", app_name="tidegate-tests", **confs)
    spark.sparkContext.setLogLevel("OFF")
    return tidegate.enable(spark)


def connect_session(confs: dict[str, str]) -> Any:
    """A client of a Connect server of its own."""
    from tidegate.java import java_home_for_spark

    os.environ.setdefault("JAVA_HOME", java_home_for_spark())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # A port of its own for the server, as PySpark does it in its own tests.
    os.environ["SPARK_TESTING"] = "1"
    builder = SparkSession.builder.remote(_ASKED if "://" in _ASKED else "local[2]")
    for key, value in confs.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # The server has been started with all of them; the client then tries to set the static ones again.
        warnings.simplefilter("ignore", UserWarning)
        return builder.getOrCreate()
