"""Sessions: a local Spark that just works, and private clones with every file-shaping conf pinned.

The user's session is never changed. What Tidegate reads and writes goes through a clone of it
(same context, same catalog) in which the confs below have the one value that Delta tables need.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from pyspark.sql import SparkSession

from tidegate.java import java_home_for_spark
from tidegate.spark.jvm import is_connect

# One row per conf that shapes files, with the reason why it may not be left to the session.
PINNED: dict[str, str] = {
    # INT96 has no statistics, and other engines have given it up.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Shredded variants are illegal in a table without the feature.
    "spark.sql.variant.writeShredding.enabled": "false",
    # Column mapping by id resolves columns by their field ids, and a column added later has none.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "true",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    # Delta counts days and microseconds in the proleptic Gregorian calendar.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    # The legacy layout of decimals and nested types is not what the specification says.
    "spark.sql.parquet.writeLegacyFormat": "false",
    # Strings are strings, whatever an old session wanted, and so are timestamps without a zone.
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    # Partition values come from the log, never from names of directories.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # A file that is missing or corrupt is an error; rows are never quietly left out.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.session.timeZone": "UTC",
}

# How files are read is the user's choice: these follow the session's own, and so does what Hadoop is told.
FOLLOWED = (
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.openCostInBytes",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.maxPartitionNum",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.sql.parquet.columnarReaderBatchSize",
    "spark.sql.parquet.enableNestedColumnVectorizedReader",
    "spark.sql.parquet.enableVectorizedReader",
    "spark.sql.parquet.filterPushdown",
)
HADOOP = ("fs.", "parquet.", "spark.hadoop.")

_JAVA = "spark.driver.extraJavaOptions"
_clones: weakref.WeakKeyDictionary[SparkSession, SparkSession] = weakref.WeakKeyDictionary()
# What the session said when its clone was told, as a hash of all of it, and which confs those were.
_followed: weakref.WeakKeyDictionary[SparkSession, tuple[int, frozenset[str]]] = weakref.WeakKeyDictionary()


def session(**options: Any) -> SparkSession:
    """A local Spark that just works: Java found or brought, workers on this very Python, UTC, Arrow on.

    ``options`` are Spark confs, with ``.`` as they are (``**{"spark.sql.shuffle.partitions": 2}``);
    ``master`` and ``app_name`` have their own names.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(options.pop("master", "local[*]"))
    builder = builder.appName(options.pop("app_name", "tidegate"))
    defaults = {
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    for key, value in {**defaults, **options, _JAVA: _quietly(str(options.get(_JAVA, "")))}.items():
        builder = builder.config(key, value)
    with _quiet_java():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def _quiet_java() -> Iterator[None]:
    """A Java for Spark while it starts, one that does not warn of its incubator modules."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = java_home_for_spark(quiet=True)
    try:
        yield
    finally:
        if before is not None:
            os.environ["JAVA_HOME"] = before


def _quietly(java_options: str) -> str:
    """The options of the driver's Java with a console that is quiet from the first line on."""
    if "log4j2.configurationFile" in java_options:
        return java_options
    place = files("tidegate.spark").joinpath("log4j2.properties")
    return f"{java_options} -Dlog4j2.configurationFile={place}".strip()


def pinned(spark: SparkSession, more: Mapping[str, str] | None = None) -> SparkSession:
    """The clone of a classic session in which Tidegate works, with ``more`` for Hadoop in its confs."""
    clone = _clones.get(spark)
    if clone is None:
        clone = spark.newSession()
        for key, value in PINNED.items():
            clone.conf.set(key, value)
        _clones[spark] = clone
    # Keys of stores are among these.
    with unheard():
        _follow(spark, clone)
        for key, value in (more or {}).items():
            clone.conf.set(key, value)
    return clone


def _follow(spark: SparkSession, clone: SparkSession) -> None:
    """Say to the clone what the session says now of how files are read, and of Hadoop."""
    said = spark._jsparkSession.sessionState().conf().getAllConfs().hashCode()
    before, old = _followed.get(clone, (None, frozenset()))
    if said == before:
        return
    wanted = {k: v for k, v in spark.conf.getAll.items() if k in FOLLOWED or k.startswith(HADOOP)}
    for key, value in wanted.items():
        clone.conf.set(key, value)
    for key in old - wanted.keys():
        clone.conf.unset(key)
    _followed[clone] = said, frozenset(wanted)


class _Unheard(logging.Filter):
    """Keeps from a log what threads say while they are ``unheard``, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.threads = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self.threads, "depth", 0)


_unheard = _Unheard()


@contextmanager
def unheard() -> Iterator[None]:
    """What this thread sends to Java meanwhile is in no log: at its most talkative, Py4J tells every word."""
    for name in ("clientserver", "java_gateway"):
        # A filter that is there already is not added again.
        logging.getLogger(f"py4j.{name}").addFilter(_unheard)
    _unheard.threads.depth = getattr(_unheard.threads, "depth", 0) + 1
    try:
        yield
    finally:
        _unheard.threads.depth -= 1


@contextmanager
def named(spark: SparkSession, operation: str) -> Iterator[None]:
    """What runs meanwhile under the name of its operation in Spark's UI; a Connect server names it itself."""
    if is_connect(spark):
        yield
        return
    context: Any = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setLocalProperty("spark.job.description", operation)
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)
