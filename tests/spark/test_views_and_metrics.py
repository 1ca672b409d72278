"""Views that follow their table, what a scan came to, and what Spark's own listeners see of a write."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.errors import NotATableError, TidegateError

pytestmark = pytest.mark.spark


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    yield "followed"
    spark.catalog.dropTempView("followed")


def test_a_view_means_the_newest_version_whenever_a_query_is_analysed(
    spark: SparkSession, table: str, name: str
) -> None:
    spark.range(2).write.format("delta").save(table)
    tidegate.view(spark, name, table)
    pinned = spark.table(name)
    assert spark.sql(f"SELECT count(*) FROM {name}").head() == (2,)
    wider = spark.range(2, 3).selectExpr("id", "'x' AS more")
    wider.write.format("delta").mode("append").option("mergeSchema", True).save(table)
    assert spark.sql(f"SELECT id, more FROM {name} ORDER BY id").collect()[-1] == (2, "x")
    assert spark.table(name).count() == 3
    assert spark.read.table(name).count() == 3
    assert pinned.count() == 2


def test_all_scans_of_one_query_see_one_version(spark: SparkSession, table: str, name: str) -> None:
    spark.range(2).write.format("delta").save(table)
    tidegate.view(spark, name, table)
    both = spark.sql(f"SELECT (SELECT count(*) FROM {name}) AS a, count(*) AS b FROM {name}")
    spark.range(5).write.format("delta").mode("append").save(table)
    assert both.head() == (2, 2)
    assert {m.version for m in tidegate.scan_metrics(both)} == {0}


def test_a_view_over_the_view_follows_too(spark: SparkSession, table: str, name: str) -> None:
    spark.range(2).write.format("delta").save(table)
    tidegate.view(spark, name, table)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW outer_{name} AS SELECT id + 1 AS next FROM {name}")
    spark.range(1).write.format("delta").mode("append").save(table)
    assert spark.sql(f"SELECT count(*) FROM outer_{name}").head() == (3,)
    spark.catalog.dropTempView(f"outer_{name}")


def test_a_view_that_was_replaced_or_dropped_is_let_go(spark: SparkSession, table: str, name: str) -> None:
    spark.range(2).write.format("delta").save(table)
    tidegate.view(spark, name, table)
    spark.range(7).createOrReplaceTempView(name)
    spark.range(1).write.format("delta").mode("append").save(table)
    assert spark.table(name).count() == 7
    tidegate.view(spark, name, table)
    spark.catalog.dropTempView(name)
    spark.range(1).write.format("delta").mode("append").save(table)
    spark.sql("SELECT 1").collect()
    assert not spark.catalog.tableExists(name)


def test_a_view_whose_table_is_gone_hinders_no_other_query(
    spark: SparkSession, table: str, name: str
) -> None:
    spark.range(2).write.format("delta").save(table)
    tidegate.view(spark, name, table)
    assert spark.sql(f"SELECT count(*) FROM {name}").head() == (2,)
    shutil.rmtree(table)
    assert spark.sql("SELECT 1").head() == (1,)
    with pytest.raises(TidegateError):
        spark.sql(f"SELECT * FROM {name}").collect()


def test_a_view_of_what_is_not_a_table_is_refused(spark: SparkSession, table: str, name: str) -> None:
    with pytest.raises(NotATableError):
        tidegate.view(spark, name, table)
    assert not spark.catalog.tableExists(name)


def test_metrics_tell_the_files_considered_pruned_and_read(spark: SparkSession, table: str) -> None:
    for start in range(0, 40, 10):
        frame = spark.range(start, start + 10, 1, 1).selectExpr("id", "id % 2 AS p")
        frame.write.format("delta").mode("append").partitionBy("p").save(table)
    table_frame = spark.read.format("delta").load(table)
    (metrics,) = tidegate.scan_metrics(table_frame.where("id BETWEEN 12 AND 14 AND p = 0"))
    assert (metrics.table, metrics.version) == (table, 3)
    assert (metrics.files_considered, metrics.files_pruned, metrics.files_read) == (8, 7, 1)
    assert metrics.bytes_read > 0
    joined = table_frame.where("id < 10").alias("a").join(table_frame.where("id >= 30").alias("b"), "p")
    joined.collect()
    assert sorted(m.files_read for m in tidegate.scan_metrics(joined)) == [2, 2]
    assert tidegate.scan_metrics(spark.range(3)) == []


def test_dynamic_pruning_counts_as_pruned_once_the_query_has_run(spark: SparkSession, table: str) -> None:
    frame = spark.range(8).selectExpr("id", "id AS p")
    frame.write.format("delta").partitionBy("p").save(table)
    few = spark.range(2).selectExpr("id AS k").where("k = 1")
    joined = spark.read.format("delta").load(table).join(few.hint("broadcast"), [F.col("p") == F.col("k")])
    assert [r.id for r in joined.collect()] == [1]
    (metrics,) = tidegate.scan_metrics(joined)
    assert metrics.files_considered == 8
    assert metrics.files_read == 1


def test_a_write_is_one_execution_named_after_the_operation(spark: SparkSession, table: str) -> None:
    store = spark._jsparkSession.sharedState().statusStore()

    def executions() -> list[Any]:
        found = store.executionsList()
        return [found.apply(i) for i in range(found.size())]

    # Spark forgets the oldest when there are many, so their number says nothing.
    before = max((e.executionId() for e in executions()), default=-1)
    spark.range(3).write.format("delta").save(table)
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    seen = [e for e in executions() if e.executionId() > before]
    writes = [e for e in seen if e.executionId() == e.rootExecutionId() and not e.jobs().isEmpty()]
    assert len(writes) == 1
    assert writes[0].description() == "WRITE"
    assert writes[0].completionTime().isDefined()
    assert writes[0].errorMessage().isEmpty() or writes[0].errorMessage().get() == ""


class _Listener:
    """Spark's QueryExecutionListener, answered in Python."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.failed: list[str] = []

    def onSuccess(self, name: str, _execution: object, _nanos: int) -> None:
        self.ended.append(name)

    def onFailure(self, name: str, _execution: object, _error: object) -> None:
        self.failed.append(name)

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


def test_a_listener_of_the_session_sees_a_write_end(spark: SparkSession, table: str) -> None:
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)
    listener = _Listener()
    manager = spark._jsparkSession.listenerManager()
    manager.register(listener)
    try:
        spark.range(3).write.format("delta").save(table)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        manager.unregister(listener)
    assert listener.ended.count("WRITE") == 1
    assert listener.failed == []


def test_sessions_derived_from_an_enabled_one_are_enabled(spark: SparkSession, table: str) -> None:
    other = spark.newSession()
    other.range(2).write.format("delta").save(table)
    assert other.read.format("delta").load(table).count() == 2
    tidegate.view(other, "in_other", table)
    assert other.sql("SELECT count(*) FROM in_other").head() == (2,)
    assert not spark.catalog.tableExists("in_other")
