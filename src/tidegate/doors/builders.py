"""Builders of sessions as scripts for delta-spark have them: the session that comes of one is enabled.

Such scripts hand their builder to ``configure_spark_with_delta_pip`` and name Delta's classes of the JVM in
two confs. There are no such classes here, so what names them is left out; all else stays as it was said.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from tidegate.errors import OptionError

EXTENSIONS = "spark.sql.extensions"
CATALOG = "spark.sql.catalog.spark_catalog"
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def configure_spark_with_delta_pip(
    spark_session_builder: SparkSession.Builder, extra_packages: Sequence[str] | None = None
) -> SparkSession.Builder:
    """The builder, whose sessions will be enabled; ``extra_packages`` are JARs that Spark fetches itself."""
    if not isinstance(spark_session_builder, SparkSession.Builder):
        raise TypeError(
            "configure_spark_with_delta_pip takes the builder of a SparkSession, "
            f"found {type(spark_session_builder)}"
        )
    builder: Any = spark_session_builder
    _leave_out_jvm_delta(builder._options)
    if extra_packages:
        builder.config("spark.jars.packages", ",".join(extra_packages))
    for name in ("getOrCreate", "create"):
        setattr(builder, name, _enabling(builder, getattr(builder, name)))
    return spark_session_builder


def refuse_delta_catalog(spark: SparkSession) -> None:
    """Refuse a session whose catalog is to be Delta's of the JVM, which is not there."""
    if spark.conf.get(CATALOG, None) == _DELTA_CATALOG:
        raise OptionError(
            f"The conf {CATALOG} names {_DELTA_CATALOG}, a class of delta-spark's JARs; there are none here.",
            hint="Leave the conf out: Tidegate serves Spark's own catalog.",
        )


def _leave_out_jvm_delta(options: dict[str, Any]) -> None:
    if options.get(CATALOG) == _DELTA_CATALOG:
        del options[CATALOG]
    if EXTENSIONS in options:
        named = [e.strip() for e in str(options[EXTENSIONS]).split(",")]
        kept = [e for e in named if e and e != _EXTENSION]
        if kept:
            options[EXTENSIONS] = ",".join(kept)
        else:
            del options[EXTENSIONS]


def _enabling(builder: Any, make: Callable[[], SparkSession]) -> Callable[[], SparkSession]:
    def made() -> SparkSession:
        from tidegate.doors import enable

        # What was said after the builder had come here.
        _leave_out_jvm_delta(builder._options)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        return enable(make())

    return made
