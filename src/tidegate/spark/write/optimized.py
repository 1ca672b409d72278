"""Optimized writes: rows are shuffled by partition value first, so that few files come out of many tasks.

An ordinary rebalance of Spark's does it, sized by adaptive execution; what goes into one bin is the
target. The option ``optimizeWrite`` decides, else the session's conf, else the table's property; a
rewrite by OPTIMIZE, which lays out files itself, never does it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from tidegate import properties
from tidegate.errors import OptionError
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.spark import confs, jvm

BIN_SIZE = 512 << 20


def is_wanted(frame: DataFrame, metadata: Metadata, options: Mapping[str, str]) -> bool:
    """Whether this write is to be optimized; ``options`` in lower case."""
    said = options.get("optimizewrite")
    if said is None:
        said = confs.text(frame.sparkSession, "optimizeWrite.enabled")
    if said is not None:
        if said.lower() not in ("true", "false"):
            raise OptionError(f"optimizeWrite is {said!r}; it is true or false.")
        return said.lower() == "true"
    own = properties.get(metadata.configuration, properties.OPTIMIZE_WRITE)
    if own is None:
        own = properties.get(metadata.configuration, properties.AUTO_OPTIMIZE)
    return bool(own)


def optimized(
    frame: DataFrame, metadata: Metadata, options: Mapping[str, str], *, is_optimize: bool = False
) -> DataFrame:
    """The DataFrame (physical names), rebalanced by the table's partition columns if that is wanted."""
    if is_optimize or not is_wanted(frame, metadata, options):
        return frame
    mode = mapping_mode(metadata)
    names = [physical_name(f, mode) for f in metadata.partition_schema.fields]
    if jvm.is_connect(frame.sparkSession):
        return frame.hint("rebalance", *names)
    size = confs.conf(frame.sparkSession, "optimizeWrite.binSize", BIN_SIZE)
    return jvm.rebalanced(frame, names, size)
