"""The moment that a command takes for now, in each of its queries.

Spark asks for the time once per query. A command that finds rows in one query and writes them in another
would see two times, and rows between them would be lost, or be there twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from tidegate.spark.jvm import is_connect
from tidegate.spark.remote_columns import timed
from tidegate.spark.times import in_text, now_micros, pinned


@dataclass(frozen=True)
class Moment:
    """A time in microseconds since 1970, put into plans, or on Connect into what users gave."""

    micros: int

    @classmethod
    def now(cls) -> Moment:
        return cls(now_micros())

    def at_once(self, frame: DataFrame) -> DataFrame:
        """A frame in which this is the current time; a client's own frame as it is."""
        return pinned(frame, self.micros)

    def bound(self, spark: SparkSession, given: Any, taken: Collection[str]) -> Any:
        """What a user gave, a text or a column; on Connect with this as the current time in it.

        ``taken`` are the names of columns, which may be called like a function.
        """
        if not is_connect(spark):
            return given
        if isinstance(given, str):
            return in_text(given, self.micros, taken)
        return timed(given, self.micros, taken) if isinstance(given, Column) else given
