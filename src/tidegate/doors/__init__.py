"""The front doors: ``enable`` completes what a user's own Spark calls cannot do by themselves.

What is hooked, and why, stands in the module of each door: ``batch`` (``spark.read``, ``df.write``),
``catalog`` (tables by name), ``streams`` (``spark.readStream``, ``df.writeStream``),
``connect`` (the same on Spark Connect), ``indextables`` (``format("indextables")``).
``builders`` serves scripts that have their builder configured for delta-spark.
How a hook is put in place stands in ``hooks``. Sessions that are not enabled are never touched.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidegate.doors import batch, catalog, indextables, statements, streams
from tidegate.doors.builders import configure_spark_with_delta_pip, refuse_delta_catalog
from tidegate.doors.hooks import is_enabled, mark, unmark
from tidegate.errors import OptionError
from tidegate.spark.confs import session_defaults
from tidegate.spark.jvm import gateway_of, is_connect

__all__ = ["configure_spark_with_delta_pip", "disable", "enable", "is_enabled", "session_defaults"]


def enable(spark: SparkSession) -> SparkSession:
    """Make the formats delta and indextables work in this session and those derived from it; returns it."""
    if is_connect(spark):
        from tidegate.doors import connect

        mark(spark)
        connect.install()
        indextables.install()
        return spark
    _refuse_jvm_delta(spark)
    refuse_delta_catalog(spark)
    mark(spark)
    batch.install()
    indextables.install()
    catalog.install()
    catalog.attach(spark)
    streams.install()
    statements.install()
    return spark


def disable(spark: SparkSession) -> None:
    """Take the session's enabling back."""
    unmark(spark)


def _refuse_jvm_delta(spark: SparkSession) -> None:
    """Two engines behind one name would shadow each other; the user decides which it is."""
    loader = gateway_of(spark).java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource("io/delta/sql/DeltaSparkSessionExtension.class") is not None:
        raise OptionError(
            "delta-spark's JARs are on this session's classpath, so format(\"delta\") is theirs.",
            hint="Start Spark without them to use Tidegate.",
        )
