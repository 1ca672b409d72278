"""Sessions of one context are enabled one by one: what one may do leaves the others as PySpark made them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import tidegate
from support.streams import PATIENCE
from tidegate.doors import is_enabled

pytestmark = pytest.mark.spark

Use = Callable[[SparkSession, str, str], Any]
# A format that Spark does not know is refused by an exception that PySpark has no class for.
SPARKS = (PySparkException, Py4JJavaError)


def _beside(spark: SparkSession) -> SparkSession:
    """Another session of the same context, which nobody derived from an enabled one."""
    return SparkSession(spark.sparkContext, spark._jsparkSession.newSession())


@pytest.fixture
def plain(spark: SparkSession) -> SparkSession:
    return _beside(spark)


@pytest.fixture
def named(spark: SparkSession, table: str) -> Iterator[str]:
    """A table of the catalog that both sessions share."""
    spark.range(3).write.format("delta").option("path", table).saveAsTable("side_by_side")
    yield "side_by_side"
    spark.sql("DROP TABLE side_by_side")


@pytest.fixture
def own(spark: SparkSession, tmp_path: Any) -> Iterator[str]:
    """A table of Spark's own kind."""
    spark.range(2).write.format("parquet").option("path", str(tmp_path / "own")).saveAsTable("parquet_beside")
    yield "parquet_beside"
    spark.sql("DROP TABLE parquet_beside")


def _stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


