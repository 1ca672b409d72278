"""By what files are left out of a scan: partition values always, statistics unless the session says no.

A session switches statistics off (``stats.skipping``) to see whether a table's are wrong: then a query
and a command look into every file of the partitions they speak of.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from tidegate.files.predicate import Predicate
from tidegate.spark.confs import conf


def narrowing(spark: SparkSession, predicate: Predicate, partition_columns: Iterable[str]) -> Predicate:
    """The part of ``predicate`` that may leave files out."""
    if conf(spark, "stats.skipping", True):
        return predicate
    return predicate.only(partition_columns)
