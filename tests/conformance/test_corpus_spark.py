"""Every table of the corpus, read through Spark: rows of every version, and every refusal by its code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = [pytest.mark.corpus, pytest.mark.spark]


def _tool(corpus: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("corpus_check", corpus / "tools" / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The corpus tool opens its files without closing them.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_table_reads_as_its_writer_meant_it(corpus: Path) -> None:
    from conformance.spark_adapter import SparkAdapter

    tool = _tool(corpus)
    adapter = SparkAdapter()
    wrong, passed = [], 0
    for name, path, expected in tool.cases(str(corpus / "open"), set()):
        for check, verdict, detail in tool.checks(
            adapter, path, expected, {"read", "version", "error", "cdf"}
        ):
            if verdict == "FAIL":
                wrong.append(f"{name} [{check}] {detail}")
            else:
                passed += 1
    assert wrong == []
    assert passed > 800
