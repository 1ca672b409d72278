"""The options of reading and writing: known by name, without regard to case, checked before any work."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pyspark.sql import SparkSession

from tidegate import properties
from tidegate.errors import OptionError
from tidegate.spark import confs

READ = frozenset(
    {
        "path",
        "versionAsOf",
        "timestampAsOf",
        "readChangeFeed",
        "startingVersion",
        "endingVersion",
        "startingTimestamp",
        "endingTimestamp",
        "tidegate.where",
        "tidegate.columns",
    }
)
WRITE = frozenset(
    {
        "path",
        "mergeSchema",
        "overwriteSchema",
        "userMetadata",
        "txnAppId",
        "txnVersion",
        "dataChange",
        "maxRecordsPerFile",
        "compression",
        "partitionOverwriteMode",
        "replaceWhere",
        "replaceOn",
        "replaceUsing",
        "targetAlias",
        "optimizeWrite",
        "parquet.writer.version",
        "spark.sql.parquet.outputTimestampType",
        "tidegate.write.portable",
    }
)

# What the session says where a write does not.
_CONFS = {
    "mergeSchema": f"{confs.PREFIX}schema.autoMerge.enabled",
    "partitionOverwriteMode": "spark.sql.sources.partitionOverwriteMode",
}
_LOWER = frozenset({"mergeSchema", "partitionOverwriteMode"})
_PROPERTY = "delta."
# Names that options have had in Delta before.
_FORMER = {"readchangedata": "readchangefeed"}


def table_properties(spark: SparkSession, given: Mapping[str, str] | None) -> dict[str, str]:
    """The options of a write that are properties of a table, should it make one: ``delta.appendOnly``.

    A table that is there keeps its own; what is no property, or no value of one, is refused anyway.
    """
    asked = {k: str(v) for k, v in (given or {}).items() if k.lower().startswith(_PROPERTY)}
    arbitrary = confs.conf(spark, "allowArbitraryProperties.enabled", False)
    return properties.validate(asked, allow_arbitrary=arbitrary)


class Options:
    """The options of one call."""

    def __init__(self, given: Mapping[str, str], known: frozenset[str]) -> None:
        canonical = {k.lower(): k for k in known}
        self._values: dict[str, str] = {}
        self._session: dict[str, str] = {}
        for key, value in given.items():
            if key.lower().startswith(_PROPERTY):
                continue
            name = canonical.get(_FORMER.get(key.lower(), key.lower()))
            if name is None:
                near = difflib.get_close_matches(key.lower(), canonical, n=1, cutoff=0.75)
                if near:
                    raise OptionError(
                        f"There is no option {key}.", hint=f"Did you mean {canonical[near[0]]}?"
                    )
                continue
            self._values[name] = str(value)

    def get(self, name: str) -> str | None:
        """An option, or what the session says in its place."""
        return self._values.get(name, self._session.get(name))

    def said(self, name: str) -> str | None:
        """An option of the call itself."""
        return self._values.get(name)

    def with_session(self, spark: SparkSession) -> Options:
        """These options, with the session's confs in place of those that were not given."""
        for option, conf in _CONFS.items():
            value = spark.conf.get(conf, None)
            if value is not None:
                self._session[option] = str(value).lower() if option in _LOWER else str(value)
        if (mode := self._values.get("partitionOverwriteMode")) is not None:
            self._values["partitionOverwriteMode"] = mode.lower()
        if not confs.conf(spark, "dynamicPartitionOverwrite.enabled", True):
            if self.said("partitionOverwriteMode") == "dynamic":
                raise OptionError(
                    "The session forbids dynamic partition overwrites.",
                    hint=f"Set {confs.PREFIX}dynamicPartitionOverwrite.enabled = true.",
                    errorClass="DELTA_DYNAMIC_PARTITION_OVERWRITE_DISABLED",
                )
            self._session.pop("partitionOverwriteMode", None)
        return self

    def flag(self, name: str, default: bool = False) -> bool:
        """A switch that is true or false."""
        text = self.get(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"The option {name} is {text!r}; it is true or false.")
        return text.lower() == "true"

    def as_mapping(self) -> dict[str, str]:
        return dict(self._values)
