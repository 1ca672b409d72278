"""Times that users write as text: Spark reads them, in the time zone of the session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidegate.errors import TimestampOutOfRangeError
from tidegate.log.moments import text_of


def in_utc(spark: SparkSession, text: str) -> str:
    """A time as ISO 8601 text in UTC; what Spark cannot cast to a timestamp is refused."""
    # Of rows that the statement holds itself Spark makes a list, and runs no job.
    query = "SELECT unix_millis(try_cast(said AS TIMESTAMP)) FROM VALUES (:said) AS given(said)"
    [(millis,)] = spark.sql(query, {"said": text}).collect()
    if millis is None:
        raise TimestampOutOfRangeError(
            f"The provided timestamp ({text!r}) cannot be converted to a valid timestamp.",
            hint="Write it as 2026-01-31 12:00:00.",
            errorClass="DELTA_TIMESTAMP_INVALID",
        )
    return text_of(millis)
