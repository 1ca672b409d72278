"""The door of SQL: what reaches Spark untouched, what enabling hangs up, what disabling takes down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import ArithmeticException, DateTimeException, NumberFormatException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.catalog import Catalog
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

import tidegate
from support.sql_grammar import ELSEWHERE, about
from tidegate.doors import is_enabled
from tidegate.errors import TidegateError

pytestmark = pytest.mark.spark
CLASSES = (
    SparkSession,
    Catalog,
    DataFrameReader,
    DataFrameWriter,
    DataFrameWriterV2,
    DataStreamReader,
    DataStreamWriter,
)


def _methods() -> dict[tuple[type, str], Any]:
    return {(cls, name): value for cls in CLASSES for name, value in vars(cls).items()}


def _is_pysparks(method: Any) -> bool:
    code = getattr(method, "__code__", None)
    return code is None or "pyspark" in code.co_filename


@pytest.fixture
def disabled(spark: SparkSession) -> Iterator[SparkSession]:
    tidegate.disable(spark)
    yield spark
    tidegate.enable(spark)


def test_a_session_that_is_not_enabled_has_pysparks_own_methods(disabled: SparkSession) -> None:
    assert [k for k, m in _methods().items() if not _is_pysparks(m)] == []
    assert not is_enabled(disabled)
    assert "_tidegate" not in vars(disabled.read)


def test_enabling_twice_is_harmless_and_disabling_puts_everything_back(disabled: SparkSession) -> None:
    before = _methods()
    tidegate.enable(disabled)
    once = _methods()
    hooked = {k for k in once if once[k] is not before.get(k)}
    assert (SparkSession, "sql") in hooked
    assert all(name not in ("__dict__", "__doc__") for _, name in hooked)
    tidegate.enable(disabled)
    assert _methods() == once
    tidegate.disable(disabled)
    assert _methods() == before
    tidegate.disable(disabled)
    assert _methods() == before


def test_a_hook_of_somebody_else_over_ours_survives_disabling(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = SparkSession.sql

    def theirs(self: Any, *args: Any, **kwargs: Any) -> Any:
        return ours(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(SparkSession, "sql", theirs)
        tidegate.disable(spark)
        assert SparkSession.sql is theirs
        assert spark.sql("SELECT 1").head()[0] == 1
    tidegate.enable(spark)
    assert SparkSession.sql is ours


class _Spy:
    """Stands where PySpark's own ``sql`` does, and notes what arrives."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def method(self) -> Any:
        def sql(session: Any, *args: Any, **kwargs: Any) -> str:
            self.calls.append((*args, *kwargs.items()))
            return "answered"

        return sql


@pytest.fixture
def spied(spark: SparkSession) -> Iterator[_Spy]:
    spy = _Spy()
    tidegate.disable(spark)
    # Spark's own method is replaced below our hook, and put back before the hook is.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSession, "sql", spy.method())
        tidegate.enable(spark)
        yield spy
        tidegate.disable(spark)
    tidegate.enable(spark)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(ELSEWHERE, st.sampled_from([None, {"p": 1}, ["x"]]))
def test_a_statement_that_does_not_speak_of_delta_reaches_spark_byte_for_byte(
    spark: SparkSession, spied: _Spy, text: str, args: Any
) -> None:
    spied.calls.clear()
    assert spark.sql(text, args) == "answered"
    assert spied.calls == [(text,) if args is None else (text, args)]


@pytest.fixture(scope="module")
def garbled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    name = f"delta.`{tmp_path_factory.mktemp('garbled') / 't'}`"
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'x')")
    return name


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.data())
def test_a_statement_about_a_delta_table_is_done_or_refused_by_an_error_of_ours(
    spark: SparkSession, garbled: str, data: st.DataObject
) -> None:
    text = data.draw(about(garbled))
    # What only the data shows (a text that is no number) is Spark's to say.
    with contextlib.suppress(TidegateError, ArithmeticException, DateTimeException, NumberFormatException):
        assert spark.sql(text).schema is not None


def test_parameters_that_are_no_literals_reach_spark(spark: SparkSession, table: str) -> None:
    assert spark.sql("SELECT :a[1] AS n", {"a": F.array(F.lit(1), F.lit(2))}).head().n == 2
    spark.sql(f"CREATE TABLE delta.`{table}` (id INT) USING delta")
    with pytest.raises(TidegateError, match="parameter"):
        spark.sql(f"DELETE FROM delta.`{table}` WHERE id = :a", {"a": F.lit(1)})


def test_frames_in_the_text_stand_in_statements_and_queries(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta")
    rows = spark.range(3).selectExpr("id", "concat('v', id) AS v")
    spark.sql("INSERT INTO " + name + " SELECT * FROM {rows}", rows=rows)
    merged = spark.sql(
        "MERGE INTO " + name + " t USING {rows} s ON t.id = s.id WHEN MATCHED AND s.id = {n} THEN DELETE",
        rows=rows,
        n=1,
    )
    assert merged.head()["num_deleted_rows"] == 1
    found = spark.sql(
        "SELECT t.id FROM " + name + "@v1 t JOIN {rows} r USING (id) WHERE t.v > {w}", rows=rows, w="v0"
    )
    assert sorted(r.id for r in found.collect()) == [1, 2]
    assert spark.sql("SELECT count(*) AS n FROM {rows}", rows=rows).head().n == 3
    assert not any(t.name.startswith("_pyspark") for t in spark.catalog.listTables())
