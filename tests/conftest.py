"""What every test may ask for, and the budgets hypothesis works with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.peers import absent

ROOT = Path(__file__).resolve().parent.parent
DEEP = os.environ.get("TIDEGATE_DEEP", "") not in ("", "0")

# Time limits measure the machine, not the code. The default run never varies; the deep one draws anew.
settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "deep",
    derandomize=False,
    deadline=None,
    max_examples=500,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deep" if DEEP else "default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _grows(item):
            item.add_marker(pytest.mark.budget)
        if not DEEP and item.get_closest_marker("deep"):
            item.add_marker(pytest.mark.skip(reason="runs with large budgets only: make test-deep"))


def _grows(item: pytest.Item) -> bool:
    """Whether large budgets make another test of it; all others are the same in a deep run."""
    drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return bool(drawn or item.get_closest_marker("deep") or "deep" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def deep() -> bool:
    """Whether this run has the large budgets."""
    return DEEP


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's own folder."""
    return ROOT


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The conformance corpus: TIDEGATE_CORPUS, else the folder `shared/corpus` beside the project."""
    named = os.environ.get("TIDEGATE_CORPUS")
    path = Path(named) if named else ROOT.parent / "shared" / "corpus"
    if not (path / "MANIFEST.csv").is_file():
        absent(f"the conformance corpus ({path})", "set TIDEGATE_CORPUS to the folder with its MANIFEST.csv")
    return path.resolve()
