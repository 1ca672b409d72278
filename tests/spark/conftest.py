"""The shared Spark session for everything below this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.connect_suite import CLASSIC_ONLY
from support.session import CONNECT, shared_session

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)
    if CONNECT:
        for item in items:
            name = getattr(item, "originalname", item.name)
            reason = CLASSIC_ONLY.get(f"{item.path.name}::{name}")
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=f"classic sessions alone: {reason}"))


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