USES: dict[str, Use] = {
    "read": lambda s, path, name: s.read.format("delta").load(path),
    "read by the last word": lambda s, path, name: s.read.load(path, format="delta"),
    "write": lambda s, path, name: s.range(1).write.format("delta").mode("append").save(path),
    "save as table": lambda s, path, name: s.range(1).write.format("delta").saveAsTable("another"),
    "write to": lambda s, path, name: s.range(1).writeTo("another").using("delta").create(),
    "read a stream": lambda s, path, name: s.readStream.format("delta").load(path),
    "start a stream": lambda s, path, name: (
        _stream(s).writeStream.format("delta").option("checkpointLocation", f"{path}_c").start(path)
    ),
    "a path in a query": lambda s, path, name: s.sql(f"SELECT * FROM delta.`{path}`"),
    "a version in a query": lambda s, path, name: s.sql(f"SELECT * FROM {name} VERSION AS OF 0"),
    "a statement of delta": lambda s, path, name: s.sql(f"OPTIMIZE {name}"),
    "a change by name": lambda s, path, name: s.sql(f"DELETE FROM {name}"),
    "a name in a query": lambda s, path, name: s.sql(f"SELECT * FROM {name}").collect(),
    "a name": lambda s, path, name: s.table(name).collect(),
    "a name with an option": lambda s, path, name: s.read.option("versionAsOf", 0).table(name).collect(),
    "insert into": lambda s, path, name: s.range(1).write.insertInto(name),
    "an index table": lambda s, path, name: s.read.format("indextables").load(path),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_beside_an_enabled_session_another_has_sparks_own_answers(
    spark: SparkSession, plain: SparkSession, table: str, named: str, use: Use
) -> None:
    with pytest.raises(SPARKS) as beside:
        use(plain, table, named)
    tidegate.disable(spark)
    try:
        with pytest.raises(SPARKS) as alone:
            use(_beside(spark), table, named)
    finally:
        tidegate.enable(spark)
    assert not isinstance(beside.value, tidegate.errors.TidegateError)
    assert _said(beside.value) == _said(alone.value)
    assert tidegate.open(table).version == 0


def _said(error: Any) -> tuple[type, str]:
    """The kind of an exception of Spark's, and the condition that it names."""
    if isinstance(error, PySparkException):
        return type(error), str(error.getCondition())
    return type(error), str(error.java_exception.getMessage()).split(" ")[0]


def test_what_is_sparks_own_goes_on_in_a_session_that_is_not_enabled(
    spark: SparkSession, plain: SparkSession, own: str, named: str
) -> None:
    assert not is_enabled(plain)
    assert is_enabled(spark)
    reader, writer = plain.read.format("json"), plain.range(1).write.format("json").mode("append")
    assert all("_tidegate" not in vars(noted) for noted in (reader, writer, plain.range(1).writeTo("x")))
    assert plain.sql("SELECT :n + {m} AS x", {"n": 1}, m=2).collect() == [(3,)]
    assert plain.table(own).count() == 2
    plain.range(1).write.insertInto(own)
    assert plain.sql(f"SELECT count(*) FROM {own}").collect() == [(3,)]
    assert [c.name for c in plain.catalog.listColumns(own)] == ["id"]
    # The catalog holds no copy of our schema, and nobody tells it to this session.
    with pytest.raises(SPARKS, match="NOT_FOUND"):
        plain.catalog.listColumns(named)
    assert [c.name for c in spark.catalog.listColumns(named)] == ["id"]


def test_a_view_of_one_session_is_not_seen_by_the_other(
    spark: SparkSession, plain: SparkSession, named: str
) -> None:
    spark.sql(f"CREATE VIEW seen_by_both AS SELECT * FROM {named} VERSION AS OF 0")
    try:
        assert spark.table("seen_by_both").count() == 3
        with pytest.raises(SPARKS, match="NOT_FOUND"):
            plain.table("seen_by_both").collect()
        tidegate.enable(plain)
        assert plain.table("seen_by_both").count() == 3
    finally:
        tidegate.disable(plain)
        spark.sql("DROP VIEW seen_by_both")


def test_a_session_derived_from_an_enabled_one_is_enabled_and_goes_with_it(
    spark: SparkSession, table: str
) -> None:
    spark.range(3).write.format("delta").save(table)
    derived = spark.newSession().newSession()
    assert is_enabled(derived)
    assert derived.read.format("delta").load(table).count() == 3
    tidegate.disable(spark)
    try:
        assert not is_enabled(derived)
        with pytest.raises(SPARKS, match="NOT_FOUND"):
            derived.read.format("delta").load(table)
    finally:
        tidegate.enable(spark)
    assert derived.sql(f"SELECT count(*) FROM delta.`{table}`").collect() == [(3,)]
    tidegate.disable(derived)
    assert not is_enabled(derived)
    assert is_enabled(spark)
    tidegate.enable(derived)
    tidegate.disable(spark)
    try:
        # It was enabled by its own name, not by where it came from.
        assert derived.read.format("delta").load(table).count() == 3
    finally:
        tidegate.enable(spark)
        tidegate.disable(derived)


def test_a_session_derived_from_one_that_is_not_enabled_is_not_either(plain: SparkSession) -> None:
    assert not is_enabled(plain.newSession())


def test_enabling_twice_takes_one_disabling(plain: SparkSession, table: str) -> None:
    tidegate.enable(tidegate.enable(plain))
    plain.range(2).write.format("delta").save(table)
    tidegate.disable(plain)
    with pytest.raises(SPARKS, match="NOT_FOUND"):
        plain.read.format("delta").load(table)
    tidegate.disable(plain)
    assert not is_enabled(plain)


def test_all_objects_of_one_session_are_enabled_with_it(plain: SparkSession, table: str, named: str) -> None:
    other = SparkSession(plain.sparkContext, plain._jsparkSession)
    tidegate.enable(other)
    try:
        plain.range(2).write.format("delta").mode("append").save(table)
        assert plain.table(named).count() == 5
        # The one that was named may go: the session stays enabled, by name and by path.
        del other
        gc.collect()
        assert plain.table(named).count() == 5
        plain.sql(f"CREATE OR REPLACE VIEW follows AS SELECT * FROM delta.`{table}`")
        assert plain.table("follows").count() == 5
    finally:
        plain.sql("DROP VIEW IF EXISTS follows")
        tidegate.disable(plain)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_session_of_a_streams_batches_is_as_the_one_that_started_it(
    spark: SparkSession, plain: SparkSession, table: str, enabled: bool
) -> None:
    origin = spark if enabled else plain
    seen: list[tuple[bool, bool]] = []

    def work(frame: DataFrame, number: int) -> None:
        session = frame.sparkSession
        seen.append((is_enabled(session), is_enabled(session.newSession())))
        if enabled:
            frame.write.format("delta").mode("append").save(table)
            seen.append((session.sql(f"SELECT 1 FROM delta.`{table}`").count() > 0, True))

    source = origin.readStream.schema("id LONG").format("json").load(_json(spark, table))
    writer = source.writeStream.foreachBatch(work).option("checkpointLocation", f"{table}_checkpoint")
    assert writer.trigger(availableNow=True).start().awaitTermination(PATIENCE)
    assert seen
    assert all(found == (enabled, enabled) for found in seen)


def _json(spark: SparkSession, table: str) -> str:
    spark.range(3).write.format("json").save(f"{table}_json")
    return f"{table}_json"


def test_to_ask_whether_a_session_is_enabled_costs_no_call_of_the_jvm(
    spark: SparkSession, plain: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = [spark.read, plain.read]
    assert [is_enabled(s) for s in (spark, plain)] == [True, False]
    sent = []
    client = spark.sparkContext._gateway._gateway_client
    original = type(client).send_command
    monkeypatch.setattr(
        type(client), "send_command", lambda self, *a, **k: (sent.append(a[0]), original(self, *a, **k))[1]
    )
    assert [is_enabled(s) for s in (spark, plain) for _ in range(50)].count(True) == 50
    assert sent == []
    for reader in readers:
        reader.format("json")
        # PySpark's own call, and no other.
        assert len([s for s in sent if "format" in s]) == 1
        assert len(sent) == 1
        sent.clear()


def test_what_is_refused_is_refused_in_the_words_of_its_session(
    spark: SparkSession, plain: SparkSession, named: str
) -> None:
    with pytest.raises(ParseException) as ours:
        spark.sql(f"OPTIMIZE {named} ZORDER id")
    assert isinstance(ours.value, tidegate.errors.SqlSyntaxError)
    with pytest.raises(ParseException) as theirs:
        plain.sql(f"OPTIMIZE {named} ZORDER id")
    assert not isinstance(theirs.value, tidegate.errors.TidegateError)
    with pytest.raises((IllegalArgumentException, AnalysisException)) as option:
        spark.range(1).write.format("delta").partitionBy("id").insertInto(named)
    assert isinstance(option.value, tidegate.errors.OptionError)
