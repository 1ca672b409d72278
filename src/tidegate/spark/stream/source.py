"""The streaming source of classic sessions: offsets from the log, each batch a native scan.

Spark's micro-batch engine asks a ``Source`` in the JVM how far the next batch goes and for the frame
of that batch; the Java side hands both questions to ``Answers`` here. What comes back is an ordinary
scan, columnar and pruned by the query's own filters, marked as part of a stream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import TidegateError
from tidegate.spark import failures, jvm
from tidegate.spark.stream.offsets import NO_LIMITS
from tidegate.spark.stream.tail import Slice, Tail

_log = logging.getLogger(__name__)
_DATA_SOURCE = "org.apache.spark.sql.execution.datasources.DataSource"
_PARAMETERS = 8

MakeFrame = Callable[[Tail, Slice], DataFrame]


class Answers:
    """What one running query asks of its source; each question is a word and what it needs."""

    def __init__(self, spark: SparkSession, tail: Tail, frame: MakeFrame) -> None:
        self._spark = spark
        self._tail = tail
        self._frame = frame
        self._words: dict[str, Callable[[Any, Any], Any]] = {
            "latest": self._latest,
            "available": lambda _, __: self._tail.available_now(),
            "batch": self._batch,
            "commit": self._commit,
        }

    def __call__(self, question: Any) -> Any:
        word, first, second = list(question)
        try:
            return self._words[word](first, second)
        except TidegateError as e:
            raise failures.through_spark(e) from e

    def _latest(self, start: str | None, which: str) -> str:
        limits = NO_LIMITS if which == "all" else self._tail.options.limits
        found = self._tail.latest(self._tail.offset(start), limits).to_json()
        _log.debug("%s: from %s to %s", self._tail.log.url, start, found)
        return found

    def _batch(self, start: str | None, end: str) -> Any:
        to = self._tail.offset(end)
        assert to is not None
        between = self._tail.between(self._tail.offset(start), to)
        return streaming(self._spark, self._frame(self._tail, between))

    def _commit(self, _: Any, end: str) -> None:
        to = self._tail.offset(end)
        assert to is not None
        self._tail.forget(to)


def stream(
    spark: SparkSession,
    make_tail: Callable[[], Tail],
    frame: MakeFrame,
    empty: DataFrame,
    *,
    path: str,
    options: dict[str, str],
) -> DataFrame:
    """A streaming DataFrame with the columns of ``empty``; each query that uses it gets a tail of its own."""
    gateway = jvm.gateway_of(spark)
    schema = empty._jdf.schema()

    def begin(_checkpoint: str) -> Any:
        return jvm.JavaFunction(Answers(spark, make_tail(), frame))

    source = _streams(spark).create(
        spark._jsparkSession,
        gateway.org.apache.spark.api.python.PythonUtils.toScalaMap({**options, "path": path}),
        schema,
        f"delta:{path}",
        jvm.JavaFunction(begin),
    )
    attributes = gateway.org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes(schema)
    relation, parameters = _relation_class(gateway)
    more = [getattr(relation, f"apply$default${n}")() for n in range(4, parameters + 1)]
    return _of_plan(spark, relation(source, "delta", attributes, *more))


def streaming(spark: SparkSession, frame: DataFrame) -> Any:
    """The JVM's frame for a batch: the same plan, as a part of a stream."""
    plan = _streams(spark).streaming(frame._jdf.queryExecution().analyzed())
    if plan.isStreaming():
        return _of_plan(spark, plan)._jdf
    # A leaf that cannot be marked: its rows can.
    rows = frame._jdf.queryExecution().toRdd()
    return spark._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), True)


def _of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    sql = jvm.gateway_of(spark).org.apache.spark.sql
    return DataFrame(sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def _streams(spark: SparkSession) -> Any:
    gateway = jvm.gateway_of(spark)
    made = gateway.java.lang.Class.forName(_DATA_SOURCE).getConstructors()[0]
    more = int(made.getParameterCount()) - _PARAMETERS
    replacing = {
        "@SESSION@": str(made.getParameterTypes()[0].getName()),
        "@MORE@": ", scala.Option.empty()" * more,
    }
    return jvm.compiled(spark, "stream/TableStreams.java", replacing)


def _relation_class(gateway: Any) -> tuple[Any, int]:
    """The plan of a stream that has not started, and how many parameters it takes in this release."""
    for package in ("runtime.", ""):
        full = f"org.apache.spark.sql.execution.streaming.{package}StreamingRelation"
        try:
            made = gateway.java.lang.Class.forName(full).getConstructors()[0]
        except Exception:
            continue
        found = gateway
        for part in full.split("."):
            found = getattr(found, part)
        return found, int(made.getParameterCount())
    raise LookupError("StreamingRelation")
