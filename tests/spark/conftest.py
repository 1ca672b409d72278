"""The shared Spark session for everything below this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.session import shared_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A path where no table is yet."""
    return str(tmp_path / "table")


@pytest.fixture
def rows(spark: SparkSession) -> Callable[[str, str], list[tuple[object, ...]]]:
    """The rows of the table at a path, sorted, for an optional filter."""

    def read(path: str, where: str = "true") -> list[tuple[object, ...]]:
        return sorted(tuple(r) for r in spark.read.format("delta").load(path).where(where).collect())

    return read
