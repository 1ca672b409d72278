"""The behaviours of commands, over Spark Connect: the tests of ``tests/spark`` on a Connect client.

Here each of their files is one test; what it says of a failure is what the test itself said.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.connect_suite import BEHAVIOURS, CLASSIC_ONLY
from support.peers import require_peer

pytestmark = pytest.mark.spark


@dataclass
class Outcome:
    """What became of the tests of one file."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, root: Path, deep: bool) -> dict[str, Outcome]:
    """The outcome of each file, of one run of all of them."""
    require_peer("grpc")
    folder = tmp_path_factory.mktemp("behaviours")
    chosen = [
        f"tests/spark/{file}" if name is None else f"tests/spark/{file}::{name}"
        for file, names in BEHAVIOURS.items()
        for name in ((None,) if deep else names)
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
    environment["TIDEGATE_TEST_CONNECT"] = "1"
    report = folder / "report.xml"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen, "-q", "-p", "no:cacheprovider", f"--junitxml={report}"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    found: dict[str, Outcome] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        outcome = found.setdefault(case.get("classname", "").rpartition(".")[2] + ".py", Outcome())
        wrong = [*case.iter("failure"), *case.iter("error")]
        if wrong:
            outcome.failed[case.get("name", "")] = wrong[0].text or wrong[0].get("message", "")
        elif case.find("skipped") is None:
            outcome.passed.append(case.get("name", ""))
    missing = [file for file, names in BEHAVIOURS.items() if (deep or names) and file not in found]
    assert not missing, f"nothing ran of {missing}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return found


@pytest.mark.parametrize(
    "file", [pytest.param(f, marks=() if names else pytest.mark.deep) for f, names in BEHAVIOURS.items()]
)
def test_behaves_over_connect_as_on_a_classic_session(outcomes: dict[str, Outcome], file: str) -> None:
    outcome = outcomes[file]
    assert outcome.failed == {}
    assert outcome.passed, "a file of which nothing ran proves nothing"


def test_every_exception_names_a_test_that_is_there(root: Path) -> None:
    listed = {*CLASSIC_ONLY, *(f"{file}::{name}" for file, names in BEHAVIOURS.items() for name in names)}
    there = {
        f"{path.name}::{name}"
        for path in (root / "tests" / "spark").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert listed - there == set()
