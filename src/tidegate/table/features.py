"""The protocol of a table as methods: upgrades, features, and what dropping one would come to."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tidegate.commands.drop_feature import drop_feature
from tidegate.commands.drop_feature.rewriting import spark_rewriter
from tidegate.commands.features import features
from tidegate.commands.upgrade import add_feature_support, upgrade_table_protocol
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.spark.analysis import doors
from tidegate.spark.confs import conf
from tidegate.table import frames

_FEATURES = (
    "name string, binds string, listed boolean, why array<string>, inUse boolean, droppable boolean, "
    "drop string"
)


@doors
class Features:
    """What a table asks of its clients, and how to change it."""

    _spark: SparkSession
    _log: TableLog

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raise the protocol's versions; lower ones than the table has change nothing."""
        for name, value in (("readerVersion", readerVersion), ("writerVersion", writerVersion)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f"The {name} needs to be an integer but got '{type(value)}'.")
        upgrade_table_protocol(self._log, readerVersion, writerVersion)

    def addFeatureSupport(self, featureName: str) -> None:
        """Add a feature to the protocol, with all that it requires."""
        if not isinstance(featureName, str):
            raise ValueError(f"featureName needs to be a string but got '{type(featureName)}'.")
        add_feature_support(self._log, featureName)

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Take a feature out of the table; in one step, unless the history is to be truncated."""
        if not isinstance(featureName, str):
            raise ValueError(f"featureName needs to be a string but got '{type(featureName)}'.")
        if truncateHistory is not None and not isinstance(truncateHistory, bool):
            raise ValueError(f"truncateHistory needs to be a boolean but got '{type(truncateHistory)}'.")
        drop_feature(
            self._log,
            featureName,
            truncate_history=truncateHistory,
            fast=conf(self._spark, "tableFeatures.fastDropFeature.enabled", True),
            rewriter=spark_rewriter(self._spark),
        )

    def features(self) -> DataFrame:
        """Each feature: why it is there, whether it is in use, and what dropping it would do."""
        return frames.rows(self._spark, [f.as_row() for f in features(load(self._log))], _FEATURES)
