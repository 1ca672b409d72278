"""The error classes that we call Delta's are Delta's: read from its library, and nothing is run."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.delta_spark import delta_spark_home

pytestmark = [pytest.mark.peers]

_NAME = re.compile(r'"(DELTA_[A-Z_]+)(?:\.([A-Z_]+))?"')


def _theirs() -> dict[str, Any]:
    jar = next(delta_spark_home().glob("jars/delta-spark_*.jar"))
    with zipfile.ZipFile(jar) as opened:
        found: dict[str, Any] = json.loads(opened.read("error/delta-error-classes.json"))
    return found


def _ours() -> set[tuple[str, str | None]]:
    root = Path(tidegate.__file__).parent
    found = {m.groups() for p in root.rglob("*.py") for m in _NAME.finditer(p.read_text())}
    return {(name, narrower) for name, narrower in found}


def test_every_class_that_we_name_is_one_of_deltas() -> None:
    theirs = _theirs()
    assert len(theirs) > 300
    assert sorted(name for name, _ in _ours() if name not in theirs) == []


def test_what_stands_behind_a_dot_is_a_narrower_class_of_it() -> None:
    theirs = _theirs()
    wrong = {n: s for n, s in _ours() if s is not None and s not in theirs.get(n, {}).get("subClass", {})}
    assert wrong == {}
