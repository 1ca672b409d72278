"""What a batch of a stream knows of its query: the id that makes each batch count once.

A query keeps its id for as long as it has its checkpoint, over any number of restarts. Spark sets it
as a property of the thread that runs a batch; where that cannot be asked (Spark Connect), the
checkpoint itself holds it.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import StreamError, TidegateError
from tidegate.spark.failures import through_spark
from tidegate.spark.jvm import is_connect
from tidegate.spark.stream.carried import carried
from tidegate.storage.opening import open_store

_PROPERTY = "sql.streaming.queryId"


def query_id(batch: DataFrame, checkpoint: str | None) -> str:
    """The id of the query that ``batch`` belongs to."""
    found = (
        None
        if is_connect(batch.sparkSession)
        else batch.sparkSession.sparkContext.getLocalProperty(_PROPERTY)
    )
    if found is None and checkpoint is not None:
        found = _from_checkpoint(checkpoint)
    if found is None:
        raise StreamError(
            "The batch does not say which query it belongs to, so it could be written twice.",
            hint="Set the option checkpointLocation to a place that this process can read.",
        )
    return found


def passed_on(error: TidegateError, spark: SparkSession) -> Exception:
    """An error inside a batch, in the form in which it reaches whoever waits for the query."""
    return carried(error) if is_connect(spark) else through_spark(error)


def _from_checkpoint(checkpoint: str) -> str | None:
    try:
        text = open_store(checkpoint).get("metadata")
    except TidegateError:
        return None
    return msgspec.json.decode(text, type=dict[str, str]).get("id")
