"""The session's confs under ``spark.databricks.delta.``, as scripts written for delta-spark set them.

``conf`` reads one as the type of its default. What a conf steers stands with the code that asks for
it; confs that nobody asks for are ignored, as Spark does with every conf it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import isfinite
from os import PathLike
from typing import TypeVar

from pyspark.sql import SparkSession

from tidegate.errors import OptionError
from tidegate.log.settings import Settings
from tidegate.log.table_log import TableLog
from tidegate.spark.jvm import is_connect

PREFIX = "spark.databricks.delta."
DEFAULTS = PREFIX + "properties.defaults."
_SIZE = re.compile(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", re.I)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
T = TypeVar("T", bool, int, float, str)
N = TypeVar("N", bound="int | None")
# What a conf was set to, None if it was not.
Said = Callable[[str], str | None]


def text(spark: SparkSession, name: str) -> str | None:
    """The conf ``name`` (below the prefix) as it was set, None if it was not."""
    value = spark.conf.get(PREFIX + name, None)
    return None if value is None else str(value)


def texts(spark: SparkSession, names: Iterable[str]) -> list[str | None]:
    """``text`` of several confs, over Connect in one request."""
    every = _every(spark)
    return [every(PREFIX + name) for name in names]


def conf(spark: SparkSession, name: str, default: T) -> T:
    """The conf ``name`` (below the prefix) as the type of its default; sizes may say ``128m``."""
    return _of(partial(text, spark), name, default)


def parsed(name: str, value: str, default: T) -> T:
    """The text of a conf as the type of ``default``."""
    if isinstance(default, bool):
        if value.strip().lower() not in ("true", "false"):
            raise _illegal(name, value, "true or false")
        return value.strip().lower() == "true"
    if isinstance(default, int):
        found = _SIZE.fullmatch(value)
        number = -1 if found is None else int(found[1]) * _UNITS[found[2].lower()]
        if not 0 <= number < 1 << 63:
            raise _illegal(name, value, "a number")
        return number
    if isinstance(default, float):
        with suppress(ValueError):
            if isfinite(float(value)):
                return float(value)
        raise _illegal(name, value, "a number")
    return value


def session_defaults(spark: SparkSession) -> dict[str, str]:
    """The session's defaults for properties of new tables, under the properties' own keys."""
    found = {}
    for key, value in spark.conf.getAll.items():
        if key.startswith(DEFAULTS):
            found["delta." + key[len(DEFAULTS) :]] = value
    return found


def settings(spark: SparkSession) -> Settings:
    """What the session says of commits and checkpoints; a value that cannot be is refused by name."""
    usual = Settings()
    every = _every(spark)

    def said(name: str) -> str | None:
        return every(PREFIX + name)

    return Settings(
        retries=_of(said, "maxCommitAttempts", usual.retries),
        skips_empty=_of(said, "skipRecordingEmptyCommits", usual.skips_empty),
        checksum_files=_of(said, "writeChecksumFile.enabled", usual.checksum_files),
        hint_checksum=_of(said, "lastCheckpoint.checksum.enabled", usual.hint_checksum),
        part_size=_positive(said, "checkpoint.partSize", usual.part_size),
        top_level=_one_of(said, "checkpointV2.topLevelFileFormat", ("json", "parquet")),
        clustering_columns=_positive(
            said, "clusteredTable.numClusteringColumnsLimit", usual.clustering_columns
        ),
        unenforced_not_null=_of(
            said, "constraints.allowUnenforcedNotNull.enabled", usual.unenforced_not_null
        ),
        case_sensitive=(every("spark.sql.caseSensitive") or "").lower() == "true",
    )


def _every(spark: SparkSession) -> Said:
    """Who tells many confs by their whole names: over Connect one request brings them all."""
    if is_connect(spark):
        return spark.conf.getAll.get
    return lambda key: spark.conf.get(key, None)


def _of(said: Said, name: str, default: T) -> T:
    value = said(name)
    return default if value is None else parsed(name, value, default)


def _positive(said: Said, name: str, default: N) -> int | N:
    value = said(name)
    if value is None:
        return default
    found = parsed(name, value, 1)
    if found < 1:
        raise _illegal(name, value, "a number above zero")
    return found


def _one_of(said: Said, name: str, values: tuple[str, ...]) -> str:
    """One of ``values``, the first where nothing is said."""
    found = _of(said, name, values[0])
    if found.strip().lower() not in values:
        raise _illegal(name, found, " or ".join(values))
    return found.strip().lower()


def in_session(spark: SparkSession, log: TableLog) -> TableLog:
    """A log as a session opens it: every commit to it follows what the session says, as it stands then."""
    return replace(
        log, remark=partial(text, spark, "commitInfo.userMetadata"), settings=partial(settings, spark)
    )


def log_at(spark: SparkSession, url: str | PathLike[str]) -> TableLog:
    """The log of the table at ``url``, ``in_session``; nothing is read yet."""
    return in_session(spark, TableLog.at(url))


def _illegal(name: str, value: str, needs: str) -> OptionError:
    return OptionError(f"The conf {PREFIX}{name} is {value!r}; it needs {needs}.")
