"""What leaves a front door is Spark's own kind of exception and ours at once."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    PySparkException,
    UnsupportedOperationException,
)
from pyspark.sql import SparkSession

from tidegate.errors import (
    CommitCorruptError,
    ConcurrentAppendException,
    NotATableError,
    PropertyError,
    SchemaInvalidError,
    TidegateError,
)
from tidegate.spark.analysis import as_spark, door, doors

pytestmark = pytest.mark.spark


@door
def _fails() -> None:
    try:
        raise ValueError("why")
    except ValueError as e:
        raise NotATableError("There is none.", table="/t", version=3, hint="Look again.") from e


def test_an_error_leaves_as_both_and_keeps_what_it_says() -> None:
    with pytest.raises(AnalysisException) as caught:
        _fails()
    error = caught.value
    assert isinstance(error, NotATableError)
    assert (error.table, error.version, error.code) == ("/t", 3, "NOT_A_TABLE")
    assert error.getCondition() == "DELTA_TABLE_NOT_FOUND"
    assert str(error) == "[NOT_A_TABLE] There is none. (table /t, version 3) Look again."
    assert isinstance(error.__cause__, ValueError)
    assert "_fails" in "".join(traceback.format_tb(error.__traceback__))


def test_it_survives_pickling_and_is_dressed_once() -> None:
    dressed = as_spark(PropertyError("No such property.", errorClass="DELTA_UNKNOWN_CONFIGURATION"))
    copy = pickle.loads(pickle.dumps(dressed))
    assert isinstance(copy, PropertyError)
    assert isinstance(copy, AnalysisException)
    assert isinstance(copy, IllegalArgumentException)
    assert as_spark(copy) is copy


def test_what_is_no_mistake_of_the_query_stays_as_it_is() -> None:
    error = CommitCorruptError("A commit cannot be read.")
    assert as_spark(error) is error


def test_a_conflict_is_an_exception_of_spark_and_of_no_narrower_kind() -> None:
    error = as_spark(ConcurrentAppendException("Another writer won."))
    assert isinstance(error, PySparkException)
    assert not isinstance(error, AnalysisException)
    assert error.getCondition() == error.errorClass


def test_the_error_class_decides_beside_our_own_class() -> None:
    plain = as_spark(SchemaInvalidError("Not so."))
    narrow = as_spark(
        SchemaInvalidError("Not so.", errorClass="DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE")
    )
    assert not isinstance(plain, UnsupportedOperationException)
    for error in (narrow, pickle.loads(pickle.dumps(narrow))):
        assert isinstance(error, SchemaInvalidError)
        assert isinstance(error, AnalysisException)
        assert isinstance(error, UnsupportedOperationException)


def test_pysparks_questions_about_an_error_are_answered() -> None:
    error: Any = as_spark(NotATableError("There is none."))
    assert error.getCondition() == "DELTA_TABLE_NOT_FOUND"
    assert (error.getSqlState(), error.getMessageParameters(), error.getBreakingChangeInfo()) == (None,) * 3
    assert error.getQueryContext() == []


def test_every_public_method_of_a_class_is_a_door() -> None:
    @doors
    class Door:
        def method(self) -> None:
            raise NotATableError("no")

        @classmethod
        def of_class(cls) -> None:
            raise NotATableError("no")

        @staticmethod
        def static() -> None:
            raise NotATableError("no")

        def _private(self) -> None:
            raise NotATableError("no")

    for call in (Door().method, Door.of_class, Door.static):
        with pytest.raises(AnalysisException):
            call()
    with pytest.raises(TidegateError) as caught:
        Door()._private()
    assert not isinstance(caught.value, AnalysisException)


def test_the_hooked_methods_of_spark_are_doors(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("delta").load(str(tmp_path / "nothing"))
    assert isinstance(caught.value, NotATableError)
